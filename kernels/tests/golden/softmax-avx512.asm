; Softmax(SoftmaxCode { isa: Avx512, form: Softmax, columns: false })
; part 0, 2100 bytes
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
001c and r8,0FFFFFFFFFFFFFFC0h
0020 shl r8,2
0024 mov r9,r10
0027 and r9,0FFFFFFFFFFFFFFF0h
002b shl r9,2
002f and r10,0Fh
0033 xor eax,eax
0036 bts rax,r10
003a sub eax,1
003e kmovw k1,eax
0042 mov rcx,[rdi+10h]
0046 vbroadcastss zmm0,[rel 800h]
0050 vbroadcastss zmm1,[rel 800h]
005a vbroadcastss zmm2,[rel 800h]
0064 vbroadcastss zmm3,[rel 800h]
006e mov eax,0
0074 cmp rax,r8
0077 jge near 00000000000000AFh
007d nop dword [rax]
0080 vmaxps zmm0,zmm0,[rsi+rax]
0087 vmaxps zmm1,zmm1,[rsi+rax+40h]
008f vmaxps zmm2,zmm2,[rsi+rax+80h]
0097 vmaxps zmm3,zmm3,[rsi+rax+0C0h]
009f add rax,100h
00a6 cmp rax,r8
00a9 jl near 0000000000000080h
00af cmp rax,r9
00b2 jge near 00000000000000D4h
00b8 nop dword [rax+rax]
00c0 vmaxps zmm0,zmm0,[rsi+rax]
00c7 add rax,40h
00cb cmp rax,r9
00ce jl near 00000000000000C0h
00d4 test r10,r10
00d7 je near 00000000000000F0h
00dd vmovups zmm8{k1}{z},[rsi+rax]
00e4 vmaxps zmm9,zmm0,zmm8
00ea vblendmps zmm0{k1},zmm0,zmm9
00f0 vmaxps zmm0,zmm0,zmm1
00f6 vmaxps zmm2,zmm2,zmm3
00fc vmaxps zmm0,zmm0,zmm2
0102 vshuff32x4 zmm8,zmm0,zmm0,4Eh
0109 vmaxps zmm13,zmm0,zmm8
010f vshuff32x4 zmm8,zmm13,zmm13,0B1h
0116 vmaxps zmm13,zmm13,zmm8
011c vpermilps zmm8,zmm13,4Eh
0123 vmaxps zmm13,zmm13,zmm8
0129 vpermilps zmm8,zmm13,0B1h
0130 vmaxps zmm13,zmm13,zmm8
0136 vbroadcastss zmm13,xmm13
013c vpxord zmm14,zmm14,zmm14
0142 mov eax,0
0148 cmp rax,r8
014b jge near 00000000000003CCh
0151 nop word [rax+rax]
015a nop word [rax+rax]
0160 vmovups zmm0,[rsi+rax]
0167 vsubps zmm0,zmm0,zmm13
016d vmovups zmm3,[rsi+rax+40h]
0175 vsubps zmm3,zmm3,zmm13
017b vmovups zmm6,[rsi+rax+80h]
0183 vsubps zmm6,zmm6,zmm13
0189 vmovups zmm9,[rsi+rax+0C0h]
0191 vsubps zmm9,zmm9,zmm13
0197 vbroadcastss zmm12,[rel 804h]
01a1 vmaxps zmm0,zmm12,zmm0
01a7 vmaxps zmm3,zmm12,zmm3
01ad vmaxps zmm6,zmm12,zmm6
01b3 vmaxps zmm9,zmm12,zmm9
01b9 vbroadcastss zmm12,[rel 808h]
01c3 vmovups zmm1,zmm12
01c9 vmovups zmm4,zmm12
01cf vmovups zmm7,zmm12
01d5 vmovups zmm10,zmm12
01db vbroadcastss zmm12,[rel 80Ch]
01e5 vfmadd231ps zmm1,zmm0,zmm12
01eb vfmadd231ps zmm4,zmm3,zmm12
01f1 vfmadd231ps zmm7,zmm6,zmm12
01f7 vfmadd231ps zmm10,zmm9,zmm12
01fd vpslld zmm2,zmm1,17h
0204 vpslld zmm5,zmm4,17h
020b vpslld zmm8,zmm7,17h
0212 vpslld zmm11,zmm10,17h
0219 vbroadcastss zmm12,[rel 810h]
0223 vaddps zmm1,zmm1,zmm12
0229 vaddps zmm4,zmm4,zmm12
022f vaddps zmm7,zmm7,zmm12
0235 vaddps zmm10,zmm10,zmm12
023b vbroadcastss zmm12,[rel 814h]
0245 vfnmadd231ps zmm0,zmm1,zmm12
024b vfnmadd231ps zmm3,zmm4,zmm12
0251 vfnmadd231ps zmm6,zmm7,zmm12
0257 vfnmadd231ps zmm9,zmm10,zmm12
025d vbroadcastss zmm12,[rel 818h]
0267 vfnmadd231ps zmm0,zmm1,zmm12
026d vfnmadd231ps zmm3,zmm4,zmm12
0273 vfnmadd231ps zmm6,zmm7,zmm12
0279 vfnmadd231ps zmm9,zmm10,zmm12
027f vbroadcastss zmm12,[rel 81Ch]
0289 vmovups zmm1,zmm12
028f vmovups zmm4,zmm12
0295 vmovups zmm7,zmm12
029b vmovups zmm10,zmm12
02a1 vbroadcastss zmm12,[rel 820h]
02ab vfmadd213ps zmm1,zmm0,zmm12
02b1 vfmadd213ps zmm4,zmm3,zmm12
02b7 vfmadd213ps zmm7,zmm6,zmm12
02bd vfmadd213ps zmm10,zmm9,zmm12
02c3 vbroadcastss zmm12,[rel 824h]
02cd vfmadd213ps zmm1,zmm0,zmm12
02d3 vfmadd213ps zmm4,zmm3,zmm12
02d9 vfmadd213ps zmm7,zmm6,zmm12
02df vfmadd213ps zmm10,zmm9,zmm12
02e5 vbroadcastss zmm12,[rel 828h]
02ef vfmadd213ps zmm1,zmm0,zmm12
02f5 vfmadd213ps zmm4,zmm3,zmm12
02fb vfmadd213ps zmm7,zmm6,zmm12
0301 vfmadd213ps zmm10,zmm9,zmm12
0307 vbroadcastss zmm12,[rel 82Ch]
0311 vfmadd213ps zmm1,zmm0,zmm12
0317 vfmadd213ps zmm4,zmm3,zmm12
031d vfmadd213ps zmm7,zmm6,zmm12
0323 vfmadd213ps zmm10,zmm9,zmm12
0329 vbroadcastss zmm12,[rel 830h]
0333 vfmadd213ps zmm1,zmm0,zmm12
0339 vfmadd213ps zmm4,zmm3,zmm12
033f vfmadd213ps zmm7,zmm6,zmm12
0345 vfmadd213ps zmm10,zmm9,zmm12
034b vbroadcastss zmm12,[rel 830h]
0355 vfmadd213ps zmm0,zmm1,zmm12
035b vfmadd213ps zmm3,zmm4,zmm12
0361 vfmadd213ps zmm6,zmm7,zmm12
0367 vfmadd213ps zmm9,zmm10,zmm12
036d vmulps zmm0,zmm0,zmm2
0373 vmulps zmm3,zmm3,zmm5
0379 vmulps zmm6,zmm6,zmm8
037f vmulps zmm9,zmm9,zmm11
0385 vmovups [rdx+rax],zmm0
038c vmovups [rdx+rax+40h],zmm3
0394 vmovups [rdx+rax+80h],zmm6
039c vmovups [rdx+rax+0C0h],zmm9
03a4 vaddps zmm0,zmm0,zmm6
03aa vaddps zmm3,zmm3,zmm9
03b0 vaddps zmm0,zmm0,zmm3
03b6 vaddps zmm14,zmm14,zmm0
03bc add rax,100h
03c3 cmp rax,r8
03c6 jl near 0000000000000160h
03cc mov r15,r9
03cf sub r15,rax
03d2 cmp r15,80h
03d9 jl near 0000000000000554h
03df vmovups zmm0,[rsi+rax]
03e6 vsubps zmm0,zmm0,zmm13
03ec vmovups zmm3,[rsi+rax+40h]
03f4 vsubps zmm3,zmm3,zmm13
03fa vbroadcastss zmm12,[rel 804h]
0404 vmaxps zmm0,zmm12,zmm0
040a vmaxps zmm3,zmm12,zmm3
0410 vbroadcastss zmm12,[rel 808h]
041a vmovups zmm1,zmm12
0420 vmovups zmm4,zmm12
0426 vbroadcastss zmm12,[rel 80Ch]
0430 vfmadd231ps zmm1,zmm0,zmm12
0436 vfmadd231ps zmm4,zmm3,zmm12
043c vpslld zmm2,zmm1,17h
0443 vpslld zmm5,zmm4,17h
044a vbroadcastss zmm12,[rel 810h]
0454 vaddps zmm1,zmm1,zmm12
045a vaddps zmm4,zmm4,zmm12
0460 vbroadcastss zmm12,[rel 814h]
046a vfnmadd231ps zmm0,zmm1,zmm12
0470 vfnmadd231ps zmm3,zmm4,zmm12
0476 vbroadcastss zmm12,[rel 818h]
0480 vfnmadd231ps zmm0,zmm1,zmm12
0486 vfnmadd231ps zmm3,zmm4,zmm12
048c vbroadcastss zmm12,[rel 81Ch]
0496 vmovups zmm1,zmm12
049c vmovups zmm4,zmm12
04a2 vbroadcastss zmm12,[rel 820h]
04ac vfmadd213ps zmm1,zmm0,zmm12
04b2 vfmadd213ps zmm4,zmm3,zmm12
04b8 vbroadcastss zmm12,[rel 824h]
04c2 vfmadd213ps zmm1,zmm0,zmm12
04c8 vfmadd213ps zmm4,zmm3,zmm12
04ce vbroadcastss zmm12,[rel 828h]
04d8 vfmadd213ps zmm1,zmm0,zmm12
04de vfmadd213ps zmm4,zmm3,zmm12
04e4 vbroadcastss zmm12,[rel 82Ch]
04ee vfmadd213ps zmm1,zmm0,zmm12
04f4 vfmadd213ps zmm4,zmm3,zmm12
04fa vbroadcastss zmm12,[rel 830h]
0504 vfmadd213ps zmm1,zmm0,zmm12
050a vfmadd213ps zmm4,zmm3,zmm12
0510 vbroadcastss zmm12,[rel 830h]
051a vfmadd213ps zmm0,zmm1,zmm12
0520 vfmadd213ps zmm3,zmm4,zmm12
0526 vmulps zmm0,zmm0,zmm2
052c vmulps zmm3,zmm3,zmm5
0532 vmovups [rdx+rax],zmm0
0539 vmovups [rdx+rax+40h],zmm3
0541 vaddps zmm0,zmm0,zmm3
0547 vaddps zmm14,zmm14,zmm0
054d add rax,80h
0554 mov r15,r9
0557 sub r15,rax
055a cmp r15,40h
055e jl near 0000000000000617h
0564 vmovups zmm0,[rsi+rax]
056b vsubps zmm0,zmm0,zmm13
0571 vbroadcastss zmm1,[rel 804h]
057b vmaxps zmm0,zmm1,zmm0
0581 vbroadcastss zmm1,[rel 808h]
058b vfmadd231ps zmm1,zmm0,[rel 80Ch]{1to16}
0595 vpslld zmm2,zmm1,17h
059c vaddps zmm1,zmm1,[rel 810h]{1to16}
05a6 vfnmadd231ps zmm0,zmm1,[rel 814h]{1to16}
05b0 vfnmadd231ps zmm0,zmm1,[rel 818h]{1to16}
05ba vbroadcastss zmm1,[rel 81Ch]
05c4 vfmadd213ps zmm1,zmm0,[rel 820h]{1to16}
05ce vfmadd213ps zmm1,zmm0,[rel 824h]{1to16}
05d8 vfmadd213ps zmm1,zmm0,[rel 828h]{1to16}
05e2 vfmadd213ps zmm1,zmm0,[rel 82Ch]{1to16}
05ec vfmadd213ps zmm1,zmm0,[rel 830h]{1to16}
05f6 vfmadd213ps zmm0,zmm1,[rel 830h]{1to16}
0600 vmulps zmm0,zmm0,zmm2
0606 vmovups [rdx+rax],zmm0
060d vaddps zmm14,zmm14,zmm0
0613 add rax,40h
0617 test r10,r10
061a je near 00000000000006DBh
0620 vmovups zmm0{k1}{z},[rsi+rax]
0627 vsubps zmm0,zmm0,zmm13
062d vbroadcastss zmm1,[rel 804h]
0637 vmaxps zmm0,zmm1,zmm0
063d vbroadcastss zmm1,[rel 808h]
0647 vfmadd231ps zmm1,zmm0,[rel 80Ch]{1to16}
0651 vpslld zmm2,zmm1,17h
0658 vaddps zmm1,zmm1,[rel 810h]{1to16}
0662 vfnmadd231ps zmm0,zmm1,[rel 814h]{1to16}
066c vfnmadd231ps zmm0,zmm1,[rel 818h]{1to16}
0676 vbroadcastss zmm1,[rel 81Ch]
0680 vfmadd213ps zmm1,zmm0,[rel 820h]{1to16}
068a vfmadd213ps zmm1,zmm0,[rel 824h]{1to16}
0694 vfmadd213ps zmm1,zmm0,[rel 828h]{1to16}
069e vfmadd213ps zmm1,zmm0,[rel 82Ch]{1to16}
06a8 vfmadd213ps zmm1,zmm0,[rel 830h]{1to16}
06b2 vfmadd213ps zmm0,zmm1,[rel 830h]{1to16}
06bc vmulps zmm0,zmm0,zmm2
06c2 vpxord zmm1,zmm1,zmm1
06c8 vblendmps zmm0{k1},zmm1,zmm0
06ce vmovups [rdx+rax]{k1},zmm0
06d5 vaddps zmm14,zmm14,zmm0
06db vshuff32x4 zmm0,zmm14,zmm14,4Eh
06e2 vaddps zmm14,zmm14,zmm0
06e8 vshuff32x4 zmm0,zmm14,zmm14,0B1h
06ef vaddps zmm14,zmm14,zmm0
06f5 vpermilps zmm0,zmm14,4Eh
06fc vaddps zmm14,zmm14,zmm0
0702 vpermilps zmm0,zmm14,0B1h
0709 vaddps zmm14,zmm14,zmm0
070f vbroadcastss zmm0,[rel 830h]
0719 vdivps zmm14,zmm0,zmm14
071f mov eax,0
0725 cmp rax,r8
0728 jge near 000000000000077Eh
072e xchg ax,ax
0730 vmulps zmm0,zmm14,[rdx+rax]
0737 vmovups [rdx+rax],zmm0
073e vmulps zmm3,zmm14,[rdx+rax+40h]
0746 vmovups [rdx+rax+40h],zmm3
074e vmulps zmm6,zmm14,[rdx+rax+80h]
0756 vmovups [rdx+rax+80h],zmm6
075e vmulps zmm9,zmm14,[rdx+rax+0C0h]
0766 vmovups [rdx+rax+0C0h],zmm9
076e add rax,100h
0775 cmp rax,r8
0778 jl near 0000000000000730h
077e cmp rax,r9
0781 jge near 00000000000007ABh
0787 nop word [rax+rax]
0790 vmulps zmm0,zmm14,[rdx+rax]
0797 vmovups [rdx+rax],zmm0
079e add rax,40h
07a2 cmp rax,r9
07a5 jl near 0000000000000790h
07ab test r10,r10
07ae je near 00000000000007C8h
07b4 vmovups zmm0{k1}{z},[rdx+rax]
07bb vmulps zmm0,zmm0,zmm14
07c1 vmovups [rdx+rax]{k1},zmm0
07c8 add rsi,r11
07cb add rdx,r11
07ce sub rcx,1
07d2 test rcx,rcx
07d5 jne near 0000000000000046h
07db pop r15
07dd pop r14
07df pop r13
07e1 pop r12
07e3 pop rbp
07e4 pop rbx
07e5 vzeroupper
07e8 ret
07e9 nop word [rax+rax]
07f2 nop word [rax+rax]
07fb nop dword [rax+rax]
; [00, 00, 80, ff]
; [00, 00, b0, c2]
; [7f, 00, 40, 4b]
; [3b, aa, b8, 3f]
; [7f, 00, 40, cb]
; [00, 72, 31, 3f]
; [8e, be, bf, 35]
; [34, ce, b5, 3a]
; [a5, 12, 09, 3c]
; [79, ab, 2a, 3d]
; [5a, aa, 2a, 3e]
; [ff, ff, ff, 3e]
; [00, 00, 80, 3f]
