; Multiply(MultiplyCode { isa: Avx512, factors: Bf16, epilogue: Some(FusedEpilogue { columns: Most, activation: Some(Relu), residual: Bf16, output: Bf16 }) })
; part 1, 1018 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov r10,[rdi]
000d test r10,r10
0010 je near 000000000000001Bh
0016 ldtilecfg [r10]
001b mov r10,[rdi+10h]
001f test r10,r10
0022 je near 00000000000003DAh
0028 mov r12d,80h
002e mov r8,[rdi+20h]
0032 mov r9,[rdi+28h]
0036 mov r10,[rdi+48h]
003a mov [rdi+1E0h],r10
0041 mov r10,[rdi+50h]
0045 mov [rdi+1F0h],r10
004c mov r13,[rdi+68h]
0050 mov r10,[rdi+1C0h]
0057 mov [rdi+1D8h],r10
005e mov [rdi+1E8h],r13
0065 mov rax,[rdi+18h]
0069 mov r10,[rdi+10h]
006d mov [rdi+1F8h],r10
0074 nop word [rax+rax]
007d nop dword [rax]
0080 mov r10,[rdi+80h]
0087 test r10,r10
008a je near 00000000000000C6h
0090 mov r10,r13
0093 mov r15,[rdi+70h]
0097 tileloadd tmm0,[r10+r15]
009d tileloadd tmm1,[r10+r15+40h]
00a4 lea r10,[r10+r15*8]
00a8 lea r10,[r10+r15*8]
00ac tileloadd tmm2,[r10+r15]
00b2 tileloadd tmm3,[r10+r15+40h]
00b9 lea r10,[r10+r15*8]
00bd lea r10,[r10+r15*8]
00c1 jmp 00000000000000DAh
00c6 tilezero tmm0
00cb tilezero tmm1
00d0 tilezero tmm2
00d5 tilezero tmm3
00da mov r11,[rdi+1E0h]
00e1 mov rbx,[rdi+30h]
00e5 mov rcx,[rdi+38h]
00e9 mov rsi,[rax]
00ec mov r10,[rbx]
00ef add rsi,r10
00f2 mov rdx,[rax+8]
00f6 mov r10,[rbx]
00f9 add rdx,r10
00fc mov rbp,[rdi+40h]
0100 mov r15,[rdi+88h]
0107 test r15,r15
010a je near 0000000000000164h
0110 add r15,rdi
0113 mov r10,[r15+8]
0117 cmp r10,0
011b jle near 0000000000000149h
0121 mov r14,[r15+20h]
0125 sub r10,r14
0128 mov [r15+8],r10
012c mov r10,[r15]
012f prefetcht1 [r10]
0135 add r10,[r15+28h]
0139 sub r14,1
013d test r14,r14
0140 jne near 000000000000012Fh
0146 mov [r15],r10
0149 mov r10,[r15+38h]
014d add r15,[r15+30h]
0151 test r10,r10
0154 jne near 0000000000000113h
015a sub r15,rdi
015d mov [rdi+88h],r15
0164 tileloadd tmm6,[rsi+r8]
016a tileloadd tmm4,[r11+r12]
0170 tdpbf16ps tmm0,tmm6,tmm4
0175 tileloadd tmm5,[r11+r12+40h]
017c tdpbf16ps tmm1,tmm6,tmm5
0181 tileloadd tmm7,[rdx+r8]
0187 tdpbf16ps tmm2,tmm7,tmm4
018c tdpbf16ps tmm3,tmm7,tmm5
0191 add rsi,r9
0194 add rdx,r9
0197 add r11,[rdi+58h]
019b sub rbp,1
019f test rbp,rbp
01a2 jne near 0000000000000100h
01a8 add rbx,8
01ac sub rcx,1
01b0 test rcx,rcx
01b3 jne near 00000000000000E9h
01b9 mov r15,[rdi+70h]
01bd tilestored [r13+r15],tmm0
01c4 tilestored [r13+r15+40h],tmm1
01cb lea r13,[r13+r15*8]
01d0 lea r13,[r13+r15*8]
01d5 tilestored [r13+r15],tmm2
01dc tilestored [r13+r15+40h],tmm3
01e3 lea r13,[r13+r15*8]
01e8 lea r13,[r13+r15*8]
01ed add rax,10h
01f1 mov r10,[rdi+1F8h]
01f8 sub r10,1
01fc mov [rdi+1F8h],r10
0203 test r10,r10
0206 jne near 0000000000000080h
020c mov rbp,[rdi+1A8h]
0213 test rbp,rbp
0216 je near 000000000000034Dh
021c mov rbx,[rdi+1A0h]
0223 mov rsi,[rdi+1B0h]
022a mov rdx,[rdi+1B8h]
0231 mov r10,[rdi+1D8h]
0238 mov r11,[rdi+1D0h]
023f xor r13d,r13d
0242 bts r13,r11
0246 sub r13d,1
024a kmovw k1,r13d
024f vmovups zmm2,[r10]
0255 vmovups zmm3{k1}{z},[r10+40h]
025c add r10,[rdi+1C8h]
0263 mov [rdi+1D8h],r10
026a nop word [rax+rax]
0270 mov r11,[rbx]
0273 mov r13,[rbx+8]
0277 mov r14,[rbx+10h]
027b mov rcx,[rbx+18h]
027f nop
0280 vmovups zmm0,[r11]
0286 vaddps zmm0,zmm0,zmm2
028c vmovups zmm1,[r11+40h]
0293 vaddps zmm1,zmm1,zmm3
0299 test r14,r14
029c je near 00000000000002CCh
02a2 vpmovzxwd zmm4,[r14]
02a8 vpslld zmm4,zmm4,10h
02af vaddps zmm0,zmm0,zmm4
02b5 vpmovzxwd zmm4{k1}{z},[r14+20h]
02bc vpslld zmm4,zmm4,10h
02c3 vaddps zmm1,zmm1,zmm4
02c9 add r14,rdx
02cc vpxord zmm5,zmm5,zmm5
02d2 vmaxps zmm0,zmm5,zmm0
02d8 vpxord zmm5,zmm5,zmm5
02de vmaxps zmm1,zmm5,zmm1
02e4 vcvtne2ps2bf16 zmm4,zmm0,zmm0
02ea vmovups [r13],ymm4
02f1 vcvtne2ps2bf16 zmm4,zmm1,zmm1
02f7 vpmovzxwd zmm4,ymm4
02fd vpmovdw [r13+20h]{k1},zmm4
0304 add r11,80h
030b add r13,rsi
030e sub rcx,1
0312 test rcx,rcx
0315 jne near 0000000000000280h
031b mov r10,[rbx+8]
031f add r10,40h
0323 mov [rbx+8],r10
0327 mov r10,[rbx+10h]
032b test r10,r10
032e je near 000000000000033Ch
0334 add r10,40h
0338 mov [rbx+10h],r10
033c add rbx,20h
0340 sub rbp,1
0344 test rbp,rbp
0347 jne near 0000000000000270h
034d mov r10,[rdi+88h]
0354 test r10,r10
0357 je near 00000000000003A2h
035d lea r15,[rdi+90h]
0364 mov r10,[r15]
0367 add r10,[r15+18h]
036b mov [r15],r10
036e mov r10,[r15+10h]
0372 mov [r15+8],r10
0376 add r15,40h
037a mov r10,[r15]
037d add r10,[r15+18h]
0381 mov [r15],r10
0384 mov r10,[r15+10h]
0388 mov [r15+8],r10
038c add r15,40h
0390 mov r10,[r15]
0393 add r10,[r15+18h]
0397 mov [r15],r10
039a mov r10,[r15+10h]
039e mov [r15+8],r10
03a2 mov r10,[rdi+1F0h]
03a9 sub r10,1
03ad mov [rdi+1F0h],r10
03b4 mov r11,[rdi+1E0h]
03bb add r11,[rdi+60h]
03bf mov [rdi+1E0h],r11
03c6 mov r13,[rdi+1E8h]
03cd add r13,[rdi+78h]
03d1 test r10,r10
03d4 jne near 000000000000005Eh
03da mov r10,[rdi+8]
03de test r10,r10
03e1 je near 00000000000003ECh
03e7 tilerelease
03ec pop r15
03ee pop r14
03f0 pop r13
03f2 pop r12
03f4 pop rbp
03f5 pop rbx
03f6 vzeroupper
03f9 ret
