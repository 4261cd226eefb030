; Multiply(MultiplyCode { isa: Avx512 })
; part 1, 481 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov r10,[rdi]
000d test r10,r10
0010 je near 000000000000001Bh
0016 ldtilecfg [r10]
001b mov r14,[rdi+10h]
001f test r14,r14
0022 je near 00000000000001C1h
0028 mov r12d,80h
002e mov r8,[rdi+20h]
0032 mov r9,[rdi+28h]
0036 mov r15,[rdi+68h]
003a mov r10,[rdi+48h]
003e mov [rdi+80h],r10
0045 mov r10,[rdi+50h]
0049 mov [rdi+90h],r10
0050 mov r13,[rdi+60h]
0054 mov [rdi+88h],r13
005b mov rax,[rdi+18h]
005f mov r14,[rdi+10h]
0063 nop word [rax+rax]
006c nop dword [rax]
0070 mov r10,[rdi+78h]
0074 test r10,r10
0077 je near 00000000000000AFh
007d mov r10,r13
0080 tileloadd tmm0,[r10+r15]
0086 tileloadd tmm1,[r10+r15+40h]
008d lea r10,[r10+r15*8]
0091 lea r10,[r10+r15*8]
0095 tileloadd tmm2,[r10+r15]
009b tileloadd tmm3,[r10+r15+40h]
00a2 lea r10,[r10+r15*8]
00a6 lea r10,[r10+r15*8]
00aa jmp 00000000000000C3h
00af tilezero tmm0
00b4 tilezero tmm1
00b9 tilezero tmm2
00be tilezero tmm3
00c3 mov r11,[rdi+80h]
00ca mov rbx,[rdi+30h]
00ce mov rcx,[rdi+38h]
00d2 mov rsi,[rax]
00d5 mov r10,[rbx]
00d8 add rsi,r10
00db mov rdx,[rax+8]
00df mov r10,[rbx]
00e2 add rdx,r10
00e5 mov rbp,[rdi+40h]
00e9 nop dword [rax]
00f0 tileloadd tmm6,[rsi+r8]
00f6 tileloadd tmm4,[r11+r12]
00fc tdpbf16ps tmm0,tmm6,tmm4
0101 tileloadd tmm5,[r11+r12+40h]
0108 tdpbf16ps tmm1,tmm6,tmm5
010d tileloadd tmm7,[rdx+r8]
0113 tdpbf16ps tmm2,tmm7,tmm4
0118 tdpbf16ps tmm3,tmm7,tmm5
011d add rsi,r9
0120 add rdx,r9
0123 add r11,800h
012a sub rbp,1
012e test rbp,rbp
0131 jne near 00000000000000F0h
0137 add rbx,8
013b sub rcx,1
013f test rcx,rcx
0142 jne near 00000000000000D2h
0148 tilestored [r13+r15],tmm0
014f tilestored [r13+r15+40h],tmm1
0156 lea r13,[r13+r15*8]
015b lea r13,[r13+r15*8]
0160 tilestored [r13+r15],tmm2
0167 tilestored [r13+r15+40h],tmm3
016e lea r13,[r13+r15*8]
0173 lea r13,[r13+r15*8]
0178 add rax,10h
017c sub r14,1
0180 test r14,r14
0183 jne near 0000000000000070h
0189 mov r10,[rdi+90h]
0190 sub r10,1
0194 mov [rdi+90h],r10
019b mov r11,[rdi+80h]
01a2 add r11,[rdi+58h]
01a6 mov [rdi+80h],r11
01ad mov r13,[rdi+88h]
01b4 add r13,[rdi+70h]
01b8 test r10,r10
01bb jne near 0000000000000054h
01c1 mov r10,[rdi+8]
01c5 test r10,r10
01c8 je near 00000000000001D3h
01ce tilerelease
01d3 pop r15
01d5 pop r14
01d7 pop r13
01d9 pop r12
01db pop rbp
01dc pop rbx
01dd vzeroupper
01e0 ret
