; Lookup(LookupCode { isa: Avx512, form: Pieces })
; part 0, 840 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi]
000d mov rdx,[rdi+8]
0011 mov r8,[rdi+10h]
0015 mov rcx,[rdi+18h]
0019 vbroadcastss zmm14,[rel 340h]
0023 vbroadcastss zmm15,[rel 344h]
002d nop dword [rax]
0030 vbroadcastf32x4 zmm13,[r8]
0036 vmovups zmm0,[rsi]
003c vpshufb zmm2,zmm13,zmm0
0042 vmovups zmm1,[rsi+40h]
0049 vpshufb zmm3,zmm13,zmm1
004f vbroadcastf32x4 zmm13,[r8+10h]
0056 vpaddsb zmm0,zmm0,zmm14
005c vpshufb zmm4,zmm13,zmm0
0062 vxorps zmm2,zmm2,zmm4
0068 vpaddsb zmm1,zmm1,zmm14
006e vpshufb zmm5,zmm13,zmm1
0074 vxorps zmm3,zmm3,zmm5
007a vbroadcastf32x4 zmm13,[r8+20h]
0081 vpaddsb zmm0,zmm0,zmm14
0087 vpshufb zmm4,zmm13,zmm0
008d vxorps zmm2,zmm2,zmm4
0093 vpaddsb zmm1,zmm1,zmm14
0099 vpshufb zmm5,zmm13,zmm1
009f vxorps zmm3,zmm3,zmm5
00a5 vbroadcastf32x4 zmm13,[r8+30h]
00ac vpaddsb zmm0,zmm0,zmm14
00b2 vpshufb zmm4,zmm13,zmm0
00b8 vxorps zmm2,zmm2,zmm4
00be vpaddsb zmm1,zmm1,zmm14
00c4 vpshufb zmm5,zmm13,zmm1
00ca vxorps zmm3,zmm3,zmm5
00d0 vbroadcastf32x4 zmm13,[r8+40h]
00d7 vpaddsb zmm0,zmm0,zmm14
00dd vpshufb zmm4,zmm13,zmm0
00e3 vxorps zmm2,zmm2,zmm4
00e9 vpaddsb zmm1,zmm1,zmm14
00ef vpshufb zmm5,zmm13,zmm1
00f5 vxorps zmm3,zmm3,zmm5
00fb vbroadcastf32x4 zmm13,[r8+50h]
0102 vpaddsb zmm0,zmm0,zmm14
0108 vpshufb zmm4,zmm13,zmm0
010e vxorps zmm2,zmm2,zmm4
0114 vpaddsb zmm1,zmm1,zmm14
011a vpshufb zmm5,zmm13,zmm1
0120 vxorps zmm3,zmm3,zmm5
0126 vbroadcastf32x4 zmm13,[r8+60h]
012d vpaddsb zmm0,zmm0,zmm14
0133 vpshufb zmm4,zmm13,zmm0
0139 vxorps zmm2,zmm2,zmm4
013f vpaddsb zmm1,zmm1,zmm14
0145 vpshufb zmm5,zmm13,zmm1
014b vxorps zmm3,zmm3,zmm5
0151 vbroadcastf32x4 zmm13,[r8+70h]
0158 vpaddsb zmm0,zmm0,zmm14
015e vpshufb zmm4,zmm13,zmm0
0164 vxorps zmm2,zmm2,zmm4
016a vpaddsb zmm1,zmm1,zmm14
0170 vpshufb zmm5,zmm13,zmm1
0176 vxorps zmm3,zmm3,zmm5
017c vbroadcastf32x4 zmm13,[r8+80h]
0183 vxorps zmm0,zmm15,[rsi]
0189 vpshufb zmm4,zmm13,zmm0
018f vxorps zmm2,zmm2,zmm4
0195 vxorps zmm1,zmm15,[rsi+40h]
019c vpshufb zmm5,zmm13,zmm1
01a2 vxorps zmm3,zmm3,zmm5
01a8 vbroadcastf32x4 zmm13,[r8+90h]
01af vpaddsb zmm0,zmm0,zmm14
01b5 vpshufb zmm4,zmm13,zmm0
01bb vxorps zmm2,zmm2,zmm4
01c1 vpaddsb zmm1,zmm1,zmm14
01c7 vpshufb zmm5,zmm13,zmm1
01cd vxorps zmm3,zmm3,zmm5
01d3 vbroadcastf32x4 zmm13,[r8+0A0h]
01da vpaddsb zmm0,zmm0,zmm14
01e0 vpshufb zmm4,zmm13,zmm0
01e6 vxorps zmm2,zmm2,zmm4
01ec vpaddsb zmm1,zmm1,zmm14
01f2 vpshufb zmm5,zmm13,zmm1
01f8 vxorps zmm3,zmm3,zmm5
01fe vbroadcastf32x4 zmm13,[r8+0B0h]
0205 vpaddsb zmm0,zmm0,zmm14
020b vpshufb zmm4,zmm13,zmm0
0211 vxorps zmm2,zmm2,zmm4
0217 vpaddsb zmm1,zmm1,zmm14
021d vpshufb zmm5,zmm13,zmm1
0223 vxorps zmm3,zmm3,zmm5
0229 vbroadcastf32x4 zmm13,[r8+0C0h]
0230 vpaddsb zmm0,zmm0,zmm14
0236 vpshufb zmm4,zmm13,zmm0
023c vxorps zmm2,zmm2,zmm4
0242 vpaddsb zmm1,zmm1,zmm14
0248 vpshufb zmm5,zmm13,zmm1
024e vxorps zmm3,zmm3,zmm5
0254 vbroadcastf32x4 zmm13,[r8+0D0h]
025b vpaddsb zmm0,zmm0,zmm14
0261 vpshufb zmm4,zmm13,zmm0
0267 vxorps zmm2,zmm2,zmm4
026d vpaddsb zmm1,zmm1,zmm14
0273 vpshufb zmm5,zmm13,zmm1
0279 vxorps zmm3,zmm3,zmm5
027f vbroadcastf32x4 zmm13,[r8+0E0h]
0286 vpaddsb zmm0,zmm0,zmm14
028c vpshufb zmm4,zmm13,zmm0
0292 vxorps zmm2,zmm2,zmm4
0298 vpaddsb zmm1,zmm1,zmm14
029e vpshufb zmm5,zmm13,zmm1
02a4 vxorps zmm3,zmm3,zmm5
02aa vbroadcastf32x4 zmm13,[r8+0F0h]
02b1 vpaddsb zmm0,zmm0,zmm14
02b7 vpshufb zmm4,zmm13,zmm0
02bd vxorps zmm2,zmm2,zmm4
02c3 vpaddsb zmm1,zmm1,zmm14
02c9 vpshufb zmm5,zmm13,zmm1
02cf vxorps zmm3,zmm3,zmm5
02d5 vmovups [rdx],zmm2
02db vmovups [rdx+40h],zmm3
02e2 add rsi,80h
02e9 add rdx,80h
02f0 sub rcx,1
02f4 test rcx,rcx
02f7 jne near 0000000000000030h
02fd pop r15
02ff pop r14
0301 pop r13
0303 pop r12
0305 pop rbp
0306 pop rbx
0307 vzeroupper
030a ret
030b nop word [rax+rax]
0314 nop word [rax+rax]
031d nop word [rax+rax]
0326 nop word [rax+rax]
032f nop word [rax+rax]
0338 nop dword [rax+rax]
; [f0, f0, f0, f0]
; [80, 80, 80, 80]
