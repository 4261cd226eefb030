; Widen(WidenCode { isa: Avx2 })
; part 0, 174 bytes
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
0018 je near 0000000000000072h
001e prefetcht0 [rsi+800h]
0027 vcvtph2ps ymm0,[rsi]
002e vmovups [rdx],ymm0
0033 vcvtph2ps ymm0,[rsi+10h]
003a vmovups [rdx+20h],ymm0
0040 vcvtph2ps ymm0,[rsi+20h]
0047 vmovups [rdx+40h],ymm0
004d vcvtph2ps ymm0,[rsi+30h]
0054 vmovups [rdx+60h],ymm0
005a add rsi,40h
005e add rdx,80h
0065 sub rcx,1
0069 test rcx,rcx
006c jne near 000000000000001Eh
0072 mov rcx,[rdi+18h]
0076 test rcx,rcx
0079 je near 00000000000000A0h
007f vcvtph2ps ymm0,[rsi]
0086 vmovups [rdx],ymm0
008b add rsi,10h
008f add rdx,20h
0093 sub rcx,1
0097 test rcx,rcx
009a jne near 000000000000007Fh
00a0 pop r15
00a2 pop r14
00a4 pop r13
00a6 pop r12
00a8 pop rbp
00a9 pop rbx
00aa vzeroupper
00ad ret
