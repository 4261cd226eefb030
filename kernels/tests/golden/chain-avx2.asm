; Chain(ChainCode { isa: Avx2, program: Program { inputs: [F32], steps: [Unary(Sigmoid, 0)], output: F32 }, lanes: [Vector], unroll: 1 })
; part 0, 960 bytes
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
001d lea rdx,[rcx-20h]
0021 lea rsi,[rcx-20h]
0025 test rbx,rbx
0028 je near 0000000000000221h
002e mov eax,0
0034 cmp rax,rsi
0037 jg near 0000000000000118h
003d vmovups ymm3,[r8+rax]
0043 vmovups ymm0,[rel 240h]
004c vminps ymm3,ymm0,ymm3
0051 vmovups ymm0,[rel 260h]
005a vmaxps ymm3,ymm0,ymm3
005f vmulps ymm0,ymm3,[rel 280h]
0068 vroundps ymm0,ymm0,8
006e vfnmadd231ps ymm3,ymm0,[rel 2A0h]
0077 vfnmadd231ps ymm3,ymm0,[rel 2C0h]
0080 vmovups ymm1,[rel 2E0h]
0089 vfmadd213ps ymm1,ymm3,[rel 300h]
0092 vfmadd213ps ymm1,ymm3,[rel 320h]
009b vfmadd213ps ymm1,ymm3,[rel 340h]
00a4 vfmadd213ps ymm1,ymm3,[rel 360h]
00ad vfmadd213ps ymm1,ymm3,[rel 380h]
00b6 vfmadd213ps ymm3,ymm1,[rel 380h]
00bf vcvtps2dq ymm1,ymm0
00c4 vpsrad ymm2,ymm1,1
00ca vpsubd ymm1,ymm1,ymm2
00cf vpslld ymm2,ymm2,17h
00d5 vpslld ymm1,ymm1,17h
00db vpaddd ymm2,ymm2,[rel 380h]
00e4 vpaddd ymm1,ymm1,[rel 380h]
00ed vmulps ymm3,ymm3,ymm2
00f2 vmulps ymm3,ymm3,ymm1
00f7 vaddps ymm0,ymm3,[rel 380h]
0100 vdivps ymm3,ymm3,ymm0
0105 vmovups [r14+rax],ymm3
010b add rax,20h
010f cmp rax,rsi
0112 jle near 000000000000003Dh
0118 cmp rax,rcx
011b je near 000000000000020Ch
0121 mov r15,rcx
0124 sub r15,rax
0127 shr r15,2
012b vmovd xmm4,r15d
0130 vpbroadcastd ymm4,xmm4
0135 vpcmpgtd ymm4,ymm4,[rel 3A0h]
013e vmaskmovps ymm3,ymm4,[r8+rax]
0144 vmovups ymm0,[rel 240h]
014d vminps ymm3,ymm0,ymm3
0152 vmovups ymm0,[rel 260h]
015b vmaxps ymm3,ymm0,ymm3
0160 vmulps ymm0,ymm3,[rel 280h]
0169 vroundps ymm0,ymm0,8
016f vfnmadd231ps ymm3,ymm0,[rel 2A0h]
0178 vfnmadd231ps ymm3,ymm0,[rel 2C0h]
0181 vmovups ymm1,[rel 2E0h]
018a vfmadd213ps ymm1,ymm3,[rel 300h]
0193 vfmadd213ps ymm1,ymm3,[rel 320h]
019c vfmadd213ps ymm1,ymm3,[rel 340h]
01a5 vfmadd213ps ymm1,ymm3,[rel 360h]
01ae vfmadd213ps ymm1,ymm3,[rel 380h]
01b7 vfmadd213ps ymm3,ymm1,[rel 380h]
01c0 vcvtps2dq ymm1,ymm0
01c5 vpsrad ymm2,ymm1,1
01cb vpsubd ymm1,ymm1,ymm2
01d0 vpslld ymm2,ymm2,17h
01d6 vpslld ymm1,ymm1,17h
01dc vpaddd ymm2,ymm2,[rel 380h]
01e5 vpaddd ymm1,ymm1,[rel 380h]
01ee vmulps ymm3,ymm3,ymm2
01f3 vmulps ymm3,ymm3,ymm1
01f8 vaddps ymm0,ymm3,[rel 380h]
0201 vdivps ymm3,ymm3,ymm0
0206 vmaskmovps [r14+rax],ymm4,ymm3
020c add r8,[rdi+48h]
0210 add r14,[rdi+78h]
0214 sub rbx,1
0218 test rbx,rbx
021b jne near 000000000000002Eh
0221 pop r15
0223 pop r14
0225 pop r13
0227 pop r12
0229 pop rbp
022a pop rbx
022b vzeroupper
022e ret
022f nop word [rax+rax]
0238 nop dword [rax+rax]
; [00, 00, b0, 42]
; [00, 00, b0, 42]
; [00, 00, b0, 42]
; [00, 00, b0, 42]
; [00, 00, b0, 42]
; [00, 00, b0, 42]
; [00, 00, b0, 42]
; [00, 00, b0, 42]
; [00, 00, d1, c2]
; [00, 00, d1, c2]
; [00, 00, d1, c2]
; [00, 00, d1, c2]
; [00, 00, d1, c2]
; [00, 00, d1, c2]
; [00, 00, d1, c2]
; [00, 00, d1, c2]
; [3b, aa, b8, 3f]
; [3b, aa, b8, 3f]
; [3b, aa, b8, 3f]
; [3b, aa, b8, 3f]
; [3b, aa, b8, 3f]
; [3b, aa, b8, 3f]
; [3b, aa, b8, 3f]
; [3b, aa, b8, 3f]
; [00, 72, 31, 3f]
; [00, 72, 31, 3f]
; [00, 72, 31, 3f]
; [00, 72, 31, 3f]
; [00, 72, 31, 3f]
; [00, 72, 31, 3f]
; [00, 72, 31, 3f]
; [00, 72, 31, 3f]
; [8e, be, bf, 35]
; [8e, be, bf, 35]
; [8e, be, bf, 35]
; [8e, be, bf, 35]
; [8e, be, bf, 35]
; [8e, be, bf, 35]
; [8e, be, bf, 35]
; [8e, be, bf, 35]
; [34, ce, b5, 3a]
; [34, ce, b5, 3a]
; [34, ce, b5, 3a]
; [34, ce, b5, 3a]
; [34, ce, b5, 3a]
; [34, ce, b5, 3a]
; [34, ce, b5, 3a]
; [34, ce, b5, 3a]
; [a5, 12, 09, 3c]
; [a5, 12, 09, 3c]
; [a5, 12, 09, 3c]
; [a5, 12, 09, 3c]
; [a5, 12, 09, 3c]
; [a5, 12, 09, 3c]
; [a5, 12, 09, 3c]
; [a5, 12, 09, 3c]
; [79, ab, 2a, 3d]
; [79, ab, 2a, 3d]
; [79, ab, 2a, 3d]
; [79, ab, 2a, 3d]
; [79, ab, 2a, 3d]
; [79, ab, 2a, 3d]
; [79, ab, 2a, 3d]
; [79, ab, 2a, 3d]
; [5a, aa, 2a, 3e]
; [5a, aa, 2a, 3e]
; [5a, aa, 2a, 3e]
; [5a, aa, 2a, 3e]
; [5a, aa, 2a, 3e]
; [5a, aa, 2a, 3e]
; [5a, aa, 2a, 3e]
; [5a, aa, 2a, 3e]
; [ff, ff, ff, 3e]
; [ff, ff, ff, 3e]
; [ff, ff, ff, 3e]
; [ff, ff, ff, 3e]
; [ff, ff, ff, 3e]
; [ff, ff, ff, 3e]
; [ff, ff, ff, 3e]
; [ff, ff, ff, 3e]
; [00, 00, 80, 3f]
; [00, 00, 80, 3f]
; [00, 00, 80, 3f]
; [00, 00, 80, 3f]
; [00, 00, 80, 3f]
; [00, 00, 80, 3f]
; [00, 00, 80, 3f]
; [00, 00, 80, 3f]
; [00, 00, 00, 00]
; [01, 00, 00, 00]
; [02, 00, 00, 00]
; [03, 00, 00, 00]
; [04, 00, 00, 00]
; [05, 00, 00, 00]
; [06, 00, 00, 00]
; [07, 00, 00, 00]
