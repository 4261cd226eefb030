; QuantizedEpilogue(QuantizedEpilogueCode { isa: Avx512, output: Signed, added: First })
; part 0, 1220 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi]
000d mov rdx,[rdi+10h]
0011 mov r8,[rdi+8]
0015 mov r9,[rdi+18h]
0019 mov r13,[rdi+38h]
001d mov r15,[rdi+40h]
0021 mov r14,[rdi+28h]
0025 mov rax,[rdi+48h]
0029 vpbroadcastd zmm12,[rdi+50h]
0030 vpbroadcastd zmm13,[rdi+54h]
0037 vpbroadcastd zmm14,[rdi+58h]
003e vpbroadcastd zmm15,[rdi+5Ch]
0045 vpbroadcastd zmm16,[rdi+60h]
004c vmovups zmm17,[rax]
0052 mov rbx,[rdi+68h]
0056 sub rbx,rdx
0059 vpbroadcastd zmm18,[rdi+70h]
0060 vpbroadcastd zmm19,[rdi+74h]
0067 vpbroadcastd zmm20,[rdi+78h]
006e vpbroadcastd zmm21,[rdi+7Ch]
0075 vpbroadcastd zmm22,[rdi+80h]
007c vpbroadcastd zmm23,[rdi+84h]
0083 vpbroadcastd zmm28,[rdi+88h]
008a mov rax,[rdi+30h]
008e xor ecx,ecx
0091 bts rcx,rax
0095 sub ecx,1
0099 kmovw k1,ecx
009d mov rax,[rdi+90h]
00a4 lea rcx,[rbx+rax]
00a8 sub r14,4
00ac cmp r14,0
00b0 jl near 00000000000002F9h
00b6 vmovups zmm4,[r13]
00bd vmovups zmm8,[r15]
00c3 vmovups zmm5,[r13+40h]
00ca vmovups zmm9,[r15+40h]
00d1 vmovups zmm6,[r13+80h]
00d8 vmovups zmm10,[r15+80h]
00df vmovups zmm7,[r13+0C0h]
00e6 vmovups zmm11,[r15+0C0h]
00ed mov r11,rsi
00f0 mov r12,rdx
00f3 mov r10,[rdi+20h]
00f7 nop word [rax+rax]
0100 prefetcht0 [r12+rcx]
0106 prefetcht0 [r12+rax]
010c vmovups zmm0,[r11]
0112 vcvtdq2ps zmm0,zmm0
0118 vmulps zmm0,zmm0,zmm4
011e vaddps zmm0,zmm0,zmm8
0124 vmaxps zmm0,zmm0,zmm21
012a vminps zmm0,zmm0,zmm22
0130 vaddps zmm0,zmm0,zmm23
0136 vaddps zmm0,zmm0,zmm28
013c vpmovzxbd zmm24,[r12+rbx]
0143 vxorps zmm24,zmm24,[rel 4C0h]{1to16}
014d vcvtdq2ps zmm24,zmm24
0153 vfmadd213ps zmm0,zmm18,zmm20
0159 vfmadd231ps zmm0,zmm24,zmm19
015f vminps zmm0,zmm13,zmm0
0165 vcvtps2dq zmm0,zmm0
016b vmovups zmm1,[r11+40h]
0172 vcvtdq2ps zmm1,zmm1
0178 vmulps zmm1,zmm1,zmm5
017e vaddps zmm1,zmm1,zmm9
0184 vmaxps zmm1,zmm1,zmm21
018a vminps zmm1,zmm1,zmm22
0190 vaddps zmm1,zmm1,zmm23
0196 vaddps zmm1,zmm1,zmm28
019c vpmovzxbd zmm25,[r12+rbx+10h]
01a4 vxorps zmm25,zmm25,[rel 4C0h]{1to16}
01ae vcvtdq2ps zmm25,zmm25
01b4 vfmadd213ps zmm1,zmm18,zmm20
01ba vfmadd231ps zmm1,zmm25,zmm19
01c0 vminps zmm1,zmm13,zmm1
01c6 vcvtps2dq zmm1,zmm1
01cc vmovups zmm2,[r11+80h]
01d3 vcvtdq2ps zmm2,zmm2
01d9 vmulps zmm2,zmm2,zmm6
01df vaddps zmm2,zmm2,zmm10
01e5 vmaxps zmm2,zmm2,zmm21
01eb vminps zmm2,zmm2,zmm22
01f1 vaddps zmm2,zmm2,zmm23
01f7 vaddps zmm2,zmm2,zmm28
01fd vpmovzxbd zmm26,[r12+rbx+20h]
0205 vxorps zmm26,zmm26,[rel 4C0h]{1to16}
020f vcvtdq2ps zmm26,zmm26
0215 vfmadd213ps zmm2,zmm18,zmm20
021b vfmadd231ps zmm2,zmm26,zmm19
0221 vminps zmm2,zmm13,zmm2
0227 vcvtps2dq zmm2,zmm2
022d vmovups zmm3,[r11+0C0h]
0234 vcvtdq2ps zmm3,zmm3
023a vmulps zmm3,zmm3,zmm7
0240 vaddps zmm3,zmm3,zmm11
0246 vmaxps zmm3,zmm3,zmm21
024c vminps zmm3,zmm3,zmm22
0252 vaddps zmm3,zmm3,zmm23
0258 vaddps zmm3,zmm3,zmm28
025e vpmovzxbd zmm27,[r12+rbx+30h]
0266 vxorps zmm27,zmm27,[rel 4C0h]{1to16}
0270 vcvtdq2ps zmm27,zmm27
0276 vfmadd213ps zmm3,zmm18,zmm20
027c vfmadd231ps zmm3,zmm27,zmm19
0282 vminps zmm3,zmm13,zmm3
0288 vcvtps2dq zmm3,zmm3
028e vpackssdw zmm0,zmm0,zmm1
0294 vpackssdw zmm2,zmm2,zmm3
029a vpaddsw zmm0,zmm0,zmm15
02a0 vpaddsw zmm2,zmm2,zmm15
02a6 vpacksswb zmm0,zmm0,zmm2
02ac vpmaxsb zmm0,zmm0,zmm16
02b2 vpermw zmm0,zmm17,zmm0
02b8 vmovups [r12],zmm0
02bf add r11,r8
02c2 add r12,r9
02c5 sub r10,1
02c9 test r10,r10
02cc jne near 0000000000000100h
02d2 add rsi,100h
02d9 add rdx,40h
02dd add r13,100h
02e4 add r15,100h
02eb sub r14,4
02ef cmp r14,0
02f3 jge near 00000000000000B6h
02f9 cmp r14,0FFFFFFFFFFFFFFFCh
02fd je near 00000000000003BEh
0303 vmovups zmm4,[r13]
030a vmovups zmm8,[r15]
0310 mov r11,rsi
0313 mov r12,rdx
0316 mov r10,[rdi+20h]
031a nop word [rax+rax]
0320 vmovups zmm0,[r11]
0326 vcvtdq2ps zmm0,zmm0
032c vmulps zmm0,zmm0,zmm4
0332 vaddps zmm0,zmm0,zmm8
0338 vmaxps zmm0,zmm0,zmm21
033e vminps zmm0,zmm0,zmm22
0344 vaddps zmm0,zmm0,zmm23
034a vaddps zmm0,zmm0,zmm28
0350 vpmovzxbd zmm24,[r12+rbx]
0357 vxorps zmm24,zmm24,[rel 4C0h]{1to16}
0361 vcvtdq2ps zmm24,zmm24
0367 vfmadd213ps zmm0,zmm18,zmm20
036d vfmadd231ps zmm0,zmm24,zmm19
0373 vmaxps zmm0,zmm0,zmm12
0379 vminps zmm0,zmm0,zmm13
037f vcvtps2dq zmm0,zmm0
0385 vpaddd zmm0,zmm0,zmm14
038b vpmovdb [r12],zmm0
0392 add r11,r8
0395 add r12,r9
0398 sub r10,1
039c test r10,r10
039f jne near 0000000000000320h
03a5 add rsi,40h
03a9 add rdx,10h
03ad add r13,40h
03b1 add r15,40h
03b5 sub r14,1
03b9 jmp 00000000000002F9h
03be mov rax,[rdi+30h]
03c2 test rax,rax
03c5 je near 0000000000000485h
03cb vmovups zmm4,[r13]
03d2 vmovups zmm8,[r15]
03d8 mov r11,rsi
03db mov r12,rdx
03de mov r10,[rdi+20h]
03e2 nop word [rax+rax]
03eb nop dword [rax+rax]
03f0 vmovups zmm0,[r11]
03f6 vcvtdq2ps zmm0,zmm0
03fc vmulps zmm0,zmm0,zmm4
0402 vaddps zmm0,zmm0,zmm8
0408 vmaxps zmm0,zmm0,zmm21
040e vminps zmm0,zmm0,zmm22
0414 vaddps zmm0,zmm0,zmm23
041a vaddps zmm0,zmm0,zmm28
0420 vpmovzxbd zmm24{k1}{z},[r12+rbx]
0427 vxorps zmm24,zmm24,[rel 4C0h]{1to16}
0431 vcvtdq2ps zmm24,zmm24
0437 vfmadd213ps zmm0,zmm18,zmm20
043d vfmadd231ps zmm0,zmm24,zmm19
0443 vmaxps zmm0,zmm0,zmm12
0449 vminps zmm0,zmm0,zmm13
044f vcvtps2dq zmm0,zmm0
0455 vpaddd zmm0,zmm0,zmm14
045b vpmovdb [r12]{k1},zmm0
0462 add r11,r8
0465 add r12,r9
0468 sub r10,1
046c test r10,r10
046f jne near 00000000000003F0h
0475 add rsi,40h
0479 add rdx,10h
047d add r13,40h
0481 add r15,40h
0485 pop r15
0487 pop r14
0489 pop r13
048b pop r12
048d pop rbp
048e pop rbx
048f vzeroupper
0492 ret
0493 nop word [rax+rax]
049c nop word [rax+rax]
04a5 nop word [rax+rax]
04ae nop word [rax+rax]
04b7 nop word [rax+rax]
; [80, 00, 00, 00]
