; Tile(TileCode { isa: Avx512, vectors: 1, left: Table, right: Dots, activation: Some(Sigmoid), residual: F32, output: Bf16, in_order: false })
; part 1, 1580 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a nop word [rax+rax]
0010 mov rdx,[rdi+98h]
0017 test rdx,rdx
001a je near 0000000000000062h
0020 mov rax,[rdi+0D8h]
0027 test rax,rax
002a je near 0000000000000051h
0030 mov rax,[rdi+0E0h]
0037 xor ecx,ecx
003a bts rcx,rax
003e sub ecx,1
0042 kmovw k1,ecx
0046 vmovups zmm0{k1}{z},[rdx]
004c jmp 0000000000000057h
0051 vmovups zmm0,[rdx]
0057 vmovups zmm1,zmm0
005d jmp 000000000000006Eh
0062 vpxord zmm0,zmm0,zmm0
0068 vpxord zmm1,zmm1,zmm1
006e vpxord zmm2,zmm2,zmm2
0074 vpxord zmm3,zmm3,zmm3
007a vpxord zmm4,zmm4,zmm4
0080 vpxord zmm5,zmm5,zmm5
0086 vpxord zmm6,zmm6,zmm6
008c vpxord zmm7,zmm7,zmm7
0092 mov r11,[rdi+60h]
0096 mov r14,[rdi+28h]
009a mov r15,[rdi+30h]
009e test r15,r15
00a1 je near 00000000000002A8h
00a7 mov rax,[r14]
00aa mov rcx,[r14+8]
00ae add r14,10h
00b2 mov r12,[rdi+40h]
00b6 mov r13,[rdi+48h]
00ba cmp r12,r13
00bd jge near 000000000000025Dh
00c3 mov rbp,[rdi+68h]
00c7 test rbp,rbp
00ca je near 00000000000001C0h
00d0 nop word [rax+rax]
00d9 nop dword [rax]
00e0 prefetcht1 [rbp]
00e6 add rbp,[rdi+70h]
00ea vmovups zmm8,[r11]
00f0 vpbroadcastd zmm9,[rax+r12]
00f7 vdpbf16ps zmm0,zmm9,zmm8
00fd vpbroadcastd zmm9,[rcx+r12]
0104 vdpbf16ps zmm1,zmm9,zmm8
010a prefetcht1 [rbp]
0110 add rbp,[rdi+70h]
0114 vmovups zmm8,[r11+40h]
011b vpbroadcastd zmm9,[rax+r12+4]
0123 vdpbf16ps zmm2,zmm9,zmm8
0129 vpbroadcastd zmm9,[rcx+r12+4]
0131 vdpbf16ps zmm3,zmm9,zmm8
0137 prefetcht1 [rbp]
013d add rbp,[rdi+70h]
0141 vmovups zmm8,[r11+80h]
0148 vpbroadcastd zmm9,[rax+r12+8]
0150 vdpbf16ps zmm4,zmm9,zmm8
0156 vpbroadcastd zmm9,[rcx+r12+8]
015e vdpbf16ps zmm5,zmm9,zmm8
0164 prefetcht1 [rbp]
016a add rbp,[rdi+70h]
016e vmovups zmm8,[r11+0C0h]
0175 vpbroadcastd zmm9,[rax+r12+0Ch]
017d vdpbf16ps zmm6,zmm9,zmm8
0183 vpbroadcastd zmm9,[rcx+r12+0Ch]
018b vdpbf16ps zmm7,zmm9,zmm8
0191 add r12,10h
0195 add r11,100h
019c cmp r12,r13
019f jl near 00000000000000E0h
01a5 mov [rdi+68h],rbp
01a9 jmp 000000000000025Dh
01ae nop word [rax+rax]
01b7 nop word [rax+rax]
01c0 vmovups zmm8,[r11]
01c6 vpbroadcastd zmm9,[rax+r12]
01cd vdpbf16ps zmm0,zmm9,zmm8
01d3 vpbroadcastd zmm9,[rcx+r12]
01da vdpbf16ps zmm1,zmm9,zmm8
01e0 vmovups zmm8,[r11+40h]
01e7 vpbroadcastd zmm9,[rax+r12+4]
01ef vdpbf16ps zmm2,zmm9,zmm8
01f5 vpbroadcastd zmm9,[rcx+r12+4]
01fd vdpbf16ps zmm3,zmm9,zmm8
0203 vmovups zmm8,[r11+80h]
020a vpbroadcastd zmm9,[rax+r12+8]
0212 vdpbf16ps zmm4,zmm9,zmm8
0218 vpbroadcastd zmm9,[rcx+r12+8]
0220 vdpbf16ps zmm5,zmm9,zmm8
0226 vmovups zmm8,[r11+0C0h]
022d vpbroadcastd zmm9,[rax+r12+0Ch]
0235 vdpbf16ps zmm6,zmm9,zmm8
023b vpbroadcastd zmm9,[rcx+r12+0Ch]
0243 vdpbf16ps zmm7,zmm9,zmm8
0249 add r12,10h
024d add r11,100h
0254 cmp r12,r13
0257 jl near 00000000000001C0h
025d mov r13,[rdi+58h]
0261 cmp r12,r13
0264 jge near 000000000000029Bh
026a vmovups zmm8,[r11]
0270 vpbroadcastd zmm9,[rax+r12]
0277 vdpbf16ps zmm0,zmm9,zmm8
027d vpbroadcastd zmm9,[rcx+r12]
0284 vdpbf16ps zmm1,zmm9,zmm8
028a add r12,4
028e add r11,40h
0292 cmp r12,r13
0295 jl near 000000000000026Ah
029b sub r15,1
029f test r15,r15
02a2 jne near 00000000000000A7h
02a8 vaddps zmm0,zmm0,zmm2
02ae vaddps zmm1,zmm1,zmm3
02b4 vaddps zmm0,zmm0,zmm4
02ba vaddps zmm1,zmm1,zmm5
02c0 vaddps zmm0,zmm0,zmm6
02c6 vaddps zmm1,zmm1,zmm7
02cc mov rax,[rdi+0A8h]
02d3 test rax,rax
02d6 je near 0000000000000385h
02dc mov rax,[rdi+0B0h]
02e3 test rax,rax
02e6 je near 00000000000002FFh
02ec vpbroadcastd zmm2,[rdi+0B8h]
02f3 vmulps zmm0,zmm0,zmm2
02f9 vmulps zmm1,zmm1,zmm2
02ff mov rsi,[rdi+0C8h]
0306 test rsi,rsi
0309 je near 0000000000000385h
030f mov rsi,[rdi+0D0h]
0316 mov rdx,[rdi+80h]
031d shl rdx,1
0321 mov rbx,[rdi+88h]
0328 shl rbx,1
032c mov rax,[rdi+0D8h]
0333 test rax,rax
0336 jne near 0000000000000352h
033c vaddps zmm0,zmm0,[rdx+rsi]
0343 add rdx,rbx
0346 vaddps zmm1,zmm1,[rdx+rsi]
034d jmp 0000000000000385h
0352 mov rax,[rdi+0E0h]
0359 xor ecx,ecx
035c bts rcx,rax
0360 sub ecx,1
0364 kmovw k1,ecx
0368 vmovups zmm2{k1}{z},[rdx+rsi]
036f vaddps zmm0,zmm0,zmm2
0375 add rdx,rbx
0378 vmovups zmm2{k1}{z},[rdx+rsi]
037f vaddps zmm1,zmm1,zmm2
0385 mov rbp,rsp
0388 sub rsp,80h
038f and rsp,0FFFFFFFFFFFFFFC0h
0396 vmovups [rsp],zmm0
039d vmovups [rsp+40h],zmm1
03a5 mov r12d,0
03ab lea r13,[rdi+0E0h]
03b2 mov rax,[r13]
03b6 test rax,rax
03b9 je near 00000000000005A6h
03bf mov rdx,[rdi+80h]
03c6 add rdx,r12
03c9 mov rbx,[rdi+88h]
03d0 lea rsi,[rsp]
03d4 add rsi,r12
03d7 add rsi,r12
03da mov r8d,2
03e0 cmp rax,10h
03e4 jl near 00000000000004B7h
03ea vmovups zmm0,[rsi]
03f0 add rsi,40h
03f4 vbroadcastss zmm1,[rel 600h]
03fe vminps zmm0,zmm1,zmm0
0404 vbroadcastss zmm1,[rel 604h]
040e vmaxps zmm0,zmm1,zmm0
0414 vmulps zmm1,zmm0,[rel 608h]{1to16}
041e vrndscaleps zmm1,zmm1,8
0425 vfnmadd231ps zmm0,zmm1,[rel 60Ch]{1to16}
042f vfnmadd231ps zmm0,zmm1,[rel 610h]{1to16}
0439 vbroadcastss zmm2,[rel 614h]
0443 vfmadd213ps zmm2,zmm0,[rel 618h]{1to16}
044d vfmadd213ps zmm2,zmm0,[rel 61Ch]{1to16}
0457 vfmadd213ps zmm2,zmm0,[rel 620h]{1to16}
0461 vfmadd213ps zmm2,zmm0,[rel 624h]{1to16}
046b vfmadd213ps zmm2,zmm0,[rel 628h]{1to16}
0475 vfmadd213ps zmm0,zmm2,[rel 628h]{1to16}
047f vscalefps zmm0,zmm0,zmm1
0485 vaddps zmm1,zmm0,[rel 628h]{1to16}
048f vdivps zmm0,zmm0,zmm1
0495 vcvtne2ps2bf16 zmm0,zmm0,zmm0
049b vmovups [rdx],ymm0
04a1 add rdx,rbx
04a4 sub r8,1
04a8 cmp r8,0
04ac jg near 00000000000003EAh
04b2 jmp 0000000000000594h
04b7 xor ecx,ecx
04ba bts rcx,rax
04be sub ecx,1
04c2 kmovw k1,ecx
04c6 vmovups zmm0,[rsi]
04cc add rsi,40h
04d0 vbroadcastss zmm1,[rel 600h]
04da vminps zmm0,zmm1,zmm0
04e0 vbroadcastss zmm1,[rel 604h]
04ea vmaxps zmm0,zmm1,zmm0
04f0 vmulps zmm1,zmm0,[rel 608h]{1to16}
04fa vrndscaleps zmm1,zmm1,8
0501 vfnmadd231ps zmm0,zmm1,[rel 60Ch]{1to16}
050b vfnmadd231ps zmm0,zmm1,[rel 610h]{1to16}
0515 vbroadcastss zmm2,[rel 614h]
051f vfmadd213ps zmm2,zmm0,[rel 618h]{1to16}
0529 vfmadd213ps zmm2,zmm0,[rel 61Ch]{1to16}
0533 vfmadd213ps zmm2,zmm0,[rel 620h]{1to16}
053d vfmadd213ps zmm2,zmm0,[rel 624h]{1to16}
0547 vfmadd213ps zmm2,zmm0,[rel 628h]{1to16}
0551 vfmadd213ps zmm0,zmm2,[rel 628h]{1to16}
055b vscalefps zmm0,zmm0,zmm1
0561 vaddps zmm1,zmm0,[rel 628h]{1to16}
056b vdivps zmm0,zmm0,zmm1
0571 vcvtne2ps2bf16 zmm0,zmm0,zmm0
0577 vpmovzxwd zmm0,ymm0
057d vpmovdw [rdx]{k1},zmm0
0583 add rdx,rbx
0586 sub r8,1
058a cmp r8,0
058e jg near 00000000000004C6h
0594 add r13,8
0598 add r12,20h
059c cmp r12,20h
05a0 jl near 00000000000003B2h
05a6 mov rsp,rbp
05a9 mov [rdi+28h],r14
05ad mov rax,[rdi+80h]
05b4 add rax,[rdi+90h]
05bb mov [rdi+80h],rax
05c2 mov rax,[rdi+8]
05c6 sub rax,1
05ca mov [rdi+8],rax
05ce cmp rax,0
05d2 jg near 0000000000000010h
05d8 pop r15
05da pop r14
05dc pop r13
05de pop r12
05e0 pop rbp
05e1 pop rbx
05e2 vzeroupper
05e5 ret
05e6 nop word [rax+rax]
05ef nop word [rax+rax]
05f8 nop dword [rax+rax]
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
