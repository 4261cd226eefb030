; BlockDot(BlockDotCode { isa: Avx2, products: Pairs, rows: 2, vectors: 1, streams: 1, codes: Int4, zeros: Bytes, ahead: Far })
; part 0, 1568 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a vmovups ymm6,[rel 5C0h]
0013 vmovups ymm7,[rel 5E0h]
001c vmovups ymm11,[rel 600h]
0025 mov rsi,[rdi+8]
0029 mov rcx,[rdi]
002c mov rdx,[rdi+10h]
0030 mov r8,[rdi+18h]
0034 lea r9,[r8+r8*2]
0038 mov r10,[rdi+20h]
003c mov rbx,[rdi+48h]
0040 test rbx,rbx
0043 je near 0000000000000060h
0049 vmovups ymm0,[rbx]
004e add rbx,[rdi+50h]
0052 vmovups ymm1,[rbx]
0057 add rbx,[rdi+50h]
005b jmp 000000000000006Ah
0060 vxorps ymm0,ymm0,ymm0
0065 vxorps ymm1,ymm1,ymm1
006a test r10,r10
006d je near 00000000000002FBh
0073 mov r11,[rdi+28h]
0077 mov rax,rdx
007a add rdx,28h
007e vxorps ymm2,ymm2,ymm2
0083 vxorps ymm3,ymm3,ymm3
0088 nop word [rax+rax]
0091 nop word [rax+rax]
009a nop word [rax+rax]
00a0 cmp r11,4
00a4 jl near 000000000000021Eh
00aa vxorps ymm9,ymm6,[rdx]
00af vandps ymm8,ymm9,ymm7
00b4 vpbroadcastd ymm10,[rsi]
00b9 vpmaddubsw ymm4,ymm8,ymm10
00be vpbroadcastd ymm10,[rsi+4]
00c4 vpmaddubsw ymm5,ymm8,ymm10
00c9 vpsrld ymm8,ymm9,4
00cf vandps ymm8,ymm8,ymm7
00d4 vpbroadcastd ymm10,[rsi+8]
00da vpmaddubsw ymm10,ymm8,ymm10
00df vpaddw ymm4,ymm4,ymm10
00e4 vpbroadcastd ymm10,[rsi+0Ch]
00ea vpmaddubsw ymm10,ymm8,ymm10
00ef vpaddw ymm5,ymm5,ymm10
00f4 vxorps ymm9,ymm6,[rdx+20h]
00fa vandps ymm8,ymm9,ymm7
00ff vpbroadcastd ymm10,[rsi+10h]
0105 vpmaddubsw ymm10,ymm8,ymm10
010a vpaddw ymm4,ymm4,ymm10
010f vpbroadcastd ymm10,[rsi+14h]
0115 vpmaddubsw ymm10,ymm8,ymm10
011a vpaddw ymm5,ymm5,ymm10
011f vpsrld ymm8,ymm9,4
0125 vandps ymm8,ymm8,ymm7
012a vpbroadcastd ymm10,[rsi+18h]
0130 vpmaddubsw ymm10,ymm8,ymm10
0135 vpaddw ymm4,ymm4,ymm10
013a vpbroadcastd ymm10,[rsi+1Ch]
0140 vpmaddubsw ymm10,ymm8,ymm10
0145 vpaddw ymm5,ymm5,ymm10
014a vxorps ymm9,ymm6,[rdx+40h]
0150 vandps ymm8,ymm9,ymm7
0155 vpbroadcastd ymm10,[rsi+20h]
015b vpmaddubsw ymm10,ymm8,ymm10
0160 vpaddw ymm4,ymm4,ymm10
0165 vpbroadcastd ymm10,[rsi+24h]
016b vpmaddubsw ymm10,ymm8,ymm10
0170 vpaddw ymm5,ymm5,ymm10
0175 vpsrld ymm8,ymm9,4
017b vandps ymm8,ymm8,ymm7
0180 vpbroadcastd ymm10,[rsi+28h]
0186 vpmaddubsw ymm10,ymm8,ymm10
018b vpaddw ymm4,ymm4,ymm10
0190 vpbroadcastd ymm10,[rsi+2Ch]
0196 vpmaddubsw ymm10,ymm8,ymm10
019b vpaddw ymm5,ymm5,ymm10
01a0 vxorps ymm9,ymm6,[rdx+60h]
01a6 vandps ymm8,ymm9,ymm7
01ab vpbroadcastd ymm10,[rsi+30h]
01b1 vpmaddubsw ymm10,ymm8,ymm10
01b6 vpaddw ymm4,ymm4,ymm10
01bb vpbroadcastd ymm10,[rsi+34h]
01c1 vpmaddubsw ymm10,ymm8,ymm10
01c6 vpaddw ymm5,ymm5,ymm10
01cb vpsrld ymm8,ymm9,4
01d1 vandps ymm8,ymm8,ymm7
01d6 vpbroadcastd ymm10,[rsi+38h]
01dc vpmaddubsw ymm10,ymm8,ymm10
01e1 vpaddw ymm4,ymm4,ymm10
01e6 vpbroadcastd ymm10,[rsi+3Ch]
01ec vpmaddubsw ymm10,ymm8,ymm10
01f1 vpaddw ymm5,ymm5,ymm10
01f6 vpmaddwd ymm4,ymm4,ymm11
01fb vpaddd ymm2,ymm2,ymm4
0200 vpmaddwd ymm5,ymm5,ymm11
0205 vpaddd ymm3,ymm3,ymm5
020a add rsi,40h
020e add rdx,80h
0215 sub r11,4
0219 jmp 00000000000000A0h
021e test r11,r11
0221 je near 000000000000029Ah
0227 vxorps ymm9,ymm6,[rdx]
022c vandps ymm8,ymm9,ymm7
0231 vpbroadcastd ymm10,[rsi]
0236 vpmaddubsw ymm4,ymm8,ymm10
023b vpbroadcastd ymm10,[rsi+4]
0241 vpmaddubsw ymm5,ymm8,ymm10
0246 vpsrld ymm8,ymm9,4
024c vandps ymm8,ymm8,ymm7
0251 vpbroadcastd ymm10,[rsi+8]
0257 vpmaddubsw ymm10,ymm8,ymm10
025c vpaddw ymm4,ymm4,ymm10
0261 vpbroadcastd ymm10,[rsi+0Ch]
0267 vpmaddubsw ymm10,ymm8,ymm10
026c vpaddw ymm5,ymm5,ymm10
0271 vpmaddwd ymm4,ymm4,ymm11
0276 vpaddd ymm2,ymm2,ymm4
027b vpmaddwd ymm5,ymm5,ymm11
0280 vpaddd ymm3,ymm3,ymm5
0285 add rsi,10h
0289 add rdx,20h
028d sub r11,1
0291 test r11,r11
0294 jne near 0000000000000227h
029a vcvtdq2ps ymm2,ymm2
029f vcvtdq2ps ymm3,ymm3
02a4 vmovq xmm8,[rax+20h]
02ab vpmovzxbd ymm8,xmm8
02b0 vcvtdq2ps ymm8,ymm8
02b5 vpbroadcastd ymm4,[rcx]
02ba vfnmadd231ps ymm2,ymm8,ymm4
02bf vpbroadcastd ymm5,[rcx+4]
02c5 vfnmadd231ps ymm3,ymm8,ymm5
02ca vpbroadcastd ymm4,[rcx+8]
02d0 vmulps ymm8,ymm4,[rax]
02d5 vfmadd231ps ymm0,ymm2,ymm8
02da vpbroadcastd ymm5,[rcx+0Ch]
02e0 vmulps ymm8,ymm5,[rax]
02e5 vfmadd231ps ymm1,ymm3,ymm8
02ea add rcx,10h
02ee sub r10,1
02f2 test r10,r10
02f5 jne near 0000000000000073h
02fb mov r11,[rdi+30h]
02ff test r11,r11
0302 je near 000000000000056Eh
0308 mov rax,rdx
030b add rdx,28h
030f vxorps ymm2,ymm2,ymm2
0314 vxorps ymm3,ymm3,ymm3
0319 nop dword [rax]
0320 cmp r11,4
0324 jl near 000000000000049Eh
032a vxorps ymm9,ymm6,[rdx]
032f vandps ymm8,ymm9,ymm7
0334 vpbroadcastd ymm10,[rsi]
0339 vpmaddubsw ymm4,ymm8,ymm10
033e vpbroadcastd ymm10,[rsi+4]
0344 vpmaddubsw ymm5,ymm8,ymm10
0349 vpsrld ymm8,ymm9,4
034f vandps ymm8,ymm8,ymm7
0354 vpbroadcastd ymm10,[rsi+8]
035a vpmaddubsw ymm10,ymm8,ymm10
035f vpaddw ymm4,ymm4,ymm10
0364 vpbroadcastd ymm10,[rsi+0Ch]
036a vpmaddubsw ymm10,ymm8,ymm10
036f vpaddw ymm5,ymm5,ymm10
0374 vxorps ymm9,ymm6,[rdx+20h]
037a vandps ymm8,ymm9,ymm7
037f vpbroadcastd ymm10,[rsi+10h]
0385 vpmaddubsw ymm10,ymm8,ymm10
038a vpaddw ymm4,ymm4,ymm10
038f vpbroadcastd ymm10,[rsi+14h]
0395 vpmaddubsw ymm10,ymm8,ymm10
039a vpaddw ymm5,ymm5,ymm10
039f vpsrld ymm8,ymm9,4
03a5 vandps ymm8,ymm8,ymm7
03aa vpbroadcastd ymm10,[rsi+18h]
03b0 vpmaddubsw ymm10,ymm8,ymm10
03b5 vpaddw ymm4,ymm4,ymm10
03ba vpbroadcastd ymm10,[rsi+1Ch]
03c0 vpmaddubsw ymm10,ymm8,ymm10
03c5 vpaddw ymm5,ymm5,ymm10
03ca vxorps ymm9,ymm6,[rdx+40h]
03d0 vandps ymm8,ymm9,ymm7
03d5 vpbroadcastd ymm10,[rsi+20h]
03db vpmaddubsw ymm10,ymm8,ymm10
03e0 vpaddw ymm4,ymm4,ymm10
03e5 vpbroadcastd ymm10,[rsi+24h]
03eb vpmaddubsw ymm10,ymm8,ymm10
03f0 vpaddw ymm5,ymm5,ymm10
03f5 vpsrld ymm8,ymm9,4
03fb vandps ymm8,ymm8,ymm7
0400 vpbroadcastd ymm10,[rsi+28h]
0406 vpmaddubsw ymm10,ymm8,ymm10
040b vpaddw ymm4,ymm4,ymm10
0410 vpbroadcastd ymm10,[rsi+2Ch]
0416 vpmaddubsw ymm10,ymm8,ymm10
041b vpaddw ymm5,ymm5,ymm10
0420 vxorps ymm9,ymm6,[rdx+60h]
0426 vandps ymm8,ymm9,ymm7
042b vpbroadcastd ymm10,[rsi+30h]
0431 vpmaddubsw ymm10,ymm8,ymm10
0436 vpaddw ymm4,ymm4,ymm10
043b vpbroadcastd ymm10,[rsi+34h]
0441 vpmaddubsw ymm10,ymm8,ymm10
0446 vpaddw ymm5,ymm5,ymm10
044b vpsrld ymm8,ymm9,4
0451 vandps ymm8,ymm8,ymm7
0456 vpbroadcastd ymm10,[rsi+38h]
045c vpmaddubsw ymm10,ymm8,ymm10
0461 vpaddw ymm4,ymm4,ymm10
0466 vpbroadcastd ymm10,[rsi+3Ch]
046c vpmaddubsw ymm10,ymm8,ymm10
0471 vpaddw ymm5,ymm5,ymm10
0476 vpmaddwd ymm4,ymm4,ymm11
047b vpaddd ymm2,ymm2,ymm4
0480 vpmaddwd ymm5,ymm5,ymm11
0485 vpaddd ymm3,ymm3,ymm5
048a add rsi,40h
048e add rdx,80h
0495 sub r11,4
0499 jmp 0000000000000320h
049e test r11,r11
04a1 je near 000000000000051Ah
04a7 vxorps ymm9,ymm6,[rdx]
04ac vandps ymm8,ymm9,ymm7
04b1 vpbroadcastd ymm10,[rsi]
04b6 vpmaddubsw ymm4,ymm8,ymm10
04bb vpbroadcastd ymm10,[rsi+4]
04c1 vpmaddubsw ymm5,ymm8,ymm10
04c6 vpsrld ymm8,ymm9,4
04cc vandps ymm8,ymm8,ymm7
04d1 vpbroadcastd ymm10,[rsi+8]
04d7 vpmaddubsw ymm10,ymm8,ymm10
04dc vpaddw ymm4,ymm4,ymm10
04e1 vpbroadcastd ymm10,[rsi+0Ch]
04e7 vpmaddubsw ymm10,ymm8,ymm10
04ec vpaddw ymm5,ymm5,ymm10
04f1 vpmaddwd ymm4,ymm4,ymm11
04f6 vpaddd ymm2,ymm2,ymm4
04fb vpmaddwd ymm5,ymm5,ymm11
0500 vpaddd ymm3,ymm3,ymm5
0505 add rsi,10h
0509 add rdx,20h
050d sub r11,1
0511 test r11,r11
0514 jne near 00000000000004A7h
051a vcvtdq2ps ymm2,ymm2
051f vcvtdq2ps ymm3,ymm3
0524 vmovq xmm8,[rax+20h]
052b vpmovzxbd ymm8,xmm8
0530 vcvtdq2ps ymm8,ymm8
0535 vpbroadcastd ymm4,[rcx]
053a vfnmadd231ps ymm2,ymm8,ymm4
053f vpbroadcastd ymm5,[rcx+4]
0545 vfnmadd231ps ymm3,ymm8,ymm5
054a vpbroadcastd ymm4,[rcx+8]
0550 vmulps ymm8,ymm4,[rax]
0555 vfmadd231ps ymm0,ymm2,ymm8
055a vpbroadcastd ymm5,[rcx+0Ch]
0560 vmulps ymm8,ymm5,[rax]
0565 vfmadd231ps ymm1,ymm3,ymm8
056a add rcx,10h
056e mov rbx,[rdi+38h]
0572 vmovups [rbx],ymm0
0577 add rbx,[rdi+40h]
057b vmovups [rbx],ymm1
0580 add rbx,[rdi+40h]
0584 pop r15
0586 pop r14
0588 pop r13
058a pop r12
058c pop rbp
058d pop rbx
058e vzeroupper
0591 ret
0592 nop word [rax+rax]
059b nop word [rax+rax]
05a4 nop word [rax+rax]
05ad nop word [rax+rax]
05b6 nop word [rax+rax]
05bf nop
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
