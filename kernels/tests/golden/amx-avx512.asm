; Multiply(MultiplyCode { isa: Avx512, factors: Bf16, epilogue: None })
; part 1, 681 bytes
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
0022 je near 0000000000000289h
0028 mov r12d,80h
002e mov r8,[rdi+20h]
0032 mov r9,[rdi+28h]
0036 mov r10,[rdi+48h]
003a mov [rdi+1E0h],r10
0041 mov r10,[rdi+50h]
0045 mov [rdi+1F0h],r10
004c mov r13,[rdi+68h]
0050 mov [rdi+1E8h],r13
0057 mov rax,[rdi+18h]
005b mov r10,[rdi+10h]
005f mov [rdi+1F8h],r10
0066 nop word [rax+rax]
006f nop
0070 mov r10,[rdi+80h]
0077 test r10,r10
007a je near 00000000000000B6h
0080 mov r10,r13
0083 mov r15,[rdi+70h]
0087 tileloadd tmm0,[r10+r15]
008d tileloadd tmm1,[r10+r15+40h]
0094 lea r10,[r10+r15*8]
0098 lea r10,[r10+r15*8]
009c tileloadd tmm2,[r10+r15]
00a2 tileloadd tmm3,[r10+r15+40h]
00a9 lea r10,[r10+r15*8]
00ad lea r10,[r10+r15*8]
00b1 jmp 00000000000000CAh
00b6 tilezero tmm0
00bb tilezero tmm1
00c0 tilezero tmm2
00c5 tilezero tmm3
00ca mov r11,[rdi+1E0h]
00d1 mov rbx,[rdi+30h]
00d5 mov rcx,[rdi+38h]
00d9 mov rsi,[rax]
00dc mov r10,[rbx]
00df add rsi,r10
00e2 mov rdx,[rax+8]
00e6 mov r10,[rbx]
00e9 add rdx,r10
00ec mov rbp,[rdi+40h]
00f0 mov r15,[rdi+88h]
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
014d mov [rdi+88h],r15
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
0187 add r11,[rdi+58h]
018b sub rbp,1
018f test rbp,rbp
0192 jne near 00000000000000F0h
0198 add rbx,8
019c sub rcx,1
01a0 test rcx,rcx
01a3 jne near 00000000000000D9h
01a9 mov r15,[rdi+70h]
01ad tilestored [r13+r15],tmm0
01b4 tilestored [r13+r15+40h],tmm1
01bb lea r13,[r13+r15*8]
01c0 lea r13,[r13+r15*8]
01c5 tilestored [r13+r15],tmm2
01cc tilestored [r13+r15+40h],tmm3
01d3 lea r13,[r13+r15*8]
01d8 lea r13,[r13+r15*8]
01dd add rax,10h
01e1 mov r10,[rdi+1F8h]
01e8 sub r10,1
01ec mov [rdi+1F8h],r10
01f3 test r10,r10
01f6 jne near 0000000000000070h
01fc mov r10,[rdi+88h]
0203 test r10,r10
0206 je near 0000000000000251h
020c lea r15,[rdi+90h]
0213 mov r10,[r15]
0216 add r10,[r15+18h]
021a mov [r15],r10
021d mov r10,[r15+10h]
0221 mov [r15+8],r10
0225 add r15,40h
0229 mov r10,[r15]
022c add r10,[r15+18h]
0230 mov [r15],r10
0233 mov r10,[r15+10h]
0237 mov [r15+8],r10
023b add r15,40h
023f mov r10,[r15]
0242 add r10,[r15+18h]
0246 mov [r15],r10
0249 mov r10,[r15+10h]
024d mov [r15+8],r10
0251 mov r10,[rdi+1F0h]
0258 sub r10,1
025c mov [rdi+1F0h],r10
0263 mov r11,[rdi+1E0h]
026a add r11,[rdi+60h]
026e mov [rdi+1E0h],r11
0275 mov r13,[rdi+1E8h]
027c add r13,[rdi+78h]
0280 test r10,r10
0283 jne near 0000000000000050h
0289 mov r10,[rdi+8]
028d test r10,r10
0290 je near 000000000000029Bh
0296 tilerelease
029b pop r15
029d pop r14
029f pop r13
02a1 pop r12
02a3 pop rbp
02a4 pop rbx
02a5 vzeroupper
02a8 ret
