; Multiply(MultiplyCode { isa: Avx512, factors: Halves, ending: None })
; part 1, 684 bytes
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
001b mov r10,[rdi+10h]
001f test r10,r10
0022 je near 000000000000028Ch
0028 mov r12d,80h
002e mov r8,[rdi+20h]
0032 mov r9,[rdi+28h]
0036 mov r10,[rdi+48h]
003a mov [rdi+1D8h],r10
0041 mov r10,[rdi+50h]
0045 mov [rdi+1E8h],r10
004c mov r13,[rdi+60h]
0050 mov [rdi+1E0h],r13
0057 mov rax,[rdi+18h]
005b mov r10,[rdi+10h]
005f mov [rdi+1F0h],r10
0066 nop word [rax+rax]
006f nop
0070 mov r10,[rdi+78h]
0074 test r10,r10
0077 je near 00000000000000B3h
007d mov r10,r13
0080 mov r15,[rdi+68h]
0084 tileloadd tmm0,[r10+r15]
008a tileloadd tmm1,[r10+r15+40h]
0091 lea r10,[r10+r15*8]
0095 lea r10,[r10+r15*8]
0099 tileloadd tmm2,[r10+r15]
009f tileloadd tmm3,[r10+r15+40h]
00a6 lea r10,[r10+r15*8]
00aa lea r10,[r10+r15*8]
00ae jmp 00000000000000C7h
00b3 tilezero tmm0
00b8 tilezero tmm1
00bd tilezero tmm2
00c2 tilezero tmm3
00c7 mov r11,[rdi+1D8h]
00ce mov rbx,[rdi+30h]
00d2 mov rcx,[rdi+38h]
00d6 mov rsi,[rax]
00d9 mov r10,[rbx]
00dc add rsi,r10
00df mov rdx,[rax+8]
00e3 mov r10,[rbx]
00e6 add rdx,r10
00e9 mov rbp,[rdi+40h]
00ed nop dword [rax]
00f0 mov r15,[rdi+80h]
00f7 test r15,r15
00fa je near 0000000000000154h
0100 add r15,rdi
0103 mov r10,[r15+8]
0107 cmp r10,0
010b jle near 0000000000000139h
0111 mov r14,[r15+20h]
0115 sub r10,r14
0118 mov [r15+8],r10
011c mov r10,[r15]
011f prefetcht1 [r10]
0125 add r10,[r15+28h]
0129 sub r14,1
012d test r14,r14
0130 jne near 000000000000011Fh
0136 mov [r15],r10
0139 mov r10,[r15+38h]
013d add r15,[r15+30h]
0141 test r10,r10
0144 jne near 0000000000000103h
014a sub r15,rdi
014d mov [rdi+80h],r15
0154 tileloadd tmm6,[rsi+r8]
015a tileloadd tmm4,[r11+r12]
0160 tdpbf16ps tmm0,tmm6,tmm4
0165 tileloadd tmm5,[r11+r12+40h]
016c tdpbf16ps tmm1,tmm6,tmm5
0171 tileloadd tmm7,[rdx+r8]
0177 tdpbf16ps tmm2,tmm7,tmm4
017c tdpbf16ps tmm3,tmm7,tmm5
0181 add rsi,r9
0184 add rdx,r9
0187 add r11,800h
018e sub rbp,1
0192 test rbp,rbp
0195 jne near 00000000000000F0h
019b add rbx,8
019f sub rcx,1
01a3 test rcx,rcx
01a6 jne near 00000000000000D6h
01ac mov r15,[rdi+68h]
01b0 tilestored [r13+r15],tmm0
01b7 tilestored [r13+r15+40h],tmm1
01be lea r13,[r13+r15*8]
01c3 lea r13,[r13+r15*8]
01c8 tilestored [r13+r15],tmm2
01cf tilestored [r13+r15+40h],tmm3
01d6 lea r13,[r13+r15*8]
01db lea r13,[r13+r15*8]
01e0 add rax,10h
01e4 mov r10,[rdi+1F0h]
01eb sub r10,1
01ef mov [rdi+1F0h],r10
01f6 test r10,r10
01f9 jne near 0000000000000070h
01ff mov r10,[rdi+80h]
0206 test r10,r10
0209 je near 0000000000000254h
020f lea r15,[rdi+88h]
0216 mov r10,[r15]
0219 add r10,[r15+18h]
021d mov [r15],r10
0220 mov r10,[r15+10h]
0224 mov [r15+8],r10
0228 add r15,40h
022c mov r10,[r15]
022f add r10,[r15+18h]
0233 mov [r15],r10
0236 mov r10,[r15+10h]
023a mov [r15+8],r10
023e add r15,40h
0242 mov r10,[r15]
0245 add r10,[r15+18h]
0249 mov [r15],r10
024c mov r10,[r15+10h]
0250 mov [r15+8],r10
0254 mov r10,[rdi+1E8h]
025b sub r10,1
025f mov [rdi+1E8h],r10
0266 mov r11,[rdi+1D8h]
026d add r11,[rdi+58h]
0271 mov [rdi+1D8h],r11
0278 mov r13,[rdi+1E0h]
027f add r13,[rdi+70h]
0283 test r10,r10
0286 jne near 0000000000000050h
028c mov r10,[rdi+8]
0290 test r10,r10
0293 je near 000000000000029Eh
0299 tilerelease
029e pop r15
02a0 pop r14
02a2 pop r13
02a4 pop r12
02a6 pop rbp
02a7 pop rbx
02a8 vzeroupper
02ab ret
