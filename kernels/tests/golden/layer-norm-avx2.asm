; RowNorm(RowNormCode { isa: Avx2, centred: true, scale: true, bias: true, moments: false, output: F32 })
; part 0, 2432 bytes
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
0028 and r8,0FFFFFFFFFFFFFFE0h
002c shl r8,2
0030 mov r9,r10
0033 and r9,0FFFFFFFFFFFFFFF8h
0037 shl r9,2
003b and r10,7
003f vmovd xmm15,r10d
0044 vpbroadcastd ymm15,xmm15
0049 vpcmpgtd ymm15,ymm15,[rel 940h]
0052 mov rcx,[rdi+30h]
0056 test rcx,rcx
0059 je near 00000000000005A9h
005f mov r14,rsi
0062 add r14,[rdi+48h]
0066 mov rbp,rdx
0069 add rbp,[rdi+50h]
006d vxorps ymm0,ymm0,ymm0
0072 vxorps ymm1,ymm1,ymm1
0077 vxorps ymm2,ymm2,ymm2
007c vxorps ymm3,ymm3,ymm3
0081 vxorps ymm4,ymm4,ymm4
0086 vxorps ymm5,ymm5,ymm5
008b vxorps ymm6,ymm6,ymm6
0090 vxorps ymm7,ymm7,ymm7
0095 mov eax,0
009b cmp rax,r8
009e jge near 00000000000000F6h
00a4 nop word [rax+rax]
00ad nop dword [rax]
00b0 vaddps ymm0,ymm0,[rsi+rax]
00b6 vaddps ymm4,ymm4,[r14+rax]
00bc vaddps ymm1,ymm1,[rsi+rax+20h]
00c3 vaddps ymm5,ymm5,[r14+rax+20h]
00ca vaddps ymm2,ymm2,[rsi+rax+40h]
00d1 vaddps ymm6,ymm6,[r14+rax+40h]
00d8 vaddps ymm3,ymm3,[rsi+rax+60h]
00df vaddps ymm7,ymm7,[r14+rax+60h]
00e6 add rax,80h
00ed cmp rax,r8
00f0 jl near 00000000000000B0h
00f6 cmp rax,r9
00f9 jge near 0000000000000119h
00ff nop
0100 vaddps ymm0,ymm0,[rsi+rax]
0106 vaddps ymm4,ymm4,[r14+rax]
010c add rax,20h
0110 cmp rax,r9
0113 jl near 0000000000000100h
0119 test r10,r10
011c je near 0000000000000138h
0122 vmaskmovps ymm12,ymm15,[rsi+rax]
0128 vaddps ymm0,ymm0,ymm12
012d vmaskmovps ymm12,ymm15,[r14+rax]
0133 vaddps ymm4,ymm4,ymm12
0138 vaddps ymm0,ymm0,ymm1
013d vaddps ymm4,ymm4,ymm5
0142 vaddps ymm2,ymm2,ymm3
0147 vaddps ymm6,ymm6,ymm7
014c vaddps ymm0,ymm0,ymm2
0151 vaddps ymm4,ymm4,ymm6
0156 vpbroadcastd ymm13,[rdi+68h]
015c vperm2f128 ymm14,ymm0,ymm0,1
0162 vaddps ymm8,ymm0,ymm14
0167 vpermilps ymm14,ymm8,4Eh
016d vaddps ymm8,ymm8,ymm14
0172 vpermilps ymm14,ymm8,0B1h
0178 vaddps ymm8,ymm8,ymm14
017d vmulps ymm8,ymm8,ymm13
0182 vperm2f128 ymm14,ymm4,ymm4,1
0188 vaddps ymm9,ymm4,ymm14
018d vpermilps ymm14,ymm9,4Eh
0193 vaddps ymm9,ymm9,ymm14
0198 vpermilps ymm14,ymm9,0B1h
019e vaddps ymm9,ymm9,ymm14
01a3 vmulps ymm9,ymm9,ymm13
01a8 vxorps ymm0,ymm0,ymm0
01ad vxorps ymm1,ymm1,ymm1
01b2 vxorps ymm2,ymm2,ymm2
01b7 vxorps ymm3,ymm3,ymm3
01bc vxorps ymm4,ymm4,ymm4
01c1 vxorps ymm5,ymm5,ymm5
01c6 vxorps ymm6,ymm6,ymm6
01cb vxorps ymm7,ymm7,ymm7
01d0 mov eax,0
01d6 cmp rax,r8
01d9 jge near 0000000000000276h
01df nop
01e0 vmovups ymm12,[rsi+rax]
01e6 vsubps ymm12,ymm12,ymm8
01eb vfmadd231ps ymm0,ymm12,ymm12
01f0 vmovups ymm12,[r14+rax]
01f6 vsubps ymm12,ymm12,ymm9
01fb vfmadd231ps ymm4,ymm12,ymm12
0200 vmovups ymm12,[rsi+rax+20h]
0207 vsubps ymm12,ymm12,ymm8
020c vfmadd231ps ymm1,ymm12,ymm12
0211 vmovups ymm12,[r14+rax+20h]
0218 vsubps ymm12,ymm12,ymm9
021d vfmadd231ps ymm5,ymm12,ymm12
0222 vmovups ymm12,[rsi+rax+40h]
0229 vsubps ymm12,ymm12,ymm8
022e vfmadd231ps ymm2,ymm12,ymm12
0233 vmovups ymm12,[r14+rax+40h]
023a vsubps ymm12,ymm12,ymm9
023f vfmadd231ps ymm6,ymm12,ymm12
0244 vmovups ymm12,[rsi+rax+60h]
024b vsubps ymm12,ymm12,ymm8
0250 vfmadd231ps ymm3,ymm12,ymm12
0255 vmovups ymm12,[r14+rax+60h]
025c vsubps ymm12,ymm12,ymm9
0261 vfmadd231ps ymm7,ymm12,ymm12
0266 add rax,80h
026d cmp rax,r8
0270 jl near 00000000000001E0h
0276 cmp rax,r9
0279 jge near 00000000000002ADh
027f nop
0280 vmovups ymm12,[rsi+rax]
0286 vsubps ymm12,ymm12,ymm8
028b vfmadd231ps ymm0,ymm12,ymm12
0290 vmovups ymm12,[r14+rax]
0296 vsubps ymm12,ymm12,ymm9
029b vfmadd231ps ymm4,ymm12,ymm12
02a0 add rax,20h
02a4 cmp rax,r9
02a7 jl near 0000000000000280h
02ad test r10,r10
02b0 je near 00000000000002ECh
02b6 vmaskmovps ymm12,ymm15,[rsi+rax]
02bc vsubps ymm12,ymm12,ymm8
02c1 vxorps ymm14,ymm14,ymm14
02c6 vblendvps ymm12,ymm14,ymm12,ymm15
02cc vfmadd231ps ymm0,ymm12,ymm12
02d1 vmaskmovps ymm12,ymm15,[r14+rax]
02d7 vsubps ymm12,ymm12,ymm9
02dc vxorps ymm14,ymm14,ymm14
02e1 vblendvps ymm12,ymm14,ymm12,ymm15
02e7 vfmadd231ps ymm4,ymm12,ymm12
02ec vaddps ymm0,ymm0,ymm1
02f1 vaddps ymm4,ymm4,ymm5
02f6 vaddps ymm2,ymm2,ymm3
02fb vaddps ymm6,ymm6,ymm7
0300 vaddps ymm0,ymm0,ymm2
0305 vaddps ymm4,ymm4,ymm6
030a vpbroadcastd ymm13,[rdi+68h]
0310 vperm2f128 ymm14,ymm0,ymm0,1
0316 vaddps ymm10,ymm0,ymm14
031b vpermilps ymm14,ymm10,4Eh
0321 vaddps ymm10,ymm10,ymm14
0326 vpermilps ymm14,ymm10,0B1h
032c vaddps ymm10,ymm10,ymm14
0331 vmulps ymm10,ymm10,ymm13
0336 vperm2f128 ymm14,ymm4,ymm4,1
033c vaddps ymm11,ymm4,ymm14
0341 vpermilps ymm14,ymm11,4Eh
0347 vaddps ymm11,ymm11,ymm14
034c vpermilps ymm14,ymm11,0B1h
0352 vaddps ymm11,ymm11,ymm14
0357 vmulps ymm11,ymm11,ymm13
035c vpbroadcastd ymm13,[rdi+6Ch]
0362 vmovups ymm12,[rel 960h]
036b vaddps ymm10,ymm10,ymm13
0370 vsqrtps ymm10,ymm10
0375 vdivps ymm10,ymm12,ymm10
037a vaddps ymm11,ymm11,ymm13
037f vsqrtps ymm11,ymm11
0384 vdivps ymm11,ymm12,ymm11
0389 mov eax,0
038f cmp rax,r8
0392 jge near 00000000000004CBh
0398 nop dword [rax+rax]
03a0 vmovups ymm13,[r11+rax]
03a6 vmovups ymm14,[rbx+rax]
03ac vmovups ymm12,[rsi+rax]
03b2 vsubps ymm12,ymm12,ymm8
03b7 vmulps ymm12,ymm12,ymm10
03bc vfmadd213ps ymm12,ymm13,ymm14
03c1 vmovups [rdx+rax],ymm12
03c7 vmovups ymm12,[r14+rax]
03cd vsubps ymm12,ymm12,ymm9
03d2 vmulps ymm12,ymm12,ymm11
03d7 vfmadd213ps ymm12,ymm13,ymm14
03dc vmovups [rbp+rax],ymm12
03e3 vmovups ymm13,[r11+rax+20h]
03ea vmovups ymm14,[rbx+rax+20h]
03f1 vmovups ymm12,[rsi+rax+20h]
03f8 vsubps ymm12,ymm12,ymm8
03fd vmulps ymm12,ymm12,ymm10
0402 vfmadd213ps ymm12,ymm13,ymm14
0407 vmovups [rdx+rax+20h],ymm12
040e vmovups ymm12,[r14+rax+20h]
0415 vsubps ymm12,ymm12,ymm9
041a vmulps ymm12,ymm12,ymm11
041f vfmadd213ps ymm12,ymm13,ymm14
0424 vmovups [rbp+rax+20h],ymm12
042b vmovups ymm13,[r11+rax+40h]
0432 vmovups ymm14,[rbx+rax+40h]
0439 vmovups ymm12,[rsi+rax+40h]
0440 vsubps ymm12,ymm12,ymm8
0445 vmulps ymm12,ymm12,ymm10
044a vfmadd213ps ymm12,ymm13,ymm14
044f vmovups [rdx+rax+40h],ymm12
0456 vmovups ymm12,[r14+rax+40h]
045d vsubps ymm12,ymm12,ymm9
0462 vmulps ymm12,ymm12,ymm11
0467 vfmadd213ps ymm12,ymm13,ymm14
046c vmovups [rbp+rax+40h],ymm12
0473 vmovups ymm13,[r11+rax+60h]
047a vmovups ymm14,[rbx+rax+60h]
0481 vmovups ymm12,[rsi+rax+60h]
0488 vsubps ymm12,ymm12,ymm8
048d vmulps ymm12,ymm12,ymm10
0492 vfmadd213ps ymm12,ymm13,ymm14
0497 vmovups [rdx+rax+60h],ymm12
049e vmovups ymm12,[r14+rax+60h]
04a5 vsubps ymm12,ymm12,ymm9
04aa vmulps ymm12,ymm12,ymm11
04af vfmadd213ps ymm12,ymm13,ymm14
04b4 vmovups [rbp+rax+60h],ymm12
04bb add rax,80h
04c2 cmp rax,r8
04c5 jl near 00000000000003A0h
04cb cmp rax,r9
04ce jge near 0000000000000530h
04d4 nop word [rax+rax]
04dd nop dword [rax]
04e0 vmovups ymm13,[r11+rax]
04e6 vmovups ymm14,[rbx+rax]
04ec vmovups ymm12,[rsi+rax]
04f2 vsubps ymm12,ymm12,ymm8
04f7 vmulps ymm12,ymm12,ymm10
04fc vfmadd213ps ymm12,ymm13,ymm14
0501 vmovups [rdx+rax],ymm12
0507 vmovups ymm12,[r14+rax]
050d vsubps ymm12,ymm12,ymm9
0512 vmulps ymm12,ymm12,ymm11
0517 vfmadd213ps ymm12,ymm13,ymm14
051c vmovups [rbp+rax],ymm12
0523 add rax,20h
0527 cmp rax,r9
052a jl near 00000000000004E0h
0530 test r10,r10
0533 je near 000000000000057Ch
0539 vmaskmovps ymm13,ymm15,[r11+rax]
053f vmaskmovps ymm14,ymm15,[rbx+rax]
0545 vmaskmovps ymm12,ymm15,[rsi+rax]
054b vsubps ymm12,ymm12,ymm8
0550 vmulps ymm12,ymm12,ymm10
0555 vfmadd213ps ymm12,ymm13,ymm14
055a vmaskmovps [rdx+rax],ymm15,ymm12
0560 vmaskmovps ymm12,ymm15,[r14+rax]
0566 vsubps ymm12,ymm12,ymm9
056b vmulps ymm12,ymm12,ymm11
0570 vfmadd213ps ymm12,ymm13,ymm14
0575 vmaskmovps [rbp+rax],ymm15,ymm12
057c add rsi,[rdi+48h]
0580 add rdx,[rdi+50h]
0584 add r11,[rdi+58h]
0588 add rbx,[rdi+60h]
058c add rsi,[rdi+48h]
0590 add rdx,[rdi+50h]
0594 add r11,[rdi+58h]
0598 add rbx,[rdi+60h]
059c sub rcx,1
05a0 test rcx,rcx
05a3 jne near 000000000000005Fh
05a9 mov rcx,[rdi+38h]
05ad test rcx,rcx
05b0 je near 0000000000000911h
05b6 vxorps ymm0,ymm0,ymm0
05bb vxorps ymm1,ymm1,ymm1
05c0 vxorps ymm2,ymm2,ymm2
05c5 vxorps ymm3,ymm3,ymm3
05ca mov eax,0
05d0 cmp rax,r8
05d3 jge near 000000000000060Bh
05d9 nop dword [rax]
05e0 vaddps ymm0,ymm0,[rsi+rax]
05e6 vaddps ymm1,ymm1,[rsi+rax+20h]
05ed vaddps ymm2,ymm2,[rsi+rax+40h]
05f4 vaddps ymm3,ymm3,[rsi+rax+60h]
05fb add rax,80h
0602 cmp rax,r8
0605 jl near 00000000000005E0h
060b cmp rax,r9
060e jge near 0000000000000633h
0614 nop word [rax+rax]
061d nop dword [rax]
0620 vaddps ymm0,ymm0,[rsi+rax]
0626 add rax,20h
062a cmp rax,r9
062d jl near 0000000000000620h
0633 test r10,r10
0636 je near 0000000000000647h
063c vmaskmovps ymm12,ymm15,[rsi+rax]
0642 vaddps ymm0,ymm0,ymm12
0647 vaddps ymm0,ymm0,ymm1
064c vaddps ymm2,ymm2,ymm3
0651 vaddps ymm0,ymm0,ymm2
0656 vpbroadcastd ymm13,[rdi+68h]
065c vperm2f128 ymm14,ymm0,ymm0,1
0662 vaddps ymm8,ymm0,ymm14
0667 vpermilps ymm14,ymm8,4Eh
066d vaddps ymm8,ymm8,ymm14
0672 vpermilps ymm14,ymm8,0B1h
0678 vaddps ymm8,ymm8,ymm14
067d vmulps ymm8,ymm8,ymm13
0682 vxorps ymm0,ymm0,ymm0
0687 vxorps ymm1,ymm1,ymm1
068c vxorps ymm2,ymm2,ymm2
0691 vxorps ymm3,ymm3,ymm3
0696 mov eax,0
069c cmp rax,r8
069f jge near 0000000000000703h
06a5 nop word [rax+rax]
06ae xchg ax,ax
06b0 vmovups ymm12,[rsi+rax]
06b6 vsubps ymm12,ymm12,ymm8
06bb vfmadd231ps ymm0,ymm12,ymm12
06c0 vmovups ymm12,[rsi+rax+20h]
06c7 vsubps ymm12,ymm12,ymm8
06cc vfmadd231ps ymm1,ymm12,ymm12
06d1 vmovups ymm12,[rsi+rax+40h]
06d8 vsubps ymm12,ymm12,ymm8
06dd vfmadd231ps ymm2,ymm12,ymm12
06e2 vmovups ymm12,[rsi+rax+60h]
06e9 vsubps ymm12,ymm12,ymm8
06ee vfmadd231ps ymm3,ymm12,ymm12
06f3 add rax,80h
06fa cmp rax,r8
06fd jl near 00000000000006B0h
0703 cmp rax,r9
0706 jge near 000000000000072Dh
070c nop dword [rax]
0710 vmovups ymm12,[rsi+rax]
0716 vsubps ymm12,ymm12,ymm8
071b vfmadd231ps ymm0,ymm12,ymm12
0720 add rax,20h
0724 cmp rax,r9
0727 jl near 0000000000000710h
072d test r10,r10
0730 je near 0000000000000751h
0736 vmaskmovps ymm12,ymm15,[rsi+rax]
073c vsubps ymm12,ymm12,ymm8
0741 vxorps ymm14,ymm14,ymm14
0746 vblendvps ymm12,ymm14,ymm12,ymm15
074c vfmadd231ps ymm0,ymm12,ymm12
0751 vaddps ymm0,ymm0,ymm1
0756 vaddps ymm2,ymm2,ymm3
075b vaddps ymm0,ymm0,ymm2
0760 vpbroadcastd ymm13,[rdi+68h]
0766 vperm2f128 ymm14,ymm0,ymm0,1
076c vaddps ymm10,ymm0,ymm14
0771 vpermilps ymm14,ymm10,4Eh
0777 vaddps ymm10,ymm10,ymm14
077c vpermilps ymm14,ymm10,0B1h
0782 vaddps ymm10,ymm10,ymm14
0787 vmulps ymm10,ymm10,ymm13
078c vpbroadcastd ymm13,[rdi+6Ch]
0792 vmovups ymm12,[rel 960h]
079b vaddps ymm10,ymm10,ymm13
07a0 vsqrtps ymm10,ymm10
07a5 vdivps ymm10,ymm12,ymm10
07aa mov eax,0
07b0 cmp rax,r8
07b3 jge near 0000000000000878h
07b9 nop dword [rax]
07c0 vmovups ymm13,[r11+rax]
07c6 vmovups ymm14,[rbx+rax]
07cc vmovups ymm12,[rsi+rax]
07d2 vsubps ymm12,ymm12,ymm8
07d7 vmulps ymm12,ymm12,ymm10
07dc vfmadd213ps ymm12,ymm13,ymm14
07e1 vmovups [rdx+rax],ymm12
07e7 vmovups ymm13,[r11+rax+20h]
07ee vmovups ymm14,[rbx+rax+20h]
07f5 vmovups ymm12,[rsi+rax+20h]
07fc vsubps ymm12,ymm12,ymm8
0801 vmulps ymm12,ymm12,ymm10
0806 vfmadd213ps ymm12,ymm13,ymm14
080b vmovups [rdx+rax+20h],ymm12
0812 vmovups ymm13,[r11+rax+40h]
0819 vmovups ymm14,[rbx+rax+40h]
0820 vmovups ymm12,[rsi+rax+40h]
0827 vsubps ymm12,ymm12,ymm8
082c vmulps ymm12,ymm12,ymm10
0831 vfmadd213ps ymm12,ymm13,ymm14
0836 vmovups [rdx+rax+40h],ymm12
083d vmovups ymm13,[r11+rax+60h]
0844 vmovups ymm14,[rbx+rax+60h]
084b vmovups ymm12,[rsi+rax+60h]
0852 vsubps ymm12,ymm12,ymm8
0857 vmulps ymm12,ymm12,ymm10
085c vfmadd213ps ymm12,ymm13,ymm14
0861 vmovups [rdx+rax+60h],ymm12
0868 add rax,80h
086f cmp rax,r8
0872 jl near 00000000000007C0h
0878 cmp rax,r9
087b jge near 00000000000008C4h
0881 nop word [rax+rax]
088a nop word [rax+rax]
0890 vmovups ymm13,[r11+rax]
0896 vmovups ymm14,[rbx+rax]
089c vmovups ymm12,[rsi+rax]
08a2 vsubps ymm12,ymm12,ymm8
08a7 vmulps ymm12,ymm12,ymm10
08ac vfmadd213ps ymm12,ymm13,ymm14
08b1 vmovups [rdx+rax],ymm12
08b7 add rax,20h
08bb cmp rax,r9
08be jl near 0000000000000890h
08c4 test r10,r10
08c7 je near 00000000000008F4h
08cd vmaskmovps ymm13,ymm15,[r11+rax]
08d3 vmaskmovps ymm14,ymm15,[rbx+rax]
08d9 vmaskmovps ymm12,ymm15,[rsi+rax]
08df vsubps ymm12,ymm12,ymm8
08e4 vmulps ymm12,ymm12,ymm10
08e9 vfmadd213ps ymm12,ymm13,ymm14
08ee vmaskmovps [rdx+rax],ymm15,ymm12
08f4 add rsi,[rdi+48h]
08f8 add rdx,[rdi+50h]
08fc add r11,[rdi+58h]
0900 add rbx,[rdi+60h]
0904 sub rcx,1
0908 test rcx,rcx
090b jne near 00000000000005B6h
0911 pop r15
0913 pop r14
0915 pop r13
0917 pop r12
0919 pop rbp
091a pop rbx
091b vzeroupper
091e ret
091f nop word [rax+rax]
0928 nop word [rax+rax]
0931 nop word [rax+rax]
093a nop word [rax+rax]
; [00, 00, 00, 00]
; [01, 00, 00, 00]
; [02, 00, 00, 00]
; [03, 00, 00, 00]
; [04, 00, 00, 00]
; [05, 00, 00, 00]
; [06, 00, 00, 00]
; [07, 00, 00, 00]
; [00, 00, 80, 3f]
; [00, 00, 80, 3f]
; [00, 00, 80, 3f]
; [00, 00, 80, 3f]
; [00, 00, 80, 3f]
; [00, 00, 80, 3f]
; [00, 00, 80, 3f]
; [00, 00, 80, 3f]
