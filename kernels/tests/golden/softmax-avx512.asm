; Softmax(SoftmaxCode { isa: Avx512, form: Softmax, columns: false })
; part 0, 2228 bytes
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
0046 vbroadcastss zmm0,[rel 880h]
0050 vbroadcastss zmm1,[rel 880h]
005a vbroadcastss zmm2,[rel 880h]
0064 vbroadcastss zmm3,[rel 880h]
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
0142 mov r12,rsi
0145 add r12,r11
0148 mov r13,rdx
014b add r13,r11
014e mov eax,0
0154 cmp rax,r8
0157 jge near 0000000000000408h
015d nop dword [rax]
0160 prefetcht0 [r12+rax]
0166 prefetcht0 [r13+rax]
016c prefetcht0 [r12+rax+40h]
0172 prefetcht0 [r13+rax+40h]
0178 prefetcht0 [r12+rax+80h]
0181 prefetcht0 [r13+rax+80h]
018a prefetcht0 [r12+rax+0C0h]
0193 prefetcht0 [r13+rax+0C0h]
019c vmovups zmm0,[rsi+rax]
01a3 vsubps zmm0,zmm0,zmm13
01a9 vmovups zmm3,[rsi+rax+40h]
01b1 vsubps zmm3,zmm3,zmm13
01b7 vmovups zmm6,[rsi+rax+80h]
01bf vsubps zmm6,zmm6,zmm13
01c5 vmovups zmm9,[rsi+rax+0C0h]
01cd vsubps zmm9,zmm9,zmm13
01d3 vbroadcastss zmm12,[rel 884h]
01dd vmaxps zmm0,zmm12,zmm0
01e3 vmaxps zmm3,zmm12,zmm3
01e9 vmaxps zmm6,zmm12,zmm6
01ef vmaxps zmm9,zmm12,zmm9
01f5 vbroadcastss zmm12,[rel 888h]
01ff vmovups zmm1,zmm12
0205 vmovups zmm4,zmm12
020b vmovups zmm7,zmm12
0211 vmovups zmm10,zmm12
0217 vbroadcastss zmm12,[rel 88Ch]
0221 vfmadd231ps zmm1,zmm0,zmm12
0227 vfmadd231ps zmm4,zmm3,zmm12
022d vfmadd231ps zmm7,zmm6,zmm12
0233 vfmadd231ps zmm10,zmm9,zmm12
0239 vpslld zmm2,zmm1,17h
0240 vpslld zmm5,zmm4,17h
0247 vpslld zmm8,zmm7,17h
024e vpslld zmm11,zmm10,17h
0255 vbroadcastss zmm12,[rel 890h]
025f vaddps zmm1,zmm1,zmm12
0265 vaddps zmm4,zmm4,zmm12
026b vaddps zmm7,zmm7,zmm12
0271 vaddps zmm10,zmm10,zmm12
0277 vbroadcastss zmm12,[rel 894h]
0281 vfnmadd231ps zmm0,zmm1,zmm12
0287 vfnmadd231ps zmm3,zmm4,zmm12
028d vfnmadd231ps zmm6,zmm7,zmm12
0293 vfnmadd231ps zmm9,zmm10,zmm12
0299 vbroadcastss zmm12,[rel 898h]
02a3 vfnmadd231ps zmm0,zmm1,zmm12
02a9 vfnmadd231ps zmm3,zmm4,zmm12
02af vfnmadd231ps zmm6,zmm7,zmm12
02b5 vfnmadd231ps zmm9,zmm10,zmm12
02bb vbroadcastss zmm12,[rel 89Ch]
02c5 vmovups zmm1,zmm12
02cb vmovups zmm4,zmm12
02d1 vmovups zmm7,zmm12
02d7 vmovups zmm10,zmm12
02dd vbroadcastss zmm12,[rel 8A0h]
02e7 vfmadd213ps zmm1,zmm0,zmm12
02ed vfmadd213ps zmm4,zmm3,zmm12
02f3 vfmadd213ps zmm7,zmm6,zmm12
02f9 vfmadd213ps zmm10,zmm9,zmm12
02ff vbroadcastss zmm12,[rel 8A4h]
0309 vfmadd213ps zmm1,zmm0,zmm12
030f vfmadd213ps zmm4,zmm3,zmm12
0315 vfmadd213ps zmm7,zmm6,zmm12
031b vfmadd213ps zmm10,zmm9,zmm12
0321 vbroadcastss zmm12,[rel 8A8h]
032b vfmadd213ps zmm1,zmm0,zmm12
0331 vfmadd213ps zmm4,zmm3,zmm12
0337 vfmadd213ps zmm7,zmm6,zmm12
033d vfmadd213ps zmm10,zmm9,zmm12
0343 vbroadcastss zmm12,[rel 8ACh]
034d vfmadd213ps zmm1,zmm0,zmm12
0353 vfmadd213ps zmm4,zmm3,zmm12
0359 vfmadd213ps zmm7,zmm6,zmm12
035f vfmadd213ps zmm10,zmm9,zmm12
0365 vbroadcastss zmm12,[rel 8B0h]
036f vfmadd213ps zmm1,zmm0,zmm12
0375 vfmadd213ps zmm4,zmm3,zmm12
037b vfmadd213ps zmm7,zmm6,zmm12
0381 vfmadd213ps zmm10,zmm9,zmm12
0387 vbroadcastss zmm12,[rel 8B0h]
0391 vfmadd213ps zmm0,zmm1,zmm12
0397 vfmadd213ps zmm3,zmm4,zmm12
039d vfmadd213ps zmm6,zmm7,zmm12
03a3 vfmadd213ps zmm9,zmm10,zmm12
03a9 vmulps zmm0,zmm0,zmm2
03af vmulps zmm3,zmm3,zmm5
03b5 vmulps zmm6,zmm6,zmm8
03bb vmulps zmm9,zmm9,zmm11
03c1 vmovups [rdx+rax],zmm0
03c8 vmovups [rdx+rax+40h],zmm3
03d0 vmovups [rdx+rax+80h],zmm6
03d8 vmovups [rdx+rax+0C0h],zmm9
03e0 vaddps zmm0,zmm0,zmm6
03e6 vaddps zmm3,zmm3,zmm9
03ec vaddps zmm0,zmm0,zmm3
03f2 vaddps zmm14,zmm14,zmm0
03f8 add rax,100h
03ff cmp rax,r8
0402 jl near 0000000000000160h
0408 mov r15,r9
040b sub r15,rax
040e cmp r15,80h
0415 jl near 00000000000005A8h
041b prefetcht0 [r12+rax]
0421 prefetcht0 [r13+rax]
0427 prefetcht0 [r12+rax+40h]
042d prefetcht0 [r13+rax+40h]
0433 vmovups zmm0,[rsi+rax]
043a vsubps zmm0,zmm0,zmm13
0440 vmovups zmm3,[rsi+rax+40h]
0448 vsubps zmm3,zmm3,zmm13
044e vbroadcastss zmm12,[rel 884h]
0458 vmaxps zmm0,zmm12,zmm0
045e vmaxps zmm3,zmm12,zmm3
0464 vbroadcastss zmm12,[rel 888h]
046e vmovups zmm1,zmm12
0474 vmovups zmm4,zmm12
047a vbroadcastss zmm12,[rel 88Ch]
0484 vfmadd231ps zmm1,zmm0,zmm12
048a vfmadd231ps zmm4,zmm3,zmm12
0490 vpslld zmm2,zmm1,17h
0497 vpslld zmm5,zmm4,17h
049e vbroadcastss zmm12,[rel 890h]
04a8 vaddps zmm1,zmm1,zmm12
04ae vaddps zmm4,zmm4,zmm12
04b4 vbroadcastss zmm12,[rel 894h]
04be vfnmadd231ps zmm0,zmm1,zmm12
04c4 vfnmadd231ps zmm3,zmm4,zmm12
04ca vbroadcastss zmm12,[rel 898h]
04d4 vfnmadd231ps zmm0,zmm1,zmm12
04da vfnmadd231ps zmm3,zmm4,zmm12
04e0 vbroadcastss zmm12,[rel 89Ch]
04ea vmovups zmm1,zmm12
04f0 vmovups zmm4,zmm12
04f6 vbroadcastss zmm12,[rel 8A0h]
0500 vfmadd213ps zmm1,zmm0,zmm12
0506 vfmadd213ps zmm4,zmm3,zmm12
050c vbroadcastss zmm12,[rel 8A4h]
0516 vfmadd213ps zmm1,zmm0,zmm12
051c vfmadd213ps zmm4,zmm3,zmm12
0522 vbroadcastss zmm12,[rel 8A8h]
052c vfmadd213ps zmm1,zmm0,zmm12
0532 vfmadd213ps zmm4,zmm3,zmm12
0538 vbroadcastss zmm12,[rel 8ACh]
0542 vfmadd213ps zmm1,zmm0,zmm12
0548 vfmadd213ps zmm4,zmm3,zmm12
054e vbroadcastss zmm12,[rel 8B0h]
0558 vfmadd213ps zmm1,zmm0,zmm12
055e vfmadd213ps zmm4,zmm3,zmm12
0564 vbroadcastss zmm12,[rel 8B0h]
056e vfmadd213ps zmm0,zmm1,zmm12
0574 vfmadd213ps zmm3,zmm4,zmm12
057a vmulps zmm0,zmm0,zmm2
0580 vmulps zmm3,zmm3,zmm5
0586 vmovups [rdx+rax],zmm0
058d vmovups [rdx+rax+40h],zmm3
0595 vaddps zmm0,zmm0,zmm3
059b vaddps zmm14,zmm14,zmm0
05a1 add rax,80h
05a8 mov r15,r9
05ab sub r15,rax
05ae cmp r15,40h
05b2 jl near 0000000000000677h
05b8 prefetcht0 [r12+rax]
05be prefetcht0 [r13+rax]
05c4 vmovups zmm0,[rsi+rax]
05cb vsubps zmm0,zmm0,zmm13
05d1 vbroadcastss zmm1,[rel 884h]
05db vmaxps zmm0,zmm1,zmm0
05e1 vbroadcastss zmm1,[rel 888h]
05eb vfmadd231ps zmm1,zmm0,[rel 88Ch]{1to16}
05f5 vpslld zmm2,zmm1,17h
05fc vaddps zmm1,zmm1,[rel 890h]{1to16}
0606 vfnmadd231ps zmm0,zmm1,[rel 894h]{1to16}
0610 vfnmadd231ps zmm0,zmm1,[rel 898h]{1to16}
061a vbroadcastss zmm1,[rel 89Ch]
0624 vfmadd213ps zmm1,zmm0,[rel 8A0h]{1to16}
062e vfmadd213ps zmm1,zmm0,[rel 8A4h]{1to16}
0638 vfmadd213ps zmm1,zmm0,[rel 8A8h]{1to16}
0642 vfmadd213ps zmm1,zmm0,[rel 8ACh]{1to16}
064c vfmadd213ps zmm1,zmm0,[rel 8B0h]{1to16}
0656 vfmadd213ps zmm0,zmm1,[rel 8B0h]{1to16}
0660 vmulps zmm0,zmm0,zmm2
0666 vmovups [rdx+rax],zmm0
066d vaddps zmm14,zmm14,zmm0
0673 add rax,40h
0677 test r10,r10
067a je near 000000000000073Bh
0680 vmovups zmm0{k1}{z},[rsi+rax]
0687 vsubps zmm0,zmm0,zmm13
068d vbroadcastss zmm1,[rel 884h]
0697 vmaxps zmm0,zmm1,zmm0
069d vbroadcastss zmm1,[rel 888h]
06a7 vfmadd231ps zmm1,zmm0,[rel 88Ch]{1to16}
06b1 vpslld zmm2,zmm1,17h
06b8 vaddps zmm1,zmm1,[rel 890h]{1to16}
06c2 vfnmadd231ps zmm0,zmm1,[rel 894h]{1to16}
06cc vfnmadd231ps zmm0,zmm1,[rel 898h]{1to16}
06d6 vbroadcastss zmm1,[rel 89Ch]
06e0 vfmadd213ps zmm1,zmm0,[rel 8A0h]{1to16}
06ea vfmadd213ps zmm1,zmm0,[rel 8A4h]{1to16}
06f4 vfmadd213ps zmm1,zmm0,[rel 8A8h]{1to16}
06fe vfmadd213ps zmm1,zmm0,[rel 8ACh]{1to16}
0708 vfmadd213ps zmm1,zmm0,[rel 8B0h]{1to16}
0712 vfmadd213ps zmm0,zmm1,[rel 8B0h]{1to16}
071c vmulps zmm0,zmm0,zmm2
0722 vpxord zmm1,zmm1,zmm1
0728 vblendmps zmm0{k1},zmm1,zmm0
072e vmovups [rdx+rax]{k1},zmm0
0735 vaddps zmm14,zmm14,zmm0
073b vshuff32x4 zmm0,zmm14,zmm14,4Eh
0742 vaddps zmm14,zmm14,zmm0
0748 vshuff32x4 zmm0,zmm14,zmm14,0B1h
074f vaddps zmm14,zmm14,zmm0
0755 vpermilps zmm0,zmm14,4Eh
075c vaddps zmm14,zmm14,zmm0
0762 vpermilps zmm0,zmm14,0B1h
0769 vaddps zmm14,zmm14,zmm0
076f vbroadcastss zmm0,[rel 8B0h]
0779 vdivps zmm14,zmm0,zmm14
077f mov eax,0
0785 cmp rax,r8
0788 jge near 00000000000007DEh
078e xchg ax,ax
0790 vmulps zmm0,zmm14,[rdx+rax]
0797 vmovups [rdx+rax],zmm0
079e vmulps zmm3,zmm14,[rdx+rax+40h]
07a6 vmovups [rdx+rax+40h],zmm3
07ae vmulps zmm6,zmm14,[rdx+rax+80h]
07b6 vmovups [rdx+rax+80h],zmm6
07be vmulps zmm9,zmm14,[rdx+rax+0C0h]
07c6 vmovups [rdx+rax+0C0h],zmm9
07ce add rax,100h
07d5 cmp rax,r8
07d8 jl near 0000000000000790h
07de cmp rax,r9
07e1 jge near 000000000000080Bh
07e7 nop word [rax+rax]
07f0 vmulps zmm0,zmm14,[rdx+rax]
07f7 vmovups [rdx+rax],zmm0
07fe add rax,40h
0802 cmp rax,r9
0805 jl near 00000000000007F0h
080b test r10,r10
080e je near 0000000000000828h
0814 vmovups zmm0{k1}{z},[rdx+rax]
081b vmulps zmm0,zmm0,zmm14
0821 vmovups [rdx+rax]{k1},zmm0
0828 add rsi,r11
082b add rdx,r11
082e sub rcx,1
0832 test rcx,rcx
0835 jne near 0000000000000046h
083b pop r15
083d pop r14
083f pop r13
0841 pop r12
0843 pop rbp
0844 pop rbx
0845 vzeroupper
0848 ret
0849 nop word [rax+rax]
0852 nop word [rax+rax]
085b nop word [rax+rax]
0864 nop word [rax+rax]
086d nop word [rax+rax]
0876 nop word [rax+rax]
087f nop
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
