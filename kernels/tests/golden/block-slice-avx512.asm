; BlockDot(BlockDotCode { isa: Avx512, products: Fours, rows: 2, vectors: 2, slice: 1, streams: 1, codes: Int4, zeros: Bytes })
; part 0, 712 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a vbroadcastss zmm5,[rel 2C0h]
0014 vbroadcastss zmm6,[rel 2C4h]
001e mov rsi,[rdi+8]
0022 mov rcx,[rdi]
0025 mov rdx,[rdi+10h]
0029 mov r8,[rdi+18h]
002d lea r9,[r8+r8*2]
0031 mov r10,[rdi+28h]
0035 mov rbx,[rdi+50h]
0039 test rbx,rbx
003c je near 000000000000005Bh
0042 vmovups zmm0,[rbx]
0048 add rbx,[rdi+58h]
004c vmovups zmm1,[rbx]
0052 add rbx,[rdi+58h]
0056 jmp 0000000000000067h
005b vpxord zmm0,zmm0,zmm0
0061 vpxord zmm1,zmm1,zmm1
0067 test r10,r10
006a je near 000000000000017Dh
0070 mov r11,[rdi+30h]
0074 mov rax,rdx
0077 add rdx,0A0h
007e vpxord zmm2,zmm2,zmm2
0084 vpxord zmm3,zmm3,zmm3
008a nop word [rax+rax]
0093 nop word [rax+rax]
009c nop dword [rax]
00a0 vxorps zmm8,zmm5,[rdx]
00a6 prefetcht0 [rdx+800h]
00af vandps zmm7,zmm8,zmm6
00b5 vbroadcastss zmm4,[rsi]
00bb vpdpbusd zmm2,zmm7,zmm4
00c1 vbroadcastss zmm4,[rsi+4]
00c8 vpdpbusd zmm3,zmm7,zmm4
00ce vpsrld zmm7,zmm8,4
00d5 vandps zmm7,zmm7,zmm6
00db vbroadcastss zmm4,[rsi+8]
00e2 vpdpbusd zmm2,zmm7,zmm4
00e8 vbroadcastss zmm4,[rsi+0Ch]
00ef vpdpbusd zmm3,zmm7,zmm4
00f5 add rsi,10h
00f9 add rdx,80h
0100 sub r11,1
0104 test r11,r11
0107 jne near 00000000000000A0h
010d vcvtdq2ps zmm2,zmm2
0113 vcvtdq2ps zmm3,zmm3
0119 mov rbx,rax
011c add rbx,[rdi+20h]
0120 vpmovzxbd zmm7,[rbx+80h]
0127 vcvtdq2ps zmm7,zmm7
012d vbroadcastss zmm4,[rcx]
0133 vfnmadd231ps zmm2,zmm7,zmm4
0139 vbroadcastss zmm4,[rcx+4]
0140 vfnmadd231ps zmm3,zmm7,zmm4
0146 vbroadcastss zmm4,[rcx+8]
014d vmulps zmm7,zmm4,[rax]
0153 vfmadd231ps zmm0,zmm2,zmm7
0159 vbroadcastss zmm4,[rcx+0Ch]
0160 vmulps zmm7,zmm4,[rax]
0166 vfmadd231ps zmm1,zmm3,zmm7
016c add rcx,10h
0170 sub r10,1
0174 test r10,r10
0177 jne near 0000000000000070h
017d mov r11,[rdi+38h]
0181 test r11,r11
0184 je near 0000000000000270h
018a mov rax,rdx
018d add rdx,0A0h
0194 vpxord zmm2,zmm2,zmm2
019a vpxord zmm3,zmm3,zmm3
01a0 vxorps zmm8,zmm5,[rdx]
01a6 prefetcht0 [rdx+800h]
01af vandps zmm7,zmm8,zmm6
01b5 vbroadcastss zmm4,[rsi]
01bb vpdpbusd zmm2,zmm7,zmm4
01c1 vbroadcastss zmm4,[rsi+4]
01c8 vpdpbusd zmm3,zmm7,zmm4
01ce vpsrld zmm7,zmm8,4
01d5 vandps zmm7,zmm7,zmm6
01db vbroadcastss zmm4,[rsi+8]
01e2 vpdpbusd zmm2,zmm7,zmm4
01e8 vbroadcastss zmm4,[rsi+0Ch]
01ef vpdpbusd zmm3,zmm7,zmm4
01f5 add rsi,10h
01f9 add rdx,80h
0200 sub r11,1
0204 test r11,r11
0207 jne near 00000000000001A0h
020d vcvtdq2ps zmm2,zmm2
0213 vcvtdq2ps zmm3,zmm3
0219 mov rbx,rax
021c add rbx,[rdi+20h]
0220 vpmovzxbd zmm7,[rbx+80h]
0227 vcvtdq2ps zmm7,zmm7
022d vbroadcastss zmm4,[rcx]
0233 vfnmadd231ps zmm2,zmm7,zmm4
0239 vbroadcastss zmm4,[rcx+4]
0240 vfnmadd231ps zmm3,zmm7,zmm4
0246 vbroadcastss zmm4,[rcx+8]
024d vmulps zmm7,zmm4,[rax]
0253 vfmadd231ps zmm0,zmm2,zmm7
0259 vbroadcastss zmm4,[rcx+0Ch]
0260 vmulps zmm7,zmm4,[rax]
0266 vfmadd231ps zmm1,zmm3,zmm7
026c add rcx,10h
0270 mov rbx,[rdi+40h]
0274 vmovups [rbx],zmm0
027a add rbx,[rdi+48h]
027e vmovups [rbx],zmm1
0284 add rbx,[rdi+48h]
0288 pop r15
028a pop r14
028c pop r13
028e pop r12
0290 pop rbp
0291 pop rbx
0292 vzeroupper
0295 ret
0296 nop word [rax+rax]
029f nop word [rax+rax]
02a8 nop word [rax+rax]
02b1 nop word [rax+rax]
02ba nop word [rax+rax]
; [88, 88, 88, 88]
; [0f, 0f, 0f, 0f]
