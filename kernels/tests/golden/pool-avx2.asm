; Pool(PoolCode { isa: Avx2, collect: Sum, stored: F32 })
; part 0, 672 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi]
000d mov rdx,[rdi+8]
0011 mov r14,[rdi+18h]
0015 mov r13,[rdi+50h]
0019 mov r12,[rdi+58h]
001d vpbroadcastd ymm9,[rdi+60h]
0023 mov rcx,[rdi+10h]
0027 cmp rcx,20h
002b jl near 000000000000010Eh
0031 vxorps ymm0,ymm0,ymm0
0036 vxorps ymm1,ymm1,ymm1
003b vxorps ymm2,ymm2,ymm2
0040 vxorps ymm3,ymm3,ymm3
0045 mov r8,rsi
0048 mov r10,[rdi+30h]
004c mov r9,r8
004f mov r11,[rdi+38h]
0053 mov rax,r9
0056 mov rbx,[rdi+40h]
005a vxorps ymm4,ymm4,ymm4
005f vxorps ymm5,ymm5,ymm5
0064 vxorps ymm6,ymm6,ymm6
0069 vxorps ymm7,ymm7,ymm7
006e xchg ax,ax
0070 vaddps ymm4,ymm4,[rax]
0075 vaddps ymm5,ymm5,[rax+20h]
007b vaddps ymm6,ymm6,[rax+40h]
0081 vaddps ymm7,ymm7,[rax+60h]
0087 add rax,r12
008a sub rbx,1
008e test rbx,rbx
0091 jne near 0000000000000070h
0097 vaddps ymm0,ymm0,ymm4
009c vaddps ymm1,ymm1,ymm5
00a1 vaddps ymm2,ymm2,ymm6
00a6 vaddps ymm3,ymm3,ymm7
00ab add r9,r13
00ae sub r11,1
00b2 test r11,r11
00b5 jne near 0000000000000053h
00bb add r8,[rdi+48h]
00bf sub r10,1
00c3 test r10,r10
00c6 jne near 000000000000004Ch
00cc vmulps ymm0,ymm0,ymm9
00d1 vmovups [rdx],ymm0
00d6 vmulps ymm1,ymm1,ymm9
00db vmovups [rdx+20h],ymm1
00e1 vmulps ymm2,ymm2,ymm9
00e6 vmovups [rdx+40h],ymm2
00ec vmulps ymm3,ymm3,ymm9
00f1 vmovups [rdx+60h],ymm3
00f7 add rsi,80h
00fe add rdx,80h
0105 sub rcx,20h
0109 jmp 0000000000000027h
010e cmp rcx,8
0112 jl near 0000000000000196h
0118 vxorps ymm0,ymm0,ymm0
011d mov r8,rsi
0120 mov r10,[rdi+30h]
0124 mov r9,r8
0127 mov r11,[rdi+38h]
012b mov rax,r9
012e mov rbx,[rdi+40h]
0132 vxorps ymm4,ymm4,ymm4
0137 nop word [rax+rax]
0140 vaddps ymm4,ymm4,[rax]
0145 add rax,r12
0148 sub rbx,1
014c test rbx,rbx
014f jne near 0000000000000140h
0155 vaddps ymm0,ymm0,ymm4
015a add r9,r13
015d sub r11,1
0161 test r11,r11
0164 jne near 000000000000012Bh
016a add r8,[rdi+48h]
016e sub r10,1
0172 test r10,r10
0175 jne near 0000000000000124h
017b vmulps ymm0,ymm0,ymm9
0180 vmovups [rdx],ymm0
0185 add rsi,20h
0189 add rdx,20h
018d sub rcx,8
0191 jmp 000000000000010Eh
0196 test rcx,rcx
0199 je near 0000000000000232h
019f vmovd xmm15,ecx
01a4 vpbroadcastd ymm15,xmm15
01a9 vpcmpgtd ymm15,ymm15,[rel 280h]
01b2 vxorps ymm0,ymm0,ymm0
01b7 mov r8,rsi
01ba mov r10,[rdi+30h]
01be mov r9,r8
01c1 mov r11,[rdi+38h]
01c5 mov rax,r9
01c8 mov rbx,[rdi+40h]
01cc vxorps ymm4,ymm4,ymm4
01d1 nop word [rax+rax]
01da nop word [rax+rax]
01e0 vmaskmovps ymm8,ymm15,[rax]
01e5 vaddps ymm4,ymm4,ymm8
01ea add rax,r12
01ed sub rbx,1
01f1 test rbx,rbx
01f4 jne near 00000000000001E0h
01fa vaddps ymm0,ymm0,ymm4
01ff add r9,r13
0202 sub r11,1
0206 test r11,r11
0209 jne near 00000000000001C5h
020f add r8,[rdi+48h]
0213 sub r10,1
0217 test r10,r10
021a jne near 00000000000001BEh
0220 vmulps ymm0,ymm0,ymm9
0225 vmaskmovps [rdx],ymm15,ymm0
022a lea rsi,[rsi+rcx*4]
022e lea rdx,[rdx+rcx*4]
0232 add rsi,[rdi+20h]
0236 add rdx,[rdi+28h]
023a sub r14,1
023e test r14,r14
0241 jne near 0000000000000023h
0247 pop r15
0249 pop r14
024b pop r13
024d pop r12
024f pop rbp
0250 pop rbx
0251 vzeroupper
0254 ret
0255 nop word [rax+rax]
025e nop word [rax+rax]
0267 nop word [rax+rax]
0270 nop word [rax+rax]
0279 nop dword [rax]
; [00, 00, 00, 00]
; [01, 00, 00, 00]
; [02, 00, 00, 00]
; [03, 00, 00, 00]
; [04, 00, 00, 00]
; [05, 00, 00, 00]
; [06, 00, 00, 00]
; [07, 00, 00, 00]
