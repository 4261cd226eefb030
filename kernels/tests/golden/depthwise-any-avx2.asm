; Depthwise(DepthwiseCode { isa: Avx2, activation: Some(Relu), stored: F32 })
; part 0, 6432 bytes
0000 push rbx
0001 push rbp
0002 push r12
0004 push r13
0006 push r14
0008 push r15
000a mov r8,[rdi+28h]
000e lea r9,[r8+r8*2]
0012 lea r10,[r8+r8*4]
0016 lea r11,[r9+r8*4]
001a mov r13,[rdi+40h]
001e mov rax,[rdi]
0021 cmp rax,8
0025 je near 0000000000000080h
002b cmp rax,7
002f je near 00000000000004F0h
0035 cmp rax,6
0039 je near 0000000000000900h
003f cmp rax,5
0043 je near 0000000000000CA0h
0049 cmp rax,4
004d je near 0000000000000FE0h
0053 cmp rax,3
0057 je near 00000000000012B0h
005d cmp rax,2
0061 je near 0000000000001520h
0067 cmp rax,1
006b je near 0000000000001730h
0071 jmp 00000000000018CAh
0076 nop word [rax+rax]
007f nop
; 1127 instructions are left out
1520 mov esi,0
1526 mov r15,[rdi+68h]
152a cmp rsi,r15
152d jge near 0000000000001602h
1533 mov rdx,[rdi+50h]
1537 test rdx,rdx
153a je near 0000000000001550h
1540 vmovups ymm0,[rdx+rsi]
1546 vmovaps ymm1,ymm0
154b jmp 000000000000155Ah
1550 vxorps ymm0,ymm0,ymm0
1555 vxorps ymm1,ymm1,ymm1
155a mov rax,[rdi+10h]
155e mov rcx,[rdi+18h]
1562 mov r14,[rdi+20h]
1566 add r14,rsi
1569 cmp rax,rcx
156c je near 000000000000159Ah
1572 mov rdx,[rax]
1575 mov rbx,[rax+8]
1579 add rdx,r14
157c vmovups ymm8,[rbx+rsi]
1582 vfmadd231ps ymm0,ymm8,[rdx]
1587 vfmadd231ps ymm1,ymm8,[rdx+r8]
158d add rax,10h
1591 cmp rax,rcx
1594 jne near 0000000000001572h
159a mov rbp,[rdi+58h]
159e test rbp,rbp
15a1 je near 00000000000015CBh
15a7 mov rbp,[rdi+60h]
15ab mov r12,[rdi+38h]
15af add r12,rsi
15b2 vmovups ymm8,[r12+rbp]
15b8 vaddps ymm0,ymm0,ymm8
15bd add r12,r13
15c0 vmovups ymm8,[r12+rbp]
15c6 vaddps ymm1,ymm1,ymm8
15cb vxorps ymm2,ymm2,ymm2
15d0 vmaxps ymm0,ymm2,ymm0
15d5 vxorps ymm2,ymm2,ymm2
15da vmaxps ymm1,ymm2,ymm1
15df mov r12,[rdi+38h]
15e3 add r12,rsi
15e6 vmovups [r12],ymm0
15ec add r12,r13
15ef vmovups [r12],ymm1
15f5 add rsi,20h
15f9 cmp rsi,r15
15fc jl near 0000000000001533h
1602 mov rax,[rdi+70h]
1606 test rax,rax
1609 je near 00000000000016EEh
160f vmovd xmm15,eax
1614 vpbroadcastd ymm15,xmm15
1619 vpcmpgtd ymm15,ymm15,[rel 1900h]
1622 mov rdx,[rdi+50h]
1626 test rdx,rdx
1629 je near 000000000000163Fh
162f vmaskmovps ymm0,ymm15,[rdx+rsi]
1635 vmovaps ymm1,ymm0
163a jmp 0000000000001649h
163f vxorps ymm0,ymm0,ymm0
1644 vxorps ymm1,ymm1,ymm1
1649 mov rax,[rdi+10h]
164d mov rcx,[rdi+18h]
1651 mov r14,[rdi+20h]
1655 add r14,rsi
1658 cmp rax,rcx
165b je near 0000000000001693h
1661 mov rdx,[rax]
1664 mov rbx,[rax+8]
1668 add rdx,r14
166b vmaskmovps ymm8,ymm15,[rbx+rsi]
1671 vmaskmovps ymm9,ymm15,[rdx]
1676 vfmadd231ps ymm0,ymm8,ymm9
167b vmaskmovps ymm9,ymm15,[rdx+r8]
1681 vfmadd231ps ymm1,ymm8,ymm9
1686 add rax,10h
168a cmp rax,rcx
168d jne near 0000000000001661h
1693 mov rbp,[rdi+58h]
1697 test rbp,rbp
169a je near 00000000000016C4h
16a0 mov rbp,[rdi+60h]
16a4 mov r12,[rdi+38h]
16a8 add r12,rsi
16ab vmaskmovps ymm8,ymm15,[r12+rbp]
16b1 vaddps ymm0,ymm0,ymm8
16b6 add r12,r13
16b9 vmaskmovps ymm8,ymm15,[r12+rbp]
16bf vaddps ymm1,ymm1,ymm8
16c4 vxorps ymm2,ymm2,ymm2
16c9 vmaxps ymm0,ymm2,ymm0
16ce vxorps ymm2,ymm2,ymm2
16d3 vmaxps ymm1,ymm2,ymm1
16d8 mov r12,[rdi+38h]
16dc add r12,rsi
16df vmaskmovps [r12],ymm15,ymm0
16e5 add r12,r13
16e8 vmaskmovps [r12],ymm15,ymm1
16ee mov rax,[rdi+20h]
16f2 add rax,[rdi+30h]
16f6 mov [rdi+20h],rax
16fa mov rax,[rdi+38h]
16fe add rax,[rdi+48h]
1702 mov [rdi+38h],rax
1706 mov rax,[rdi+8]
170a sub rax,1
170e mov [rdi+8],rax
1712 cmp rax,0
1716 jg near 0000000000001520h
171c jmp 00000000000018CAh
1721 nop word [rax+rax]
172a nop word [rax+rax]
1730 mov esi,0
1736 mov r15,[rdi+68h]
173a cmp rsi,r15
173d jge near 00000000000017E1h
1743 mov rdx,[rdi+50h]
1747 test rdx,rdx
174a je near 000000000000175Bh
1750 vmovups ymm0,[rdx+rsi]
1756 jmp 0000000000001760h
175b vxorps ymm0,ymm0,ymm0
1760 mov rax,[rdi+10h]
1764 mov rcx,[rdi+18h]
1768 mov r14,[rdi+20h]
176c add r14,rsi
176f cmp rax,rcx
1772 je near 000000000000179Ah
1778 mov rdx,[rax]
177b mov rbx,[rax+8]
177f add rdx,r14
1782 vmovups ymm8,[rbx+rsi]
1788 vfmadd231ps ymm0,ymm8,[rdx]
178d add rax,10h
1791 cmp rax,rcx
1794 jne near 0000000000001778h
179a mov rbp,[rdi+58h]
179e test rbp,rbp
17a1 je near 00000000000017BDh
17a7 mov rbp,[rdi+60h]
17ab mov r12,[rdi+38h]
17af add r12,rsi
17b2 vmovups ymm8,[r12+rbp]
17b8 vaddps ymm0,ymm0,ymm8
17bd vxorps ymm1,ymm1,ymm1
17c2 vmaxps ymm0,ymm1,ymm0
17c7 mov r12,[rdi+38h]
17cb add r12,rsi
17ce vmovups [r12],ymm0
17d4 add rsi,20h
17d8 cmp rsi,r15
17db jl near 0000000000001743h
17e1 mov rax,[rdi+70h]
17e5 test rax,rax
17e8 je near 0000000000001897h
17ee vmovd xmm15,eax
17f3 vpbroadcastd ymm15,xmm15
17f8 vpcmpgtd ymm15,ymm15,[rel 1900h]
1801 mov rdx,[rdi+50h]
1805 test rdx,rdx
1808 je near 0000000000001819h
180e vmaskmovps ymm0,ymm15,[rdx+rsi]
1814 jmp 000000000000181Eh
1819 vxorps ymm0,ymm0,ymm0
181e mov rax,[rdi+10h]
1822 mov rcx,[rdi+18h]
1826 mov r14,[rdi+20h]
182a add r14,rsi
182d cmp rax,rcx
1830 je near 000000000000185Dh
1836 mov rdx,[rax]
1839 mov rbx,[rax+8]
183d add rdx,r14
1840 vmaskmovps ymm8,ymm15,[rbx+rsi]
1846 vmaskmovps ymm9,ymm15,[rdx]
184b vfmadd231ps ymm0,ymm8,ymm9
1850 add rax,10h
1854 cmp rax,rcx
1857 jne near 0000000000001836h
185d mov rbp,[rdi+58h]
1861 test rbp,rbp
1864 je near 0000000000001880h
186a mov rbp,[rdi+60h]
186e mov r12,[rdi+38h]
1872 add r12,rsi
1875 vmaskmovps ymm8,ymm15,[r12+rbp]
187b vaddps ymm0,ymm0,ymm8
1880 vxorps ymm1,ymm1,ymm1
1885 vmaxps ymm0,ymm1,ymm0
188a mov r12,[rdi+38h]
188e add r12,rsi
1891 vmaskmovps [r12],ymm15,ymm0
1897 mov rax,[rdi+20h]
189b add rax,[rdi+30h]
189f mov [rdi+20h],rax
18a3 mov rax,[rdi+38h]
18a7 add rax,[rdi+48h]
18ab mov [rdi+38h],rax
18af mov rax,[rdi+8]
18b3 sub rax,1
18b7 mov [rdi+8],rax
18bb cmp rax,0
18bf jg near 0000000000001730h
18c5 jmp 00000000000018CAh
18ca pop r15
18cc pop r14
18ce pop r13
18d0 pop r12
18d2 pop rbp
18d3 pop rbx
18d4 vzeroupper
18d7 ret
18d8 nop word [rax+rax]
18e1 nop word [rax+rax]
18ea nop word [rax+rax]
18f3 nop word [rax+rax]
18fc nop dword [rax]
; [00, 00, 00, 00]
; [01, 00, 00, 00]
; [02, 00, 00, 00]
; [03, 00, 00, 00]
; [04, 00, 00, 00]
; [05, 00, 00, 00]
; [06, 00, 00, 00]
; [07, 00, 00, 00]
