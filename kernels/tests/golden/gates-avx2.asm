; Gates(GateCode { isa: Avx2, gates: GruReset { activation: Affine { alpha: 0.2, beta: 0.5 } }, clip: None })
; part 0, 480 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi]
000d mov rdx,[rdi+8]
0011 mov rcx,[rdi+18h]
0015 mov r10,[rdi+28h]
0019 mov r11,[rdi+38h]
001d mov rax,[rdi+40h]
0021 mov rbx,[rdi+20h]
0025 mov r12,[rdi+30h]
0029 mov r13,[rdi+10h]
002d mov r14,[rdi+48h]
0031 lea r8,[r14+r14]
0035 shl r8,1
0039 lea r9,[r8+r8*2]
003d nop dword [rax]
0040 cmp r14,8
0044 jl near 00000000000000D0h
004a vmovups ymm0,[rsi]
004f vmovups ymm8,[rdx]
0054 vaddps ymm0,ymm0,ymm8
0059 vmulps ymm0,ymm0,[rel 180h]
0062 vaddps ymm0,ymm0,[rel 1A0h]
006b vmovups [r12],ymm0
0071 vmovups ymm1,[rsi+r8]
0077 vmovups ymm8,[rdx+r8]
007d vaddps ymm1,ymm1,ymm8
0082 vmulps ymm1,ymm1,[rel 180h]
008b vaddps ymm1,ymm1,[rel 1A0h]
0094 vmovups ymm2,[rbx]
0099 vmulps ymm1,ymm1,ymm2
009e vmovups [r11],ymm1
00a3 add rsi,20h
00a7 add rdx,20h
00ab add rcx,20h
00af add r10,20h
00b3 add r11,20h
00b7 add rax,20h
00bb add rbx,20h
00bf add r12,20h
00c3 add r13,20h
00c7 sub r14,8
00cb jmp 0000000000000040h
00d0 test r14,r14
00d3 je near 0000000000000145h
00d9 vmovd xmm15,r14d
00de vpbroadcastd ymm15,xmm15
00e3 vpcmpgtd ymm15,ymm15,[rel 1C0h]
00ec vmaskmovps ymm0,ymm15,[rsi]
00f1 vmaskmovps ymm8,ymm15,[rdx]
00f6 vaddps ymm0,ymm0,ymm8
00fb vmulps ymm0,ymm0,[rel 180h]
0104 vaddps ymm0,ymm0,[rel 1A0h]
010d vmaskmovps [r12],ymm15,ymm0
0113 vmaskmovps ymm1,ymm15,[rsi+r8]
0119 vmaskmovps ymm8,ymm15,[rdx+r8]
011f vaddps ymm1,ymm1,ymm8
0124 vmulps ymm1,ymm1,[rel 180h]
012d vaddps ymm1,ymm1,[rel 1A0h]
0136 vmaskmovps ymm2,ymm15,[rbx]
013b vmulps ymm1,ymm1,ymm2
0140 vmaskmovps [r11],ymm15,ymm1
0145 pop r15
0147 pop r14
0149 pop r13
014b pop r12
014d pop rbp
014e pop rbx
014f vzeroupper
0152 ret
0153 nop word [rax+rax]
015c nop word [rax+rax]
0165 nop word [rax+rax]
016e nop word [rax+rax]
0177 nop word [rax+rax]
; [cd, cc, 4c, 3e]
; [cd, cc, 4c, 3e]
; [cd, cc, 4c, 3e]
; [cd, cc, 4c, 3e]
; [cd, cc, 4c, 3e]
; [cd, cc, 4c, 3e]
; [cd, cc, 4c, 3e]
; [cd, cc, 4c, 3e]
; [00, 00, 00, 3f]
; [00, 00, 00, 3f]
; [00, 00, 00, 3f]
; [00, 00, 00, 3f]
; [00, 00, 00, 3f]
; [00, 00, 00, 3f]
; [00, 00, 00, 3f]
; [00, 00, 00, 3f]
; [00, 00, 00, 00]
; [01, 00, 00, 00]
; [02, 00, 00, 00]
; [03, 00, 00, 00]
; [04, 00, 00, 00]
; [05, 00, 00, 00]
; [06, 00, 00, 00]
; [07, 00, 00, 00]
