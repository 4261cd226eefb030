; Row(RowCode { isa: Avx512, vectors: 1, right: Halves, activation: None })
; part 0, 699 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov r8,[rdi+40h]
000e lea r9,[r8+r8*2]
0012 mov r11,[rdi+38h]
0016 test r11,r11
0019 je near 000000000000003Fh
001f vmovups zmm0,[r11]
0025 vmovups zmm1,[r11+r8]
002c vmovups zmm2,[r11+r8*2]
0033 vmovups zmm3,[r11+r9]
003a jmp 0000000000000057h
003f vpxord zmm0,zmm0,zmm0
0045 vpxord zmm1,zmm1,zmm1
004b vpxord zmm2,zmm2,zmm2
0051 vpxord zmm3,zmm3,zmm3
0057 mov rsi,[rdi]
005a mov rdx,[rdi+8]
005e mov r8,[rdi+10h]
0062 lea r9,[r8+r8*2]
0066 mov eax,0
006c mov rcx,[rdi+18h]
0070 cmp rax,rcx
0073 jge near 00000000000001D3h
0079 nop dword [rax]
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
022b mov r11,[rdi+48h]
022f test r11,r11
0232 je near 0000000000000257h
0238 vpbroadcastd zmm4,[rdi+50h]
023f vmulps zmm0,zmm0,zmm4
0245 vmulps zmm1,zmm1,zmm4
024b vmulps zmm2,zmm2,zmm4
0251 vmulps zmm3,zmm3,zmm4
0257 mov r10,[rdi+30h]
025b mov r8,[rdi+40h]
025f lea r9,[r8+r8*2]
0263 mov r11,[rdi+58h]
0267 test r11,r11
026a je near 0000000000000292h
0270 mov r11,[rdi+60h]
0274 add r11,r10
0277 vaddps zmm0,zmm0,[r11]
027d vaddps zmm1,zmm1,[r11+r8]
0284 vaddps zmm2,zmm2,[r11+r8*2]
028b vaddps zmm3,zmm3,[r11+r9]
0292 vmovups [r10],zmm0
0298 vmovups [r10+r8],zmm1
029f vmovups [r10+r8*2],zmm2
02a6 vmovups [r10+r9],zmm3
02ad pop r15
02af pop r14
02b1 pop r13
02b3 pop r12
02b5 pop rbp
02b6 pop rbx
02b7 vzeroupper
02ba ret
