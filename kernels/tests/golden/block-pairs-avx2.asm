; BlockDot(BlockDotCode { isa: Avx2, products: Pairs, rows: 2, vectors: 1, streams: 1, codes: Int4, zeros: Bytes, ahead: Far, short: true })
; part 0, 1504 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi+8]
000e mov rcx,[rdi]
0011 mov r10,[rdi+20h]
0015 vmovups ymm6,[rel 580h]
001e vmovups ymm7,[rel 5A0h]
0027 vmovups ymm11,[rel 5C0h]
0030 mov rbx,[rdi+48h]
0034 test rbx,rbx
0037 je near 0000000000000054h
003d vmovups ymm0,[rbx]
0042 add rbx,[rdi+50h]
0046 vmovups ymm1,[rbx]
004b add rbx,[rdi+50h]
004f jmp 000000000000005Eh
0054 vxorps ymm0,ymm0,ymm0
0059 vxorps ymm1,ymm1,ymm1
005e mov rdx,[rdi+10h]
0062 test r10,r10
0065 je near 00000000000002DBh
006b mov r11,[rdi+28h]
006f mov rax,rdx
0072 add rdx,28h
0076 vxorps ymm2,ymm2,ymm2
007b vxorps ymm3,ymm3,ymm3
0080 cmp r11,4
0084 jl near 00000000000001FEh
008a vxorps ymm9,ymm6,[rdx]
008f vandps ymm8,ymm9,ymm7
0094 vpbroadcastd ymm10,[rsi]
0099 vpmaddubsw ymm4,ymm8,ymm10
009e vpbroadcastd ymm10,[rsi+4]
00a4 vpmaddubsw ymm5,ymm8,ymm10
00a9 vpsrld ymm8,ymm9,4
00af vandps ymm8,ymm8,ymm7
00b4 vpbroadcastd ymm10,[rsi+8]
00ba vpmaddubsw ymm10,ymm8,ymm10
00bf vpaddw ymm4,ymm4,ymm10
00c4 vpbroadcastd ymm10,[rsi+0Ch]
00ca vpmaddubsw ymm10,ymm8,ymm10
00cf vpaddw ymm5,ymm5,ymm10
00d4 vxorps ymm9,ymm6,[rdx+20h]
00da vandps ymm8,ymm9,ymm7
00df vpbroadcastd ymm10,[rsi+10h]
00e5 vpmaddubsw ymm10,ymm8,ymm10
00ea vpaddw ymm4,ymm4,ymm10
00ef vpbroadcastd ymm10,[rsi+14h]
00f5 vpmaddubsw ymm10,ymm8,ymm10
00fa vpaddw ymm5,ymm5,ymm10
00ff vpsrld ymm8,ymm9,4
0105 vandps ymm8,ymm8,ymm7
010a vpbroadcastd ymm10,[rsi+18h]
0110 vpmaddubsw ymm10,ymm8,ymm10
0115 vpaddw ymm4,ymm4,ymm10
011a vpbroadcastd ymm10,[rsi+1Ch]
0120 vpmaddubsw ymm10,ymm8,ymm10
0125 vpaddw ymm5,ymm5,ymm10
012a vxorps ymm9,ymm6,[rdx+40h]
0130 vandps ymm8,ymm9,ymm7
0135 vpbroadcastd ymm10,[rsi+20h]
013b vpmaddubsw ymm10,ymm8,ymm10
0140 vpaddw ymm4,ymm4,ymm10
0145 vpbroadcastd ymm10,[rsi+24h]
014b vpmaddubsw ymm10,ymm8,ymm10
0150 vpaddw ymm5,ymm5,ymm10
0155 vpsrld ymm8,ymm9,4
015b vandps ymm8,ymm8,ymm7
0160 vpbroadcastd ymm10,[rsi+28h]
0166 vpmaddubsw ymm10,ymm8,ymm10
016b vpaddw ymm4,ymm4,ymm10
0170 vpbroadcastd ymm10,[rsi+2Ch]
0176 vpmaddubsw ymm10,ymm8,ymm10
017b vpaddw ymm5,ymm5,ymm10
0180 vxorps ymm9,ymm6,[rdx+60h]
0186 vandps ymm8,ymm9,ymm7
018b vpbroadcastd ymm10,[rsi+30h]
0191 vpmaddubsw ymm10,ymm8,ymm10
0196 vpaddw ymm4,ymm4,ymm10
019b vpbroadcastd ymm10,[rsi+34h]
01a1 vpmaddubsw ymm10,ymm8,ymm10
01a6 vpaddw ymm5,ymm5,ymm10
01ab vpsrld ymm8,ymm9,4
01b1 vandps ymm8,ymm8,ymm7
01b6 vpbroadcastd ymm10,[rsi+38h]
01bc vpmaddubsw ymm10,ymm8,ymm10
01c1 vpaddw ymm4,ymm4,ymm10
01c6 vpbroadcastd ymm10,[rsi+3Ch]
01cc vpmaddubsw ymm10,ymm8,ymm10
01d1 vpaddw ymm5,ymm5,ymm10
01d6 vpmaddwd ymm4,ymm4,ymm11
01db vpaddd ymm2,ymm2,ymm4
01e0 vpmaddwd ymm5,ymm5,ymm11
01e5 vpaddd ymm3,ymm3,ymm5
01ea add rsi,40h
01ee add rdx,80h
01f5 sub r11,4
01f9 jmp 0000000000000080h
01fe test r11,r11
0201 je near 000000000000027Ah
0207 vxorps ymm9,ymm6,[rdx]
020c vandps ymm8,ymm9,ymm7
0211 vpbroadcastd ymm10,[rsi]
0216 vpmaddubsw ymm4,ymm8,ymm10
021b vpbroadcastd ymm10,[rsi+4]
0221 vpmaddubsw ymm5,ymm8,ymm10
0226 vpsrld ymm8,ymm9,4
022c vandps ymm8,ymm8,ymm7
0231 vpbroadcastd ymm10,[rsi+8]
0237 vpmaddubsw ymm10,ymm8,ymm10
023c vpaddw ymm4,ymm4,ymm10
0241 vpbroadcastd ymm10,[rsi+0Ch]
0247 vpmaddubsw ymm10,ymm8,ymm10
024c vpaddw ymm5,ymm5,ymm10
0251 vpmaddwd ymm4,ymm4,ymm11
0256 vpaddd ymm2,ymm2,ymm4
025b vpmaddwd ymm5,ymm5,ymm11
0260 vpaddd ymm3,ymm3,ymm5
0265 add rsi,10h
0269 add rdx,20h
026d sub r11,1
0271 test r11,r11
0274 jne near 0000000000000207h
027a vcvtdq2ps ymm2,ymm2
027f vcvtdq2ps ymm3,ymm3
0284 vmovq xmm8,[rax+20h]
028b vpmovzxbd ymm8,xmm8
0290 vcvtdq2ps ymm8,ymm8
0295 vpbroadcastd ymm4,[rcx]
029a vfnmadd231ps ymm2,ymm8,ymm4
029f vpbroadcastd ymm5,[rcx+4]
02a5 vfnmadd231ps ymm3,ymm8,ymm5
02aa vpbroadcastd ymm4,[rcx+8]
02b0 vmulps ymm8,ymm4,[rax]
02b5 vfmadd231ps ymm0,ymm2,ymm8
02ba vpbroadcastd ymm5,[rcx+0Ch]
02c0 vmulps ymm8,ymm5,[rax]
02c5 vfmadd231ps ymm1,ymm3,ymm8
02ca add rcx,10h
02ce sub r10,1
02d2 test r10,r10
02d5 jne near 000000000000006Bh
02db mov r11,[rdi+30h]
02df test r11,r11
02e2 je near 000000000000054Eh
02e8 mov rax,rdx
02eb add rdx,28h
02ef vxorps ymm2,ymm2,ymm2
02f4 vxorps ymm3,ymm3,ymm3
02f9 nop dword [rax]
0300 cmp r11,4
0304 jl near 000000000000047Eh
030a vxorps ymm9,ymm6,[rdx]
030f vandps ymm8,ymm9,ymm7
0314 vpbroadcastd ymm10,[rsi]
0319 vpmaddubsw ymm4,ymm8,ymm10
031e vpbroadcastd ymm10,[rsi+4]
0324 vpmaddubsw ymm5,ymm8,ymm10
0329 vpsrld ymm8,ymm9,4
032f vandps ymm8,ymm8,ymm7
0334 vpbroadcastd ymm10,[rsi+8]
033a vpmaddubsw ymm10,ymm8,ymm10
033f vpaddw ymm4,ymm4,ymm10
0344 vpbroadcastd ymm10,[rsi+0Ch]
034a vpmaddubsw ymm10,ymm8,ymm10
034f vpaddw ymm5,ymm5,ymm10
0354 vxorps ymm9,ymm6,[rdx+20h]
035a vandps ymm8,ymm9,ymm7
035f vpbroadcastd ymm10,[rsi+10h]
0365 vpmaddubsw ymm10,ymm8,ymm10
036a vpaddw ymm4,ymm4,ymm10
036f vpbroadcastd ymm10,[rsi+14h]
0375 vpmaddubsw ymm10,ymm8,ymm10
037a vpaddw ymm5,ymm5,ymm10
037f vpsrld ymm8,ymm9,4
0385 vandps ymm8,ymm8,ymm7
038a vpbroadcastd ymm10,[rsi+18h]
0390 vpmaddubsw ymm10,ymm8,ymm10
0395 vpaddw ymm4,ymm4,ymm10
039a vpbroadcastd ymm10,[rsi+1Ch]
03a0 vpmaddubsw ymm10,ymm8,ymm10
03a5 vpaddw ymm5,ymm5,ymm10
03aa vxorps ymm9,ymm6,[rdx+40h]
03b0 vandps ymm8,ymm9,ymm7
03b5 vpbroadcastd ymm10,[rsi+20h]
03bb vpmaddubsw ymm10,ymm8,ymm10
03c0 vpaddw ymm4,ymm4,ymm10
03c5 vpbroadcastd ymm10,[rsi+24h]
03cb vpmaddubsw ymm10,ymm8,ymm10
03d0 vpaddw ymm5,ymm5,ymm10
03d5 vpsrld ymm8,ymm9,4
03db vandps ymm8,ymm8,ymm7
03e0 vpbroadcastd ymm10,[rsi+28h]
03e6 vpmaddubsw ymm10,ymm8,ymm10
03eb vpaddw ymm4,ymm4,ymm10
03f0 vpbroadcastd ymm10,[rsi+2Ch]
03f6 vpmaddubsw ymm10,ymm8,ymm10
03fb vpaddw ymm5,ymm5,ymm10
0400 vxorps ymm9,ymm6,[rdx+60h]
0406 vandps ymm8,ymm9,ymm7
040b vpbroadcastd ymm10,[rsi+30h]
0411 vpmaddubsw ymm10,ymm8,ymm10
0416 vpaddw ymm4,ymm4,ymm10
041b vpbroadcastd ymm10,[rsi+34h]
0421 vpmaddubsw ymm10,ymm8,ymm10
0426 vpaddw ymm5,ymm5,ymm10
042b vpsrld ymm8,ymm9,4
0431 vandps ymm8,ymm8,ymm7
0436 vpbroadcastd ymm10,[rsi+38h]
043c vpmaddubsw ymm10,ymm8,ymm10
0441 vpaddw ymm4,ymm4,ymm10
0446 vpbroadcastd ymm10,[rsi+3Ch]
044c vpmaddubsw ymm10,ymm8,ymm10
0451 vpaddw ymm5,ymm5,ymm10
0456 vpmaddwd ymm4,ymm4,ymm11
045b vpaddd ymm2,ymm2,ymm4
0460 vpmaddwd ymm5,ymm5,ymm11
0465 vpaddd ymm3,ymm3,ymm5
046a add rsi,40h
046e add rdx,80h
0475 sub r11,4
0479 jmp 0000000000000300h
047e test r11,r11
0481 je near 00000000000004FAh
0487 vxorps ymm9,ymm6,[rdx]
048c vandps ymm8,ymm9,ymm7
0491 vpbroadcastd ymm10,[rsi]
0496 vpmaddubsw ymm4,ymm8,ymm10
049b vpbroadcastd ymm10,[rsi+4]
04a1 vpmaddubsw ymm5,ymm8,ymm10
04a6 vpsrld ymm8,ymm9,4
04ac vandps ymm8,ymm8,ymm7
04b1 vpbroadcastd ymm10,[rsi+8]
04b7 vpmaddubsw ymm10,ymm8,ymm10
04bc vpaddw ymm4,ymm4,ymm10
04c1 vpbroadcastd ymm10,[rsi+0Ch]
04c7 vpmaddubsw ymm10,ymm8,ymm10
04cc vpaddw ymm5,ymm5,ymm10
04d1 vpmaddwd ymm4,ymm4,ymm11
04d6 vpaddd ymm2,ymm2,ymm4
04db vpmaddwd ymm5,ymm5,ymm11
04e0 vpaddd ymm3,ymm3,ymm5
04e5 add rsi,10h
04e9 add rdx,20h
04ed sub r11,1
04f1 test r11,r11
04f4 jne near 0000000000000487h
04fa vcvtdq2ps ymm2,ymm2
04ff vcvtdq2ps ymm3,ymm3
0504 vmovq xmm8,[rax+20h]
050b vpmovzxbd ymm8,xmm8
0510 vcvtdq2ps ymm8,ymm8
0515 vpbroadcastd ymm4,[rcx]
051a vfnmadd231ps ymm2,ymm8,ymm4
051f vpbroadcastd ymm5,[rcx+4]
0525 vfnmadd231ps ymm3,ymm8,ymm5
052a vpbroadcastd ymm4,[rcx+8]
0530 vmulps ymm8,ymm4,[rax]
0535 vfmadd231ps ymm0,ymm2,ymm8
053a vpbroadcastd ymm5,[rcx+0Ch]
0540 vmulps ymm8,ymm5,[rax]
0545 vfmadd231ps ymm1,ymm3,ymm8
054a add rcx,10h
054e mov rbx,[rdi+38h]
0552 vmovups [rbx],ymm0
0557 add rbx,[rdi+40h]
055b vmovups [rbx],ymm1
0560 add rbx,[rdi+40h]
0564 pop r15
0566 pop r14
0568 pop r13
056a pop r12
056c pop rbp
056d pop rbx
056e vzeroupper
0571 ret
0572 nop word [rax+rax]
057b nop dword [rax+rax]
; [88, 88, 88, 88]
; [88, 88, 88, 88]
; [88, 88, 88, 88]
; [88, 88, 88, 88]
; [88, 88, 88, 88]
; [88, 88, 88, 88]
; [88, 88, 88, 88]
; [88, 88, 88, 88]
; [0f, 0f, 0f, 0f]
; [0f, 0f, 0f, 0f]
; [0f, 0f, 0f, 0f]
; [0f, 0f, 0f, 0f]
; [0f, 0f, 0f, 0f]
; [0f, 0f, 0f, 0f]
; [0f, 0f, 0f, 0f]
; [0f, 0f, 0f, 0f]
; [01, 00, 01, 00]
; [01, 00, 01, 00]
; [01, 00, 01, 00]
; [01, 00, 01, 00]
; [01, 00, 01, 00]
; [01, 00, 01, 00]
; [01, 00, 01, 00]
; [01, 00, 01, 00]
