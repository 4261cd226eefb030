; Reduce(ReduceCode { isa: Avx2, pass: Pass { map: Square, fold: Add, finish: Sqrt }, walk: Rows, centred: false })
; part 0, 416 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi]
000d mov rdx,[rdi+8]
0011 mov r11,[rdi+20h]
0015 vpbroadcastd ymm8,[rdi+28h]
001b mov r10,[rdi+18h]
001f mov r8,r10
0022 and r8,0FFFFFFFFFFFFFFE0h
0026 shl r8,2
002a mov r9,r10
002d and r9,0FFFFFFFFFFFFFFF8h
0031 shl r9,2
0035 and r10,7
0039 vmovd xmm15,r10d
003e vpbroadcastd ymm15,xmm15
0043 vpcmpgtd ymm15,ymm15,[rel 180h]
004c mov rcx,[rdi+10h]
0050 vxorps ymm0,ymm0,ymm0
0055 vxorps ymm1,ymm1,ymm1
005a vxorps ymm2,ymm2,ymm2
005f vxorps ymm3,ymm3,ymm3
0064 mov eax,0
006a cmp rax,r8
006d jge near 00000000000000BFh
0073 nop word [rax+rax]
007c nop dword [rax]
0080 vmovups ymm9,[rsi+rax]
0086 vfmadd231ps ymm0,ymm9,ymm9
008b vmovups ymm9,[rsi+rax+20h]
0092 vfmadd231ps ymm1,ymm9,ymm9
0097 vmovups ymm9,[rsi+rax+40h]
009e vfmadd231ps ymm2,ymm9,ymm9
00a3 vmovups ymm9,[rsi+rax+60h]
00aa vfmadd231ps ymm3,ymm9,ymm9
00af add rax,80h
00b6 cmp rax,r8
00b9 jl near 0000000000000080h
00bf cmp rax,r9
00c2 jge near 00000000000000E8h
00c8 nop dword [rax+rax]
00d0 vmovups ymm9,[rsi+rax]
00d6 vfmadd231ps ymm0,ymm9,ymm9
00db add rax,20h
00df cmp rax,r9
00e2 jl near 00000000000000D0h
00e8 test r10,r10
00eb je near 00000000000000FCh
00f1 vmaskmovps ymm9,ymm15,[rsi+rax]
00f7 vfmadd231ps ymm0,ymm9,ymm9
00fc vaddps ymm0,ymm0,ymm1
0101 vaddps ymm2,ymm2,ymm3
0106 vaddps ymm0,ymm0,ymm2
010b vperm2f128 ymm10,ymm0,ymm0,1
0111 vaddps ymm0,ymm0,ymm10
0116 vpermilps ymm10,ymm0,4Eh
011c vaddps ymm0,ymm0,ymm10
0121 vpermilps ymm10,ymm0,0B1h
0127 vaddps ymm0,ymm0,ymm10
012c vmulps ymm0,ymm0,ymm8
0131 vsqrtps ymm0,ymm0
0136 vmovss [rdx],xmm0
013d add rsi,r11
0140 add rdx,4
0144 sub rcx,1
0148 test rcx,rcx
014b jne near 0000000000000050h
0151 pop r15
0153 pop r14
0155 pop r13
0157 pop r12
0159 pop rbp
015a pop rbx
015b vzeroupper
015e ret
015f nop word [rax+rax]
0168 nop word [rax+rax]
0171 nop word [rax+rax]
017a nop word [rax+rax]
; [00, 00, 00, 00]
; [01, 00, 00, 00]
; [02, 00, 00, 00]
; [03, 00, 00, 00]
; [04, 00, 00, 00]
; [05, 00, 00, 00]
; [06, 00, 00, 00]
; [07, 00, 00, 00]
