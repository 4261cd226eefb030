; Chain(ChainCode { isa: Avx512, program: Program { inputs: [F32], steps: [Unary(Sigmoid, 0)], output: F32 }, lanes: [Vector], unroll: 1 })
; part 0, 556 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov r8,[rdi]
000d mov r14,[rdi+30h]
0011 mov rbx,[rdi+38h]
0015 mov rcx,[rdi+40h]
0019 shl rcx,2
001d lea rdx,[rcx-40h]
0021 lea rsi,[rcx-40h]
0025 test rbx,rbx
0028 je near 00000000000001DFh
002e mov eax,0
0034 cmp rax,rsi
0037 jg near 00000000000000F9h
003d vmovups zmm3,[r8+rax]
0044 vbroadcastss zmm0,[rel 200h]
004e vminps zmm3,zmm0,zmm3
0054 vbroadcastss zmm0,[rel 204h]
005e vmaxps zmm3,zmm0,zmm3
0064 vmulps zmm0,zmm3,[rel 208h]{1to16}
006e vrndscaleps zmm0,zmm0,8
0075 vfnmadd231ps zmm3,zmm0,[rel 20Ch]{1to16}
007f vfnmadd231ps zmm3,zmm0,[rel 210h]{1to16}
0089 vbroadcastss zmm1,[rel 214h]
0093 vfmadd213ps zmm1,zmm3,[rel 218h]{1to16}
009d vfmadd213ps zmm1,zmm3,[rel 21Ch]{1to16}
00a7 vfmadd213ps zmm1,zmm3,[rel 220h]{1to16}
00b1 vfmadd213ps zmm1,zmm3,[rel 224h]{1to16}
00bb vfmadd213ps zmm1,zmm3,[rel 228h]{1to16}
00c5 vfmadd213ps zmm3,zmm1,[rel 228h]{1to16}
00cf vscalefps zmm3,zmm3,zmm0
00d5 vaddps zmm0,zmm3,[rel 228h]{1to16}
00df vdivps zmm3,zmm3,zmm0
00e5 vmovups [r14+rax],zmm3
00ec add rax,40h
00f0 cmp rax,rsi
00f3 jle near 000000000000003Dh
00f9 cmp rax,rcx
00fc je near 00000000000001CAh
0102 mov r15,rcx
0105 sub r15,rax
0108 shr r15,2
010c xor ebp,ebp
010f bts rbp,r15
0113 sub ebp,1
0117 kmovw k1,ebp
011b vmovups zmm3{k1}{z},[r8+rax]
0122 vbroadcastss zmm0,[rel 200h]
012c vminps zmm3,zmm0,zmm3
0132 vbroadcastss zmm0,[rel 204h]
013c vmaxps zmm3,zmm0,zmm3
0142 vmulps zmm0,zmm3,[rel 208h]{1to16}
014c vrndscaleps zmm0,zmm0,8
0153 vfnmadd231ps zmm3,zmm0,[rel 20Ch]{1to16}
015d vfnmadd231ps zmm3,zmm0,[rel 210h]{1to16}
0167 vbroadcastss zmm1,[rel 214h]
0171 vfmadd213ps zmm1,zmm3,[rel 218h]{1to16}
017b vfmadd213ps zmm1,zmm3,[rel 21Ch]{1to16}
0185 vfmadd213ps zmm1,zmm3,[rel 220h]{1to16}
018f vfmadd213ps zmm1,zmm3,[rel 224h]{1to16}
0199 vfmadd213ps zmm1,zmm3,[rel 228h]{1to16}
01a3 vfmadd213ps zmm3,zmm1,[rel 228h]{1to16}
01ad vscalefps zmm3,zmm3,zmm0
01b3 vaddps zmm0,zmm3,[rel 228h]{1to16}
01bd vdivps zmm3,zmm3,zmm0
01c3 vmovups [r14+rax]{k1},zmm3
01ca add r8,[rdi+48h]
01ce add r14,[rdi+78h]
01d2 sub rbx,1
01d6 test rbx,rbx
01d9 jne near 000000000000002Eh
01df pop r15
01e1 pop r14
01e3 pop r13
01e5 pop r12
01e7 pop rbp
01e8 pop rbx
01e9 vzeroupper
01ec ret
01ed nop word [rax+rax]
01f6 nop word [rax+rax]
01ff nop
; [00, 00, b0, 42]
; [00, 00, d1, c2]
; [3b, aa, b8, 3f]
; [00, 72, 31, 3f]
; [8e, be, bf, 35]
; [34, ce, b5, 3a]
; [a5, 12, 09, 3c]
; [79, ab, 2a, 3d]
; [5a, aa, 2a, 3e]
; [ff, ff, ff, 3e]
; [00, 00, 80, 3f]
