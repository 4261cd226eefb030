; Reduce(ReduceCode { isa: Avx512, pass: Pass { map: Square, fold: Add, post_op: Sqrt }, order: Rows, centred: false })
; part 0, 435 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi]
000d mov rdx,[rdi+8]
0011 mov r11,[rdi+20h]
0015 vpbroadcastd zmm8,[rdi+28h]
001c mov r10,[rdi+18h]
0020 mov r8,r10
0023 and r8,0FFFFFFFFFFFFFFC0h
0027 shl r8,2
002b mov r9,r10
002e and r9,0FFFFFFFFFFFFFFF0h
0032 shl r9,2
0036 and r10,0Fh
003a xor eax,eax
003d bts rax,r10
0041 sub eax,1
0045 kmovw k1,eax
0049 mov rcx,[rdi+10h]
004d vpxord zmm0,zmm0,zmm0
0053 vpxord zmm1,zmm1,zmm1
0059 vpxord zmm2,zmm2,zmm2
005f vpxord zmm3,zmm3,zmm3
0065 mov eax,0
006b cmp rax,r8
006e jge near 00000000000000EBh
0074 nop word [rax+rax]
007d nop dword [rax]
0080 prefetcht0 [rsi+rax+1000h]
0089 vmovups zmm9,[rsi+rax]
0090 vfmadd231ps zmm0,zmm9,zmm9
0096 prefetcht0 [rsi+rax+1040h]
009f vmovups zmm9,[rsi+rax+40h]
00a7 vfmadd231ps zmm1,zmm9,zmm9
00ad prefetcht0 [rsi+rax+1080h]
00b6 vmovups zmm9,[rsi+rax+80h]
00be vfmadd231ps zmm2,zmm9,zmm9
00c4 prefetcht0 [rsi+rax+10C0h]
00cd vmovups zmm9,[rsi+rax+0C0h]
00d5 vfmadd231ps zmm3,zmm9,zmm9
00db add rax,100h
00e2 cmp rax,r8
00e5 jl near 0000000000000080h
00eb cmp rax,r9
00ee jge near 0000000000000123h
00f4 nop word [rax+rax]
00fd nop dword [rax]
0100 prefetcht0 [rsi+rax+1000h]
0109 vmovups zmm9,[rsi+rax]
0110 vfmadd231ps zmm0,zmm9,zmm9
0116 add rax,40h
011a cmp rax,r9
011d jl near 0000000000000100h
0123 test r10,r10
0126 je near 0000000000000139h
012c vmovups zmm9{k1}{z},[rsi+rax]
0133 vfmadd231ps zmm0,zmm9,zmm9
0139 vaddps zmm0,zmm0,zmm1
013f vaddps zmm2,zmm2,zmm3
0145 vaddps zmm0,zmm0,zmm2
014b vshuff32x4 zmm10,zmm0,zmm0,4Eh
0152 vaddps zmm0,zmm0,zmm10
0158 vshuff32x4 zmm10,zmm0,zmm0,0B1h
015f vaddps zmm0,zmm0,zmm10
0165 vpermilps zmm10,zmm0,4Eh
016c vaddps zmm0,zmm0,zmm10
0172 vpermilps zmm10,zmm0,0B1h
0179 vaddps zmm0,zmm0,zmm10
017f vmulps zmm0,zmm0,zmm8
0185 vsqrtps zmm0,zmm0
018b vmovss [rdx],xmm0
0191 add rsi,r11
0194 add rdx,4
0198 sub rcx,1
019c test rcx,rcx
019f jne near 000000000000004Dh
01a5 pop r15
01a7 pop r14
01a9 pop r13
01ab pop r12
01ad pop rbp
01ae pop rbx
01af vzeroupper
01b2 ret
