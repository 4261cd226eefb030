; Softmax(SoftmaxCode { isa: Avx2, form: Softmax, columns: false })
; part 0, 2304 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi]
000d mov rdx,[rdi+8]
0011 mov r11,[rdi+20h]
0015 mov r10,[rdi+18h]
0019 mov r8,r10
001c and r8,0FFFFFFFFFFFFFFE0h
0020 shl r8,2
0024 mov r9,r10
0027 and r9,0FFFFFFFFFFFFFFF8h
002b shl r9,2
002f and r10,7
0033 vmovd xmm15,r10d
0038 vpbroadcastd ymm15,xmm15
003d vpcmpgtd ymm15,ymm15,[rel 740h]
0046 mov rcx,[rdi+10h]
004a vmovups ymm0,[rel 760h]
0053 vmovups ymm1,[rel 760h]
005c vmovups ymm2,[rel 760h]
0065 vmovups ymm3,[rel 760h]
006e mov eax,0
0074 cmp rax,r8
0077 jge near 00000000000000ABh
007d nop dword [rax]
0080 vmaxps ymm0,ymm0,[rsi+rax]
0086 vmaxps ymm1,ymm1,[rsi+rax+20h]
008d vmaxps ymm2,ymm2,[rsi+rax+40h]
0094 vmaxps ymm3,ymm3,[rsi+rax+60h]
009b add rax,80h
00a2 cmp rax,r8
00a5 jl near 0000000000000080h
00ab cmp rax,r9
00ae jge near 00000000000000D3h
00b4 nop word [rax+rax]
00bd nop dword [rax]
00c0 vmaxps ymm0,ymm0,[rsi+rax]
00c6 add rax,20h
00ca cmp rax,r9
00cd jl near 00000000000000C0h
00d3 test r10,r10
00d6 je near 00000000000000EDh
00dc vmaskmovps ymm8,ymm15,[rsi+rax]
00e2 vmaxps ymm9,ymm0,ymm8
00e7 vblendvps ymm0,ymm0,ymm9,ymm15
00ed vmaxps ymm0,ymm0,ymm1
00f2 vmaxps ymm2,ymm2,ymm3
00f7 vmaxps ymm0,ymm0,ymm2
00fc vperm2f128 ymm8,ymm0,ymm0,1
0102 vmaxps ymm13,ymm0,ymm8
0107 vpermilps ymm8,ymm13,4Eh
010d vmaxps ymm13,ymm13,ymm8
0112 vpermilps ymm8,ymm13,0B1h
0118 vmaxps ymm13,ymm13,ymm8
011d vbroadcastss ymm13,xmm13
0122 vxorps ymm14,ymm14,ymm14
0127 mov r12,rsi
012a add r12,r11
012d mov r13,rdx
0130 add r13,r11
0133 mov eax,0
0139 cmp rax,r8
013c jge near 000000000000037Bh
0142 nop word [rax+rax]
014b nop dword [rax+rax]
0150 prefetcht0 [r12+rax]
0156 prefetcht0 [r13+rax]
015c prefetcht0 [r12+rax+40h]
0162 prefetcht0 [r13+rax+40h]
0168 vmovups ymm0,[rsi+rax]
016e vsubps ymm0,ymm0,ymm13
0173 vmovups ymm3,[rsi+rax+20h]
017a vsubps ymm3,ymm3,ymm13
017f vmovups ymm6,[rsi+rax+40h]
0186 vsubps ymm6,ymm6,ymm13
018b vmovups ymm9,[rsi+rax+60h]
0192 vsubps ymm9,ymm9,ymm13
0197 vmovups ymm12,[rel 780h]
01a0 vmaxps ymm0,ymm12,ymm0
01a5 vmaxps ymm3,ymm12,ymm3
01aa vmaxps ymm6,ymm12,ymm6
01af vmaxps ymm9,ymm12,ymm9
01b4 vmovups ymm12,[rel 7A0h]
01bd vmovaps ymm1,ymm12
01c2 vmovaps ymm4,ymm12
01c7 vmovaps ymm7,ymm12
01cc vmovaps ymm10,ymm12
01d1 vmovups ymm12,[rel 7C0h]
01da vfmadd231ps ymm1,ymm0,ymm12
01df vfmadd231ps ymm4,ymm3,ymm12
01e4 vfmadd231ps ymm7,ymm6,ymm12
01e9 vfmadd231ps ymm10,ymm9,ymm12
01ee vpslld ymm2,ymm1,17h
01f4 vpslld ymm5,ymm4,17h
01fa vpslld ymm8,ymm7,17h
0200 vpslld ymm11,ymm10,17h
0206 vmovups ymm12,[rel 7E0h]
020f vaddps ymm1,ymm1,ymm12
0214 vaddps ymm4,ymm4,ymm12
0219 vaddps ymm7,ymm7,ymm12
021e vaddps ymm10,ymm10,ymm12
0223 vmovups ymm12,[rel 800h]
022c vfnmadd231ps ymm0,ymm1,ymm12
0231 vfnmadd231ps ymm3,ymm4,ymm12
0236 vfnmadd231ps ymm6,ymm7,ymm12
023b vfnmadd231ps ymm9,ymm10,ymm12
0240 vmovups ymm12,[rel 820h]
0249 vfnmadd231ps ymm0,ymm1,ymm12
024e vfnmadd231ps ymm3,ymm4,ymm12
0253 vfnmadd231ps ymm6,ymm7,ymm12
0258 vfnmadd231ps ymm9,ymm10,ymm12
025d vmovups ymm12,[rel 840h]
0266 vmovaps ymm1,ymm12
026b vmovaps ymm4,ymm12
0270 vmovaps ymm7,ymm12
0275 vmovaps ymm10,ymm12
027a vmovups ymm12,[rel 860h]
0283 vfmadd213ps ymm1,ymm0,ymm12
0288 vfmadd213ps ymm4,ymm3,ymm12
028d vfmadd213ps ymm7,ymm6,ymm12
0292 vfmadd213ps ymm10,ymm9,ymm12
0297 vmovups ymm12,[rel 880h]
02a0 vfmadd213ps ymm1,ymm0,ymm12
02a5 vfmadd213ps ymm4,ymm3,ymm12
02aa vfmadd213ps ymm7,ymm6,ymm12
02af vfmadd213ps ymm10,ymm9,ymm12
02b4 vmovups ymm12,[rel 8A0h]
02bd vfmadd213ps ymm1,ymm0,ymm12
02c2 vfmadd213ps ymm4,ymm3,ymm12
02c7 vfmadd213ps ymm7,ymm6,ymm12
02cc vfmadd213ps ymm10,ymm9,ymm12
02d1 vmovups ymm12,[rel 8C0h]
02da vfmadd213ps ymm1,ymm0,ymm12
02df vfmadd213ps ymm4,ymm3,ymm12
02e4 vfmadd213ps ymm7,ymm6,ymm12
02e9 vfmadd213ps ymm10,ymm9,ymm12
02ee vmovups ymm12,[rel 8E0h]
02f7 vfmadd213ps ymm1,ymm0,ymm12
02fc vfmadd213ps ymm4,ymm3,ymm12
0301 vfmadd213ps ymm7,ymm6,ymm12
0306 vfmadd213ps ymm10,ymm9,ymm12
030b vmovups ymm12,[rel 8E0h]
0314 vfmadd213ps ymm0,ymm1,ymm12
0319 vfmadd213ps ymm3,ymm4,ymm12
031e vfmadd213ps ymm6,ymm7,ymm12
0323 vfmadd213ps ymm9,ymm10,ymm12
0328 vmulps ymm0,ymm0,ymm2
032d vmulps ymm3,ymm3,ymm5
0332 vmulps ymm6,ymm6,ymm8
0337 vmulps ymm9,ymm9,ymm11
033c vmovups [rdx+rax],ymm0
0342 vmovups [rdx+rax+20h],ymm3
0349 vmovups [rdx+rax+40h],ymm6
0350 vmovups [rdx+rax+60h],ymm9
0357 vaddps ymm0,ymm0,ymm6
035c vaddps ymm3,ymm3,ymm9
0361 vaddps ymm0,ymm0,ymm3
0366 vaddps ymm14,ymm14,ymm0
036b add rax,80h
0372 cmp rax,r8
0375 jl near 0000000000000150h
037b mov r15,r9
037e sub r15,rax
0381 cmp r15,40h
0385 jl near 00000000000004D6h
038b prefetcht0 [r12+rax]
0391 prefetcht0 [r13+rax]
0397 vmovups ymm0,[rsi+rax]
039d vsubps ymm0,ymm0,ymm13
03a2 vmovups ymm3,[rsi+rax+20h]
03a9 vsubps ymm3,ymm3,ymm13
03ae vmovups ymm12,[rel 780h]
03b7 vmaxps ymm0,ymm12,ymm0
03bc vmaxps ymm3,ymm12,ymm3
03c1 vmovups ymm12,[rel 7A0h]
03ca vmovaps ymm1,ymm12
03cf vmovaps ymm4,ymm12
03d4 vmovups ymm12,[rel 7C0h]
03dd vfmadd231ps ymm1,ymm0,ymm12
03e2 vfmadd231ps ymm4,ymm3,ymm12
03e7 vpslld ymm2,ymm1,17h
03ed vpslld ymm5,ymm4,17h
03f3 vmovups ymm12,[rel 7E0h]
03fc vaddps ymm1,ymm1,ymm12
0401 vaddps ymm4,ymm4,ymm12
0406 vmovups ymm12,[rel 800h]
040f vfnmadd231ps ymm0,ymm1,ymm12
0414 vfnmadd231ps ymm3,ymm4,ymm12
0419 vmovups ymm12,[rel 820h]
0422 vfnmadd231ps ymm0,ymm1,ymm12
0427 vfnmadd231ps ymm3,ymm4,ymm12
042c vmovups ymm12,[rel 840h]
0435 vmovaps ymm1,ymm12
043a vmovaps ymm4,ymm12
043f vmovups ymm12,[rel 860h]
0448 vfmadd213ps ymm1,ymm0,ymm12
044d vfmadd213ps ymm4,ymm3,ymm12
0452 vmovups ymm12,[rel 880h]
045b vfmadd213ps ymm1,ymm0,ymm12
0460 vfmadd213ps ymm4,ymm3,ymm12
0465 vmovups ymm12,[rel 8A0h]
046e vfmadd213ps ymm1,ymm0,ymm12
0473 vfmadd213ps ymm4,ymm3,ymm12
0478 vmovups ymm12,[rel 8C0h]
0481 vfmadd213ps ymm1,ymm0,ymm12
0486 vfmadd213ps ymm4,ymm3,ymm12
048b vmovups ymm12,[rel 8E0h]
0494 vfmadd213ps ymm1,ymm0,ymm12
0499 vfmadd213ps ymm4,ymm3,ymm12
049e vmovups ymm12,[rel 8E0h]
04a7 vfmadd213ps ymm0,ymm1,ymm12
04ac vfmadd213ps ymm3,ymm4,ymm12
04b1 vmulps ymm0,ymm0,ymm2
04b6 vmulps ymm3,ymm3,ymm5
04bb vmovups [rdx+rax],ymm0
04c1 vmovups [rdx+rax+20h],ymm3
04c8 vaddps ymm0,ymm0,ymm3
04cd vaddps ymm14,ymm14,ymm0
04d2 add rax,40h
04d6 mov r15,r9
04d9 sub r15,rax
04dc cmp r15,20h
04e0 jl near 0000000000000591h
04e6 prefetcht0 [r12+rax]
04ec prefetcht0 [r13+rax]
04f2 vmovups ymm0,[rsi+rax]
04f8 vsubps ymm0,ymm0,ymm13
04fd vmovups ymm1,[rel 780h]
0506 vmaxps ymm0,ymm1,ymm0
050b vmovups ymm1,[rel 7A0h]
0514 vfmadd231ps ymm1,ymm0,[rel 7C0h]
051d vpslld ymm2,ymm1,17h
0523 vaddps ymm1,ymm1,[rel 7E0h]
052c vfnmadd231ps ymm0,ymm1,[rel 800h]
0535 vfnmadd231ps ymm0,ymm1,[rel 820h]
053e vmovups ymm1,[rel 840h]
0547 vfmadd213ps ymm1,ymm0,[rel 860h]
0550 vfmadd213ps ymm1,ymm0,[rel 880h]
0559 vfmadd213ps ymm1,ymm0,[rel 8A0h]
0562 vfmadd213ps ymm1,ymm0,[rel 8C0h]
056b vfmadd213ps ymm1,ymm0,[rel 8E0h]
0574 vfmadd213ps ymm0,ymm1,[rel 8E0h]
057d vmulps ymm0,ymm0,ymm2
0582 vmovups [rdx+rax],ymm0
0588 vaddps ymm14,ymm14,ymm0
058d add rax,20h
0591 test r10,r10
0594 je near 0000000000000640h
059a vmaskmovps ymm0,ymm15,[rsi+rax]
05a0 vsubps ymm0,ymm0,ymm13
05a5 vmovups ymm1,[rel 780h]
05ae vmaxps ymm0,ymm1,ymm0
05b3 vmovups ymm1,[rel 7A0h]
05bc vfmadd231ps ymm1,ymm0,[rel 7C0h]
05c5 vpslld ymm2,ymm1,17h
05cb vaddps ymm1,ymm1,[rel 7E0h]
05d4 vfnmadd231ps ymm0,ymm1,[rel 800h]
05dd vfnmadd231ps ymm0,ymm1,[rel 820h]
05e6 vmovups ymm1,[rel 840h]
05ef vfmadd213ps ymm1,ymm0,[rel 860h]
05f8 vfmadd213ps ymm1,ymm0,[rel 880h]
0601 vfmadd213ps ymm1,ymm0,[rel 8A0h]
060a vfmadd213ps ymm1,ymm0,[rel 8C0h]
0613 vfmadd213ps ymm1,ymm0,[rel 8E0h]
061c vfmadd213ps ymm0,ymm1,[rel 8E0h]
0625 vmulps ymm0,ymm0,ymm2
062a vxorps ymm1,ymm1,ymm1
062f vblendvps ymm0,ymm1,ymm0,ymm15
0635 vmaskmovps [rdx+rax],ymm15,ymm0
063b vaddps ymm14,ymm14,ymm0
0640 vperm2f128 ymm0,ymm14,ymm14,1
0646 vaddps ymm14,ymm14,ymm0
064b vpermilps ymm0,ymm14,4Eh
0651 vaddps ymm14,ymm14,ymm0
0656 vpermilps ymm0,ymm14,0B1h
065c vaddps ymm14,ymm14,ymm0
0661 vmovups ymm0,[rel 8E0h]
066a vdivps ymm14,ymm0,ymm14
066f mov eax,0
0675 cmp rax,r8
0678 jge near 00000000000006C6h
067e xchg ax,ax
0680 vmulps ymm0,ymm14,[rdx+rax]
0686 vmovups [rdx+rax],ymm0
068c vmulps ymm3,ymm14,[rdx+rax+20h]
0693 vmovups [rdx+rax+20h],ymm3
069a vmulps ymm6,ymm14,[rdx+rax+40h]
06a1 vmovups [rdx+rax+40h],ymm6
06a8 vmulps ymm9,ymm14,[rdx+rax+60h]
06af vmovups [rdx+rax+60h],ymm9
06b6 add rax,80h
06bd cmp rax,r8
06c0 jl near 0000000000000680h
06c6 cmp rax,r9
06c9 jge near 00000000000006E9h
06cf nop
06d0 vmulps ymm0,ymm14,[rdx+rax]
06d6 vmovups [rdx+rax],ymm0
06dc add rax,20h
06e0 cmp rax,r9
06e3 jl near 00000000000006D0h
06e9 test r10,r10
06ec je near 0000000000000703h
06f2 vmaskmovps ymm0,ymm15,[rdx+rax]
06f8 vmulps ymm0,ymm0,ymm14
06fd vmaskmovps [rdx+rax],ymm15,ymm0
0703 add rsi,r11
0706 add rdx,r11
0709 sub rcx,1
070d test rcx,rcx
0710 jne near 000000000000004Ah
0716 pop r15
0718 pop r14
071a pop r13
071c pop r12
071e pop rbp
071f pop rbx
0720 vzeroupper
0723 ret
0724 nop word [rax+rax]
072d nop word [rax+rax]
0736 nop word [rax+rax]
073f nop
; [00, 00, 00, 00]
; [01, 00, 00, 00]
; [02, 00, 00, 00]
; [03, 00, 00, 00]
; [04, 00, 00, 00]
; [05, 00, 00, 00]
; [06, 00, 00, 00]
; [07, 00, 00, 00]
; [00, 00, 80, ff]
; [00, 00, 80, ff]
; [00, 00, 80, ff]
; [00, 00, 80, ff]
; [00, 00, 80, ff]
; [00, 00, 80, ff]
; [00, 00, 80, ff]
; [00, 00, 80, ff]
; [00, 00, b0, c2]
; [00, 00, b0, c2]
; [00, 00, b0, c2]
; [00, 00, b0, c2]
; [00, 00, b0, c2]
; [00, 00, b0, c2]
; [00, 00, b0, c2]
; [00, 00, b0, c2]
; [7f, 00, 40, 4b]
; [7f, 00, 40, 4b]
; [7f, 00, 40, 4b]
; [7f, 00, 40, 4b]
; [7f, 00, 40, 4b]
; [7f, 00, 40, 4b]
; [7f, 00, 40, 4b]
; [7f, 00, 40, 4b]
; [3b, aa, b8, 3f]
; [3b, aa, b8, 3f]
; [3b, aa, b8, 3f]
; [3b, aa, b8, 3f]
; [3b, aa, b8, 3f]
; [3b, aa, b8, 3f]
; [3b, aa, b8, 3f]
; [3b, aa, b8, 3f]
; [7f, 00, 40, cb]
; [7f, 00, 40, cb]
; [7f, 00, 40, cb]
; [7f, 00, 40, cb]
; [7f, 00, 40, cb]
; [7f, 00, 40, cb]
; [7f, 00, 40, cb]
; [7f, 00, 40, cb]
; [00, 72, 31, 3f]
; [00, 72, 31, 3f]
; [00, 72, 31, 3f]
; [00, 72, 31, 3f]
; [00, 72, 31, 3f]
; [00, 72, 31, 3f]
; [00, 72, 31, 3f]
; [00, 72, 31, 3f]
; [8e, be, bf, 35]
; [8e, be, bf, 35]
; [8e, be, bf, 35]
; [8e, be, bf, 35]
; [8e, be, bf, 35]
; [8e, be, bf, 35]
; [8e, be, bf, 35]
; [8e, be, bf, 35]
; [34, ce, b5, 3a]
; [34, ce, b5, 3a]
; [34, ce, b5, 3a]
; [34, ce, b5, 3a]
; [34, ce, b5, 3a]
; [34, ce, b5, 3a]
; [34, ce, b5, 3a]
; [34, ce, b5, 3a]
; [a5, 12, 09, 3c]
; [a5, 12, 09, 3c]
; [a5, 12, 09, 3c]
; [a5, 12, 09, 3c]
; [a5, 12, 09, 3c]
; [a5, 12, 09, 3c]
; [a5, 12, 09, 3c]
; [a5, 12, 09, 3c]
; [79, ab, 2a, 3d]
; [79, ab, 2a, 3d]
; [79, ab, 2a, 3d]
; [79, ab, 2a, 3d]
; [79, ab, 2a, 3d]
; [79, ab, 2a, 3d]
; [79, ab, 2a, 3d]
; [79, ab, 2a, 3d]
; [5a, aa, 2a, 3e]
; [5a, aa, 2a, 3e]
; [5a, aa, 2a, 3e]
; [5a, aa, 2a, 3e]
; [5a, aa, 2a, 3e]
; [5a, aa, 2a, 3e]
; [5a, aa, 2a, 3e]
; [5a, aa, 2a, 3e]
; [ff, ff, ff, 3e]
; [ff, ff, ff, 3e]
; [ff, ff, ff, 3e]
; [ff, ff, ff, 3e]
; [ff, ff, ff, 3e]
; [ff, ff, ff, 3e]
; [ff, ff, ff, 3e]
; [ff, ff, ff, 3e]
; [00, 00, 80, 3f]
; [00, 00, 80, 3f]
; [00, 00, 80, 3f]
; [00, 00, 80, 3f]
; [00, 00, 80, 3f]
; [00, 00, 80, 3f]
; [00, 00, 80, 3f]
; [00, 00, 80, 3f]
