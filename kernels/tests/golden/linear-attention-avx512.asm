; State(StateCode { isa: Avx512, decay: Head, corrects: true })
; part 0, 1964 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rbp,rsp
000d sub rsp,1C0h
0014 and rsp,0FFFFFFFFFFFFFFC0h
001b mov rdx,[rdi+8]
001f lea rcx,[rdx+rdx*2]
0023 mov r14,[rdi+80h]
002a mov [rsp],r14
002e mov r14,[rdi+10h]
0032 mov [rsp+40h],r14
0037 mov r14,[rdi+20h]
003b mov [rsp+80h],r14
0043 mov r14,[rdi+30h]
0047 mov [rsp+0C0h],r14
004f mov r14,[rdi+40h]
0053 mov [rsp+100h],r14
005b mov r14,[rdi+50h]
005f mov [rsp+140h],r14
0067 mov r14,[rdi+60h]
006b mov [rsp+180h],r14
0073 mov r14,[rsp+100h]
007b vpbroadcastd zmm13,[r14]
0081 vbroadcastss zmm2,[rel 780h]
008b vminps zmm13,zmm2,zmm13
0091 vbroadcastss zmm2,[rel 784h]
009b vmaxps zmm13,zmm2,zmm13
00a1 vmulps zmm2,zmm13,[rel 788h]{1to16}
00ab vrndscaleps zmm2,zmm2,8
00b2 vfnmadd231ps zmm13,zmm2,[rel 78Ch]{1to16}
00bc vfnmadd231ps zmm13,zmm2,[rel 790h]{1to16}
00c6 vbroadcastss zmm3,[rel 794h]
00d0 vfmadd213ps zmm3,zmm13,[rel 798h]{1to16}
00da vfmadd213ps zmm3,zmm13,[rel 79Ch]{1to16}
00e4 vfmadd213ps zmm3,zmm13,[rel 7A0h]{1to16}
00ee vfmadd213ps zmm3,zmm13,[rel 7A4h]{1to16}
00f8 vfmadd213ps zmm3,zmm13,[rel 7A8h]{1to16}
0102 vfmadd213ps zmm13,zmm3,[rel 7A8h]{1to16}
010c vscalefps zmm13,zmm13,zmm2
0112 mov rbx,[rsp+40h]
0117 vpxord zmm2,zmm2,zmm2
011d vpxord zmm3,zmm3,zmm3
0123 vpxord zmm4,zmm4,zmm4
0129 vpxord zmm5,zmm5,zmm5
012f vpxord zmm6,zmm6,zmm6
0135 vpxord zmm7,zmm7,zmm7
013b vpxord zmm8,zmm8,zmm8
0141 vpxord zmm9,zmm9,zmm9
0147 mov rsi,[rdi]
014a mov r13,[rdi+88h]
0151 mov eax,0
0157 cmp r13,4
015b jl near 00000000000001FBh
0161 vpbroadcastd zmm12,[rbx+rax*4]
0168 vmovups zmm10,[rsi]
016e vfmadd231ps zmm2,zmm12,zmm10
0174 vmovups zmm11,[rsi+40h]
017b vfmadd231ps zmm3,zmm12,zmm11
0181 vpbroadcastd zmm12,[rbx+rax*4+4]
0189 vmovups zmm10,[rsi+rdx]
0190 vfmadd231ps zmm4,zmm12,zmm10
0196 vmovups zmm11,[rsi+rdx+40h]
019e vfmadd231ps zmm5,zmm12,zmm11
01a4 vpbroadcastd zmm12,[rbx+rax*4+8]
01ac vmovups zmm10,[rsi+rdx*2]
01b3 vfmadd231ps zmm6,zmm12,zmm10
01b9 vmovups zmm11,[rsi+rdx*2+40h]
01c1 vfmadd231ps zmm7,zmm12,zmm11
01c7 vpbroadcastd zmm12,[rbx+rax*4+0Ch]
01cf vmovups zmm10,[rsi+rcx]
01d6 vfmadd231ps zmm8,zmm12,zmm10
01dc vmovups zmm11,[rsi+rcx+40h]
01e4 vfmadd231ps zmm9,zmm12,zmm11
01ea lea rsi,[rsi+rdx*4]
01ee add rax,4
01f2 sub r13,4
01f6 jmp 0000000000000157h
01fb test r13,r13
01fe je near 0000000000000238h
0204 vpbroadcastd zmm12,[rbx+rax*4]
020b vmovups zmm10,[rsi]
0211 vfmadd231ps zmm2,zmm12,zmm10
0217 vmovups zmm11,[rsi+40h]
021e vfmadd231ps zmm3,zmm12,zmm11
0224 add rsi,rdx
0227 add rax,1
022b sub r13,1
022f test r13,r13
0232 jne near 0000000000000204h
0238 vaddps zmm2,zmm2,zmm4
023e vaddps zmm6,zmm6,zmm8
0244 vaddps zmm2,zmm2,zmm6
024a vaddps zmm3,zmm3,zmm5
0250 vaddps zmm7,zmm7,zmm9
0256 vaddps zmm3,zmm3,zmm7
025c vmulps zmm2,zmm2,zmm13
0262 vmulps zmm3,zmm3,zmm13
0268 mov r14,[rsp+0C0h]
0270 vmovups zmm0,[r14]
0276 vsubps zmm0,zmm0,zmm2
027c vmovups zmm1,[r14+40h]
0283 vsubps zmm1,zmm1,zmm3
0289 mov r14,[rsp+140h]
0291 vpbroadcastd zmm12,[r14]
0297 vmulps zmm0,zmm0,zmm12
029d vmulps zmm1,zmm1,zmm12
02a3 mov r12,[rsp+80h]
02ab mov r15,rbx
02ae add r15,[rdi+18h]
02b2 mov r14,r12
02b5 add r14,[rdi+28h]
02b9 vpxord zmm2,zmm2,zmm2
02bf vpxord zmm3,zmm3,zmm3
02c5 vpxord zmm4,zmm4,zmm4
02cb vpxord zmm5,zmm5,zmm5
02d1 vpxord zmm6,zmm6,zmm6
02d7 vpxord zmm7,zmm7,zmm7
02dd vpxord zmm8,zmm8,zmm8
02e3 vpxord zmm9,zmm9,zmm9
02e9 mov rsi,[rdi]
02ec mov r13,[rdi+88h]
02f3 mov eax,0
02f9 cmp r13,4
02fd jl near 0000000000000462h
0303 prefetcht0 [r15+rax*4]
0309 prefetcht0 [r14+rax*4]
030f vmovups zmm10,[rsi]
0315 vmovups zmm11,[rsi+40h]
031c vmulps zmm10,zmm10,zmm13
0322 vmulps zmm11,zmm11,zmm13
0328 vpbroadcastd zmm12,[rbx+rax*4]
032f vfmadd231ps zmm10,zmm12,zmm0
0335 vmovups [rsi],zmm10
033b vfmadd231ps zmm11,zmm12,zmm1
0341 vmovups [rsi+40h],zmm11
0348 vpbroadcastd zmm12,[r12+rax*4]
034f vfmadd231ps zmm2,zmm12,zmm10
0355 vfmadd231ps zmm3,zmm12,zmm11
035b vmovups zmm10,[rsi+rdx]
0362 vmovups zmm11,[rsi+rdx+40h]
036a vmulps zmm10,zmm10,zmm13
0370 vmulps zmm11,zmm11,zmm13
0376 vpbroadcastd zmm12,[rbx+rax*4+4]
037e vfmadd231ps zmm10,zmm12,zmm0
0384 vmovups [rsi+rdx],zmm10
038b vfmadd231ps zmm11,zmm12,zmm1
0391 vmovups [rsi+rdx+40h],zmm11
0399 vpbroadcastd zmm12,[r12+rax*4+4]
03a1 vfmadd231ps zmm4,zmm12,zmm10
03a7 vfmadd231ps zmm5,zmm12,zmm11
03ad vmovups zmm10,[rsi+rdx*2]
03b4 vmovups zmm11,[rsi+rdx*2+40h]
03bc vmulps zmm10,zmm10,zmm13
03c2 vmulps zmm11,zmm11,zmm13
03c8 vpbroadcastd zmm12,[rbx+rax*4+8]
03d0 vfmadd231ps zmm10,zmm12,zmm0
03d6 vmovups [rsi+rdx*2],zmm10
03dd vfmadd231ps zmm11,zmm12,zmm1
03e3 vmovups [rsi+rdx*2+40h],zmm11
03eb vpbroadcastd zmm12,[r12+rax*4+8]
03f3 vfmadd231ps zmm6,zmm12,zmm10
03f9 vfmadd231ps zmm7,zmm12,zmm11
03ff vmovups zmm10,[rsi+rcx]
0406 vmovups zmm11,[rsi+rcx+40h]
040e vmulps zmm10,zmm10,zmm13
0414 vmulps zmm11,zmm11,zmm13
041a vpbroadcastd zmm12,[rbx+rax*4+0Ch]
0422 vfmadd231ps zmm10,zmm12,zmm0
0428 vmovups [rsi+rcx],zmm10
042f vfmadd231ps zmm11,zmm12,zmm1
0435 vmovups [rsi+rcx+40h],zmm11
043d vpbroadcastd zmm12,[r12+rax*4+0Ch]
0445 vfmadd231ps zmm8,zmm12,zmm10
044b vfmadd231ps zmm9,zmm12,zmm11
0451 lea rsi,[rsi+rdx*4]
0455 add rax,4
0459 sub r13,4
045d jmp 00000000000002F9h
0462 test r13,r13
0465 je near 00000000000004D7h
046b prefetcht0 [r15+rax*4]
0471 prefetcht0 [r14+rax*4]
0477 vmovups zmm10,[rsi]
047d vmovups zmm11,[rsi+40h]
0484 vmulps zmm10,zmm10,zmm13
048a vmulps zmm11,zmm11,zmm13
0490 vpbroadcastd zmm12,[rbx+rax*4]
0497 vfmadd231ps zmm10,zmm12,zmm0
049d vmovups [rsi],zmm10
04a3 vfmadd231ps zmm11,zmm12,zmm1
04a9 vmovups [rsi+40h],zmm11
04b0 vpbroadcastd zmm12,[r12+rax*4]
04b7 vfmadd231ps zmm2,zmm12,zmm10
04bd vfmadd231ps zmm3,zmm12,zmm11
04c3 add rsi,rdx
04c6 add rax,1
04ca sub r13,1
04ce test r13,r13
04d1 jne near 000000000000046Bh
04d7 mov r14,[rsp+180h]
04df vaddps zmm2,zmm2,zmm4
04e5 vaddps zmm6,zmm6,zmm8
04eb vaddps zmm2,zmm2,zmm6
04f1 vaddps zmm3,zmm3,zmm5
04f7 vaddps zmm7,zmm7,zmm9
04fd vaddps zmm3,zmm3,zmm7
0503 vpbroadcastd zmm12,[rdi+98h]
050a vmulps zmm2,zmm2,zmm12
0510 vmovups [r14],zmm2
0516 vmulps zmm3,zmm3,zmm12
051c vmovups [r14+40h],zmm3
0523 mov r15,[rdi+90h]
052a sub r15,1
052e test r15,r15
0531 je near 00000000000006B8h
0537 mov r13,[rdi+88h]
053e lea r12,[r12+r13*4]
0542 vpxord zmm2,zmm2,zmm2
0548 vpxord zmm3,zmm3,zmm3
054e vpxord zmm4,zmm4,zmm4
0554 vpxord zmm5,zmm5,zmm5
055a vpxord zmm6,zmm6,zmm6
0560 vpxord zmm7,zmm7,zmm7
0566 vpxord zmm8,zmm8,zmm8
056c vpxord zmm9,zmm9,zmm9
0572 mov rsi,[rdi]
0575 mov r13,[rdi+88h]
057c mov eax,0
0582 cmp r13,4
0586 jl near 0000000000000626h
058c vpbroadcastd zmm12,[r12+rax*4]
0593 vmovups zmm10,[rsi]
0599 vfmadd231ps zmm2,zmm12,zmm10
059f vmovups zmm11,[rsi+40h]
05a6 vfmadd231ps zmm3,zmm12,zmm11
05ac vpbroadcastd zmm12,[r12+rax*4+4]
05b4 vmovups zmm10,[rsi+rdx]
05bb vfmadd231ps zmm4,zmm12,zmm10
05c1 vmovups zmm11,[rsi+rdx+40h]
05c9 vfmadd231ps zmm5,zmm12,zmm11
05cf vpbroadcastd zmm12,[r12+rax*4+8]
05d7 vmovups zmm10,[rsi+rdx*2]
05de vfmadd231ps zmm6,zmm12,zmm10
05e4 vmovups zmm11,[rsi+rdx*2+40h]
05ec vfmadd231ps zmm7,zmm12,zmm11
05f2 vpbroadcastd zmm12,[r12+rax*4+0Ch]
05fa vmovups zmm10,[rsi+rcx]
0601 vfmadd231ps zmm8,zmm12,zmm10
0607 vmovups zmm11,[rsi+rcx+40h]
060f vfmadd231ps zmm9,zmm12,zmm11
0615 lea rsi,[rsi+rdx*4]
0619 add rax,4
061d sub r13,4
0621 jmp 0000000000000582h
0626 test r13,r13
0629 je near 0000000000000663h
062f vpbroadcastd zmm12,[r12+rax*4]
0636 vmovups zmm10,[rsi]
063c vfmadd231ps zmm2,zmm12,zmm10
0642 vmovups zmm11,[rsi+40h]
0649 vfmadd231ps zmm3,zmm12,zmm11
064f add rsi,rdx
0652 add rax,1
0656 sub r13,1
065a test r13,r13
065d jne near 000000000000062Fh
0663 add r14,[rdi+70h]
0667 vaddps zmm2,zmm2,zmm4
066d vaddps zmm6,zmm6,zmm8
0673 vaddps zmm2,zmm2,zmm6
0679 vaddps zmm3,zmm3,zmm5
067f vaddps zmm7,zmm7,zmm9
0685 vaddps zmm3,zmm3,zmm7
068b vpbroadcastd zmm12,[rdi+98h]
0692 vmulps zmm2,zmm2,zmm12
0698 vmovups [r14],zmm2
069e vmulps zmm3,zmm3,zmm12
06a4 vmovups [r14+40h],zmm3
06ab sub r15,1
06af test r15,r15
06b2 jne near 0000000000000537h
06b8 mov r14,[rsp+40h]
06bd add r14,[rdi+18h]
06c1 mov [rsp+40h],r14
06c6 mov r14,[rsp+80h]
06ce add r14,[rdi+28h]
06d2 mov [rsp+80h],r14
06da mov r14,[rsp+0C0h]
06e2 add r14,[rdi+38h]
06e6 mov [rsp+0C0h],r14
06ee mov r14,[rsp+100h]
06f6 add r14,[rdi+48h]
06fa mov [rsp+100h],r14
0702 mov r14,[rsp+140h]
070a add r14,[rdi+58h]
070e mov [rsp+140h],r14
0716 mov r14,[rsp+180h]
071e add r14,[rdi+68h]
0722 mov [rsp+180h],r14
072a mov r14,[rsp]
072e sub r14,1
0732 mov [rsp],r14
0736 test r14,r14
0739 jne near 0000000000000073h
073f mov rsp,rbp
0742 pop r15
0744 pop r14
0746 pop r13
0748 pop r12
074a pop rbp
074b pop rbx
074c vzeroupper
074f ret
0750 nop word [rax+rax]
0759 nop word [rax+rax]
0762 nop word [rax+rax]
076b nop word [rax+rax]
0774 nop word [rax+rax]
077d nop dword [rax]
; [00, 00, b2, 42]
; [00, 00, d1, c2]
; [3b, aa, b8, 3f]
; [00, 72, 31, 3f]
; [8e, be, bf, 35]
; [34, ce, b5, 3a]
; [a5, 12, 09, 3c]
; [79, ab, 2a, 3d]
; [5a, aa, 2a, 3e]
; [ff, ff, ff, 3e]
; [00, 00, 80, 3f]
