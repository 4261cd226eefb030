; BlockDot(BlockDotCode { isa: Avx2, products: Fours, rows: 2, vectors: 1, streams: 2, codes: Int4, zeros: Bytes })
; part 0, 896 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a vmovups ymm11,[rel 340h]
0013 vmovups ymm12,[rel 360h]
001c mov rsi,[rdi+8]
0020 mov rcx,[rdi]
0023 mov rdx,[rdi+10h]
0027 mov r8,[rdi+18h]
002b lea r9,[r8+r8*2]
002f mov r10,[rdi+20h]
0033 mov rbx,[rdi+48h]
0037 test rbx,rbx
003a je near 0000000000000063h
0040 vmovups ymm0,[rbx]
0045 vmovups ymm1,[rbx+20h]
004b add rbx,[rdi+50h]
004f vmovups ymm2,[rbx]
0054 vmovups ymm3,[rbx+20h]
005a add rbx,[rdi+50h]
005e jmp 0000000000000077h
0063 vxorps ymm0,ymm0,ymm0
0068 vxorps ymm1,ymm1,ymm1
006d vxorps ymm2,ymm2,ymm2
0072 vxorps ymm3,ymm3,ymm3
0077 test r10,r10
007a je near 00000000000001BBh
0080 mov r11,[rdi+28h]
0084 mov rax,rdx
0087 add rdx,28h
008b vxorps ymm4,ymm4,ymm4
0090 vxorps ymm5,ymm5,ymm5
0095 vxorps ymm6,ymm6,ymm6
009a vxorps ymm7,ymm7,ymm7
009f nop
00a0 vxorps ymm13,ymm11,[rdx]
00a5 vxorps ymm14,ymm11,[rdx+r8]
00ab vpbroadcastd ymm8,[rsi]
00b0 vpbroadcastd ymm9,[rsi+4]
00b6 vandps ymm10,ymm13,ymm12
00bb vpdpbusd ymm4,ymm10,ymm8
00c0 vpdpbusd ymm6,ymm10,ymm9
00c5 vandps ymm10,ymm14,ymm12
00ca vpdpbusd ymm5,ymm10,ymm8
00cf vpdpbusd ymm7,ymm10,ymm9
00d4 vpbroadcastd ymm8,[rsi+8]
00da vpbroadcastd ymm9,[rsi+0Ch]
00e0 vpsrld ymm10,ymm13,4
00e6 vandps ymm10,ymm10,ymm12
00eb vpdpbusd ymm4,ymm10,ymm8
00f0 vpdpbusd ymm6,ymm10,ymm9
00f5 vpsrld ymm10,ymm14,4
00fb vandps ymm10,ymm10,ymm12
0100 vpdpbusd ymm5,ymm10,ymm8
0105 vpdpbusd ymm7,ymm10,ymm9
010a add rsi,10h
010e add rdx,20h
0112 sub r11,1
0116 test r11,r11
0119 jne near 00000000000000A0h
011f vcvtdq2ps ymm4,ymm4
0124 vcvtdq2ps ymm5,ymm5
0129 vcvtdq2ps ymm6,ymm6
012e vcvtdq2ps ymm7,ymm7
0133 vpbroadcastd ymm8,[rcx]
0138 vpbroadcastd ymm9,[rcx+4]
013e vmovq xmm10,[rax+20h]
0145 vpmovzxbd ymm10,xmm10
014a vcvtdq2ps ymm10,ymm10
014f vfnmadd231ps ymm4,ymm10,ymm8
0154 vfnmadd231ps ymm6,ymm10,ymm9
0159 vmovq xmm10,[rax+r8+20h]
0160 vpmovzxbd ymm10,xmm10
0165 vcvtdq2ps ymm10,ymm10
016a vfnmadd231ps ymm5,ymm10,ymm8
016f vfnmadd231ps ymm7,ymm10,ymm9
0174 vpbroadcastd ymm8,[rcx+8]
017a vpbroadcastd ymm9,[rcx+0Ch]
0180 vmulps ymm10,ymm8,[rax]
0185 vfmadd231ps ymm0,ymm4,ymm10
018a vmulps ymm10,ymm8,[rax+r8]
0190 vfmadd231ps ymm1,ymm5,ymm10
0195 vmulps ymm10,ymm9,[rax]
019a vfmadd231ps ymm2,ymm6,ymm10
019f vmulps ymm10,ymm9,[rax+r8]
01a5 vfmadd231ps ymm3,ymm7,ymm10
01aa add rcx,10h
01ae sub r10,1
01b2 test r10,r10
01b5 jne near 0000000000000080h
01bb mov r11,[rdi+30h]
01bf test r11,r11
01c2 je near 000000000000030Eh
01c8 mov rax,rdx
01cb add rdx,28h
01cf vxorps ymm4,ymm4,ymm4
01d4 vxorps ymm5,ymm5,ymm5
01d9 vxorps ymm6,ymm6,ymm6
01de vxorps ymm7,ymm7,ymm7
01e3 nop word [rax+rax]
01ec nop word [rax+rax]
01f5 nop word [rax+rax]
01fe xchg ax,ax
0200 vxorps ymm13,ymm11,[rdx]
0205 vxorps ymm14,ymm11,[rdx+r8]
020b vpbroadcastd ymm8,[rsi]
0210 vpbroadcastd ymm9,[rsi+4]
0216 vandps ymm10,ymm13,ymm12
021b vpdpbusd ymm4,ymm10,ymm8
0220 vpdpbusd ymm6,ymm10,ymm9
0225 vandps ymm10,ymm14,ymm12
022a vpdpbusd ymm5,ymm10,ymm8
022f vpdpbusd ymm7,ymm10,ymm9
0234 vpbroadcastd ymm8,[rsi+8]
023a vpbroadcastd ymm9,[rsi+0Ch]
0240 vpsrld ymm10,ymm13,4
0246 vandps ymm10,ymm10,ymm12
024b vpdpbusd ymm4,ymm10,ymm8
0250 vpdpbusd ymm6,ymm10,ymm9
0255 vpsrld ymm10,ymm14,4
025b vandps ymm10,ymm10,ymm12
0260 vpdpbusd ymm5,ymm10,ymm8
0265 vpdpbusd ymm7,ymm10,ymm9
026a add rsi,10h
026e add rdx,20h
0272 sub r11,1
0276 test r11,r11
0279 jne near 0000000000000200h
027f vcvtdq2ps ymm4,ymm4
0284 vcvtdq2ps ymm5,ymm5
0289 vcvtdq2ps ymm6,ymm6
028e vcvtdq2ps ymm7,ymm7
0293 vpbroadcastd ymm8,[rcx]
0298 vpbroadcastd ymm9,[rcx+4]
029e vmovq xmm10,[rax+20h]
02a5 vpmovzxbd ymm10,xmm10
02aa vcvtdq2ps ymm10,ymm10
02af vfnmadd231ps ymm4,ymm10,ymm8
02b4 vfnmadd231ps ymm6,ymm10,ymm9
02b9 vmovq xmm10,[rax+r8+20h]
02c0 vpmovzxbd ymm10,xmm10
02c5 vcvtdq2ps ymm10,ymm10
02ca vfnmadd231ps ymm5,ymm10,ymm8
02cf vfnmadd231ps ymm7,ymm10,ymm9
02d4 vpbroadcastd ymm8,[rcx+8]
02da vpbroadcastd ymm9,[rcx+0Ch]
02e0 vmulps ymm10,ymm8,[rax]
02e5 vfmadd231ps ymm0,ymm4,ymm10
02ea vmulps ymm10,ymm8,[rax+r8]
02f0 vfmadd231ps ymm1,ymm5,ymm10
02f5 vmulps ymm10,ymm9,[rax]
02fa vfmadd231ps ymm2,ymm6,ymm10
02ff vmulps ymm10,ymm9,[rax+r8]
0305 vfmadd231ps ymm3,ymm7,ymm10
030a add rcx,10h
030e mov rbx,[rdi+38h]
0312 vmovups [rbx],ymm0
0317 vmovups [rbx+20h],ymm1
031d add rbx,[rdi+40h]
0321 vmovups [rbx],ymm2
0326 vmovups [rbx+20h],ymm3
032c add rbx,[rdi+40h]
0330 pop r15
0332 pop r14
0334 pop r13
0336 pop r12
0338 pop rbp
0339 pop rbx
033a vzeroupper
033d ret
033e xchg ax,ax
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
