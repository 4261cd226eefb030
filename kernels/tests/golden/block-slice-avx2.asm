; BlockDot(BlockDotCode { isa: Avx2, products: Fours, rows: 2, vectors: 2, slice: 1, streams: 1, codes: Int4, zeros: Bytes })
; part 0, 640 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a vmovups ymm5,[rel 240h]
0013 vmovups ymm6,[rel 260h]
001c mov rsi,[rdi+8]
0020 mov rcx,[rdi]
0023 mov rdx,[rdi+10h]
0027 mov r8,[rdi+18h]
002b lea r9,[r8+r8*2]
002f mov r10,[rdi+28h]
0033 mov rbx,[rdi+50h]
0037 test rbx,rbx
003a je near 0000000000000057h
0040 vmovups ymm0,[rbx]
0045 add rbx,[rdi+58h]
0049 vmovups ymm1,[rbx]
004e add rbx,[rdi+58h]
0052 jmp 0000000000000061h
0057 vxorps ymm0,ymm0,ymm0
005c vxorps ymm1,ymm1,ymm1
0061 test r10,r10
0064 je near 000000000000013Dh
006a mov r11,[rdi+30h]
006e mov rax,rdx
0071 add rdx,50h
0075 vxorps ymm2,ymm2,ymm2
007a vxorps ymm3,ymm3,ymm3
007f nop
0080 vxorps ymm8,ymm5,[rdx]
0085 vandps ymm7,ymm8,ymm6
008a vpbroadcastd ymm4,[rsi]
008f vpdpbusd ymm2,ymm7,ymm4
0094 vpbroadcastd ymm4,[rsi+4]
009a vpdpbusd ymm3,ymm7,ymm4
009f vpsrld ymm7,ymm8,4
00a5 vandps ymm7,ymm7,ymm6
00aa vpbroadcastd ymm4,[rsi+8]
00b0 vpdpbusd ymm2,ymm7,ymm4
00b5 vpbroadcastd ymm4,[rsi+0Ch]
00bb vpdpbusd ymm3,ymm7,ymm4
00c0 add rsi,10h
00c4 add rdx,40h
00c8 sub r11,1
00cc test r11,r11
00cf jne near 0000000000000080h
00d5 vcvtdq2ps ymm2,ymm2
00da vcvtdq2ps ymm3,ymm3
00df mov rbx,rax
00e2 add rbx,[rdi+20h]
00e6 vmovq xmm7,[rbx+40h]
00ed vpmovzxbd ymm7,xmm7
00f2 vcvtdq2ps ymm7,ymm7
00f7 vpbroadcastd ymm4,[rcx]
00fc vfnmadd231ps ymm2,ymm7,ymm4
0101 vpbroadcastd ymm4,[rcx+4]
0107 vfnmadd231ps ymm3,ymm7,ymm4
010c vpbroadcastd ymm4,[rcx+8]
0112 vmulps ymm7,ymm4,[rax]
0117 vfmadd231ps ymm0,ymm2,ymm7
011c vpbroadcastd ymm4,[rcx+0Ch]
0122 vmulps ymm7,ymm4,[rax]
0127 vfmadd231ps ymm1,ymm3,ymm7
012c add rcx,10h
0130 sub r10,1
0134 test r10,r10
0137 jne near 000000000000006Ah
013d mov r11,[rdi+38h]
0141 test r11,r11
0144 je near 0000000000000210h
014a mov rax,rdx
014d add rdx,50h
0151 vxorps ymm2,ymm2,ymm2
0156 vxorps ymm3,ymm3,ymm3
015b nop dword [rax+rax]
0160 vxorps ymm8,ymm5,[rdx]
0165 vandps ymm7,ymm8,ymm6
016a vpbroadcastd ymm4,[rsi]
016f vpdpbusd ymm2,ymm7,ymm4
0174 vpbroadcastd ymm4,[rsi+4]
017a vpdpbusd ymm3,ymm7,ymm4
017f vpsrld ymm7,ymm8,4
0185 vandps ymm7,ymm7,ymm6
018a vpbroadcastd ymm4,[rsi+8]
0190 vpdpbusd ymm2,ymm7,ymm4
0195 vpbroadcastd ymm4,[rsi+0Ch]
019b vpdpbusd ymm3,ymm7,ymm4
01a0 add rsi,10h
01a4 add rdx,40h
01a8 sub r11,1
01ac test r11,r11
01af jne near 0000000000000160h
01b5 vcvtdq2ps ymm2,ymm2
01ba vcvtdq2ps ymm3,ymm3
01bf mov rbx,rax
01c2 add rbx,[rdi+20h]
01c6 vmovq xmm7,[rbx+40h]
01cd vpmovzxbd ymm7,xmm7
01d2 vcvtdq2ps ymm7,ymm7
01d7 vpbroadcastd ymm4,[rcx]
01dc vfnmadd231ps ymm2,ymm7,ymm4
01e1 vpbroadcastd ymm4,[rcx+4]
01e7 vfnmadd231ps ymm3,ymm7,ymm4
01ec vpbroadcastd ymm4,[rcx+8]
01f2 vmulps ymm7,ymm4,[rax]
01f7 vfmadd231ps ymm0,ymm2,ymm7
01fc vpbroadcastd ymm4,[rcx+0Ch]
0202 vmulps ymm7,ymm4,[rax]
0207 vfmadd231ps ymm1,ymm3,ymm7
020c add rcx,10h
0210 mov rbx,[rdi+40h]
0214 vmovups [rbx],ymm0
0219 add rbx,[rdi+48h]
021d vmovups [rbx],ymm1
0222 add rbx,[rdi+48h]
0226 pop r15
0228 pop r14
022a pop r13
022c pop r12
022e pop rbp
022f pop rbx
0230 vzeroupper
0233 ret
0234 nop word [rax+rax]
023d nop dword [rax]
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
