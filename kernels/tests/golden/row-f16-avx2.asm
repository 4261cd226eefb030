; Row(RowCode { isa: Avx2, vectors: 1, right: Halves, activation: None })
; part 0, 586 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov r8,[rdi+40h]
000e lea r9,[r8+r8*2]
0012 mov r11,[rdi+38h]
0016 test r11,r11
0019 je near 000000000000003Bh
001f vmovups ymm0,[r11]
0024 vmovups ymm1,[r11+r8]
002a vmovups ymm2,[r11+r8*2]
0030 vmovups ymm3,[r11+r9]
0036 jmp 000000000000004Fh
003b vxorps ymm0,ymm0,ymm0
0040 vxorps ymm1,ymm1,ymm1
0045 vxorps ymm2,ymm2,ymm2
004a vxorps ymm3,ymm3,ymm3
004f mov rsi,[rdi]
0052 mov rdx,[rdi+8]
0056 mov r8,[rdi+10h]
005a lea r9,[r8+r8*2]
005e mov eax,0
0064 mov rcx,[rdi+18h]
0068 cmp rax,rcx
006b jge near 000000000000016Ch
0071 nop word [rax+rax]
007a nop word [rax+rax]
0080 vpbroadcastd ymm4,[rsi+rax]
0086 vcvtph2ps ymm5,[rdx]
008d vfmadd231ps ymm0,ymm4,ymm5
0092 vcvtph2ps ymm5,[rdx+r8]
0099 vfmadd231ps ymm1,ymm4,ymm5
009e vcvtph2ps ymm5,[rdx+r8*2]
00a5 vfmadd231ps ymm2,ymm4,ymm5
00aa vcvtph2ps ymm5,[rdx+r9]
00b1 vfmadd231ps ymm3,ymm4,ymm5
00b6 vpbroadcastd ymm4,[rsi+rax+4]
00bd vcvtph2ps ymm5,[rdx+10h]
00c4 vfmadd231ps ymm0,ymm4,ymm5
00c9 vcvtph2ps ymm5,[rdx+r8+10h]
00d0 vfmadd231ps ymm1,ymm4,ymm5
00d5 vcvtph2ps ymm5,[rdx+r8*2+10h]
00dc vfmadd231ps ymm2,ymm4,ymm5
00e1 vcvtph2ps ymm5,[rdx+r9+10h]
00e8 vfmadd231ps ymm3,ymm4,ymm5
00ed vpbroadcastd ymm4,[rsi+rax+8]
00f4 vcvtph2ps ymm5,[rdx+20h]
00fb vfmadd231ps ymm0,ymm4,ymm5
0100 vcvtph2ps ymm5,[rdx+r8+20h]
0107 vfmadd231ps ymm1,ymm4,ymm5
010c vcvtph2ps ymm5,[rdx+r8*2+20h]
0113 vfmadd231ps ymm2,ymm4,ymm5
0118 vcvtph2ps ymm5,[rdx+r9+20h]
011f vfmadd231ps ymm3,ymm4,ymm5
0124 vpbroadcastd ymm4,[rsi+rax+0Ch]
012b vcvtph2ps ymm5,[rdx+30h]
0132 vfmadd231ps ymm0,ymm4,ymm5
0137 vcvtph2ps ymm5,[rdx+r8+30h]
013e vfmadd231ps ymm1,ymm4,ymm5
0143 vcvtph2ps ymm5,[rdx+r8*2+30h]
014a vfmadd231ps ymm2,ymm4,ymm5
014f vcvtph2ps ymm5,[rdx+r9+30h]
0156 vfmadd231ps ymm3,ymm4,ymm5
015b add rax,10h
015f add rdx,40h
0163 cmp rax,rcx
0166 jl near 0000000000000080h
016c mov rcx,[rdi+28h]
0170 cmp rax,rcx
0173 jge near 00000000000001C7h
0179 nop dword [rax]
0180 vpbroadcastd ymm4,[rsi+rax]
0186 vcvtph2ps ymm5,[rdx]
018d vfmadd231ps ymm0,ymm4,ymm5
0192 vcvtph2ps ymm5,[rdx+r8]
0199 vfmadd231ps ymm1,ymm4,ymm5
019e vcvtph2ps ymm5,[rdx+r8*2]
01a5 vfmadd231ps ymm2,ymm4,ymm5
01aa vcvtph2ps ymm5,[rdx+r9]
01b1 vfmadd231ps ymm3,ymm4,ymm5
01b6 add rax,4
01ba add rdx,10h
01be cmp rax,rcx
01c1 jl near 0000000000000180h
01c7 mov r11,[rdi+48h]
01cb test r11,r11
01ce je near 00000000000001EEh
01d4 vpbroadcastd ymm4,[rdi+50h]
01da vmulps ymm0,ymm0,ymm4
01df vmulps ymm1,ymm1,ymm4
01e4 vmulps ymm2,ymm2,ymm4
01e9 vmulps ymm3,ymm3,ymm4
01ee mov r10,[rdi+30h]
01f2 mov r8,[rdi+40h]
01f6 lea r9,[r8+r8*2]
01fa mov r11,[rdi+58h]
01fe test r11,r11
0201 je near 0000000000000225h
0207 mov r11,[rdi+60h]
020b add r11,r10
020e vaddps ymm0,ymm0,[r11]
0213 vaddps ymm1,ymm1,[r11+r8]
0219 vaddps ymm2,ymm2,[r11+r8*2]
021f vaddps ymm3,ymm3,[r11+r9]
0225 vmovups [r10],ymm0
022a vmovups [r10+r8],ymm1
0230 vmovups [r10+r8*2],ymm2
0236 vmovups [r10+r9],ymm3
023c pop r15
023e pop r14
0240 pop r13
0242 pop r12
0244 pop rbp
0245 pop rbx
0246 vzeroupper
0249 ret
