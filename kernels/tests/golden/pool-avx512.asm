; Pool(PoolCode { isa: Avx512, collect: Sum, stored: F32 })
; part 0, 794 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi]
000d mov rdx,[rdi+8]
0011 mov r14,[rdi+18h]
0015 mov r13,[rdi+50h]
0019 mov r12,[rdi+58h]
001d vpbroadcastd zmm17,[rdi+60h]
0024 mov rcx,[rdi+10h]
0028 cmp rcx,80h
002f jl near 00000000000001C9h
0035 vpxord zmm0,zmm0,zmm0
003b vpxord zmm1,zmm1,zmm1
0041 vpxord zmm2,zmm2,zmm2
0047 vpxord zmm3,zmm3,zmm3
004d vpxord zmm4,zmm4,zmm4
0053 vpxord zmm5,zmm5,zmm5
0059 vpxord zmm6,zmm6,zmm6
005f vpxord zmm7,zmm7,zmm7
0065 mov r8,rsi
0068 mov r10,[rdi+30h]
006c mov r9,r8
006f mov r11,[rdi+38h]
0073 mov rax,r9
0076 mov rbx,[rdi+40h]
007a vpxord zmm8,zmm8,zmm8
0080 vpxord zmm9,zmm9,zmm9
0086 vpxord zmm10,zmm10,zmm10
008c vpxord zmm11,zmm11,zmm11
0092 vpxord zmm12,zmm12,zmm12
0098 vpxord zmm13,zmm13,zmm13
009e vpxord zmm14,zmm14,zmm14
00a4 vpxord zmm15,zmm15,zmm15
00aa nop word [rax+rax]
00b0 vaddps zmm8,zmm8,[rax]
00b6 vaddps zmm9,zmm9,[rax+40h]
00bd vaddps zmm10,zmm10,[rax+80h]
00c4 vaddps zmm11,zmm11,[rax+0C0h]
00cb vaddps zmm12,zmm12,[rax+100h]
00d2 vaddps zmm13,zmm13,[rax+140h]
00d9 vaddps zmm14,zmm14,[rax+180h]
00e0 vaddps zmm15,zmm15,[rax+1C0h]
00e7 add rax,r12
00ea sub rbx,1
00ee test rbx,rbx
00f1 jne near 00000000000000B0h
00f7 vaddps zmm0,zmm0,zmm8
00fd vaddps zmm1,zmm1,zmm9
0103 vaddps zmm2,zmm2,zmm10
0109 vaddps zmm3,zmm3,zmm11
010f vaddps zmm4,zmm4,zmm12
0115 vaddps zmm5,zmm5,zmm13
011b vaddps zmm6,zmm6,zmm14
0121 vaddps zmm7,zmm7,zmm15
0127 add r9,r13
012a sub r11,1
012e test r11,r11
0131 jne near 0000000000000073h
0137 add r8,[rdi+48h]
013b sub r10,1
013f test r10,r10
0142 jne near 000000000000006Ch
0148 vmulps zmm0,zmm0,zmm17
014e vmovups [rdx],zmm0
0154 vmulps zmm1,zmm1,zmm17
015a vmovups [rdx+40h],zmm1
0161 vmulps zmm2,zmm2,zmm17
0167 vmovups [rdx+80h],zmm2
016e vmulps zmm3,zmm3,zmm17
0174 vmovups [rdx+0C0h],zmm3
017b vmulps zmm4,zmm4,zmm17
0181 vmovups [rdx+100h],zmm4
0188 vmulps zmm5,zmm5,zmm17
018e vmovups [rdx+140h],zmm5
0195 vmulps zmm6,zmm6,zmm17
019b vmovups [rdx+180h],zmm6
01a2 vmulps zmm7,zmm7,zmm17
01a8 vmovups [rdx+1C0h],zmm7
01af add rsi,200h
01b6 add rdx,200h
01bd sub rcx,80h
01c4 jmp 0000000000000028h
01c9 cmp rcx,10h
01cd jl near 000000000000025Ah
01d3 vpxord zmm0,zmm0,zmm0
01d9 mov r8,rsi
01dc mov r10,[rdi+30h]
01e0 mov r9,r8
01e3 mov r11,[rdi+38h]
01e7 mov rax,r9
01ea mov rbx,[rdi+40h]
01ee vpxord zmm8,zmm8,zmm8
01f4 nop word [rax+rax]
01fd nop dword [rax]
0200 vaddps zmm8,zmm8,[rax]
0206 add rax,r12
0209 sub rbx,1
020d test rbx,rbx
0210 jne near 0000000000000200h
0216 vaddps zmm0,zmm0,zmm8
021c add r9,r13
021f sub r11,1
0223 test r11,r11
0226 jne near 00000000000001E7h
022c add r8,[rdi+48h]
0230 sub r10,1
0234 test r10,r10
0237 jne near 00000000000001E0h
023d vmulps zmm0,zmm0,zmm17
0243 vmovups [rdx],zmm0
0249 add rsi,40h
024d add rdx,40h
0251 sub rcx,10h
0255 jmp 00000000000001C9h
025a test rcx,rcx
025d je near 00000000000002F7h
0263 xor eax,eax
0266 bts rax,rcx
026a sub eax,1
026e kmovw k1,eax
0272 vpxord zmm0,zmm0,zmm0
0278 mov r8,rsi
027b mov r10,[rdi+30h]
027f mov r9,r8
0282 mov r11,[rdi+38h]
0286 mov rax,r9
0289 mov rbx,[rdi+40h]
028d vpxord zmm8,zmm8,zmm8
0293 nop word [rax+rax]
029c nop dword [rax]
02a0 vmovups zmm16{k1}{z},[rax]
02a6 vaddps zmm8,zmm8,zmm16
02ac add rax,r12
02af sub rbx,1
02b3 test rbx,rbx
02b6 jne near 00000000000002A0h
02bc vaddps zmm0,zmm0,zmm8
02c2 add r9,r13
02c5 sub r11,1
02c9 test r11,r11
02cc jne near 0000000000000286h
02d2 add r8,[rdi+48h]
02d6 sub r10,1
02da test r10,r10
02dd jne near 000000000000027Fh
02e3 vmulps zmm0,zmm0,zmm17
02e9 vmovups [rdx]{k1},zmm0
02ef lea rsi,[rsi+rcx*4]
02f3 lea rdx,[rdx+rcx*4]
02f7 add rsi,[rdi+20h]
02fb add rdx,[rdi+28h]
02ff sub r14,1
0303 test r14,r14
0306 jne near 0000000000000024h
030c pop r15
030e pop r14
0310 pop r13
0312 pop r12
0314 pop rbp
0315 pop rbx
0316 vzeroupper
0319 ret
