; Softmax(SoftmaxCode { isa: Avx2, form: Softmax, columns: false })
; part 0, 2240 bytes
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
003d vpcmpgtd ymm15,ymm15,[rel 700h]
0046 mov rcx,[rdi+10h]
004a vmovups ymm0,[rel 720h]
0053 vmovups ymm1,[rel 720h]
005c vmovups ymm2,[rel 720h]
0065 vmovups ymm3,[rel 720h]
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
0127 mov eax,0
012d cmp rax,r8
0130 jge near 0000000000000353h
0136 nop word [rax+rax]
013f nop
0140 vmovups ymm0,[rsi+rax]
0146 vsubps ymm0,ymm0,ymm13
014b vmovups ymm3,[rsi+rax+20h]
0152 vsubps ymm3,ymm3,ymm13
0157 vmovups ymm6,[rsi+rax+40h]
015e vsubps ymm6,ymm6,ymm13
0163 vmovups ymm9,[rsi+rax+60h]
016a vsubps ymm9,ymm9,ymm13
016f vmovups ymm12,[rel 740h]
0178 vmaxps ymm0,ymm12,ymm0
017d vmaxps ymm3,ymm12,ymm3
0182 vmaxps ymm6,ymm12,ymm6
0187 vmaxps ymm9,ymm12,ymm9
018c vmovups ymm12,[rel 760h]
0195 vmovaps ymm1,ymm12
019a vmovaps ymm4,ymm12
019f vmovaps ymm7,ymm12
01a4 vmovaps ymm10,ymm12
01a9 vmovups ymm12,[rel 780h]
01b2 vfmadd231ps ymm1,ymm0,ymm12
01b7 vfmadd231ps ymm4,ymm3,ymm12
01bc vfmadd231ps ymm7,ymm6,ymm12
01c1 vfmadd231ps ymm10,ymm9,ymm12
01c6 vpslld ymm2,ymm1,17h
01cc vpslld ymm5,ymm4,17h
01d2 vpslld ymm8,ymm7,17h
01d8 vpslld ymm11,ymm10,17h
01de vmovups ymm12,[rel 7A0h]
01e7 vaddps ymm1,ymm1,ymm12
01ec vaddps ymm4,ymm4,ymm12
01f1 vaddps ymm7,ymm7,ymm12
01f6 vaddps ymm10,ymm10,ymm12
01fb vmovups ymm12,[rel 7C0h]
0204 vfnmadd231ps ymm0,ymm1,ymm12
0209 vfnmadd231ps ymm3,ymm4,ymm12
020e vfnmadd231ps ymm6,ymm7,ymm12
0213 vfnmadd231ps ymm9,ymm10,ymm12
0218 vmovups ymm12,[rel 7E0h]
0221 vfnmadd231ps ymm0,ymm1,ymm12
0226 vfnmadd231ps ymm3,ymm4,ymm12
022b vfnmadd231ps ymm6,ymm7,ymm12
0230 vfnmadd231ps ymm9,ymm10,ymm12
0235 vmovups ymm12,[rel 800h]
023e vmovaps ymm1,ymm12
0243 vmovaps ymm4,ymm12
0248 vmovaps ymm7,ymm12
024d vmovaps ymm10,ymm12
0252 vmovups ymm12,[rel 820h]
025b vfmadd213ps ymm1,ymm0,ymm12
0260 vfmadd213ps ymm4,ymm3,ymm12
0265 vfmadd213ps ymm7,ymm6,ymm12
026a vfmadd213ps ymm10,ymm9,ymm12
026f vmovups ymm12,[rel 840h]
0278 vfmadd213ps ymm1,ymm0,ymm12
027d vfmadd213ps ymm4,ymm3,ymm12
0282 vfmadd213ps ymm7,ymm6,ymm12
0287 vfmadd213ps ymm10,ymm9,ymm12
028c vmovups ymm12,[rel 860h]
0295 vfmadd213ps ymm1,ymm0,ymm12
029a vfmadd213ps ymm4,ymm3,ymm12
029f vfmadd213ps ymm7,ymm6,ymm12
02a4 vfmadd213ps ymm10,ymm9,ymm12
02a9 vmovups ymm12,[rel 880h]
02b2 vfmadd213ps ymm1,ymm0,ymm12
02b7 vfmadd213ps ymm4,ymm3,ymm12
02bc vfmadd213ps ymm7,ymm6,ymm12
02c1 vfmadd213ps ymm10,ymm9,ymm12
02c6 vmovups ymm12,[rel 8A0h]
02cf vfmadd213ps ymm1,ymm0,ymm12
02d4 vfmadd213ps ymm4,ymm3,ymm12
02d9 vfmadd213ps ymm7,ymm6,ymm12
02de vfmadd213ps ymm10,ymm9,ymm12
02e3 vmovups ymm12,[rel 8A0h]
02ec vfmadd213ps ymm0,ymm1,ymm12
02f1 vfmadd213ps ymm3,ymm4,ymm12
02f6 vfmadd213ps ymm6,ymm7,ymm12
02fb vfmadd213ps ymm9,ymm10,ymm12
0300 vmulps ymm0,ymm0,ymm2
0305 vmulps ymm3,ymm3,ymm5
030a vmulps ymm6,ymm6,ymm8
030f vmulps ymm9,ymm9,ymm11
0314 vmovups [rdx+rax],ymm0
031a vmovups [rdx+rax+20h],ymm3
0321 vmovups [rdx+rax+40h],ymm6
0328 vmovups [rdx+rax+60h],ymm9
032f vaddps ymm0,ymm0,ymm6
0334 vaddps ymm3,ymm3,ymm9
0339 vaddps ymm0,ymm0,ymm3
033e vaddps ymm14,ymm14,ymm0
0343 add rax,80h
034a cmp rax,r8
034d jl near 0000000000000140h
0353 mov r15,r9
0356 sub r15,rax
0359 cmp r15,40h
035d jl near 00000000000004A2h
0363 vmovups ymm0,[rsi+rax]
0369 vsubps ymm0,ymm0,ymm13
036e vmovups ymm3,[rsi+rax+20h]
0375 vsubps ymm3,ymm3,ymm13
037a vmovups ymm12,[rel 740h]
0383 vmaxps ymm0,ymm12,ymm0
0388 vmaxps ymm3,ymm12,ymm3
038d vmovups ymm12,[rel 760h]
0396 vmovaps ymm1,ymm12
039b vmovaps ymm4,ymm12
03a0 vmovups ymm12,[rel 780h]
03a9 vfmadd231ps ymm1,ymm0,ymm12
03ae vfmadd231ps ymm4,ymm3,ymm12
03b3 vpslld ymm2,ymm1,17h
03b9 vpslld ymm5,ymm4,17h
03bf vmovups ymm12,[rel 7A0h]
03c8 vaddps ymm1,ymm1,ymm12
03cd vaddps ymm4,ymm4,ymm12
03d2 vmovups ymm12,[rel 7C0h]
03db vfnmadd231ps ymm0,ymm1,ymm12
03e0 vfnmadd231ps ymm3,ymm4,ymm12
03e5 vmovups ymm12,[rel 7E0h]
03ee vfnmadd231ps ymm0,ymm1,ymm12
03f3 vfnmadd231ps ymm3,ymm4,ymm12
03f8 vmovups ymm12,[rel 800h]
0401 vmovaps ymm1,ymm12
0406 vmovaps ymm4,ymm12
040b vmovups ymm12,[rel 820h]
0414 vfmadd213ps ymm1,ymm0,ymm12
0419 vfmadd213ps ymm4,ymm3,ymm12
041e vmovups ymm12,[rel 840h]
0427 vfmadd213ps ymm1,ymm0,ymm12
042c vfmadd213ps ymm4,ymm3,ymm12
0431 vmovups ymm12,[rel 860h]
043a vfmadd213ps ymm1,ymm0,ymm12
043f vfmadd213ps ymm4,ymm3,ymm12
0444 vmovups ymm12,[rel 880h]
044d vfmadd213ps ymm1,ymm0,ymm12
0452 vfmadd213ps ymm4,ymm3,ymm12
0457 vmovups ymm12,[rel 8A0h]
0460 vfmadd213ps ymm1,ymm0,ymm12
0465 vfmadd213ps ymm4,ymm3,ymm12
046a vmovups ymm12,[rel 8A0h]
0473 vfmadd213ps ymm0,ymm1,ymm12
0478 vfmadd213ps ymm3,ymm4,ymm12
047d vmulps ymm0,ymm0,ymm2
0482 vmulps ymm3,ymm3,ymm5
0487 vmovups [rdx+rax],ymm0
048d vmovups [rdx+rax+20h],ymm3
0494 vaddps ymm0,ymm0,ymm3
0499 vaddps ymm14,ymm14,ymm0
049e add rax,40h
04a2 mov r15,r9
04a5 sub r15,rax
04a8 cmp r15,20h
04ac jl near 0000000000000551h
04b2 vmovups ymm0,[rsi+rax]
04b8 vsubps ymm0,ymm0,ymm13
04bd vmovups ymm1,[rel 740h]
04c6 vmaxps ymm0,ymm1,ymm0
04cb vmovups ymm1,[rel 760h]
04d4 vfmadd231ps ymm1,ymm0,[rel 780h]
04dd vpslld ymm2,ymm1,17h
04e3 vaddps ymm1,ymm1,[rel 7A0h]
04ec vfnmadd231ps ymm0,ymm1,[rel 7C0h]
04f5 vfnmadd231ps ymm0,ymm1,[rel 7E0h]
04fe vmovups ymm1,[rel 800h]
0507 vfmadd213ps ymm1,ymm0,[rel 820h]
0510 vfmadd213ps ymm1,ymm0,[rel 840h]
0519 vfmadd213ps ymm1,ymm0,[rel 860h]
0522 vfmadd213ps ymm1,ymm0,[rel 880h]
052b vfmadd213ps ymm1,ymm0,[rel 8A0h]
0534 vfmadd213ps ymm0,ymm1,[rel 8A0h]
053d vmulps ymm0,ymm0,ymm2
0542 vmovups [rdx+rax],ymm0
0548 vaddps ymm14,ymm14,ymm0
054d add rax,20h
0551 test r10,r10
0554 je near 0000000000000600h
055a vmaskmovps ymm0,ymm15,[rsi+rax]
0560 vsubps ymm0,ymm0,ymm13
0565 vmovups ymm1,[rel 740h]
056e vmaxps ymm0,ymm1,ymm0
0573 vmovups ymm1,[rel 760h]
057c vfmadd231ps ymm1,ymm0,[rel 780h]
0585 vpslld ymm2,ymm1,17h
058b vaddps ymm1,ymm1,[rel 7A0h]
0594 vfnmadd231ps ymm0,ymm1,[rel 7C0h]
059d vfnmadd231ps ymm0,ymm1,[rel 7E0h]
05a6 vmovups ymm1,[rel 800h]
05af vfmadd213ps ymm1,ymm0,[rel 820h]
05b8 vfmadd213ps ymm1,ymm0,[rel 840h]
05c1 vfmadd213ps ymm1,ymm0,[rel 860h]
05ca vfmadd213ps ymm1,ymm0,[rel 880h]
05d3 vfmadd213ps ymm1,ymm0,[rel 8A0h]
05dc vfmadd213ps ymm0,ymm1,[rel 8A0h]
05e5 vmulps ymm0,ymm0,ymm2
05ea vxorps ymm1,ymm1,ymm1
05ef vblendvps ymm0,ymm1,ymm0,ymm15
05f5 vmaskmovps [rdx+rax],ymm15,ymm0
05fb vaddps ymm14,ymm14,ymm0
0600 vperm2f128 ymm0,ymm14,ymm14,1
0606 vaddps ymm14,ymm14,ymm0
060b vpermilps ymm0,ymm14,4Eh
0611 vaddps ymm14,ymm14,ymm0
0616 vpermilps ymm0,ymm14,0B1h
061c vaddps ymm14,ymm14,ymm0
0621 vmovups ymm0,[rel 8A0h]
062a vdivps ymm14,ymm0,ymm14
062f mov eax,0
0635 cmp rax,r8
0638 jge near 0000000000000686h
063e xchg ax,ax
0640 vmulps ymm0,ymm14,[rdx+rax]
0646 vmovups [rdx+rax],ymm0
064c vmulps ymm3,ymm14,[rdx+rax+20h]
0653 vmovups [rdx+rax+20h],ymm3
065a vmulps ymm6,ymm14,[rdx+rax+40h]
0661 vmovups [rdx+rax+40h],ymm6
0668 vmulps ymm9,ymm14,[rdx+rax+60h]
066f vmovups [rdx+rax+60h],ymm9
0676 add rax,80h
067d cmp rax,r8
0680 jl near 0000000000000640h
0686 cmp rax,r9
0689 jge near 00000000000006A9h
068f nop
0690 vmulps ymm0,ymm14,[rdx+rax]
0696 vmovups [rdx+rax],ymm0
069c add rax,20h
06a0 cmp rax,r9
06a3 jl near 0000000000000690h
06a9 test r10,r10
06ac je near 00000000000006C3h
06b2 vmaskmovps ymm0,ymm15,[rdx+rax]
06b8 vmulps ymm0,ymm0,ymm14
06bd vmaskmovps [rdx+rax],ymm15,ymm0
06c3 add rsi,r11
06c6 add rdx,r11
06c9 sub rcx,1
06cd test rcx,rcx
06d0 jne near 000000000000004Ah
06d6 pop r15
06d8 pop r14
06da pop r13
06dc pop r12
06de pop rbp
06df pop rbx
06e0 vzeroupper
06e3 ret
06e4 nop word [rax+rax]
06ed nop word [rax+rax]
06f6 nop word [rax+rax]
06ff nop
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
