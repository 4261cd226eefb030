; RowNorm(RowNormCode { isa: Avx512, centred: true, scale: true, bias: true, moments: false, output: F32 })
; part 0, 2948 bytes
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
0019 mov r12,[rdi+20h]
001d mov r13,[rdi+28h]
0021 mov r10,[rdi+40h]
0025 mov r8,r10
0028 and r8,0FFFFFFFFFFFFFFC0h
002c shl r8,2
0030 mov r9,r10
0033 and r9,0FFFFFFFFFFFFFFF0h
0037 shl r9,2
003b and r10,0Fh
003f xor eax,eax
0042 bts rax,r10
0046 sub eax,1
004a kmovw k1,eax
004e mov rcx,[rdi+30h]
0052 test rcx,rcx
0055 je near 0000000000000727h
005b mov r14,rsi
005e add r14,[rdi+48h]
0062 mov rbp,rdx
0065 add rbp,[rdi+50h]
0069 vpxord zmm0,zmm0,zmm0
006f vpxord zmm1,zmm1,zmm1
0075 vpxord zmm2,zmm2,zmm2
007b vpxord zmm3,zmm3,zmm3
0081 vpxord zmm4,zmm4,zmm4
0087 vpxord zmm5,zmm5,zmm5
008d vpxord zmm6,zmm6,zmm6
0093 vpxord zmm7,zmm7,zmm7
0099 mov eax,0
009f cmp rax,r8
00a2 jge near 00000000000000FEh
00a8 nop dword [rax+rax]
00b0 vaddps zmm0,zmm0,[rsi+rax]
00b7 vaddps zmm4,zmm4,[r14+rax]
00be vaddps zmm1,zmm1,[rsi+rax+40h]
00c6 vaddps zmm5,zmm5,[r14+rax+40h]
00ce vaddps zmm2,zmm2,[rsi+rax+80h]
00d6 vaddps zmm6,zmm6,[r14+rax+80h]
00de vaddps zmm3,zmm3,[rsi+rax+0C0h]
00e6 vaddps zmm7,zmm7,[r14+rax+0C0h]
00ee add rax,100h
00f5 cmp rax,r8
00f8 jl near 00000000000000B0h
00fe cmp rax,r9
0101 jge near 000000000000012Bh
0107 nop word [rax+rax]
0110 vaddps zmm0,zmm0,[rsi+rax]
0117 vaddps zmm4,zmm4,[r14+rax]
011e add rax,40h
0122 cmp rax,r9
0125 jl near 0000000000000110h
012b test r10,r10
012e je near 000000000000014Eh
0134 vmovups zmm12{k1}{z},[rsi+rax]
013b vaddps zmm0,zmm0,zmm12
0141 vmovups zmm12{k1}{z},[r14+rax]
0148 vaddps zmm4,zmm4,zmm12
014e vaddps zmm0,zmm0,zmm1
0154 vaddps zmm4,zmm4,zmm5
015a vaddps zmm2,zmm2,zmm3
0160 vaddps zmm6,zmm6,zmm7
0166 vaddps zmm0,zmm0,zmm2
016c vaddps zmm4,zmm4,zmm6
0172 vpbroadcastd zmm13,[rdi+68h]
0179 vshuff32x4 zmm14,zmm0,zmm0,4Eh
0180 vaddps zmm8,zmm0,zmm14
0186 vshuff32x4 zmm14,zmm8,zmm8,0B1h
018d vaddps zmm8,zmm8,zmm14
0193 vpermilps zmm14,zmm8,4Eh
019a vaddps zmm8,zmm8,zmm14
01a0 vpermilps zmm14,zmm8,0B1h
01a7 vaddps zmm8,zmm8,zmm14
01ad vmulps zmm8,zmm8,zmm13
01b3 vshuff32x4 zmm14,zmm4,zmm4,4Eh
01ba vaddps zmm9,zmm4,zmm14
01c0 vshuff32x4 zmm14,zmm9,zmm9,0B1h
01c7 vaddps zmm9,zmm9,zmm14
01cd vpermilps zmm14,zmm9,4Eh
01d4 vaddps zmm9,zmm9,zmm14
01da vpermilps zmm14,zmm9,0B1h
01e1 vaddps zmm9,zmm9,zmm14
01e7 vmulps zmm9,zmm9,zmm13
01ed vpxord zmm0,zmm0,zmm0
01f3 vpxord zmm1,zmm1,zmm1
01f9 vpxord zmm2,zmm2,zmm2
01ff vpxord zmm3,zmm3,zmm3
0205 vpxord zmm4,zmm4,zmm4
020b vpxord zmm5,zmm5,zmm5
0211 vpxord zmm6,zmm6,zmm6
0217 vpxord zmm7,zmm7,zmm7
021d mov eax,0
0223 cmp rax,r8
0226 jge near 000000000000031Ah
022c nop dword [rax]
0230 prefetcht0 [rdx+rax]
0236 vmovups zmm12,[rsi+rax]
023d vsubps zmm12,zmm12,zmm8
0243 vfmadd231ps zmm0,zmm12,zmm12
0249 prefetcht0 [rbp+rax]
024f vmovups zmm12,[r14+rax]
0256 vsubps zmm12,zmm12,zmm9
025c vfmadd231ps zmm4,zmm12,zmm12
0262 prefetcht0 [rdx+rax+40h]
0268 vmovups zmm12,[rsi+rax+40h]
0270 vsubps zmm12,zmm12,zmm8
0276 vfmadd231ps zmm1,zmm12,zmm12
027c prefetcht0 [rbp+rax+40h]
0282 vmovups zmm12,[r14+rax+40h]
028a vsubps zmm12,zmm12,zmm9
0290 vfmadd231ps zmm5,zmm12,zmm12
0296 prefetcht0 [rdx+rax+80h]
029f vmovups zmm12,[rsi+rax+80h]
02a7 vsubps zmm12,zmm12,zmm8
02ad vfmadd231ps zmm2,zmm12,zmm12
02b3 prefetcht0 [rbp+rax+80h]
02bc vmovups zmm12,[r14+rax+80h]
02c4 vsubps zmm12,zmm12,zmm9
02ca vfmadd231ps zmm6,zmm12,zmm12
02d0 prefetcht0 [rdx+rax+0C0h]
02d9 vmovups zmm12,[rsi+rax+0C0h]
02e1 vsubps zmm12,zmm12,zmm8
02e7 vfmadd231ps zmm3,zmm12,zmm12
02ed prefetcht0 [rbp+rax+0C0h]
02f6 vmovups zmm12,[r14+rax+0C0h]
02fe vsubps zmm12,zmm12,zmm9
0304 vfmadd231ps zmm7,zmm12,zmm12
030a add rax,100h
0311 cmp rax,r8
0314 jl near 0000000000000230h
031a cmp rax,r9
031d jge near 000000000000036Fh
0323 nop word [rax+rax]
032c nop dword [rax]
0330 prefetcht0 [rdx+rax]
0336 vmovups zmm12,[rsi+rax]
033d vsubps zmm12,zmm12,zmm8
0343 vfmadd231ps zmm0,zmm12,zmm12
0349 prefetcht0 [rbp+rax]
034f vmovups zmm12,[r14+rax]
0356 vsubps zmm12,zmm12,zmm9
035c vfmadd231ps zmm4,zmm12,zmm12
0362 add rax,40h
0366 cmp rax,r9
0369 jl near 0000000000000330h
036f test r10,r10
0372 je near 00000000000003B6h
0378 vmovups zmm12{k1}{z},[rsi+rax]
037f vsubps zmm12,zmm12,zmm8
0385 vpxord zmm14,zmm14,zmm14
038b vblendmps zmm12{k1},zmm14,zmm12
0391 vfmadd231ps zmm0,zmm12,zmm12
0397 vmovups zmm12{k1}{z},[r14+rax]
039e vsubps zmm12,zmm12,zmm9
03a4 vpxord zmm14,zmm14,zmm14
03aa vblendmps zmm12{k1},zmm14,zmm12
03b0 vfmadd231ps zmm4,zmm12,zmm12
03b6 vaddps zmm0,zmm0,zmm1
03bc vaddps zmm4,zmm4,zmm5
03c2 vaddps zmm2,zmm2,zmm3
03c8 vaddps zmm6,zmm6,zmm7
03ce vaddps zmm0,zmm0,zmm2
03d4 vaddps zmm4,zmm4,zmm6
03da vpbroadcastd zmm13,[rdi+68h]
03e1 vshuff32x4 zmm14,zmm0,zmm0,4Eh
03e8 vaddps zmm10,zmm0,zmm14
03ee vshuff32x4 zmm14,zmm10,zmm10,0B1h
03f5 vaddps zmm10,zmm10,zmm14
03fb vpermilps zmm14,zmm10,4Eh
0402 vaddps zmm10,zmm10,zmm14
0408 vpermilps zmm14,zmm10,0B1h
040f vaddps zmm10,zmm10,zmm14
0415 vmulps zmm10,zmm10,zmm13
041b vshuff32x4 zmm14,zmm4,zmm4,4Eh
0422 vaddps zmm11,zmm4,zmm14
0428 vshuff32x4 zmm14,zmm11,zmm11,0B1h
042f vaddps zmm11,zmm11,zmm14
0435 vpermilps zmm14,zmm11,4Eh
043c vaddps zmm11,zmm11,zmm14
0442 vpermilps zmm14,zmm11,0B1h
0449 vaddps zmm11,zmm11,zmm14
044f vmulps zmm11,zmm11,zmm13
0455 vpbroadcastd zmm13,[rdi+6Ch]
045c vbroadcastss zmm12,[rel 0B80h]
0466 vaddps zmm10,zmm10,zmm13
046c vsqrtps zmm10,zmm10
0472 vdivps zmm10,zmm12,zmm10
0478 vaddps zmm11,zmm11,zmm13
047e vsqrtps zmm11,zmm11
0484 vdivps zmm11,zmm12,zmm11
048a mov r15,r14
048d add r15,[rdi+48h]
0491 add r15,[rdi+48h]
0495 mov eax,0
049b cmp rax,r8
049e jge near 0000000000000629h
04a4 nop word [rax+rax]
04ad nop dword [rax]
04b0 prefetcht0 [r15+rax]
04b6 vmovups zmm13,[r11+rax]
04bd vmovups zmm14,[rbx+rax]
04c4 vmovups zmm12,[rsi+rax]
04cb vsubps zmm12,zmm12,zmm8
04d1 vmulps zmm12,zmm12,zmm10
04d7 vfmadd213ps zmm12,zmm13,zmm14
04dd vmovups [rdx+rax],zmm12
04e4 vmovups zmm12,[r14+rax]
04eb vsubps zmm12,zmm12,zmm9
04f1 vmulps zmm12,zmm12,zmm11
04f7 vfmadd213ps zmm12,zmm13,zmm14
04fd vmovups [rbp+rax],zmm12
0505 prefetcht0 [r15+rax+40h]
050b vmovups zmm13,[r11+rax+40h]
0513 vmovups zmm14,[rbx+rax+40h]
051b vmovups zmm12,[rsi+rax+40h]
0523 vsubps zmm12,zmm12,zmm8
0529 vmulps zmm12,zmm12,zmm10
052f vfmadd213ps zmm12,zmm13,zmm14
0535 vmovups [rdx+rax+40h],zmm12
053d vmovups zmm12,[r14+rax+40h]
0545 vsubps zmm12,zmm12,zmm9
054b vmulps zmm12,zmm12,zmm11
0551 vfmadd213ps zmm12,zmm13,zmm14
0557 vmovups [rbp+rax+40h],zmm12
055f prefetcht0 [r15+rax+80h]
0568 vmovups zmm13,[r11+rax+80h]
0570 vmovups zmm14,[rbx+rax+80h]
0578 vmovups zmm12,[rsi+rax+80h]
0580 vsubps zmm12,zmm12,zmm8
0586 vmulps zmm12,zmm12,zmm10
058c vfmadd213ps zmm12,zmm13,zmm14
0592 vmovups [rdx+rax+80h],zmm12
059a vmovups zmm12,[r14+rax+80h]
05a2 vsubps zmm12,zmm12,zmm9
05a8 vmulps zmm12,zmm12,zmm11
05ae vfmadd213ps zmm12,zmm13,zmm14
05b4 vmovups [rbp+rax+80h],zmm12
05bc prefetcht0 [r15+rax+0C0h]
05c5 vmovups zmm13,[r11+rax+0C0h]
05cd vmovups zmm14,[rbx+rax+0C0h]
05d5 vmovups zmm12,[rsi+rax+0C0h]
05dd vsubps zmm12,zmm12,zmm8
05e3 vmulps zmm12,zmm12,zmm10
05e9 vfmadd213ps zmm12,zmm13,zmm14
05ef vmovups [rdx+rax+0C0h],zmm12
05f7 vmovups zmm12,[r14+rax+0C0h]
05ff vsubps zmm12,zmm12,zmm9
0605 vmulps zmm12,zmm12,zmm11
060b vfmadd213ps zmm12,zmm13,zmm14
0611 vmovups [rbp+rax+0C0h],zmm12
0619 add rax,100h
0620 cmp rax,r8
0623 jl near 00000000000004B0h
0629 cmp rax,r9
062c jge near 00000000000006A2h
0632 nop word [rax+rax]
063b nop dword [rax+rax]
0640 prefetcht0 [r15+rax]
0646 vmovups zmm13,[r11+rax]
064d vmovups zmm14,[rbx+rax]
0654 vmovups zmm12,[rsi+rax]
065b vsubps zmm12,zmm12,zmm8
0661 vmulps zmm12,zmm12,zmm10
0667 vfmadd213ps zmm12,zmm13,zmm14
066d vmovups [rdx+rax],zmm12
0674 vmovups zmm12,[r14+rax]
067b vsubps zmm12,zmm12,zmm9
0681 vmulps zmm12,zmm12,zmm11
0687 vfmadd213ps zmm12,zmm13,zmm14
068d vmovups [rbp+rax],zmm12
0695 add rax,40h
0699 cmp rax,r9
069c jl near 0000000000000640h
06a2 test r10,r10
06a5 je near 00000000000006FAh
06ab vmovups zmm13{k1}{z},[r11+rax]
06b2 vmovups zmm14{k1}{z},[rbx+rax]
06b9 vmovups zmm12{k1}{z},[rsi+rax]
06c0 vsubps zmm12,zmm12,zmm8
06c6 vmulps zmm12,zmm12,zmm10
06cc vfmadd213ps zmm12,zmm13,zmm14
06d2 vmovups [rdx+rax]{k1},zmm12
06d9 vmovups zmm12{k1}{z},[r14+rax]
06e0 vsubps zmm12,zmm12,zmm9
06e6 vmulps zmm12,zmm12,zmm11
06ec vfmadd213ps zmm12,zmm13,zmm14
06f2 vmovups [rbp+rax]{k1},zmm12
06fa add rsi,[rdi+48h]
06fe add rdx,[rdi+50h]
0702 add r11,[rdi+58h]
0706 add rbx,[rdi+60h]
070a add rsi,[rdi+48h]
070e add rdx,[rdi+50h]
0712 add r11,[rdi+58h]
0716 add rbx,[rdi+60h]
071a sub rcx,1
071e test rcx,rcx
0721 jne near 000000000000005Bh
0727 mov rcx,[rdi+38h]
072b test rcx,rcx
072e je near 0000000000000B55h
0734 vpxord zmm0,zmm0,zmm0
073a vpxord zmm1,zmm1,zmm1
0740 vpxord zmm2,zmm2,zmm2
0746 vpxord zmm3,zmm3,zmm3
074c mov eax,0
0752 cmp rax,r8
0755 jge near 000000000000078Fh
075b nop dword [rax+rax]
0760 vaddps zmm0,zmm0,[rsi+rax]
0767 vaddps zmm1,zmm1,[rsi+rax+40h]
076f vaddps zmm2,zmm2,[rsi+rax+80h]
0777 vaddps zmm3,zmm3,[rsi+rax+0C0h]
077f add rax,100h
0786 cmp rax,r8
0789 jl near 0000000000000760h
078f cmp rax,r9
0792 jge near 00000000000007B4h
0798 nop dword [rax+rax]
07a0 vaddps zmm0,zmm0,[rsi+rax]
07a7 add rax,40h
07ab cmp rax,r9
07ae jl near 00000000000007A0h
07b4 test r10,r10
07b7 je near 00000000000007CAh
07bd vmovups zmm12{k1}{z},[rsi+rax]
07c4 vaddps zmm0,zmm0,zmm12
07ca vaddps zmm0,zmm0,zmm1
07d0 vaddps zmm2,zmm2,zmm3
07d6 vaddps zmm0,zmm0,zmm2
07dc vpbroadcastd zmm13,[rdi+68h]
07e3 vshuff32x4 zmm14,zmm0,zmm0,4Eh
07ea vaddps zmm8,zmm0,zmm14
07f0 vshuff32x4 zmm14,zmm8,zmm8,0B1h
07f7 vaddps zmm8,zmm8,zmm14
07fd vpermilps zmm14,zmm8,4Eh
0804 vaddps zmm8,zmm8,zmm14
080a vpermilps zmm14,zmm8,0B1h
0811 vaddps zmm8,zmm8,zmm14
0817 vmulps zmm8,zmm8,zmm13
081d vpxord zmm0,zmm0,zmm0
0823 vpxord zmm1,zmm1,zmm1
0829 vpxord zmm2,zmm2,zmm2
082f vpxord zmm3,zmm3,zmm3
0835 mov eax,0
083b cmp rax,r8
083e jge near 00000000000008CDh
0844 nop word [rax+rax]
084d nop dword [rax]
0850 prefetcht0 [rdx+rax]
0856 vmovups zmm12,[rsi+rax]
085d vsubps zmm12,zmm12,zmm8
0863 vfmadd231ps zmm0,zmm12,zmm12
0869 prefetcht0 [rdx+rax+40h]
086f vmovups zmm12,[rsi+rax+40h]
0877 vsubps zmm12,zmm12,zmm8
087d vfmadd231ps zmm1,zmm12,zmm12
0883 prefetcht0 [rdx+rax+80h]
088c vmovups zmm12,[rsi+rax+80h]
0894 vsubps zmm12,zmm12,zmm8
089a vfmadd231ps zmm2,zmm12,zmm12
08a0 prefetcht0 [rdx+rax+0C0h]
08a9 vmovups zmm12,[rsi+rax+0C0h]
08b1 vsubps zmm12,zmm12,zmm8
08b7 vfmadd231ps zmm3,zmm12,zmm12
08bd add rax,100h
08c4 cmp rax,r8
08c7 jl near 0000000000000850h
08cd cmp rax,r9
08d0 jge near 0000000000000906h
08d6 nop word [rax+rax]
08df nop
08e0 prefetcht0 [rdx+rax]
08e6 vmovups zmm12,[rsi+rax]
08ed vsubps zmm12,zmm12,zmm8
08f3 vfmadd231ps zmm0,zmm12,zmm12
08f9 add rax,40h
08fd cmp rax,r9
0900 jl near 00000000000008E0h
0906 test r10,r10
0909 je near 000000000000092Eh
090f vmovups zmm12{k1}{z},[rsi+rax]
0916 vsubps zmm12,zmm12,zmm8
091c vpxord zmm14,zmm14,zmm14
0922 vblendmps zmm12{k1},zmm14,zmm12
0928 vfmadd231ps zmm0,zmm12,zmm12
092e vaddps zmm0,zmm0,zmm1
0934 vaddps zmm2,zmm2,zmm3
093a vaddps zmm0,zmm0,zmm2
0940 vpbroadcastd zmm13,[rdi+68h]
0947 vshuff32x4 zmm14,zmm0,zmm0,4Eh
094e vaddps zmm10,zmm0,zmm14
0954 vshuff32x4 zmm14,zmm10,zmm10,0B1h
095b vaddps zmm10,zmm10,zmm14
0961 vpermilps zmm14,zmm10,4Eh
0968 vaddps zmm10,zmm10,zmm14
096e vpermilps zmm14,zmm10,0B1h
0975 vaddps zmm10,zmm10,zmm14
097b vmulps zmm10,zmm10,zmm13
0981 vpbroadcastd zmm13,[rdi+6Ch]
0988 vbroadcastss zmm12,[rel 0B80h]
0992 vaddps zmm10,zmm10,zmm13
0998 vsqrtps zmm10,zmm10
099e vdivps zmm10,zmm12,zmm10
09a4 mov r15,rsi
09a7 add r15,[rdi+48h]
09ab mov eax,0
09b1 cmp rax,r8
09b4 jge near 0000000000000AB2h
09ba nop word [rax+rax]
09c0 prefetcht0 [r15+rax]
09c6 vmovups zmm13,[r11+rax]
09cd vmovups zmm14,[rbx+rax]
09d4 vmovups zmm12,[rsi+rax]
09db vsubps zmm12,zmm12,zmm8
09e1 vmulps zmm12,zmm12,zmm10
09e7 vfmadd213ps zmm12,zmm13,zmm14
09ed vmovups [rdx+rax],zmm12
09f4 prefetcht0 [r15+rax+40h]
09fa vmovups zmm13,[r11+rax+40h]
0a02 vmovups zmm14,[rbx+rax+40h]
0a0a vmovups zmm12,[rsi+rax+40h]
0a12 vsubps zmm12,zmm12,zmm8
0a18 vmulps zmm12,zmm12,zmm10
0a1e vfmadd213ps zmm12,zmm13,zmm14
0a24 vmovups [rdx+rax+40h],zmm12
0a2c prefetcht0 [r15+rax+80h]
0a35 vmovups zmm13,[r11+rax+80h]
0a3d vmovups zmm14,[rbx+rax+80h]
0a45 vmovups zmm12,[rsi+rax+80h]
0a4d vsubps zmm12,zmm12,zmm8
0a53 vmulps zmm12,zmm12,zmm10
0a59 vfmadd213ps zmm12,zmm13,zmm14
0a5f vmovups [rdx+rax+80h],zmm12
0a67 prefetcht0 [r15+rax+0C0h]
0a70 vmovups zmm13,[r11+rax+0C0h]
0a78 vmovups zmm14,[rbx+rax+0C0h]
0a80 vmovups zmm12,[rsi+rax+0C0h]
0a88 vsubps zmm12,zmm12,zmm8
0a8e vmulps zmm12,zmm12,zmm10
0a94 vfmadd213ps zmm12,zmm13,zmm14
0a9a vmovups [rdx+rax+0C0h],zmm12
0aa2 add rax,100h
0aa9 cmp rax,r8
0aac jl near 00000000000009C0h
0ab2 cmp rax,r9
0ab5 jge near 0000000000000B01h
0abb nop dword [rax+rax]
0ac0 prefetcht0 [r15+rax]
0ac6 vmovups zmm13,[r11+rax]
0acd vmovups zmm14,[rbx+rax]
0ad4 vmovups zmm12,[rsi+rax]
0adb vsubps zmm12,zmm12,zmm8
0ae1 vmulps zmm12,zmm12,zmm10
0ae7 vfmadd213ps zmm12,zmm13,zmm14
0aed vmovups [rdx+rax],zmm12
0af4 add rax,40h
0af8 cmp rax,r9
0afb jl near 0000000000000AC0h
0b01 test r10,r10
0b04 je near 0000000000000B38h
0b0a vmovups zmm13{k1}{z},[r11+rax]
0b11 vmovups zmm14{k1}{z},[rbx+rax]
0b18 vmovups zmm12{k1}{z},[rsi+rax]
0b1f vsubps zmm12,zmm12,zmm8
0b25 vmulps zmm12,zmm12,zmm10
0b2b vfmadd213ps zmm12,zmm13,zmm14
0b31 vmovups [rdx+rax]{k1},zmm12
0b38 add rsi,[rdi+48h]
0b3c add rdx,[rdi+50h]
0b40 add r11,[rdi+58h]
0b44 add rbx,[rdi+60h]
0b48 sub rcx,1
0b4c test rcx,rcx
0b4f jne near 0000000000000734h
0b55 pop r15
0b57 pop r14
0b59 pop r13
0b5b pop r12
0b5d pop rbp
0b5e pop rbx
0b5f vzeroupper
0b62 ret
0b63 nop word [rax+rax]
0b6c nop word [rax+rax]
0b75 nop word [rax+rax]
0b7e xchg ax,ax
; [00, 00, 80, 3f]
