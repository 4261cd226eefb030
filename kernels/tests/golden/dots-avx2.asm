; Stream(StreamCode { isa: Avx2, form: Dots, rows: F32, ahead: true })
; part 0, 736 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi]
000d mov rdx,[rdi+8]
0011 mov rcx,[rdi+28h]
0015 mov r8,[rdi+10h]
0019 mov r10,[rdi+18h]
001d mov rbx,[rdi+20h]
0021 mov rbp,[rdi+40h]
0025 lea r9,[r8+r8*2]
0029 mov r11,rbx
002c and r11,0FFFFFFFFFFFFFFF8h
0030 shl r11,2
0034 and rbx,7
0038 vmovd xmm15,ebx
003d vpbroadcastd ymm15,xmm15
0042 vpcmpgtd ymm15,ymm15,[rel 2C0h]
004b cmp r10,8
004f jl near 0000000000000209h
0055 mov r12,rdx
0058 lea r13,[r12+r8*4]
005c vxorps ymm0,ymm0,ymm0
0061 vxorps ymm1,ymm1,ymm1
0066 vxorps ymm2,ymm2,ymm2
006b vxorps ymm3,ymm3,ymm3
0070 vxorps ymm4,ymm4,ymm4
0075 vxorps ymm5,ymm5,ymm5
007a vxorps ymm6,ymm6,ymm6
007f vxorps ymm7,ymm7,ymm7
0084 mov eax,0
008a cmp rax,r11
008d jge near 0000000000000113h
0093 nop word [rax+rax]
009c nop dword [rax]
00a0 vmovups ymm8,[rsi+rax]
00a6 vfmadd231ps ymm0,ymm8,[r12]
00ac vfmadd231ps ymm1,ymm8,[r12+r8]
00b2 vfmadd231ps ymm2,ymm8,[r12+r8*2]
00b8 vfmadd231ps ymm3,ymm8,[r12+r9]
00be vfmadd231ps ymm4,ymm8,[r13]
00c4 vfmadd231ps ymm5,ymm8,[r13+r8]
00cb vfmadd231ps ymm6,ymm8,[r13+r8*2]
00d2 vfmadd231ps ymm7,ymm8,[r13+r9]
00d9 prefetcht1 [rbp]
00df prefetcht1 [rbp+40h]
00e5 prefetcht1 [rbp+80h]
00ee prefetcht1 [rbp+0C0h]
00f7 add rbp,100h
00fe add r12,20h
0102 add r13,20h
0106 add rax,20h
010a cmp rax,r11
010d jl near 00000000000000A0h
0113 test rbx,rbx
0116 je near 000000000000017Dh
011c vmaskmovps ymm8,ymm15,[rsi+rax]
0122 vmaskmovps ymm9,ymm15,[r12]
0128 vfmadd231ps ymm0,ymm8,ymm9
012d vmaskmovps ymm9,ymm15,[r12+r8]
0133 vfmadd231ps ymm1,ymm8,ymm9
0138 vmaskmovps ymm9,ymm15,[r12+r8*2]
013e vfmadd231ps ymm2,ymm8,ymm9
0143 vmaskmovps ymm9,ymm15,[r12+r9]
0149 vfmadd231ps ymm3,ymm8,ymm9
014e vmaskmovps ymm9,ymm15,[r13]
0154 vfmadd231ps ymm4,ymm8,ymm9
0159 vmaskmovps ymm9,ymm15,[r13+r8]
0160 vfmadd231ps ymm5,ymm8,ymm9
0165 vmaskmovps ymm9,ymm15,[r13+r8*2]
016c vfmadd231ps ymm6,ymm8,ymm9
0171 vmaskmovps ymm9,ymm15,[r13+r9]
0178 vfmadd231ps ymm7,ymm8,ymm9
017d vunpcklps ymm8,ymm0,ymm1
0182 vunpckhps ymm0,ymm0,ymm1
0187 vaddps ymm0,ymm0,ymm8
018c vunpcklps ymm8,ymm2,ymm3
0191 vunpckhps ymm2,ymm2,ymm3
0196 vaddps ymm2,ymm2,ymm8
019b vunpcklpd ymm8,ymm0,ymm2
01a0 vunpckhpd ymm0,ymm0,ymm2
01a5 vaddps ymm0,ymm0,ymm8
01aa vunpcklps ymm8,ymm4,ymm5
01af vunpckhps ymm4,ymm4,ymm5
01b4 vaddps ymm4,ymm4,ymm8
01b9 vunpcklps ymm8,ymm6,ymm7
01be vunpckhps ymm6,ymm6,ymm7
01c3 vaddps ymm6,ymm6,ymm8
01c8 vunpcklpd ymm8,ymm4,ymm6
01cd vunpckhpd ymm4,ymm4,ymm6
01d2 vaddps ymm4,ymm4,ymm8
01d7 vperm2f128 ymm8,ymm0,ymm4,20h
01dd vperm2f128 ymm0,ymm0,ymm4,31h
01e3 vaddps ymm0,ymm0,ymm8
01e8 vpbroadcastd ymm8,[rdi+38h]
01ee vmulps ymm0,ymm0,ymm8
01f3 vmovups [rcx],ymm0
01f8 add rcx,20h
01fc lea rdx,[rdx+r8*8]
0200 sub r10,8
0204 jmp 000000000000004Bh
0209 cmp r10,1
020d jl near 00000000000002ABh
0213 mov r12,rdx
0216 vxorps ymm0,ymm0,ymm0
021b mov eax,0
0221 cmp rax,r11
0224 jge near 000000000000024Dh
022a nop word [rax+rax]
0230 vmovups ymm8,[rsi+rax]
0236 vfmadd231ps ymm0,ymm8,[r12]
023c add r12,20h
0240 add rax,20h
0244 cmp rax,r11
0247 jl near 0000000000000230h
024d test rbx,rbx
0250 je near 0000000000000267h
0256 vmaskmovps ymm8,ymm15,[rsi+rax]
025c vmaskmovps ymm9,ymm15,[r12]
0262 vfmadd231ps ymm0,ymm8,ymm9
0267 vpbroadcastd ymm8,[rdi+38h]
026d vperm2f128 ymm9,ymm0,ymm0,1
0273 vaddps ymm0,ymm0,ymm9
0278 vpermilps ymm9,ymm0,4Eh
027e vaddps ymm0,ymm0,ymm9
0283 vpermilps ymm9,ymm0,0B1h
0289 vaddps ymm0,ymm0,ymm9
028e vmulps ymm0,ymm0,ymm8
0293 vmovss [rcx],xmm0
029a add rcx,4
029e lea rdx,[rdx+r8]
02a2 sub r10,1
02a6 jmp 0000000000000209h
02ab pop r15
02ad pop r14
02af pop r13
02b1 pop r12
02b3 pop rbp
02b4 pop rbx
02b5 vzeroupper
02b8 ret
02b9 nop dword [rax]
; [00, 00, 00, 00]
; [01, 00, 00, 00]
; [02, 00, 00, 00]
; [03, 00, 00, 00]
; [04, 00, 00, 00]
; [05, 00, 00, 00]
; [06, 00, 00, 00]
; [07, 00, 00, 00]
