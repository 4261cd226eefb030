; Extreme(ExtremeCode { isa: Avx512, wanted: Greatest, last: false, columns: false })
; part 0, 1112 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi]
000d mov rdx,[rdi+8]
0011 mov r11,[rdi+20h]
0015 vmovups zmm24,[rel 3C0h]
001f vmovups zmm13,[rel 400h]
0029 mov r12d,8
002f xor r13d,r13d
0032 bts r13,r12
0036 sub r13d,1
003a kmovw k2,r13d
003f vblendmps zmm24{k2},zmm13,zmm24
0045 mov r10,[rdi+18h]
0049 mov r8,r10
004c and r8,0FFFFFFFFFFFFFFC0h
0050 shl r8,2
0054 mov r9,r10
0057 and r9,0FFFFFFFFFFFFFFF0h
005b shl r9,2
005f and r10,0Fh
0063 xor eax,eax
0066 bts rax,r10
006a sub eax,1
006e kmovw k1,eax
0072 mov rcx,[rdi+10h]
0076 vmovups zmm8,zmm24
007c vpbroadcastd zmm0,[rsi]
0082 vpxord zmm16,zmm16,zmm16
0088 vpaddd zmm9,zmm8,[rel 440h]{1to16}
0092 vmovups zmm1,zmm0
0098 vpxord zmm17,zmm17,zmm17
009e vpaddd zmm10,zmm8,[rel 444h]{1to16}
00a8 vmovups zmm2,zmm0
00ae vpxord zmm18,zmm18,zmm18
00b4 vpaddd zmm11,zmm8,[rel 448h]{1to16}
00be vmovups zmm3,zmm0
00c4 vpxord zmm19,zmm19,zmm19
00ca mov eax,0
00d0 cmp rax,r8
00d3 jge near 00000000000001A7h
00d9 nop dword [rax]
00e0 prefetcht0 [rsi+rax+1000h]
00e9 vmovups zmm12,[rsi+rax]
00f0 vcmpgt_oqps k2,zmm12,zmm0
00f7 vblendmps zmm0{k2},zmm0,zmm12
00fd vblendmps zmm16{k2},zmm16,zmm8
0103 prefetcht0 [rsi+rax+1040h]
010c vmovups zmm12,[rsi+rax+40h]
0114 vcmpgt_oqps k2,zmm12,zmm1
011b vblendmps zmm1{k2},zmm1,zmm12
0121 vblendmps zmm17{k2},zmm17,zmm9
0127 prefetcht0 [rsi+rax+1080h]
0130 vmovups zmm12,[rsi+rax+80h]
0138 vcmpgt_oqps k2,zmm12,zmm2
013f vblendmps zmm2{k2},zmm2,zmm12
0145 vblendmps zmm18{k2},zmm18,zmm10
014b prefetcht0 [rsi+rax+10C0h]
0154 vmovups zmm12,[rsi+rax+0C0h]
015c vcmpgt_oqps k2,zmm12,zmm3
0163 vblendmps zmm3{k2},zmm3,zmm12
0169 vblendmps zmm19{k2},zmm19,zmm11
016f vpaddd zmm8,zmm8,[rel 44Ch]{1to16}
0179 vpaddd zmm9,zmm9,[rel 44Ch]{1to16}
0183 vpaddd zmm10,zmm10,[rel 44Ch]{1to16}
018d vpaddd zmm11,zmm11,[rel 44Ch]{1to16}
0197 add rax,100h
019e cmp rax,r8
01a1 jl near 00000000000000E0h
01a7 mov r15,r9
01aa sub r15,rax
01ad cmp r15,80h
01b4 jl near 0000000000000212h
01ba prefetcht0 [rsi+rax+1000h]
01c3 vmovups zmm12,[rsi+rax]
01ca vcmpgt_oqps k2,zmm12,zmm0
01d1 vblendmps zmm0{k2},zmm0,zmm12
01d7 vblendmps zmm16{k2},zmm16,zmm8
01dd prefetcht0 [rsi+rax+1040h]
01e6 vmovups zmm12,[rsi+rax+40h]
01ee vcmpgt_oqps k2,zmm12,zmm1
01f5 vblendmps zmm1{k2},zmm1,zmm12
01fb vblendmps zmm17{k2},zmm17,zmm9
0201 vpaddd zmm8,zmm8,[rel 444h]{1to16}
020b add rax,80h
0212 mov r15,r9
0215 sub r15,rax
0218 cmp r15,40h
021c jl near 0000000000000253h
0222 prefetcht0 [rsi+rax+1000h]
022b vmovups zmm12,[rsi+rax]
0232 vcmpgt_oqps k2,zmm12,zmm0
0239 vblendmps zmm0{k2},zmm0,zmm12
023f vblendmps zmm16{k2},zmm16,zmm8
0245 vpaddd zmm8,zmm8,[rel 440h]{1to16}
024f add rax,40h
0253 test r10,r10
0256 je near 0000000000000286h
025c vmovups zmm12{k1}{z},[rsi+rax]
0263 vbroadcastss zmm13,[rel 450h]
026d vblendmps zmm12{k1},zmm13,zmm12
0273 vcmpgt_oqps k2,zmm12,zmm0
027a vblendmps zmm0{k2},zmm0,zmm12
0280 vblendmps zmm16{k2},zmm16,zmm8
0286 vmaxps zmm12,zmm0,zmm1
028c vmaxps zmm13,zmm2,zmm3
0292 vmaxps zmm12,zmm12,zmm13
0298 vshuff32x4 zmm13,zmm12,zmm12,4Eh
029f vmaxps zmm12,zmm12,zmm13
02a5 vshuff32x4 zmm13,zmm12,zmm12,0B1h
02ac vmaxps zmm12,zmm12,zmm13
02b2 vpermilps zmm13,zmm12,4Eh
02b9 vmaxps zmm12,zmm12,zmm13
02bf vpermilps zmm13,zmm12,0B1h
02c6 vmaxps zmm12,zmm12,zmm13
02cc vbroadcastss zmm12,xmm12
02d2 vbroadcastss zmm13,[rel 454h]
02dc vcmplt_oqps k2,zmm0,zmm12
02e3 vblendmps zmm16{k2},zmm16,zmm13
02e9 vcmplt_oqps k2,zmm1,zmm12
02f0 vblendmps zmm17{k2},zmm17,zmm13
02f6 vcmplt_oqps k2,zmm2,zmm12
02fd vblendmps zmm18{k2},zmm18,zmm13
0303 vcmplt_oqps k2,zmm3,zmm12
030a vblendmps zmm19{k2},zmm19,zmm13
0310 vpminsd zmm16,zmm16,zmm17
0316 vpminsd zmm18,zmm18,zmm19
031c vpminsd zmm16,zmm16,zmm18
0322 vshuff32x4 zmm13,zmm16,zmm16,4Eh
0329 vpminsd zmm16,zmm16,zmm13
032f vshuff32x4 zmm13,zmm16,zmm16,0B1h
0336 vpminsd zmm16,zmm16,zmm13
033c vpermilps zmm13,zmm16,4Eh
0343 vpminsd zmm16,zmm16,zmm13
0349 vpermilps zmm13,zmm16,0B1h
0350 vpminsd zmm16,zmm16,zmm13
0356 mov r12d,0
035c mov [rdx],r12
035f vmovss [rdx],xmm16
0365 add rsi,r11
0368 add rdx,8
036c sub rcx,1
0370 test rcx,rcx
0373 jne near 0000000000000076h
0379 pop r15
037b pop r14
037d pop r13
037f pop r12
0381 pop rbp
0382 pop rbx
0383 vzeroupper
0386 ret
0387 nop word [rax+rax]
0390 nop word [rax+rax]
0399 nop word [rax+rax]
03a2 nop word [rax+rax]
03ab nop word [rax+rax]
03b4 nop word [rax+rax]
03bd nop dword [rax]
; [00, 00, 00, 00]
; [01, 00, 00, 00]
; [02, 00, 00, 00]
; [03, 00, 00, 00]
; [04, 00, 00, 00]
; [05, 00, 00, 00]
; [06, 00, 00, 00]
; [07, 00, 00, 00]
; [00, 00, 00, 00]
; [01, 00, 00, 00]
; [02, 00, 00, 00]
; [03, 00, 00, 00]
; [04, 00, 00, 00]
; [05, 00, 00, 00]
; [06, 00, 00, 00]
; [07, 00, 00, 00]
; [08, 00, 00, 00]
; [09, 00, 00, 00]
; [0a, 00, 00, 00]
; [0b, 00, 00, 00]
; [0c, 00, 00, 00]
; [0d, 00, 00, 00]
; [0e, 00, 00, 00]
; [0f, 00, 00, 00]
; [08, 00, 00, 00]
; [09, 00, 00, 00]
; [0a, 00, 00, 00]
; [0b, 00, 00, 00]
; [0c, 00, 00, 00]
; [0d, 00, 00, 00]
; [0e, 00, 00, 00]
; [0f, 00, 00, 00]
; [10, 00, 00, 00]
; [20, 00, 00, 00]
; [30, 00, 00, 00]
; [40, 00, 00, 00]
; [00, 00, c0, 7f]
; [ff, ff, ff, 7f]
