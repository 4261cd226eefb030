; Blend(BlendCode { isa: Avx2, round: 2 })
; part 0, 864 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi]
000d mov rdx,[rdi+8]
0011 mov r11,[rdi+10h]
0015 mov rbx,[rdi+18h]
0019 mov rcx,[rdi+20h]
001d mov r13,rcx
0020 mov r10,[rdi+30h]
0024 mov r8,r10
0027 and r8,0FFFFFFFFFFFFFFE0h
002b shl r8,2
002f mov r9,r10
0032 and r9,0FFFFFFFFFFFFFFF8h
0036 shl r9,2
003a and r10,7
003e vmovd xmm15,r10d
0043 vpbroadcastd ymm15,xmm15
0048 vpcmpgtd ymm15,ymm15,[rel 340h]
0051 mov eax,0
0057 cmp rax,r8
005a jge near 0000000000000203h
0060 mov r12d,0
0066 mov r14,[rdi+28h]
006a vxorps ymm0,ymm0,ymm0
006f mov rbp,[r11+r12*8]
0073 add rbp,rsi
0076 vpbroadcastd ymm2,[rbx+r12*4]
007c add r12,r13
007f vmovups ymm1,[rbp+rax]
0086 vmulps ymm1,ymm1,ymm2
008b vaddps ymm0,ymm0,ymm1
0090 mov rbp,[r11+r12*8]
0094 add rbp,rsi
0097 vpbroadcastd ymm2,[rbx+r12*4]
009d add r12,r13
00a0 vmovups ymm1,[rbp+rax]
00a7 vmulps ymm1,ymm1,ymm2
00ac vaddps ymm0,ymm0,ymm1
00b1 sub r14,1
00b5 test r14,r14
00b8 jne near 000000000000006Fh
00be vmovups [rdx+rax],ymm0
00c4 mov r12d,0
00ca mov r14,[rdi+28h]
00ce vxorps ymm0,ymm0,ymm0
00d3 mov rbp,[r11+r12*8]
00d7 add rbp,rsi
00da vpbroadcastd ymm2,[rbx+r12*4]
00e0 add r12,r13
00e3 vmovups ymm1,[rbp+rax+20h]
00ea vmulps ymm1,ymm1,ymm2
00ef vaddps ymm0,ymm0,ymm1
00f4 mov rbp,[r11+r12*8]
00f8 add rbp,rsi
00fb vpbroadcastd ymm2,[rbx+r12*4]
0101 add r12,r13
0104 vmovups ymm1,[rbp+rax+20h]
010b vmulps ymm1,ymm1,ymm2
0110 vaddps ymm0,ymm0,ymm1
0115 sub r14,1
0119 test r14,r14
011c jne near 00000000000000D3h
0122 vmovups [rdx+rax+20h],ymm0
0129 mov r12d,0
012f mov r14,[rdi+28h]
0133 vxorps ymm0,ymm0,ymm0
0138 mov rbp,[r11+r12*8]
013c add rbp,rsi
013f vpbroadcastd ymm2,[rbx+r12*4]
0145 add r12,r13
0148 vmovups ymm1,[rbp+rax+40h]
014f vmulps ymm1,ymm1,ymm2
0154 vaddps ymm0,ymm0,ymm1
0159 mov rbp,[r11+r12*8]
015d add rbp,rsi
0160 vpbroadcastd ymm2,[rbx+r12*4]
0166 add r12,r13
0169 vmovups ymm1,[rbp+rax+40h]
0170 vmulps ymm1,ymm1,ymm2
0175 vaddps ymm0,ymm0,ymm1
017a sub r14,1
017e test r14,r14
0181 jne near 0000000000000138h
0187 vmovups [rdx+rax+40h],ymm0
018e mov r12d,0
0194 mov r14,[rdi+28h]
0198 vxorps ymm0,ymm0,ymm0
019d mov rbp,[r11+r12*8]
01a1 add rbp,rsi
01a4 vpbroadcastd ymm2,[rbx+r12*4]
01aa add r12,r13
01ad vmovups ymm1,[rbp+rax+60h]
01b4 vmulps ymm1,ymm1,ymm2
01b9 vaddps ymm0,ymm0,ymm1
01be mov rbp,[r11+r12*8]
01c2 add rbp,rsi
01c5 vpbroadcastd ymm2,[rbx+r12*4]
01cb add r12,r13
01ce vmovups ymm1,[rbp+rax+60h]
01d5 vmulps ymm1,ymm1,ymm2
01da vaddps ymm0,ymm0,ymm1
01df sub r14,1
01e3 test r14,r14
01e6 jne near 000000000000019Dh
01ec vmovups [rdx+rax+60h],ymm0
01f3 add rax,80h
01fa cmp rax,r8
01fd jl near 0000000000000060h
0203 cmp rax,r9
0206 jge near 0000000000000281h
020c nop dword [rax]
0210 mov r12d,0
0216 mov r14,[rdi+28h]
021a vxorps ymm0,ymm0,ymm0
021f mov rbp,[r11+r12*8]
0223 add rbp,rsi
0226 vpbroadcastd ymm2,[rbx+r12*4]
022c add r12,r13
022f vmovups ymm1,[rbp+rax]
0236 vmulps ymm1,ymm1,ymm2
023b vaddps ymm0,ymm0,ymm1
0240 mov rbp,[r11+r12*8]
0244 add rbp,rsi
0247 vpbroadcastd ymm2,[rbx+r12*4]
024d add r12,r13
0250 vmovups ymm1,[rbp+rax]
0257 vmulps ymm1,ymm1,ymm2
025c vaddps ymm0,ymm0,ymm1
0261 sub r14,1
0265 test r14,r14
0268 jne near 000000000000021Fh
026e vmovups [rdx+rax],ymm0
0274 add rax,20h
0278 cmp rax,r9
027b jl near 0000000000000210h
0281 test r10,r10
0284 je near 00000000000002EEh
028a mov r12d,0
0290 mov r14,[rdi+28h]
0294 vxorps ymm0,ymm0,ymm0
0299 mov rbp,[r11+r12*8]
029d add rbp,rsi
02a0 vpbroadcastd ymm2,[rbx+r12*4]
02a6 add r12,r13
02a9 vmaskmovps ymm1,ymm15,[rbp+rax]
02b0 vmulps ymm1,ymm1,ymm2
02b5 vaddps ymm0,ymm0,ymm1
02ba mov rbp,[r11+r12*8]
02be add rbp,rsi
02c1 vpbroadcastd ymm2,[rbx+r12*4]
02c7 add r12,r13
02ca vmaskmovps ymm1,ymm15,[rbp+rax]
02d1 vmulps ymm1,ymm1,ymm2
02d6 vaddps ymm0,ymm0,ymm1
02db sub r14,1
02df test r14,r14
02e2 jne near 0000000000000299h
02e8 vmaskmovps [rdx+rax],ymm15,ymm0
02ee add r11,8
02f2 add rbx,4
02f6 mov rbp,[rdi+38h]
02fa add rdx,rbp
02fd sub rcx,1
0301 test rcx,rcx
0304 jne near 0000000000000051h
030a pop r15
030c pop r14
030e pop r13
0310 pop r12
0312 pop rbp
0313 pop rbx
0314 vzeroupper
0317 ret
0318 nop word [rax+rax]
0321 nop word [rax+rax]
032a nop word [rax+rax]
0333 nop word [rax+rax]
033c nop dword [rax]
; [00, 00, 00, 00]
; [01, 00, 00, 00]
; [02, 00, 00, 00]
; [03, 00, 00, 00]
; [04, 00, 00, 00]
; [05, 00, 00, 00]
; [06, 00, 00, 00]
; [07, 00, 00, 00]
