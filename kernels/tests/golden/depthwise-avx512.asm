; Slide(SlideCode { isa: Avx512, kernel: [2, 2], strides: [1, 1], activation: None, stored: F32 })
; part 0, 2629 bytes
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
003c je near 000000000000089Bh
0042 cmp rax,2
0046 je near 000000000000065Ah
004c cmp rax,3
0050 je near 0000000000000399h
0056 lea r15,[rbx+rbx*2]
005a nop word [rax+rax]
0060 mov rsi,[rdi+98h]
0067 mov rcx,[rdi+88h]
006e add rcx,rsi
0071 vmovups zmm9,[rcx]
0077 add rcx,rdx
007a vmovups zmm10,[rcx]
0080 add rcx,rdx
0083 vmovups zmm11,[rcx]
0089 add rcx,rdx
008c vmovups zmm12,[rcx]
0092 mov rcx,[rdi+90h]
0099 test rcx,rcx
009c je near 00000000000000AEh
00a2 vmovups zmm8,[rcx+rsi]
00a9 jmp 00000000000000B4h
00ae vpxord zmm8,zmm8,zmm8
00b4 vmovups [rdi+0C0h],zmm8
00bb mov rcx,[rdi+78h]
00bf add rcx,rsi
00c2 add rsi,[rdi+48h]
00c6 vmovups zmm0,[rdi+0C0h]
00cd vmovups zmm2,[rdi+0C0h]
00d4 vmovups zmm4,[rdi+0C0h]
00db vmovups zmm6,[rdi+0C0h]
00e2 mov rax,[rdi+58h]
00e6 cmp rax,0
00ea jg near 0000000000000170h
00f0 test r8,r8
00f3 je near 0000000000000106h
00f9 vmovups zmm8,[r8+rsi]
0100 vfmadd231ps zmm0,zmm8,zmm9
0106 test r9,r9
0109 je near 0000000000000122h
010f vmovups zmm8,[r9+rsi]
0116 vfmadd231ps zmm0,zmm8,zmm11
011c vfmadd231ps zmm2,zmm8,zmm9
0122 test r10,r10
0125 je near 000000000000013Eh
012b vmovups zmm8,[r10+rsi]
0132 vfmadd231ps zmm2,zmm8,zmm11
0138 vfmadd231ps zmm4,zmm8,zmm9
013e test r11,r11
0141 je near 000000000000015Ah
0147 vmovups zmm8,[r11+rsi]
014e vfmadd231ps zmm4,zmm8,zmm11
0154 vfmadd231ps zmm6,zmm8,zmm9
015a test r12,r12
015d je near 0000000000000170h
0163 vmovups zmm8,[r12+rsi]
016a vfmadd231ps zmm6,zmm8,zmm11
0170 add rsi,rdx
0173 vmovups zmm1,zmm0
0179 vmovups zmm3,zmm2
017f vmovups zmm5,zmm4
0185 vmovups zmm7,zmm6
018b mov rbp,[rdi+68h]
018f test rbp,rbp
0192 je near 00000000000002B2h
0198 nop dword [rax+rax]
01a0 vmovups zmm0,[rdi+0C0h]
01a7 vmovups zmm2,[rdi+0C0h]
01ae vmovups zmm4,[rdi+0C0h]
01b5 vmovups zmm6,[rdi+0C0h]
01bc test r8,r8
01bf je near 00000000000001D8h
01c5 vmovups zmm8,[r8+rsi]
01cc vfmadd231ps zmm0,zmm8,zmm9
01d2 vfmadd231ps zmm1,zmm8,zmm10
01d8 test r9,r9
01db je near 0000000000000200h
01e1 vmovups zmm8,[r9+rsi]
01e8 vfmadd231ps zmm0,zmm8,zmm11
01ee vfmadd231ps zmm2,zmm8,zmm9
01f4 vfmadd231ps zmm1,zmm8,zmm12
01fa vfmadd231ps zmm3,zmm8,zmm10
0200 test r10,r10
0203 je near 0000000000000228h
0209 vmovups zmm8,[r10+rsi]
0210 vfmadd231ps zmm2,zmm8,zmm11
0216 vfmadd231ps zmm4,zmm8,zmm9
021c vfmadd231ps zmm3,zmm8,zmm12
0222 vfmadd231ps zmm5,zmm8,zmm10
0228 test r11,r11
022b je near 0000000000000250h
0231 vmovups zmm8,[r11+rsi]
0238 vfmadd231ps zmm4,zmm8,zmm11
023e vfmadd231ps zmm6,zmm8,zmm9
0244 vfmadd231ps zmm5,zmm8,zmm12
024a vfmadd231ps zmm7,zmm8,zmm10
0250 test r12,r12
0253 je near 000000000000026Ch
0259 vmovups zmm8,[r12+rsi]
0260 vfmadd231ps zmm6,zmm8,zmm11
0266 vfmadd231ps zmm7,zmm8,zmm12
026c vmovups [rcx],zmm1
0272 vmovups [rcx+rbx],zmm3
0279 vmovups [rcx+rbx*2],zmm5
0280 vmovups [rcx+r15],zmm7
0287 add rcx,rdx
028a add rsi,rdx
028d vmovups zmm1,zmm0
0293 vmovups zmm3,zmm2
0299 vmovups zmm5,zmm4
029f vmovups zmm7,zmm6
02a5 sub rbp,1
02a9 test rbp,rbp
02ac jne near 00000000000001A0h
02b2 mov rax,[rdi+60h]
02b6 cmp rax,0
02ba jle near 0000000000000340h
02c0 test r8,r8
02c3 je near 00000000000002D6h
02c9 vmovups zmm8,[r8+rsi]
02d0 vfmadd231ps zmm1,zmm8,zmm10
02d6 test r9,r9
02d9 je near 00000000000002F2h
02df vmovups zmm8,[r9+rsi]
02e6 vfmadd231ps zmm1,zmm8,zmm12
02ec vfmadd231ps zmm3,zmm8,zmm10
02f2 test r10,r10
02f5 je near 000000000000030Eh
02fb vmovups zmm8,[r10+rsi]
0302 vfmadd231ps zmm3,zmm8,zmm12
0308 vfmadd231ps zmm5,zmm8,zmm10
030e test r11,r11
0311 je near 000000000000032Ah
0317 vmovups zmm8,[r11+rsi]
031e vfmadd231ps zmm5,zmm8,zmm12
0324 vfmadd231ps zmm7,zmm8,zmm10
032a test r12,r12
032d je near 0000000000000340h
0333 vmovups zmm8,[r12+rsi]
033a vfmadd231ps zmm7,zmm8,zmm12
0340 vmovups [rcx],zmm1
0346 vmovups [rcx+rbx],zmm3
034d vmovups [rcx+rbx*2],zmm5
0354 vmovups [rcx+r15],zmm7
035b add rcx,rdx
035e add rsi,rdx
0361 mov rax,[rdi+98h]
0368 mov rbp,[rdi+0A0h]
036f cmp rax,rbp
0372 jge near 0000000000000394h
0378 add rax,40h
037c cmp rax,rbp
037f jle near 0000000000000388h
0385 mov rax,rbp
0388 mov [rdi+98h],rax
038f jmp 0000000000000060h
0394 jmp 0000000000000A37h
0399 nop dword [rax]
03a0 mov rsi,[rdi+98h]
03a7 mov rcx,[rdi+88h]
03ae add rcx,rsi
03b1 vmovups zmm7,[rcx]
03b7 add rcx,rdx
03ba vmovups zmm8,[rcx]
03c0 add rcx,rdx
03c3 vmovups zmm9,[rcx]
03c9 add rcx,rdx
03cc vmovups zmm10,[rcx]
03d2 mov rcx,[rdi+90h]
03d9 test rcx,rcx
03dc je near 00000000000003EEh
03e2 vmovups zmm6,[rcx+rsi]
03e9 jmp 00000000000003F4h
03ee vpxord zmm6,zmm6,zmm6
03f4 vmovups [rdi+0C0h],zmm6
03fb mov rcx,[rdi+78h]
03ff add rcx,rsi
0402 add rsi,[rdi+48h]
0406 vmovups zmm0,[rdi+0C0h]
040d vmovups zmm2,[rdi+0C0h]
0414 vmovups zmm4,[rdi+0C0h]
041b mov rax,[rdi+58h]
041f cmp rax,0
0423 jg near 000000000000048Dh
0429 test r8,r8
042c je near 000000000000043Fh
0432 vmovups zmm6,[r8+rsi]
0439 vfmadd231ps zmm0,zmm6,zmm7
043f test r9,r9
0442 je near 000000000000045Bh
0448 vmovups zmm6,[r9+rsi]
044f vfmadd231ps zmm0,zmm6,zmm9
0455 vfmadd231ps zmm2,zmm6,zmm7
045b test r10,r10
045e je near 0000000000000477h
0464 vmovups zmm6,[r10+rsi]
046b vfmadd231ps zmm2,zmm6,zmm9
0471 vfmadd231ps zmm4,zmm6,zmm7
0477 test r11,r11
047a je near 000000000000048Dh
0480 vmovups zmm6,[r11+rsi]
0487 vfmadd231ps zmm4,zmm6,zmm9
048d add rsi,rdx
0490 vmovups zmm1,zmm0
0496 vmovups zmm3,zmm2
049c vmovups zmm5,zmm4
04a2 mov rbp,[rdi+68h]
04a6 test rbp,rbp
04a9 je near 0000000000000596h
04af nop word [rax+rax]
04b8 nop dword [rax+rax]
04c0 vmovups zmm0,[rdi+0C0h]
04c7 vmovups zmm2,[rdi+0C0h]
04ce vmovups zmm4,[rdi+0C0h]
04d5 test r8,r8
04d8 je near 00000000000004F1h
04de vmovups zmm6,[r8+rsi]
04e5 vfmadd231ps zmm0,zmm6,zmm7
04eb vfmadd231ps zmm1,zmm6,zmm8
04f1 test r9,r9
04f4 je near 0000000000000519h
04fa vmovups zmm6,[r9+rsi]
0501 vfmadd231ps zmm0,zmm6,zmm9
0507 vfmadd231ps zmm2,zmm6,zmm7
050d vfmadd231ps zmm1,zmm6,zmm10
0513 vfmadd231ps zmm3,zmm6,zmm8
0519 test r10,r10
051c je near 0000000000000541h
0522 vmovups zmm6,[r10+rsi]
0529 vfmadd231ps zmm2,zmm6,zmm9
052f vfmadd231ps zmm4,zmm6,zmm7
0535 vfmadd231ps zmm3,zmm6,zmm10
053b vfmadd231ps zmm5,zmm6,zmm8
0541 test r11,r11
0544 je near 000000000000055Dh
054a vmovups zmm6,[r11+rsi]
0551 vfmadd231ps zmm4,zmm6,zmm9
0557 vfmadd231ps zmm5,zmm6,zmm10
055d vmovups [rcx],zmm1
0563 vmovups [rcx+rbx],zmm3
056a vmovups [rcx+rbx*2],zmm5
0571 add rcx,rdx
0574 add rsi,rdx
0577 vmovups zmm1,zmm0
057d vmovups zmm3,zmm2
0583 vmovups zmm5,zmm4
0589 sub rbp,1
058d test rbp,rbp
0590 jne near 00000000000004C0h
0596 mov rax,[rdi+60h]
059a cmp rax,0
059e jle near 0000000000000608h
05a4 test r8,r8
05a7 je near 00000000000005BAh
05ad vmovups zmm6,[r8+rsi]
05b4 vfmadd231ps zmm1,zmm6,zmm8
05ba test r9,r9
05bd je near 00000000000005D6h
05c3 vmovups zmm6,[r9+rsi]
05ca vfmadd231ps zmm1,zmm6,zmm10
05d0 vfmadd231ps zmm3,zmm6,zmm8
05d6 test r10,r10
05d9 je near 00000000000005F2h
05df vmovups zmm6,[r10+rsi]
05e6 vfmadd231ps zmm3,zmm6,zmm10
05ec vfmadd231ps zmm5,zmm6,zmm8
05f2 test r11,r11
05f5 je near 0000000000000608h
05fb vmovups zmm6,[r11+rsi]
0602 vfmadd231ps zmm5,zmm6,zmm10
0608 vmovups [rcx],zmm1
060e vmovups [rcx+rbx],zmm3
0615 vmovups [rcx+rbx*2],zmm5
061c add rcx,rdx
061f add rsi,rdx
0622 mov rax,[rdi+98h]
0629 mov rbp,[rdi+0A0h]
0630 cmp rax,rbp
0633 jge near 0000000000000655h
0639 add rax,40h
063d cmp rax,rbp
0640 jle near 0000000000000649h
0646 mov rax,rbp
0649 mov [rdi+98h],rax
0650 jmp 00000000000003A0h
0655 jmp 0000000000000A37h
065a nop word [rax+rax]
0660 mov rsi,[rdi+98h]
0667 mov rcx,[rdi+88h]
066e add rcx,rsi
0671 vmovups zmm5,[rcx]
0677 add rcx,rdx
067a vmovups zmm6,[rcx]
0680 add rcx,rdx
0683 vmovups zmm7,[rcx]
0689 add rcx,rdx
068c vmovups zmm8,[rcx]
0692 mov rcx,[rdi+90h]
0699 test rcx,rcx
069c je near 00000000000006AEh
06a2 vmovups zmm4,[rcx+rsi]
06a9 jmp 00000000000006B4h
06ae vpxord zmm4,zmm4,zmm4
06b4 vmovups [rdi+0C0h],zmm4
06bb mov rcx,[rdi+78h]
06bf add rcx,rsi
06c2 add rsi,[rdi+48h]
06c6 vmovups zmm0,[rdi+0C0h]
06cd vmovups zmm2,[rdi+0C0h]
06d4 mov rax,[rdi+58h]
06d8 cmp rax,0
06dc jg near 000000000000072Ah
06e2 test r8,r8
06e5 je near 00000000000006F8h
06eb vmovups zmm4,[r8+rsi]
06f2 vfmadd231ps zmm0,zmm4,zmm5
06f8 test r9,r9
06fb je near 0000000000000714h
0701 vmovups zmm4,[r9+rsi]
0708 vfmadd231ps zmm0,zmm4,zmm7
070e vfmadd231ps zmm2,zmm4,zmm5
0714 test r10,r10
0717 je near 000000000000072Ah
071d vmovups zmm4,[r10+rsi]
0724 vfmadd231ps zmm2,zmm4,zmm7
072a add rsi,rdx
072d vmovups zmm1,zmm0
0733 vmovups zmm3,zmm2
0739 mov rbp,[rdi+68h]
073d test rbp,rbp
0740 je near 00000000000007FAh
0746 nop word [rax+rax]
074f nop word [rax+rax]
0758 nop dword [rax+rax]
0760 vmovups zmm0,[rdi+0C0h]
0767 vmovups zmm2,[rdi+0C0h]
076e test r8,r8
0771 je near 000000000000078Ah
0777 vmovups zmm4,[r8+rsi]
077e vfmadd231ps zmm0,zmm4,zmm5
0784 vfmadd231ps zmm1,zmm4,zmm6
078a test r9,r9
078d je near 00000000000007B2h
0793 vmovups zmm4,[r9+rsi]
079a vfmadd231ps zmm0,zmm4,zmm7
07a0 vfmadd231ps zmm2,zmm4,zmm5
07a6 vfmadd231ps zmm1,zmm4,zmm8
07ac vfmadd231ps zmm3,zmm4,zmm6
07b2 test r10,r10
07b5 je near 00000000000007CEh
07bb vmovups zmm4,[r10+rsi]
07c2 vfmadd231ps zmm2,zmm4,zmm7
07c8 vfmadd231ps zmm3,zmm4,zmm8
07ce vmovups [rcx],zmm1
07d4 vmovups [rcx+rbx],zmm3
07db add rcx,rdx
07de add rsi,rdx
07e1 vmovups zmm1,zmm0
07e7 vmovups zmm3,zmm2
07ed sub rbp,1
07f1 test rbp,rbp
07f4 jne near 0000000000000760h
07fa mov rax,[rdi+60h]
07fe cmp rax,0
0802 jle near 0000000000000850h
0808 test r8,r8
080b je near 000000000000081Eh
0811 vmovups zmm4,[r8+rsi]
0818 vfmadd231ps zmm1,zmm4,zmm6
081e test r9,r9
0821 je near 000000000000083Ah
0827 vmovups zmm4,[r9+rsi]
082e vfmadd231ps zmm1,zmm4,zmm8
0834 vfmadd231ps zmm3,zmm4,zmm6
083a test r10,r10
083d je near 0000000000000850h
0843 vmovups zmm4,[r10+rsi]
084a vfmadd231ps zmm3,zmm4,zmm8
0850 vmovups [rcx],zmm1
0856 vmovups [rcx+rbx],zmm3
085d add rcx,rdx
0860 add rsi,rdx
0863 mov rax,[rdi+98h]
086a mov rbp,[rdi+0A0h]
0871 cmp rax,rbp
0874 jge near 0000000000000896h
087a add rax,40h
087e cmp rax,rbp
0881 jle near 000000000000088Ah
0887 mov rax,rbp
088a mov [rdi+98h],rax
0891 jmp 0000000000000660h
0896 jmp 0000000000000A37h
089b nop dword [rax+rax]
08a0 mov rsi,[rdi+98h]
08a7 mov rcx,[rdi+88h]
08ae add rcx,rsi
08b1 vmovups zmm3,[rcx]
08b7 add rcx,rdx
08ba vmovups zmm4,[rcx]
08c0 add rcx,rdx
08c3 vmovups zmm5,[rcx]
08c9 add rcx,rdx
08cc vmovups zmm6,[rcx]
08d2 mov rcx,[rdi+90h]
08d9 test rcx,rcx
08dc je near 00000000000008EEh
08e2 vmovups zmm2,[rcx+rsi]
08e9 jmp 00000000000008F4h
08ee vpxord zmm2,zmm2,zmm2
08f4 vmovups [rdi+0C0h],zmm2
08fb mov rcx,[rdi+78h]
08ff add rcx,rsi
0902 add rsi,[rdi+48h]
0906 vmovups zmm0,[rdi+0C0h]
090d mov rax,[rdi+58h]
0911 cmp rax,0
0915 jg near 0000000000000947h
091b test r8,r8
091e je near 0000000000000931h
0924 vmovups zmm2,[r8+rsi]
092b vfmadd231ps zmm0,zmm2,zmm3
0931 test r9,r9
0934 je near 0000000000000947h
093a vmovups zmm2,[r9+rsi]
0941 vfmadd231ps zmm0,zmm2,zmm5
0947 add rsi,rdx
094a vmovups zmm1,zmm0
0950 mov rbp,[rdi+68h]
0954 test rbp,rbp
0957 je near 00000000000009BEh
095d nop dword [rax]
0960 vmovups zmm0,[rdi+0C0h]
0967 test r8,r8
096a je near 0000000000000983h
0970 vmovups zmm2,[r8+rsi]
0977 vfmadd231ps zmm0,zmm2,zmm3
097d vfmadd231ps zmm1,zmm2,zmm4
0983 test r9,r9
0986 je near 000000000000099Fh
098c vmovups zmm2,[r9+rsi]
0993 vfmadd231ps zmm0,zmm2,zmm5
0999 vfmadd231ps zmm1,zmm2,zmm6
099f vmovups [rcx],zmm1
09a5 add rcx,rdx
09a8 add rsi,rdx
09ab vmovups zmm1,zmm0
09b1 sub rbp,1
09b5 test rbp,rbp
09b8 jne near 0000000000000960h
09be mov rax,[rdi+60h]
09c2 cmp rax,0
09c6 jle near 00000000000009F8h
09cc test r8,r8
09cf je near 00000000000009E2h
09d5 vmovups zmm2,[r8+rsi]
09dc vfmadd231ps zmm1,zmm2,zmm4
09e2 test r9,r9
09e5 je near 00000000000009F8h
09eb vmovups zmm2,[r9+rsi]
09f2 vfmadd231ps zmm1,zmm2,zmm6
09f8 vmovups [rcx],zmm1
09fe add rcx,rdx
0a01 add rsi,rdx
0a04 mov rax,[rdi+98h]
0a0b mov rbp,[rdi+0A0h]
0a12 cmp rax,rbp
0a15 jge near 0000000000000A37h
0a1b add rax,40h
0a1f cmp rax,rbp
0a22 jle near 0000000000000A2Bh
0a28 mov rax,rbp
0a2b mov [rdi+98h],rax
0a32 jmp 00000000000008A0h
0a37 pop r15
0a39 pop r14
0a3b pop r13
0a3d pop r12
0a3f pop rbp
0a40 pop rbx
0a41 vzeroupper
0a44 ret
