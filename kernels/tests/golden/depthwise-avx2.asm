; Slide(SlideCode { isa: Avx2, kernel: [2, 2], strides: [1, 1], activation: None, stored: F32 })
; part 0, 1050 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov r8,[rdi]
000d mov r9,[rdi+8]
0011 mov r10,[rdi+10h]
0015 mov r11,[rdi+18h]
0019 mov r12,[rdi+20h]
001d mov r13,[rdi+28h]
0021 mov r14,[rdi+30h]
0025 mov r15,[rdi+38h]
0029 mov rdx,[rdi+50h]
002d mov rbx,[rdi+80h]
0034 mov rax,[rdi+40h]
0038 cmp rax,1
003c je near 0000000000000267h
0042 nop word [rax+rax]
004b nop dword [rax+rax]
0050 mov rsi,[rdi+98h]
0057 mov rcx,[rdi+88h]
005e add rcx,rsi
0061 vmovups ymm5,[rcx]
0066 add rcx,rdx
0069 vmovups ymm6,[rcx]
006e add rcx,rdx
0071 vmovups ymm7,[rcx]
0076 add rcx,rdx
0079 vmovups ymm8,[rcx]
007e mov rcx,[rdi+90h]
0085 test rcx,rcx
0088 je near 0000000000000099h
008e vmovups ymm4,[rcx+rsi]
0094 jmp 000000000000009Eh
0099 vxorps ymm4,ymm4,ymm4
009e vmovups [rdi+0C0h],ymm4
00a7 mov rcx,[rdi+78h]
00ab add rcx,rsi
00ae add rsi,[rdi+48h]
00b2 vmovups ymm0,[rdi+0C0h]
00bb vmovups ymm2,[rdi+0C0h]
00c4 mov rax,[rdi+58h]
00c8 cmp rax,0
00cc jg near 0000000000000113h
00d2 test r8,r8
00d5 je near 00000000000000E6h
00db vmovups ymm4,[r8+rsi]
00e1 vfmadd231ps ymm0,ymm4,ymm5
00e6 test r9,r9
00e9 je near 00000000000000FFh
00ef vmovups ymm4,[r9+rsi]
00f5 vfmadd231ps ymm0,ymm4,ymm7
00fa vfmadd231ps ymm2,ymm4,ymm5
00ff test r10,r10
0102 je near 0000000000000113h
0108 vmovups ymm4,[r10+rsi]
010e vfmadd231ps ymm2,ymm4,ymm7
0113 add rsi,rdx
0116 vmovaps ymm1,ymm0
011b vmovaps ymm3,ymm2
0120 mov rbp,[rdi+68h]
0124 test rbp,rbp
0127 je near 00000000000001CFh
012d nop word [rax+rax]
0136 nop word [rax+rax]
013f nop
0140 vmovups ymm0,[rdi+0C0h]
0149 vmovups ymm2,[rdi+0C0h]
0152 test r8,r8
0155 je near 000000000000016Bh
015b vmovups ymm4,[r8+rsi]
0161 vfmadd231ps ymm0,ymm4,ymm5
0166 vfmadd231ps ymm1,ymm4,ymm6
016b test r9,r9
016e je near 000000000000018Eh
0174 vmovups ymm4,[r9+rsi]
017a vfmadd231ps ymm0,ymm4,ymm7
017f vfmadd231ps ymm2,ymm4,ymm5
0184 vfmadd231ps ymm1,ymm4,ymm8
0189 vfmadd231ps ymm3,ymm4,ymm6
018e test r10,r10
0191 je near 00000000000001A7h
0197 vmovups ymm4,[r10+rsi]
019d vfmadd231ps ymm2,ymm4,ymm7
01a2 vfmadd231ps ymm3,ymm4,ymm8
01a7 vmovups [rcx],ymm1
01ac vmovups [rcx+rbx],ymm3
01b2 add rcx,rdx
01b5 add rsi,rdx
01b8 vmovaps ymm1,ymm0
01bd vmovaps ymm3,ymm2
01c2 sub rbp,1
01c6 test rbp,rbp
01c9 jne near 0000000000000140h
01cf mov rax,[rdi+60h]
01d3 cmp rax,0
01d7 jle near 000000000000021Eh
01dd test r8,r8
01e0 je near 00000000000001F1h
01e6 vmovups ymm4,[r8+rsi]
01ec vfmadd231ps ymm1,ymm4,ymm6
01f1 test r9,r9
01f4 je near 000000000000020Ah
01fa vmovups ymm4,[r9+rsi]
0200 vfmadd231ps ymm1,ymm4,ymm8
0205 vfmadd231ps ymm3,ymm4,ymm6
020a test r10,r10
020d je near 000000000000021Eh
0213 vmovups ymm4,[r10+rsi]
0219 vfmadd231ps ymm3,ymm4,ymm8
021e vmovups [rcx],ymm1
0223 vmovups [rcx+rbx],ymm3
0229 add rcx,rdx
022c add rsi,rdx
022f mov rax,[rdi+98h]
0236 mov rbp,[rdi+0A0h]
023d cmp rax,rbp
0240 jge near 0000000000000262h
0246 add rax,20h
024a cmp rax,rbp
024d jle near 0000000000000256h
0253 mov rax,rbp
0256 mov [rdi+98h],rax
025d jmp 0000000000000050h
0262 jmp 000000000000040Ch
0267 nop word [rax+rax]
0270 mov rsi,[rdi+98h]
0277 mov rcx,[rdi+88h]
027e add rcx,rsi
0281 vmovups ymm3,[rcx]
0286 add rcx,rdx
0289 vmovups ymm4,[rcx]
028e add rcx,rdx
0291 vmovups ymm5,[rcx]
0296 add rcx,rdx
0299 vmovups ymm6,[rcx]
029e mov rcx,[rdi+90h]
02a5 test rcx,rcx
02a8 je near 00000000000002B9h
02ae vmovups ymm2,[rcx+rsi]
02b4 jmp 00000000000002BEh
02b9 vxorps ymm2,ymm2,ymm2
02be vmovups [rdi+0C0h],ymm2
02c7 mov rcx,[rdi+78h]
02cb add rcx,rsi
02ce add rsi,[rdi+48h]
02d2 vmovups ymm0,[rdi+0C0h]
02db mov rax,[rdi+58h]
02df cmp rax,0
02e3 jg near 0000000000000311h
02e9 test r8,r8
02ec je near 00000000000002FDh
02f2 vmovups ymm2,[r8+rsi]
02f8 vfmadd231ps ymm0,ymm2,ymm3
02fd test r9,r9
0300 je near 0000000000000311h
0306 vmovups ymm2,[r9+rsi]
030c vfmadd231ps ymm0,ymm2,ymm5
0311 add rsi,rdx
0314 vmovaps ymm1,ymm0
0319 mov rbp,[rdi+68h]
031d test rbp,rbp
0320 je near 0000000000000398h
0326 nop word [rax+rax]
032f nop word [rax+rax]
0338 nop dword [rax+rax]
0340 vmovups ymm0,[rdi+0C0h]
0349 test r8,r8
034c je near 0000000000000362h
0352 vmovups ymm2,[r8+rsi]
0358 vfmadd231ps ymm0,ymm2,ymm3
035d vfmadd231ps ymm1,ymm2,ymm4
0362 test r9,r9
0365 je near 000000000000037Bh
036b vmovups ymm2,[r9+rsi]
0371 vfmadd231ps ymm0,ymm2,ymm5
0376 vfmadd231ps ymm1,ymm2,ymm6
037b vmovups [rcx],ymm1
0380 add rcx,rdx
0383 add rsi,rdx
0386 vmovaps ymm1,ymm0
038b sub rbp,1
038f test rbp,rbp
0392 jne near 0000000000000340h
0398 mov rax,[rdi+60h]
039c cmp rax,0
03a0 jle near 00000000000003CEh
03a6 test r8,r8
03a9 je near 00000000000003BAh
03af vmovups ymm2,[r8+rsi]
03b5 vfmadd231ps ymm1,ymm2,ymm4
03ba test r9,r9
03bd je near 00000000000003CEh
03c3 vmovups ymm2,[r9+rsi]
03c9 vfmadd231ps ymm1,ymm2,ymm6
03ce vmovups [rcx],ymm1
03d3 add rcx,rdx
03d6 add rsi,rdx
03d9 mov rax,[rdi+98h]
03e0 mov rbp,[rdi+0A0h]
03e7 cmp rax,rbp
03ea jge near 000000000000040Ch
03f0 add rax,20h
03f4 cmp rax,rbp
03f7 jle near 0000000000000400h
03fd mov rax,rbp
0400 mov [rdi+98h],rax
0407 jmp 0000000000000270h
040c pop r15
040e pop r14
0410 pop r13
0412 pop r12
0414 pop rbp
0415 pop rbx
0416 vzeroupper
0419 ret
