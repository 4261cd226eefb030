; BlockDot(BlockDotCode { isa: Avx512, products: Pairs, rows: 4, vectors: 1, streams: 1, codes: Int4, zeros: Bytes, ahead: Far, short: true })
; part 0, 3084 bytes
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
002d je near 000000000000007Ch
0033 vmovups zmm6,[rbx]
0039 vmovups [r12],zmm6
0040 add rbx,[rdi+50h]
0044 vmovups zmm6,[rbx]
004a vmovups [r12+r14],zmm6
0051 add rbx,[rdi+50h]
0055 vmovups zmm6,[rbx]
005b vmovups [r12+r14*2],zmm6
0062 add rbx,[rdi+50h]
0066 vmovups zmm6,[rbx]
006c vmovups [r13],zmm6
0073 add rbx,[rdi+50h]
0077 jmp 000000000000009Eh
007c vpxord zmm6,zmm6,zmm6
0082 vmovups [r12],zmm6
0089 vmovups [r12+r14],zmm6
0090 vmovups [r12+r14*2],zmm6
0097 vmovups [r13],zmm6
009e mov rdx,[rdi+10h]
00a2 test r10,r10
00a5 je near 000000000000063Ch
00ab mov r11,[rdi+28h]
00af mov rax,rdx
00b2 add rdx,50h
00b6 cmp r11,4
00ba jl near 0000000000000434h
00c0 prefetcht0 [rdx+800h]
00c9 vmovups zmm4,[rdx]
00cf vxorps zmm4,zmm4,[rel 0C00h]{1to16}
00d9 vandps zmm4,zmm4,[rel 0C04h]{1to16}
00e3 vpbroadcastd zmm5,[rsi]
00e9 vpmaddubsw zmm0,zmm4,zmm5
00ef vpbroadcastd zmm5,[rsi+4]
00f6 vpmaddubsw zmm1,zmm4,zmm5
00fc vpbroadcastd zmm5,[rsi+8]
0103 vpmaddubsw zmm2,zmm4,zmm5
0109 vpbroadcastd zmm5,[rsi+0Ch]
0110 vpmaddubsw zmm3,zmm4,zmm5
0116 vmovups zmm4,[rdx]
011c vxorps zmm4,zmm4,[rel 0C00h]{1to16}
0126 vpsrld zmm4,zmm4,4
012d vandps zmm4,zmm4,[rel 0C04h]{1to16}
0137 vpbroadcastd zmm5,[rsi+10h]
013e vpmaddubsw zmm6,zmm4,zmm5
0144 vpaddw zmm0,zmm0,zmm6
014a vpbroadcastd zmm5,[rsi+14h]
0151 vpmaddubsw zmm6,zmm4,zmm5
0157 vpaddw zmm1,zmm1,zmm6
015d vpbroadcastd zmm5,[rsi+18h]
0164 vpmaddubsw zmm6,zmm4,zmm5
016a vpaddw zmm2,zmm2,zmm6
0170 vpbroadcastd zmm5,[rsi+1Ch]
0177 vpmaddubsw zmm6,zmm4,zmm5
017d vpaddw zmm3,zmm3,zmm6
0183 prefetcht0 [rdx+840h]
018c vmovups zmm4,[rdx+40h]
0193 vxorps zmm4,zmm4,[rel 0C00h]{1to16}
019d vandps zmm4,zmm4,[rel 0C04h]{1to16}
01a7 vpbroadcastd zmm5,[rsi+20h]
01ae vpmaddubsw zmm6,zmm4,zmm5
01b4 vpaddw zmm0,zmm0,zmm6
01ba vpbroadcastd zmm5,[rsi+24h]
01c1 vpmaddubsw zmm6,zmm4,zmm5
01c7 vpaddw zmm1,zmm1,zmm6
01cd vpbroadcastd zmm5,[rsi+28h]
01d4 vpmaddubsw zmm6,zmm4,zmm5
01da vpaddw zmm2,zmm2,zmm6
01e0 vpbroadcastd zmm5,[rsi+2Ch]
01e7 vpmaddubsw zmm6,zmm4,zmm5
01ed vpaddw zmm3,zmm3,zmm6
01f3 vmovups zmm4,[rdx+40h]
01fa vxorps zmm4,zmm4,[rel 0C00h]{1to16}
0204 vpsrld zmm4,zmm4,4
020b vandps zmm4,zmm4,[rel 0C04h]{1to16}
0215 vpbroadcastd zmm5,[rsi+30h]
021c vpmaddubsw zmm6,zmm4,zmm5
0222 vpaddw zmm0,zmm0,zmm6
0228 vpbroadcastd zmm5,[rsi+34h]
022f vpmaddubsw zmm6,zmm4,zmm5
0235 vpaddw zmm1,zmm1,zmm6
023b vpbroadcastd zmm5,[rsi+38h]
0242 vpmaddubsw zmm6,zmm4,zmm5
0248 vpaddw zmm2,zmm2,zmm6
024e vpbroadcastd zmm5,[rsi+3Ch]
0255 vpmaddubsw zmm6,zmm4,zmm5
025b vpaddw zmm3,zmm3,zmm6
0261 prefetcht0 [rdx+880h]
026a vmovups zmm4,[rdx+80h]
0271 vxorps zmm4,zmm4,[rel 0C00h]{1to16}
027b vandps zmm4,zmm4,[rel 0C04h]{1to16}
0285 vpbroadcastd zmm5,[rsi+40h]
028c vpmaddubsw zmm6,zmm4,zmm5
0292 vpaddw zmm0,zmm0,zmm6
0298 vpbroadcastd zmm5,[rsi+44h]
029f vpmaddubsw zmm6,zmm4,zmm5
02a5 vpaddw zmm1,zmm1,zmm6
02ab vpbroadcastd zmm5,[rsi+48h]
02b2 vpmaddubsw zmm6,zmm4,zmm5
02b8 vpaddw zmm2,zmm2,zmm6
02be vpbroadcastd zmm5,[rsi+4Ch]
02c5 vpmaddubsw zmm6,zmm4,zmm5
02cb vpaddw zmm3,zmm3,zmm6
02d1 vmovups zmm4,[rdx+80h]
02d8 vxorps zmm4,zmm4,[rel 0C00h]{1to16}
02e2 vpsrld zmm4,zmm4,4
02e9 vandps zmm4,zmm4,[rel 0C04h]{1to16}
02f3 vpbroadcastd zmm5,[rsi+50h]
02fa vpmaddubsw zmm6,zmm4,zmm5
0300 vpaddw zmm0,zmm0,zmm6
0306 vpbroadcastd zmm5,[rsi+54h]
030d vpmaddubsw zmm6,zmm4,zmm5
0313 vpaddw zmm1,zmm1,zmm6
0319 vpbroadcastd zmm5,[rsi+58h]
0320 vpmaddubsw zmm6,zmm4,zmm5
0326 vpaddw zmm2,zmm2,zmm6
032c vpbroadcastd zmm5,[rsi+5Ch]
0333 vpmaddubsw zmm6,zmm4,zmm5
0339 vpaddw zmm3,zmm3,zmm6
033f prefetcht0 [rdx+8C0h]
0348 vmovups zmm4,[rdx+0C0h]
034f vxorps zmm4,zmm4,[rel 0C00h]{1to16}
0359 vandps zmm4,zmm4,[rel 0C04h]{1to16}
0363 vpbroadcastd zmm5,[rsi+60h]
036a vpmaddubsw zmm6,zmm4,zmm5
0370 vpaddw zmm0,zmm0,zmm6
0376 vpbroadcastd zmm5,[rsi+64h]
037d vpmaddubsw zmm6,zmm4,zmm5
0383 vpaddw zmm1,zmm1,zmm6
0389 vpbroadcastd zmm5,[rsi+68h]
0390 vpmaddubsw zmm6,zmm4,zmm5
0396 vpaddw zmm2,zmm2,zmm6
039c vpbroadcastd zmm5,[rsi+6Ch]
03a3 vpmaddubsw zmm6,zmm4,zmm5
03a9 vpaddw zmm3,zmm3,zmm6
03af vmovups zmm4,[rdx+0C0h]
03b6 vxorps zmm4,zmm4,[rel 0C00h]{1to16}
03c0 vpsrld zmm4,zmm4,4
03c7 vandps zmm4,zmm4,[rel 0C04h]{1to16}
03d1 vpbroadcastd zmm5,[rsi+70h]
03d8 vpmaddubsw zmm6,zmm4,zmm5
03de vpaddw zmm0,zmm0,zmm6
03e4 vpbroadcastd zmm5,[rsi+74h]
03eb vpmaddubsw zmm6,zmm4,zmm5
03f1 vpaddw zmm1,zmm1,zmm6
03f7 vpbroadcastd zmm5,[rsi+78h]
03fe vpmaddubsw zmm6,zmm4,zmm5
0404 vpaddw zmm2,zmm2,zmm6
040a vpbroadcastd zmm5,[rsi+7Ch]
0411 vpmaddubsw zmm6,zmm4,zmm5
0417 vpaddw zmm3,zmm3,zmm6
041d add rsi,80h
0424 add rdx,100h
042b sub r11,4
042f jmp 00000000000000B6h
0434 test r11,r11
0437 je near 0000000000000545h
043d vpxord zmm0,zmm0,zmm0
0443 vpxord zmm1,zmm1,zmm1
0449 vpxord zmm2,zmm2,zmm2
044f vpxord zmm3,zmm3,zmm3
0455 prefetcht0 [rdx+800h]
045e vmovups zmm4,[rdx]
0464 vxorps zmm4,zmm4,[rel 0C00h]{1to16}
046e vandps zmm4,zmm4,[rel 0C04h]{1to16}
0478 vpbroadcastd zmm5,[rsi]
047e vpmaddubsw zmm6,zmm4,zmm5
0484 vpaddw zmm0,zmm0,zmm6
048a vpbroadcastd zmm5,[rsi+4]
0491 vpmaddubsw zmm6,zmm4,zmm5
0497 vpaddw zmm1,zmm1,zmm6
049d vpbroadcastd zmm5,[rsi+8]
04a4 vpmaddubsw zmm6,zmm4,zmm5
04aa vpaddw zmm2,zmm2,zmm6
04b0 vpbroadcastd zmm5,[rsi+0Ch]
04b7 vpmaddubsw zmm6,zmm4,zmm5
04bd vpaddw zmm3,zmm3,zmm6
04c3 vmovups zmm4,[rdx]
04c9 vxorps zmm4,zmm4,[rel 0C00h]{1to16}
04d3 vpsrld zmm4,zmm4,4
04da vandps zmm4,zmm4,[rel 0C04h]{1to16}
04e4 vpbroadcastd zmm5,[rsi+10h]
04eb vpmaddubsw zmm6,zmm4,zmm5
04f1 vpaddw zmm0,zmm0,zmm6
04f7 vpbroadcastd zmm5,[rsi+14h]
04fe vpmaddubsw zmm6,zmm4,zmm5
0504 vpaddw zmm1,zmm1,zmm6
050a vpbroadcastd zmm5,[rsi+18h]
0511 vpmaddubsw zmm6,zmm4,zmm5
0517 vpaddw zmm2,zmm2,zmm6
051d vpbroadcastd zmm5,[rsi+1Ch]
0524 vpmaddubsw zmm6,zmm4,zmm5
052a vpaddw zmm3,zmm3,zmm6
0530 add rsi,20h
0534 add rdx,40h
0538 sub r11,1
053c test r11,r11
053f jne near 0000000000000455h
0545 vbroadcastss zmm6,[rel 0C08h]
054f vpmaddwd zmm0,zmm0,zmm6
0555 vpmaddwd zmm1,zmm1,zmm6
055b vpmaddwd zmm2,zmm2,zmm6
0561 vpmaddwd zmm3,zmm3,zmm6
0567 vcvtdq2ps zmm0,zmm0
056d vcvtdq2ps zmm1,zmm1
0573 vcvtdq2ps zmm2,zmm2
0579 vcvtdq2ps zmm3,zmm3
057f vpmovzxbd zmm4,[rax+40h]
0586 vcvtdq2ps zmm4,zmm4
058c vpbroadcastd zmm5,[rcx]
0592 vfnmadd231ps zmm0,zmm4,zmm5
0598 vpbroadcastd zmm5,[rcx+4]
059f vfnmadd231ps zmm1,zmm4,zmm5
05a5 vpbroadcastd zmm5,[rcx+8]
05ac vfnmadd231ps zmm2,zmm4,zmm5
05b2 vpbroadcastd zmm5,[rcx+0Ch]
05b9 vfnmadd231ps zmm3,zmm4,zmm5
05bf vpbroadcastd zmm5,[rcx+10h]
05c6 vmulps zmm6,zmm5,[rax]
05cc vfmadd213ps zmm0,zmm6,[r12]
05d3 vmovups [r12],zmm0
05da vpbroadcastd zmm5,[rcx+14h]
05e1 vmulps zmm6,zmm5,[rax]
05e7 vfmadd213ps zmm1,zmm6,[r12+r14]
05ee vmovups [r12+r14],zmm1
05f5 vpbroadcastd zmm5,[rcx+18h]
05fc vmulps zmm6,zmm5,[rax]
0602 vfmadd213ps zmm2,zmm6,[r12+r14*2]
0609 vmovups [r12+r14*2],zmm2
0610 vpbroadcastd zmm5,[rcx+1Ch]
0617 vmulps zmm6,zmm5,[rax]
061d vfmadd213ps zmm3,zmm6,[r13]
0624 vmovups [r13],zmm3
062b add rcx,20h
062f sub r10,1
0633 test r10,r10
0636 jne near 00000000000000ABh
063c mov r11,[rdi+30h]
0640 test r11,r11
0643 je near 0000000000000BC9h
0649 mov rax,rdx
064c add rdx,50h
0650 cmp r11,4
0654 jl near 00000000000009CEh
065a prefetcht0 [rdx+800h]
0663 vmovups zmm4,[rdx]
0669 vxorps zmm4,zmm4,[rel 0C00h]{1to16}
0673 vandps zmm4,zmm4,[rel 0C04h]{1to16}
067d vpbroadcastd zmm5,[rsi]
0683 vpmaddubsw zmm0,zmm4,zmm5
0689 vpbroadcastd zmm5,[rsi+4]
0690 vpmaddubsw zmm1,zmm4,zmm5
0696 vpbroadcastd zmm5,[rsi+8]
069d vpmaddubsw zmm2,zmm4,zmm5
06a3 vpbroadcastd zmm5,[rsi+0Ch]
06aa vpmaddubsw zmm3,zmm4,zmm5
06b0 vmovups zmm4,[rdx]
06b6 vxorps zmm4,zmm4,[rel 0C00h]{1to16}
06c0 vpsrld zmm4,zmm4,4
06c7 vandps zmm4,zmm4,[rel 0C04h]{1to16}
06d1 vpbroadcastd zmm5,[rsi+10h]
06d8 vpmaddubsw zmm6,zmm4,zmm5
06de vpaddw zmm0,zmm0,zmm6
06e4 vpbroadcastd zmm5,[rsi+14h]
06eb vpmaddubsw zmm6,zmm4,zmm5
06f1 vpaddw zmm1,zmm1,zmm6
06f7 vpbroadcastd zmm5,[rsi+18h]
06fe vpmaddubsw zmm6,zmm4,zmm5
0704 vpaddw zmm2,zmm2,zmm6
070a vpbroadcastd zmm5,[rsi+1Ch]
0711 vpmaddubsw zmm6,zmm4,zmm5
0717 vpaddw zmm3,zmm3,zmm6
071d prefetcht0 [rdx+840h]
0726 vmovups zmm4,[rdx+40h]
072d vxorps zmm4,zmm4,[rel 0C00h]{1to16}
0737 vandps zmm4,zmm4,[rel 0C04h]{1to16}
0741 vpbroadcastd zmm5,[rsi+20h]
0748 vpmaddubsw zmm6,zmm4,zmm5
074e vpaddw zmm0,zmm0,zmm6
0754 vpbroadcastd zmm5,[rsi+24h]
075b vpmaddubsw zmm6,zmm4,zmm5
0761 vpaddw zmm1,zmm1,zmm6
0767 vpbroadcastd zmm5,[rsi+28h]
076e vpmaddubsw zmm6,zmm4,zmm5
0774 vpaddw zmm2,zmm2,zmm6
077a vpbroadcastd zmm5,[rsi+2Ch]
0781 vpmaddubsw zmm6,zmm4,zmm5
0787 vpaddw zmm3,zmm3,zmm6
078d vmovups zmm4,[rdx+40h]
0794 vxorps zmm4,zmm4,[rel 0C00h]{1to16}
079e vpsrld zmm4,zmm4,4
07a5 vandps zmm4,zmm4,[rel 0C04h]{1to16}
07af vpbroadcastd zmm5,[rsi+30h]
07b6 vpmaddubsw zmm6,zmm4,zmm5
07bc vpaddw zmm0,zmm0,zmm6
07c2 vpbroadcastd zmm5,[rsi+34h]
07c9 vpmaddubsw zmm6,zmm4,zmm5
07cf vpaddw zmm1,zmm1,zmm6
07d5 vpbroadcastd zmm5,[rsi+38h]
07dc vpmaddubsw zmm6,zmm4,zmm5
07e2 vpaddw zmm2,zmm2,zmm6
07e8 vpbroadcastd zmm5,[rsi+3Ch]
07ef vpmaddubsw zmm6,zmm4,zmm5
07f5 vpaddw zmm3,zmm3,zmm6
07fb prefetcht0 [rdx+880h]
0804 vmovups zmm4,[rdx+80h]
080b vxorps zmm4,zmm4,[rel 0C00h]{1to16}
0815 vandps zmm4,zmm4,[rel 0C04h]{1to16}
081f vpbroadcastd zmm5,[rsi+40h]
0826 vpmaddubsw zmm6,zmm4,zmm5
082c vpaddw zmm0,zmm0,zmm6
0832 vpbroadcastd zmm5,[rsi+44h]
0839 vpmaddubsw zmm6,zmm4,zmm5
083f vpaddw zmm1,zmm1,zmm6
0845 vpbroadcastd zmm5,[rsi+48h]
084c vpmaddubsw zmm6,zmm4,zmm5
0852 vpaddw zmm2,zmm2,zmm6
0858 vpbroadcastd zmm5,[rsi+4Ch]
085f vpmaddubsw zmm6,zmm4,zmm5
0865 vpaddw zmm3,zmm3,zmm6
086b vmovups zmm4,[rdx+80h]
0872 vxorps zmm4,zmm4,[rel 0C00h]{1to16}
087c vpsrld zmm4,zmm4,4
0883 vandps zmm4,zmm4,[rel 0C04h]{1to16}
088d vpbroadcastd zmm5,[rsi+50h]
0894 vpmaddubsw zmm6,zmm4,zmm5
089a vpaddw zmm0,zmm0,zmm6
08a0 vpbroadcastd zmm5,[rsi+54h]
08a7 vpmaddubsw zmm6,zmm4,zmm5
08ad vpaddw zmm1,zmm1,zmm6
08b3 vpbroadcastd zmm5,[rsi+58h]
08ba vpmaddubsw zmm6,zmm4,zmm5
08c0 vpaddw zmm2,zmm2,zmm6
08c6 vpbroadcastd zmm5,[rsi+5Ch]
08cd vpmaddubsw zmm6,zmm4,zmm5
08d3 vpaddw zmm3,zmm3,zmm6
08d9 prefetcht0 [rdx+8C0h]
08e2 vmovups zmm4,[rdx+0C0h]
08e9 vxorps zmm4,zmm4,[rel 0C00h]{1to16}
08f3 vandps zmm4,zmm4,[rel 0C04h]{1to16}
08fd vpbroadcastd zmm5,[rsi+60h]
0904 vpmaddubsw zmm6,zmm4,zmm5
090a vpaddw zmm0,zmm0,zmm6
0910 vpbroadcastd zmm5,[rsi+64h]
0917 vpmaddubsw zmm6,zmm4,zmm5
091d vpaddw zmm1,zmm1,zmm6
0923 vpbroadcastd zmm5,[rsi+68h]
092a vpmaddubsw zmm6,zmm4,zmm5
0930 vpaddw zmm2,zmm2,zmm6
0936 vpbroadcastd zmm5,[rsi+6Ch]
093d vpmaddubsw zmm6,zmm4,zmm5
0943 vpaddw zmm3,zmm3,zmm6
0949 vmovups zmm4,[rdx+0C0h]
0950 vxorps zmm4,zmm4,[rel 0C00h]{1to16}
095a vpsrld zmm4,zmm4,4
0961 vandps zmm4,zmm4,[rel 0C04h]{1to16}
096b vpbroadcastd zmm5,[rsi+70h]
0972 vpmaddubsw zmm6,zmm4,zmm5
0978 vpaddw zmm0,zmm0,zmm6
097e vpbroadcastd zmm5,[rsi+74h]
0985 vpmaddubsw zmm6,zmm4,zmm5
098b vpaddw zmm1,zmm1,zmm6
0991 vpbroadcastd zmm5,[rsi+78h]
0998 vpmaddubsw zmm6,zmm4,zmm5
099e vpaddw zmm2,zmm2,zmm6
09a4 vpbroadcastd zmm5,[rsi+7Ch]
09ab vpmaddubsw zmm6,zmm4,zmm5
09b1 vpaddw zmm3,zmm3,zmm6
09b7 add rsi,80h
09be add rdx,100h
09c5 sub r11,4
09c9 jmp 0000000000000650h
09ce test r11,r11
09d1 je near 0000000000000ADFh
09d7 vpxord zmm0,zmm0,zmm0
09dd vpxord zmm1,zmm1,zmm1
09e3 vpxord zmm2,zmm2,zmm2
09e9 vpxord zmm3,zmm3,zmm3
09ef prefetcht0 [rdx+800h]
09f8 vmovups zmm4,[rdx]
09fe vxorps zmm4,zmm4,[rel 0C00h]{1to16}
0a08 vandps zmm4,zmm4,[rel 0C04h]{1to16}
0a12 vpbroadcastd zmm5,[rsi]
0a18 vpmaddubsw zmm6,zmm4,zmm5
0a1e vpaddw zmm0,zmm0,zmm6
0a24 vpbroadcastd zmm5,[rsi+4]
0a2b vpmaddubsw zmm6,zmm4,zmm5
0a31 vpaddw zmm1,zmm1,zmm6
0a37 vpbroadcastd zmm5,[rsi+8]
0a3e vpmaddubsw zmm6,zmm4,zmm5
0a44 vpaddw zmm2,zmm2,zmm6
0a4a vpbroadcastd zmm5,[rsi+0Ch]
0a51 vpmaddubsw zmm6,zmm4,zmm5
0a57 vpaddw zmm3,zmm3,zmm6
0a5d vmovups zmm4,[rdx]
0a63 vxorps zmm4,zmm4,[rel 0C00h]{1to16}
0a6d vpsrld zmm4,zmm4,4
0a74 vandps zmm4,zmm4,[rel 0C04h]{1to16}
0a7e vpbroadcastd zmm5,[rsi+10h]
0a85 vpmaddubsw zmm6,zmm4,zmm5
0a8b vpaddw zmm0,zmm0,zmm6
0a91 vpbroadcastd zmm5,[rsi+14h]
0a98 vpmaddubsw zmm6,zmm4,zmm5
0a9e vpaddw zmm1,zmm1,zmm6
0aa4 vpbroadcastd zmm5,[rsi+18h]
0aab vpmaddubsw zmm6,zmm4,zmm5
0ab1 vpaddw zmm2,zmm2,zmm6
0ab7 vpbroadcastd zmm5,[rsi+1Ch]
0abe vpmaddubsw zmm6,zmm4,zmm5
0ac4 vpaddw zmm3,zmm3,zmm6
0aca add rsi,20h
0ace add rdx,40h
0ad2 sub r11,1
0ad6 test r11,r11
0ad9 jne near 00000000000009EFh
0adf vbroadcastss zmm6,[rel 0C08h]
0ae9 vpmaddwd zmm0,zmm0,zmm6
0aef vpmaddwd zmm1,zmm1,zmm6
0af5 vpmaddwd zmm2,zmm2,zmm6
0afb vpmaddwd zmm3,zmm3,zmm6
0b01 vcvtdq2ps zmm0,zmm0
0b07 vcvtdq2ps zmm1,zmm1
0b0d vcvtdq2ps zmm2,zmm2
0b13 vcvtdq2ps zmm3,zmm3
0b19 vpmovzxbd zmm4,[rax+40h]
0b20 vcvtdq2ps zmm4,zmm4
0b26 vpbroadcastd zmm5,[rcx]
0b2c vfnmadd231ps zmm0,zmm4,zmm5
0b32 vpbroadcastd zmm5,[rcx+4]
0b39 vfnmadd231ps zmm1,zmm4,zmm5
0b3f vpbroadcastd zmm5,[rcx+8]
0b46 vfnmadd231ps zmm2,zmm4,zmm5
0b4c vpbroadcastd zmm5,[rcx+0Ch]
0b53 vfnmadd231ps zmm3,zmm4,zmm5
0b59 vpbroadcastd zmm5,[rcx+10h]
0b60 vmulps zmm6,zmm5,[rax]
0b66 vfmadd213ps zmm0,zmm6,[r12]
0b6d vmovups [r12],zmm0
0b74 vpbroadcastd zmm5,[rcx+14h]
0b7b vmulps zmm6,zmm5,[rax]
0b81 vfmadd213ps zmm1,zmm6,[r12+r14]
0b88 vmovups [r12+r14],zmm1
0b8f vpbroadcastd zmm5,[rcx+18h]
0b96 vmulps zmm6,zmm5,[rax]
0b9c vfmadd213ps zmm2,zmm6,[r12+r14*2]
0ba3 vmovups [r12+r14*2],zmm2
0baa vpbroadcastd zmm5,[rcx+1Ch]
0bb1 vmulps zmm6,zmm5,[rax]
0bb7 vfmadd213ps zmm3,zmm6,[r13]
0bbe vmovups [r13],zmm3
0bc5 add rcx,20h
0bc9 pop r15
0bcb pop r14
0bcd pop r13
0bcf pop r12
0bd1 pop rbp
0bd2 pop rbx
0bd3 vzeroupper
0bd6 ret
0bd7 nop word [rax+rax]
0be0 nop word [rax+rax]
0be9 nop word [rax+rax]
0bf2 nop word [rax+rax]
0bfb nop dword [rax+rax]
; [88, 88, 88, 88]
; [0f, 0f, 0f, 0f]
; [01, 00, 01, 00]
