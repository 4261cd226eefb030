; Rotary(RotaryCode { isa: Avx512, interleaved: true })
; part 0, 1344 bytes
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
0019 vmovups zmm10,[rel 480h]
0023 vmovups zmm11,[rel 4C0h]
002d vmovups zmm0,[rel 500h]
0037 mov ebx,8
003d xor r12d,r12d
0040 bts r12,rbx
0044 sub r12d,1
0048 kmovw k2,r12d
004d vblendmps zmm11{k2},zmm0,zmm11
0053 mov ebx,8
0059 xor r12d,r12d
005c bts r12,rbx
0060 sub r12d,1
0064 kmovw k2,r12d
0069 mov rbx,[rdi+38h]
006d and rbx,7
0071 xor r12d,r12d
0074 bts r12,rbx
0078 sub r12d,1
007c kmovw k3,r12d
0081 mov r10,[rdi+38h]
0085 shl r10,1
0089 mov r8,r10
008c and r8,0FFFFFFFFFFFFFFC0h
0090 shl r8,2
0094 mov r9,r10
0097 and r9,0FFFFFFFFFFFFFFF0h
009b shl r9,2
009f and r10,0Fh
00a3 xor eax,eax
00a6 bts rax,r10
00aa sub eax,1
00ae kmovw k1,eax
00b2 mov rbx,[r11]
00b5 mov r12,[rdi+38h]
00b9 shl r12,2
00bd imul rbx,r12
00c1 mov rbp,rbx
00c4 add rbx,[rdi+10h]
00c8 add rbp,[rdi+18h]
00cc add r11,[rdi+28h]
00d0 mov eax,0
00d6 cmp rax,r8
00d9 jge near 0000000000000241h
00df nop
00e0 vmovups zmm0,[rsi+rax]
00e7 vpermilps zmm1,zmm0,0B1h
00ee mov r15,rax
00f1 shr r15,1
00f5 vmovups zmm2{k2}{z},[rbx+r15]
00fc vpermps zmm2,zmm11,zmm2
0102 vmovups zmm3{k2}{z},[rbp+r15]
010a vpermps zmm3,zmm11,zmm3
0110 vmulps zmm0,zmm2,zmm0
0116 vmulps zmm1,zmm3,zmm1
011c vxorps zmm1,zmm1,zmm10
0122 vaddps zmm0,zmm0,zmm1
0128 vmovups [rdx+rax],zmm0
012f vmovups zmm0,[rsi+rax+40h]
0137 vpermilps zmm1,zmm0,0B1h
013e mov r15,rax
0141 shr r15,1
0145 vmovups zmm2{k2}{z},[rbx+r15+20h]
0150 vpermps zmm2,zmm11,zmm2
0156 vmovups zmm3{k2}{z},[rbp+r15+20h]
0161 vpermps zmm3,zmm11,zmm3
0167 vmulps zmm0,zmm2,zmm0
016d vmulps zmm1,zmm3,zmm1
0173 vxorps zmm1,zmm1,zmm10
0179 vaddps zmm0,zmm0,zmm1
017f vmovups [rdx+rax+40h],zmm0
0187 vmovups zmm0,[rsi+rax+80h]
018f vpermilps zmm1,zmm0,0B1h
0196 mov r15,rax
0199 shr r15,1
019d vmovups zmm2{k2}{z},[rbx+r15+40h]
01a5 vpermps zmm2,zmm11,zmm2
01ab vmovups zmm3{k2}{z},[rbp+r15+40h]
01b3 vpermps zmm3,zmm11,zmm3
01b9 vmulps zmm0,zmm2,zmm0
01bf vmulps zmm1,zmm3,zmm1
01c5 vxorps zmm1,zmm1,zmm10
01cb vaddps zmm0,zmm0,zmm1
01d1 vmovups [rdx+rax+80h],zmm0
01d9 vmovups zmm0,[rsi+rax+0C0h]
01e1 vpermilps zmm1,zmm0,0B1h
01e8 mov r15,rax
01eb shr r15,1
01ef vmovups zmm2{k2}{z},[rbx+r15+60h]
01fa vpermps zmm2,zmm11,zmm2
0200 vmovups zmm3{k2}{z},[rbp+r15+60h]
020b vpermps zmm3,zmm11,zmm3
0211 vmulps zmm0,zmm2,zmm0
0217 vmulps zmm1,zmm3,zmm1
021d vxorps zmm1,zmm1,zmm10
0223 vaddps zmm0,zmm0,zmm1
0229 vmovups [rdx+rax+0C0h],zmm0
0231 add rax,100h
0238 cmp rax,r8
023b jl near 00000000000000E0h
0241 cmp rax,r9
0244 jge near 00000000000002ACh
024a nop word [rax+rax]
0250 vmovups zmm0,[rsi+rax]
0257 vpermilps zmm1,zmm0,0B1h
025e mov r15,rax
0261 shr r15,1
0265 vmovups zmm2{k2}{z},[rbx+r15]
026c vpermps zmm2,zmm11,zmm2
0272 vmovups zmm3{k2}{z},[rbp+r15]
027a vpermps zmm3,zmm11,zmm3
0280 vmulps zmm0,zmm2,zmm0
0286 vmulps zmm1,zmm3,zmm1
028c vxorps zmm1,zmm1,zmm10
0292 vaddps zmm0,zmm0,zmm1
0298 vmovups [rdx+rax],zmm0
029f add rax,40h
02a3 cmp rax,r9
02a6 jl near 0000000000000250h
02ac test r10,r10
02af je near 0000000000000304h
02b5 vmovups zmm0{k1}{z},[rsi+rax]
02bc vpermilps zmm1,zmm0,0B1h
02c3 mov r15,rax
02c6 shr r15,1
02ca vmovups zmm2{k3}{z},[rbx+r15]
02d1 vpermps zmm2,zmm11,zmm2
02d7 vmovups zmm3{k3}{z},[rbp+r15]
02df vpermps zmm3,zmm11,zmm3
02e5 vmulps zmm0,zmm2,zmm0
02eb vmulps zmm1,zmm3,zmm1
02f1 vxorps zmm1,zmm1,zmm10
02f7 vaddps zmm0,zmm0,zmm1
02fd vmovups [rdx+rax]{k1},zmm0
0304 mov r12,[rdi+40h]
0308 test r12,r12
030b je near 000000000000044Dh
0311 mov r12,[rdi+38h]
0315 shl r12,3
0319 mov r13,rsi
031c add r13,r12
031f mov r14,rdx
0322 add r14,r12
0325 mov r10,[rdi+40h]
0329 mov r8,r10
032c and r8,0FFFFFFFFFFFFFFC0h
0330 shl r8,2
0334 mov r9,r10
0337 and r9,0FFFFFFFFFFFFFFF0h
033b shl r9,2
033f and r10,0Fh
0343 xor eax,eax
0346 bts rax,r10
034a sub eax,1
034e kmovw k1,eax
0352 mov eax,0
0358 cmp rax,r8
035b jge near 00000000000003BFh
0361 nop word [rax+rax]
036a nop word [rax+rax]
0370 vmovups zmm0,[r13+rax]
0378 vmovups [r14+rax],zmm0
037f vmovups zmm0,[r13+rax+40h]
0387 vmovups [r14+rax+40h],zmm0
038f vmovups zmm0,[r13+rax+80h]
0397 vmovups [r14+rax+80h],zmm0
039f vmovups zmm0,[r13+rax+0C0h]
03a7 vmovups [r14+rax+0C0h],zmm0
03af add rax,100h
03b6 cmp rax,r8
03b9 jl near 0000000000000370h
03bf cmp rax,r9
03c2 jge near 00000000000003ECh
03c8 nop dword [rax+rax]
03d0 vmovups zmm0,[r13+rax]
03d8 vmovups [r14+rax],zmm0
03df add rax,40h
03e3 cmp rax,r9
03e6 jl near 00000000000003D0h
03ec test r10,r10
03ef je near 0000000000000404h
03f5 vmovups zmm0{k1}{z},[r13+rax]
03fd vmovups [r14+rax]{k1},zmm0
0404 mov rbx,[rdi+38h]
0408 and rbx,7
040c xor r12d,r12d
040f bts r12,rbx
0413 sub r12d,1
0417 kmovw k3,r12d
041c mov r10,[rdi+38h]
0420 shl r10,1
0424 mov r8,r10
0427 and r8,0FFFFFFFFFFFFFFC0h
042b shl r8,2
042f mov r9,r10
0432 and r9,0FFFFFFFFFFFFFFF0h
0436 shl r9,2
043a and r10,0Fh
043e xor eax,eax
0441 bts rax,r10
0445 sub eax,1
0449 kmovw k1,eax
044d mov r12,[rdi+48h]
0451 add rsi,r12
0454 add rdx,r12
0457 sub rcx,1
045b test rcx,rcx
045e jne near 00000000000000B2h
0464 pop r15
0466 pop r14
0468 pop r13
046a pop r12
046c pop rbp
046d pop rbx
046e vzeroupper
0471 ret
0472 nop word [rax+rax]
047b nop dword [rax+rax]
; [00, 00, 00, 80]
; [00, 00, 00, 00]
; [00, 00, 00, 80]
; [00, 00, 00, 00]
; [00, 00, 00, 80]
; [00, 00, 00, 00]
; [00, 00, 00, 80]
; [00, 00, 00, 00]
; [00, 00, 00, 80]
; [00, 00, 00, 00]
; [00, 00, 00, 80]
; [00, 00, 00, 00]
; [00, 00, 00, 80]
; [00, 00, 00, 00]
; [00, 00, 00, 80]
; [00, 00, 00, 00]
; [00, 00, 00, 00]
; [00, 00, 00, 00]
; [01, 00, 00, 00]
; [01, 00, 00, 00]
; [02, 00, 00, 00]
; [02, 00, 00, 00]
; [03, 00, 00, 00]
; [03, 00, 00, 00]
; [00, 00, 00, 00]
; [00, 00, 00, 00]
; [01, 00, 00, 00]
; [01, 00, 00, 00]
; [02, 00, 00, 00]
; [02, 00, 00, 00]
; [03, 00, 00, 00]
; [03, 00, 00, 00]
; [04, 00, 00, 00]
; [04, 00, 00, 00]
; [05, 00, 00, 00]
; [05, 00, 00, 00]
; [06, 00, 00, 00]
; [06, 00, 00, 00]
; [07, 00, 00, 00]
; [07, 00, 00, 00]
; [04, 00, 00, 00]
; [04, 00, 00, 00]
; [05, 00, 00, 00]
; [05, 00, 00, 00]
; [06, 00, 00, 00]
; [06, 00, 00, 00]
; [07, 00, 00, 00]
; [07, 00, 00, 00]
