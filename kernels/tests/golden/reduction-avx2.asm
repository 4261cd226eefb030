; Reduce(ReduceCode { isa: Avx2, pass: Pass { map: Square, fold: Add, post_op: Sqrt }, order: Rows, centred: false })
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
006d jge near 00000000000000D1h
0073 nop word [rax+rax]
007c nop dword [rax]
0080 prefetcht0 [rsi+rax+1000h]
0089 vmovups ymm9,[rsi+rax]
008f vfmadd231ps ymm0,ymm9,ymm9
0094 vmovups ymm9,[rsi+rax+20h]
009b vfmadd231ps ymm1,ymm9,ymm9
00a0 prefetcht0 [rsi+rax+1040h]
00a9 vmovups ymm9,[rsi+rax+40h]
00b0 vfmadd231ps ymm2,ymm9,ymm9
00b5 vmovups ymm9,[rsi+rax+60h]
00bc vfmadd231ps ymm3,ymm9,ymm9
00c1 add rax,80h
00c8 cmp rax,r8
00cb jl near 0000000000000080h
00d1 cmp rax,r9
00d4 jge near 0000000000000101h
00da nop word [rax+rax]
00e0 prefetcht0 [rsi+rax+1000h]
00e9 vmovups ymm9,[rsi+rax]
00ef vfmadd231ps ymm0,ymm9,ymm9
00f4 add rax,20h
00f8 cmp rax,r9
00fb jl near 00000000000000E0h
0101 test r10,r10
0104 je near 0000000000000115h
010a vmaskmovps ymm9,ymm15,[rsi+rax]
0110 vfmadd231ps ymm0,ymm9,ymm9
0115 vaddps ymm0,ymm0,ymm1
011a vaddps ymm2,ymm2,ymm3
011f vaddps ymm0,ymm0,ymm2
0124 vperm2f128 ymm10,ymm0,ymm0,1
012a vaddps ymm0,ymm0,ymm10
012f vpermilps ymm10,ymm0,4Eh
0135 vaddps ymm0,ymm0,ymm10
013a vpermilps ymm10,ymm0,0B1h
0140 vaddps ymm0,ymm0,ymm10
0145 vmulps ymm0,ymm0,ymm8
014a vsqrtps ymm0,ymm0
014f vmovss [rdx],xmm0
0156 add rsi,r11
0159 add rdx,4
015d sub rcx,1
0161 test rcx,rcx
0164 jne near 0000000000000050h
016a pop r15
016c pop r14
016e pop r13
0170 pop r12
0172 pop rbp
0173 pop rbx
0174 vzeroupper
0177 ret
0178 nop dword [rax+rax]
; [00, 00, 00, 00]
; [01, 00, 00, 00]
; [02, 00, 00, 00]
; [03, 00, 00, 00]
; [04, 00, 00, 00]
; [05, 00, 00, 00]
; [06, 00, 00, 00]
; [07, 00, 00, 00]
