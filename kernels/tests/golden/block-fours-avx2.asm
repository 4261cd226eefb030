; BlockDot(BlockDotCode { isa: Avx2, products: Fours, rows: 2, vectors: 1, slice: 1, streams: 2, codes: Int4, zeros: Bytes })
; part 0, 960 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a vmovups ymm10,[rel 380h]
0013 vmovups ymm11,[rel 3A0h]
001c mov rsi,[rdi+8]
0020 mov rcx,[rdi]
0023 mov rdx,[rdi+10h]
0027 mov r8,[rdi+18h]
002b lea r9,[r8+r8*2]
002f mov r10,[rdi+28h]
0033 mov rbx,[rdi+50h]
0037 test rbx,rbx
003a je near 0000000000000063h
0040 vmovups ymm0,[rbx]
0045 vmovups ymm1,[rbx+20h]
004b add rbx,[rdi+58h]
004f vmovups ymm2,[rbx]
0054 vmovups ymm3,[rbx+20h]
005a add rbx,[rdi+58h]
005e jmp 0000000000000077h
0063 vxorps ymm0,ymm0,ymm0
0068 vxorps ymm1,ymm1,ymm1
006d vxorps ymm2,ymm2,ymm2
0072 vxorps ymm3,ymm3,ymm3
0077 test r10,r10
007a je near 00000000000001C6h
0080 mov r11,[rdi+30h]
0084 mov rax,rdx
0087 add rdx,28h
008b vxorps ymm4,ymm4,ymm4
0090 vxorps ymm5,ymm5,ymm5
0095 vxorps ymm6,ymm6,ymm6
009a vxorps ymm7,ymm7,ymm7
009f nop
00a0 vxorps ymm13,ymm10,[rdx]
00a5 vxorps ymm14,ymm10,[rdx+r8]
00ab vpbroadcastd ymm8,[rsi]
00b0 vpbroadcastd ymm9,[rsi+4]
00b6 vandps ymm12,ymm13,ymm11
00bb vpdpbusd ymm4,ymm12,ymm8
00c0 vpdpbusd ymm6,ymm12,ymm9
00c5 vandps ymm12,ymm14,ymm11
00ca vpdpbusd ymm5,ymm12,ymm8
00cf vpdpbusd ymm7,ymm12,ymm9
00d4 vpbroadcastd ymm8,[rsi+8]
00da vpbroadcastd ymm9,[rsi+0Ch]
00e0 vpsrld ymm12,ymm13,4
00e6 vandps ymm12,ymm12,ymm11
00eb vpdpbusd ymm4,ymm12,ymm8
00f0 vpdpbusd ymm6,ymm12,ymm9
00f5 vpsrld ymm12,ymm14,4
00fb vandps ymm12,ymm12,ymm11
0100 vpdpbusd ymm5,ymm12,ymm8
0105 vpdpbusd ymm7,ymm12,ymm9
010a add rsi,10h
010e add rdx,20h
0112 sub r11,1
0116 test r11,r11
0119 jne near 00000000000000A0h
011f vcvtdq2ps ymm4,ymm4
0124 vcvtdq2ps ymm5,ymm5
0129 vcvtdq2ps ymm6,ymm6
012e vcvtdq2ps ymm7,ymm7
0133 vmovq xmm12,[rax+20h]
013a vpmovzxbd ymm12,xmm12
013f vcvtdq2ps ymm12,ymm12
0144 vpbroadcastd ymm8,[rcx]
0149 vfnmadd231ps ymm4,ymm12,ymm8
014e vpbroadcastd ymm9,[rcx+4]
0154 vfnmadd231ps ymm6,ymm12,ymm9
0159 vmovq xmm12,[rax+r8+20h]
0160 vpmovzxbd ymm12,xmm12
0165 vcvtdq2ps ymm12,ymm12
016a vpbroadcastd ymm8,[rcx]
016f vfnmadd231ps ymm5,ymm12,ymm8
0174 vpbroadcastd ymm9,[rcx+4]
017a vfnmadd231ps ymm7,ymm12,ymm9
017f vpbroadcastd ymm8,[rcx+8]
0185 vmulps ymm12,ymm8,[rax]
018a vfmadd231ps ymm0,ymm4,ymm12
018f vmulps ymm12,ymm8,[rax+r8]
0195 vfmadd231ps ymm1,ymm5,ymm12
019a vpbroadcastd ymm9,[rcx+0Ch]
01a0 vmulps ymm12,ymm9,[rax]
01a5 vfmadd231ps ymm2,ymm6,ymm12
01aa vmulps ymm12,ymm9,[rax+r8]
01b0 vfmadd231ps ymm3,ymm7,ymm12
01b5 add rcx,10h
01b9 sub r10,1
01bd test r10,r10
01c0 jne near 0000000000000080h
01c6 mov r11,[rdi+38h]
01ca test r11,r11
01cd je near 0000000000000319h
01d3 mov rax,rdx
01d6 add rdx,28h
01da vxorps ymm4,ymm4,ymm4
01df vxorps ymm5,ymm5,ymm5
01e4 vxorps ymm6,ymm6,ymm6
01e9 vxorps ymm7,ymm7,ymm7
01ee nop word [rax+rax]
01f7 nop word [rax+rax]
0200 vxorps ymm13,ymm10,[rdx]
0205 vxorps ymm14,ymm10,[rdx+r8]
020b vpbroadcastd ymm8,[rsi]
0210 vpbroadcastd ymm9,[rsi+4]
0216 vandps ymm12,ymm13,ymm11
021b vpdpbusd ymm4,ymm12,ymm8
0220 vpdpbusd ymm6,ymm12,ymm9
0225 vandps ymm12,ymm14,ymm11
022a vpdpbusd ymm5,ymm12,ymm8
022f vpdpbusd ymm7,ymm12,ymm9
0234 vpbroadcastd ymm8,[rsi+8]
023a vpbroadcastd ymm9,[rsi+0Ch]
0240 vpsrld ymm12,ymm13,4
0246 vandps ymm12,ymm12,ymm11
024b vpdpbusd ymm4,ymm12,ymm8
0250 vpdpbusd ymm6,ymm12,ymm9
0255 vpsrld ymm12,ymm14,4
025b vandps ymm12,ymm12,ymm11
0260 vpdpbusd ymm5,ymm12,ymm8
0265 vpdpbusd ymm7,ymm12,ymm9
026a add rsi,10h
026e add rdx,20h
0272 sub r11,1
0276 test r11,r11
0279 jne near 0000000000000200h
027f vcvtdq2ps ymm4,ymm4
0284 vcvtdq2ps ymm5,ymm5
0289 vcvtdq2ps ymm6,ymm6
028e vcvtdq2ps ymm7,ymm7
0293 vmovq xmm12,[rax+20h]
029a vpmovzxbd ymm12,xmm12
029f vcvtdq2ps ymm12,ymm12
02a4 vpbroadcastd ymm8,[rcx]
02a9 vfnmadd231ps ymm4,ymm12,ymm8
02ae vpbroadcastd ymm9,[rcx+4]
02b4 vfnmadd231ps ymm6,ymm12,ymm9
02b9 vmovq xmm12,[rax+r8+20h]
02c0 vpmovzxbd ymm12,xmm12
02c5 vcvtdq2ps ymm12,ymm12
02ca vpbroadcastd ymm8,[rcx]
02cf vfnmadd231ps ymm5,ymm12,ymm8
02d4 vpbroadcastd ymm9,[rcx+4]
02da vfnmadd231ps ymm7,ymm12,ymm9
02df vpbroadcastd ymm8,[rcx+8]
02e5 vmulps ymm12,ymm8,[rax]
02ea vfmadd231ps ymm0,ymm4,ymm12
02ef vmulps ymm12,ymm8,[rax+r8]
02f5 vfmadd231ps ymm1,ymm5,ymm12
02fa vpbroadcastd ymm9,[rcx+0Ch]
0300 vmulps ymm12,ymm9,[rax]
0305 vfmadd231ps ymm2,ymm6,ymm12
030a vmulps ymm12,ymm9,[rax+r8]
0310 vfmadd231ps ymm3,ymm7,ymm12
0315 add rcx,10h
0319 mov rbx,[rdi+40h]
031d vmovups [rbx],ymm0
0322 vmovups [rbx+20h],ymm1
0328 add rbx,[rdi+48h]
032c vmovups [rbx],ymm2
0331 vmovups [rbx+20h],ymm3
0337 add rbx,[rdi+48h]
033b pop r15
033d pop r14
033f pop r13
0341 pop r12
0343 pop rbp
0344 pop rbx
0345 vzeroupper
0348 ret
0349 nop word [rax+rax]
0352 nop word [rax+rax]
035b nop word [rax+rax]
0364 nop word [rax+rax]
036d nop word [rax+rax]
0376 nop word [rax+rax]
037f nop
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
