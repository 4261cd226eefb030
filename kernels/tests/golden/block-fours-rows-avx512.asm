; BlockDot(BlockDotCode { isa: Avx512, products: Fours, rows: 3, vectors: 1, streams: 1, codes: Int4, zeros: Bytes, ahead: Far, short: true })
; part 0, 840 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi+8]
000e mov rcx,[rdi]
0011 mov r10,[rdi+20h]
0015 vbroadcastss zmm7,[rel 340h]
001f vbroadcastss zmm8,[rel 344h]
0029 mov rbx,[rdi+48h]
002d test rbx,rbx
0030 je near 0000000000000059h
0036 vmovups zmm0,[rbx]
003c add rbx,[rdi+50h]
0040 vmovups zmm1,[rbx]
0046 add rbx,[rdi+50h]
004a vmovups zmm2,[rbx]
0050 add rbx,[rdi+50h]
0054 jmp 000000000000006Bh
0059 vpxord zmm0,zmm0,zmm0
005f vpxord zmm1,zmm1,zmm1
0065 vpxord zmm2,zmm2,zmm2
006b mov rdx,[rdi+10h]
006f test r10,r10
0072 je near 00000000000001B3h
0078 mov r11,[rdi+28h]
007c mov rax,rdx
007f add rdx,50h
0083 vpxord zmm3,zmm3,zmm3
0089 vpxord zmm4,zmm4,zmm4
008f vpxord zmm5,zmm5,zmm5
0095 nop word [rax+rax]
009e xchg ax,ax
00a0 vxorps zmm10,zmm7,[rdx]
00a6 prefetcht0 [rdx+800h]
00af vandps zmm9,zmm10,zmm8
00b5 vpbroadcastd zmm6,[rsi]
00bb vpdpbusd zmm3,zmm9,zmm6
00c1 vpbroadcastd zmm6,[rsi+4]
00c8 vpdpbusd zmm4,zmm9,zmm6
00ce vpbroadcastd zmm6,[rsi+8]
00d5 vpdpbusd zmm5,zmm9,zmm6
00db vpsrld zmm9,zmm10,4
00e2 vandps zmm9,zmm9,zmm8
00e8 vpbroadcastd zmm6,[rsi+0Ch]
00ef vpdpbusd zmm3,zmm9,zmm6
00f5 vpbroadcastd zmm6,[rsi+10h]
00fc vpdpbusd zmm4,zmm9,zmm6
0102 vpbroadcastd zmm6,[rsi+14h]
0109 vpdpbusd zmm5,zmm9,zmm6
010f add rsi,18h
0113 add rdx,40h
0117 sub r11,1
011b test r11,r11
011e jne near 00000000000000A0h
0124 vcvtdq2ps zmm3,zmm3
012a vcvtdq2ps zmm4,zmm4
0130 vcvtdq2ps zmm5,zmm5
0136 vpmovzxbd zmm9,[rax+40h]
013d vcvtdq2ps zmm9,zmm9
0143 vpbroadcastd zmm6,[rcx]
0149 vfnmadd231ps zmm3,zmm9,zmm6
014f vpbroadcastd zmm6,[rcx+4]
0156 vfnmadd231ps zmm4,zmm9,zmm6
015c vpbroadcastd zmm6,[rcx+8]
0163 vfnmadd231ps zmm5,zmm9,zmm6
0169 vpbroadcastd zmm6,[rcx+0Ch]
0170 vmulps zmm9,zmm6,[rax]
0176 vfmadd231ps zmm0,zmm3,zmm9
017c vpbroadcastd zmm6,[rcx+10h]
0183 vmulps zmm9,zmm6,[rax]
0189 vfmadd231ps zmm1,zmm4,zmm9
018f vpbroadcastd zmm6,[rcx+14h]
0196 vmulps zmm9,zmm6,[rax]
019c vfmadd231ps zmm2,zmm5,zmm9
01a2 add rcx,18h
01a6 sub r10,1
01aa test r10,r10
01ad jne near 0000000000000078h
01b3 mov r11,[rdi+30h]
01b7 test r11,r11
01ba je near 00000000000002E6h
01c0 mov rax,rdx
01c3 add rdx,50h
01c7 vpxord zmm3,zmm3,zmm3
01cd vpxord zmm4,zmm4,zmm4
01d3 vpxord zmm5,zmm5,zmm5
01d9 nop dword [rax]
01e0 vxorps zmm10,zmm7,[rdx]
01e6 prefetcht0 [rdx+800h]
01ef vandps zmm9,zmm10,zmm8
01f5 vpbroadcastd zmm6,[rsi]
01fb vpdpbusd zmm3,zmm9,zmm6
0201 vpbroadcastd zmm6,[rsi+4]
0208 vpdpbusd zmm4,zmm9,zmm6
020e vpbroadcastd zmm6,[rsi+8]
0215 vpdpbusd zmm5,zmm9,zmm6
021b vpsrld zmm9,zmm10,4
0222 vandps zmm9,zmm9,zmm8
0228 vpbroadcastd zmm6,[rsi+0Ch]
022f vpdpbusd zmm3,zmm9,zmm6
0235 vpbroadcastd zmm6,[rsi+10h]
023c vpdpbusd zmm4,zmm9,zmm6
0242 vpbroadcastd zmm6,[rsi+14h]
0249 vpdpbusd zmm5,zmm9,zmm6
024f add rsi,18h
0253 add rdx,40h
0257 sub r11,1
025b test r11,r11
025e jne near 00000000000001E0h
0264 vcvtdq2ps zmm3,zmm3
026a vcvtdq2ps zmm4,zmm4
0270 vcvtdq2ps zmm5,zmm5
0276 vpmovzxbd zmm9,[rax+40h]
027d vcvtdq2ps zmm9,zmm9
0283 vpbroadcastd zmm6,[rcx]
0289 vfnmadd231ps zmm3,zmm9,zmm6
028f vpbroadcastd zmm6,[rcx+4]
0296 vfnmadd231ps zmm4,zmm9,zmm6
029c vpbroadcastd zmm6,[rcx+8]
02a3 vfnmadd231ps zmm5,zmm9,zmm6
02a9 vpbroadcastd zmm6,[rcx+0Ch]
02b0 vmulps zmm9,zmm6,[rax]
02b6 vfmadd231ps zmm0,zmm3,zmm9
02bc vpbroadcastd zmm6,[rcx+10h]
02c3 vmulps zmm9,zmm6,[rax]
02c9 vfmadd231ps zmm1,zmm4,zmm9
02cf vpbroadcastd zmm6,[rcx+14h]
02d6 vmulps zmm9,zmm6,[rax]
02dc vfmadd231ps zmm2,zmm5,zmm9
02e2 add rcx,18h
02e6 mov rbx,[rdi+38h]
02ea vmovups [rbx],zmm0
02f0 add rbx,[rdi+40h]
02f4 vmovups [rbx],zmm1
02fa add rbx,[rdi+40h]
02fe vmovups [rbx],zmm2
0304 add rbx,[rdi+40h]
0308 pop r15
030a pop r14
030c pop r13
030e pop r12
0310 pop rbp
0311 pop rbx
0312 vzeroupper
0315 ret
0316 nop word [rax+rax]
031f nop word [rax+rax]
0328 nop word [rax+rax]
0331 nop word [rax+rax]
033a nop word [rax+rax]
; [88, 88, 88, 88]
; [0f, 0f, 0f, 0f]
