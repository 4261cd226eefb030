; Reduce(ReduceCode { isa: Avx512, pass: Pass { map: Square, fold: Add, finish: Sqrt }, walk: Rows, centred: false })
; part 0, 378 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi]
000d mov rdx,[rdi+8]
0011 mov r11,[rdi+20h]
0015 vbroadcastss zmm8,[rdi+28h]
001c mov r10,[rdi+18h]
0020 mov r8,r10
0023 and r8,0FFFFFFFFFFFFFFC0h
0027 shl r8,2
002b mov r9,r10
002e and r9,0FFFFFFFFFFFFFFF0h
0032 shl r9,2
0036 and r10,0Fh
003a xor eax,eax
003d bts rax,r10
0041 sub eax,1
0045 kmovw k1,eax
0049 mov rcx,[rdi+10h]
004d vpxord zmm0,zmm0,zmm0
0053 vpxord zmm1,zmm1,zmm1
0059 vpxord zmm2,zmm2,zmm2
005f vpxord zmm3,zmm3,zmm3
0065 mov eax,0
006b cmp rax,r8
006e jge near 00000000000000C7h
0074 nop word [rax+rax]
007d nop dword [rax]
0080 vmovups zmm9,[rsi+rax]
0087 vfmadd231ps zmm0,zmm9,zmm9
008d vmovups zmm9,[rsi+rax+40h]
0095 vfmadd231ps zmm1,zmm9,zmm9
009b vmovups zmm9,[rsi+rax+80h]
00a3 vfmadd231ps zmm2,zmm9,zmm9
00a9 vmovups zmm9,[rsi+rax+0C0h]
00b1 vfmadd231ps zmm3,zmm9,zmm9
00b7 add rax,100h
00be cmp rax,r8
00c1 jl near 0000000000000080h
00c7 cmp rax,r9
00ca jge near 00000000000000EAh
00d0 vmovups zmm9,[rsi+rax]
00d7 vfmadd231ps zmm0,zmm9,zmm9
00dd add rax,40h
00e1 cmp rax,r9
00e4 jl near 00000000000000D0h
00ea test r10,r10
00ed je near 0000000000000100h
00f3 vmovups zmm9{k1}{z},[rsi+rax]
00fa vfmadd231ps zmm0,zmm9,zmm9
0100 vaddps zmm0,zmm0,zmm1
0106 vaddps zmm2,zmm2,zmm3
010c vaddps zmm0,zmm0,zmm2
0112 vshuff32x4 zmm10,zmm0,zmm0,4Eh
0119 vaddps zmm0,zmm0,zmm10
011f vshuff32x4 zmm10,zmm0,zmm0,0B1h
0126 vaddps zmm0,zmm0,zmm10
012c vpermilps zmm10,zmm0,4Eh
0133 vaddps zmm0,zmm0,zmm10
0139 vpermilps zmm10,zmm0,0B1h
0140 vaddps zmm0,zmm0,zmm10
0146 vmulps zmm0,zmm0,zmm8
014c vsqrtps zmm0,zmm0
0152 vmovss [rdx],xmm0
0158 add rsi,r11
015b add rdx,4
015f sub rcx,1
0163 test rcx,rcx
0166 jne near 000000000000004Dh
016c pop r15
016e pop r14
0170 pop r13
0172 pop r12
0174 pop rbp
0175 pop rbx
0176 vzeroupper
0179 ret
