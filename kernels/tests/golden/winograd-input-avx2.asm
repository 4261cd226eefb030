; Winograd(WinogradCode { isa: Avx2, tile: Two, side: Input(F32) })
; part 1, 672 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rbp,rsp
000d sub rsp,200h
0014 and rsp,0FFFFFFFFFFFFFFE0h
001b mov rax,[rdi]
001e mov rcx,[rdi+10h]
0022 mov r8,[rdi+20h]
0026 mov r10,[rdi+8]
002a mov edx,0
0030 mov rbx,[rdi+28h]
0034 cmp rdx,rbx
0037 jge near 000000000000012Bh
003d mov r12d,0
0043 mov rsi,[rax+r12]
0047 vmovups ymm0,[rsi+rdx]
004d mov rsi,[rax+r12+20h]
0052 vmovups ymm1,[rsi+rdx]
0058 mov rsi,[rax+r12+40h]
005d vmovups ymm2,[rsi+rdx]
0063 mov rsi,[rax+r12+60h]
0068 vmovups ymm3,[rsi+rdx]
006e vsubps ymm4,ymm0,ymm2
0073 vmovups [rsp+r12*4],ymm4
0079 vaddps ymm5,ymm1,ymm2
007e vmovups [rsp+r12*4+80h],ymm5
0088 vsubps ymm6,ymm2,ymm1
008d vmovups [rsp+r12*4+100h],ymm6
0097 vsubps ymm7,ymm3,ymm1
009c vmovups [rsp+r12*4+180h],ymm7
00a6 add r12,8
00aa cmp r12,20h
00ae jl near 0000000000000043h
00b4 lea r9,[rcx+rdx]
00b8 mov r12d,0
00be vmovups ymm0,[rsp+r12*4]
00c4 vmovups ymm1,[rsp+r12*4+20h]
00cb vmovups ymm2,[rsp+r12*4+40h]
00d2 vmovups ymm3,[rsp+r12*4+60h]
00d9 vsubps ymm4,ymm0,ymm2
00de vmovups [r9],ymm4
00e3 add r9,r8
00e6 vaddps ymm5,ymm1,ymm2
00eb vmovups [r9],ymm5
00f0 add r9,r8
00f3 vsubps ymm6,ymm2,ymm1
00f8 vmovups [r9],ymm6
00fd add r9,r8
0100 vsubps ymm7,ymm3,ymm1
0105 vmovups [r9],ymm7
010a add r9,r8
010d add r12,20h
0111 cmp r12,80h
0118 jl near 00000000000000BEh
011e add rdx,20h
0122 cmp rdx,rbx
0125 jl near 000000000000003Dh
012b mov r11,[rdi+30h]
012f test r11,r11
0132 je near 000000000000022Ch
0138 vmovd xmm15,r11d
013d vpbroadcastd ymm15,xmm15
0142 vpcmpgtd ymm15,ymm15,[rel 280h]
014b mov r12d,0
0151 mov rsi,[rax+r12]
0155 vmaskmovps ymm0,ymm15,[rsi+rdx]
015b mov rsi,[rax+r12+20h]
0160 vmaskmovps ymm1,ymm15,[rsi+rdx]
0166 mov rsi,[rax+r12+40h]
016b vmaskmovps ymm2,ymm15,[rsi+rdx]
0171 mov rsi,[rax+r12+60h]
0176 vmaskmovps ymm3,ymm15,[rsi+rdx]
017c vsubps ymm4,ymm0,ymm2
0181 vmovups [rsp+r12*4],ymm4
0187 vaddps ymm5,ymm1,ymm2
018c vmovups [rsp+r12*4+80h],ymm5
0196 vsubps ymm6,ymm2,ymm1
019b vmovups [rsp+r12*4+100h],ymm6
01a5 vsubps ymm7,ymm3,ymm1
01aa vmovups [rsp+r12*4+180h],ymm7
01b4 add r12,8
01b8 cmp r12,20h
01bc jl near 0000000000000151h
01c2 lea r9,[rcx+rdx]
01c6 mov r12d,0
01cc vmovups ymm0,[rsp+r12*4]
01d2 vmovups ymm1,[rsp+r12*4+20h]
01d9 vmovups ymm2,[rsp+r12*4+40h]
01e0 vmovups ymm3,[rsp+r12*4+60h]
01e7 vsubps ymm4,ymm0,ymm2
01ec vmovups [r9],ymm4
01f1 add r9,r8
01f4 vaddps ymm5,ymm1,ymm2
01f9 vmovups [r9],ymm5
01fe add r9,r8
0201 vsubps ymm6,ymm2,ymm1
0206 vmovups [r9],ymm6
020b add r9,r8
020e vsubps ymm7,ymm3,ymm1
0213 vmovups [r9],ymm7
0218 add r9,r8
021b add r12,20h
021f cmp r12,80h
0226 jl near 00000000000001CCh
022c add rax,80h
0233 add rcx,[rdi+18h]
0237 sub r10,1
023b cmp r10,0
023f jg near 000000000000002Ah
0245 mov rsp,rbp
0248 pop r15
024a pop r14
024c pop r13
024e pop r12
0250 pop rbp
0251 pop rbx
0252 vzeroupper
0255 ret
0256 nop word [rax+rax]
025f nop word [rax+rax]
0268 nop word [rax+rax]
0271 nop word [rax+rax]
027a nop word [rax+rax]
; [00, 00, 00, 00]
; [01, 00, 00, 00]
; [02, 00, 00, 00]
; [03, 00, 00, 00]
; [04, 00, 00, 00]
; [05, 00, 00, 00]
; [06, 00, 00, 00]
; [07, 00, 00, 00]
