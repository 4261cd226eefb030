; Rotary(RotaryCode { isa: Avx2, interleaved: false })
; part 0, 992 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi]
000d mov rdx,[rdi+8]
0011 mov r11,[rdi+20h]
0015 mov rcx,[rdi+30h]
0019 mov r10,[rdi+38h]
001d mov r8,r10
0020 and r8,0FFFFFFFFFFFFFFE0h
0024 shl r8,2
0028 mov r9,r10
002b and r9,0FFFFFFFFFFFFFFF8h
002f shl r9,2
0033 and r10,7
0037 vmovd xmm15,r10d
003c vpbroadcastd ymm15,xmm15
0041 vpcmpgtd ymm15,ymm15,[rel 3C0h]
004a mov rbx,[r11]
004d mov r12,[rdi+38h]
0051 shl r12,2
0055 imul rbx,r12
0059 mov rbp,rbx
005c add rbx,[rdi+10h]
0060 add rbp,[rdi+18h]
0064 add r11,[rdi+28h]
0068 mov r12,[rdi+38h]
006c shl r12,2
0070 mov r13,rsi
0073 add r13,r12
0076 mov r14,rdx
0079 add r14,r12
007c mov eax,0
0082 cmp rax,r8
0085 jge near 00000000000001BCh
008b nop dword [rax+rax]
0090 vmovups ymm0,[rsi+rax]
0096 vmovups ymm1,[r13+rax]
009d vmovups ymm2,[rbx+rax]
00a3 vmovups ymm3,[rbp+rax]
00aa vmulps ymm4,ymm2,ymm0
00af vmulps ymm5,ymm3,ymm1
00b4 vsubps ymm4,ymm4,ymm5
00b9 vmovups [rdx+rax],ymm4
00bf vmulps ymm0,ymm3,ymm0
00c4 vmulps ymm1,ymm2,ymm1
00c9 vaddps ymm0,ymm0,ymm1
00ce vmovups [r14+rax],ymm0
00d4 vmovups ymm0,[rsi+rax+20h]
00db vmovups ymm1,[r13+rax+20h]
00e2 vmovups ymm2,[rbx+rax+20h]
00e9 vmovups ymm3,[rbp+rax+20h]
00f0 vmulps ymm4,ymm2,ymm0
00f5 vmulps ymm5,ymm3,ymm1
00fa vsubps ymm4,ymm4,ymm5
00ff vmovups [rdx+rax+20h],ymm4
0106 vmulps ymm0,ymm3,ymm0
010b vmulps ymm1,ymm2,ymm1
0110 vaddps ymm0,ymm0,ymm1
0115 vmovups [r14+rax+20h],ymm0
011c vmovups ymm0,[rsi+rax+40h]
0123 vmovups ymm1,[r13+rax+40h]
012a vmovups ymm2,[rbx+rax+40h]
0131 vmovups ymm3,[rbp+rax+40h]
0138 vmulps ymm4,ymm2,ymm0
013d vmulps ymm5,ymm3,ymm1
0142 vsubps ymm4,ymm4,ymm5
0147 vmovups [rdx+rax+40h],ymm4
014e vmulps ymm0,ymm3,ymm0
0153 vmulps ymm1,ymm2,ymm1
0158 vaddps ymm0,ymm0,ymm1
015d vmovups [r14+rax+40h],ymm0
0164 vmovups ymm0,[rsi+rax+60h]
016b vmovups ymm1,[r13+rax+60h]
0172 vmovups ymm2,[rbx+rax+60h]
0179 vmovups ymm3,[rbp+rax+60h]
0180 vmulps ymm4,ymm2,ymm0
0185 vmulps ymm5,ymm3,ymm1
018a vsubps ymm4,ymm4,ymm5
018f vmovups [rdx+rax+60h],ymm4
0196 vmulps ymm0,ymm3,ymm0
019b vmulps ymm1,ymm2,ymm1
01a0 vaddps ymm0,ymm0,ymm1
01a5 vmovups [r14+rax+60h],ymm0
01ac add rax,80h
01b3 cmp rax,r8
01b6 jl near 0000000000000090h
01bc cmp rax,r9
01bf jge near 0000000000000221h
01c5 nop word [rax+rax]
01ce xchg ax,ax
01d0 vmovups ymm0,[rsi+rax]
01d6 vmovups ymm1,[r13+rax]
01dd vmovups ymm2,[rbx+rax]
01e3 vmovups ymm3,[rbp+rax]
01ea vmulps ymm4,ymm2,ymm0
01ef vmulps ymm5,ymm3,ymm1
01f4 vsubps ymm4,ymm4,ymm5
01f9 vmovups [rdx+rax],ymm4
01ff vmulps ymm0,ymm3,ymm0
0204 vmulps ymm1,ymm2,ymm1
0209 vaddps ymm0,ymm0,ymm1
020e vmovups [r14+rax],ymm0
0214 add rax,20h
0218 cmp rax,r9
021b jl near 00000000000001D0h
0221 test r10,r10
0224 je near 000000000000026Eh
022a vmaskmovps ymm0,ymm15,[rsi+rax]
0230 vmaskmovps ymm1,ymm15,[r13+rax]
0237 vmaskmovps ymm2,ymm15,[rbx+rax]
023d vmaskmovps ymm3,ymm15,[rbp+rax]
0244 vmulps ymm4,ymm2,ymm0
0249 vmulps ymm5,ymm3,ymm1
024e vsubps ymm4,ymm4,ymm5
0253 vmaskmovps [rdx+rax],ymm15,ymm4
0259 vmulps ymm0,ymm3,ymm0
025e vmulps ymm1,ymm2,ymm1
0263 vaddps ymm0,ymm0,ymm1
0268 vmaskmovps [r14+rax],ymm15,ymm0
026e mov r12,[rdi+40h]
0272 test r12,r12
0275 je near 0000000000000381h
027b mov r12,[rdi+38h]
027f shl r12,3
0283 mov r13,rsi
0286 add r13,r12
0289 mov r14,rdx
028c add r14,r12
028f mov r10,[rdi+40h]
0293 mov r8,r10
0296 and r8,0FFFFFFFFFFFFFFE0h
029a shl r8,2
029e mov r9,r10
02a1 and r9,0FFFFFFFFFFFFFFF8h
02a5 shl r9,2
02a9 and r10,7
02ad vmovd xmm15,r10d
02b2 vpbroadcastd ymm15,xmm15
02b7 vpcmpgtd ymm15,ymm15,[rel 3C0h]
02c0 mov eax,0
02c6 cmp rax,r8
02c9 jge near 0000000000000317h
02cf nop
02d0 vmovups ymm0,[r13+rax]
02d7 vmovups [r14+rax],ymm0
02dd vmovups ymm0,[r13+rax+20h]
02e4 vmovups [r14+rax+20h],ymm0
02eb vmovups ymm0,[r13+rax+40h]
02f2 vmovups [r14+rax+40h],ymm0
02f9 vmovups ymm0,[r13+rax+60h]
0300 vmovups [r14+rax+60h],ymm0
0307 add rax,80h
030e cmp rax,r8
0311 jl near 00000000000002D0h
0317 cmp rax,r9
031a jge near 000000000000033Ah
0320 vmovups ymm0,[r13+rax]
0327 vmovups [r14+rax],ymm0
032d add rax,20h
0331 cmp rax,r9
0334 jl near 0000000000000320h
033a test r10,r10
033d je near 0000000000000350h
0343 vmaskmovps ymm0,ymm15,[r13+rax]
034a vmaskmovps [r14+rax],ymm15,ymm0
0350 mov r10,[rdi+38h]
0354 mov r8,r10
0357 and r8,0FFFFFFFFFFFFFFE0h
035b shl r8,2
035f mov r9,r10
0362 and r9,0FFFFFFFFFFFFFFF8h
0366 shl r9,2
036a and r10,7
036e vmovd xmm15,r10d
0373 vpbroadcastd ymm15,xmm15
0378 vpcmpgtd ymm15,ymm15,[rel 3C0h]
0381 mov r12,[rdi+48h]
0385 add rsi,r12
0388 add rdx,r12
038b sub rcx,1
038f test rcx,rcx
0392 jne near 000000000000004Ah
0398 pop r15
039a pop r14
039c pop r13
039e pop r12
03a0 pop rbp
03a1 pop rbx
03a2 vzeroupper
03a5 ret
03a6 nop word [rax+rax]
03af nop word [rax+rax]
03b8 nop dword [rax+rax]
; [00, 00, 00, 00]
; [01, 00, 00, 00]
; [02, 00, 00, 00]
; [03, 00, 00, 00]
; [04, 00, 00, 00]
; [05, 00, 00, 00]
; [06, 00, 00, 00]
; [07, 00, 00, 00]
