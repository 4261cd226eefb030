; BlockDot(BlockDotCode { isa: Avx2, products: Pairs, rows: 2, vectors: 1, streams: 1, codes: Int8, zeros: Middle, ahead: Far, short: true })
; part 0, 1344 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi+8]
000e mov rcx,[rdi]
0011 mov r10,[rdi+20h]
0015 vmovups ymm6,[rel 500h]
001e vmovups ymm7,[rel 520h]
0027 mov rbx,[rdi+48h]
002b test rbx,rbx
002e je near 000000000000004Bh
0034 vmovups ymm0,[rbx]
0039 add rbx,[rdi+50h]
003d vmovups ymm1,[rbx]
0042 add rbx,[rdi+50h]
0046 jmp 0000000000000055h
004b vxorps ymm0,ymm0,ymm0
0050 vxorps ymm1,ymm1,ymm1
0055 mov rdx,[rdi+10h]
0059 test r10,r10
005c je near 00000000000002A1h
0062 mov r11,[rdi+28h]
0066 mov rax,rdx
0069 add rdx,20h
006d vpbroadcastd ymm2,[rcx]
0072 vpbroadcastd ymm3,[rcx+4]
0078 nop dword [rax+rax]
0080 cmp r11,4
0084 jl near 00000000000001F4h
008a vxorps ymm9,ymm6,[rdx]
008f vandps ymm8,ymm9,ymm7
0094 vpbroadcastd ymm10,[rsi]
0099 vpmaddwd ymm10,ymm8,ymm10
009e vpaddd ymm2,ymm2,ymm10
00a3 vpbroadcastd ymm10,[rsi+4]
00a9 vpmaddwd ymm10,ymm8,ymm10
00ae vpaddd ymm3,ymm3,ymm10
00b3 vpsrld ymm8,ymm9,8
00b9 vandps ymm8,ymm8,ymm7
00be vpbroadcastd ymm10,[rsi+8]
00c4 vpmaddwd ymm10,ymm8,ymm10
00c9 vpaddd ymm2,ymm2,ymm10
00ce vpbroadcastd ymm10,[rsi+0Ch]
00d4 vpmaddwd ymm10,ymm8,ymm10
00d9 vpaddd ymm3,ymm3,ymm10
00de vxorps ymm9,ymm6,[rdx+20h]
00e4 vandps ymm8,ymm9,ymm7
00e9 vpbroadcastd ymm10,[rsi+10h]
00ef vpmaddwd ymm10,ymm8,ymm10
00f4 vpaddd ymm2,ymm2,ymm10
00f9 vpbroadcastd ymm10,[rsi+14h]
00ff vpmaddwd ymm10,ymm8,ymm10
0104 vpaddd ymm3,ymm3,ymm10
0109 vpsrld ymm8,ymm9,8
010f vandps ymm8,ymm8,ymm7
0114 vpbroadcastd ymm10,[rsi+18h]
011a vpmaddwd ymm10,ymm8,ymm10
011f vpaddd ymm2,ymm2,ymm10
0124 vpbroadcastd ymm10,[rsi+1Ch]
012a vpmaddwd ymm10,ymm8,ymm10
012f vpaddd ymm3,ymm3,ymm10
0134 vxorps ymm9,ymm6,[rdx+40h]
013a vandps ymm8,ymm9,ymm7
013f vpbroadcastd ymm10,[rsi+20h]
0145 vpmaddwd ymm10,ymm8,ymm10
014a vpaddd ymm2,ymm2,ymm10
014f vpbroadcastd ymm10,[rsi+24h]
0155 vpmaddwd ymm10,ymm8,ymm10
015a vpaddd ymm3,ymm3,ymm10
015f vpsrld ymm8,ymm9,8
0165 vandps ymm8,ymm8,ymm7
016a vpbroadcastd ymm10,[rsi+28h]
0170 vpmaddwd ymm10,ymm8,ymm10
0175 vpaddd ymm2,ymm2,ymm10
017a vpbroadcastd ymm10,[rsi+2Ch]
0180 vpmaddwd ymm10,ymm8,ymm10
0185 vpaddd ymm3,ymm3,ymm10
018a vxorps ymm9,ymm6,[rdx+60h]
0190 vandps ymm8,ymm9,ymm7
0195 vpbroadcastd ymm10,[rsi+30h]
019b vpmaddwd ymm10,ymm8,ymm10
01a0 vpaddd ymm2,ymm2,ymm10
01a5 vpbroadcastd ymm10,[rsi+34h]
01ab vpmaddwd ymm10,ymm8,ymm10
01b0 vpaddd ymm3,ymm3,ymm10
01b5 vpsrld ymm8,ymm9,8
01bb vandps ymm8,ymm8,ymm7
01c0 vpbroadcastd ymm10,[rsi+38h]
01c6 vpmaddwd ymm10,ymm8,ymm10
01cb vpaddd ymm2,ymm2,ymm10
01d0 vpbroadcastd ymm10,[rsi+3Ch]
01d6 vpmaddwd ymm10,ymm8,ymm10
01db vpaddd ymm3,ymm3,ymm10
01e0 add rsi,40h
01e4 add rdx,80h
01eb sub r11,4
01ef jmp 0000000000000080h
01f4 test r11,r11
01f7 je near 0000000000000266h
01fd vxorps ymm9,ymm6,[rdx]
0202 vandps ymm8,ymm9,ymm7
0207 vpbroadcastd ymm10,[rsi]
020c vpmaddwd ymm10,ymm8,ymm10
0211 vpaddd ymm2,ymm2,ymm10
0216 vpbroadcastd ymm10,[rsi+4]
021c vpmaddwd ymm10,ymm8,ymm10
0221 vpaddd ymm3,ymm3,ymm10
0226 vpsrld ymm8,ymm9,8
022c vandps ymm8,ymm8,ymm7
0231 vpbroadcastd ymm10,[rsi+8]
0237 vpmaddwd ymm10,ymm8,ymm10
023c vpaddd ymm2,ymm2,ymm10
0241 vpbroadcastd ymm10,[rsi+0Ch]
0247 vpmaddwd ymm10,ymm8,ymm10
024c vpaddd ymm3,ymm3,ymm10
0251 add rsi,10h
0255 add rdx,20h
0259 sub r11,1
025d test r11,r11
0260 jne near 00000000000001FDh
0266 vcvtdq2ps ymm2,ymm2
026b vcvtdq2ps ymm3,ymm3
0270 vpbroadcastd ymm4,[rcx+8]
0276 vmulps ymm8,ymm4,[rax]
027b vfmadd231ps ymm0,ymm2,ymm8
0280 vpbroadcastd ymm5,[rcx+0Ch]
0286 vmulps ymm8,ymm5,[rax]
028b vfmadd231ps ymm1,ymm3,ymm8
0290 add rcx,10h
0294 sub r10,1
0298 test r10,r10
029b jne near 0000000000000062h
02a1 mov r11,[rdi+30h]
02a5 test r11,r11
02a8 je near 00000000000004D4h
02ae mov rax,rdx
02b1 add rdx,20h
02b5 vpbroadcastd ymm2,[rcx]
02ba vpbroadcastd ymm3,[rcx+4]
02c0 cmp r11,4
02c4 jl near 0000000000000434h
02ca vxorps ymm9,ymm6,[rdx]
02cf vandps ymm8,ymm9,ymm7
02d4 vpbroadcastd ymm10,[rsi]
02d9 vpmaddwd ymm10,ymm8,ymm10
02de vpaddd ymm2,ymm2,ymm10
02e3 vpbroadcastd ymm10,[rsi+4]
02e9 vpmaddwd ymm10,ymm8,ymm10
02ee vpaddd ymm3,ymm3,ymm10
02f3 vpsrld ymm8,ymm9,8
02f9 vandps ymm8,ymm8,ymm7
02fe vpbroadcastd ymm10,[rsi+8]
0304 vpmaddwd ymm10,ymm8,ymm10
0309 vpaddd ymm2,ymm2,ymm10
030e vpbroadcastd ymm10,[rsi+0Ch]
0314 vpmaddwd ymm10,ymm8,ymm10
0319 vpaddd ymm3,ymm3,ymm10
031e vxorps ymm9,ymm6,[rdx+20h]
0324 vandps ymm8,ymm9,ymm7
0329 vpbroadcastd ymm10,[rsi+10h]
032f vpmaddwd ymm10,ymm8,ymm10
0334 vpaddd ymm2,ymm2,ymm10
0339 vpbroadcastd ymm10,[rsi+14h]
033f vpmaddwd ymm10,ymm8,ymm10
0344 vpaddd ymm3,ymm3,ymm10
0349 vpsrld ymm8,ymm9,8
034f vandps ymm8,ymm8,ymm7
0354 vpbroadcastd ymm10,[rsi+18h]
035a vpmaddwd ymm10,ymm8,ymm10
035f vpaddd ymm2,ymm2,ymm10
0364 vpbroadcastd ymm10,[rsi+1Ch]
036a vpmaddwd ymm10,ymm8,ymm10
036f vpaddd ymm3,ymm3,ymm10
0374 vxorps ymm9,ymm6,[rdx+40h]
037a vandps ymm8,ymm9,ymm7
037f vpbroadcastd ymm10,[rsi+20h]
0385 vpmaddwd ymm10,ymm8,ymm10
038a vpaddd ymm2,ymm2,ymm10
038f vpbroadcastd ymm10,[rsi+24h]
0395 vpmaddwd ymm10,ymm8,ymm10
039a vpaddd ymm3,ymm3,ymm10
039f vpsrld ymm8,ymm9,8
03a5 vandps ymm8,ymm8,ymm7
03aa vpbroadcastd ymm10,[rsi+28h]
03b0 vpmaddwd ymm10,ymm8,ymm10
03b5 vpaddd ymm2,ymm2,ymm10
03ba vpbroadcastd ymm10,[rsi+2Ch]
03c0 vpmaddwd ymm10,ymm8,ymm10
03c5 vpaddd ymm3,ymm3,ymm10
03ca vxorps ymm9,ymm6,[rdx+60h]
03d0 vandps ymm8,ymm9,ymm7
03d5 vpbroadcastd ymm10,[rsi+30h]
03db vpmaddwd ymm10,ymm8,ymm10
03e0 vpaddd ymm2,ymm2,ymm10
03e5 vpbroadcastd ymm10,[rsi+34h]
03eb vpmaddwd ymm10,ymm8,ymm10
03f0 vpaddd ymm3,ymm3,ymm10
03f5 vpsrld ymm8,ymm9,8
03fb vandps ymm8,ymm8,ymm7
0400 vpbroadcastd ymm10,[rsi+38h]
0406 vpmaddwd ymm10,ymm8,ymm10
040b vpaddd ymm2,ymm2,ymm10
0410 vpbroadcastd ymm10,[rsi+3Ch]
0416 vpmaddwd ymm10,ymm8,ymm10
041b vpaddd ymm3,ymm3,ymm10
0420 add rsi,40h
0424 add rdx,80h
042b sub r11,4
042f jmp 00000000000002C0h
0434 test r11,r11
0437 je near 00000000000004A6h
043d vxorps ymm9,ymm6,[rdx]
0442 vandps ymm8,ymm9,ymm7
0447 vpbroadcastd ymm10,[rsi]
044c vpmaddwd ymm10,ymm8,ymm10
0451 vpaddd ymm2,ymm2,ymm10
0456 vpbroadcastd ymm10,[rsi+4]
045c vpmaddwd ymm10,ymm8,ymm10
0461 vpaddd ymm3,ymm3,ymm10
0466 vpsrld ymm8,ymm9,8
046c vandps ymm8,ymm8,ymm7
0471 vpbroadcastd ymm10,[rsi+8]
0477 vpmaddwd ymm10,ymm8,ymm10
047c vpaddd ymm2,ymm2,ymm10
0481 vpbroadcastd ymm10,[rsi+0Ch]
0487 vpmaddwd ymm10,ymm8,ymm10
048c vpaddd ymm3,ymm3,ymm10
0491 add rsi,10h
0495 add rdx,20h
0499 sub r11,1
049d test r11,r11
04a0 jne near 000000000000043Dh
04a6 vcvtdq2ps ymm2,ymm2
04ab vcvtdq2ps ymm3,ymm3
04b0 vpbroadcastd ymm4,[rcx+8]
04b6 vmulps ymm8,ymm4,[rax]
04bb vfmadd231ps ymm0,ymm2,ymm8
04c0 vpbroadcastd ymm5,[rcx+0Ch]
04c6 vmulps ymm8,ymm5,[rax]
04cb vfmadd231ps ymm1,ymm3,ymm8
04d0 add rcx,10h
04d4 mov rbx,[rdi+38h]
04d8 vmovups [rbx],ymm0
04dd add rbx,[rdi+40h]
04e1 vmovups [rbx],ymm1
04e6 add rbx,[rdi+40h]
04ea pop r15
04ec pop r14
04ee pop r13
04f0 pop r12
04f2 pop rbp
04f3 pop rbx
04f4 vzeroupper
04f7 ret
04f8 nop dword [rax+rax]
; [80, 80, 80, 80]
; [80, 80, 80, 80]
; [80, 80, 80, 80]
; [80, 80, 80, 80]
; [80, 80, 80, 80]
; [80, 80, 80, 80]
; [80, 80, 80, 80]
; [80, 80, 80, 80]
; [ff, 00, ff, 00]
; [ff, 00, ff, 00]
; [ff, 00, ff, 00]
; [ff, 00, ff, 00]
; [ff, 00, ff, 00]
; [ff, 00, ff, 00]
; [ff, 00, ff, 00]
; [ff, 00, ff, 00]
