; Winograd(WinogradCode { isa: Avx512, tile: Two, side: Input(F32) })
; part 1, 625 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rbp,rsp
000d sub rsp,400h
0014 and rsp,0FFFFFFFFFFFFFFC0h
001b mov rax,[rdi]
001e mov rcx,[rdi+10h]
0022 mov r8,[rdi+20h]
0026 mov r10,[rdi+8]
002a mov edx,0
0030 mov rbx,[rdi+28h]
0034 cmp rdx,rbx
0037 jge near 000000000000013Ah
003d mov r12d,0
0043 mov rsi,[rax+r12]
0047 vmovups zmm0,[rsi+rdx]
004e mov rsi,[rax+r12+20h]
0053 vmovups zmm1,[rsi+rdx]
005a mov rsi,[rax+r12+40h]
005f vmovups zmm2,[rsi+rdx]
0066 mov rsi,[rax+r12+60h]
006b vmovups zmm3,[rsi+rdx]
0072 vsubps zmm4,zmm0,zmm2
0078 vmovups [rsp+r12*8],zmm4
007f vaddps zmm5,zmm1,zmm2
0085 vmovups [rsp+r12*8+100h],zmm5
008d vsubps zmm6,zmm2,zmm1
0093 vmovups [rsp+r12*8+200h],zmm6
009b vsubps zmm7,zmm3,zmm1
00a1 vmovups [rsp+r12*8+300h],zmm7
00a9 add r12,8
00ad cmp r12,20h
00b1 jl near 0000000000000043h
00b7 lea r9,[rcx+rdx]
00bb mov r12d,0
00c1 vmovups zmm0,[rsp+r12*8]
00c8 vmovups zmm1,[rsp+r12*8+40h]
00d0 vmovups zmm2,[rsp+r12*8+80h]
00d8 vmovups zmm3,[rsp+r12*8+0C0h]
00e0 vsubps zmm4,zmm0,zmm2
00e6 vmovups [r9],zmm4
00ec add r9,r8
00ef vaddps zmm5,zmm1,zmm2
00f5 vmovups [r9],zmm5
00fb add r9,r8
00fe vsubps zmm6,zmm2,zmm1
0104 vmovups [r9],zmm6
010a add r9,r8
010d vsubps zmm7,zmm3,zmm1
0113 vmovups [r9],zmm7
0119 add r9,r8
011c add r12,20h
0120 cmp r12,80h
0127 jl near 00000000000000C1h
012d add rdx,40h
0131 cmp rdx,rbx
0134 jl near 000000000000003Dh
013a mov r11,[rdi+30h]
013e test r11,r11
0141 je near 0000000000000247h
0147 xor r12d,r12d
014a bts r12,r11
014e sub r12d,1
0152 kmovw k1,r12d
0157 mov r12d,0
015d mov rsi,[rax+r12]
0161 vmovups zmm0{k1}{z},[rsi+rdx]
0168 mov rsi,[rax+r12+20h]
016d vmovups zmm1{k1}{z},[rsi+rdx]
0174 mov rsi,[rax+r12+40h]
0179 vmovups zmm2{k1}{z},[rsi+rdx]
0180 mov rsi,[rax+r12+60h]
0185 vmovups zmm3{k1}{z},[rsi+rdx]
018c vsubps zmm4,zmm0,zmm2
0192 vmovups [rsp+r12*8],zmm4
0199 vaddps zmm5,zmm1,zmm2
019f vmovups [rsp+r12*8+100h],zmm5
01a7 vsubps zmm6,zmm2,zmm1
01ad vmovups [rsp+r12*8+200h],zmm6
01b5 vsubps zmm7,zmm3,zmm1
01bb vmovups [rsp+r12*8+300h],zmm7
01c3 add r12,8
01c7 cmp r12,20h
01cb jl near 000000000000015Dh
01d1 lea r9,[rcx+rdx]
01d5 mov r12d,0
01db vmovups zmm0,[rsp+r12*8]
01e2 vmovups zmm1,[rsp+r12*8+40h]
01ea vmovups zmm2,[rsp+r12*8+80h]
01f2 vmovups zmm3,[rsp+r12*8+0C0h]
01fa vsubps zmm4,zmm0,zmm2
0200 vmovups [r9],zmm4
0206 add r9,r8
0209 vaddps zmm5,zmm1,zmm2
020f vmovups [r9],zmm5
0215 add r9,r8
0218 vsubps zmm6,zmm2,zmm1
021e vmovups [r9],zmm6
0224 add r9,r8
0227 vsubps zmm7,zmm3,zmm1
022d vmovups [r9],zmm7
0233 add r9,r8
0236 add r12,20h
023a cmp r12,80h
0241 jl near 00000000000001DBh
0247 add rax,80h
024e add rcx,[rdi+18h]
0252 sub r10,1
0256 cmp r10,0
025a jg near 000000000000002Ah
0260 mov rsp,rbp
0263 pop r15
0265 pop r14
0267 pop r13
0269 pop r12
026b pop rbp
026c pop rbx
026d vzeroupper
0270 ret
