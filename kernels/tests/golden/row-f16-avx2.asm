; Row(RowCode { isa: Avx2, vectors: 1, right: Halves, activation: None })
; part 0, 578 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov r11,[rdi+38h]
000e test r11,r11
0011 je near 0000000000000033h
0017 vmovups ymm0,[r11]
001c vmovups ymm1,[r11+20h]
0022 vmovups ymm2,[r11+40h]
0028 vmovups ymm3,[r11+60h]
002e jmp 0000000000000047h
0033 vxorps ymm0,ymm0,ymm0
0038 vxorps ymm1,ymm1,ymm1
003d vxorps ymm2,ymm2,ymm2
0042 vxorps ymm3,ymm3,ymm3
0047 mov rsi,[rdi]
004a mov rdx,[rdi+8]
004e mov r8,[rdi+10h]
0052 lea r9,[r8+r8*2]
0056 mov eax,0
005c mov rcx,[rdi+18h]
0060 cmp rax,rcx
0063 jge near 000000000000016Ch
0069 nop word [rax+rax]
0072 nop word [rax+rax]
007b nop dword [rax+rax]
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
01c7 mov r11,[rdi+40h]
01cb test r11,r11
01ce je near 00000000000001EEh
01d4 vpbroadcastd ymm4,[rdi+48h]
01da vmulps ymm0,ymm0,ymm4
01df vmulps ymm1,ymm1,ymm4
01e4 vmulps ymm2,ymm2,ymm4
01e9 vmulps ymm3,ymm3,ymm4
01ee mov r10,[rdi+30h]
01f2 mov r11,[rdi+50h]
01f6 test r11,r11
01f9 je near 000000000000021Dh
01ff mov r11,[rdi+58h]
0203 add r11,r10
0206 vaddps ymm0,ymm0,[r11]
020b vaddps ymm1,ymm1,[r11+20h]
0211 vaddps ymm2,ymm2,[r11+40h]
0217 vaddps ymm3,ymm3,[r11+60h]
021d vmovups [r10],ymm0
0222 vmovups [r10+20h],ymm1
0228 vmovups [r10+40h],ymm2
022e vmovups [r10+60h],ymm3
0234 pop r15
0236 pop r14
0238 pop r13
023a pop r12
023c pop rbp
023d pop rbx
023e vzeroupper
0241 ret
