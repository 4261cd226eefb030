; Lookup(LookupCode { isa: Avx512, form: Halves })
; part 0, 196 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi]
000d mov rdx,[rdi+8]
0011 mov r8,[rdi+10h]
0015 mov rcx,[rdi+18h]
0019 vmovups zmm0,[r8]
001f vmovups zmm1,[r8+40h]
0026 vmovups zmm2,[r8+80h]
002d vmovups zmm3,[r8+0C0h]
0034 vbroadcastss zmm4,[rel 0C0h]
003e xchg ax,ax
0040 vmovups zmm5,[rsi]
0046 vmovups zmm6,zmm5
004c vpermi2b zmm6,zmm0,zmm1
0052 vmovups zmm7,zmm5
0058 vpermi2b zmm7,zmm2,zmm3
005e vpsrld zmm5,zmm5,7
0065 vandps zmm5,zmm5,zmm4
006b vpslld zmm8,zmm5,8
0072 vpsubd zmm5,zmm8,zmm5
0078 vandps zmm7,zmm5,zmm7
007e vandnps zmm6,zmm5,zmm6
0084 vorps zmm6,zmm6,zmm7
008a vmovups [rdx],zmm6
0090 add rsi,40h
0094 add rdx,40h
0098 sub rcx,1
009c test rcx,rcx
009f jne near 0000000000000040h
00a5 pop r15
00a7 pop r14
00a9 pop r13
00ab pop r12
00ad pop rbp
00ae pop rbx
00af vzeroupper
00b2 ret
00b3 nop word [rax+rax]
00bc nop dword [rax]
; [01, 01, 01, 01]
