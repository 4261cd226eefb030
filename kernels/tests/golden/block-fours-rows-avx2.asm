; BlockDot(BlockDotCode { isa: Avx2, products: Fours, rows: 3, vectors: 1, streams: 1, codes: Int4, zeros: Bytes, ahead: Far, short: true })
; part 0, 832 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi+8]
000e mov rcx,[rdi]
0011 mov r10,[rdi+20h]
0015 vmovups ymm7,[rel 300h]
001e vmovups ymm8,[rel 320h]
0027 mov rbx,[rdi+48h]
002b test rbx,rbx
002e je near 0000000000000054h
0034 vmovups ymm0,[rbx]
0039 add rbx,[rdi+50h]
003d vmovups ymm1,[rbx]
0042 add rbx,[rdi+50h]
0046 vmovups ymm2,[rbx]
004b add rbx,[rdi+50h]
004f jmp 0000000000000063h
0054 vxorps ymm0,ymm0,ymm0
0059 vxorps ymm1,ymm1,ymm1
005e vxorps ymm2,ymm2,ymm2
0063 mov rdx,[rdi+10h]
0067 test r10,r10
006a je near 000000000000018Ch
0070 mov r11,[rdi+28h]
0074 mov rax,rdx
0077 add rdx,28h
007b vxorps ymm3,ymm3,ymm3
0080 vxorps ymm4,ymm4,ymm4
0085 vxorps ymm5,ymm5,ymm5
008a nop word [rax+rax]
0093 nop word [rax+rax]
009c nop dword [rax]
00a0 vxorps ymm10,ymm7,[rdx]
00a5 vandps ymm9,ymm10,ymm8
00aa vpbroadcastd ymm6,[rsi]
00af vpdpbusd ymm3,ymm9,ymm6
00b4 vpbroadcastd ymm6,[rsi+4]
00ba vpdpbusd ymm4,ymm9,ymm6
00bf vpbroadcastd ymm6,[rsi+8]
00c5 vpdpbusd ymm5,ymm9,ymm6
00ca vpsrld ymm9,ymm10,4
00d0 vandps ymm9,ymm9,ymm8
00d5 vpbroadcastd ymm6,[rsi+0Ch]
00db vpdpbusd ymm3,ymm9,ymm6
00e0 vpbroadcastd ymm6,[rsi+10h]
00e6 vpdpbusd ymm4,ymm9,ymm6
00eb vpbroadcastd ymm6,[rsi+14h]
00f1 vpdpbusd ymm5,ymm9,ymm6
00f6 add rsi,18h
00fa add rdx,20h
00fe sub r11,1
0102 test r11,r11
0105 jne near 00000000000000A0h
010b vcvtdq2ps ymm3,ymm3
0110 vcvtdq2ps ymm4,ymm4
0115 vcvtdq2ps ymm5,ymm5
011a vmovq xmm9,[rax+20h]
0121 vpmovzxbd ymm9,xmm9
0126 vcvtdq2ps ymm9,ymm9
012b vpbroadcastd ymm6,[rcx]
0130 vfnmadd231ps ymm3,ymm9,ymm6
0135 vpbroadcastd ymm6,[rcx+4]
013b vfnmadd231ps ymm4,ymm9,ymm6
0140 vpbroadcastd ymm6,[rcx+8]
0146 vfnmadd231ps ymm5,ymm9,ymm6
014b vpbroadcastd ymm6,[rcx+0Ch]
0151 vmulps ymm9,ymm6,[rax]
0156 vfmadd231ps ymm0,ymm3,ymm9
015b vpbroadcastd ymm6,[rcx+10h]
0161 vmulps ymm9,ymm6,[rax]
0166 vfmadd231ps ymm1,ymm4,ymm9
016b vpbroadcastd ymm6,[rcx+14h]
0171 vmulps ymm9,ymm6,[rax]
0176 vfmadd231ps ymm2,ymm5,ymm9
017b add rcx,18h
017f sub r10,1
0183 test r10,r10
0186 jne near 0000000000000070h
018c mov r11,[rdi+30h]
0190 test r11,r11
0193 je near 000000000000029Fh
0199 mov rax,rdx
019c add rdx,28h
01a0 vxorps ymm3,ymm3,ymm3
01a5 vxorps ymm4,ymm4,ymm4
01aa vxorps ymm5,ymm5,ymm5
01af nop word [rax+rax]
01b8 nop dword [rax+rax]
01c0 vxorps ymm10,ymm7,[rdx]
01c5 vandps ymm9,ymm10,ymm8
01ca vpbroadcastd ymm6,[rsi]
01cf vpdpbusd ymm3,ymm9,ymm6
01d4 vpbroadcastd ymm6,[rsi+4]
01da vpdpbusd ymm4,ymm9,ymm6
01df vpbroadcastd ymm6,[rsi+8]
01e5 vpdpbusd ymm5,ymm9,ymm6
01ea vpsrld ymm9,ymm10,4
01f0 vandps ymm9,ymm9,ymm8
01f5 vpbroadcastd ymm6,[rsi+0Ch]
01fb vpdpbusd ymm3,ymm9,ymm6
0200 vpbroadcastd ymm6,[rsi+10h]
0206 vpdpbusd ymm4,ymm9,ymm6
020b vpbroadcastd ymm6,[rsi+14h]
0211 vpdpbusd ymm5,ymm9,ymm6
0216 add rsi,18h
021a add rdx,20h
021e sub r11,1
0222 test r11,r11
0225 jne near 00000000000001C0h
022b vcvtdq2ps ymm3,ymm3
0230 vcvtdq2ps ymm4,ymm4
0235 vcvtdq2ps ymm5,ymm5
023a vmovq xmm9,[rax+20h]
0241 vpmovzxbd ymm9,xmm9
0246 vcvtdq2ps ymm9,ymm9
024b vpbroadcastd ymm6,[rcx]
0250 vfnmadd231ps ymm3,ymm9,ymm6
0255 vpbroadcastd ymm6,[rcx+4]
025b vfnmadd231ps ymm4,ymm9,ymm6
0260 vpbroadcastd ymm6,[rcx+8]
0266 vfnmadd231ps ymm5,ymm9,ymm6
026b vpbroadcastd ymm6,[rcx+0Ch]
0271 vmulps ymm9,ymm6,[rax]
0276 vfmadd231ps ymm0,ymm3,ymm9
027b vpbroadcastd ymm6,[rcx+10h]
0281 vmulps ymm9,ymm6,[rax]
0286 vfmadd231ps ymm1,ymm4,ymm9
028b vpbroadcastd ymm6,[rcx+14h]
0291 vmulps ymm9,ymm6,[rax]
0296 vfmadd231ps ymm2,ymm5,ymm9
029b add rcx,18h
029f mov rbx,[rdi+38h]
02a3 vmovups [rbx],ymm0
02a8 add rbx,[rdi+40h]
02ac vmovups [rbx],ymm1
02b1 add rbx,[rdi+40h]
02b5 vmovups [rbx],ymm2
02ba add rbx,[rdi+40h]
02be pop r15
02c0 pop r14
02c2 pop r13
02c4 pop r12
02c6 pop rbp
02c7 pop rbx
02c8 vzeroupper
02cb ret
02cc nop word [rax+rax]
02d5 nop word [rax+rax]
02de nop word [rax+rax]
02e7 nop word [rax+rax]
02f0 nop word [rax+rax]
02f9 nop dword [rax]
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
