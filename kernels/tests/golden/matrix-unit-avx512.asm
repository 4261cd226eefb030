; Multiply(MultiplyCode { isa: Avx512 })
; part 1, 325 bytes
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
0020 mov rax,[rdi+10h]
0024 mov r13,[rdi+48h]
0028 mov r14,[rdi+8]
002c nop dword [rax]
0030 mov r10,[rdi+50h]
0034 test r10,r10
0037 je near 0000000000000064h
003d tileloadd tmm0,[r13+r12]
0044 tileloadd tmm1,[r13+r12+40h]
004b tileloadd tmm2,[r13+r12+800h]
0055 tileloadd tmm3,[r13+r12+840h]
005f jmp 0000000000000078h
0064 tilezero tmm0
0069 tilezero tmm1
006e tilezero tmm2
0073 tilezero tmm3
0078 mov r11,[rdi+40h]
007c mov rbx,[rdi+28h]
0080 mov rcx,[rdi+30h]
0084 mov rsi,[rax]
0087 mov r10,[rbx]
008a add rsi,r10
008d mov rdx,[rax+8]
0091 mov r10,[rbx]
0094 add rdx,r10
0097 mov rbp,[rdi+38h]
009b nop dword [rax+rax]
00a0 tileloadd tmm6,[rsi+r8]
00a6 tileloadd tmm4,[r11+r12]
00ac tdpbf16ps tmm0,tmm6,tmm4
00b1 tileloadd tmm5,[r11+r12+40h]
00b8 tdpbf16ps tmm1,tmm6,tmm5
00bd tileloadd tmm7,[rdx+r8]
00c3 tdpbf16ps tmm2,tmm7,tmm4
00c8 tdpbf16ps tmm3,tmm7,tmm5
00cd add rsi,r9
00d0 add rdx,r9
00d3 add r11,800h
00da sub rbp,1
00de test rbp,rbp
00e1 jne near 00000000000000A0h
00e7 add rbx,8
00eb sub rcx,1
00ef test rcx,rcx
00f2 jne near 0000000000000084h
00f8 tilestored [r13+r12],tmm0
00ff tilestored [r13+r12+40h],tmm1
0106 tilestored [r13+r12+800h],tmm2
0110 tilestored [r13+r12+840h],tmm3
011a add r13,1000h
0121 add rax,10h
0125 sub r14,1
0129 test r14,r14
012c jne near 0000000000000030h
0132 tilerelease
0137 pop r15
0139 pop r14
013b pop r13
013d pop r12
013f pop rbp
0140 pop rbx
0141 vzeroupper
0144 ret
