#include "textflag.h"

DATA unsigned<>+0(SB)/4, $0x7fffffff
GLOBL unsigned<>(SB), RODATA, $4
DATA shifted<>+0(SB)/4, $0x80808080
GLOBL shifted<>(SB), RODATA, $4
DATA infinite<>+0(SB)/4, $0xff800000
GLOBL infinite<>(SB), RODATA, $4

// numbers are 6, 128 and 1536 of GELU; 256, 5120 and 255 of chances.
DATA numbers<>+0(SB)/4, $0x40c00000
DATA numbers<>+4(SB)/4, $0x43000000
DATA numbers<>+8(SB)/4, $0x44c00000
DATA numbers<>+12(SB)/4, $0x43800000
DATA numbers<>+16(SB)/4, $0x45a00000
DATA numbers<>+20(SB)/4, $0x437f0000
GLOBL numbers<>(SB), RODATA, $24

// ordered is the order of the words of four vectors that were packed into one of bytes.
DATA ordered<>+0(SB)/8, $0x0000000400000000
DATA ordered<>+8(SB)/8, $0x0000000500000001
DATA ordered<>+16(SB)/8, $0x0000000600000002
DATA ordered<>+24(SB)/8, $0x0000000700000003
GLOBL ordered<>(SB), RODATA, $32

// func absoluteAVX2(x *float32, n int) float32
TEXT ·absoluteAVX2(SB), NOSPLIT, $0-20
	MOVQ x+0(FP), SI
	MOVQ n+8(FP), CX
	VPBROADCASTD unsigned<>(SB), Y7
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1

absolute:
	VPAND (SI), Y7, Y2
	VPAND 32(SI), Y7, Y3
	VPAND 64(SI), Y7, Y4
	VPAND 96(SI), Y7, Y5
	VPMAXUD Y2, Y0, Y0
	VPMAXUD Y3, Y1, Y1
	VPMAXUD Y4, Y0, Y0
	VPMAXUD Y5, Y1, Y1
	ADDQ $128, SI
	SUBQ $32, CX
	JNZ absolute

	VPMAXUD Y1, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPMAXUD X1, X0, X0
	VPSHUFD $0x4e, X0, X1
	VPMAXUD X1, X0, X0
	VPSHUFD $0xb1, X0, X1
	VPMAXUD X1, X0, X0
	VMOVSS X0, ret+16(FP)
	VZEROUPPER
	RET

// func divideAVX2(out *uint8, x *float32, n int, factor float32)
TEXT ·divideAVX2(SB), NOSPLIT, $0-28
	MOVQ out+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	VBROADCASTSS factor+24(FP), Y7
	VPBROADCASTD shifted<>(SB), Y6
	VMOVDQU ordered<>(SB), Y5

division:
	VMULPS (SI), Y7, Y0
	VMULPS 32(SI), Y7, Y1
	VMULPS 64(SI), Y7, Y2
	VMULPS 96(SI), Y7, Y3
	VCVTPS2DQ Y0, Y0
	VCVTPS2DQ Y1, Y1
	VCVTPS2DQ Y2, Y2
	VCVTPS2DQ Y3, Y3
	VPACKSSDW Y1, Y0, Y0
	VPACKSSDW Y3, Y2, Y2
	VPACKSSWB Y2, Y0, Y0
	VPERMD Y0, Y5, Y0
	VPXOR Y6, Y0, Y0
	VMOVDQU Y0, (DI)
	ADDQ $128, SI
	ADDQ $32, DI
	SUBQ $32, CX
	JNZ division
	VZEROUPPER
	RET

// func scaleAVX2(out *float32, sums *int32, n int, one float32, scale, bias *float32)
TEXT ·scaleAVX2(SB), NOSPLIT, $0-48
	MOVQ out+0(FP), DI
	MOVQ sums+8(FP), SI
	MOVQ n+16(FP), CX
	VBROADCASTSS one+24(FP), Y7
	MOVQ scale+32(FP), R8
	MOVQ bias+40(FP), R9
	XORQ AX, AX

scaling:
	VCVTDQ2PS (SI)(AX*4), Y0
	VCVTDQ2PS 32(SI)(AX*4), Y1
	VMULPS Y7, Y0, Y0
	VMULPS Y7, Y1, Y1
	VMULPS (R8)(AX*4), Y0, Y0
	VMULPS 32(R8)(AX*4), Y1, Y1
	VADDPS (R9)(AX*4), Y0, Y0
	VADDPS 32(R9)(AX*4), Y1, Y1
	VMOVUPS Y0, (DI)(AX*4)
	VMOVUPS Y1, 32(DI)(AX*4)
	ADDQ $16, AX
	CMPQ AX, CX
	JNE scaling
	VZEROUPPER
	RET

// line reads the table at R10 at the places Y0 into Y0; it uses Y1 to Y4.
#define line \
	VCVTTPS2DQ Y0, Y1               \
	VCVTDQ2PS  Y1, Y2               \
	VSUBPS     Y2, Y0, Y0           \
	VPCMPEQD   Y4, Y4, Y4           \
	VGATHERDPS Y4, (R10)(Y1*4), Y2  \
	VPCMPEQD   Y4, Y4, Y4           \
	VGATHERDPS Y4, 4(R10)(Y1*4), Y3 \
	VSUBPS     Y2, Y3, Y3           \
	VMULPS     Y0, Y3, Y3           \
	VADDPS     Y3, Y2, Y0

// func geluAVX2(x *float32, n int, table *float32)
TEXT ·geluAVX2(SB), NOSPLIT, $0-24
	MOVQ x+0(FP), SI
	MOVQ n+8(FP), CX
	MOVQ table+16(FP), R10
	VBROADCASTSS numbers<>+0(SB), Y7
	VBROADCASTSS numbers<>+4(SB), Y8
	VBROADCASTSS numbers<>+8(SB), Y9
	VXORPS Y10, Y10, Y10

unit:
	VMOVUPS (SI), Y5
	VADDPS Y7, Y5, Y0
	VMULPS Y8, Y0, Y0
	VMAXPS Y10, Y0, Y0
	VMINPS Y9, Y0, Y0
	line
	VCMPPS $13, Y7, Y5, Y6
	VBLENDVPS Y6, Y5, Y0, Y0
	VMOVUPS Y0, (SI)
	ADDQ $32, SI
	SUBQ $8, CX
	JNZ unit
	VZEROUPPER
	RET

// chances makes chances of the eight numbers at R12 and adds them to Y12.
#define chances(AT, OUT) \
	VSUBPS    AT(R12), Y7, Y0 \
	VMULPS    Y8, Y0, Y0      \
	VMINPS    Y9, Y0, Y0      \
	line                      \
	VMULPS    Y10, Y0, Y0     \
	VCVTPS2DQ Y0, OUT         \
	VPADDD    OUT, Y12, Y12

// func spreadAVX2(out *uint8, sums *int32, n int, one float32, worth, mask, scratch, table *float32) int32
TEXT ·spreadAVX2(SB), NOSPLIT, $0-68
	MOVQ out+0(FP), DI
	MOVQ sums+8(FP), SI
	MOVQ n+16(FP), CX
	VBROADCASTSS one+24(FP), Y6
	MOVQ worth+32(FP), R8
	MOVQ mask+40(FP), R9
	MOVQ scratch+48(FP), R12
	MOVQ table+56(FP), R10
	VBROADCASTSS infinite<>(SB), Y7
	XORQ AX, AX

worth:
	VCVTDQ2PS (SI)(AX*4), Y0
	VMULPS Y6, Y0, Y0
	VMULPS (R8)(AX*4), Y0, Y0
	VADDPS (R9)(AX*4), Y0, Y0
	VMOVUPS Y0, (R12)(AX*4)
	VMAXPS Y0, Y7, Y7
	ADDQ $8, AX
	CMPQ AX, CX
	JNE worth

	VEXTRACTF128 $1, Y7, X1
	VMAXPS X1, X7, X7
	VPSHUFD $0x4e, X7, X1
	VMAXPS X1, X7, X7
	VPSHUFD $0xb1, X7, X1
	VMAXPS X1, X7, X7
	VBROADCASTSS X7, Y7
	VBROADCASTSS numbers<>+12(SB), Y8
	VBROADCASTSS numbers<>+16(SB), Y9
	VBROADCASTSS numbers<>+20(SB), Y10
	VMOVDQU ordered<>(SB), Y11
	VPXOR Y12, Y12, Y12

spreading:
	chances(0, Y13)
	chances(32, Y14)
	VPACKSSDW Y14, Y13, Y13
	chances(64, Y14)
	chances(96, Y15)
	VPACKSSDW Y15, Y14, Y14
	VPACKUSWB Y14, Y13, Y13
	VPERMD Y13, Y11, Y13
	VMOVDQU Y13, (DI)
	ADDQ $128, R12
	ADDQ $32, DI
	SUBQ $32, CX
	JNZ spreading

	VEXTRACTI128 $1, Y12, X1
	VPADDD X1, X12, X12
	VPSHUFD $0x4e, X12, X1
	VPADDD X1, X12, X12
	VPSHUFD $0xb1, X12, X1
	VPADDD X1, X12, X12
	VMOVD X12, AX
	MOVL AX, ret+64(FP)
	VZEROUPPER
	RET

// func addAVX2(x, y *float32, n int, parts *[4]float64)
TEXT ·addAVX2(SB), NOSPLIT, $0-32
	MOVQ x+0(FP), SI
	MOVQ y+8(FP), DX
	MOVQ n+16(FP), CX
	MOVQ parts+24(FP), DI
	VMOVUPD (DI), Y0

adding:
	VMOVUPS (SI), X1
	VADDPS (DX), X1, X1
	VMOVUPS X1, (SI)
	VCVTPS2PD X1, Y1
	VADDPD Y1, Y0, Y0
	ADDQ $16, SI
	ADDQ $16, DX
	SUBQ $4, CX
	JNZ adding
	VMOVUPD Y0, (DI)
	VZEROUPPER
	RET

// func squaresAVX2(x *float32, n int, mean float32, parts *[4]float64)
TEXT ·squaresAVX2(SB), NOSPLIT, $0-32
	MOVQ x+0(FP), SI
	MOVQ n+8(FP), CX
	VBROADCASTSS mean+16(FP), X7
	MOVQ parts+24(FP), DI
	VMOVUPD (DI), Y0

squaring:
	VMOVUPS (SI), X1
	VSUBPS X7, X1, X1
	VMULPS X1, X1, X1
	VCVTPS2PD X1, Y1
	VADDPD Y1, Y0, Y0
	ADDQ $16, SI
	SUBQ $4, CX
	JNZ squaring
	VMOVUPD Y0, (DI)
	VZEROUPPER
	RET

// func shiftAVX2(x *float32, n int, mean, factor float32, weight, bias *float32)
TEXT ·shiftAVX2(SB), NOSPLIT, $0-40
	MOVQ x+0(FP), SI
	MOVQ n+8(FP), CX
	VBROADCASTSS mean+16(FP), Y7
	VBROADCASTSS factor+20(FP), Y6
	MOVQ weight+24(FP), R8
	MOVQ bias+32(FP), R9
	XORQ AX, AX

shifting:
	VMOVUPS (SI)(AX*4), Y0
	VSUBPS Y7, Y0, Y0
	VMULPS Y6, Y0, Y0
	VMULPS (R8)(AX*4), Y0, Y0
	VADDPS (R9)(AX*4), Y0, Y0
	VMOVUPS Y0, (SI)(AX*4)
	ADDQ $8, AX
	CMPQ AX, CX
	JNE shifting
	VZEROUPPER
	RET
