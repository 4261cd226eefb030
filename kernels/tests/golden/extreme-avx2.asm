; Extreme(ExtremeCode { isa: Avx2, wanted: Greatest, last: false, columns: false })
; part 0, 1024 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi]
000d mov rdx,[rdi+8]
0011 mov r11,[rdi+20h]
0015 mov r10,[rdi+18h]
0019 mov r8,r10
001c and r8,0FFFFFFFFFFFFFFE0h
0020 shl r8,2
0024 mov r9,r10
0027 and r9,0FFFFFFFFFFFFFFF8h
002b shl r9,2
002f and r10,7
0033 vmovd xmm15,r10d
0038 vpbroadcastd ymm15,xmm15
003d vpcmpgtd ymm15,ymm15,[rel 300h]
0046 mov rcx,[rdi+10h]
004a vmovups ymm8,[rel 320h]
0053 vpbroadcastd ymm0,[rsi]
0058 vxorps ymm4,ymm4,ymm4
005d vpaddd ymm9,ymm8,[rel 340h]
0066 vmovaps ymm1,ymm0
006b vxorps ymm5,ymm5,ymm5
0070 vpaddd ymm10,ymm8,[rel 360h]
0079 vmovaps ymm2,ymm0
007e vxorps ymm6,ymm6,ymm6
0083 vpaddd ymm11,ymm8,[rel 380h]
008c vmovaps ymm3,ymm0
0091 vxorps ymm7,ymm7,ymm7
0096 mov eax,0
009c cmp rax,r8
009f jge near 0000000000000159h
00a5 nop word [rax+rax]
00ae xchg ax,ax
00b0 prefetcht0 [rsi+rax+1000h]
00b9 vmovups ymm12,[rsi+rax]
00bf vcmpgt_oqps ymm14,ymm12,ymm0
00c5 vblendvps ymm0,ymm0,ymm12,ymm14
00cb vblendvps ymm4,ymm4,ymm8,ymm14
00d1 vmovups ymm12,[rsi+rax+20h]
00d8 vcmpgt_oqps ymm14,ymm12,ymm1
00de vblendvps ymm1,ymm1,ymm12,ymm14
00e4 vblendvps ymm5,ymm5,ymm9,ymm14
00ea prefetcht0 [rsi+rax+1040h]
00f3 vmovups ymm12,[rsi+rax+40h]
00fa vcmpgt_oqps ymm14,ymm12,ymm2
0100 vblendvps ymm2,ymm2,ymm12,ymm14
0106 vblendvps ymm6,ymm6,ymm10,ymm14
010c vmovups ymm12,[rsi+rax+60h]
0113 vcmpgt_oqps ymm14,ymm12,ymm3
0119 vblendvps ymm3,ymm3,ymm12,ymm14
011f vblendvps ymm7,ymm7,ymm11,ymm14
0125 vpaddd ymm8,ymm8,[rel 3A0h]
012e vpaddd ymm9,ymm9,[rel 3A0h]
0137 vpaddd ymm10,ymm10,[rel 3A0h]
0140 vpaddd ymm11,ymm11,[rel 3A0h]
0149 add rax,80h
0150 cmp rax,r8
0153 jl near 00000000000000B0h
0159 mov r15,r9
015c sub r15,rax
015f cmp r15,40h
0163 jl near 00000000000001B0h
0169 prefetcht0 [rsi+rax+1000h]
0172 vmovups ymm12,[rsi+rax]
0178 vcmpgt_oqps ymm14,ymm12,ymm0
017e vblendvps ymm0,ymm0,ymm12,ymm14
0184 vblendvps ymm4,ymm4,ymm8,ymm14
018a vmovups ymm12,[rsi+rax+20h]
0191 vcmpgt_oqps ymm14,ymm12,ymm1
0197 vblendvps ymm1,ymm1,ymm12,ymm14
019d vblendvps ymm5,ymm5,ymm9,ymm14
01a3 vpaddd ymm8,ymm8,[rel 360h]
01ac add rax,40h
01b0 mov r15,r9
01b3 sub r15,rax
01b6 cmp r15,20h
01ba jl near 00000000000001EEh
01c0 prefetcht0 [rsi+rax+1000h]
01c9 vmovups ymm12,[rsi+rax]
01cf vcmpgt_oqps ymm14,ymm12,ymm0
01d5 vblendvps ymm0,ymm0,ymm12,ymm14
01db vblendvps ymm4,ymm4,ymm8,ymm14
01e1 vpaddd ymm8,ymm8,[rel 340h]
01ea add rax,20h
01ee test r10,r10
01f1 je near 000000000000021Eh
01f7 vmaskmovps ymm12,ymm15,[rsi+rax]
01fd vmovups ymm13,[rel 3C0h]
0206 vblendvps ymm12,ymm13,ymm12,ymm15
020c vcmpgt_oqps ymm14,ymm12,ymm0
0212 vblendvps ymm0,ymm0,ymm12,ymm14
0218 vblendvps ymm4,ymm4,ymm8,ymm14
021e vmaxps ymm12,ymm0,ymm1
0223 vmaxps ymm13,ymm2,ymm3
0228 vmaxps ymm12,ymm12,ymm13
022d vperm2f128 ymm13,ymm12,ymm12,1
0233 vmaxps ymm12,ymm12,ymm13
0238 vpermilps ymm13,ymm12,4Eh
023e vmaxps ymm12,ymm12,ymm13
0243 vpermilps ymm13,ymm12,0B1h
0249 vmaxps ymm12,ymm12,ymm13
024e vbroadcastss ymm12,xmm12
0253 vmovups ymm13,[rel 3E0h]
025c vcmplt_oqps ymm14,ymm0,ymm12
0262 vblendvps ymm4,ymm4,ymm13,ymm14
0268 vcmplt_oqps ymm14,ymm1,ymm12
026e vblendvps ymm5,ymm5,ymm13,ymm14
0274 vcmplt_oqps ymm14,ymm2,ymm12
027a vblendvps ymm6,ymm6,ymm13,ymm14
0280 vcmplt_oqps ymm14,ymm3,ymm12
0286 vblendvps ymm7,ymm7,ymm13,ymm14
028c vpminsd ymm4,ymm4,ymm5
0291 vpminsd ymm6,ymm6,ymm7
0296 vpminsd ymm4,ymm4,ymm6
029b vperm2f128 ymm13,ymm4,ymm4,1
02a1 vpminsd ymm4,ymm4,ymm13
02a6 vpermilps ymm13,ymm4,4Eh
02ac vpminsd ymm4,ymm4,ymm13
02b1 vpermilps ymm13,ymm4,0B1h
02b7 vpminsd ymm4,ymm4,ymm13
02bc mov r12d,0
02c2 mov [rdx],r12
02c5 vmovss [rdx],xmm4
02cc add rsi,r11
02cf add rdx,8
02d3 sub rcx,1
02d7 test rcx,rcx
02da jne near 000000000000004Ah
02e0 pop r15
02e2 pop r14
02e4 pop r13
02e6 pop r12
02e8 pop rbp
02e9 pop rbx
02ea vzeroupper
02ed ret
02ee nop word [rax+rax]
02f7 nop word [rax+rax]
; [00, 00, 00, 00]
; [01, 00, 00, 00]
; [02, 00, 00, 00]
; [03, 00, 00, 00]
; [04, 00, 00, 00]
; [05, 00, 00, 00]
; [06, 00, 00, 00]
; [07, 00, 00, 00]
; [00, 00, 00, 00]
; [01, 00, 00, 00]
; [02, 00, 00, 00]
; [03, 00, 00, 00]
; [04, 00, 00, 00]
; [05, 00, 00, 00]
; [06, 00, 00, 00]
; [07, 00, 00, 00]
; [08, 00, 00, 00]
; [08, 00, 00, 00]
; [08, 00, 00, 00]
; [08, 00, 00, 00]
; [08, 00, 00, 00]
; [08, 00, 00, 00]
; [08, 00, 00, 00]
; [08, 00, 00, 00]
; [10, 00, 00, 00]
; [10, 00, 00, 00]
; [10, 00, 00, 00]
; [10, 00, 00, 00]
; [10, 00, 00, 00]
; [10, 00, 00, 00]
; [10, 00, 00, 00]
; [10, 00, 00, 00]
; [18, 00, 00, 00]
; [18, 00, 00, 00]
; [18, 00, 00, 00]
; [18, 00, 00, 00]
; [18, 00, 00, 00]
; [18, 00, 00, 00]
; [18, 00, 00, 00]
; [18, 00, 00, 00]
; [20, 00, 00, 00]
; [20, 00, 00, 00]
; [20, 00, 00, 00]
; [20, 00, 00, 00]
; [20, 00, 00, 00]
; [20, 00, 00, 00]
; [20, 00, 00, 00]
; [20, 00, 00, 00]
; [00, 00, c0, 7f]
; [00, 00, c0, 7f]
; [00, 00, c0, 7f]
; [00, 00, c0, 7f]
; [00, 00, c0, 7f]
; [00, 00, c0, 7f]
; [00, 00, c0, 7f]
; [00, 00, c0, 7f]
; [ff, ff, ff, 7f]
; [ff, ff, ff, 7f]
; [ff, ff, ff, 7f]
; [ff, ff, ff, 7f]
; [ff, ff, ff, 7f]
; [ff, ff, ff, 7f]
; [ff, ff, ff, 7f]
; [ff, ff, ff, 7f]
