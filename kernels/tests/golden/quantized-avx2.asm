; Quantized(QuantizedCode { isa: Avx2, form: Widened, vectors: 2, left: Strided, output: Signed })
; part 0, 7072 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rax,[rdi]
000d cmp rax,6
0011 je near 0000000000000050h
0017 cmp rax,5
001b je near 0000000000000760h
0021 cmp rax,4
0025 je near 0000000000000D70h
002b cmp rax,3
002f je near 0000000000001270h
0035 cmp rax,2
0039 je near 0000000000001660h
003f cmp rax,1
0043 je near 0000000000001940h
0049 jmp 0000000000001B54h
004e xchg ax,ax
; 1038 instructions are left out
1660 mov rdx,[rdi+70h]
1664 vmovups ymm0,[rdx]
1669 vmovaps ymm2,ymm0
166e vmovups ymm1,[rdx+20h]
1674 vmovaps ymm3,ymm1
1679 mov r11,[rdi+50h]
167d mov rax,[rdi+10h]
1681 mov rbp,[rdi+18h]
1685 lea rcx,[rax+rbp]
1689 mov r12,[rdi+38h]
168d mov r13,[rdi+40h]
1691 cmp r12,r13
1694 jge near 00000000000017C2h
169a nop word [rax+rax]
16a0 vpmovsxbw ymm4,[r11]
16a7 vpmovsxbw ymm5,[r11+10h]
16ae vpbroadcastd ymm6,[rax+r12]
16b4 vpmaddwd ymm7,ymm6,ymm4
16b9 vpaddd ymm0,ymm0,ymm7
16be vpmaddwd ymm7,ymm6,ymm5
16c3 vpaddd ymm1,ymm1,ymm7
16c8 vpbroadcastd ymm6,[rcx+r12]
16ce vpmaddwd ymm7,ymm6,ymm4
16d3 vpaddd ymm2,ymm2,ymm7
16d8 vpmaddwd ymm7,ymm6,ymm5
16dd vpaddd ymm3,ymm3,ymm7
16e2 vpmovsxbw ymm4,[r11+20h]
16e9 vpmovsxbw ymm5,[r11+30h]
16f0 vpbroadcastd ymm6,[rax+r12+4]
16f7 vpmaddwd ymm7,ymm6,ymm4
16fc vpaddd ymm0,ymm0,ymm7
1701 vpmaddwd ymm7,ymm6,ymm5
1706 vpaddd ymm1,ymm1,ymm7
170b vpbroadcastd ymm6,[rcx+r12+4]
1712 vpmaddwd ymm7,ymm6,ymm4
1717 vpaddd ymm2,ymm2,ymm7
171c vpmaddwd ymm7,ymm6,ymm5
1721 vpaddd ymm3,ymm3,ymm7
1726 vpmovsxbw ymm4,[r11+40h]
172d vpmovsxbw ymm5,[r11+50h]
1734 vpbroadcastd ymm6,[rax+r12+8]
173b vpmaddwd ymm7,ymm6,ymm4
1740 vpaddd ymm0,ymm0,ymm7
1745 vpmaddwd ymm7,ymm6,ymm5
174a vpaddd ymm1,ymm1,ymm7
174f vpbroadcastd ymm6,[rcx+r12+8]
1756 vpmaddwd ymm7,ymm6,ymm4
175b vpaddd ymm2,ymm2,ymm7
1760 vpmaddwd ymm7,ymm6,ymm5
1765 vpaddd ymm3,ymm3,ymm7
176a vpmovsxbw ymm4,[r11+60h]
1771 vpmovsxbw ymm5,[r11+70h]
1778 vpbroadcastd ymm6,[rax+r12+0Ch]
177f vpmaddwd ymm7,ymm6,ymm4
1784 vpaddd ymm0,ymm0,ymm7
1789 vpmaddwd ymm7,ymm6,ymm5
178e vpaddd ymm1,ymm1,ymm7
1793 vpbroadcastd ymm6,[rcx+r12+0Ch]
179a vpmaddwd ymm7,ymm6,ymm4
179f vpaddd ymm2,ymm2,ymm7
17a4 vpmaddwd ymm7,ymm6,ymm5
17a9 vpaddd ymm3,ymm3,ymm7
17ae add r12,10h
17b2 add r11,80h
17b9 cmp r12,r13
17bc jl near 00000000000016A0h
17c2 mov r13,[rdi+48h]
17c6 cmp r12,r13
17c9 jge near 0000000000001822h
17cf vpmovsxbw ymm4,[r11]
17d6 vpmovsxbw ymm5,[r11+10h]
17dd vpbroadcastd ymm6,[rax+r12]
17e3 vpmaddwd ymm7,ymm6,ymm4
17e8 vpaddd ymm0,ymm0,ymm7
17ed vpmaddwd ymm7,ymm6,ymm5
17f2 vpaddd ymm1,ymm1,ymm7
17f7 vpbroadcastd ymm6,[rcx+r12]
17fd vpmaddwd ymm7,ymm6,ymm4
1802 vpaddd ymm2,ymm2,ymm7
1807 vpmaddwd ymm7,ymm6,ymm5
180c vpaddd ymm3,ymm3,ymm7
1811 add r12,4
1815 add r11,20h
1819 cmp r12,r13
181c jl near 00000000000017CFh
1822 mov rsi,[rdi+78h]
1826 mov r8,[rdi+80h]
182d vpbroadcastd ymm4,[rdi+88h]
1836 vpbroadcastd ymm5,[rdi+8Ch]
183f vpbroadcastd ymm6,[rdi+90h]
1848 mov rdx,[rdi+58h]
184c mov rbx,[rdi+60h]
1850 vcvtdq2ps ymm0,ymm0
1855 vmulps ymm0,ymm0,[rsi]
185a vaddps ymm0,ymm0,[r8]
185f vmaxps ymm0,ymm0,ymm4
1864 vminps ymm0,ymm0,ymm5
1869 vcvtps2dq ymm0,ymm0
186e vpaddd ymm0,ymm0,ymm6
1873 vandps ymm0,ymm0,[rel 1B80h]
187c vcvtdq2ps ymm1,ymm1
1881 vmulps ymm1,ymm1,[rsi+20h]
1887 vaddps ymm1,ymm1,[r8+20h]
188d vmaxps ymm1,ymm1,ymm4
1892 vminps ymm1,ymm1,ymm5
1897 vcvtps2dq ymm1,ymm1
189c vpaddd ymm1,ymm1,ymm6
18a1 vandps ymm1,ymm1,[rel 1B80h]
18aa vcvtdq2ps ymm2,ymm2
18af vmulps ymm2,ymm2,[rsi]
18b4 vaddps ymm2,ymm2,[r8]
18b9 vmaxps ymm2,ymm2,ymm4
18be vminps ymm2,ymm2,ymm5
18c3 vcvtps2dq ymm2,ymm2
18c8 vpaddd ymm2,ymm2,ymm6
18cd vandps ymm2,ymm2,[rel 1B80h]
18d6 vcvtdq2ps ymm3,ymm3
18db vmulps ymm3,ymm3,[rsi+20h]
18e1 vaddps ymm3,ymm3,[r8+20h]
18e7 vmaxps ymm3,ymm3,ymm4
18ec vminps ymm3,ymm3,ymm5
18f1 vcvtps2dq ymm3,ymm3
18f6 vpaddd ymm3,ymm3,ymm6
18fb vandps ymm3,ymm3,[rel 1B80h]
1904 vpackssdw ymm0,ymm0,ymm1
1909 vpackssdw ymm2,ymm2,ymm3
190e vpackuswb ymm0,ymm0,ymm2
1913 vperm2f128 ymm7,ymm0,ymm0,1
1919 vunpckhps ymm2,ymm0,ymm7
191e vmovups [rdx+rbx],xmm2
1925 vunpcklps ymm0,ymm0,ymm7
192a vmovups [rdx],xmm0
1931 jmp 0000000000001B26h
1936 nop word [rax+rax]
193f nop
1940 mov rdx,[rdi+70h]
1944 vmovups ymm0,[rdx]
1949 vmovups ymm1,[rdx+20h]
194f mov r11,[rdi+50h]
1953 mov rax,[rdi+10h]
1957 mov rbp,[rdi+18h]
195b mov r12,[rdi+38h]
195f mov r13,[rdi+40h]
1963 cmp r12,r13
1966 jge near 0000000000001A37h
196c nop word [rax+rax]
1975 nop word [rax+rax]
197e xchg ax,ax
1980 vpmovsxbw ymm2,[r11]
1987 vpmovsxbw ymm3,[r11+10h]
198e vpbroadcastd ymm4,[rax+r12]
1994 vpmaddwd ymm5,ymm4,ymm2
1999 vpaddd ymm0,ymm0,ymm5
199e vpmaddwd ymm5,ymm4,ymm3
19a3 vpaddd ymm1,ymm1,ymm5
19a8 vpmovsxbw ymm2,[r11+20h]
19af vpmovsxbw ymm3,[r11+30h]
19b6 vpbroadcastd ymm4,[rax+r12+4]
19bd vpmaddwd ymm5,ymm4,ymm2
19c2 vpaddd ymm0,ymm0,ymm5
19c7 vpmaddwd ymm5,ymm4,ymm3
19cc vpaddd ymm1,ymm1,ymm5
19d1 vpmovsxbw ymm2,[r11+40h]
19d8 vpmovsxbw ymm3,[r11+50h]
19df vpbroadcastd ymm4,[rax+r12+8]
19e6 vpmaddwd ymm5,ymm4,ymm2
19eb vpaddd ymm0,ymm0,ymm5
19f0 vpmaddwd ymm5,ymm4,ymm3
19f5 vpaddd ymm1,ymm1,ymm5
19fa vpmovsxbw ymm2,[r11+60h]
1a01 vpmovsxbw ymm3,[r11+70h]
1a08 vpbroadcastd ymm4,[rax+r12+0Ch]
1a0f vpmaddwd ymm5,ymm4,ymm2
1a14 vpaddd ymm0,ymm0,ymm5
1a19 vpmaddwd ymm5,ymm4,ymm3
1a1e vpaddd ymm1,ymm1,ymm5
1a23 add r12,10h
1a27 add r11,80h
1a2e cmp r12,r13
1a31 jl near 0000000000001980h
1a37 mov r13,[rdi+48h]
1a3b cmp r12,r13
1a3e jge near 0000000000001A7Dh
1a44 vpmovsxbw ymm2,[r11]
1a4b vpmovsxbw ymm3,[r11+10h]
1a52 vpbroadcastd ymm4,[rax+r12]
1a58 vpmaddwd ymm5,ymm4,ymm2
1a5d vpaddd ymm0,ymm0,ymm5
1a62 vpmaddwd ymm5,ymm4,ymm3
1a67 vpaddd ymm1,ymm1,ymm5
1a6c add r12,4
1a70 add r11,20h
1a74 cmp r12,r13
1a77 jl near 0000000000001A44h
1a7d mov rsi,[rdi+78h]
1a81 mov r8,[rdi+80h]
1a88 vpbroadcastd ymm2,[rdi+88h]
1a91 vpbroadcastd ymm3,[rdi+8Ch]
1a9a vpbroadcastd ymm4,[rdi+90h]
1aa3 mov rdx,[rdi+58h]
1aa7 mov rbx,[rdi+60h]
1aab vcvtdq2ps ymm0,ymm0
1ab0 vmulps ymm0,ymm0,[rsi]
1ab5 vaddps ymm0,ymm0,[r8]
1aba vmaxps ymm0,ymm0,ymm2
1abf vminps ymm0,ymm0,ymm3
1ac4 vcvtps2dq ymm0,ymm0
1ac9 vpaddd ymm0,ymm0,ymm4
1ace vandps ymm0,ymm0,[rel 1B80h]
1ad7 vcvtdq2ps ymm1,ymm1
1adc vmulps ymm1,ymm1,[rsi+20h]
1ae2 vaddps ymm1,ymm1,[r8+20h]
1ae8 vmaxps ymm1,ymm1,ymm2
1aed vminps ymm1,ymm1,ymm3
1af2 vcvtps2dq ymm1,ymm1
1af7 vpaddd ymm1,ymm1,ymm4
1afc vandps ymm1,ymm1,[rel 1B80h]
1b05 vpackssdw ymm0,ymm0,ymm1
1b0a vpackuswb ymm0,ymm0,ymm0
1b0f vperm2f128 ymm5,ymm0,ymm0,1
1b15 vunpcklps ymm0,ymm0,ymm5
1b1a vmovups [rdx],xmm0
1b21 jmp 0000000000001B26h
1b26 mov rax,[rdi+10h]
1b2a add rax,[rdi+20h]
1b2e mov [rdi+10h],rax
1b32 mov rax,[rdi+58h]
1b36 add rax,[rdi+68h]
1b3a mov [rdi+58h],rax
1b3e mov rax,[rdi+8]
1b42 sub rax,1
1b46 mov [rdi+8],rax
1b4a cmp rax,0
1b4e jg near 000000000000000Ah
1b54 pop r15
1b56 pop r14
1b58 pop r13
1b5a pop r12
1b5c pop rbp
1b5d pop rbx
1b5e vzeroupper
1b61 ret
1b62 nop word [rax+rax]
1b6b nop word [rax+rax]
1b74 nop word [rax+rax]
1b7d nop dword [rax]
; [ff, 00, 00, 00]
; [ff, 00, 00, 00]
; [ff, 00, 00, 00]
; [ff, 00, 00, 00]
; [ff, 00, 00, 00]
; [ff, 00, 00, 00]
; [ff, 00, 00, 00]
; [ff, 00, 00, 00]
