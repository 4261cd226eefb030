; RowNorm(RowNormCode { isa: Avx2, centred: true, scale: true, bias: true, moments: false, output: F32 })
; part 0, 2496 bytes
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
0049 vpcmpgtd ymm15,ymm15,[rel 980h]
0052 mov rcx,[rdi+30h]
0056 test rcx,rcx
0059 je near 00000000000005DFh
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
01d9 jge near 000000000000028Eh
01df nop
01e0 prefetcht0 [rdx+rax]
01e6 vmovups ymm12,[rsi+rax]
01ec vsubps ymm12,ymm12,ymm8
01f1 vfmadd231ps ymm0,ymm12,ymm12
01f6 prefetcht0 [rbp+rax]
01fc vmovups ymm12,[r14+rax]
0202 vsubps ymm12,ymm12,ymm9
0207 vfmadd231ps ymm4,ymm12,ymm12
020c vmovups ymm12,[rsi+rax+20h]
0213 vsubps ymm12,ymm12,ymm8
0218 vfmadd231ps ymm1,ymm12,ymm12
021d vmovups ymm12,[r14+rax+20h]
0224 vsubps ymm12,ymm12,ymm9
0229 vfmadd231ps ymm5,ymm12,ymm12
022e prefetcht0 [rdx+rax+40h]
0234 vmovups ymm12,[rsi+rax+40h]
023b vsubps ymm12,ymm12,ymm8
0240 vfmadd231ps ymm2,ymm12,ymm12
0245 prefetcht0 [rbp+rax+40h]
024b vmovups ymm12,[r14+rax+40h]
0252 vsubps ymm12,ymm12,ymm9
0257 vfmadd231ps ymm6,ymm12,ymm12
025c vmovups ymm12,[rsi+rax+60h]
0263 vsubps ymm12,ymm12,ymm8
0268 vfmadd231ps ymm3,ymm12,ymm12
026d vmovups ymm12,[r14+rax+60h]
0274 vsubps ymm12,ymm12,ymm9
0279 vfmadd231ps ymm7,ymm12,ymm12
027e add rax,80h
0285 cmp rax,r8
0288 jl near 00000000000001E0h
028e cmp rax,r9
0291 jge near 00000000000002D9h
0297 nop word [rax+rax]
02a0 prefetcht0 [rdx+rax]
02a6 vmovups ymm12,[rsi+rax]
02ac vsubps ymm12,ymm12,ymm8
02b1 vfmadd231ps ymm0,ymm12,ymm12
02b6 prefetcht0 [rbp+rax]
02bc vmovups ymm12,[r14+rax]
02c2 vsubps ymm12,ymm12,ymm9
02c7 vfmadd231ps ymm4,ymm12,ymm12
02cc add rax,20h
02d0 cmp rax,r9
02d3 jl near 00000000000002A0h
02d9 test r10,r10
02dc je near 0000000000000318h
02e2 vmaskmovps ymm12,ymm15,[rsi+rax]
02e8 vsubps ymm12,ymm12,ymm8
02ed vxorps ymm14,ymm14,ymm14
02f2 vblendvps ymm12,ymm14,ymm12,ymm15
02f8 vfmadd231ps ymm0,ymm12,ymm12
02fd vmaskmovps ymm12,ymm15,[r14+rax]
0303 vsubps ymm12,ymm12,ymm9
0308 vxorps ymm14,ymm14,ymm14
030d vblendvps ymm12,ymm14,ymm12,ymm15
0313 vfmadd231ps ymm4,ymm12,ymm12
0318 vaddps ymm0,ymm0,ymm1
031d vaddps ymm4,ymm4,ymm5
0322 vaddps ymm2,ymm2,ymm3
0327 vaddps ymm6,ymm6,ymm7
032c vaddps ymm0,ymm0,ymm2
0331 vaddps ymm4,ymm4,ymm6
0336 vpbroadcastd ymm13,[rdi+68h]
033c vperm2f128 ymm14,ymm0,ymm0,1
0342 vaddps ymm10,ymm0,ymm14
0347 vpermilps ymm14,ymm10,4Eh
034d vaddps ymm10,ymm10,ymm14
0352 vpermilps ymm14,ymm10,0B1h
0358 vaddps ymm10,ymm10,ymm14
035d vmulps ymm10,ymm10,ymm13
0362 vperm2f128 ymm14,ymm4,ymm4,1
0368 vaddps ymm11,ymm4,ymm14
036d vpermilps ymm14,ymm11,4Eh
0373 vaddps ymm11,ymm11,ymm14
0378 vpermilps ymm14,ymm11,0B1h
037e vaddps ymm11,ymm11,ymm14
0383 vmulps ymm11,ymm11,ymm13
0388 vpbroadcastd ymm13,[rdi+6Ch]
038e vmovups ymm12,[rel 9A0h]
0397 vaddps ymm10,ymm10,ymm13
039c vsqrtps ymm10,ymm10
03a1 vdivps ymm10,ymm12,ymm10
03a6 vaddps ymm11,ymm11,ymm13
03ab vsqrtps ymm11,ymm11
03b0 vdivps ymm11,ymm12,ymm11
03b5 mov r15,r14
03b8 add r15,[rdi+48h]
03bc add r15,[rdi+48h]
03c0 mov eax,0
03c6 cmp rax,r8
03c9 jge near 0000000000000507h
03cf nop
03d0 prefetcht0 [r15+rax]
03d6 vmovups ymm13,[r11+rax]
03dc vmovups ymm14,[rbx+rax]
03e2 vmovups ymm12,[rsi+rax]
03e8 vsubps ymm12,ymm12,ymm8
03ed vmulps ymm12,ymm12,ymm10
03f2 vfmadd213ps ymm12,ymm13,ymm14
03f7 vmovups [rdx+rax],ymm12
03fd vmovups ymm12,[r14+rax]
0403 vsubps ymm12,ymm12,ymm9
0408 vmulps ymm12,ymm12,ymm11
040d vfmadd213ps ymm12,ymm13,ymm14
0412 vmovups [rbp+rax],ymm12
0419 vmovups ymm13,[r11+rax+20h]
0420 vmovups ymm14,[rbx+rax+20h]
0427 vmovups ymm12,[rsi+rax+20h]
042e vsubps ymm12,ymm12,ymm8
0433 vmulps ymm12,ymm12,ymm10
0438 vfmadd213ps ymm12,ymm13,ymm14
043d vmovups [rdx+rax+20h],ymm12
0444 vmovups ymm12,[r14+rax+20h]
044b vsubps ymm12,ymm12,ymm9
0450 vmulps ymm12,ymm12,ymm11
0455 vfmadd213ps ymm12,ymm13,ymm14
045a vmovups [rbp+rax+20h],ymm12
0461 prefetcht0 [r15+rax+40h]
0467 vmovups ymm13,[r11+rax+40h]
046e vmovups ymm14,[rbx+rax+40h]
0475 vmovups ymm12,[rsi+rax+40h]
047c vsubps ymm12,ymm12,ymm8
0481 vmulps ymm12,ymm12,ymm10
0486 vfmadd213ps ymm12,ymm13,ymm14
048b vmovups [rdx+rax+40h],ymm12
0492 vmovups ymm12,[r14+rax+40h]
0499 vsubps ymm12,ymm12,ymm9
049e vmulps ymm12,ymm12,ymm11
04a3 vfmadd213ps ymm12,ymm13,ymm14
04a8 vmovups [rbp+rax+40h],ymm12
04af vmovups ymm13,[r11+rax+60h]
04b6 vmovups ymm14,[rbx+rax+60h]
04bd vmovups ymm12,[rsi+rax+60h]
04c4 vsubps ymm12,ymm12,ymm8
04c9 vmulps ymm12,ymm12,ymm10
04ce vfmadd213ps ymm12,ymm13,ymm14
04d3 vmovups [rdx+rax+60h],ymm12
04da vmovups ymm12,[r14+rax+60h]
04e1 vsubps ymm12,ymm12,ymm9
04e6 vmulps ymm12,ymm12,ymm11
04eb vfmadd213ps ymm12,ymm13,ymm14
04f0 vmovups [rbp+rax+60h],ymm12
04f7 add rax,80h
04fe cmp rax,r8
0501 jl near 00000000000003D0h
0507 cmp rax,r9
050a jge near 0000000000000566h
0510 prefetcht0 [r15+rax]
0516 vmovups ymm13,[r11+rax]
051c vmovups ymm14,[rbx+rax]
0522 vmovups ymm12,[rsi+rax]
0528 vsubps ymm12,ymm12,ymm8
052d vmulps ymm12,ymm12,ymm10
0532 vfmadd213ps ymm12,ymm13,ymm14
0537 vmovups [rdx+rax],ymm12
053d vmovups ymm12,[r14+rax]
0543 vsubps ymm12,ymm12,ymm9
0548 vmulps ymm12,ymm12,ymm11
054d vfmadd213ps ymm12,ymm13,ymm14
0552 vmovups [rbp+rax],ymm12
0559 add rax,20h
055d cmp rax,r9
0560 jl near 0000000000000510h
0566 test r10,r10
0569 je near 00000000000005B2h
056f vmaskmovps ymm13,ymm15,[r11+rax]
0575 vmaskmovps ymm14,ymm15,[rbx+rax]
057b vmaskmovps ymm12,ymm15,[rsi+rax]
0581 vsubps ymm12,ymm12,ymm8
0586 vmulps ymm12,ymm12,ymm10
058b vfmadd213ps ymm12,ymm13,ymm14
0590 vmaskmovps [rdx+rax],ymm15,ymm12
0596 vmaskmovps ymm12,ymm15,[r14+rax]
059c vsubps ymm12,ymm12,ymm9
05a1 vmulps ymm12,ymm12,ymm11
05a6 vfmadd213ps ymm12,ymm13,ymm14
05ab vmaskmovps [rbp+rax],ymm15,ymm12
05b2 add rsi,[rdi+48h]
05b6 add rdx,[rdi+50h]
05ba add r11,[rdi+58h]
05be add rbx,[rdi+60h]
05c2 add rsi,[rdi+48h]
05c6 add rdx,[rdi+50h]
05ca add r11,[rdi+58h]
05ce add rbx,[rdi+60h]
05d2 sub rcx,1
05d6 test rcx,rcx
05d9 jne near 000000000000005Fh
05df mov rcx,[rdi+38h]
05e3 test rcx,rcx
05e6 je near 0000000000000967h
05ec vxorps ymm0,ymm0,ymm0
05f1 vxorps ymm1,ymm1,ymm1
05f6 vxorps ymm2,ymm2,ymm2
05fb vxorps ymm3,ymm3,ymm3
0600 mov eax,0
0606 cmp rax,r8
0609 jge near 000000000000063Bh
060f nop
0610 vaddps ymm0,ymm0,[rsi+rax]
0616 vaddps ymm1,ymm1,[rsi+rax+20h]
061d vaddps ymm2,ymm2,[rsi+rax+40h]
0624 vaddps ymm3,ymm3,[rsi+rax+60h]
062b add rax,80h
0632 cmp rax,r8
0635 jl near 0000000000000610h
063b cmp rax,r9
063e jge near 0000000000000663h
0644 nop word [rax+rax]
064d nop dword [rax]
0650 vaddps ymm0,ymm0,[rsi+rax]
0656 add rax,20h
065a cmp rax,r9
065d jl near 0000000000000650h
0663 test r10,r10
0666 je near 0000000000000677h
066c vmaskmovps ymm12,ymm15,[rsi+rax]
0672 vaddps ymm0,ymm0,ymm12
0677 vaddps ymm0,ymm0,ymm1
067c vaddps ymm2,ymm2,ymm3
0681 vaddps ymm0,ymm0,ymm2
0686 vpbroadcastd ymm13,[rdi+68h]
068c vperm2f128 ymm14,ymm0,ymm0,1
0692 vaddps ymm8,ymm0,ymm14
0697 vpermilps ymm14,ymm8,4Eh
069d vaddps ymm8,ymm8,ymm14
06a2 vpermilps ymm14,ymm8,0B1h
06a8 vaddps ymm8,ymm8,ymm14
06ad vmulps ymm8,ymm8,ymm13
06b2 vxorps ymm0,ymm0,ymm0
06b7 vxorps ymm1,ymm1,ymm1
06bc vxorps ymm2,ymm2,ymm2
06c1 vxorps ymm3,ymm3,ymm3
06c6 mov eax,0
06cc cmp rax,r8
06cf jge near 000000000000073Fh
06d5 nop word [rax+rax]
06de xchg ax,ax
06e0 prefetcht0 [rdx+rax]
06e6 vmovups ymm12,[rsi+rax]
06ec vsubps ymm12,ymm12,ymm8
06f1 vfmadd231ps ymm0,ymm12,ymm12
06f6 vmovups ymm12,[rsi+rax+20h]
06fd vsubps ymm12,ymm12,ymm8
0702 vfmadd231ps ymm1,ymm12,ymm12
0707 prefetcht0 [rdx+rax+40h]
070d vmovups ymm12,[rsi+rax+40h]
0714 vsubps ymm12,ymm12,ymm8
0719 vfmadd231ps ymm2,ymm12,ymm12
071e vmovups ymm12,[rsi+rax+60h]
0725 vsubps ymm12,ymm12,ymm8
072a vfmadd231ps ymm3,ymm12,ymm12
072f add rax,80h
0736 cmp rax,r8
0739 jl near 00000000000006E0h
073f cmp rax,r9
0742 jge near 0000000000000773h
0748 nop dword [rax+rax]
0750 prefetcht0 [rdx+rax]
0756 vmovups ymm12,[rsi+rax]
075c vsubps ymm12,ymm12,ymm8
0761 vfmadd231ps ymm0,ymm12,ymm12
0766 add rax,20h
076a cmp rax,r9
076d jl near 0000000000000750h
0773 test r10,r10
0776 je near 0000000000000797h
077c vmaskmovps ymm12,ymm15,[rsi+rax]
0782 vsubps ymm12,ymm12,ymm8
0787 vxorps ymm14,ymm14,ymm14
078c vblendvps ymm12,ymm14,ymm12,ymm15
0792 vfmadd231ps ymm0,ymm12,ymm12
0797 vaddps ymm0,ymm0,ymm1
079c vaddps ymm2,ymm2,ymm3
07a1 vaddps ymm0,ymm0,ymm2
07a6 vpbroadcastd ymm13,[rdi+68h]
07ac vperm2f128 ymm14,ymm0,ymm0,1
07b2 vaddps ymm10,ymm0,ymm14
07b7 vpermilps ymm14,ymm10,4Eh
07bd vaddps ymm10,ymm10,ymm14
07c2 vpermilps ymm14,ymm10,0B1h
07c8 vaddps ymm10,ymm10,ymm14
07cd vmulps ymm10,ymm10,ymm13
07d2 vpbroadcastd ymm13,[rdi+6Ch]
07d8 vmovups ymm12,[rel 9A0h]
07e1 vaddps ymm10,ymm10,ymm13
07e6 vsqrtps ymm10,ymm10
07eb vdivps ymm10,ymm12,ymm10
07f0 mov r15,rsi
07f3 add r15,[rdi+48h]
07f7 mov eax,0
07fd cmp rax,r8
0800 jge near 00000000000008D4h
0806 nop word [rax+rax]
080f nop
0810 prefetcht0 [r15+rax]
0816 vmovups ymm13,[r11+rax]
081c vmovups ymm14,[rbx+rax]
0822 vmovups ymm12,[rsi+rax]
0828 vsubps ymm12,ymm12,ymm8
082d vmulps ymm12,ymm12,ymm10
0832 vfmadd213ps ymm12,ymm13,ymm14
0837 vmovups [rdx+rax],ymm12
083d vmovups ymm13,[r11+rax+20h]
0844 vmovups ymm14,[rbx+rax+20h]
084b vmovups ymm12,[rsi+rax+20h]
0852 vsubps ymm12,ymm12,ymm8
0857 vmulps ymm12,ymm12,ymm10
085c vfmadd213ps ymm12,ymm13,ymm14
0861 vmovups [rdx+rax+20h],ymm12
0868 prefetcht0 [r15+rax+40h]
086e vmovups ymm13,[r11+rax+40h]
0875 vmovups ymm14,[rbx+rax+40h]
087c vmovups ymm12,[rsi+rax+40h]
0883 vsubps ymm12,ymm12,ymm8
0888 vmulps ymm12,ymm12,ymm10
088d vfmadd213ps ymm12,ymm13,ymm14
0892 vmovups [rdx+rax+40h],ymm12
0899 vmovups ymm13,[r11+rax+60h]
08a0 vmovups ymm14,[rbx+rax+60h]
08a7 vmovups ymm12,[rsi+rax+60h]
08ae vsubps ymm12,ymm12,ymm8
08b3 vmulps ymm12,ymm12,ymm10
08b8 vfmadd213ps ymm12,ymm13,ymm14
08bd vmovups [rdx+rax+60h],ymm12
08c4 add rax,80h
08cb cmp rax,r8
08ce jl near 0000000000000810h
08d4 cmp rax,r9
08d7 jge near 000000000000091Ah
08dd nop dword [rax]
08e0 prefetcht0 [r15+rax]
08e6 vmovups ymm13,[r11+rax]
08ec vmovups ymm14,[rbx+rax]
08f2 vmovups ymm12,[rsi+rax]
08f8 vsubps ymm12,ymm12,ymm8
08fd vmulps ymm12,ymm12,ymm10
0902 vfmadd213ps ymm12,ymm13,ymm14
0907 vmovups [rdx+rax],ymm12
090d add rax,20h
0911 cmp rax,r9
0914 jl near 00000000000008E0h
091a test r10,r10
091d je near 000000000000094Ah
0923 vmaskmovps ymm13,ymm15,[r11+rax]
0929 vmaskmovps ymm14,ymm15,[rbx+rax]
092f vmaskmovps ymm12,ymm15,[rsi+rax]
0935 vsubps ymm12,ymm12,ymm8
093a vmulps ymm12,ymm12,ymm10
093f vfmadd213ps ymm12,ymm13,ymm14
0944 vmaskmovps [rdx+rax],ymm15,ymm12
094a add rsi,[rdi+48h]
094e add rdx,[rdi+50h]
0952 add r11,[rdi+58h]
0956 add rbx,[rdi+60h]
095a sub rcx,1
095e test rcx,rcx
0961 jne near 00000000000005ECh
0967 pop r15
0969 pop r14
096b pop r13
096d pop r12
096f pop rbp
0970 pop rbx
0971 vzeroupper
0974 ret
0975 nop word [rax+rax]
097e xchg ax,ax
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
