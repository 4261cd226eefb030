; BlockUnpack(BlockUnpackCode { isa: Avx512, vectors: 2, codes: Int4, zeros: Bytes })
; part 0, 460 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rsi,[rdi]
000d mov rdx,[rdi+8]
0011 mov r8,[rdi+10h]
0015 mov r10,[rdi+18h]
0019 vbroadcastss zmm0,[rel 1C0h]
0023 vbroadcastss zmm1,[rel 1C4h]
002d vbroadcastss zmm2,[rel 1C8h]
0037 test r10,r10
003a je near 00000000000000DFh
0040 mov r11,[rdi+20h]
0044 add rsi,0A0h
004b nop dword [rax+rax]
0050 vxorps zmm3,zmm0,[rsi]
0056 vandps zmm4,zmm3,zmm1
005c vpaddsb zmm4,zmm4,zmm2
0062 vmovups [rdx],zmm4
0068 vpsrld zmm4,zmm3,4
006f vandps zmm4,zmm4,zmm1
0075 vpaddsb zmm4,zmm4,zmm2
007b vmovups [rdx+40h],zmm4
0082 vxorps zmm3,zmm0,[rsi+40h]
0089 vandps zmm4,zmm3,zmm1
008f vpaddsb zmm4,zmm4,zmm2
0095 vmovups [rdx+r8],zmm4
009c vpsrld zmm4,zmm3,4
00a3 vandps zmm4,zmm4,zmm1
00a9 vpaddsb zmm4,zmm4,zmm2
00af vmovups [rdx+r8+40h],zmm4
00b7 add rsi,80h
00be add rdx,80h
00c5 sub r11,1
00c9 test r11,r11
00cc jne near 0000000000000050h
00d2 sub r10,1
00d6 test r10,r10
00d9 jne near 0000000000000040h
00df mov r11,[rdi+28h]
00e3 test r11,r11
00e6 je near 0000000000000182h
00ec add rsi,0A0h
00f3 nop word [rax+rax]
00fc nop dword [rax]
0100 vxorps zmm3,zmm0,[rsi]
0106 vandps zmm4,zmm3,zmm1
010c vpaddsb zmm4,zmm4,zmm2
0112 vmovups [rdx],zmm4
0118 vpsrld zmm4,zmm3,4
011f vandps zmm4,zmm4,zmm1
0125 vpaddsb zmm4,zmm4,zmm2
012b vmovups [rdx+40h],zmm4
0132 vxorps zmm3,zmm0,[rsi+40h]
0139 vandps zmm4,zmm3,zmm1
013f vpaddsb zmm4,zmm4,zmm2
0145 vmovups [rdx+r8],zmm4
014c vpsrld zmm4,zmm3,4
0153 vandps zmm4,zmm4,zmm1
0159 vpaddsb zmm4,zmm4,zmm2
015f vmovups [rdx+r8+40h],zmm4
0167 add rsi,80h
016e add rdx,80h
0175 sub r11,1
0179 test r11,r11
017c jne near 0000000000000100h
0182 pop r15
0184 pop r14
0186 pop r13
0188 pop r12
018a pop rbp
018b pop rbx
018c vzeroupper
018f ret
0190 nop word [rax+rax]
0199 nop word [rax+rax]
01a2 nop word [rax+rax]
01ab nop word [rax+rax]
01b4 nop word [rax+rax]
01bd nop dword [rax]
; [88, 88, 88, 88]
; [0f, 0f, 0f, 0f]
; [f8, f8, f8, f8]
