; BlockDot(BlockDotCode { isa: Avx512, products: Fours, rows: 2, vectors: 1, streams: 2, codes: Int4, zeros: Bytes })
; part 0, 968 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a vbroadcastss zmm11,[rel 3C0h]
0014 vbroadcastss zmm12,[rel 3C4h]
001e mov rsi,[rdi+8]
0022 mov rcx,[rdi]
0025 mov rdx,[rdi+10h]
0029 mov r8,[rdi+18h]
002d lea r9,[r8+r8*2]
0031 mov r10,[rdi+20h]
0035 mov rbx,[rdi+48h]
0039 test rbx,rbx
003c je near 0000000000000069h
0042 vmovups zmm0,[rbx]
0048 vmovups zmm1,[rbx+40h]
004f add rbx,[rdi+50h]
0053 vmovups zmm2,[rbx]
0059 vmovups zmm3,[rbx+40h]
0060 add rbx,[rdi+50h]
0064 jmp 0000000000000081h
0069 vpxord zmm0,zmm0,zmm0
006f vpxord zmm1,zmm1,zmm1
0075 vpxord zmm2,zmm2,zmm2
007b vpxord zmm3,zmm3,zmm3
0081 test r10,r10
0084 je near 000000000000020Eh
008a mov r11,[rdi+28h]
008e mov rax,rdx
0091 add rdx,50h
0095 vpxord zmm4,zmm4,zmm4
009b vpxord zmm5,zmm5,zmm5
00a1 vpxord zmm6,zmm6,zmm6
00a7 vpxord zmm7,zmm7,zmm7
00ad nop word [rax+rax]
00b6 nop word [rax+rax]
00bf nop
00c0 vxorps zmm13,zmm11,[rdx]
00c6 prefetcht0 [rdx+800h]
00cf vxorps zmm14,zmm11,[rdx+r8]
00d6 prefetcht0 [rdx+r8+800h]
00df vbroadcastss zmm8,[rsi]
00e5 vbroadcastss zmm9,[rsi+4]
00ec vandps zmm10,zmm13,zmm12
00f2 vpdpbusd zmm4,zmm10,zmm8
00f8 vpdpbusd zmm6,zmm10,zmm9
00fe vandps zmm10,zmm14,zmm12
0104 vpdpbusd zmm5,zmm10,zmm8
010a vpdpbusd zmm7,zmm10,zmm9
0110 vbroadcastss zmm8,[rsi+8]
0117 vbroadcastss zmm9,[rsi+0Ch]
011e vpsrld zmm10,zmm13,4
0125 vandps zmm10,zmm10,zmm12
012b vpdpbusd zmm4,zmm10,zmm8
0131 vpdpbusd zmm6,zmm10,zmm9
0137 vpsrld zmm10,zmm14,4
013e vandps zmm10,zmm10,zmm12
0144 vpdpbusd zmm5,zmm10,zmm8
014a vpdpbusd zmm7,zmm10,zmm9
0150 add rsi,10h
0154 add rdx,40h
0158 sub r11,1
015c test r11,r11
015f jne near 00000000000000C0h
0165 vcvtdq2ps zmm4,zmm4
016b vcvtdq2ps zmm5,zmm5
0171 vcvtdq2ps zmm6,zmm6
0177 vcvtdq2ps zmm7,zmm7
017d vbroadcastss zmm8,[rcx]
0183 vbroadcastss zmm9,[rcx+4]
018a vpmovzxbd zmm10,[rax+40h]
0191 vcvtdq2ps zmm10,zmm10
0197 vfnmadd231ps zmm4,zmm10,zmm8
019d vfnmadd231ps zmm6,zmm10,zmm9
01a3 vpmovzxbd zmm10,[rax+r8+40h]
01ab vcvtdq2ps zmm10,zmm10
01b1 vfnmadd231ps zmm5,zmm10,zmm8
01b7 vfnmadd231ps zmm7,zmm10,zmm9
01bd vbroadcastss zmm8,[rcx+8]
01c4 vbroadcastss zmm9,[rcx+0Ch]
01cb vmulps zmm10,zmm8,[rax]
01d1 vfmadd231ps zmm0,zmm4,zmm10
01d7 vmulps zmm10,zmm8,[rax+r8]
01de vfmadd231ps zmm1,zmm5,zmm10
01e4 vmulps zmm10,zmm9,[rax]
01ea vfmadd231ps zmm2,zmm6,zmm10
01f0 vmulps zmm10,zmm9,[rax+r8]
01f7 vfmadd231ps zmm3,zmm7,zmm10
01fd add rcx,10h
0201 sub r10,1
0205 test r10,r10
0208 jne near 000000000000008Ah
020e mov r11,[rdi+30h]
0212 test r11,r11
0215 je near 0000000000000381h
021b mov rax,rdx
021e add rdx,50h
0222 vpxord zmm4,zmm4,zmm4
0228 vpxord zmm5,zmm5,zmm5
022e vpxord zmm6,zmm6,zmm6
0234 vpxord zmm7,zmm7,zmm7
023a nop word [rax+rax]
0240 vxorps zmm13,zmm11,[rdx]
0246 prefetcht0 [rdx+800h]
024f vxorps zmm14,zmm11,[rdx+r8]
0256 prefetcht0 [rdx+r8+800h]
025f vbroadcastss zmm8,[rsi]
0265 vbroadcastss zmm9,[rsi+4]
026c vandps zmm10,zmm13,zmm12
0272 vpdpbusd zmm4,zmm10,zmm8
0278 vpdpbusd zmm6,zmm10,zmm9
027e vandps zmm10,zmm14,zmm12
0284 vpdpbusd zmm5,zmm10,zmm8
028a vpdpbusd zmm7,zmm10,zmm9
0290 vbroadcastss zmm8,[rsi+8]
0297 vbroadcastss zmm9,[rsi+0Ch]
029e vpsrld zmm10,zmm13,4
02a5 vandps zmm10,zmm10,zmm12
02ab vpdpbusd zmm4,zmm10,zmm8
02b1 vpdpbusd zmm6,zmm10,zmm9
02b7 vpsrld zmm10,zmm14,4
02be vandps zmm10,zmm10,zmm12
02c4 vpdpbusd zmm5,zmm10,zmm8
02ca vpdpbusd zmm7,zmm10,zmm9
02d0 add rsi,10h
02d4 add rdx,40h
02d8 sub r11,1
02dc test r11,r11
02df jne near 0000000000000240h
02e5 vcvtdq2ps zmm4,zmm4
02eb vcvtdq2ps zmm5,zmm5
02f1 vcvtdq2ps zmm6,zmm6
02f7 vcvtdq2ps zmm7,zmm7
02fd vbroadcastss zmm8,[rcx]
0303 vbroadcastss zmm9,[rcx+4]
030a vpmovzxbd zmm10,[rax+40h]
0311 vcvtdq2ps zmm10,zmm10
0317 vfnmadd231ps zmm4,zmm10,zmm8
031d vfnmadd231ps zmm6,zmm10,zmm9
0323 vpmovzxbd zmm10,[rax+r8+40h]
032b vcvtdq2ps zmm10,zmm10
0331 vfnmadd231ps zmm5,zmm10,zmm8
0337 vfnmadd231ps zmm7,zmm10,zmm9
033d vbroadcastss zmm8,[rcx+8]
0344 vbroadcastss zmm9,[rcx+0Ch]
034b vmulps zmm10,zmm8,[rax]
0351 vfmadd231ps zmm0,zmm4,zmm10
0357 vmulps zmm10,zmm8,[rax+r8]
035e vfmadd231ps zmm1,zmm5,zmm10
0364 vmulps zmm10,zmm9,[rax]
036a vfmadd231ps zmm2,zmm6,zmm10
0370 vmulps zmm10,zmm9,[rax+r8]
0377 vfmadd231ps zmm3,zmm7,zmm10
037d add rcx,10h
0381 mov rbx,[rdi+38h]
0385 vmovups [rbx],zmm0
038b vmovups [rbx+40h],zmm1
0392 add rbx,[rdi+40h]
0396 vmovups [rbx],zmm2
039c vmovups [rbx+40h],zmm3
03a3 add rbx,[rdi+40h]
03a7 pop r15
03a9 pop r14
03ab pop r13
03ad pop r12
03af pop rbp
03b0 pop rbx
03b1 vzeroupper
03b4 ret
03b5 nop word [rax+rax]
03be xchg ax,ax
; [88, 88, 88, 88]
; [0f, 0f, 0f, 0f]
