; Widen(WidenCode { isa: Avx512 })
; part 0, 189 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi]
000d mov rdx,[rdi+8]
0011 mov rcx,[rdi+10h]
0015 test rcx,rcx
0018 je near 0000000000000081h
001e prefetcht0 [rsi+800h]
0027 vcvtph2ps zmm0,[rsi]
002d vmovups [rdx],zmm0
0033 vcvtph2ps zmm0,[rsi+20h]
003a vmovups [rdx+40h],zmm0
0041 prefetcht0 [rsi+840h]
004a vcvtph2ps zmm0,[rsi+40h]
0051 vmovups [rdx+80h],zmm0
0058 vcvtph2ps zmm0,[rsi+60h]
005f vmovups [rdx+0C0h],zmm0
0066 add rsi,80h
006d add rdx,100h
0074 sub rcx,1
0078 test rcx,rcx
007b jne near 000000000000001Eh
0081 mov rcx,[rdi+18h]
0085 test rcx,rcx
0088 je near 00000000000000AFh
008e vcvtph2ps zmm0,[rsi]
0094 vmovups [rdx],zmm0
009a add rsi,20h
009e add rdx,40h
00a2 sub rcx,1
00a6 test rcx,rcx
00a9 jne near 000000000000008Eh
00af pop r15
00b1 pop r14
00b3 pop r13
00b5 pop r12
00b7 pop rbp
00b8 pop rbx
00b9 vzeroupper
00bc ret
