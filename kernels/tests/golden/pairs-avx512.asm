; Tile(TileCode { isa: Avx512, vectors: 1, left: Table, right: Dots, activation: None, residual: F32, output: Bf16, in_order: false })
; part 1, 1085 bytes
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
0385 mov rdx,[rdi+80h]
038c mov rbx,[rdi+88h]
0393 mov rax,[rdi+0D8h]
039a test rax,rax
039d jne near 00000000000003C3h
03a3 vcvtne2ps2bf16 zmm0,zmm0,zmm0
03a9 vmovups [rdx],ymm0
03af add rdx,rbx
03b2 vcvtne2ps2bf16 zmm1,zmm1,zmm1
03b8 vmovups [rdx],ymm1
03be jmp 0000000000000400h
03c3 mov rax,[rdi+0E0h]
03ca xor ecx,ecx
03cd bts rcx,rax
03d1 sub ecx,1
03d5 kmovw k1,ecx
03d9 vcvtne2ps2bf16 zmm0,zmm0,zmm0
03df vpmovzxwd zmm0,ymm0
03e5 vpmovdw [rdx]{k1},zmm0
03eb add rdx,rbx
03ee vcvtne2ps2bf16 zmm1,zmm1,zmm1
03f4 vpmovzxwd zmm1,ymm1
03fa vpmovdw [rdx]{k1},zmm1
0400 mov [rdi+28h],r14
0404 mov rax,[rdi+80h]
040b add rax,[rdi+90h]
0412 mov [rdi+80h],rax
0419 mov rax,[rdi+8]
041d sub rax,1
0421 mov [rdi+8],rax
0425 cmp rax,0
0429 jg near 0000000000000010h
042f pop r15
0431 pop r14
0433 pop r13
0435 pop r12
0437 pop rbp
0438 pop rbx
0439 vzeroupper
043c ret
