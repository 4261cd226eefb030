; Multiply(MultiplyCode { isa: Avx512 })
; part 1, 430 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov r10,[rdi]
000d ldtilecfg [r10]
0012 mov r12d,80h
0018 mov r8,[rdi+18h]
001c mov r9,[rdi+20h]
0020 mov r15,[rdi+60h]
0024 mov r10,[rdi+40h]
0028 mov [rdi+78h],r10
002c mov r10,[rdi+48h]
0030 mov [rdi+88h],r10
0037 mov r13,[rdi+58h]
003b mov [rdi+80h],r13
0042 mov rax,[rdi+10h]
0046 mov r14,[rdi+8]
004a nop word [rax+rax]
0050 mov r10,[rdi+70h]
0054 test r10,r10
0057 je near 000000000000008Fh
005d mov r10,r13
0060 tileloadd tmm0,[r10+r15]
0066 tileloadd tmm1,[r10+r15+40h]
006d lea r10,[r10+r15*8]
0071 lea r10,[r10+r15*8]
0075 tileloadd tmm2,[r10+r15]
007b tileloadd tmm3,[r10+r15+40h]
0082 lea r10,[r10+r15*8]
0086 lea r10,[r10+r15*8]
008a jmp 00000000000000A3h
008f tilezero tmm0
0094 tilezero tmm1
0099 tilezero tmm2
009e tilezero tmm3
00a3 mov r11,[rdi+78h]
00a7 mov rbx,[rdi+28h]
00ab mov rcx,[rdi+30h]
00af mov rsi,[rax]
00b2 mov r10,[rbx]
00b5 add rsi,r10
00b8 mov rdx,[rax+8]
00bc mov r10,[rbx]
00bf add rdx,r10
00c2 mov rbp,[rdi+38h]
00c6 nop word [rax+rax]
00cf nop
00d0 tileloadd tmm6,[rsi+r8]
00d6 tileloadd tmm4,[r11+r12]
00dc tdpbf16ps tmm0,tmm6,tmm4
00e1 tileloadd tmm5,[r11+r12+40h]
00e8 tdpbf16ps tmm1,tmm6,tmm5
00ed tileloadd tmm7,[rdx+r8]
00f3 tdpbf16ps tmm2,tmm7,tmm4
00f8 tdpbf16ps tmm3,tmm7,tmm5
00fd add rsi,r9
0100 add rdx,r9
0103 add r11,800h
010a sub rbp,1
010e test rbp,rbp
0111 jne near 00000000000000D0h
0117 add rbx,8
011b sub rcx,1
011f test rcx,rcx
0122 jne near 00000000000000AFh
0128 tilestored [r13+r15],tmm0
012f tilestored [r13+r15+40h],tmm1
0136 lea r13,[r13+r15*8]
013b lea r13,[r13+r15*8]
0140 tilestored [r13+r15],tmm2
0147 tilestored [r13+r15+40h],tmm3
014e lea r13,[r13+r15*8]
0153 lea r13,[r13+r15*8]
0158 add rax,10h
015c sub r14,1
0160 test r14,r14
0163 jne near 0000000000000050h
0169 mov r10,[rdi+88h]
0170 sub r10,1
0174 mov [rdi+88h],r10
017b mov r11,[rdi+78h]
017f add r11,[rdi+50h]
0183 mov [rdi+78h],r11
0187 mov r13,[rdi+80h]
018e add r13,[rdi+68h]
0192 test r10,r10
0195 jne near 000000000000003Bh
019b tilerelease
01a0 pop r15
01a2 pop r14
01a4 pop r13
01a6 pop r12
01a8 pop rbp
01a9 pop rbx
01aa vzeroupper
01ad ret
