; Extreme(ExtremeCode { isa: Avx2, wanted: Least, last: true, columns: true })
; part 0, 992 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi]
000d mov rdx,[rdi+8]
0011 mov r11,[rdi+20h]
0015 vmovups ymm9,[rel 340h]
001e vpaddd ymm10,ymm9,[rel 360h]
0027 vmovups ymm11,[rel 380h]
0030 mov r10,[rdi+10h]
0034 cmp r10,20h
0038 jl near 00000000000001A1h
003e vmovups ymm0,[rsi]
0043 vxorps ymm4,ymm4,ymm4
0048 vmovups ymm1,[rsi+20h]
004e vxorps ymm5,ymm5,ymm5
0053 vmovups ymm2,[rsi+40h]
0059 vxorps ymm6,ymm6,ymm6
005e vmovups ymm3,[rsi+60h]
0064 vxorps ymm7,ymm7,ymm7
0069 vxorps ymm8,ymm8,ymm8
006e mov r15,[rdi+18h]
0072 mov rax,rsi
0075 nop word [rax+rax]
007e xchg ax,ax
0080 vmovups ymm12,[rax]
0085 vcmple_oqps ymm14,ymm12,ymm0
008b vblendvps ymm0,ymm0,ymm12,ymm14
0091 vblendvps ymm4,ymm4,ymm8,ymm14
0097 vmovups ymm12,[rax+20h]
009d vcmple_oqps ymm14,ymm12,ymm1
00a3 vblendvps ymm1,ymm1,ymm12,ymm14
00a9 vblendvps ymm5,ymm5,ymm8,ymm14
00af vmovups ymm12,[rax+40h]
00b5 vcmple_oqps ymm14,ymm12,ymm2
00bb vblendvps ymm2,ymm2,ymm12,ymm14
00c1 vblendvps ymm6,ymm6,ymm8,ymm14
00c7 vmovups ymm12,[rax+60h]
00cd vcmple_oqps ymm14,ymm12,ymm3
00d3 vblendvps ymm3,ymm3,ymm12,ymm14
00d9 vblendvps ymm7,ymm7,ymm8,ymm14
00df vpaddd ymm8,ymm8,[rel 3A0h]
00e8 add rax,r11
00eb sub r15,1
00ef test r15,r15
00f2 jne near 0000000000000080h
00f8 vpermps ymm12,ymm9,ymm4
00fd vandps ymm12,ymm12,ymm11
0102 vmovups [rdx],ymm12
0107 vpermps ymm12,ymm10,ymm4
010c vandps ymm12,ymm12,ymm11
0111 vmovups [rdx+20h],ymm12
0117 vpermps ymm12,ymm9,ymm5
011c vandps ymm12,ymm12,ymm11
0121 vmovups [rdx+40h],ymm12
0127 vpermps ymm12,ymm10,ymm5
012c vandps ymm12,ymm12,ymm11
0131 vmovups [rdx+60h],ymm12
0137 vpermps ymm12,ymm9,ymm6
013c vandps ymm12,ymm12,ymm11
0141 vmovups [rdx+80h],ymm12
014a vpermps ymm12,ymm10,ymm6
014f vandps ymm12,ymm12,ymm11
0154 vmovups [rdx+0A0h],ymm12
015d vpermps ymm12,ymm9,ymm7
0162 vandps ymm12,ymm12,ymm11
0167 vmovups [rdx+0C0h],ymm12
0170 vpermps ymm12,ymm10,ymm7
0175 vandps ymm12,ymm12,ymm11
017a vmovups [rdx+0E0h],ymm12
0183 add rsi,80h
018a add rdx,80h
0191 add rdx,80h
0198 sub r10,20h
019c jmp 0000000000000034h
01a1 cmp r10,8
01a5 jl near 0000000000000234h
01ab vmovups ymm0,[rsi]
01b0 vxorps ymm4,ymm4,ymm4
01b5 vxorps ymm8,ymm8,ymm8
01ba mov r15,[rdi+18h]
01be mov rax,rsi
01c1 nop word [rax+rax]
01ca nop word [rax+rax]
01d0 vmovups ymm12,[rax]
01d5 vcmple_oqps ymm14,ymm12,ymm0
01db vblendvps ymm0,ymm0,ymm12,ymm14
01e1 vblendvps ymm4,ymm4,ymm8,ymm14
01e7 vpaddd ymm8,ymm8,[rel 3A0h]
01f0 add rax,r11
01f3 sub r15,1
01f7 test r15,r15
01fa jne near 00000000000001D0h
0200 vpermps ymm12,ymm9,ymm4
0205 vandps ymm12,ymm12,ymm11
020a vmovups [rdx],ymm12
020f vpermps ymm12,ymm10,ymm4
0214 vandps ymm12,ymm12,ymm11
0219 vmovups [rdx+20h],ymm12
021f add rsi,20h
0223 add rdx,20h
0227 add rdx,20h
022b sub r10,8
022f jmp 00000000000001A1h
0234 test r10,r10
0237 je near 0000000000000306h
023d vmovd xmm15,r10d
0242 vpbroadcastd ymm15,xmm15
0247 vpcmpgtd ymm15,ymm15,[rel 3C0h]
0250 vmaskmovps ymm0,ymm15,[rsi]
0255 vxorps ymm4,ymm4,ymm4
025a vxorps ymm8,ymm8,ymm8
025f mov r15,[rdi+18h]
0263 mov rax,rsi
0266 nop word [rax+rax]
026f nop
0270 vmaskmovps ymm12,ymm15,[rax]
0275 vcmple_oqps ymm14,ymm12,ymm0
027b vblendvps ymm0,ymm0,ymm12,ymm14
0281 vblendvps ymm4,ymm4,ymm8,ymm14
0287 vpaddd ymm8,ymm8,[rel 3A0h]
0290 add rax,r11
0293 sub r15,1
0297 test r15,r15
029a jne near 0000000000000270h
02a0 mov rcx,[rdi+10h]
02a4 and rcx,7
02a8 shl rcx,1
02ac mov r12d,8
02b2 cmp r12,rcx
02b5 jl near 00000000000002BEh
02bb mov r12,rcx
02be vmovd xmm0,r12d
02c3 vpbroadcastd ymm0,xmm0
02c8 vpcmpgtd ymm0,ymm0,[rel 3C0h]
02d1 sub rcx,r12
02d4 vmovd xmm1,ecx
02d9 vpbroadcastd ymm1,xmm1
02de vpcmpgtd ymm1,ymm1,[rel 3C0h]
02e7 vpermps ymm12,ymm9,ymm4
02ec vandps ymm12,ymm12,ymm11
02f1 vmaskmovps [rdx],ymm0,ymm12
02f6 vpermps ymm12,ymm10,ymm4
02fb vandps ymm12,ymm12,ymm11
0300 vmaskmovps [rdx+20h],ymm1,ymm12
0306 pop r15
0308 pop r14
030a pop r13
030c pop r12
030e pop rbp
030f pop rbx
0310 vzeroupper
0313 ret
0314 nop word [rax+rax]
031d nop word [rax+rax]
0326 nop word [rax+rax]
032f nop word [rax+rax]
0338 nop dword [rax+rax]
; [00, 00, 00, 00]
; [00, 00, 00, 00]
; [01, 00, 00, 00]
; [01, 00, 00, 00]
; [02, 00, 00, 00]
; [02, 00, 00, 00]
; [03, 00, 00, 00]
; [03, 00, 00, 00]
; [04, 00, 00, 00]
; [04, 00, 00, 00]
; [04, 00, 00, 00]
; [04, 00, 00, 00]
; [04, 00, 00, 00]
; [04, 00, 00, 00]
; [04, 00, 00, 00]
; [04, 00, 00, 00]
; [ff, ff, ff, ff]
; [00, 00, 00, 00]
; [ff, ff, ff, ff]
; [00, 00, 00, 00]
; [ff, ff, ff, ff]
; [00, 00, 00, 00]
; [ff, ff, ff, ff]
; [00, 00, 00, 00]
; [01, 00, 00, 00]
; [01, 00, 00, 00]
; [01, 00, 00, 00]
; [01, 00, 00, 00]
; [01, 00, 00, 00]
; [01, 00, 00, 00]
; [01, 00, 00, 00]
; [01, 00, 00, 00]
; [00, 00, 00, 00]
; [01, 00, 00, 00]
; [02, 00, 00, 00]
; [03, 00, 00, 00]
; [04, 00, 00, 00]
; [05, 00, 00, 00]
; [06, 00, 00, 00]
; [07, 00, 00, 00]
