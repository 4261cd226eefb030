; Stream(StreamCode { isa: Avx2, form: Dots, rows: F16, ahead: true })
; part 0, 672 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi]
000d mov rdx,[rdi+8]
0011 mov rcx,[rdi+28h]
0015 mov r8,[rdi+10h]
0019 mov r10,[rdi+18h]
001d mov rbx,[rdi+20h]
0021 mov rbp,[rdi+40h]
0025 lea r9,[r8+r8*2]
0029 mov r11,rbx
002c and r11,0FFFFFFFFFFFFFFF8h
0030 shl r11,2
0034 and rbx,7
0038 vmovd xmm15,ebx
003d vpbroadcastd ymm15,xmm15
0042 vpcmpgtd ymm15,ymm15,[rel 280h]
004b cmp r10,8
004f jl near 00000000000001CCh
0055 mov r12,rdx
0058 lea r13,[r12+r8*4]
005c vxorps ymm0,ymm0,ymm0
0061 vxorps ymm1,ymm1,ymm1
0066 vxorps ymm2,ymm2,ymm2
006b vxorps ymm3,ymm3,ymm3
0070 vxorps ymm4,ymm4,ymm4
0075 vxorps ymm5,ymm5,ymm5
007a vxorps ymm6,ymm6,ymm6
007f vxorps ymm7,ymm7,ymm7
0084 mov eax,0
008a cmp rax,r11
008d jge near 0000000000000140h
0093 nop word [rax+rax]
009c nop dword [rax]
00a0 vmovups ymm8,[rsi+rax]
00a6 vcvtph2ps ymm9,[r12]
00ad vfmadd231ps ymm0,ymm8,ymm9
00b2 vcvtph2ps ymm9,[r12+r8]
00b9 vfmadd231ps ymm1,ymm8,ymm9
00be vcvtph2ps ymm9,[r12+r8*2]
00c5 vfmadd231ps ymm2,ymm8,ymm9
00ca vcvtph2ps ymm9,[r12+r9]
00d1 vfmadd231ps ymm3,ymm8,ymm9
00d6 vcvtph2ps ymm9,[r13]
00dd vfmadd231ps ymm4,ymm8,ymm9
00e2 vcvtph2ps ymm9,[r13+r8]
00e9 vfmadd231ps ymm5,ymm8,ymm9
00ee vcvtph2ps ymm9,[r13+r8*2]
00f5 vfmadd231ps ymm6,ymm8,ymm9
00fa vcvtph2ps ymm9,[r13+r9]
0101 vfmadd231ps ymm7,ymm8,ymm9
0106 prefetcht1 [rbp]
010c prefetcht1 [rbp+40h]
0112 prefetcht1 [rbp+80h]
011b prefetcht1 [rbp+0C0h]
0124 add rbp,100h
012b add r12,10h
012f add r13,10h
0133 add rax,20h
0137 cmp rax,r11
013a jl near 00000000000000A0h
0140 vunpcklps ymm8,ymm0,ymm1
0145 vunpckhps ymm0,ymm0,ymm1
014a vaddps ymm0,ymm0,ymm8
014f vunpcklps ymm8,ymm2,ymm3
0154 vunpckhps ymm2,ymm2,ymm3
0159 vaddps ymm2,ymm2,ymm8
015e vunpcklpd ymm8,ymm0,ymm2
0163 vunpckhpd ymm0,ymm0,ymm2
0168 vaddps ymm0,ymm0,ymm8
016d vunpcklps ymm8,ymm4,ymm5
0172 vunpckhps ymm4,ymm4,ymm5
0177 vaddps ymm4,ymm4,ymm8
017c vunpcklps ymm8,ymm6,ymm7
0181 vunpckhps ymm6,ymm6,ymm7
0186 vaddps ymm6,ymm6,ymm8
018b vunpcklpd ymm8,ymm4,ymm6
0190 vunpckhpd ymm4,ymm4,ymm6
0195 vaddps ymm4,ymm4,ymm8
019a vperm2f128 ymm8,ymm0,ymm4,20h
01a0 vperm2f128 ymm0,ymm0,ymm4,31h
01a6 vaddps ymm0,ymm0,ymm8
01ab vpbroadcastd ymm8,[rdi+38h]
01b1 vmulps ymm0,ymm0,ymm8
01b6 vmovups [rcx],ymm0
01bb add rcx,20h
01bf lea rdx,[rdx+r8*8]
01c3 sub r10,8
01c7 jmp 000000000000004Bh
01cc cmp r10,1
01d0 jl near 0000000000000257h
01d6 mov r12,rdx
01d9 vxorps ymm0,ymm0,ymm0
01de mov eax,0
01e4 cmp rax,r11
01e7 jge near 0000000000000213h
01ed nop dword [rax]
01f0 vmovups ymm8,[rsi+rax]
01f6 vcvtph2ps ymm9,[r12]
01fd vfmadd231ps ymm0,ymm8,ymm9
0202 add r12,10h
0206 add rax,20h
020a cmp rax,r11
020d jl near 00000000000001F0h
0213 vpbroadcastd ymm8,[rdi+38h]
0219 vperm2f128 ymm9,ymm0,ymm0,1
021f vaddps ymm0,ymm0,ymm9
0224 vpermilps ymm9,ymm0,4Eh
022a vaddps ymm0,ymm0,ymm9
022f vpermilps ymm9,ymm0,0B1h
0235 vaddps ymm0,ymm0,ymm9
023a vmulps ymm0,ymm0,ymm8
023f vmovss [rcx],xmm0
0246 add rcx,4
024a lea rdx,[rdx+r8]
024e sub r10,1
0252 jmp 00000000000001CCh
0257 pop r15
0259 pop r14
025b pop r13
025d pop r12
025f pop rbp
0260 pop rbx
0261 vzeroupper
0264 ret
0265 nop word [rax+rax]
026e nop word [rax+rax]
0277 nop word [rax+rax]
; [00, 00, 00, 00]
; [01, 00, 00, 00]
; [02, 00, 00, 00]
; [03, 00, 00, 00]
; [04, 00, 00, 00]
; [05, 00, 00, 00]
; [06, 00, 00, 00]
; [07, 00, 00, 00]
