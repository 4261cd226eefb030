; Extreme(ExtremeCode { isa: Avx512, wanted: Least, last: true, columns: true })
; part 0, 1416 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi]
000d mov rdx,[rdi+8]
0011 mov r11,[rdi+20h]
0015 vmovups zmm9,[rel 4C0h]
001f vmovups zmm13,[rel 500h]
0029 mov r12d,8
002f xor r13d,r13d
0032 bts r13,r12
0036 sub r13d,1
003a kmovw k2,r13d
003f vblendmps zmm9{k2},zmm13,zmm9
0045 vpaddd zmm10,zmm9,[rel 540h]{1to16}
004f vmovups zmm11,[rel 544h]
0059 mov r10,[rdi+10h]
005d cmp r10,80h
0064 jl near 0000000000000319h
006a vmovups zmm0,[rsi]
0070 vpxord zmm16,zmm16,zmm16
0076 vmovups zmm1,[rsi+40h]
007d vpxord zmm17,zmm17,zmm17
0083 vmovups zmm2,[rsi+80h]
008a vpxord zmm18,zmm18,zmm18
0090 vmovups zmm3,[rsi+0C0h]
0097 vpxord zmm19,zmm19,zmm19
009d vmovups zmm4,[rsi+100h]
00a4 vpxord zmm20,zmm20,zmm20
00aa vmovups zmm5,[rsi+140h]
00b1 vpxord zmm21,zmm21,zmm21
00b7 vmovups zmm6,[rsi+180h]
00be vpxord zmm22,zmm22,zmm22
00c4 vmovups zmm7,[rsi+1C0h]
00cb vpxord zmm23,zmm23,zmm23
00d1 vpxord zmm8,zmm8,zmm8
00d7 mov r15,[rdi+18h]
00db mov rax,rsi
00de xchg ax,ax
00e0 vmovups zmm12,[rax]
00e6 vcmple_oqps k2,zmm12,zmm0
00ed vblendmps zmm0{k2},zmm0,zmm12
00f3 vblendmps zmm16{k2},zmm16,zmm8
00f9 vmovups zmm12,[rax+40h]
0100 vcmple_oqps k2,zmm12,zmm1
0107 vblendmps zmm1{k2},zmm1,zmm12
010d vblendmps zmm17{k2},zmm17,zmm8
0113 vmovups zmm12,[rax+80h]
011a vcmple_oqps k2,zmm12,zmm2
0121 vblendmps zmm2{k2},zmm2,zmm12
0127 vblendmps zmm18{k2},zmm18,zmm8
012d vmovups zmm12,[rax+0C0h]
0134 vcmple_oqps k2,zmm12,zmm3
013b vblendmps zmm3{k2},zmm3,zmm12
0141 vblendmps zmm19{k2},zmm19,zmm8
0147 vmovups zmm12,[rax+100h]
014e vcmple_oqps k2,zmm12,zmm4
0155 vblendmps zmm4{k2},zmm4,zmm12
015b vblendmps zmm20{k2},zmm20,zmm8
0161 vmovups zmm12,[rax+140h]
0168 vcmple_oqps k2,zmm12,zmm5
016f vblendmps zmm5{k2},zmm5,zmm12
0175 vblendmps zmm21{k2},zmm21,zmm8
017b vmovups zmm12,[rax+180h]
0182 vcmple_oqps k2,zmm12,zmm6
0189 vblendmps zmm6{k2},zmm6,zmm12
018f vblendmps zmm22{k2},zmm22,zmm8
0195 vmovups zmm12,[rax+1C0h]
019c vcmple_oqps k2,zmm12,zmm7
01a3 vblendmps zmm7{k2},zmm7,zmm12
01a9 vblendmps zmm23{k2},zmm23,zmm8
01af vpaddd zmm8,zmm8,[rel 584h]{1to16}
01b9 add rax,r11
01bc sub r15,1
01c0 test r15,r15
01c3 jne near 00000000000000E0h
01c9 vpermps zmm12,zmm9,zmm16
01cf vandps zmm12,zmm12,zmm11
01d5 vmovups [rdx],zmm12
01db vpermps zmm12,zmm10,zmm16
01e1 vandps zmm12,zmm12,zmm11
01e7 vmovups [rdx+40h],zmm12
01ee vpermps zmm12,zmm9,zmm17
01f4 vandps zmm12,zmm12,zmm11
01fa vmovups [rdx+80h],zmm12
0201 vpermps zmm12,zmm10,zmm17
0207 vandps zmm12,zmm12,zmm11
020d vmovups [rdx+0C0h],zmm12
0214 vpermps zmm12,zmm9,zmm18
021a vandps zmm12,zmm12,zmm11
0220 vmovups [rdx+100h],zmm12
0227 vpermps zmm12,zmm10,zmm18
022d vandps zmm12,zmm12,zmm11
0233 vmovups [rdx+140h],zmm12
023a vpermps zmm12,zmm9,zmm19
0240 vandps zmm12,zmm12,zmm11
0246 vmovups [rdx+180h],zmm12
024d vpermps zmm12,zmm10,zmm19
0253 vandps zmm12,zmm12,zmm11
0259 vmovups [rdx+1C0h],zmm12
0260 vpermps zmm12,zmm9,zmm20
0266 vandps zmm12,zmm12,zmm11
026c vmovups [rdx+200h],zmm12
0273 vpermps zmm12,zmm10,zmm20
0279 vandps zmm12,zmm12,zmm11
027f vmovups [rdx+240h],zmm12
0286 vpermps zmm12,zmm9,zmm21
028c vandps zmm12,zmm12,zmm11
0292 vmovups [rdx+280h],zmm12
0299 vpermps zmm12,zmm10,zmm21
029f vandps zmm12,zmm12,zmm11
02a5 vmovups [rdx+2C0h],zmm12
02ac vpermps zmm12,zmm9,zmm22
02b2 vandps zmm12,zmm12,zmm11
02b8 vmovups [rdx+300h],zmm12
02bf vpermps zmm12,zmm10,zmm22
02c5 vandps zmm12,zmm12,zmm11
02cb vmovups [rdx+340h],zmm12
02d2 vpermps zmm12,zmm9,zmm23
02d8 vandps zmm12,zmm12,zmm11
02de vmovups [rdx+380h],zmm12
02e5 vpermps zmm12,zmm10,zmm23
02eb vandps zmm12,zmm12,zmm11
02f1 vmovups [rdx+3C0h],zmm12
02f8 add rsi,200h
02ff add rdx,200h
0306 add rdx,200h
030d sub r10,80h
0314 jmp 000000000000005Dh
0319 cmp r10,10h
031d jl near 00000000000003ADh
0323 vmovups zmm0,[rsi]
0329 vpxord zmm16,zmm16,zmm16
032f vpxord zmm8,zmm8,zmm8
0335 mov r15,[rdi+18h]
0339 mov rax,rsi
033c nop dword [rax]
0340 vmovups zmm12,[rax]
0346 vcmple_oqps k2,zmm12,zmm0
034d vblendmps zmm0{k2},zmm0,zmm12
0353 vblendmps zmm16{k2},zmm16,zmm8
0359 vpaddd zmm8,zmm8,[rel 584h]{1to16}
0363 add rax,r11
0366 sub r15,1
036a test r15,r15
036d jne near 0000000000000340h
0373 vpermps zmm12,zmm9,zmm16
0379 vandps zmm12,zmm12,zmm11
037f vmovups [rdx],zmm12
0385 vpermps zmm12,zmm10,zmm16
038b vandps zmm12,zmm12,zmm11
0391 vmovups [rdx+40h],zmm12
0398 add rsi,40h
039c add rdx,40h
03a0 add rdx,40h
03a4 sub r10,10h
03a8 jmp 0000000000000319h
03ad test r10,r10
03b0 je near 0000000000000479h
03b6 xor eax,eax
03b9 bts rax,r10
03bd sub eax,1
03c1 kmovw k1,eax
03c5 vmovups zmm0{k1}{z},[rsi]
03cb vpxord zmm16,zmm16,zmm16
03d1 vpxord zmm8,zmm8,zmm8
03d7 mov r15,[rdi+18h]
03db mov rax,rsi
03de xchg ax,ax
03e0 vmovups zmm12{k1}{z},[rax]
03e6 vcmple_oqps k2,zmm12,zmm0
03ed vblendmps zmm0{k2},zmm0,zmm12
03f3 vblendmps zmm16{k2},zmm16,zmm8
03f9 vpaddd zmm8,zmm8,[rel 584h]{1to16}
0403 add rax,r11
0406 sub r15,1
040a test r15,r15
040d jne near 00000000000003E0h
0413 mov rcx,[rdi+10h]
0417 and rcx,0Fh
041b shl rcx,1
041f mov r12d,10h
0425 cmp r12,rcx
0428 jl near 0000000000000431h
042e mov r12,rcx
0431 xor r13d,r13d
0434 bts r13,r12
0438 sub r13d,1
043c kmovw k3,r13d
0441 sub rcx,r12
0444 xor r13d,r13d
0447 bts r13,rcx
044b sub r13d,1
044f kmovw k4,r13d
0454 vpermps zmm12,zmm9,zmm16
045a vandps zmm12,zmm12,zmm11
0460 vmovups [rdx]{k3},zmm12
0466 vpermps zmm12,zmm10,zmm16
046c vandps zmm12,zmm12,zmm11
0472 vmovups [rdx+40h]{k4},zmm12
0479 pop r15
047b pop r14
047d pop r13
047f pop r12
0481 pop rbp
0482 pop rbx
0483 vzeroupper
0486 ret
0487 nop word [rax+rax]
0490 nop word [rax+rax]
0499 nop word [rax+rax]
04a2 nop word [rax+rax]
04ab nop word [rax+rax]
04b4 nop word [rax+rax]
04bd nop dword [rax]
; [00, 00, 00, 00]
; [00, 00, 00, 00]
; [01, 00, 00, 00]
; [01, 00, 00, 00]
; [02, 00, 00, 00]
; [02, 00, 00, 00]
; [03, 00, 00, 00]
; [03, 00, 00, 00]
; [00, 00, 00, 00]
; [00, 00, 00, 00]
; [01, 00, 00, 00]
; [01, 00, 00, 00]
; [02, 00, 00, 00]
; [02, 00, 00, 00]
; [03, 00, 00, 00]
; [03, 00, 00, 00]
; [04, 00, 00, 00]
; [04, 00, 00, 00]
; [05, 00, 00, 00]
; [05, 00, 00, 00]
; [06, 00, 00, 00]
; [06, 00, 00, 00]
; [07, 00, 00, 00]
; [07, 00, 00, 00]
; [04, 00, 00, 00]
; [04, 00, 00, 00]
; [05, 00, 00, 00]
; [05, 00, 00, 00]
; [06, 00, 00, 00]
; [06, 00, 00, 00]
; [07, 00, 00, 00]
; [07, 00, 00, 00]
; [08, 00, 00, 00]
; [ff, ff, ff, ff]
; [00, 00, 00, 00]
; [ff, ff, ff, ff]
; [00, 00, 00, 00]
; [ff, ff, ff, ff]
; [00, 00, 00, 00]
; [ff, ff, ff, ff]
; [00, 00, 00, 00]
; [ff, ff, ff, ff]
; [00, 00, 00, 00]
; [ff, ff, ff, ff]
; [00, 00, 00, 00]
; [ff, ff, ff, ff]
; [00, 00, 00, 00]
; [ff, ff, ff, ff]
; [00, 00, 00, 00]
; [01, 00, 00, 00]
