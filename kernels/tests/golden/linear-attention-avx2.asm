; State(StateCode { isa: Avx2, decay: Head, corrects: true })
; part 0, 2080 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rbp,rsp
000d sub rsp,0E0h
0014 and rsp,0FFFFFFFFFFFFFFE0h
001b mov rdx,[rdi+8]
001f lea rcx,[rdx+rdx*2]
0023 mov r14,[rdi+80h]
002a mov [rsp],r14
002e mov r14,[rdi+10h]
0032 mov [rsp+20h],r14
0037 mov r14,[rdi+20h]
003b mov [rsp+40h],r14
0040 mov r14,[rdi+30h]
0044 mov [rsp+60h],r14
0049 mov r14,[rdi+40h]
004d mov [rsp+80h],r14
0055 mov r14,[rdi+50h]
0059 mov [rsp+0A0h],r14
0061 mov r14,[rdi+60h]
0065 mov [rsp+0C0h],r14
006d mov r14,[rsp+80h]
0075 vpbroadcastd ymm13,[r14]
007a vmovups ymm2,[rel 6C0h]
0083 vminps ymm13,ymm2,ymm13
0088 vmovups ymm2,[rel 6E0h]
0091 vmaxps ymm13,ymm2,ymm13
0096 vmulps ymm2,ymm13,[rel 700h]
009f vroundps ymm2,ymm2,8
00a5 vfnmadd231ps ymm13,ymm2,[rel 720h]
00ae vfnmadd231ps ymm13,ymm2,[rel 740h]
00b7 vmovups ymm3,[rel 760h]
00c0 vfmadd213ps ymm3,ymm13,[rel 780h]
00c9 vfmadd213ps ymm3,ymm13,[rel 7A0h]
00d2 vfmadd213ps ymm3,ymm13,[rel 7C0h]
00db vfmadd213ps ymm3,ymm13,[rel 7E0h]
00e4 vfmadd213ps ymm3,ymm13,[rel 800h]
00ed vfmadd213ps ymm13,ymm3,[rel 800h]
00f6 vcvtps2dq ymm3,ymm2
00fb vpsrad ymm4,ymm3,1
0101 vpsubd ymm3,ymm3,ymm4
0106 vpslld ymm4,ymm4,17h
010c vpslld ymm3,ymm3,17h
0112 vpaddd ymm4,ymm4,[rel 800h]
011b vpaddd ymm3,ymm3,[rel 800h]
0124 vmulps ymm13,ymm13,ymm4
0129 vmulps ymm13,ymm13,ymm3
012e mov rbx,[rsp+20h]
0133 vxorps ymm2,ymm2,ymm2
0138 vxorps ymm3,ymm3,ymm3
013d vxorps ymm4,ymm4,ymm4
0142 vxorps ymm5,ymm5,ymm5
0147 vxorps ymm6,ymm6,ymm6
014c vxorps ymm7,ymm7,ymm7
0151 vxorps ymm8,ymm8,ymm8
0156 vxorps ymm9,ymm9,ymm9
015b mov rsi,[rdi]
015e mov r13,[rdi+88h]
0165 mov eax,0
016b cmp r13,4
016f jl near 00000000000001FBh
0175 vpbroadcastd ymm12,[rbx+rax*4]
017b vmovups ymm10,[rsi]
0180 vfmadd231ps ymm2,ymm12,ymm10
0185 vmovups ymm11,[rsi+20h]
018b vfmadd231ps ymm3,ymm12,ymm11
0190 vpbroadcastd ymm12,[rbx+rax*4+4]
0197 vmovups ymm10,[rsi+rdx]
019d vfmadd231ps ymm4,ymm12,ymm10
01a2 vmovups ymm11,[rsi+rdx+20h]
01a9 vfmadd231ps ymm5,ymm12,ymm11
01ae vpbroadcastd ymm12,[rbx+rax*4+8]
01b5 vmovups ymm10,[rsi+rdx*2]
01bb vfmadd231ps ymm6,ymm12,ymm10
01c0 vmovups ymm11,[rsi+rdx*2+20h]
01c7 vfmadd231ps ymm7,ymm12,ymm11
01cc vpbroadcastd ymm12,[rbx+rax*4+0Ch]
01d3 vmovups ymm10,[rsi+rcx]
01d9 vfmadd231ps ymm8,ymm12,ymm10
01de vmovups ymm11,[rsi+rcx+20h]
01e5 vfmadd231ps ymm9,ymm12,ymm11
01ea lea rsi,[rsi+rdx*4]
01ee add rax,4
01f2 sub r13,4
01f6 jmp 000000000000016Bh
01fb test r13,r13
01fe je near 0000000000000233h
0204 vpbroadcastd ymm12,[rbx+rax*4]
020a vmovups ymm10,[rsi]
020f vfmadd231ps ymm2,ymm12,ymm10
0214 vmovups ymm11,[rsi+20h]
021a vfmadd231ps ymm3,ymm12,ymm11
021f add rsi,rdx
0222 add rax,1
0226 sub r13,1
022a test r13,r13
022d jne near 0000000000000204h
0233 vaddps ymm2,ymm2,ymm4
0238 vaddps ymm6,ymm6,ymm8
023d vaddps ymm2,ymm2,ymm6
0242 vaddps ymm3,ymm3,ymm5
0247 vaddps ymm7,ymm7,ymm9
024c vaddps ymm3,ymm3,ymm7
0251 vmulps ymm2,ymm2,ymm13
0256 vmulps ymm3,ymm3,ymm13
025b mov r14,[rsp+60h]
0260 vmovups ymm0,[r14]
0265 vsubps ymm0,ymm0,ymm2
026a vmovups ymm1,[r14+20h]
0270 vsubps ymm1,ymm1,ymm3
0275 mov r14,[rsp+0A0h]
027d vpbroadcastd ymm12,[r14]
0282 vmulps ymm0,ymm0,ymm12
0287 vmulps ymm1,ymm1,ymm12
028c mov r12,[rsp+40h]
0291 mov r15,rbx
0294 add r15,[rdi+18h]
0298 mov r14,r12
029b add r14,[rdi+28h]
029f vxorps ymm2,ymm2,ymm2
02a4 vxorps ymm3,ymm3,ymm3
02a9 vxorps ymm4,ymm4,ymm4
02ae vxorps ymm5,ymm5,ymm5
02b3 vxorps ymm6,ymm6,ymm6
02b8 vxorps ymm7,ymm7,ymm7
02bd vxorps ymm8,ymm8,ymm8
02c2 vxorps ymm9,ymm9,ymm9
02c7 mov rsi,[rdi]
02ca mov r13,[rdi+88h]
02d1 mov eax,0
02d7 cmp r13,4
02db jl near 0000000000000410h
02e1 prefetcht0 [r15+rax*4]
02e7 prefetcht0 [r14+rax*4]
02ed vmovups ymm10,[rsi]
02f2 vmovups ymm11,[rsi+20h]
02f8 vmulps ymm10,ymm10,ymm13
02fd vmulps ymm11,ymm11,ymm13
0302 vpbroadcastd ymm12,[rbx+rax*4]
0308 vfmadd231ps ymm10,ymm12,ymm0
030d vmovups [rsi],ymm10
0312 vfmadd231ps ymm11,ymm12,ymm1
0317 vmovups [rsi+20h],ymm11
031d vpbroadcastd ymm12,[r12+rax*4]
0323 vfmadd231ps ymm2,ymm12,ymm10
0328 vfmadd231ps ymm3,ymm12,ymm11
032d vmovups ymm10,[rsi+rdx]
0333 vmovups ymm11,[rsi+rdx+20h]
033a vmulps ymm10,ymm10,ymm13
033f vmulps ymm11,ymm11,ymm13
0344 vpbroadcastd ymm12,[rbx+rax*4+4]
034b vfmadd231ps ymm10,ymm12,ymm0
0350 vmovups [rsi+rdx],ymm10
0356 vfmadd231ps ymm11,ymm12,ymm1
035b vmovups [rsi+rdx+20h],ymm11
0362 vpbroadcastd ymm12,[r12+rax*4+4]
0369 vfmadd231ps ymm4,ymm12,ymm10
036e vfmadd231ps ymm5,ymm12,ymm11
0373 vmovups ymm10,[rsi+rdx*2]
0379 vmovups ymm11,[rsi+rdx*2+20h]
0380 vmulps ymm10,ymm10,ymm13
0385 vmulps ymm11,ymm11,ymm13
038a vpbroadcastd ymm12,[rbx+rax*4+8]
0391 vfmadd231ps ymm10,ymm12,ymm0
0396 vmovups [rsi+rdx*2],ymm10
039c vfmadd231ps ymm11,ymm12,ymm1
03a1 vmovups [rsi+rdx*2+20h],ymm11
03a8 vpbroadcastd ymm12,[r12+rax*4+8]
03af vfmadd231ps ymm6,ymm12,ymm10
03b4 vfmadd231ps ymm7,ymm12,ymm11
03b9 vmovups ymm10,[rsi+rcx]
03bf vmovups ymm11,[rsi+rcx+20h]
03c6 vmulps ymm10,ymm10,ymm13
03cb vmulps ymm11,ymm11,ymm13
03d0 vpbroadcastd ymm12,[rbx+rax*4+0Ch]
03d7 vfmadd231ps ymm10,ymm12,ymm0
03dc vmovups [rsi+rcx],ymm10
03e2 vfmadd231ps ymm11,ymm12,ymm1
03e7 vmovups [rsi+rcx+20h],ymm11
03ee vpbroadcastd ymm12,[r12+rax*4+0Ch]
03f5 vfmadd231ps ymm8,ymm12,ymm10
03fa vfmadd231ps ymm9,ymm12,ymm11
03ff lea rsi,[rsi+rdx*4]
0403 add rax,4
0407 sub r13,4
040b jmp 00000000000002D7h
0410 test r13,r13
0413 je near 0000000000000479h
0419 prefetcht0 [r15+rax*4]
041f prefetcht0 [r14+rax*4]
0425 vmovups ymm10,[rsi]
042a vmovups ymm11,[rsi+20h]
0430 vmulps ymm10,ymm10,ymm13
0435 vmulps ymm11,ymm11,ymm13
043a vpbroadcastd ymm12,[rbx+rax*4]
0440 vfmadd231ps ymm10,ymm12,ymm0
0445 vmovups [rsi],ymm10
044a vfmadd231ps ymm11,ymm12,ymm1
044f vmovups [rsi+20h],ymm11
0455 vpbroadcastd ymm12,[r12+rax*4]
045b vfmadd231ps ymm2,ymm12,ymm10
0460 vfmadd231ps ymm3,ymm12,ymm11
0465 add rsi,rdx
0468 add rax,1
046c sub r13,1
0470 test r13,r13
0473 jne near 0000000000000419h
0479 mov r14,[rsp+0C0h]
0481 vaddps ymm2,ymm2,ymm4
0486 vaddps ymm6,ymm6,ymm8
048b vaddps ymm2,ymm2,ymm6
0490 vaddps ymm3,ymm3,ymm5
0495 vaddps ymm7,ymm7,ymm9
049a vaddps ymm3,ymm3,ymm7
049f vpbroadcastd ymm12,[rdi+98h]
04a8 vmulps ymm2,ymm2,ymm12
04ad vmovups [r14],ymm2
04b2 vmulps ymm3,ymm3,ymm12
04b7 vmovups [r14+20h],ymm3
04bd mov r15,[rdi+90h]
04c4 sub r15,1
04c8 test r15,r15
04cb je near 0000000000000629h
04d1 mov r13,[rdi+88h]
04d8 lea r12,[r12+r13*4]
04dc vxorps ymm2,ymm2,ymm2
04e1 vxorps ymm3,ymm3,ymm3
04e6 vxorps ymm4,ymm4,ymm4
04eb vxorps ymm5,ymm5,ymm5
04f0 vxorps ymm6,ymm6,ymm6
04f5 vxorps ymm7,ymm7,ymm7
04fa vxorps ymm8,ymm8,ymm8
04ff vxorps ymm9,ymm9,ymm9
0504 mov rsi,[rdi]
0507 mov r13,[rdi+88h]
050e mov eax,0
0514 cmp r13,4
0518 jl near 00000000000005A4h
051e vpbroadcastd ymm12,[r12+rax*4]
0524 vmovups ymm10,[rsi]
0529 vfmadd231ps ymm2,ymm12,ymm10
052e vmovups ymm11,[rsi+20h]
0534 vfmadd231ps ymm3,ymm12,ymm11
0539 vpbroadcastd ymm12,[r12+rax*4+4]
0540 vmovups ymm10,[rsi+rdx]
0546 vfmadd231ps ymm4,ymm12,ymm10
054b vmovups ymm11,[rsi+rdx+20h]
0552 vfmadd231ps ymm5,ymm12,ymm11
0557 vpbroadcastd ymm12,[r12+rax*4+8]
055e vmovups ymm10,[rsi+rdx*2]
0564 vfmadd231ps ymm6,ymm12,ymm10
0569 vmovups ymm11,[rsi+rdx*2+20h]
0570 vfmadd231ps ymm7,ymm12,ymm11
0575 vpbroadcastd ymm12,[r12+rax*4+0Ch]
057c vmovups ymm10,[rsi+rcx]
0582 vfmadd231ps ymm8,ymm12,ymm10
0587 vmovups ymm11,[rsi+rcx+20h]
058e vfmadd231ps ymm9,ymm12,ymm11
0593 lea rsi,[rsi+rdx*4]
0597 add rax,4
059b sub r13,4
059f jmp 0000000000000514h
05a4 test r13,r13
05a7 je near 00000000000005DCh
05ad vpbroadcastd ymm12,[r12+rax*4]
05b3 vmovups ymm10,[rsi]
05b8 vfmadd231ps ymm2,ymm12,ymm10
05bd vmovups ymm11,[rsi+20h]
05c3 vfmadd231ps ymm3,ymm12,ymm11
05c8 add rsi,rdx
05cb add rax,1
05cf sub r13,1
05d3 test r13,r13
05d6 jne near 00000000000005ADh
05dc add r14,[rdi+70h]
05e0 vaddps ymm2,ymm2,ymm4
05e5 vaddps ymm6,ymm6,ymm8
05ea vaddps ymm2,ymm2,ymm6
05ef vaddps ymm3,ymm3,ymm5
05f4 vaddps ymm7,ymm7,ymm9
05f9 vaddps ymm3,ymm3,ymm7
05fe vpbroadcastd ymm12,[rdi+98h]
0607 vmulps ymm2,ymm2,ymm12
060c vmovups [r14],ymm2
0611 vmulps ymm3,ymm3,ymm12
0616 vmovups [r14+20h],ymm3
061c sub r15,1
0620 test r15,r15
0623 jne near 00000000000004D1h
0629 mov r14,[rsp+20h]
062e add r14,[rdi+18h]
0632 mov [rsp+20h],r14
0637 mov r14,[rsp+40h]
063c add r14,[rdi+28h]
0640 mov [rsp+40h],r14
0645 mov r14,[rsp+60h]
064a add r14,[rdi+38h]
064e mov [rsp+60h],r14
0653 mov r14,[rsp+80h]
065b add r14,[rdi+48h]
065f mov [rsp+80h],r14
0667 mov r14,[rsp+0A0h]
066f add r14,[rdi+58h]
0673 mov [rsp+0A0h],r14
067b mov r14,[rsp+0C0h]
0683 add r14,[rdi+68h]
0687 mov [rsp+0C0h],r14
068f mov r14,[rsp]
0693 sub r14,1
0697 mov [rsp],r14
069b test r14,r14
069e jne near 000000000000006Dh
06a4 mov rsp,rbp
06a7 pop r15
06a9 pop r14
06ab pop r13
06ad pop r12
06af pop rbp
06b0 pop rbx
06b1 vzeroupper
06b4 ret
06b5 nop word [rax+rax]
06be xchg ax,ax
; [00, 00, b2, 42]
; [00, 00, b2, 42]
; [00, 00, b2, 42]
; [00, 00, b2, 42]
; [00, 00, b2, 42]
; [00, 00, b2, 42]
; [00, 00, b2, 42]
; [00, 00, b2, 42]
; [00, 00, d1, c2]
; [00, 00, d1, c2]
; [00, 00, d1, c2]
; [00, 00, d1, c2]
; [00, 00, d1, c2]
; [00, 00, d1, c2]
; [00, 00, d1, c2]
; [00, 00, d1, c2]
; [3b, aa, b8, 3f]
; [3b, aa, b8, 3f]
; [3b, aa, b8, 3f]
; [3b, aa, b8, 3f]
; [3b, aa, b8, 3f]
; [3b, aa, b8, 3f]
; [3b, aa, b8, 3f]
; [3b, aa, b8, 3f]
; [00, 72, 31, 3f]
; [00, 72, 31, 3f]
; [00, 72, 31, 3f]
; [00, 72, 31, 3f]
; [00, 72, 31, 3f]
; [00, 72, 31, 3f]
; [00, 72, 31, 3f]
; [00, 72, 31, 3f]
; [8e, be, bf, 35]
; [8e, be, bf, 35]
; [8e, be, bf, 35]
; [8e, be, bf, 35]
; [8e, be, bf, 35]
; [8e, be, bf, 35]
; [8e, be, bf, 35]
; [8e, be, bf, 35]
; [34, ce, b5, 3a]
; [34, ce, b5, 3a]
; [34, ce, b5, 3a]
; [34, ce, b5, 3a]
; [34, ce, b5, 3a]
; [34, ce, b5, 3a]
; [34, ce, b5, 3a]
; [34, ce, b5, 3a]
; [a5, 12, 09, 3c]
; [a5, 12, 09, 3c]
; [a5, 12, 09, 3c]
; [a5, 12, 09, 3c]
; [a5, 12, 09, 3c]
; [a5, 12, 09, 3c]
; [a5, 12, 09, 3c]
; [a5, 12, 09, 3c]
; [79, ab, 2a, 3d]
; [79, ab, 2a, 3d]
; [79, ab, 2a, 3d]
; [79, ab, 2a, 3d]
; [79, ab, 2a, 3d]
; [79, ab, 2a, 3d]
; [79, ab, 2a, 3d]
; [79, ab, 2a, 3d]
; [5a, aa, 2a, 3e]
; [5a, aa, 2a, 3e]
; [5a, aa, 2a, 3e]
; [5a, aa, 2a, 3e]
; [5a, aa, 2a, 3e]
; [5a, aa, 2a, 3e]
; [5a, aa, 2a, 3e]
; [5a, aa, 2a, 3e]
; [ff, ff, ff, 3e]
; [ff, ff, ff, 3e]
; [ff, ff, ff, 3e]
; [ff, ff, ff, 3e]
; [ff, ff, ff, 3e]
; [ff, ff, ff, 3e]
; [ff, ff, ff, 3e]
; [ff, ff, ff, 3e]
; [00, 00, 80, 3f]
; [00, 00, 80, 3f]
; [00, 00, 80, 3f]
; [00, 00, 80, 3f]
; [00, 00, 80, 3f]
; [00, 00, 80, 3f]
; [00, 00, 80, 3f]
; [00, 00, 80, 3f]
