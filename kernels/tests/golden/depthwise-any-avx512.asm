; Depthwise(DepthwiseCode { isa: Avx512, activation: Some(Relu), stored: F32 })
; part 0, 6983 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov r8,[rdi+28h]
000e lea r9,[r8+r8*2]
0012 lea r10,[r8+r8*4]
0016 lea r11,[r9+r8*4]
001a mov r13,[rdi+40h]
001e mov rax,[rdi]
0021 cmp rax,8
0025 je near 0000000000000080h
002b cmp rax,7
002f je near 0000000000000580h
0035 cmp rax,6
0039 je near 0000000000000A00h
003f cmp rax,5
0043 je near 0000000000000E10h
0049 cmp rax,4
004d je near 00000000000011A0h
0053 cmp rax,3
0057 je near 00000000000014C0h
005d cmp rax,2
0061 je near 0000000000001760h
0067 cmp rax,1
006b je near 0000000000001990h
0071 jmp 0000000000001B39h
0076 nop word [rax+rax]
007f nop
; 1134 instructions are left out
1760 mov esi,0
1766 mov r15,[rdi+68h]
176a cmp rsi,r15
176d jge near 0000000000001853h
1773 mov rdx,[rdi+50h]
1777 test rdx,rdx
177a je near 0000000000001792h
1780 vmovups zmm0,[rdx+rsi]
1787 vmovups zmm1,zmm0
178d jmp 000000000000179Eh
1792 vpxord zmm0,zmm0,zmm0
1798 vpxord zmm1,zmm1,zmm1
179e mov rax,[rdi+10h]
17a2 mov rcx,[rdi+18h]
17a6 mov r14,[rdi+20h]
17aa add r14,rsi
17ad cmp rax,rcx
17b0 je near 00000000000017E1h
17b6 mov rdx,[rax]
17b9 mov rbx,[rax+8]
17bd add rdx,r14
17c0 vmovups zmm8,[rbx+rsi]
17c7 vfmadd231ps zmm0,zmm8,[rdx]
17cd vfmadd231ps zmm1,zmm8,[rdx+r8]
17d4 add rax,10h
17d8 cmp rax,rcx
17db jne near 00000000000017B6h
17e1 mov rbp,[rdi+58h]
17e5 test rbp,rbp
17e8 je near 0000000000001816h
17ee mov rbp,[rdi+60h]
17f2 mov r12,[rdi+38h]
17f6 add r12,rsi
17f9 vmovups zmm8,[r12+rbp]
1800 vaddps zmm0,zmm0,zmm8
1806 add r12,r13
1809 vmovups zmm8,[r12+rbp]
1810 vaddps zmm1,zmm1,zmm8
1816 vpxord zmm2,zmm2,zmm2
181c vmaxps zmm0,zmm2,zmm0
1822 vpxord zmm2,zmm2,zmm2
1828 vmaxps zmm1,zmm2,zmm1
182e mov r12,[rdi+38h]
1832 add r12,rsi
1835 vmovups [r12],zmm0
183c add r12,r13
183f vmovups [r12],zmm1
1846 add rsi,40h
184a cmp rsi,r15
184d jl near 0000000000001773h
1853 mov rax,[rdi+70h]
1857 test rax,rax
185a je near 000000000000194Eh
1860 xor ecx,ecx
1863 bts rcx,rax
1867 sub ecx,1
186b kmovw k1,ecx
186f mov rdx,[rdi+50h]
1873 test rdx,rdx
1876 je near 000000000000188Eh
187c vmovups zmm0{k1}{z},[rdx+rsi]
1883 vmovups zmm1,zmm0
1889 jmp 000000000000189Ah
188e vpxord zmm0,zmm0,zmm0
1894 vpxord zmm1,zmm1,zmm1
189a mov rax,[rdi+10h]
189e mov rcx,[rdi+18h]
18a2 mov r14,[rdi+20h]
18a6 add r14,rsi
18a9 cmp rax,rcx
18ac je near 00000000000018E9h
18b2 mov rdx,[rax]
18b5 mov rbx,[rax+8]
18b9 add rdx,r14
18bc vmovups zmm8{k1}{z},[rbx+rsi]
18c3 vmovups zmm9{k1}{z},[rdx]
18c9 vfmadd231ps zmm0,zmm8,zmm9
18cf vmovups zmm9{k1}{z},[rdx+r8]
18d6 vfmadd231ps zmm1,zmm8,zmm9
18dc add rax,10h
18e0 cmp rax,rcx
18e3 jne near 00000000000018B2h
18e9 mov rbp,[rdi+58h]
18ed test rbp,rbp
18f0 je near 000000000000191Eh
18f6 mov rbp,[rdi+60h]
18fa mov r12,[rdi+38h]
18fe add r12,rsi
1901 vmovups zmm8{k1}{z},[r12+rbp]
1908 vaddps zmm0,zmm0,zmm8
190e add r12,r13
1911 vmovups zmm8{k1}{z},[r12+rbp]
1918 vaddps zmm1,zmm1,zmm8
191e vpxord zmm2,zmm2,zmm2
1924 vmaxps zmm0,zmm2,zmm0
192a vpxord zmm2,zmm2,zmm2
1930 vmaxps zmm1,zmm2,zmm1
1936 mov r12,[rdi+38h]
193a add r12,rsi
193d vmovups [r12]{k1},zmm0
1944 add r12,r13
1947 vmovups [r12]{k1},zmm1
194e mov rax,[rdi+20h]
1952 add rax,[rdi+30h]
1956 mov [rdi+20h],rax
195a mov rax,[rdi+38h]
195e add rax,[rdi+48h]
1962 mov [rdi+38h],rax
1966 mov rax,[rdi+8]
196a sub rax,1
196e mov [rdi+8],rax
1972 cmp rax,0
1976 jg near 0000000000001760h
197c jmp 0000000000001B39h
1981 nop word [rax+rax]
198a nop word [rax+rax]
1990 mov esi,0
1996 mov r15,[rdi+68h]
199a cmp rsi,r15
199d jge near 0000000000001A4Ah
19a3 mov rdx,[rdi+50h]
19a7 test rdx,rdx
19aa je near 00000000000019BCh
19b0 vmovups zmm0,[rdx+rsi]
19b7 jmp 00000000000019C2h
19bc vpxord zmm0,zmm0,zmm0
19c2 mov rax,[rdi+10h]
19c6 mov rcx,[rdi+18h]
19ca mov r14,[rdi+20h]
19ce add r14,rsi
19d1 cmp rax,rcx
19d4 je near 00000000000019FEh
19da mov rdx,[rax]
19dd mov rbx,[rax+8]
19e1 add rdx,r14
19e4 vmovups zmm8,[rbx+rsi]
19eb vfmadd231ps zmm0,zmm8,[rdx]
19f1 add rax,10h
19f5 cmp rax,rcx
19f8 jne near 00000000000019DAh
19fe mov rbp,[rdi+58h]
1a02 test rbp,rbp
1a05 je near 0000000000001A23h
1a0b mov rbp,[rdi+60h]
1a0f mov r12,[rdi+38h]
1a13 add r12,rsi
1a16 vmovups zmm8,[r12+rbp]
1a1d vaddps zmm0,zmm0,zmm8
1a23 vpxord zmm1,zmm1,zmm1
1a29 vmaxps zmm0,zmm1,zmm0
1a2f mov r12,[rdi+38h]
1a33 add r12,rsi
1a36 vmovups [r12],zmm0
1a3d add rsi,40h
1a41 cmp rsi,r15
1a44 jl near 00000000000019A3h
1a4a mov rax,[rdi+70h]
1a4e test rax,rax
1a51 je near 0000000000001B06h
1a57 xor ecx,ecx
1a5a bts rcx,rax
1a5e sub ecx,1
1a62 kmovw k1,ecx
1a66 mov rdx,[rdi+50h]
1a6a test rdx,rdx
1a6d je near 0000000000001A7Fh
1a73 vmovups zmm0{k1}{z},[rdx+rsi]
1a7a jmp 0000000000001A85h
1a7f vpxord zmm0,zmm0,zmm0
1a85 mov rax,[rdi+10h]
1a89 mov rcx,[rdi+18h]
1a8d mov r14,[rdi+20h]
1a91 add r14,rsi
1a94 cmp rax,rcx
1a97 je near 0000000000001AC7h
1a9d mov rdx,[rax]
1aa0 mov rbx,[rax+8]
1aa4 add rdx,r14
1aa7 vmovups zmm8{k1}{z},[rbx+rsi]
1aae vmovups zmm9{k1}{z},[rdx]
1ab4 vfmadd231ps zmm0,zmm8,zmm9
1aba add rax,10h
1abe cmp rax,rcx
1ac1 jne near 0000000000001A9Dh
1ac7 mov rbp,[rdi+58h]
1acb test rbp,rbp
1ace je near 0000000000001AECh
1ad4 mov rbp,[rdi+60h]
1ad8 mov r12,[rdi+38h]
1adc add r12,rsi
1adf vmovups zmm8{k1}{z},[r12+rbp]
1ae6 vaddps zmm0,zmm0,zmm8
1aec vpxord zmm1,zmm1,zmm1
1af2 vmaxps zmm0,zmm1,zmm0
1af8 mov r12,[rdi+38h]
1afc add r12,rsi
1aff vmovups [r12]{k1},zmm0
1b06 mov rax,[rdi+20h]
1b0a add rax,[rdi+30h]
1b0e mov [rdi+20h],rax
1b12 mov rax,[rdi+38h]
1b16 add rax,[rdi+48h]
1b1a mov [rdi+38h],rax
1b1e mov rax,[rdi+8]
1b22 sub rax,1
1b26 mov [rdi+8],rax
1b2a cmp rax,0
1b2e jg near 0000000000001990h
1b34 jmp 0000000000001B39h
1b39 pop r15
1b3b pop r14
1b3d pop r13
1b3f pop r12
1b41 pop rbp
1b42 pop rbx
1b43 vzeroupper
1b46 ret
