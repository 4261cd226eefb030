; Gates(GateCode { isa: Avx512, gates: GruReset { activation: Affine { alpha: 0.2, beta: 0.5 } }, clip: None })
; part 0, 392 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi]
000d mov rdx,[rdi+8]
0011 mov rcx,[rdi+18h]
0015 mov r10,[rdi+28h]
0019 mov r11,[rdi+38h]
001d mov rax,[rdi+40h]
0021 mov rbx,[rdi+20h]
0025 mov r12,[rdi+30h]
0029 mov r13,[rdi+10h]
002d mov r14,[rdi+48h]
0031 lea r8,[r14+r14]
0035 shl r8,1
0039 lea r9,[r8+r8*2]
003d nop dword [rax]
0040 cmp r14,10h
0044 jl near 00000000000000DEh
004a vmovups zmm0,[rsi]
0050 vmovups zmm8,[rdx]
0056 vaddps zmm0,zmm0,zmm8
005c vmulps zmm0,zmm0,[rel 180h]{1to16}
0066 vaddps zmm0,zmm0,[rel 184h]{1to16}
0070 vmovups [r12],zmm0
0077 vmovups zmm1,[rsi+r8]
007e vmovups zmm8,[rdx+r8]
0085 vaddps zmm1,zmm1,zmm8
008b vmulps zmm1,zmm1,[rel 180h]{1to16}
0095 vaddps zmm1,zmm1,[rel 184h]{1to16}
009f vmovups zmm2,[rbx]
00a5 vmulps zmm1,zmm1,zmm2
00ab vmovups [r11],zmm1
00b1 add rsi,40h
00b5 add rdx,40h
00b9 add rcx,40h
00bd add r10,40h
00c1 add r11,40h
00c5 add rax,40h
00c9 add rbx,40h
00cd add r12,40h
00d1 add r13,40h
00d5 sub r14,10h
00d9 jmp 0000000000000040h
00de test r14,r14
00e1 je near 000000000000015Eh
00e7 xor r15d,r15d
00ea bts r15,r14
00ee sub r15d,1
00f2 kmovw k1,r15d
00f7 vmovups zmm0{k1}{z},[rsi]
00fd vmovups zmm8{k1}{z},[rdx]
0103 vaddps zmm0,zmm0,zmm8
0109 vmulps zmm0,zmm0,[rel 180h]{1to16}
0113 vaddps zmm0,zmm0,[rel 184h]{1to16}
011d vmovups [r12]{k1},zmm0
0124 vmovups zmm1{k1}{z},[rsi+r8]
012b vmovups zmm8{k1}{z},[rdx+r8]
0132 vaddps zmm1,zmm1,zmm8
0138 vmulps zmm1,zmm1,[rel 180h]{1to16}
0142 vaddps zmm1,zmm1,[rel 184h]{1to16}
014c vmovups zmm2{k1}{z},[rbx]
0152 vmulps zmm1,zmm1,zmm2
0158 vmovups [r11]{k1},zmm1
015e pop r15
0160 pop r14
0162 pop r13
0164 pop r12
0166 pop rbp
0167 pop rbx
0168 vzeroupper
016b ret
016c nop word [rax+rax]
0175 nop word [rax+rax]
017e xchg ax,ax
; [cd, cc, 4c, 3e]
; [00, 00, 00, 3f]
