; Blend(BlendCode { isa: Avx512, round: 2 })
; part 0, 860 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi]
000d mov rdx,[rdi+8]
0011 mov r11,[rdi+10h]
0015 mov rbx,[rdi+18h]
0019 mov rcx,[rdi+20h]
001d mov r13,rcx
0020 mov r10,[rdi+30h]
0024 mov r8,r10
0027 and r8,0FFFFFFFFFFFFFFC0h
002b shl r8,2
002f mov r9,r10
0032 and r9,0FFFFFFFFFFFFFFF0h
0036 shl r9,2
003a and r10,0Fh
003e xor eax,eax
0041 bts rax,r10
0045 sub eax,1
0049 kmovw k1,eax
004d mov eax,0
0053 cmp rax,r8
0056 jge near 000000000000022Bh
005c nop dword [rax]
0060 mov r12d,0
0066 mov r14,[rdi+28h]
006a vpxord zmm0,zmm0,zmm0
0070 mov rbp,[r11+r12*8]
0074 add rbp,rsi
0077 vpbroadcastd zmm2,[rbx+r12*4]
007e add r12,r13
0081 vmovups zmm1,[rbp+rax]
0089 vmulps zmm1,zmm1,zmm2
008f vaddps zmm0,zmm0,zmm1
0095 mov rbp,[r11+r12*8]
0099 add rbp,rsi
009c vpbroadcastd zmm2,[rbx+r12*4]
00a3 add r12,r13
00a6 vmovups zmm1,[rbp+rax]
00ae vmulps zmm1,zmm1,zmm2
00b4 vaddps zmm0,zmm0,zmm1
00ba sub r14,1
00be test r14,r14
00c1 jne near 0000000000000070h
00c7 vmovups [rdx+rax],zmm0
00ce mov r12d,0
00d4 mov r14,[rdi+28h]
00d8 vpxord zmm0,zmm0,zmm0
00de mov rbp,[r11+r12*8]
00e2 add rbp,rsi
00e5 vpbroadcastd zmm2,[rbx+r12*4]
00ec add r12,r13
00ef vmovups zmm1,[rbp+rax+40h]
00f7 vmulps zmm1,zmm1,zmm2
00fd vaddps zmm0,zmm0,zmm1
0103 mov rbp,[r11+r12*8]
0107 add rbp,rsi
010a vpbroadcastd zmm2,[rbx+r12*4]
0111 add r12,r13
0114 vmovups zmm1,[rbp+rax+40h]
011c vmulps zmm1,zmm1,zmm2
0122 vaddps zmm0,zmm0,zmm1
0128 sub r14,1
012c test r14,r14
012f jne near 00000000000000DEh
0135 vmovups [rdx+rax+40h],zmm0
013d mov r12d,0
0143 mov r14,[rdi+28h]
0147 vpxord zmm0,zmm0,zmm0
014d mov rbp,[r11+r12*8]
0151 add rbp,rsi
0154 vpbroadcastd zmm2,[rbx+r12*4]
015b add r12,r13
015e vmovups zmm1,[rbp+rax+80h]
0166 vmulps zmm1,zmm1,zmm2
016c vaddps zmm0,zmm0,zmm1
0172 mov rbp,[r11+r12*8]
0176 add rbp,rsi
0179 vpbroadcastd zmm2,[rbx+r12*4]
0180 add r12,r13
0183 vmovups zmm1,[rbp+rax+80h]
018b vmulps zmm1,zmm1,zmm2
0191 vaddps zmm0,zmm0,zmm1
0197 sub r14,1
019b test r14,r14
019e jne near 000000000000014Dh
01a4 vmovups [rdx+rax+80h],zmm0
01ac mov r12d,0
01b2 mov r14,[rdi+28h]
01b6 vpxord zmm0,zmm0,zmm0
01bc mov rbp,[r11+r12*8]
01c0 add rbp,rsi
01c3 vpbroadcastd zmm2,[rbx+r12*4]
01ca add r12,r13
01cd vmovups zmm1,[rbp+rax+0C0h]
01d5 vmulps zmm1,zmm1,zmm2
01db vaddps zmm0,zmm0,zmm1
01e1 mov rbp,[r11+r12*8]
01e5 add rbp,rsi
01e8 vpbroadcastd zmm2,[rbx+r12*4]
01ef add r12,r13
01f2 vmovups zmm1,[rbp+rax+0C0h]
01fa vmulps zmm1,zmm1,zmm2
0200 vaddps zmm0,zmm0,zmm1
0206 sub r14,1
020a test r14,r14
020d jne near 00000000000001BCh
0213 vmovups [rdx+rax+0C0h],zmm0
021b add rax,100h
0222 cmp rax,r8
0225 jl near 0000000000000060h
022b cmp rax,r9
022e jge near 00000000000002BBh
0234 nop word [rax+rax]
023d nop dword [rax]
0240 mov r12d,0
0246 mov r14,[rdi+28h]
024a vpxord zmm0,zmm0,zmm0
0250 mov rbp,[r11+r12*8]
0254 add rbp,rsi
0257 vpbroadcastd zmm2,[rbx+r12*4]
025e add r12,r13
0261 vmovups zmm1,[rbp+rax]
0269 vmulps zmm1,zmm1,zmm2
026f vaddps zmm0,zmm0,zmm1
0275 mov rbp,[r11+r12*8]
0279 add rbp,rsi
027c vpbroadcastd zmm2,[rbx+r12*4]
0283 add r12,r13
0286 vmovups zmm1,[rbp+rax]
028e vmulps zmm1,zmm1,zmm2
0294 vaddps zmm0,zmm0,zmm1
029a sub r14,1
029e test r14,r14
02a1 jne near 0000000000000250h
02a7 vmovups [rdx+rax],zmm0
02ae add rax,40h
02b2 cmp rax,r9
02b5 jl near 0000000000000240h
02bb test r10,r10
02be je near 0000000000000332h
02c4 mov r12d,0
02ca mov r14,[rdi+28h]
02ce vpxord zmm0,zmm0,zmm0
02d4 mov rbp,[r11+r12*8]
02d8 add rbp,rsi
02db vpbroadcastd zmm2,[rbx+r12*4]
02e2 add r12,r13
02e5 vmovups zmm1{k1}{z},[rbp+rax]
02ed vmulps zmm1,zmm1,zmm2
02f3 vaddps zmm0,zmm0,zmm1
02f9 mov rbp,[r11+r12*8]
02fd add rbp,rsi
0300 vpbroadcastd zmm2,[rbx+r12*4]
0307 add r12,r13
030a vmovups zmm1{k1}{z},[rbp+rax]
0312 vmulps zmm1,zmm1,zmm2
0318 vaddps zmm0,zmm0,zmm1
031e sub r14,1
0322 test r14,r14
0325 jne near 00000000000002D4h
032b vmovups [rdx+rax]{k1},zmm0
0332 add r11,8
0336 add rbx,4
033a mov rbp,[rdi+38h]
033e add rdx,rbp
0341 sub rcx,1
0345 test rcx,rcx
0348 jne near 000000000000004Dh
034e pop r15
0350 pop r14
0352 pop r13
0354 pop r12
0356 pop rbp
0357 pop rbx
0358 vzeroupper
035b ret
