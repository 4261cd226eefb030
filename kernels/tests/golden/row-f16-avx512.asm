; Row(RowCode { isa: Avx512, vectors: 1, right: Halves, activation: None })
; part 0, 691 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov r11,[rdi+38h]
000e test r11,r11
0011 je near 0000000000000037h
0017 vmovups zmm0,[r11]
001d vmovups zmm1,[r11+40h]
0024 vmovups zmm2,[r11+80h]
002b vmovups zmm3,[r11+0C0h]
0032 jmp 000000000000004Fh
0037 vpxord zmm0,zmm0,zmm0
003d vpxord zmm1,zmm1,zmm1
0043 vpxord zmm2,zmm2,zmm2
0049 vpxord zmm3,zmm3,zmm3
004f mov rsi,[rdi]
0052 mov rdx,[rdi+8]
0056 mov r8,[rdi+10h]
005a lea r9,[r8+r8*2]
005e mov eax,0
0064 mov rcx,[rdi+18h]
0068 cmp rax,rcx
006b jge near 00000000000001D3h
0071 nop word [rax+rax]
007a nop word [rax+rax]
0080 vpbroadcastd zmm4,[rsi+rax]
0087 vcvtph2ps zmm5,[rdx]
008d vfmadd231ps zmm0,zmm4,zmm5
0093 vcvtph2ps zmm5,[rdx+r8]
009a vfmadd231ps zmm1,zmm4,zmm5
00a0 vcvtph2ps zmm5,[rdx+r8*2]
00a7 vfmadd231ps zmm2,zmm4,zmm5
00ad vcvtph2ps zmm5,[rdx+r9]
00b4 vfmadd231ps zmm3,zmm4,zmm5
00ba prefetcht0 [rdx+800h]
00c3 prefetcht0 [rdx+r8+800h]
00cc prefetcht0 [rdx+r8*2+800h]
00d5 prefetcht0 [rdx+r9+800h]
00de vpbroadcastd zmm4,[rsi+rax+4]
00e6 vcvtph2ps zmm5,[rdx+20h]
00ed vfmadd231ps zmm0,zmm4,zmm5
00f3 vcvtph2ps zmm5,[rdx+r8+20h]
00fb vfmadd231ps zmm1,zmm4,zmm5
0101 vcvtph2ps zmm5,[rdx+r8*2+20h]
0109 vfmadd231ps zmm2,zmm4,zmm5
010f vcvtph2ps zmm5,[rdx+r9+20h]
0117 vfmadd231ps zmm3,zmm4,zmm5
011d vpbroadcastd zmm4,[rsi+rax+8]
0125 vcvtph2ps zmm5,[rdx+40h]
012c vfmadd231ps zmm0,zmm4,zmm5
0132 vcvtph2ps zmm5,[rdx+r8+40h]
013a vfmadd231ps zmm1,zmm4,zmm5
0140 vcvtph2ps zmm5,[rdx+r8*2+40h]
0148 vfmadd231ps zmm2,zmm4,zmm5
014e vcvtph2ps zmm5,[rdx+r9+40h]
0156 vfmadd231ps zmm3,zmm4,zmm5
015c prefetcht0 [rdx+840h]
0165 prefetcht0 [rdx+r8+840h]
016e prefetcht0 [rdx+r8*2+840h]
0177 prefetcht0 [rdx+r9+840h]
0180 vpbroadcastd zmm4,[rsi+rax+0Ch]
0188 vcvtph2ps zmm5,[rdx+60h]
018f vfmadd231ps zmm0,zmm4,zmm5
0195 vcvtph2ps zmm5,[rdx+r8+60h]
019d vfmadd231ps zmm1,zmm4,zmm5
01a3 vcvtph2ps zmm5,[rdx+r8*2+60h]
01ab vfmadd231ps zmm2,zmm4,zmm5
01b1 vcvtph2ps zmm5,[rdx+r9+60h]
01b9 vfmadd231ps zmm3,zmm4,zmm5
01bf add rax,10h
01c3 add rdx,80h
01ca cmp rax,rcx
01cd jl near 0000000000000080h
01d3 mov rcx,[rdi+28h]
01d7 cmp rax,rcx
01da jge near 000000000000022Bh
01e0 vpbroadcastd zmm4,[rsi+rax]
01e7 vcvtph2ps zmm5,[rdx]
01ed vfmadd231ps zmm0,zmm4,zmm5
01f3 vcvtph2ps zmm5,[rdx+r8]
01fa vfmadd231ps zmm1,zmm4,zmm5
0200 vcvtph2ps zmm5,[rdx+r8*2]
0207 vfmadd231ps zmm2,zmm4,zmm5
020d vcvtph2ps zmm5,[rdx+r9]
0214 vfmadd231ps zmm3,zmm4,zmm5
021a add rax,4
021e add rdx,20h
0222 cmp rax,rcx
0225 jl near 00000000000001E0h
022b mov r11,[rdi+40h]
022f test r11,r11
0232 je near 0000000000000257h
0238 vpbroadcastd zmm4,[rdi+48h]
023f vmulps zmm0,zmm0,zmm4
0245 vmulps zmm1,zmm1,zmm4
024b vmulps zmm2,zmm2,zmm4
0251 vmulps zmm3,zmm3,zmm4
0257 mov r10,[rdi+30h]
025b mov r11,[rdi+50h]
025f test r11,r11
0262 je near 000000000000028Ah
0268 mov r11,[rdi+58h]
026c add r11,r10
026f vaddps zmm0,zmm0,[r11]
0275 vaddps zmm1,zmm1,[r11+40h]
027c vaddps zmm2,zmm2,[r11+80h]
0283 vaddps zmm3,zmm3,[r11+0C0h]
028a vmovups [r10],zmm0
0290 vmovups [r10+40h],zmm1
0297 vmovups [r10+80h],zmm2
029e vmovups [r10+0C0h],zmm3
02a5 pop r15
02a7 pop r14
02a9 pop r13
02ab pop r12
02ad pop rbp
02ae pop rbx
02af vzeroupper
02b2 ret
