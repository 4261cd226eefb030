; Attention(AttentionCode { isa: Avx2, form: Dots })
; part 0, 736 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi]
000d mov rdx,[rdi+8]
0011 mov rcx,[rdi+28h]
0015 mov r8,[rdi+10h]
0019 mov r10,[rdi+18h]
001d mov rbx,[rdi+20h]
0021 lea r9,[r8+r8*2]
0025 mov r11,rbx
0028 and r11,0FFFFFFFFFFFFFFF8h
002c shl r11,2
0030 and rbx,7
0034 vmovd xmm15,ebx
0039 vpbroadcastd ymm15,xmm15
003e vpcmpgtd ymm15,ymm15,[rel 2C0h]
0047 cmp r10,8
004b jl near 00000000000001D4h
0051 mov r12,rdx
0054 lea r13,[r12+r8*4]
0058 vxorps ymm0,ymm0,ymm0
005d vxorps ymm1,ymm1,ymm1
0062 vxorps ymm2,ymm2,ymm2
0067 vxorps ymm3,ymm3,ymm3
006c vxorps ymm4,ymm4,ymm4
0071 vxorps ymm5,ymm5,ymm5
0076 vxorps ymm6,ymm6,ymm6
007b vxorps ymm7,ymm7,ymm7
0080 mov eax,0
0086 cmp rax,r11
0089 jge near 00000000000000DEh
008f nop
0090 vmovups ymm8,[rsi+rax]
0096 vfmadd231ps ymm0,ymm8,[r12]
009c vfmadd231ps ymm1,ymm8,[r12+r8]
00a2 vfmadd231ps ymm2,ymm8,[r12+r8*2]
00a8 vfmadd231ps ymm3,ymm8,[r12+r9]
00ae vfmadd231ps ymm4,ymm8,[r13]
00b4 vfmadd231ps ymm5,ymm8,[r13+r8]
00bb vfmadd231ps ymm6,ymm8,[r13+r8*2]
00c2 vfmadd231ps ymm7,ymm8,[r13+r9]
00c9 add r12,20h
00cd add r13,20h
00d1 add rax,20h
00d5 cmp rax,r11
00d8 jl near 0000000000000090h
00de test rbx,rbx
00e1 je near 0000000000000148h
00e7 vmaskmovps ymm8,ymm15,[rsi+rax]
00ed vmaskmovps ymm9,ymm15,[r12]
00f3 vfmadd231ps ymm0,ymm8,ymm9
00f8 vmaskmovps ymm9,ymm15,[r12+r8]
00fe vfmadd231ps ymm1,ymm8,ymm9
0103 vmaskmovps ymm9,ymm15,[r12+r8*2]
0109 vfmadd231ps ymm2,ymm8,ymm9
010e vmaskmovps ymm9,ymm15,[r12+r9]
0114 vfmadd231ps ymm3,ymm8,ymm9
0119 vmaskmovps ymm9,ymm15,[r13]
011f vfmadd231ps ymm4,ymm8,ymm9
0124 vmaskmovps ymm9,ymm15,[r13+r8]
012b vfmadd231ps ymm5,ymm8,ymm9
0130 vmaskmovps ymm9,ymm15,[r13+r8*2]
0137 vfmadd231ps ymm6,ymm8,ymm9
013c vmaskmovps ymm9,ymm15,[r13+r9]
0143 vfmadd231ps ymm7,ymm8,ymm9
0148 vunpcklps ymm8,ymm0,ymm1
014d vunpckhps ymm0,ymm0,ymm1
0152 vaddps ymm0,ymm0,ymm8
0157 vunpcklps ymm8,ymm2,ymm3
015c vunpckhps ymm2,ymm2,ymm3
0161 vaddps ymm2,ymm2,ymm8
0166 vunpcklpd ymm8,ymm0,ymm2
016b vunpckhpd ymm0,ymm0,ymm2
0170 vaddps ymm0,ymm0,ymm8
0175 vunpcklps ymm8,ymm4,ymm5
017a vunpckhps ymm4,ymm4,ymm5
017f vaddps ymm4,ymm4,ymm8
0184 vunpcklps ymm8,ymm6,ymm7
0189 vunpckhps ymm6,ymm6,ymm7
018e vaddps ymm6,ymm6,ymm8
0193 vunpcklpd ymm8,ymm4,ymm6
0198 vunpckhpd ymm4,ymm4,ymm6
019d vaddps ymm4,ymm4,ymm8
01a2 vperm2f128 ymm8,ymm0,ymm4,20h
01a8 vperm2f128 ymm0,ymm0,ymm4,31h
01ae vaddps ymm0,ymm0,ymm8
01b3 vpbroadcastd ymm8,[rdi+38h]
01b9 vmulps ymm0,ymm0,ymm8
01be vmovups [rcx],ymm0
01c3 add rcx,20h
01c7 lea rdx,[rdx+r8*8]
01cb sub r10,8
01cf jmp 0000000000000047h
01d4 cmp r10,1
01d8 jl near 000000000000027Bh
01de mov r12,rdx
01e1 vxorps ymm0,ymm0,ymm0
01e6 mov eax,0
01ec cmp rax,r11
01ef jge near 000000000000021Dh
01f5 nop word [rax+rax]
01fe xchg ax,ax
0200 vmovups ymm8,[rsi+rax]
0206 vfmadd231ps ymm0,ymm8,[r12]
020c add r12,20h
0210 add rax,20h
0214 cmp rax,r11
0217 jl near 0000000000000200h
021d test rbx,rbx
0220 je near 0000000000000237h
0226 vmaskmovps ymm8,ymm15,[rsi+rax]
022c vmaskmovps ymm9,ymm15,[r12]
0232 vfmadd231ps ymm0,ymm8,ymm9
0237 vpbroadcastd ymm8,[rdi+38h]
023d vperm2f128 ymm9,ymm0,ymm0,1
0243 vaddps ymm0,ymm0,ymm9
0248 vpermilps ymm9,ymm0,4Eh
024e vaddps ymm0,ymm0,ymm9
0253 vpermilps ymm9,ymm0,0B1h
0259 vaddps ymm0,ymm0,ymm9
025e vmulps ymm0,ymm0,ymm8
0263 vmovss [rcx],xmm0
026a add rcx,4
026e lea rdx,[rdx+r8]
0272 sub r10,1
0276 jmp 00000000000001D4h
027b pop r15
027d pop r14
027f pop r13
0281 pop r12
0283 pop rbp
0284 pop rbx
0285 vzeroupper
0288 ret
0289 nop word [rax+rax]
0292 nop word [rax+rax]
029b nop word [rax+rax]
02a4 nop word [rax+rax]
02ad nop word [rax+rax]
02b6 nop word [rax+rax]
02bf nop
; [00, 00, 00, 00]
; [01, 00, 00, 00]
; [02, 00, 00, 00]
; [03, 00, 00, 00]
; [04, 00, 00, 00]
; [05, 00, 00, 00]
; [06, 00, 00, 00]
; [07, 00, 00, 00]
