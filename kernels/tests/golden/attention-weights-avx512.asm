; Attention(AttentionCode { isa: Avx512, form: WeighPairs(Adjust { cap: false, select: false, mask: false }) })
; part 0, 1544 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi]
000d mov rcx,[rdi+10h]
0011 mov r12,[rdi+68h]
0015 mov r14,[rdi+18h]
0019 mov rdx,[rdi+38h]
001d mov rbx,[rdi+48h]
0021 vbroadcastss zmm25,[rel 5C0h]
002b vbroadcastss zmm26,[rel 5C4h]
0035 vbroadcastss zmm27,[rel 5C8h]
003f vbroadcastss zmm28,[rel 5CCh]
0049 vbroadcastss zmm29,[rel 5D0h]
0053 vbroadcastss zmm30,[rel 5D4h]
005d vbroadcastss zmm31,[rel 5D8h]
0067 mov r13,[rdi+20h]
006b cmp r13,r14
006e jl near 0000000000000077h
0074 mov r13,r14
0077 cmp r13,1
007b jl near 000000000000050Ah
0081 mov [rdi+30h],r13
0085 mov r10,[rdi+30h]
0089 mov r8,r10
008c and r8,0FFFFFFFFFFFFFFC0h
0090 shl r8,2
0094 mov r9,r10
0097 and r9,0FFFFFFFFFFFFFFF0h
009b shl r9,2
009f and r10,0Fh
00a3 xor eax,eax
00a6 bts rax,r10
00aa sub eax,1
00ae kmovw k1,eax
00b2 vbroadcastss zmm0,[rel 5DCh]
00bc vbroadcastss zmm1,[rel 5DCh]
00c6 vbroadcastss zmm2,[rel 5DCh]
00d0 vbroadcastss zmm3,[rel 5DCh]
00da mov eax,0
00e0 cmp rax,r8
00e3 jge near 000000000000011Fh
00e9 nop dword [rax]
00f0 vmaxps zmm0,zmm0,[rsi+rax]
00f7 vmaxps zmm1,zmm1,[rsi+rax+40h]
00ff vmaxps zmm2,zmm2,[rsi+rax+80h]
0107 vmaxps zmm3,zmm3,[rsi+rax+0C0h]
010f add rax,100h
0116 cmp rax,r8
0119 jl near 00000000000000F0h
011f cmp rax,r9
0122 jge near 0000000000000144h
0128 nop dword [rax+rax]
0130 vmaxps zmm0,zmm0,[rsi+rax]
0137 add rax,40h
013b cmp rax,r9
013e jl near 0000000000000130h
0144 test r10,r10
0147 je near 0000000000000160h
014d vmovups zmm8{k1}{z},[rsi+rax]
0154 vmaxps zmm9,zmm0,zmm8
015a vblendmps zmm0{k1},zmm0,zmm9
0160 vmaxps zmm0,zmm0,zmm1
0166 vmaxps zmm2,zmm2,zmm3
016c vmaxps zmm0,zmm0,zmm2
0172 vshuff32x4 zmm8,zmm0,zmm0,4Eh
0179 vmaxps zmm0,zmm0,zmm8
017f vshuff32x4 zmm8,zmm0,zmm0,0B1h
0186 vmaxps zmm0,zmm0,zmm8
018c vpermilps zmm8,zmm0,4Eh
0193 vmaxps zmm0,zmm0,zmm8
0199 vpermilps zmm8,zmm0,0B1h
01a0 vmaxps zmm0,zmm0,zmm8
01a6 vbroadcastss zmm0,xmm0
01ac vpbroadcastd zmm1,[r12]
01b3 vmaxps zmm13,zmm1,zmm0
01b9 vmovss [r12],xmm13
01c0 vcmpeqps k2,zmm13,[rel 5DCh]{1to16}
01cb vpxord zmm8,zmm8,zmm8
01d1 vblendmps zmm13{k2},zmm13,zmm8
01d7 vsubps zmm14,zmm1,zmm13
01dd vbroadcastss zmm9,[rel 5E0h]
01e7 vmaxps zmm14,zmm9,zmm14
01ed vbroadcastss zmm9,[rel 5C8h]
01f7 vfmadd231ps zmm9,zmm14,[rel 5C0h]{1to16}
0201 vpslld zmm10,zmm9,17h
0208 vaddps zmm9,zmm9,[rel 5E4h]{1to16}
0212 vfnmadd231ps zmm14,zmm9,[rel 5E8h]{1to16}
021c vfnmadd231ps zmm14,zmm9,[rel 5ECh]{1to16}
0226 vbroadcastss zmm9,[rel 5F0h]
0230 vfmadd213ps zmm9,zmm14,[rel 5F4h]{1to16}
023a vfmadd213ps zmm9,zmm14,[rel 5F8h]{1to16}
0244 vfmadd213ps zmm9,zmm14,[rel 5FCh]{1to16}
024e vfmadd213ps zmm9,zmm14,[rel 600h]{1to16}
0258 vfmadd213ps zmm9,zmm14,[rel 5D8h]{1to16}
0262 vfmadd213ps zmm14,zmm9,[rel 5D8h]{1to16}
026c vmulps zmm14,zmm14,zmm10
0272 vmovss [r12+8],xmm14
027a vpxord zmm4,zmm4,zmm4
0280 vpxord zmm5,zmm5,zmm5
0286 vpxord zmm6,zmm6,zmm6
028c vpxord zmm7,zmm7,zmm7
0292 vmulps zmm22,zmm13,[rel 604h]{1to16}
029c mov eax,0
02a2 mov r11d,0
02a8 mov r8,r13
02ab and r8,0FFFFFFFFFFFFFFE0h
02af shl r8,2
02b3 cmp rax,r8
02b6 jge near 0000000000000382h
02bc nop dword [rax]
02c0 vmovups zmm16,[rsi+rax]
02c7 vmovups zmm17,[rsi+rax+40h]
02cf vfmadd213ps zmm16,zmm25,zmm22
02d5 vfmadd213ps zmm17,zmm25,zmm22
02db vmaxps zmm16,zmm26,zmm16
02e1 vmaxps zmm17,zmm26,zmm17
02e7 vaddps zmm18,zmm16,zmm27
02ed vaddps zmm19,zmm17,zmm27
02f3 vpslld zmm20,zmm18,17h
02fa vpslld zmm21,zmm19,17h
0301 vsubps zmm18,zmm18,zmm27
0307 vsubps zmm19,zmm19,zmm27
030d vsubps zmm16,zmm16,zmm18
0313 vsubps zmm17,zmm17,zmm19
0319 vmovups zmm18,zmm30
031f vfmadd213ps zmm18,zmm16,zmm29
0325 vfmadd213ps zmm18,zmm16,zmm28
032b vfmadd213ps zmm18,zmm16,zmm31
0331 vmovups zmm19,zmm30
0337 vfmadd213ps zmm19,zmm17,zmm29
033d vfmadd213ps zmm19,zmm17,zmm28
0343 vfmadd213ps zmm19,zmm17,zmm31
0349 vmulps zmm16,zmm18,zmm20
034f vmulps zmm17,zmm19,zmm21
0355 vaddps zmm4,zmm4,zmm16
035b vaddps zmm5,zmm5,zmm17
0361 vcvtne2ps2bf16 zmm8,zmm17,zmm16
0367 vmovups [rsi+r11],zmm8
036e add r11,40h
0372 add rax,80h
0379 cmp rax,r8
037c jl near 00000000000002C0h
0382 mov r9,r13
0385 and r9,1Fh
0389 test r9,r9
038c je near 00000000000004A9h
0392 mov r10d,0
0398 xor r15d,r15d
039b bts r15,r10
039f sub r15d,1
03a3 kmovw k4,r15d
03a8 cmp r9,10h
03ac jl near 00000000000003CFh
03b2 mov r10,r9
03b5 sub r10,10h
03b9 xor r15d,r15d
03bc bts r15,r10
03c0 sub r15d,1
03c4 kmovw k4,r15d
03c9 mov r9d,10h
03cf xor r15d,r15d
03d2 bts r15,r9
03d6 sub r15d,1
03da kmovw k3,r15d
03df vmovups zmm16{k3}{z},[rsi+rax]
03e6 vmovups zmm17{k4}{z},[rsi+rax+40h]
03ee vfmadd213ps zmm16,zmm25,zmm22
03f4 vfmadd213ps zmm17,zmm25,zmm22
03fa vmaxps zmm16,zmm26,zmm16
0400 vmaxps zmm17,zmm26,zmm17
0406 vaddps zmm18,zmm16,zmm27
040c vaddps zmm19,zmm17,zmm27
0412 vpslld zmm20,zmm18,17h
0419 vpslld zmm21,zmm19,17h
0420 vsubps zmm18,zmm18,zmm27
0426 vsubps zmm19,zmm19,zmm27
042c vsubps zmm16,zmm16,zmm18
0432 vsubps zmm17,zmm17,zmm19
0438 vmovups zmm18,zmm30
043e vfmadd213ps zmm18,zmm16,zmm29
0444 vfmadd213ps zmm18,zmm16,zmm28
044a vfmadd213ps zmm18,zmm16,zmm31
0450 vmovups zmm19,zmm30
0456 vfmadd213ps zmm19,zmm17,zmm29
045c vfmadd213ps zmm19,zmm17,zmm28
0462 vfmadd213ps zmm19,zmm17,zmm31
0468 vmulps zmm16,zmm18,zmm20
046e vmulps zmm17,zmm19,zmm21
0474 vpxord zmm8,zmm8,zmm8
047a vblendmps zmm16{k3},zmm8,zmm16
0480 vaddps zmm4,zmm4,zmm16
0486 vpxord zmm8,zmm8,zmm8
048c vblendmps zmm17{k4},zmm8,zmm17
0492 vaddps zmm5,zmm5,zmm17
0498 vcvtne2ps2bf16 zmm8,zmm17,zmm16
049e vmovups [rsi+r11],zmm8
04a5 add r11,40h
04a9 vaddps zmm4,zmm4,zmm5
04af vaddps zmm6,zmm6,zmm7
04b5 vaddps zmm4,zmm4,zmm6
04bb vshuff32x4 zmm8,zmm4,zmm4,4Eh
04c2 vaddps zmm4,zmm4,zmm8
04c8 vshuff32x4 zmm8,zmm4,zmm4,0B1h
04cf vaddps zmm4,zmm4,zmm8
04d5 vpermilps zmm8,zmm4,4Eh
04dc vaddps zmm4,zmm4,zmm8
04e2 vpermilps zmm8,zmm4,0B1h
04e9 vaddps zmm4,zmm4,zmm8
04ef vpbroadcastd zmm8,[r12+4]
04f7 vfmadd231ps zmm4,zmm8,zmm14
04fd vmovss [r12+4],xmm4
0505 jmp 0000000000000522h
050a mov r11d,0
0510 vbroadcastss zmm8,[rel 5D8h]
051a vmovss [r12+8],xmm8
0522 lea r8,[r14+1Fh]
0526 and r8,0FFFFFFFFFFFFFFE0h
052a shl r8,1
052e vpxord zmm8,zmm8,zmm8
0534 cmp r11,r8
0537 jge near 000000000000054Dh
053d vmovups [rsi+r11],zmm8
0544 add r11,40h
0548 jmp 0000000000000534h
054d add rsi,[rdi+8]
0551 add rdx,[rdi+40h]
0555 add rbx,[rdi+50h]
0559 add r12,10h
055d mov r13,[rdi+20h]
0561 add r13,[rdi+28h]
0565 mov [rdi+20h],r13
0569 sub rcx,1
056d test rcx,rcx
0570 jne near 0000000000000067h
0576 pop r15
0578 pop r14
057a pop r13
057c pop r12
057e pop rbp
057f pop rbx
0580 vzeroupper
0583 ret
0584 nop word [rax+rax]
058d nop word [rax+rax]
0596 nop word [rax+rax]
059f nop word [rax+rax]
05a8 nop word [rax+rax]
05b1 nop word [rax+rax]
05ba nop word [rax+rax]
; [3b, aa, b8, 3f]
; [00, 00, fe, c2]
; [7f, 00, 40, 4b]
; [fd, 7a, 31, 3f]
; [29, 06, 78, 3e]
; [11, 51, 61, 3d]
; [00, 00, 80, 3f]
; [00, 00, 80, ff]
; [00, 00, b0, c2]
; [7f, 00, 40, cb]
; [00, 72, 31, 3f]
; [8e, be, bf, 35]
; [34, ce, b5, 3a]
; [a5, 12, 09, 3c]
; [79, ab, 2a, 3d]
; [5a, aa, 2a, 3e]
; [ff, ff, ff, 3e]
; [3b, aa, b8, bf]
