; Rotary(RotaryCode { isa: Avx2, interleaved: true })
; part 0, 1184 bytes
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
0019 vmovups ymm10,[rel 440h]
0022 vmovups ymm11,[rel 460h]
002b mov ebx,4
0031 vmovd xmm12,ebx
0036 vpbroadcastd ymm12,xmm12
003b vpcmpgtd ymm12,ymm12,[rel 480h]
0044 mov rbx,[rdi+38h]
0048 and rbx,3
004c vmovd xmm13,ebx
0051 vpbroadcastd ymm13,xmm13
0056 vpcmpgtd ymm13,ymm13,[rel 480h]
005f mov r10,[rdi+38h]
0063 shl r10,1
0067 mov r8,r10
006a and r8,0FFFFFFFFFFFFFFE0h
006e shl r8,2
0072 mov r9,r10
0075 and r9,0FFFFFFFFFFFFFFF8h
0079 shl r9,2
007d and r10,7
0081 vmovd xmm15,r10d
0086 vpbroadcastd ymm15,xmm15
008b vpcmpgtd ymm15,ymm15,[rel 480h]
0094 mov rbx,[r11]
0097 mov r12,[rdi+38h]
009b shl r12,2
009f imul rbx,r12
00a3 mov rbp,rbx
00a6 add rbx,[rdi+10h]
00aa add rbp,[rdi+18h]
00ae add r11,[rdi+28h]
00b2 mov eax,0
00b8 cmp rax,r8
00bb jge near 00000000000001F9h
00c1 nop word [rax+rax]
00ca nop word [rax+rax]
00d0 vmovups ymm0,[rsi+rax]
00d6 vpermilps ymm1,ymm0,0B1h
00dc mov r15,rax
00df shr r15,1
00e3 vmaskmovps ymm2,ymm12,[rbx+r15]
00e9 vpermps ymm2,ymm11,ymm2
00ee vmaskmovps ymm3,ymm12,[rbp+r15]
00f5 vpermps ymm3,ymm11,ymm3
00fa vmulps ymm0,ymm2,ymm0
00ff vmulps ymm1,ymm3,ymm1
0104 vxorps ymm1,ymm1,ymm10
0109 vaddps ymm0,ymm0,ymm1
010e vmovups [rdx+rax],ymm0
0114 vmovups ymm0,[rsi+rax+20h]
011b vpermilps ymm1,ymm0,0B1h
0121 mov r15,rax
0124 shr r15,1
0128 vmaskmovps ymm2,ymm12,[rbx+r15+10h]
012f vpermps ymm2,ymm11,ymm2
0134 vmaskmovps ymm3,ymm12,[rbp+r15+10h]
013b vpermps ymm3,ymm11,ymm3
0140 vmulps ymm0,ymm2,ymm0
0145 vmulps ymm1,ymm3,ymm1
014a vxorps ymm1,ymm1,ymm10
014f vaddps ymm0,ymm0,ymm1
0154 vmovups [rdx+rax+20h],ymm0
015b vmovups ymm0,[rsi+rax+40h]
0162 vpermilps ymm1,ymm0,0B1h
0168 mov r15,rax
016b shr r15,1
016f vmaskmovps ymm2,ymm12,[rbx+r15+20h]
0176 vpermps ymm2,ymm11,ymm2
017b vmaskmovps ymm3,ymm12,[rbp+r15+20h]
0182 vpermps ymm3,ymm11,ymm3
0187 vmulps ymm0,ymm2,ymm0
018c vmulps ymm1,ymm3,ymm1
0191 vxorps ymm1,ymm1,ymm10
0196 vaddps ymm0,ymm0,ymm1
019b vmovups [rdx+rax+40h],ymm0
01a2 vmovups ymm0,[rsi+rax+60h]
01a9 vpermilps ymm1,ymm0,0B1h
01af mov r15,rax
01b2 shr r15,1
01b6 vmaskmovps ymm2,ymm12,[rbx+r15+30h]
01bd vpermps ymm2,ymm11,ymm2
01c2 vmaskmovps ymm3,ymm12,[rbp+r15+30h]
01c9 vpermps ymm3,ymm11,ymm3
01ce vmulps ymm0,ymm2,ymm0
01d3 vmulps ymm1,ymm3,ymm1
01d8 vxorps ymm1,ymm1,ymm10
01dd vaddps ymm0,ymm0,ymm1
01e2 vmovups [rdx+rax+60h],ymm0
01e9 add rax,80h
01f0 cmp rax,r8
01f3 jl near 00000000000000D0h
01f9 cmp rax,r9
01fc jge near 0000000000000261h
0202 nop word [rax+rax]
020b nop dword [rax+rax]
0210 vmovups ymm0,[rsi+rax]
0216 vpermilps ymm1,ymm0,0B1h
021c mov r15,rax
021f shr r15,1
0223 vmaskmovps ymm2,ymm12,[rbx+r15]
0229 vpermps ymm2,ymm11,ymm2
022e vmaskmovps ymm3,ymm12,[rbp+r15]
0235 vpermps ymm3,ymm11,ymm3
023a vmulps ymm0,ymm2,ymm0
023f vmulps ymm1,ymm3,ymm1
0244 vxorps ymm1,ymm1,ymm10
0249 vaddps ymm0,ymm0,ymm1
024e vmovups [rdx+rax],ymm0
0254 add rax,20h
0258 cmp rax,r9
025b jl near 0000000000000210h
0261 test r10,r10
0264 je near 00000000000002AEh
026a vmaskmovps ymm0,ymm15,[rsi+rax]
0270 vpermilps ymm1,ymm0,0B1h
0276 mov r15,rax
0279 shr r15,1
027d vmaskmovps ymm2,ymm13,[rbx+r15]
0283 vpermps ymm2,ymm11,ymm2
0288 vmaskmovps ymm3,ymm13,[rbp+r15]
028f vpermps ymm3,ymm11,ymm3
0294 vmulps ymm0,ymm2,ymm0
0299 vmulps ymm1,ymm3,ymm1
029e vxorps ymm1,ymm1,ymm10
02a3 vaddps ymm0,ymm0,ymm1
02a8 vmaskmovps [rdx+rax],ymm15,ymm0
02ae mov r12,[rdi+40h]
02b2 test r12,r12
02b5 je near 00000000000003E0h
02bb mov r12,[rdi+38h]
02bf shl r12,3
02c3 mov r13,rsi
02c6 add r13,r12
02c9 mov r14,rdx
02cc add r14,r12
02cf mov r10,[rdi+40h]
02d3 mov r8,r10
02d6 and r8,0FFFFFFFFFFFFFFE0h
02da shl r8,2
02de mov r9,r10
02e1 and r9,0FFFFFFFFFFFFFFF8h
02e5 shl r9,2
02e9 and r10,7
02ed vmovd xmm15,r10d
02f2 vpbroadcastd ymm15,xmm15
02f7 vpcmpgtd ymm15,ymm15,[rel 480h]
0300 mov eax,0
0306 cmp rax,r8
0309 jge near 0000000000000357h
030f nop
0310 vmovups ymm0,[r13+rax]
0317 vmovups [r14+rax],ymm0
031d vmovups ymm0,[r13+rax+20h]
0324 vmovups [r14+rax+20h],ymm0
032b vmovups ymm0,[r13+rax+40h]
0332 vmovups [r14+rax+40h],ymm0
0339 vmovups ymm0,[r13+rax+60h]
0340 vmovups [r14+rax+60h],ymm0
0347 add rax,80h
034e cmp rax,r8
0351 jl near 0000000000000310h
0357 cmp rax,r9
035a jge near 000000000000037Ah
0360 vmovups ymm0,[r13+rax]
0367 vmovups [r14+rax],ymm0
036d add rax,20h
0371 cmp rax,r9
0374 jl near 0000000000000360h
037a test r10,r10
037d je near 0000000000000390h
0383 vmaskmovps ymm0,ymm15,[r13+rax]
038a vmaskmovps [r14+rax],ymm15,ymm0
0390 mov rbx,[rdi+38h]
0394 and rbx,3
0398 vmovd xmm13,ebx
039d vpbroadcastd ymm13,xmm13
03a2 vpcmpgtd ymm13,ymm13,[rel 480h]
03ab mov r10,[rdi+38h]
03af shl r10,1
03b3 mov r8,r10
03b6 and r8,0FFFFFFFFFFFFFFE0h
03ba shl r8,2
03be mov r9,r10
03c1 and r9,0FFFFFFFFFFFFFFF8h
03c5 shl r9,2
03c9 and r10,7
03cd vmovd xmm15,r10d
03d2 vpbroadcastd ymm15,xmm15
03d7 vpcmpgtd ymm15,ymm15,[rel 480h]
03e0 mov r12,[rdi+48h]
03e4 add rsi,r12
03e7 add rdx,r12
03ea sub rcx,1
03ee test rcx,rcx
03f1 jne near 0000000000000094h
03f7 pop r15
03f9 pop r14
03fb pop r13
03fd pop r12
03ff pop rbp
0400 pop rbx
0401 vzeroupper
0404 ret
0405 nop word [rax+rax]
040e nop word [rax+rax]
0417 nop word [rax+rax]
0420 nop word [rax+rax]
0429 nop word [rax+rax]
0432 nop word [rax+rax]
043b nop dword [rax+rax]
; [00, 00, 00, 80]
; [00, 00, 00, 00]
; [00, 00, 00, 80]
; [00, 00, 00, 00]
; [00, 00, 00, 80]
; [00, 00, 00, 00]
; [00, 00, 00, 80]
; [00, 00, 00, 00]
; [00, 00, 00, 00]
; [00, 00, 00, 00]
; [01, 00, 00, 00]
; [01, 00, 00, 00]
; [02, 00, 00, 00]
; [02, 00, 00, 00]
; [03, 00, 00, 00]
; [03, 00, 00, 00]
; [00, 00, 00, 00]
; [01, 00, 00, 00]
; [02, 00, 00, 00]
; [03, 00, 00, 00]
; [04, 00, 00, 00]
; [05, 00, 00, 00]
; [06, 00, 00, 00]
; [07, 00, 00, 00]
