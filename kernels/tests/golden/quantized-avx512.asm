; Quantized(QuantizedCode { isa: Avx512, form: Widened, vectors: 2, left: Strided, output: Signed })
; part 0, 12484 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov rax,[rdi]
000d cmp rax,8
0011 je near 0000000000000070h
0017 cmp rax,7
001b je near 0000000000000A80h
0021 cmp rax,6
0025 je near 0000000000001370h
002b cmp rax,5
002f je near 0000000000001B30h
0035 cmp rax,4
0039 je near 00000000000021C0h
003f cmp rax,3
0043 je near 0000000000002720h
0049 cmp rax,2
004d je near 0000000000002B70h
0053 cmp rax,1
0057 je near 0000000000002E90h
005d jmp 00000000000030A6h
0062 nop word [rax+rax]
006b nop dword [rax+rax]
; 1774 instructions are left out
2b70 mov rdx,[rdi+70h]
2b74 vmovups zmm0,[rdx]
2b7a vmovups zmm2,zmm0
2b80 vmovups zmm1,[rdx+40h]
2b87 vmovups zmm3,zmm1
2b8d mov r11,[rdi+50h]
2b91 mov rax,[rdi+10h]
2b95 mov rbp,[rdi+18h]
2b99 lea rcx,[rax+rbp]
2b9d mov r12,[rdi+38h]
2ba1 mov r13,[rdi+40h]
2ba5 cmp r12,r13
2ba8 jge near 0000000000002D09h
2bae nop word [rax+rax]
2bb7 nop word [rax+rax]
2bc0 vpmovsxbw zmm4,[r11]
2bc6 vpmovsxbw zmm5,[r11+20h]
2bcd vbroadcastss zmm6,[rax+r12]
2bd4 vpmaddwd zmm7,zmm6,zmm4
2bda vpaddd zmm0,zmm0,zmm7
2be0 vpmaddwd zmm7,zmm6,zmm5
2be6 vpaddd zmm1,zmm1,zmm7
2bec vbroadcastss zmm6,[rcx+r12]
2bf3 vpmaddwd zmm7,zmm6,zmm4
2bf9 vpaddd zmm2,zmm2,zmm7
2bff vpmaddwd zmm7,zmm6,zmm5
2c05 vpaddd zmm3,zmm3,zmm7
2c0b vpmovsxbw zmm4,[r11+40h]
2c12 vpmovsxbw zmm5,[r11+60h]
2c19 vbroadcastss zmm6,[rax+r12+4]
2c21 vpmaddwd zmm7,zmm6,zmm4
2c27 vpaddd zmm0,zmm0,zmm7
2c2d vpmaddwd zmm7,zmm6,zmm5
2c33 vpaddd zmm1,zmm1,zmm7
2c39 vbroadcastss zmm6,[rcx+r12+4]
2c41 vpmaddwd zmm7,zmm6,zmm4
2c47 vpaddd zmm2,zmm2,zmm7
2c4d vpmaddwd zmm7,zmm6,zmm5
2c53 vpaddd zmm3,zmm3,zmm7
2c59 vpmovsxbw zmm4,[r11+80h]
2c60 vpmovsxbw zmm5,[r11+0A0h]
2c67 vbroadcastss zmm6,[rax+r12+8]
2c6f vpmaddwd zmm7,zmm6,zmm4
2c75 vpaddd zmm0,zmm0,zmm7
2c7b vpmaddwd zmm7,zmm6,zmm5
2c81 vpaddd zmm1,zmm1,zmm7
2c87 vbroadcastss zmm6,[rcx+r12+8]
2c8f vpmaddwd zmm7,zmm6,zmm4
2c95 vpaddd zmm2,zmm2,zmm7
2c9b vpmaddwd zmm7,zmm6,zmm5
2ca1 vpaddd zmm3,zmm3,zmm7
2ca7 vpmovsxbw zmm4,[r11+0C0h]
2cae vpmovsxbw zmm5,[r11+0E0h]
2cb5 vbroadcastss zmm6,[rax+r12+0Ch]
2cbd vpmaddwd zmm7,zmm6,zmm4
2cc3 vpaddd zmm0,zmm0,zmm7
2cc9 vpmaddwd zmm7,zmm6,zmm5
2ccf vpaddd zmm1,zmm1,zmm7
2cd5 vbroadcastss zmm6,[rcx+r12+0Ch]
2cdd vpmaddwd zmm7,zmm6,zmm4
2ce3 vpaddd zmm2,zmm2,zmm7
2ce9 vpmaddwd zmm7,zmm6,zmm5
2cef vpaddd zmm3,zmm3,zmm7
2cf5 add r12,10h
2cf9 add r11,100h
2d00 cmp r12,r13
2d03 jl near 0000000000002BC0h
2d09 mov r13,[rdi+48h]
2d0d cmp r12,r13
2d10 jge near 0000000000002D72h
2d16 vpmovsxbw zmm4,[r11]
2d1c vpmovsxbw zmm5,[r11+20h]
2d23 vbroadcastss zmm6,[rax+r12]
2d2a vpmaddwd zmm7,zmm6,zmm4
2d30 vpaddd zmm0,zmm0,zmm7
2d36 vpmaddwd zmm7,zmm6,zmm5
2d3c vpaddd zmm1,zmm1,zmm7
2d42 vbroadcastss zmm6,[rcx+r12]
2d49 vpmaddwd zmm7,zmm6,zmm4
2d4f vpaddd zmm2,zmm2,zmm7
2d55 vpmaddwd zmm7,zmm6,zmm5
2d5b vpaddd zmm3,zmm3,zmm7
2d61 add r12,4
2d65 add r11,40h
2d69 cmp r12,r13
2d6c jl near 0000000000002D16h
2d72 mov rsi,[rdi+78h]
2d76 mov r8,[rdi+80h]
2d7d vbroadcastss zmm4,[rdi+88h]
2d84 vbroadcastss zmm5,[rdi+8Ch]
2d8b vbroadcastss zmm6,[rdi+90h]
2d92 mov rdx,[rdi+58h]
2d96 mov rbx,[rdi+60h]
2d9a vcvtdq2ps zmm0,zmm0
2da0 vmulps zmm0,zmm0,[rsi]
2da6 vaddps zmm0,zmm0,[r8]
2dac vmaxps zmm0,zmm0,zmm4
2db2 vminps zmm0,zmm0,zmm5
2db8 vcvtps2dq zmm0,zmm0
2dbe vpaddd zmm0,zmm0,zmm6
2dc4 vandps zmm0,zmm0,[rel 30C0h]{1to16}
2dce vcvtdq2ps zmm1,zmm1
2dd4 vmulps zmm1,zmm1,[rsi+40h]
2ddb vaddps zmm1,zmm1,[r8+40h]
2de2 vmaxps zmm1,zmm1,zmm4
2de8 vminps zmm1,zmm1,zmm5
2dee vcvtps2dq zmm1,zmm1
2df4 vpaddd zmm1,zmm1,zmm6
2dfa vandps zmm1,zmm1,[rel 30C0h]{1to16}
2e04 vpmovdb [rdx],zmm0
2e0a vpmovdb [rdx+10h],zmm1
2e11 add rdx,rbx
2e14 vcvtdq2ps zmm2,zmm2
2e1a vmulps zmm2,zmm2,[rsi]
2e20 vaddps zmm2,zmm2,[r8]
2e26 vmaxps zmm2,zmm2,zmm4
2e2c vminps zmm2,zmm2,zmm5
2e32 vcvtps2dq zmm2,zmm2
2e38 vpaddd zmm2,zmm2,zmm6
2e3e vandps zmm2,zmm2,[rel 30C0h]{1to16}
2e48 vcvtdq2ps zmm3,zmm3
2e4e vmulps zmm3,zmm3,[rsi+40h]
2e55 vaddps zmm3,zmm3,[r8+40h]
2e5c vmaxps zmm3,zmm3,zmm4
2e62 vminps zmm3,zmm3,zmm5
2e68 vcvtps2dq zmm3,zmm3
2e6e vpaddd zmm3,zmm3,zmm6
2e74 vandps zmm3,zmm3,[rel 30C0h]{1to16}
2e7e vpmovdb [rdx],zmm2
2e84 vpmovdb [rdx+10h],zmm3
2e8b jmp 0000000000003078h
2e90 mov rdx,[rdi+70h]
2e94 vmovups zmm0,[rdx]
2e9a vmovups zmm1,[rdx+40h]
2ea1 mov r11,[rdi+50h]
2ea5 mov rax,[rdi+10h]
2ea9 mov rbp,[rdi+18h]
2ead mov r12,[rdi+38h]
2eb1 mov r13,[rdi+40h]
2eb5 cmp r12,r13
2eb8 jge near 0000000000002F8Ah
2ebe xchg ax,ax
2ec0 vpmovsxbw zmm2,[r11]
2ec6 vpmovsxbw zmm3,[r11+20h]
2ecd vbroadcastss zmm4,[rax+r12]
2ed4 vpmaddwd zmm5,zmm4,zmm2
2eda vpaddd zmm0,zmm0,zmm5
2ee0 vpmaddwd zmm5,zmm4,zmm3
2ee6 vpaddd zmm1,zmm1,zmm5
2eec vpmovsxbw zmm2,[r11+40h]
2ef3 vpmovsxbw zmm3,[r11+60h]
2efa vbroadcastss zmm4,[rax+r12+4]
2f02 vpmaddwd zmm5,zmm4,zmm2
2f08 vpaddd zmm0,zmm0,zmm5
2f0e vpmaddwd zmm5,zmm4,zmm3
2f14 vpaddd zmm1,zmm1,zmm5
2f1a vpmovsxbw zmm2,[r11+80h]
2f21 vpmovsxbw zmm3,[r11+0A0h]
2f28 vbroadcastss zmm4,[rax+r12+8]
2f30 vpmaddwd zmm5,zmm4,zmm2
2f36 vpaddd zmm0,zmm0,zmm5
2f3c vpmaddwd zmm5,zmm4,zmm3
2f42 vpaddd zmm1,zmm1,zmm5
2f48 vpmovsxbw zmm2,[r11+0C0h]
2f4f vpmovsxbw zmm3,[r11+0E0h]
2f56 vbroadcastss zmm4,[rax+r12+0Ch]
2f5e vpmaddwd zmm5,zmm4,zmm2
2f64 vpaddd zmm0,zmm0,zmm5
2f6a vpmaddwd zmm5,zmm4,zmm3
2f70 vpaddd zmm1,zmm1,zmm5
2f76 add r12,10h
2f7a add r11,100h
2f81 cmp r12,r13
2f84 jl near 0000000000002EC0h
2f8a mov r13,[rdi+48h]
2f8e cmp r12,r13
2f91 jge near 0000000000002FD4h
2f97 vpmovsxbw zmm2,[r11]
2f9d vpmovsxbw zmm3,[r11+20h]
2fa4 vbroadcastss zmm4,[rax+r12]
2fab vpmaddwd zmm5,zmm4,zmm2
2fb1 vpaddd zmm0,zmm0,zmm5
2fb7 vpmaddwd zmm5,zmm4,zmm3
2fbd vpaddd zmm1,zmm1,zmm5
2fc3 add r12,4
2fc7 add r11,40h
2fcb cmp r12,r13
2fce jl near 0000000000002F97h
2fd4 mov rsi,[rdi+78h]
2fd8 mov r8,[rdi+80h]
2fdf vbroadcastss zmm2,[rdi+88h]
2fe6 vbroadcastss zmm3,[rdi+8Ch]
2fed vbroadcastss zmm4,[rdi+90h]
2ff4 mov rdx,[rdi+58h]
2ff8 mov rbx,[rdi+60h]
2ffc vcvtdq2ps zmm0,zmm0
3002 vmulps zmm0,zmm0,[rsi]
3008 vaddps zmm0,zmm0,[r8]
300e vmaxps zmm0,zmm0,zmm2
3014 vminps zmm0,zmm0,zmm3
301a vcvtps2dq zmm0,zmm0
3020 vpaddd zmm0,zmm0,zmm4
3026 vandps zmm0,zmm0,[rel 30C0h]{1to16}
3030 vcvtdq2ps zmm1,zmm1
3036 vmulps zmm1,zmm1,[rsi+40h]
303d vaddps zmm1,zmm1,[r8+40h]
3044 vmaxps zmm1,zmm1,zmm2
304a vminps zmm1,zmm1,zmm3
3050 vcvtps2dq zmm1,zmm1
3056 vpaddd zmm1,zmm1,zmm4
305c vandps zmm1,zmm1,[rel 30C0h]{1to16}
3066 vpmovdb [rdx],zmm0
306c vpmovdb [rdx+10h],zmm1
3073 jmp 0000000000003078h
3078 mov rax,[rdi+10h]
307c add rax,[rdi+20h]
3080 mov [rdi+10h],rax
3084 mov rax,[rdi+58h]
3088 add rax,[rdi+68h]
308c mov [rdi+58h],rax
3090 mov rax,[rdi+8]
3094 sub rax,1
3098 mov [rdi+8],rax
309c cmp rax,0
30a0 jg near 000000000000000Ah
30a6 pop r15
30a8 pop r14
30aa pop r13
30ac pop r12
30ae pop rbp
30af pop rbx
30b0 vzeroupper
30b3 ret
30b4 nop word [rax+rax]
30bd nop dword [rax]
; [ff, 00, 00, 00]
