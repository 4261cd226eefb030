; Lookup(LookupCode { isa: Avx2, form: Pieces })
; part 0, 1280 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi]
000d mov rdx,[rdi+8]
0011 mov r8,[rdi+10h]
0015 mov rcx,[rdi+18h]
0019 vmovups ymm14,[rel 4C0h]
0022 vmovups ymm15,[rel 4E0h]
002b nop dword [rax+rax]
0030 vbroadcastf128 ymm13,[r8]
0035 vmovups ymm0,[rsi]
003a vpshufb ymm4,ymm13,ymm0
003f vmovups ymm1,[rsi+20h]
0045 vpshufb ymm5,ymm13,ymm1
004a vmovups ymm2,[rsi+40h]
0050 vpshufb ymm6,ymm13,ymm2
0055 vmovups ymm3,[rsi+60h]
005b vpshufb ymm7,ymm13,ymm3
0060 vbroadcastf128 ymm13,[r8+10h]
0066 vpaddsb ymm0,ymm0,ymm14
006b vpshufb ymm8,ymm13,ymm0
0070 vxorps ymm4,ymm4,ymm8
0075 vpaddsb ymm1,ymm1,ymm14
007a vpshufb ymm9,ymm13,ymm1
007f vxorps ymm5,ymm5,ymm9
0084 vpaddsb ymm2,ymm2,ymm14
0089 vpshufb ymm10,ymm13,ymm2
008e vxorps ymm6,ymm6,ymm10
0093 vpaddsb ymm3,ymm3,ymm14
0098 vpshufb ymm11,ymm13,ymm3
009d vxorps ymm7,ymm7,ymm11
00a2 vbroadcastf128 ymm13,[r8+20h]
00a8 vpaddsb ymm0,ymm0,ymm14
00ad vpshufb ymm8,ymm13,ymm0
00b2 vxorps ymm4,ymm4,ymm8
00b7 vpaddsb ymm1,ymm1,ymm14
00bc vpshufb ymm9,ymm13,ymm1
00c1 vxorps ymm5,ymm5,ymm9
00c6 vpaddsb ymm2,ymm2,ymm14
00cb vpshufb ymm10,ymm13,ymm2
00d0 vxorps ymm6,ymm6,ymm10
00d5 vpaddsb ymm3,ymm3,ymm14
00da vpshufb ymm11,ymm13,ymm3
00df vxorps ymm7,ymm7,ymm11
00e4 vbroadcastf128 ymm13,[r8+30h]
00ea vpaddsb ymm0,ymm0,ymm14
00ef vpshufb ymm8,ymm13,ymm0
00f4 vxorps ymm4,ymm4,ymm8
00f9 vpaddsb ymm1,ymm1,ymm14
00fe vpshufb ymm9,ymm13,ymm1
0103 vxorps ymm5,ymm5,ymm9
0108 vpaddsb ymm2,ymm2,ymm14
010d vpshufb ymm10,ymm13,ymm2
0112 vxorps ymm6,ymm6,ymm10
0117 vpaddsb ymm3,ymm3,ymm14
011c vpshufb ymm11,ymm13,ymm3
0121 vxorps ymm7,ymm7,ymm11
0126 vbroadcastf128 ymm13,[r8+40h]
012c vpaddsb ymm0,ymm0,ymm14
0131 vpshufb ymm8,ymm13,ymm0
0136 vxorps ymm4,ymm4,ymm8
013b vpaddsb ymm1,ymm1,ymm14
0140 vpshufb ymm9,ymm13,ymm1
0145 vxorps ymm5,ymm5,ymm9
014a vpaddsb ymm2,ymm2,ymm14
014f vpshufb ymm10,ymm13,ymm2
0154 vxorps ymm6,ymm6,ymm10
0159 vpaddsb ymm3,ymm3,ymm14
015e vpshufb ymm11,ymm13,ymm3
0163 vxorps ymm7,ymm7,ymm11
0168 vbroadcastf128 ymm13,[r8+50h]
016e vpaddsb ymm0,ymm0,ymm14
0173 vpshufb ymm8,ymm13,ymm0
0178 vxorps ymm4,ymm4,ymm8
017d vpaddsb ymm1,ymm1,ymm14
0182 vpshufb ymm9,ymm13,ymm1
0187 vxorps ymm5,ymm5,ymm9
018c vpaddsb ymm2,ymm2,ymm14
0191 vpshufb ymm10,ymm13,ymm2
0196 vxorps ymm6,ymm6,ymm10
019b vpaddsb ymm3,ymm3,ymm14
01a0 vpshufb ymm11,ymm13,ymm3
01a5 vxorps ymm7,ymm7,ymm11
01aa vbroadcastf128 ymm13,[r8+60h]
01b0 vpaddsb ymm0,ymm0,ymm14
01b5 vpshufb ymm8,ymm13,ymm0
01ba vxorps ymm4,ymm4,ymm8
01bf vpaddsb ymm1,ymm1,ymm14
01c4 vpshufb ymm9,ymm13,ymm1
01c9 vxorps ymm5,ymm5,ymm9
01ce vpaddsb ymm2,ymm2,ymm14
01d3 vpshufb ymm10,ymm13,ymm2
01d8 vxorps ymm6,ymm6,ymm10
01dd vpaddsb ymm3,ymm3,ymm14
01e2 vpshufb ymm11,ymm13,ymm3
01e7 vxorps ymm7,ymm7,ymm11
01ec vbroadcastf128 ymm13,[r8+70h]
01f2 vpaddsb ymm0,ymm0,ymm14
01f7 vpshufb ymm8,ymm13,ymm0
01fc vxorps ymm4,ymm4,ymm8
0201 vpaddsb ymm1,ymm1,ymm14
0206 vpshufb ymm9,ymm13,ymm1
020b vxorps ymm5,ymm5,ymm9
0210 vpaddsb ymm2,ymm2,ymm14
0215 vpshufb ymm10,ymm13,ymm2
021a vxorps ymm6,ymm6,ymm10
021f vpaddsb ymm3,ymm3,ymm14
0224 vpshufb ymm11,ymm13,ymm3
0229 vxorps ymm7,ymm7,ymm11
022e vbroadcastf128 ymm13,[r8+80h]
0237 vxorps ymm0,ymm15,[rsi]
023c vpshufb ymm8,ymm13,ymm0
0241 vxorps ymm4,ymm4,ymm8
0246 vxorps ymm1,ymm15,[rsi+20h]
024c vpshufb ymm9,ymm13,ymm1
0251 vxorps ymm5,ymm5,ymm9
0256 vxorps ymm2,ymm15,[rsi+40h]
025c vpshufb ymm10,ymm13,ymm2
0261 vxorps ymm6,ymm6,ymm10
0266 vxorps ymm3,ymm15,[rsi+60h]
026c vpshufb ymm11,ymm13,ymm3
0271 vxorps ymm7,ymm7,ymm11
0276 vbroadcastf128 ymm13,[r8+90h]
027f vpaddsb ymm0,ymm0,ymm14
0284 vpshufb ymm8,ymm13,ymm0
0289 vxorps ymm4,ymm4,ymm8
028e vpaddsb ymm1,ymm1,ymm14
0293 vpshufb ymm9,ymm13,ymm1
0298 vxorps ymm5,ymm5,ymm9
029d vpaddsb ymm2,ymm2,ymm14
02a2 vpshufb ymm10,ymm13,ymm2
02a7 vxorps ymm6,ymm6,ymm10
02ac vpaddsb ymm3,ymm3,ymm14
02b1 vpshufb ymm11,ymm13,ymm3
02b6 vxorps ymm7,ymm7,ymm11
02bb vbroadcastf128 ymm13,[r8+0A0h]
02c4 vpaddsb ymm0,ymm0,ymm14
02c9 vpshufb ymm8,ymm13,ymm0
02ce vxorps ymm4,ymm4,ymm8
02d3 vpaddsb ymm1,ymm1,ymm14
02d8 vpshufb ymm9,ymm13,ymm1
02dd vxorps ymm5,ymm5,ymm9
02e2 vpaddsb ymm2,ymm2,ymm14
02e7 vpshufb ymm10,ymm13,ymm2
02ec vxorps ymm6,ymm6,ymm10
02f1 vpaddsb ymm3,ymm3,ymm14
02f6 vpshufb ymm11,ymm13,ymm3
02fb vxorps ymm7,ymm7,ymm11
0300 vbroadcastf128 ymm13,[r8+0B0h]
0309 vpaddsb ymm0,ymm0,ymm14
030e vpshufb ymm8,ymm13,ymm0
0313 vxorps ymm4,ymm4,ymm8
0318 vpaddsb ymm1,ymm1,ymm14
031d vpshufb ymm9,ymm13,ymm1
0322 vxorps ymm5,ymm5,ymm9
0327 vpaddsb ymm2,ymm2,ymm14
032c vpshufb ymm10,ymm13,ymm2
0331 vxorps ymm6,ymm6,ymm10
0336 vpaddsb ymm3,ymm3,ymm14
033b vpshufb ymm11,ymm13,ymm3
0340 vxorps ymm7,ymm7,ymm11
0345 vbroadcastf128 ymm13,[r8+0C0h]
034e vpaddsb ymm0,ymm0,ymm14
0353 vpshufb ymm8,ymm13,ymm0
0358 vxorps ymm4,ymm4,ymm8
035d vpaddsb ymm1,ymm1,ymm14
0362 vpshufb ymm9,ymm13,ymm1
0367 vxorps ymm5,ymm5,ymm9
036c vpaddsb ymm2,ymm2,ymm14
0371 vpshufb ymm10,ymm13,ymm2
0376 vxorps ymm6,ymm6,ymm10
037b vpaddsb ymm3,ymm3,ymm14
0380 vpshufb ymm11,ymm13,ymm3
0385 vxorps ymm7,ymm7,ymm11
038a vbroadcastf128 ymm13,[r8+0D0h]
0393 vpaddsb ymm0,ymm0,ymm14
0398 vpshufb ymm8,ymm13,ymm0
039d vxorps ymm4,ymm4,ymm8
03a2 vpaddsb ymm1,ymm1,ymm14
03a7 vpshufb ymm9,ymm13,ymm1
03ac vxorps ymm5,ymm5,ymm9
03b1 vpaddsb ymm2,ymm2,ymm14
03b6 vpshufb ymm10,ymm13,ymm2
03bb vxorps ymm6,ymm6,ymm10
03c0 vpaddsb ymm3,ymm3,ymm14
03c5 vpshufb ymm11,ymm13,ymm3
03ca vxorps ymm7,ymm7,ymm11
03cf vbroadcastf128 ymm13,[r8+0E0h]
03d8 vpaddsb ymm0,ymm0,ymm14
03dd vpshufb ymm8,ymm13,ymm0
03e2 vxorps ymm4,ymm4,ymm8
03e7 vpaddsb ymm1,ymm1,ymm14
03ec vpshufb ymm9,ymm13,ymm1
03f1 vxorps ymm5,ymm5,ymm9
03f6 vpaddsb ymm2,ymm2,ymm14
03fb vpshufb ymm10,ymm13,ymm2
0400 vxorps ymm6,ymm6,ymm10
0405 vpaddsb ymm3,ymm3,ymm14
040a vpshufb ymm11,ymm13,ymm3
040f vxorps ymm7,ymm7,ymm11
0414 vbroadcastf128 ymm13,[r8+0F0h]
041d vpaddsb ymm0,ymm0,ymm14
0422 vpshufb ymm8,ymm13,ymm0
0427 vxorps ymm4,ymm4,ymm8
042c vpaddsb ymm1,ymm1,ymm14
0431 vpshufb ymm9,ymm13,ymm1
0436 vxorps ymm5,ymm5,ymm9
043b vpaddsb ymm2,ymm2,ymm14
0440 vpshufb ymm10,ymm13,ymm2
0445 vxorps ymm6,ymm6,ymm10
044a vpaddsb ymm3,ymm3,ymm14
044f vpshufb ymm11,ymm13,ymm3
0454 vxorps ymm7,ymm7,ymm11
0459 vmovups [rdx],ymm4
045e vmovups [rdx+20h],ymm5
0464 vmovups [rdx+40h],ymm6
046a vmovups [rdx+60h],ymm7
0470 add rsi,80h
0477 add rdx,80h
047e sub rcx,1
0482 test rcx,rcx
0485 jne near 0000000000000030h
048b pop r15
048d pop r14
048f pop r13
0491 pop r12
0493 pop rbp
0494 pop rbx
0495 vzeroupper
0498 ret
0499 nop word [rax+rax]
04a2 nop word [rax+rax]
04ab nop word [rax+rax]
04b4 nop word [rax+rax]
04bd nop dword [rax]
; [f0, f0, f0, f0]
; [f0, f0, f0, f0]
; [f0, f0, f0, f0]
; [f0, f0, f0, f0]
; [f0, f0, f0, f0]
; [f0, f0, f0, f0]
; [f0, f0, f0, f0]
; [f0, f0, f0, f0]
; [80, 80, 80, 80]
; [80, 80, 80, 80]
; [80, 80, 80, 80]
; [80, 80, 80, 80]
; [80, 80, 80, 80]
; [80, 80, 80, 80]
; [80, 80, 80, 80]
; [80, 80, 80, 80]
