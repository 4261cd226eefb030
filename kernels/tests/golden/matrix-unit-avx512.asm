; Multiply(MultiplyCode { isa: Avx512 })
; part 1, 577 bytes
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
0022 je near 0000000000000221h
0028 mov r12d,80h
002e mov r8,[rdi+20h]
0032 mov r9,[rdi+28h]
0036 mov r15,[rdi+68h]
003a mov r10,[rdi+48h]
003e mov [rdi+90h],r10
0045 mov r10,[rdi+50h]
0049 mov [rdi+0A0h],r10
0050 mov r13,[rdi+60h]
0054 mov [rdi+98h],r13
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
00c3 mov r11,[rdi+90h]
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
00f0 mov r10,[rdi+80h]
00f7 test r10,r10
00fa je near 0000000000000150h
0100 prefetcht1 [r10]
0106 prefetcht1 [r10+40h]
010c prefetcht1 [r10+80h]
0115 prefetcht1 [r10+0C0h]
011e prefetcht1 [r10+100h]
0127 prefetcht1 [r10+140h]
0130 prefetcht1 [r10+180h]
0139 prefetcht1 [r10+1C0h]
0142 add r10,[rdi+88h]
0149 mov [rdi+80h],r10
0150 tileloadd tmm6,[rsi+r8]
0156 tileloadd tmm4,[r11+r12]
015c tdpbf16ps tmm0,tmm6,tmm4
0161 tileloadd tmm5,[r11+r12+40h]
0168 tdpbf16ps tmm1,tmm6,tmm5
016d tileloadd tmm7,[rdx+r8]
0173 tdpbf16ps tmm2,tmm7,tmm4
0178 tdpbf16ps tmm3,tmm7,tmm5
017d add rsi,r9
0180 add rdx,r9
0183 add r11,800h
018a sub rbp,1
018e test rbp,rbp
0191 jne near 00000000000000F0h
0197 add rbx,8
019b sub rcx,1
019f test rcx,rcx
01a2 jne near 00000000000000D2h
01a8 tilestored [r13+r15],tmm0
01af tilestored [r13+r15+40h],tmm1
01b6 lea r13,[r13+r15*8]
01bb lea r13,[r13+r15*8]
01c0 tilestored [r13+r15],tmm2
01c7 tilestored [r13+r15+40h],tmm3
01ce lea r13,[r13+r15*8]
01d3 lea r13,[r13+r15*8]
01d8 add rax,10h
01dc sub r14,1
01e0 test r14,r14
01e3 jne near 0000000000000070h
01e9 mov r10,[rdi+0A0h]
01f0 sub r10,1
01f4 mov [rdi+0A0h],r10
01fb mov r11,[rdi+90h]
0202 add r11,[rdi+58h]
0206 mov [rdi+90h],r11
020d mov r13,[rdi+98h]
0214 add r13,[rdi+70h]
0218 test r10,r10
021b jne near 0000000000000054h
0221 mov r10,[rdi+8]
0225 test r10,r10
0228 je near 0000000000000233h
022e tilerelease
0233 pop r15
0235 pop r14
0237 pop r13
0239 pop r12
023b pop rbp
023c pop rbx
023d vzeroupper
0240 ret
