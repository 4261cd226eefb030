; RowNorm(RowNormCode { isa: Avx512, centred: true, scale: true, bias: true, moments: false, output: F32 })
; part 0, 2756 bytes
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
0055 je near 00000000000006A1h
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
0172 vbroadcastss zmm13,[rdi+68h]
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
0226 jge near 00000000000002DEh
022c nop dword [rax]
0230 vmovups zmm12,[rsi+rax]
0237 vsubps zmm12,zmm12,zmm8
023d vfmadd231ps zmm0,zmm12,zmm12
0243 vmovups zmm12,[r14+rax]
024a vsubps zmm12,zmm12,zmm9
0250 vfmadd231ps zmm4,zmm12,zmm12
0256 vmovups zmm12,[rsi+rax+40h]
025e vsubps zmm12,zmm12,zmm8
0264 vfmadd231ps zmm1,zmm12,zmm12
026a vmovups zmm12,[r14+rax+40h]
0272 vsubps zmm12,zmm12,zmm9
0278 vfmadd231ps zmm5,zmm12,zmm12
027e vmovups zmm12,[rsi+rax+80h]
0286 vsubps zmm12,zmm12,zmm8
028c vfmadd231ps zmm2,zmm12,zmm12
0292 vmovups zmm12,[r14+rax+80h]
029a vsubps zmm12,zmm12,zmm9
02a0 vfmadd231ps zmm6,zmm12,zmm12
02a6 vmovups zmm12,[rsi+rax+0C0h]
02ae vsubps zmm12,zmm12,zmm8
02b4 vfmadd231ps zmm3,zmm12,zmm12
02ba vmovups zmm12,[r14+rax+0C0h]
02c2 vsubps zmm12,zmm12,zmm9
02c8 vfmadd231ps zmm7,zmm12,zmm12
02ce add rax,100h
02d5 cmp rax,r8
02d8 jl near 0000000000000230h
02de cmp rax,r9
02e1 jge near 0000000000000323h
02e7 nop word [rax+rax]
02f0 vmovups zmm12,[rsi+rax]
02f7 vsubps zmm12,zmm12,zmm8
02fd vfmadd231ps zmm0,zmm12,zmm12
0303 vmovups zmm12,[r14+rax]
030a vsubps zmm12,zmm12,zmm9
0310 vfmadd231ps zmm4,zmm12,zmm12
0316 add rax,40h
031a cmp rax,r9
031d jl near 00000000000002F0h
0323 test r10,r10
0326 je near 000000000000036Ah
032c vmovups zmm12{k1}{z},[rsi+rax]
0333 vsubps zmm12,zmm12,zmm8
0339 vpxord zmm14,zmm14,zmm14
033f vblendmps zmm12{k1},zmm14,zmm12
0345 vfmadd231ps zmm0,zmm12,zmm12
034b vmovups zmm12{k1}{z},[r14+rax]
0352 vsubps zmm12,zmm12,zmm9
0358 vpxord zmm14,zmm14,zmm14
035e vblendmps zmm12{k1},zmm14,zmm12
0364 vfmadd231ps zmm4,zmm12,zmm12
036a vaddps zmm0,zmm0,zmm1
0370 vaddps zmm4,zmm4,zmm5
0376 vaddps zmm2,zmm2,zmm3
037c vaddps zmm6,zmm6,zmm7
0382 vaddps zmm0,zmm0,zmm2
0388 vaddps zmm4,zmm4,zmm6
038e vbroadcastss zmm13,[rdi+68h]
0395 vshuff32x4 zmm14,zmm0,zmm0,4Eh
039c vaddps zmm10,zmm0,zmm14
03a2 vshuff32x4 zmm14,zmm10,zmm10,0B1h
03a9 vaddps zmm10,zmm10,zmm14
03af vpermilps zmm14,zmm10,4Eh
03b6 vaddps zmm10,zmm10,zmm14
03bc vpermilps zmm14,zmm10,0B1h
03c3 vaddps zmm10,zmm10,zmm14
03c9 vmulps zmm10,zmm10,zmm13
03cf vshuff32x4 zmm14,zmm4,zmm4,4Eh
03d6 vaddps zmm11,zmm4,zmm14
03dc vshuff32x4 zmm14,zmm11,zmm11,0B1h
03e3 vaddps zmm11,zmm11,zmm14
03e9 vpermilps zmm14,zmm11,4Eh
03f0 vaddps zmm11,zmm11,zmm14
03f6 vpermilps zmm14,zmm11,0B1h
03fd vaddps zmm11,zmm11,zmm14
0403 vmulps zmm11,zmm11,zmm13
0409 vbroadcastss zmm13,[rdi+6Ch]
0410 vbroadcastss zmm12,[rel 0AC0h]
041a vaddps zmm10,zmm10,zmm13
0420 vsqrtps zmm10,zmm10
0426 vdivps zmm10,zmm12,zmm10
042c vaddps zmm11,zmm11,zmm13
0432 vsqrtps zmm11,zmm11
0438 vdivps zmm11,zmm12,zmm11
043e mov eax,0
0444 cmp rax,r8
0447 jge near 00000000000005ABh
044d nop dword [rax]
0450 vmovups zmm13,[r11+rax]
0457 vmovups zmm14,[rbx+rax]
045e vmovups zmm12,[rsi+rax]
0465 vsubps zmm12,zmm12,zmm8
046b vmulps zmm12,zmm12,zmm10
0471 vfmadd213ps zmm12,zmm13,zmm14
0477 vmovups [rdx+rax],zmm12
047e vmovups zmm12,[r14+rax]
0485 vsubps zmm12,zmm12,zmm9
048b vmulps zmm12,zmm12,zmm11
0491 vfmadd213ps zmm12,zmm13,zmm14
0497 vmovups [rbp+rax],zmm12
049f vmovups zmm13,[r11+rax+40h]
04a7 vmovups zmm14,[rbx+rax+40h]
04af vmovups zmm12,[rsi+rax+40h]
04b7 vsubps zmm12,zmm12,zmm8
04bd vmulps zmm12,zmm12,zmm10
04c3 vfmadd213ps zmm12,zmm13,zmm14
04c9 vmovups [rdx+rax+40h],zmm12
04d1 vmovups zmm12,[r14+rax+40h]
04d9 vsubps zmm12,zmm12,zmm9
04df vmulps zmm12,zmm12,zmm11
04e5 vfmadd213ps zmm12,zmm13,zmm14
04eb vmovups [rbp+rax+40h],zmm12
04f3 vmovups zmm13,[r11+rax+80h]
04fb vmovups zmm14,[rbx+rax+80h]
0503 vmovups zmm12,[rsi+rax+80h]
050b vsubps zmm12,zmm12,zmm8
0511 vmulps zmm12,zmm12,zmm10
0517 vfmadd213ps zmm12,zmm13,zmm14
051d vmovups [rdx+rax+80h],zmm12
0525 vmovups zmm12,[r14+rax+80h]
052d vsubps zmm12,zmm12,zmm9
0533 vmulps zmm12,zmm12,zmm11
0539 vfmadd213ps zmm12,zmm13,zmm14
053f vmovups [rbp+rax+80h],zmm12
0547 vmovups zmm13,[r11+rax+0C0h]
054f vmovups zmm14,[rbx+rax+0C0h]
0557 vmovups zmm12,[rsi+rax+0C0h]
055f vsubps zmm12,zmm12,zmm8
0565 vmulps zmm12,zmm12,zmm10
056b vfmadd213ps zmm12,zmm13,zmm14
0571 vmovups [rdx+rax+0C0h],zmm12
0579 vmovups zmm12,[r14+rax+0C0h]
0581 vsubps zmm12,zmm12,zmm9
0587 vmulps zmm12,zmm12,zmm11
058d vfmadd213ps zmm12,zmm13,zmm14
0593 vmovups [rbp+rax+0C0h],zmm12
059b add rax,100h
05a2 cmp rax,r8
05a5 jl near 0000000000000450h
05ab cmp rax,r9
05ae jge near 000000000000061Ch
05b4 nop word [rax+rax]
05bd nop dword [rax]
05c0 vmovups zmm13,[r11+rax]
05c7 vmovups zmm14,[rbx+rax]
05ce vmovups zmm12,[rsi+rax]
05d5 vsubps zmm12,zmm12,zmm8
05db vmulps zmm12,zmm12,zmm10
05e1 vfmadd213ps zmm12,zmm13,zmm14
05e7 vmovups [rdx+rax],zmm12
05ee vmovups zmm12,[r14+rax]
05f5 vsubps zmm12,zmm12,zmm9
05fb vmulps zmm12,zmm12,zmm11
0601 vfmadd213ps zmm12,zmm13,zmm14
0607 vmovups [rbp+rax],zmm12
060f add rax,40h
0613 cmp rax,r9
0616 jl near 00000000000005C0h
061c test r10,r10
061f je near 0000000000000674h
0625 vmovups zmm13{k1}{z},[r11+rax]
062c vmovups zmm14{k1}{z},[rbx+rax]
0633 vmovups zmm12{k1}{z},[rsi+rax]
063a vsubps zmm12,zmm12,zmm8
0640 vmulps zmm12,zmm12,zmm10
0646 vfmadd213ps zmm12,zmm13,zmm14
064c vmovups [rdx+rax]{k1},zmm12
0653 vmovups zmm12{k1}{z},[r14+rax]
065a vsubps zmm12,zmm12,zmm9
0660 vmulps zmm12,zmm12,zmm11
0666 vfmadd213ps zmm12,zmm13,zmm14
066c vmovups [rbp+rax]{k1},zmm12
0674 add rsi,[rdi+48h]
0678 add rdx,[rdi+50h]
067c add r11,[rdi+58h]
0680 add rbx,[rdi+60h]
0684 add rsi,[rdi+48h]
0688 add rdx,[rdi+50h]
068c add r11,[rdi+58h]
0690 add rbx,[rdi+60h]
0694 sub rcx,1
0698 test rcx,rcx
069b jne near 000000000000005Bh
06a1 mov rcx,[rdi+38h]
06a5 test rcx,rcx
06a8 je near 0000000000000A7Fh
06ae vpxord zmm0,zmm0,zmm0
06b4 vpxord zmm1,zmm1,zmm1
06ba vpxord zmm2,zmm2,zmm2
06c0 vpxord zmm3,zmm3,zmm3
06c6 mov eax,0
06cc cmp rax,r8
06cf jge near 000000000000070Fh
06d5 nop word [rax+rax]
06de xchg ax,ax
06e0 vaddps zmm0,zmm0,[rsi+rax]
06e7 vaddps zmm1,zmm1,[rsi+rax+40h]
06ef vaddps zmm2,zmm2,[rsi+rax+80h]
06f7 vaddps zmm3,zmm3,[rsi+rax+0C0h]
06ff add rax,100h
0706 cmp rax,r8
0709 jl near 00000000000006E0h
070f cmp rax,r9
0712 jge near 0000000000000734h
0718 nop dword [rax+rax]
0720 vaddps zmm0,zmm0,[rsi+rax]
0727 add rax,40h
072b cmp rax,r9
072e jl near 0000000000000720h
0734 test r10,r10
0737 je near 000000000000074Ah
073d vmovups zmm12{k1}{z},[rsi+rax]
0744 vaddps zmm0,zmm0,zmm12
074a vaddps zmm0,zmm0,zmm1
0750 vaddps zmm2,zmm2,zmm3
0756 vaddps zmm0,zmm0,zmm2
075c vbroadcastss zmm13,[rdi+68h]
0763 vshuff32x4 zmm14,zmm0,zmm0,4Eh
076a vaddps zmm8,zmm0,zmm14
0770 vshuff32x4 zmm14,zmm8,zmm8,0B1h
0777 vaddps zmm8,zmm8,zmm14
077d vpermilps zmm14,zmm8,4Eh
0784 vaddps zmm8,zmm8,zmm14
078a vpermilps zmm14,zmm8,0B1h
0791 vaddps zmm8,zmm8,zmm14
0797 vmulps zmm8,zmm8,zmm13
079d vpxord zmm0,zmm0,zmm0
07a3 vpxord zmm1,zmm1,zmm1
07a9 vpxord zmm2,zmm2,zmm2
07af vpxord zmm3,zmm3,zmm3
07b5 mov eax,0
07bb cmp rax,r8
07be jge near 000000000000082Fh
07c4 nop word [rax+rax]
07cd nop dword [rax]
07d0 vmovups zmm12,[rsi+rax]
07d7 vsubps zmm12,zmm12,zmm8
07dd vfmadd231ps zmm0,zmm12,zmm12
07e3 vmovups zmm12,[rsi+rax+40h]
07eb vsubps zmm12,zmm12,zmm8
07f1 vfmadd231ps zmm1,zmm12,zmm12
07f7 vmovups zmm12,[rsi+rax+80h]
07ff vsubps zmm12,zmm12,zmm8
0805 vfmadd231ps zmm2,zmm12,zmm12
080b vmovups zmm12,[rsi+rax+0C0h]
0813 vsubps zmm12,zmm12,zmm8
0819 vfmadd231ps zmm3,zmm12,zmm12
081f add rax,100h
0826 cmp rax,r8
0829 jl near 00000000000007D0h
082f cmp rax,r9
0832 jge near 0000000000000860h
0838 nop dword [rax+rax]
0840 vmovups zmm12,[rsi+rax]
0847 vsubps zmm12,zmm12,zmm8
084d vfmadd231ps zmm0,zmm12,zmm12
0853 add rax,40h
0857 cmp rax,r9
085a jl near 0000000000000840h
0860 test r10,r10
0863 je near 0000000000000888h
0869 vmovups zmm12{k1}{z},[rsi+rax]
0870 vsubps zmm12,zmm12,zmm8
0876 vpxord zmm14,zmm14,zmm14
087c vblendmps zmm12{k1},zmm14,zmm12
0882 vfmadd231ps zmm0,zmm12,zmm12
0888 vaddps zmm0,zmm0,zmm1
088e vaddps zmm2,zmm2,zmm3
0894 vaddps zmm0,zmm0,zmm2
089a vbroadcastss zmm13,[rdi+68h]
08a1 vshuff32x4 zmm14,zmm0,zmm0,4Eh
08a8 vaddps zmm10,zmm0,zmm14
08ae vshuff32x4 zmm14,zmm10,zmm10,0B1h
08b5 vaddps zmm10,zmm10,zmm14
08bb vpermilps zmm14,zmm10,4Eh
08c2 vaddps zmm10,zmm10,zmm14
08c8 vpermilps zmm14,zmm10,0B1h
08cf vaddps zmm10,zmm10,zmm14
08d5 vmulps zmm10,zmm10,zmm13
08db vbroadcastss zmm13,[rdi+6Ch]
08e2 vbroadcastss zmm12,[rel 0AC0h]
08ec vaddps zmm10,zmm10,zmm13
08f2 vsqrtps zmm10,zmm10
08f8 vdivps zmm10,zmm12,zmm10
08fe mov eax,0
0904 cmp rax,r8
0907 jge near 00000000000009E4h
090d nop dword [rax]
0910 vmovups zmm13,[r11+rax]
0917 vmovups zmm14,[rbx+rax]
091e vmovups zmm12,[rsi+rax]
0925 vsubps zmm12,zmm12,zmm8
092b vmulps zmm12,zmm12,zmm10
0931 vfmadd213ps zmm12,zmm13,zmm14
0937 vmovups [rdx+rax],zmm12
093e vmovups zmm13,[r11+rax+40h]
0946 vmovups zmm14,[rbx+rax+40h]
094e vmovups zmm12,[rsi+rax+40h]
0956 vsubps zmm12,zmm12,zmm8
095c vmulps zmm12,zmm12,zmm10
0962 vfmadd213ps zmm12,zmm13,zmm14
0968 vmovups [rdx+rax+40h],zmm12
0970 vmovups zmm13,[r11+rax+80h]
0978 vmovups zmm14,[rbx+rax+80h]
0980 vmovups zmm12,[rsi+rax+80h]
0988 vsubps zmm12,zmm12,zmm8
098e vmulps zmm12,zmm12,zmm10
0994 vfmadd213ps zmm12,zmm13,zmm14
099a vmovups [rdx+rax+80h],zmm12
09a2 vmovups zmm13,[r11+rax+0C0h]
09aa vmovups zmm14,[rbx+rax+0C0h]
09b2 vmovups zmm12,[rsi+rax+0C0h]
09ba vsubps zmm12,zmm12,zmm8
09c0 vmulps zmm12,zmm12,zmm10
09c6 vfmadd213ps zmm12,zmm13,zmm14
09cc vmovups [rdx+rax+0C0h],zmm12
09d4 add rax,100h
09db cmp rax,r8
09de jl near 0000000000000910h
09e4 cmp rax,r9
09e7 jge near 0000000000000A2Bh
09ed nop dword [rax]
09f0 vmovups zmm13,[r11+rax]
09f7 vmovups zmm14,[rbx+rax]
09fe vmovups zmm12,[rsi+rax]
0a05 vsubps zmm12,zmm12,zmm8
0a0b vmulps zmm12,zmm12,zmm10
0a11 vfmadd213ps zmm12,zmm13,zmm14
0a17 vmovups [rdx+rax],zmm12
0a1e add rax,40h
0a22 cmp rax,r9
0a25 jl near 00000000000009F0h
0a2b test r10,r10
0a2e je near 0000000000000A62h
0a34 vmovups zmm13{k1}{z},[r11+rax]
0a3b vmovups zmm14{k1}{z},[rbx+rax]
0a42 vmovups zmm12{k1}{z},[rsi+rax]
0a49 vsubps zmm12,zmm12,zmm8
0a4f vmulps zmm12,zmm12,zmm10
0a55 vfmadd213ps zmm12,zmm13,zmm14
0a5b vmovups [rdx+rax]{k1},zmm12
0a62 add rsi,[rdi+48h]
0a66 add rdx,[rdi+50h]
0a6a add r11,[rdi+58h]
0a6e add rbx,[rdi+60h]
0a72 sub rcx,1
0a76 test rcx,rcx
0a79 jne near 00000000000006AEh
0a7f pop r15
0a81 pop r14
0a83 pop r13
0a85 pop r12
0a87 pop rbp
0a88 pop rbx
0a89 vzeroupper
0a8c ret
0a8d nop word [rax+rax]
0a96 nop word [rax+rax]
0a9f nop word [rax+rax]
0aa8 nop word [rax+rax]
0ab1 nop word [rax+rax]
0aba nop word [rax+rax]
; [00, 00, 80, 3f]
