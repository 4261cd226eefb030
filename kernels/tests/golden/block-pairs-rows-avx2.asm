; BlockDot(BlockDotCode { isa: Avx2, products: Pairs, rows: 4, vectors: 1, streams: 1, codes: Int4, zeros: Bytes, ahead: Far, short: true })
; part 0, 2656 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi+8]
000e mov rcx,[rdi]
0011 mov r10,[rdi+20h]
0015 mov r12,[rdi+38h]
0019 mov r14,[rdi+40h]
001d lea r13,[r12+r14]
0021 lea r13,[r13+r14*2]
0026 mov rbx,[rdi+48h]
002a test rbx,rbx
002d je near 0000000000000074h
0033 vmovups ymm6,[rbx]
0038 vmovups [r12],ymm6
003e add rbx,[rdi+50h]
0042 vmovups ymm6,[rbx]
0047 vmovups [r12+r14],ymm6
004d add rbx,[rdi+50h]
0051 vmovups ymm6,[rbx]
0056 vmovups [r12+r14*2],ymm6
005c add rbx,[rdi+50h]
0060 vmovups ymm6,[rbx]
0065 vmovups [r13],ymm6
006b add rbx,[rdi+50h]
006f jmp 0000000000000091h
0074 vxorps ymm6,ymm6,ymm6
0079 vmovups [r12],ymm6
007f vmovups [r12+r14],ymm6
0085 vmovups [r12+r14*2],ymm6
008b vmovups [r13],ymm6
0091 mov rdx,[rdi+10h]
0095 test r10,r10
0098 je near 000000000000054Ah
009e mov r11,[rdi+28h]
00a2 mov rax,rdx
00a5 add rdx,28h
00a9 cmp r11,4
00ad jl near 000000000000038Bh
00b3 vmovups ymm4,[rdx]
00b8 vxorps ymm4,ymm4,[rel 0A00h]
00c1 vandps ymm4,ymm4,[rel 0A20h]
00ca vpbroadcastd ymm5,[rsi]
00cf vpmaddubsw ymm0,ymm4,ymm5
00d4 vpbroadcastd ymm5,[rsi+4]
00da vpmaddubsw ymm1,ymm4,ymm5
00df vpbroadcastd ymm5,[rsi+8]
00e5 vpmaddubsw ymm2,ymm4,ymm5
00ea vpbroadcastd ymm5,[rsi+0Ch]
00f0 vpmaddubsw ymm3,ymm4,ymm5
00f5 vmovups ymm4,[rdx]
00fa vxorps ymm4,ymm4,[rel 0A00h]
0103 vpsrld ymm4,ymm4,4
0109 vandps ymm4,ymm4,[rel 0A20h]
0112 vpbroadcastd ymm5,[rsi+10h]
0118 vpmaddubsw ymm6,ymm4,ymm5
011d vpaddw ymm0,ymm0,ymm6
0122 vpbroadcastd ymm5,[rsi+14h]
0128 vpmaddubsw ymm6,ymm4,ymm5
012d vpaddw ymm1,ymm1,ymm6
0132 vpbroadcastd ymm5,[rsi+18h]
0138 vpmaddubsw ymm6,ymm4,ymm5
013d vpaddw ymm2,ymm2,ymm6
0142 vpbroadcastd ymm5,[rsi+1Ch]
0148 vpmaddubsw ymm6,ymm4,ymm5
014d vpaddw ymm3,ymm3,ymm6
0152 vmovups ymm4,[rdx+20h]
0158 vxorps ymm4,ymm4,[rel 0A00h]
0161 vandps ymm4,ymm4,[rel 0A20h]
016a vpbroadcastd ymm5,[rsi+20h]
0170 vpmaddubsw ymm6,ymm4,ymm5
0175 vpaddw ymm0,ymm0,ymm6
017a vpbroadcastd ymm5,[rsi+24h]
0180 vpmaddubsw ymm6,ymm4,ymm5
0185 vpaddw ymm1,ymm1,ymm6
018a vpbroadcastd ymm5,[rsi+28h]
0190 vpmaddubsw ymm6,ymm4,ymm5
0195 vpaddw ymm2,ymm2,ymm6
019a vpbroadcastd ymm5,[rsi+2Ch]
01a0 vpmaddubsw ymm6,ymm4,ymm5
01a5 vpaddw ymm3,ymm3,ymm6
01aa vmovups ymm4,[rdx+20h]
01b0 vxorps ymm4,ymm4,[rel 0A00h]
01b9 vpsrld ymm4,ymm4,4
01bf vandps ymm4,ymm4,[rel 0A20h]
01c8 vpbroadcastd ymm5,[rsi+30h]
01ce vpmaddubsw ymm6,ymm4,ymm5
01d3 vpaddw ymm0,ymm0,ymm6
01d8 vpbroadcastd ymm5,[rsi+34h]
01de vpmaddubsw ymm6,ymm4,ymm5
01e3 vpaddw ymm1,ymm1,ymm6
01e8 vpbroadcastd ymm5,[rsi+38h]
01ee vpmaddubsw ymm6,ymm4,ymm5
01f3 vpaddw ymm2,ymm2,ymm6
01f8 vpbroadcastd ymm5,[rsi+3Ch]
01fe vpmaddubsw ymm6,ymm4,ymm5
0203 vpaddw ymm3,ymm3,ymm6
0208 vmovups ymm4,[rdx+40h]
020e vxorps ymm4,ymm4,[rel 0A00h]
0217 vandps ymm4,ymm4,[rel 0A20h]
0220 vpbroadcastd ymm5,[rsi+40h]
0226 vpmaddubsw ymm6,ymm4,ymm5
022b vpaddw ymm0,ymm0,ymm6
0230 vpbroadcastd ymm5,[rsi+44h]
0236 vpmaddubsw ymm6,ymm4,ymm5
023b vpaddw ymm1,ymm1,ymm6
0240 vpbroadcastd ymm5,[rsi+48h]
0246 vpmaddubsw ymm6,ymm4,ymm5
024b vpaddw ymm2,ymm2,ymm6
0250 vpbroadcastd ymm5,[rsi+4Ch]
0256 vpmaddubsw ymm6,ymm4,ymm5
025b vpaddw ymm3,ymm3,ymm6
0260 vmovups ymm4,[rdx+40h]
0266 vxorps ymm4,ymm4,[rel 0A00h]
026f vpsrld ymm4,ymm4,4
0275 vandps ymm4,ymm4,[rel 0A20h]
027e vpbroadcastd ymm5,[rsi+50h]
0284 vpmaddubsw ymm6,ymm4,ymm5
0289 vpaddw ymm0,ymm0,ymm6
028e vpbroadcastd ymm5,[rsi+54h]
0294 vpmaddubsw ymm6,ymm4,ymm5
0299 vpaddw ymm1,ymm1,ymm6
029e vpbroadcastd ymm5,[rsi+58h]
02a4 vpmaddubsw ymm6,ymm4,ymm5
02a9 vpaddw ymm2,ymm2,ymm6
02ae vpbroadcastd ymm5,[rsi+5Ch]
02b4 vpmaddubsw ymm6,ymm4,ymm5
02b9 vpaddw ymm3,ymm3,ymm6
02be vmovups ymm4,[rdx+60h]
02c4 vxorps ymm4,ymm4,[rel 0A00h]
02cd vandps ymm4,ymm4,[rel 0A20h]
02d6 vpbroadcastd ymm5,[rsi+60h]
02dc vpmaddubsw ymm6,ymm4,ymm5
02e1 vpaddw ymm0,ymm0,ymm6
02e6 vpbroadcastd ymm5,[rsi+64h]
02ec vpmaddubsw ymm6,ymm4,ymm5
02f1 vpaddw ymm1,ymm1,ymm6
02f6 vpbroadcastd ymm5,[rsi+68h]
02fc vpmaddubsw ymm6,ymm4,ymm5
0301 vpaddw ymm2,ymm2,ymm6
0306 vpbroadcastd ymm5,[rsi+6Ch]
030c vpmaddubsw ymm6,ymm4,ymm5
0311 vpaddw ymm3,ymm3,ymm6
0316 vmovups ymm4,[rdx+60h]
031c vxorps ymm4,ymm4,[rel 0A00h]
0325 vpsrld ymm4,ymm4,4
032b vandps ymm4,ymm4,[rel 0A20h]
0334 vpbroadcastd ymm5,[rsi+70h]
033a vpmaddubsw ymm6,ymm4,ymm5
033f vpaddw ymm0,ymm0,ymm6
0344 vpbroadcastd ymm5,[rsi+74h]
034a vpmaddubsw ymm6,ymm4,ymm5
034f vpaddw ymm1,ymm1,ymm6
0354 vpbroadcastd ymm5,[rsi+78h]
035a vpmaddubsw ymm6,ymm4,ymm5
035f vpaddw ymm2,ymm2,ymm6
0364 vpbroadcastd ymm5,[rsi+7Ch]
036a vpmaddubsw ymm6,ymm4,ymm5
036f vpaddw ymm3,ymm3,ymm6
0374 add rsi,80h
037b add rdx,80h
0382 sub r11,4
0386 jmp 00000000000000A9h
038b test r11,r11
038e je near 0000000000000470h
0394 vxorps ymm0,ymm0,ymm0
0399 vxorps ymm1,ymm1,ymm1
039e vxorps ymm2,ymm2,ymm2
03a3 vxorps ymm3,ymm3,ymm3
03a8 vmovups ymm4,[rdx]
03ad vxorps ymm4,ymm4,[rel 0A00h]
03b6 vandps ymm4,ymm4,[rel 0A20h]
03bf vpbroadcastd ymm5,[rsi]
03c4 vpmaddubsw ymm6,ymm4,ymm5
03c9 vpaddw ymm0,ymm0,ymm6
03ce vpbroadcastd ymm5,[rsi+4]
03d4 vpmaddubsw ymm6,ymm4,ymm5
03d9 vpaddw ymm1,ymm1,ymm6
03de vpbroadcastd ymm5,[rsi+8]
03e4 vpmaddubsw ymm6,ymm4,ymm5
03e9 vpaddw ymm2,ymm2,ymm6
03ee vpbroadcastd ymm5,[rsi+0Ch]
03f4 vpmaddubsw ymm6,ymm4,ymm5
03f9 vpaddw ymm3,ymm3,ymm6
03fe vmovups ymm4,[rdx]
0403 vxorps ymm4,ymm4,[rel 0A00h]
040c vpsrld ymm4,ymm4,4
0412 vandps ymm4,ymm4,[rel 0A20h]
041b vpbroadcastd ymm5,[rsi+10h]
0421 vpmaddubsw ymm6,ymm4,ymm5
0426 vpaddw ymm0,ymm0,ymm6
042b vpbroadcastd ymm5,[rsi+14h]
0431 vpmaddubsw ymm6,ymm4,ymm5
0436 vpaddw ymm1,ymm1,ymm6
043b vpbroadcastd ymm5,[rsi+18h]
0441 vpmaddubsw ymm6,ymm4,ymm5
0446 vpaddw ymm2,ymm2,ymm6
044b vpbroadcastd ymm5,[rsi+1Ch]
0451 vpmaddubsw ymm6,ymm4,ymm5
0456 vpaddw ymm3,ymm3,ymm6
045b add rsi,20h
045f add rdx,20h
0463 sub r11,1
0467 test r11,r11
046a jne near 00000000000003A8h
0470 vmovups ymm6,[rel 0A40h]
0479 vpmaddwd ymm0,ymm0,ymm6
047e vpmaddwd ymm1,ymm1,ymm6
0483 vpmaddwd ymm2,ymm2,ymm6
0488 vpmaddwd ymm3,ymm3,ymm6
048d vcvtdq2ps ymm0,ymm0
0492 vcvtdq2ps ymm1,ymm1
0497 vcvtdq2ps ymm2,ymm2
049c vcvtdq2ps ymm3,ymm3
04a1 vmovq xmm4,[rax+20h]
04a8 vpmovzxbd ymm4,xmm4
04ad vcvtdq2ps ymm4,ymm4
04b2 vpbroadcastd ymm5,[rcx]
04b7 vfnmadd231ps ymm0,ymm4,ymm5
04bc vpbroadcastd ymm5,[rcx+4]
04c2 vfnmadd231ps ymm1,ymm4,ymm5
04c7 vpbroadcastd ymm5,[rcx+8]
04cd vfnmadd231ps ymm2,ymm4,ymm5
04d2 vpbroadcastd ymm5,[rcx+0Ch]
04d8 vfnmadd231ps ymm3,ymm4,ymm5
04dd vpbroadcastd ymm5,[rcx+10h]
04e3 vmulps ymm6,ymm5,[rax]
04e8 vfmadd213ps ymm0,ymm6,[r12]
04ee vmovups [r12],ymm0
04f4 vpbroadcastd ymm5,[rcx+14h]
04fa vmulps ymm6,ymm5,[rax]
04ff vfmadd213ps ymm1,ymm6,[r12+r14]
0505 vmovups [r12+r14],ymm1
050b vpbroadcastd ymm5,[rcx+18h]
0511 vmulps ymm6,ymm5,[rax]
0516 vfmadd213ps ymm2,ymm6,[r12+r14*2]
051c vmovups [r12+r14*2],ymm2
0522 vpbroadcastd ymm5,[rcx+1Ch]
0528 vmulps ymm6,ymm5,[rax]
052d vfmadd213ps ymm3,ymm6,[r13]
0533 vmovups [r13],ymm3
0539 add rcx,20h
053d sub r10,1
0541 test r10,r10
0544 jne near 000000000000009Eh
054a mov r11,[rdi+30h]
054e test r11,r11
0551 je near 00000000000009F2h
0557 mov rax,rdx
055a add rdx,28h
055e cmp r11,4
0562 jl near 0000000000000840h
0568 vmovups ymm4,[rdx]
056d vxorps ymm4,ymm4,[rel 0A00h]
0576 vandps ymm4,ymm4,[rel 0A20h]
057f vpbroadcastd ymm5,[rsi]
0584 vpmaddubsw ymm0,ymm4,ymm5
0589 vpbroadcastd ymm5,[rsi+4]
058f vpmaddubsw ymm1,ymm4,ymm5
0594 vpbroadcastd ymm5,[rsi+8]
059a vpmaddubsw ymm2,ymm4,ymm5
059f vpbroadcastd ymm5,[rsi+0Ch]
05a5 vpmaddubsw ymm3,ymm4,ymm5
05aa vmovups ymm4,[rdx]
05af vxorps ymm4,ymm4,[rel 0A00h]
05b8 vpsrld ymm4,ymm4,4
05be vandps ymm4,ymm4,[rel 0A20h]
05c7 vpbroadcastd ymm5,[rsi+10h]
05cd vpmaddubsw ymm6,ymm4,ymm5
05d2 vpaddw ymm0,ymm0,ymm6
05d7 vpbroadcastd ymm5,[rsi+14h]
05dd vpmaddubsw ymm6,ymm4,ymm5
05e2 vpaddw ymm1,ymm1,ymm6
05e7 vpbroadcastd ymm5,[rsi+18h]
05ed vpmaddubsw ymm6,ymm4,ymm5
05f2 vpaddw ymm2,ymm2,ymm6
05f7 vpbroadcastd ymm5,[rsi+1Ch]
05fd vpmaddubsw ymm6,ymm4,ymm5
0602 vpaddw ymm3,ymm3,ymm6
0607 vmovups ymm4,[rdx+20h]
060d vxorps ymm4,ymm4,[rel 0A00h]
0616 vandps ymm4,ymm4,[rel 0A20h]
061f vpbroadcastd ymm5,[rsi+20h]
0625 vpmaddubsw ymm6,ymm4,ymm5
062a vpaddw ymm0,ymm0,ymm6
062f vpbroadcastd ymm5,[rsi+24h]
0635 vpmaddubsw ymm6,ymm4,ymm5
063a vpaddw ymm1,ymm1,ymm6
063f vpbroadcastd ymm5,[rsi+28h]
0645 vpmaddubsw ymm6,ymm4,ymm5
064a vpaddw ymm2,ymm2,ymm6
064f vpbroadcastd ymm5,[rsi+2Ch]
0655 vpmaddubsw ymm6,ymm4,ymm5
065a vpaddw ymm3,ymm3,ymm6
065f vmovups ymm4,[rdx+20h]
0665 vxorps ymm4,ymm4,[rel 0A00h]
066e vpsrld ymm4,ymm4,4
0674 vandps ymm4,ymm4,[rel 0A20h]
067d vpbroadcastd ymm5,[rsi+30h]
0683 vpmaddubsw ymm6,ymm4,ymm5
0688 vpaddw ymm0,ymm0,ymm6
068d vpbroadcastd ymm5,[rsi+34h]
0693 vpmaddubsw ymm6,ymm4,ymm5
0698 vpaddw ymm1,ymm1,ymm6
069d vpbroadcastd ymm5,[rsi+38h]
06a3 vpmaddubsw ymm6,ymm4,ymm5
06a8 vpaddw ymm2,ymm2,ymm6
06ad vpbroadcastd ymm5,[rsi+3Ch]
06b3 vpmaddubsw ymm6,ymm4,ymm5
06b8 vpaddw ymm3,ymm3,ymm6
06bd vmovups ymm4,[rdx+40h]
06c3 vxorps ymm4,ymm4,[rel 0A00h]
06cc vandps ymm4,ymm4,[rel 0A20h]
06d5 vpbroadcastd ymm5,[rsi+40h]
06db vpmaddubsw ymm6,ymm4,ymm5
06e0 vpaddw ymm0,ymm0,ymm6
06e5 vpbroadcastd ymm5,[rsi+44h]
06eb vpmaddubsw ymm6,ymm4,ymm5
06f0 vpaddw ymm1,ymm1,ymm6
06f5 vpbroadcastd ymm5,[rsi+48h]
06fb vpmaddubsw ymm6,ymm4,ymm5
0700 vpaddw ymm2,ymm2,ymm6
0705 vpbroadcastd ymm5,[rsi+4Ch]
070b vpmaddubsw ymm6,ymm4,ymm5
0710 vpaddw ymm3,ymm3,ymm6
0715 vmovups ymm4,[rdx+40h]
071b vxorps ymm4,ymm4,[rel 0A00h]
0724 vpsrld ymm4,ymm4,4
072a vandps ymm4,ymm4,[rel 0A20h]
0733 vpbroadcastd ymm5,[rsi+50h]
0739 vpmaddubsw ymm6,ymm4,ymm5
073e vpaddw ymm0,ymm0,ymm6
0743 vpbroadcastd ymm5,[rsi+54h]
0749 vpmaddubsw ymm6,ymm4,ymm5
074e vpaddw ymm1,ymm1,ymm6
0753 vpbroadcastd ymm5,[rsi+58h]
0759 vpmaddubsw ymm6,ymm4,ymm5
075e vpaddw ymm2,ymm2,ymm6
0763 vpbroadcastd ymm5,[rsi+5Ch]
0769 vpmaddubsw ymm6,ymm4,ymm5
076e vpaddw ymm3,ymm3,ymm6
0773 vmovups ymm4,[rdx+60h]
0779 vxorps ymm4,ymm4,[rel 0A00h]
0782 vandps ymm4,ymm4,[rel 0A20h]
078b vpbroadcastd ymm5,[rsi+60h]
0791 vpmaddubsw ymm6,ymm4,ymm5
0796 vpaddw ymm0,ymm0,ymm6
079b vpbroadcastd ymm5,[rsi+64h]
07a1 vpmaddubsw ymm6,ymm4,ymm5
07a6 vpaddw ymm1,ymm1,ymm6
07ab vpbroadcastd ymm5,[rsi+68h]
07b1 vpmaddubsw ymm6,ymm4,ymm5
07b6 vpaddw ymm2,ymm2,ymm6
07bb vpbroadcastd ymm5,[rsi+6Ch]
07c1 vpmaddubsw ymm6,ymm4,ymm5
07c6 vpaddw ymm3,ymm3,ymm6
07cb vmovups ymm4,[rdx+60h]
07d1 vxorps ymm4,ymm4,[rel 0A00h]
07da vpsrld ymm4,ymm4,4
07e0 vandps ymm4,ymm4,[rel 0A20h]
07e9 vpbroadcastd ymm5,[rsi+70h]
07ef vpmaddubsw ymm6,ymm4,ymm5
07f4 vpaddw ymm0,ymm0,ymm6
07f9 vpbroadcastd ymm5,[rsi+74h]
07ff vpmaddubsw ymm6,ymm4,ymm5
0804 vpaddw ymm1,ymm1,ymm6
0809 vpbroadcastd ymm5,[rsi+78h]
080f vpmaddubsw ymm6,ymm4,ymm5
0814 vpaddw ymm2,ymm2,ymm6
0819 vpbroadcastd ymm5,[rsi+7Ch]
081f vpmaddubsw ymm6,ymm4,ymm5
0824 vpaddw ymm3,ymm3,ymm6
0829 add rsi,80h
0830 add rdx,80h
0837 sub r11,4
083b jmp 000000000000055Eh
0840 test r11,r11
0843 je near 0000000000000925h
0849 vxorps ymm0,ymm0,ymm0
084e vxorps ymm1,ymm1,ymm1
0853 vxorps ymm2,ymm2,ymm2
0858 vxorps ymm3,ymm3,ymm3
085d vmovups ymm4,[rdx]
0862 vxorps ymm4,ymm4,[rel 0A00h]
086b vandps ymm4,ymm4,[rel 0A20h]
0874 vpbroadcastd ymm5,[rsi]
0879 vpmaddubsw ymm6,ymm4,ymm5
087e vpaddw ymm0,ymm0,ymm6
0883 vpbroadcastd ymm5,[rsi+4]
0889 vpmaddubsw ymm6,ymm4,ymm5
088e vpaddw ymm1,ymm1,ymm6
0893 vpbroadcastd ymm5,[rsi+8]
0899 vpmaddubsw ymm6,ymm4,ymm5
089e vpaddw ymm2,ymm2,ymm6
08a3 vpbroadcastd ymm5,[rsi+0Ch]
08a9 vpmaddubsw ymm6,ymm4,ymm5
08ae vpaddw ymm3,ymm3,ymm6
08b3 vmovups ymm4,[rdx]
08b8 vxorps ymm4,ymm4,[rel 0A00h]
08c1 vpsrld ymm4,ymm4,4
08c7 vandps ymm4,ymm4,[rel 0A20h]
08d0 vpbroadcastd ymm5,[rsi+10h]
08d6 vpmaddubsw ymm6,ymm4,ymm5
08db vpaddw ymm0,ymm0,ymm6
08e0 vpbroadcastd ymm5,[rsi+14h]
08e6 vpmaddubsw ymm6,ymm4,ymm5
08eb vpaddw ymm1,ymm1,ymm6
08f0 vpbroadcastd ymm5,[rsi+18h]
08f6 vpmaddubsw ymm6,ymm4,ymm5
08fb vpaddw ymm2,ymm2,ymm6
0900 vpbroadcastd ymm5,[rsi+1Ch]
0906 vpmaddubsw ymm6,ymm4,ymm5
090b vpaddw ymm3,ymm3,ymm6
0910 add rsi,20h
0914 add rdx,20h
0918 sub r11,1
091c test r11,r11
091f jne near 000000000000085Dh
0925 vmovups ymm6,[rel 0A40h]
092e vpmaddwd ymm0,ymm0,ymm6
0933 vpmaddwd ymm1,ymm1,ymm6
0938 vpmaddwd ymm2,ymm2,ymm6
093d vpmaddwd ymm3,ymm3,ymm6
0942 vcvtdq2ps ymm0,ymm0
0947 vcvtdq2ps ymm1,ymm1
094c vcvtdq2ps ymm2,ymm2
0951 vcvtdq2ps ymm3,ymm3
0956 vmovq xmm4,[rax+20h]
095d vpmovzxbd ymm4,xmm4
0962 vcvtdq2ps ymm4,ymm4
0967 vpbroadcastd ymm5,[rcx]
096c vfnmadd231ps ymm0,ymm4,ymm5
0971 vpbroadcastd ymm5,[rcx+4]
0977 vfnmadd231ps ymm1,ymm4,ymm5
097c vpbroadcastd ymm5,[rcx+8]
0982 vfnmadd231ps ymm2,ymm4,ymm5
0987 vpbroadcastd ymm5,[rcx+0Ch]
098d vfnmadd231ps ymm3,ymm4,ymm5
0992 vpbroadcastd ymm5,[rcx+10h]
0998 vmulps ymm6,ymm5,[rax]
099d vfmadd213ps ymm0,ymm6,[r12]
09a3 vmovups [r12],ymm0
09a9 vpbroadcastd ymm5,[rcx+14h]
09af vmulps ymm6,ymm5,[rax]
09b4 vfmadd213ps ymm1,ymm6,[r12+r14]
09ba vmovups [r12+r14],ymm1
09c0 vpbroadcastd ymm5,[rcx+18h]
09c6 vmulps ymm6,ymm5,[rax]
09cb vfmadd213ps ymm2,ymm6,[r12+r14*2]
09d1 vmovups [r12+r14*2],ymm2
09d7 vpbroadcastd ymm5,[rcx+1Ch]
09dd vmulps ymm6,ymm5,[rax]
09e2 vfmadd213ps ymm3,ymm6,[r13]
09e8 vmovups [r13],ymm3
09ee add rcx,20h
09f2 pop r15
09f4 pop r14
09f6 pop r13
09f8 pop r12
09fa pop rbp
09fb pop rbx
09fc vzeroupper
09ff ret
; [88, 88, 88, 88]
; [88, 88, 88, 88]
; [88, 88, 88, 88]
; [88, 88, 88, 88]
; [88, 88, 88, 88]
; [88, 88, 88, 88]
; [88, 88, 88, 88]
; [88, 88, 88, 88]
; [0f, 0f, 0f, 0f]
; [0f, 0f, 0f, 0f]
; [0f, 0f, 0f, 0f]
; [0f, 0f, 0f, 0f]
; [0f, 0f, 0f, 0f]
; [0f, 0f, 0f, 0f]
; [0f, 0f, 0f, 0f]
; [0f, 0f, 0f, 0f]
; [01, 00, 01, 00]
; [01, 00, 01, 00]
; [01, 00, 01, 00]
; [01, 00, 01, 00]
; [01, 00, 01, 00]
; [01, 00, 01, 00]
; [01, 00, 01, 00]
; [01, 00, 01, 00]
