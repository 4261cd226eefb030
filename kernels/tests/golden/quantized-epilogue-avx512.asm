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
0029 vbroadcastss zmm12,[rdi+50h]
0030 vbroadcastss zmm13,[rdi+54h]
0037 vbroadcastss zmm14,[rdi+58h]
003e vbroadcastss zmm15,[rdi+5Ch]
0045 vbroadcastss zmm16,[rdi+60h]
004c vmovups zmm17,[rax]
0052 mov rbx,[rdi+68h]
0056 sub rbx,rdx
0059 vbroadcastss zmm18,[rdi+70h]
0060 vbroadcastss zmm19,[rdi+74h]
0067 vbroadcastss zmm20,[rdi+78h]
006e vbroadcastss zmm21,[rdi+7Ch]
0075 vbroadcastss zmm22,[rdi+80h]
007c vbroadcastss zmm23,[rdi+84h]
0083 mov rax,[rdi+30h]
0087 xor ecx,ecx
008a bts rcx,rax
008e sub ecx,1
0092 kmovw k1,ecx
0096 sub r14,4
009a cmp r14,0
009e jl near 00000000000002F5h
00a4 vmovups zmm4,[r13]
00ab vmovups zmm8,[r15]
00b1 vmovups zmm5,[r13+40h]
00b8 vmovups zmm9,[r15+40h]
00bf vmovups zmm6,[r13+80h]
00c6 vmovups zmm10,[r15+80h]
00cd vmovups zmm7,[r13+0C0h]
00d4 vmovups zmm11,[r15+0C0h]
00db mov r11,rsi
00de mov r12,rdx
00e1 mov r10,[rdi+20h]
00e5 nop word [rax+rax]
00ee xchg ax,ax
00f0 vmovups zmm0,[r11]
00f6 vcvtdq2ps zmm0,zmm0
00fc vmulps zmm0,zmm0,zmm4
0102 vaddps zmm0,zmm0,zmm8
0108 vmaxps zmm0,zmm0,zmm21
010e vminps zmm0,zmm0,zmm22
0114 vcvtps2dq zmm0,zmm0
011a vpaddd zmm0,zmm0,zmm23
0120 vcvtdq2ps zmm0,zmm0
0126 vpmovzxbd zmm24,[r12+rbx]
012d vxorps zmm24,zmm24,[rel 4C0h]{1to16}
0137 vcvtdq2ps zmm24,zmm24
013d vfmadd213ps zmm0,zmm18,zmm20
0143 vfmadd231ps zmm0,zmm24,zmm19
0149 vminps zmm0,zmm13,zmm0
014f vcvtps2dq zmm0,zmm0
0155 vmovups zmm1,[r11+40h]
015c vcvtdq2ps zmm1,zmm1
0162 vmulps zmm1,zmm1,zmm5
0168 vaddps zmm1,zmm1,zmm9
016e vmaxps zmm1,zmm1,zmm21
0174 vminps zmm1,zmm1,zmm22
017a vcvtps2dq zmm1,zmm1
0180 vpaddd zmm1,zmm1,zmm23
0186 vcvtdq2ps zmm1,zmm1
018c vpmovzxbd zmm25,[r12+rbx+10h]
0194 vxorps zmm25,zmm25,[rel 4C0h]{1to16}
019e vcvtdq2ps zmm25,zmm25
01a4 vfmadd213ps zmm1,zmm18,zmm20
01aa vfmadd231ps zmm1,zmm25,zmm19
01b0 vminps zmm1,zmm13,zmm1
01b6 vcvtps2dq zmm1,zmm1
01bc vmovups zmm2,[r11+80h]
01c3 vcvtdq2ps zmm2,zmm2
01c9 vmulps zmm2,zmm2,zmm6
01cf vaddps zmm2,zmm2,zmm10
01d5 vmaxps zmm2,zmm2,zmm21
01db vminps zmm2,zmm2,zmm22
01e1 vcvtps2dq zmm2,zmm2
01e7 vpaddd zmm2,zmm2,zmm23
01ed vcvtdq2ps zmm2,zmm2
01f3 vpmovzxbd zmm26,[r12+rbx+20h]
01fb vxorps zmm26,zmm26,[rel 4C0h]{1to16}
0205 vcvtdq2ps zmm26,zmm26
020b vfmadd213ps zmm2,zmm18,zmm20
0211 vfmadd231ps zmm2,zmm26,zmm19
0217 vminps zmm2,zmm13,zmm2
021d vcvtps2dq zmm2,zmm2
0223 vmovups zmm3,[r11+0C0h]
022a vcvtdq2ps zmm3,zmm3
0230 vmulps zmm3,zmm3,zmm7
0236 vaddps zmm3,zmm3,zmm11
023c vmaxps zmm3,zmm3,zmm21
0242 vminps zmm3,zmm3,zmm22
0248 vcvtps2dq zmm3,zmm3
024e vpaddd zmm3,zmm3,zmm23
0254 vcvtdq2ps zmm3,zmm3
025a vpmovzxbd zmm27,[r12+rbx+30h]
0262 vxorps zmm27,zmm27,[rel 4C0h]{1to16}
026c vcvtdq2ps zmm27,zmm27
0272 vfmadd213ps zmm3,zmm18,zmm20
0278 vfmadd231ps zmm3,zmm27,zmm19
027e vminps zmm3,zmm13,zmm3
0284 vcvtps2dq zmm3,zmm3
028a vpackssdw zmm0,zmm0,zmm1
0290 vpackssdw zmm2,zmm2,zmm3
0296 vpaddsw zmm0,zmm0,zmm15
029c vpaddsw zmm2,zmm2,zmm15
02a2 vpacksswb zmm0,zmm0,zmm2
02a8 vpmaxsb zmm0,zmm0,zmm16
02ae vpermw zmm0,zmm17,zmm0
02b4 vmovups [r12],zmm0
02bb add r11,r8
02be add r12,r9
02c1 sub r10,1
02c5 test r10,r10
02c8 jne near 00000000000000F0h
02ce add rsi,100h
02d5 add rdx,40h
02d9 add r13,100h
02e0 add r15,100h
02e7 sub r14,4
02eb cmp r14,0
02ef jge near 00000000000000A4h
02f5 cmp r14,0FFFFFFFFFFFFFFFCh
02f9 je near 00000000000003C4h
02ff vmovups zmm4,[r13]
0306 vmovups zmm8,[r15]
030c mov r11,rsi
030f mov r12,rdx
0312 mov r10,[rdi+20h]
0316 nop word [rax+rax]
031f nop
0320 vmovups zmm0,[r11]
0326 vcvtdq2ps zmm0,zmm0
032c vmulps zmm0,zmm0,zmm4
0332 vaddps zmm0,zmm0,zmm8
0338 vmaxps zmm0,zmm0,zmm21
033e vminps zmm0,zmm0,zmm22
0344 vcvtps2dq zmm0,zmm0
034a vpaddd zmm0,zmm0,zmm23
0350 vcvtdq2ps zmm0,zmm0
0356 vpmovzxbd zmm24,[r12+rbx]
035d vxorps zmm24,zmm24,[rel 4C0h]{1to16}
0367 vcvtdq2ps zmm24,zmm24
036d vfmadd213ps zmm0,zmm18,zmm20
0373 vfmadd231ps zmm0,zmm24,zmm19
0379 vmaxps zmm0,zmm0,zmm12
037f vminps zmm0,zmm0,zmm13
0385 vcvtps2dq zmm0,zmm0
038b vpaddd zmm0,zmm0,zmm14
0391 vpmovdb [r12],zmm0
0398 add r11,r8
039b add r12,r9
039e sub r10,1
03a2 test r10,r10
03a5 jne near 0000000000000320h
03ab add rsi,40h
03af add rdx,10h
03b3 add r13,40h
03b7 add r15,40h
03bb sub r14,1
03bf jmp 00000000000002F5h
03c4 mov rax,[rdi+30h]
03c8 test rax,rax
03cb je near 000000000000048Bh
03d1 vmovups zmm4,[r13]
03d8 vmovups zmm8,[r15]
03de mov r11,rsi
03e1 mov r12,rdx
03e4 mov r10,[rdi+20h]
03e8 nop dword [rax+rax]
03f0 vmovups zmm0,[r11]
03f6 vcvtdq2ps zmm0,zmm0
03fc vmulps zmm0,zmm0,zmm4
0402 vaddps zmm0,zmm0,zmm8
0408 vmaxps zmm0,zmm0,zmm21
040e vminps zmm0,zmm0,zmm22
0414 vcvtps2dq zmm0,zmm0
041a vpaddd zmm0,zmm0,zmm23
0420 vcvtdq2ps zmm0,zmm0
0426 vpmovzxbd zmm24{k1}{z},[r12+rbx]
042d vxorps zmm24,zmm24,[rel 4C0h]{1to16}
0437 vcvtdq2ps zmm24,zmm24
043d vfmadd213ps zmm0,zmm18,zmm20
0443 vfmadd231ps zmm0,zmm24,zmm19
0449 vmaxps zmm0,zmm0,zmm12
044f vminps zmm0,zmm0,zmm13
0455 vcvtps2dq zmm0,zmm0
045b vpaddd zmm0,zmm0,zmm14
0461 vpmovdb [r12]{k1},zmm0
0468 add r11,r8
046b add r12,r9
046e sub r10,1
0472 test r10,r10
0475 jne near 00000000000003F0h
047b add rsi,40h
047f add rdx,10h
0483 add r13,40h
0487 add r15,40h
048b pop r15
048d pop r14
048f pop r13
0491 pop r12
0493 pop rbp
0494 pop rbx
0495 vzeroupper
0498 ret
0499 nop word [rax+rax]
04a2 nop word [rax+rax]
04ab nop word [rax+rax]
04b4 nop word [rax+rax]
04bd nop dword [rax]
; [80, 00, 00, 00]
