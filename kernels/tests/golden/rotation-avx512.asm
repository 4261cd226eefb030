; Rotary(RotaryCode { isa: Avx512, interleaved: false })
; part 0, 1030 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi]
000d mov rdx,[rdi+8]
0011 mov r11,[rdi+20h]
0015 mov rcx,[rdi+30h]
0019 mov r10,[rdi+38h]
001d mov r8,r10
0020 and r8,0FFFFFFFFFFFFFFC0h
0024 shl r8,2
0028 mov r9,r10
002b and r9,0FFFFFFFFFFFFFFF0h
002f shl r9,2
0033 and r10,0Fh
0037 xor eax,eax
003a bts rax,r10
003e sub eax,1
0042 kmovw k1,eax
0046 mov rbx,[r11]
0049 mov r12,[rdi+38h]
004d shl r12,2
0051 imul rbx,r12
0055 mov rbp,rbx
0058 add rbx,[rdi+10h]
005c add rbp,[rdi+18h]
0060 add r11,[rdi+28h]
0064 mov r12,[rdi+38h]
0068 shl r12,2
006c mov r13,rsi
006f add r13,r12
0072 mov r14,rdx
0075 add r14,r12
0078 mov eax,0
007e cmp rax,r8
0081 jge near 00000000000001ECh
0087 nop word [rax+rax]
0090 vmovups zmm0,[rsi+rax]
0097 vmovups zmm1,[r13+rax]
009f vmovups zmm2,[rbx+rax]
00a6 vmovups zmm3,[rbp+rax]
00ae vmulps zmm4,zmm2,zmm0
00b4 vmulps zmm5,zmm3,zmm1
00ba vsubps zmm4,zmm4,zmm5
00c0 vmovups [rdx+rax],zmm4
00c7 vmulps zmm0,zmm3,zmm0
00cd vmulps zmm1,zmm2,zmm1
00d3 vaddps zmm0,zmm0,zmm1
00d9 vmovups [r14+rax],zmm0
00e0 vmovups zmm0,[rsi+rax+40h]
00e8 vmovups zmm1,[r13+rax+40h]
00f0 vmovups zmm2,[rbx+rax+40h]
00f8 vmovups zmm3,[rbp+rax+40h]
0100 vmulps zmm4,zmm2,zmm0
0106 vmulps zmm5,zmm3,zmm1
010c vsubps zmm4,zmm4,zmm5
0112 vmovups [rdx+rax+40h],zmm4
011a vmulps zmm0,zmm3,zmm0
0120 vmulps zmm1,zmm2,zmm1
0126 vaddps zmm0,zmm0,zmm1
012c vmovups [r14+rax+40h],zmm0
0134 vmovups zmm0,[rsi+rax+80h]
013c vmovups zmm1,[r13+rax+80h]
0144 vmovups zmm2,[rbx+rax+80h]
014c vmovups zmm3,[rbp+rax+80h]
0154 vmulps zmm4,zmm2,zmm0
015a vmulps zmm5,zmm3,zmm1
0160 vsubps zmm4,zmm4,zmm5
0166 vmovups [rdx+rax+80h],zmm4
016e vmulps zmm0,zmm3,zmm0
0174 vmulps zmm1,zmm2,zmm1
017a vaddps zmm0,zmm0,zmm1
0180 vmovups [r14+rax+80h],zmm0
0188 vmovups zmm0,[rsi+rax+0C0h]
0190 vmovups zmm1,[r13+rax+0C0h]
0198 vmovups zmm2,[rbx+rax+0C0h]
01a0 vmovups zmm3,[rbp+rax+0C0h]
01a8 vmulps zmm4,zmm2,zmm0
01ae vmulps zmm5,zmm3,zmm1
01b4 vsubps zmm4,zmm4,zmm5
01ba vmovups [rdx+rax+0C0h],zmm4
01c2 vmulps zmm0,zmm3,zmm0
01c8 vmulps zmm1,zmm2,zmm1
01ce vaddps zmm0,zmm0,zmm1
01d4 vmovups [r14+rax+0C0h],zmm0
01dc add rax,100h
01e3 cmp rax,r8
01e6 jl near 0000000000000090h
01ec cmp rax,r9
01ef jge near 000000000000025Dh
01f5 nop word [rax+rax]
01fe xchg ax,ax
0200 vmovups zmm0,[rsi+rax]
0207 vmovups zmm1,[r13+rax]
020f vmovups zmm2,[rbx+rax]
0216 vmovups zmm3,[rbp+rax]
021e vmulps zmm4,zmm2,zmm0
0224 vmulps zmm5,zmm3,zmm1
022a vsubps zmm4,zmm4,zmm5
0230 vmovups [rdx+rax],zmm4
0237 vmulps zmm0,zmm3,zmm0
023d vmulps zmm1,zmm2,zmm1
0243 vaddps zmm0,zmm0,zmm1
0249 vmovups [r14+rax],zmm0
0250 add rax,40h
0254 cmp rax,r9
0257 jl near 0000000000000200h
025d test r10,r10
0260 je near 00000000000002B6h
0266 vmovups zmm0{k1}{z},[rsi+rax]
026d vmovups zmm1{k1}{z},[r13+rax]
0275 vmovups zmm2{k1}{z},[rbx+rax]
027c vmovups zmm3{k1}{z},[rbp+rax]
0284 vmulps zmm4,zmm2,zmm0
028a vmulps zmm5,zmm3,zmm1
0290 vsubps zmm4,zmm4,zmm5
0296 vmovups [rdx+rax]{k1},zmm4
029d vmulps zmm0,zmm3,zmm0
02a3 vmulps zmm1,zmm2,zmm1
02a9 vaddps zmm0,zmm0,zmm1
02af vmovups [r14+rax]{k1},zmm0
02b6 mov r12,[rdi+40h]
02ba test r12,r12
02bd je near 00000000000003E1h
02c3 mov r12,[rdi+38h]
02c7 shl r12,3
02cb mov r13,rsi
02ce add r13,r12
02d1 mov r14,rdx
02d4 add r14,r12
02d7 mov r10,[rdi+40h]
02db mov r8,r10
02de and r8,0FFFFFFFFFFFFFFC0h
02e2 shl r8,2
02e6 mov r9,r10
02e9 and r9,0FFFFFFFFFFFFFFF0h
02ed shl r9,2
02f1 and r10,0Fh
02f5 xor eax,eax
02f8 bts rax,r10
02fc sub eax,1
0300 kmovw k1,eax
0304 mov eax,0
030a cmp rax,r8
030d jge near 000000000000036Fh
0313 nop word [rax+rax]
031c nop dword [rax]
0320 vmovups zmm0,[r13+rax]
0328 vmovups [r14+rax],zmm0
032f vmovups zmm0,[r13+rax+40h]
0337 vmovups [r14+rax+40h],zmm0
033f vmovups zmm0,[r13+rax+80h]
0347 vmovups [r14+rax+80h],zmm0
034f vmovups zmm0,[r13+rax+0C0h]
0357 vmovups [r14+rax+0C0h],zmm0
035f add rax,100h
0366 cmp rax,r8
0369 jl near 0000000000000320h
036f cmp rax,r9
0372 jge near 000000000000039Ch
0378 nop dword [rax+rax]
0380 vmovups zmm0,[r13+rax]
0388 vmovups [r14+rax],zmm0
038f add rax,40h
0393 cmp rax,r9
0396 jl near 0000000000000380h
039c test r10,r10
039f je near 00000000000003B4h
03a5 vmovups zmm0{k1}{z},[r13+rax]
03ad vmovups [r14+rax]{k1},zmm0
03b4 mov r10,[rdi+38h]
03b8 mov r8,r10
03bb and r8,0FFFFFFFFFFFFFFC0h
03bf shl r8,2
03c3 mov r9,r10
03c6 and r9,0FFFFFFFFFFFFFFF0h
03ca shl r9,2
03ce and r10,0Fh
03d2 xor eax,eax
03d5 bts rax,r10
03d9 sub eax,1
03dd kmovw k1,eax
03e1 mov r12,[rdi+48h]
03e5 add rsi,r12
03e8 add rdx,r12
03eb sub rcx,1
03ef test rcx,rcx
03f2 jne near 0000000000000046h
03f8 pop r15
03fa pop r14
03fc pop r13
03fe pop r12
0400 pop rbp
0401 pop rbx
0402 vzeroupper
0405 ret
