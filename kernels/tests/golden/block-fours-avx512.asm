; BlockDot(BlockDotCode { isa: Avx512, products: Fours, rows: 2, vectors: 1, slice: 1, streams: 2, codes: Int4, zeros: Bytes })
; part 0, 1032 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a vbroadcastss zmm10,[rel 400h]
0014 vbroadcastss zmm11,[rel 404h]
001e mov rsi,[rdi+8]
0022 mov rcx,[rdi]
0025 mov rdx,[rdi+10h]
0029 mov r8,[rdi+18h]
002d lea r9,[r8+r8*2]
0031 mov r10,[rdi+28h]
0035 mov rbx,[rdi+50h]
0039 test rbx,rbx
003c je near 0000000000000069h
0042 vmovups zmm0,[rbx]
0048 vmovups zmm1,[rbx+40h]
004f add rbx,[rdi+58h]
0053 vmovups zmm2,[rbx]
0059 vmovups zmm3,[rbx+40h]
0060 add rbx,[rdi+58h]
0064 jmp 0000000000000081h
0069 vpxord zmm0,zmm0,zmm0
006f vpxord zmm1,zmm1,zmm1
0075 vpxord zmm2,zmm2,zmm2
007b vpxord zmm3,zmm3,zmm3
0081 test r10,r10
0084 je near 000000000000021Bh
008a mov r11,[rdi+30h]
008e mov rax,rdx
0091 add rdx,50h
0095 vpxord zmm4,zmm4,zmm4
009b vpxord zmm5,zmm5,zmm5
00a1 vpxord zmm6,zmm6,zmm6
00a7 vpxord zmm7,zmm7,zmm7
00ad nop word [rax+rax]
00b6 nop word [rax+rax]
00bf nop
00c0 vxorps zmm13,zmm10,[rdx]
00c6 prefetcht0 [rdx+800h]
00cf vxorps zmm14,zmm10,[rdx+r8]
00d6 prefetcht0 [rdx+r8+800h]
00df vbroadcastss zmm8,[rsi]
00e5 vbroadcastss zmm9,[rsi+4]
00ec vandps zmm12,zmm13,zmm11
00f2 vpdpbusd zmm4,zmm12,zmm8
00f8 vpdpbusd zmm6,zmm12,zmm9
00fe vandps zmm12,zmm14,zmm11
0104 vpdpbusd zmm5,zmm12,zmm8
010a vpdpbusd zmm7,zmm12,zmm9
0110 vbroadcastss zmm8,[rsi+8]
0117 vbroadcastss zmm9,[rsi+0Ch]
011e vpsrld zmm12,zmm13,4
0125 vandps zmm12,zmm12,zmm11
012b vpdpbusd zmm4,zmm12,zmm8
0131 vpdpbusd zmm6,zmm12,zmm9
0137 vpsrld zmm12,zmm14,4
013e vandps zmm12,zmm12,zmm11
0144 vpdpbusd zmm5,zmm12,zmm8
014a vpdpbusd zmm7,zmm12,zmm9
0150 add rsi,10h
0154 add rdx,40h
0158 sub r11,1
015c test r11,r11
015f jne near 00000000000000C0h
0165 vcvtdq2ps zmm4,zmm4
016b vcvtdq2ps zmm5,zmm5
0171 vcvtdq2ps zmm6,zmm6
0177 vcvtdq2ps zmm7,zmm7
017d vpmovzxbd zmm12,[rax+40h]
0184 vcvtdq2ps zmm12,zmm12
018a vbroadcastss zmm8,[rcx]
0190 vfnmadd231ps zmm4,zmm12,zmm8
0196 vbroadcastss zmm9,[rcx+4]
019d vfnmadd231ps zmm6,zmm12,zmm9
01a3 vpmovzxbd zmm12,[rax+r8+40h]
01ab vcvtdq2ps zmm12,zmm12
01b1 vbroadcastss zmm8,[rcx]
01b7 vfnmadd231ps zmm5,zmm12,zmm8
01bd vbroadcastss zmm9,[rcx+4]
01c4 vfnmadd231ps zmm7,zmm12,zmm9
01ca vbroadcastss zmm8,[rcx+8]
01d1 vmulps zmm12,zmm8,[rax]
01d7 vfmadd231ps zmm0,zmm4,zmm12
01dd vmulps zmm12,zmm8,[rax+r8]
01e4 vfmadd231ps zmm1,zmm5,zmm12
01ea vbroadcastss zmm9,[rcx+0Ch]
01f1 vmulps zmm12,zmm9,[rax]
01f7 vfmadd231ps zmm2,zmm6,zmm12
01fd vmulps zmm12,zmm9,[rax+r8]
0204 vfmadd231ps zmm3,zmm7,zmm12
020a add rcx,10h
020e sub r10,1
0212 test r10,r10
0215 jne near 000000000000008Ah
021b mov r11,[rdi+38h]
021f test r11,r11
0222 je near 00000000000003AEh
0228 mov rax,rdx
022b add rdx,50h
022f vpxord zmm4,zmm4,zmm4
0235 vpxord zmm5,zmm5,zmm5
023b vpxord zmm6,zmm6,zmm6
0241 vpxord zmm7,zmm7,zmm7
0247 nop word [rax+rax]
0250 nop word [rax+rax]
0259 nop dword [rax]
0260 vxorps zmm13,zmm10,[rdx]
0266 prefetcht0 [rdx+800h]
026f vxorps zmm14,zmm10,[rdx+r8]
0276 prefetcht0 [rdx+r8+800h]
027f vbroadcastss zmm8,[rsi]
0285 vbroadcastss zmm9,[rsi+4]
028c vandps zmm12,zmm13,zmm11
0292 vpdpbusd zmm4,zmm12,zmm8
0298 vpdpbusd zmm6,zmm12,zmm9
029e vandps zmm12,zmm14,zmm11
02a4 vpdpbusd zmm5,zmm12,zmm8
02aa vpdpbusd zmm7,zmm12,zmm9
02b0 vbroadcastss zmm8,[rsi+8]
02b7 vbroadcastss zmm9,[rsi+0Ch]
02be vpsrld zmm12,zmm13,4
02c5 vandps zmm12,zmm12,zmm11
02cb vpdpbusd zmm4,zmm12,zmm8
02d1 vpdpbusd zmm6,zmm12,zmm9
02d7 vpsrld zmm12,zmm14,4
02de vandps zmm12,zmm12,zmm11
02e4 vpdpbusd zmm5,zmm12,zmm8
02ea vpdpbusd zmm7,zmm12,zmm9
02f0 add rsi,10h
02f4 add rdx,40h
02f8 sub r11,1
02fc test r11,r11
02ff jne near 0000000000000260h
0305 vcvtdq2ps zmm4,zmm4
030b vcvtdq2ps zmm5,zmm5
0311 vcvtdq2ps zmm6,zmm6
0317 vcvtdq2ps zmm7,zmm7
031d vpmovzxbd zmm12,[rax+40h]
0324 vcvtdq2ps zmm12,zmm12
032a vbroadcastss zmm8,[rcx]
0330 vfnmadd231ps zmm4,zmm12,zmm8
0336 vbroadcastss zmm9,[rcx+4]
033d vfnmadd231ps zmm6,zmm12,zmm9
0343 vpmovzxbd zmm12,[rax+r8+40h]
034b vcvtdq2ps zmm12,zmm12
0351 vbroadcastss zmm8,[rcx]
0357 vfnmadd231ps zmm5,zmm12,zmm8
035d vbroadcastss zmm9,[rcx+4]
0364 vfnmadd231ps zmm7,zmm12,zmm9
036a vbroadcastss zmm8,[rcx+8]
0371 vmulps zmm12,zmm8,[rax]
0377 vfmadd231ps zmm0,zmm4,zmm12
037d vmulps zmm12,zmm8,[rax+r8]
0384 vfmadd231ps zmm1,zmm5,zmm12
038a vbroadcastss zmm9,[rcx+0Ch]
0391 vmulps zmm12,zmm9,[rax]
0397 vfmadd231ps zmm2,zmm6,zmm12
039d vmulps zmm12,zmm9,[rax+r8]
03a4 vfmadd231ps zmm3,zmm7,zmm12
03aa add rcx,10h
03ae mov rbx,[rdi+40h]
03b2 vmovups [rbx],zmm0
03b8 vmovups [rbx+40h],zmm1
03bf add rbx,[rdi+48h]
03c3 vmovups [rbx],zmm2
03c9 vmovups [rbx+40h],zmm3
03d0 add rbx,[rdi+48h]
03d4 pop r15
03d6 pop r14
03d8 pop r13
03da pop r12
03dc pop rbp
03dd pop rbx
03de vzeroupper
03e1 ret
03e2 nop word [rax+rax]
03eb nop word [rax+rax]
03f4 nop word [rax+rax]
03fd nop dword [rax]
; [88, 88, 88, 88]
; [0f, 0f, 0f, 0f]
