#include "textflag.h"

DATA ones<>+0(SB)/4, $0x00010001
GLOBL ones<>(SB), RODATA, $4

// four adds the products of four columns and eight rows: pairs of them in 16 bits, which Largest keeps them within,
// then all four.
#define four(PANEL, INPUT, SUM) \
	VPMADDUBSW PANEL, INPUT, Y13 \
	VPMADDWD   Y13, Y15, Y13     \
	VPADDD     Y13, SUM, SUM

// func mul2AVX2(out *int32, n int, a *uint8, k int, panel *int8, start *int32)
// Y0 to Y7 are the sums of two tokens, eight rows each.
TEXT ·mul2AVX2(SB), NOSPLIT, $0-48
	MOVQ out+0(FP), DI
	MOVQ n+8(FP), R8
	MOVQ a+16(FP), SI
	MOVQ k+24(FP), R9
	MOVQ panel+32(FP), DX
	MOVQ start+40(FP), BX
	LEAQ (SI)(R9*1), R10
	VPBROADCASTD ones<>(SB), Y15
	VMOVDQU (BX), Y0
	VMOVDQU 32(BX), Y1
	VMOVDQU 64(BX), Y2
	VMOVDQU 96(BX), Y3
	VMOVDQA Y0, Y4
	VMOVDQA Y1, Y5
	VMOVDQA Y2, Y6
	VMOVDQA Y3, Y7

loop2:
	VPBROADCASTD (SI), Y8
	VPBROADCASTD (R10), Y9
	VMOVDQU (DX), Y10
	four(Y10, Y8, Y0)
	four(Y10, Y9, Y4)
	VMOVDQU 32(DX), Y10
	four(Y10, Y8, Y1)
	four(Y10, Y9, Y5)
	VMOVDQU 64(DX), Y10
	four(Y10, Y8, Y2)
	four(Y10, Y9, Y6)
	VMOVDQU 96(DX), Y10
	four(Y10, Y8, Y3)
	four(Y10, Y9, Y7)
	ADDQ $128, DX
	ADDQ $4, SI
	ADDQ $4, R10
	SUBQ $4, R9
	JNZ loop2

	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	VMOVDQU Y2, 64(DI)
	VMOVDQU Y3, 96(DI)
	LEAQ (DI)(R8*4), DI
	VMOVDQU Y4, (DI)
	VMOVDQU Y5, 32(DI)
	VMOVDQU Y6, 64(DI)
	VMOVDQU Y7, 96(DI)
	VZEROUPPER
	RET

// token adds the products of four columns and 32 rows.
#define token(INPUT, LOW, HIGH) \
	VPBROADCASTD INPUT, Z18   \
	VPDPBUSD     Z16, Z18, LOW \
	VPDPBUSD     Z17, Z18, HIGH

#define keep(LOW, HIGH) \
	VMOVDQU32 LOW, (DI)    \
	VMOVDQU32 HIGH, 64(DI) \
	LEAQ      (DI)(R8*4), DI

// func mul8VNNI(out *int32, n int, a *uint8, k int, panel *int8, start *int32)
// Z0 to Z15 are the sums of eight tokens, sixteen rows each; Z16 and Z17 are four columns of the panel.
TEXT ·mul8VNNI(SB), NOSPLIT, $0-48
	MOVQ out+0(FP), DI
	MOVQ n+8(FP), R8
	MOVQ a+16(FP), SI
	MOVQ k+24(FP), R9
	MOVQ panel+32(FP), DX
	MOVQ start+40(FP), BX
	MOVQ R9, CX
	LEAQ (R9)(R9*2), R10
	LEAQ (SI)(R9*4), R11
	VMOVDQU32 (BX), Z0
	VMOVDQU32 64(BX), Z1
	VMOVDQA32 Z0, Z2
	VMOVDQA32 Z1, Z3
	VMOVDQA32 Z0, Z4
	VMOVDQA32 Z1, Z5
	VMOVDQA32 Z0, Z6
	VMOVDQA32 Z1, Z7
	VMOVDQA32 Z0, Z8
	VMOVDQA32 Z1, Z9
	VMOVDQA32 Z0, Z10
	VMOVDQA32 Z1, Z11
	VMOVDQA32 Z0, Z12
	VMOVDQA32 Z1, Z13
	VMOVDQA32 Z0, Z14
	VMOVDQA32 Z1, Z15

loop8:
	VMOVDQU32 (DX), Z16
	VMOVDQU32 64(DX), Z17
	token((SI), Z0, Z1)
	token((SI)(R9*1), Z2, Z3)
	token((SI)(R9*2), Z4, Z5)
	token((SI)(R10*1), Z6, Z7)
	token((R11), Z8, Z9)
	token((R11)(R9*1), Z10, Z11)
	token((R11)(R9*2), Z12, Z13)
	token((R11)(R10*1), Z14, Z15)
	ADDQ $128, DX
	ADDQ $4, SI
	ADDQ $4, R11
	SUBQ $4, CX
	JNZ loop8

	keep(Z0, Z1)
	keep(Z2, Z3)
	keep(Z4, Z5)
	keep(Z6, Z7)
	keep(Z8, Z9)
	keep(Z10, Z11)
	keep(Z12, Z13)
	keep(Z14, Z15)
	VZEROUPPER
	RET
