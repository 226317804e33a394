#include "textflag.h"

// func dotsAVX2(question *int16, rows *int8, out *int32, dim, blocks, count, ahead int)
// dim is the length of a row in bytes, blocks how many times 32 of them are multiplied, at least one; count is at least
// one. Bytes are widened to 16 bits, multiplied and added in pairs, and summed in 32 bits, which the question's range
// (coarseQuestion) keeps from overflowing. What is read next is asked for early: so many bytes ahead.
TEXT ·dotsAVX2(SB), NOSPLIT, $0-56
	MOVQ question+0(FP), DI
	MOVQ rows+8(FP), SI
	MOVQ out+16(FP), DX
	MOVQ dim+24(FP), R8
	MOVQ blocks+32(FP), R9
	MOVQ count+40(FP), R10
	MOVQ ahead+48(FP), R13

row:
	MOVQ  SI, R11
	MOVQ  DI, R12
	MOVQ  R9, CX
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1

block:
	PREFETCHT0 (R11)(R13*1)
	VPMOVSXBW  (R11), Y2
	VPMADDWD   (R12), Y2, Y2
	VPADDD     Y2, Y0, Y0
	VPMOVSXBW  16(R11), Y3
	VPMADDWD   32(R12), Y3, Y3
	VPADDD     Y3, Y1, Y1
	ADDQ       $32, R11
	ADDQ       $64, R12
	DECQ       CX
	JNZ        block

	VPADDD       Y1, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPADDD       X1, X0, X0
	VPSHUFD      $0x4E, X0, X1
	VPADDD       X1, X0, X0
	VPSHUFD      $0xB1, X0, X1
	VPADDD       X1, X0, X0
	VMOVD        X0, (DX)
	ADDQ         R8, SI
	ADDQ         $4, DX
	DECQ         R10
	JNZ          row
	VZEROUPPER
	RET

// func dotExactAVX2(a, b *float32, blocks int, sums *[4]float64)
// blocks of 4 are multiplied in float64, sum i taking what lies at i modulo 4: the sums of dot32, in the same order. A
// product of two float32 is exact in float64, so that a fused addition rounds as one of its own does.
TEXT ·dotExactAVX2(SB), NOSPLIT, $0-32
	MOVQ  a+0(FP), SI
	MOVQ  b+8(FP), DI
	MOVQ  blocks+16(FP), CX
	MOVQ  sums+24(FP), DX
	VXORPD Y0, Y0, Y0

four:
	VCVTPS2PD   (SI), Y1
	VCVTPS2PD   (DI), Y2
	VFMADD231PD Y2, Y1, Y0
	ADDQ        $16, SI
	ADDQ        $16, DI
	DECQ        CX
	JNZ         four
	VMOVUPD     Y0, (DX)
	VZEROUPPER
	RET

// func fetchAhead(from *float32, lines int)
// Asks for so many lines of 64 bytes, at least one, that are read soon.
TEXT ·fetchAhead(SB), NOSPLIT, $0-16
	MOVQ from+0(FP), SI
	MOVQ lines+8(FP), CX

line:
	PREFETCHT0 (SI)
	ADDQ       $64, SI
	DECQ       CX
	JNZ        line
	RET

DATA halves<>+0(SB)/8, $0x0f0f0f0f0f0f0f0f
GLOBL halves<>(SB), RODATA|NOPTR, $8

// func sumsAVX2(tables, signs *byte, bytes int, out *[32]uint16)
// Each step looks up the two halves of one byte of 32 rows. Their sum fits a byte (tables); the sums of even rows add up
// in Y0, below what odd rows add there, which Y1 adds up alone and which is taken away in the end.
TEXT ·sumsAVX2(SB), NOSPLIT, $0-32
	MOVQ         tables+0(FP), SI
	MOVQ         signs+8(FP), DI
	MOVQ         bytes+16(FP), CX
	MOVQ         out+24(FP), DX
	VPBROADCASTQ halves<>(SB), Y7
	VPXOR        Y0, Y0, Y0
	VPXOR        Y1, Y1, Y1

step:
	PREFETCHT0     4096(DI)
	VMOVDQU        (DI), Y2
	VBROADCASTI128 (SI), Y3
	VBROADCASTI128 16(SI), Y4
	VPSRLW         $4, Y2, Y5
	VPAND          Y7, Y2, Y2
	VPAND          Y7, Y5, Y5
	VPSHUFB        Y2, Y3, Y3
	VPSHUFB        Y5, Y4, Y4
	VPADDB         Y3, Y4, Y4
	VPADDW         Y4, Y0, Y0
	VPSRLW         $8, Y4, Y4
	VPADDW         Y4, Y1, Y1
	ADDQ           $32, DI
	ADDQ           $32, SI
	DECQ           CX
	JNZ            step

	VPSLLW      $8, Y1, Y2
	VPSUBW      Y2, Y0, Y0         // even rows
	VPUNPCKLWD  Y1, Y0, Y2         // rows 0..7 and 16..23
	VPUNPCKHWD  Y1, Y0, Y3         // rows 8..15 and 24..31
	VPERM2I128  $0x20, Y3, Y2, Y4
	VPERM2I128  $0x31, Y3, Y2, Y5
	VMOVDQU     Y4, (DX)
	VMOVDQU     Y5, 32(DX)
	VZEROUPPER
	RET

// func columnSumsAVX2(tables *byte, offsets *uint32, levels *byte, pairs, groups int, out *[2][32]uint16,
//	ahead *uint32, aheads int)
// For each group of 64 rows a step looks up their levels in two dimensions. The sums of two fit a byte (columnTables);
// they are added up as sumsAVX2 does, those of the first 32 rows in Y0 and Y1, of the others in Y2 and Y3, and then to
// what the group has already. Stripes that are read next lie on other pages, and to find these takes long: what each
// begins with is asked for meanwhile, one stripe a group.
TEXT ·columnSumsAVX2(SB), NOSPLIT, $0-64
	MOVQ         ahead+48(FP), R11
	MOVQ         aheads+56(FP), R13
	MOVQ         levels+16(FP), BX
	MOVQ         levels+16(FP), R12
	MOVQ         groups+32(FP), R10
	MOVQ         out+40(FP), DX
	VPBROADCASTQ halves<>(SB), Y15

group:
	MOVQ  tables+0(FP), SI
	MOVQ  offsets+8(FP), DI
	MOVQ  pairs+24(FP), CX
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1
	VPXOR Y2, Y2, Y2
	VPXOR Y3, Y3, Y3

	TESTQ      R13, R13
	JZ         pair
	MOVL       (R11), R8
	PREFETCHT0 (R12)(R8*1)
	PREFETCHT0 64(R12)(R8*1)
	PREFETCHT0 128(R12)(R8*1)
	PREFETCHT0 192(R12)(R8*1)
	ADDQ       $4, R11
	DECQ       R13

pair:
	MOVL           (DI), R8
	MOVL           4(DI), R9
	VMOVDQU        (BX)(R8*1), Y6
	VMOVDQU        (BX)(R9*1), Y7
	PREFETCHT0     256(BX)(R8*1)
	PREFETCHT0     256(BX)(R9*1)
	VBROADCASTI128 (SI), Y4
	VBROADCASTI128 16(SI), Y5
	VPSRLW         $4, Y6, Y8
	VPSRLW         $4, Y7, Y9
	VPAND          Y15, Y6, Y6
	VPAND          Y15, Y7, Y7
	VPAND          Y15, Y8, Y8
	VPAND          Y15, Y9, Y9
	VPSHUFB        Y6, Y4, Y6
	VPSHUFB        Y7, Y5, Y7
	VPSHUFB        Y8, Y4, Y8
	VPSHUFB        Y9, Y5, Y9
	VPADDB         Y6, Y7, Y6
	VPADDB         Y8, Y9, Y8
	VPADDW         Y6, Y0, Y0
	VPADDW         Y8, Y2, Y2
	VPSRLW         $8, Y6, Y6
	VPSRLW         $8, Y8, Y8
	VPADDW         Y6, Y1, Y1
	VPADDW         Y8, Y3, Y3
	ADDQ           $8, DI
	ADDQ           $32, SI
	DECQ           CX
	JNZ            pair

	VPSLLW     $8, Y1, Y6
	VPSUBW     Y6, Y0, Y0        // even rows
	VPSLLW     $8, Y3, Y6
	VPSUBW     Y6, Y2, Y2
	VPUNPCKLWD Y1, Y0, Y6        // rows 0..7 and 16..23
	VPUNPCKHWD Y1, Y0, Y7        // rows 8..15 and 24..31
	VPERM2I128 $0x20, Y7, Y6, Y8
	VPERM2I128 $0x31, Y7, Y6, Y9
	VPADDW     (DX), Y8, Y8
	VPADDW     32(DX), Y9, Y9
	VMOVDQU    Y8, (DX)
	VMOVDQU    Y9, 32(DX)
	VPUNPCKLWD Y3, Y2, Y6
	VPUNPCKHWD Y3, Y2, Y7
	VPERM2I128 $0x20, Y7, Y6, Y8
	VPERM2I128 $0x31, Y7, Y6, Y9
	VPADDW     64(DX), Y8, Y8
	VPADDW     96(DX), Y9, Y9
	VMOVDQU    Y8, 64(DX)
	VMOVDQU    Y9, 96(DX)
	ADDQ       $32, BX
	ADDQ       $128, DX
	DECQ       R10
	JNZ        group
	VZEROUPPER
	RET

// func overAVX2(sums *[32]uint16, factors *float32, step, least, floor float32) uint32
// Eight rows at once: factor * (step * sum + least), rounded after each operation as in Go, and compared so that what is
// not a number is kept (not less than).
TEXT ·overAVX2(SB), NOSPLIT, $0-36
	MOVQ         sums+0(FP), SI
	MOVQ         factors+8(FP), DI
	VBROADCASTSS step+16(FP), Y5
	VBROADCASTSS least+20(FP), Y6
	VBROADCASTSS floor+24(FP), Y7

	VPMOVZXWD (SI), Y0
	VPMOVZXWD 16(SI), Y1
	VPMOVZXWD 32(SI), Y2
	VPMOVZXWD 48(SI), Y3
	VCVTDQ2PS Y0, Y0
	VCVTDQ2PS Y1, Y1
	VCVTDQ2PS Y2, Y2
	VCVTDQ2PS Y3, Y3
	VMULPS    Y5, Y0, Y0
	VMULPS    Y5, Y1, Y1
	VMULPS    Y5, Y2, Y2
	VMULPS    Y5, Y3, Y3
	VADDPS    Y6, Y0, Y0
	VADDPS    Y6, Y1, Y1
	VADDPS    Y6, Y2, Y2
	VADDPS    Y6, Y3, Y3
	VMULPS    (DI), Y0, Y0
	VMULPS    32(DI), Y1, Y1
	VMULPS    64(DI), Y2, Y2
	VMULPS    96(DI), Y3, Y3
	VCMPPS    $5, Y7, Y0, Y0
	VCMPPS    $5, Y7, Y1, Y1
	VCMPPS    $5, Y7, Y2, Y2
	VCMPPS    $5, Y7, Y3, Y3
	VMOVMSKPS Y0, AX
	VMOVMSKPS Y1, BX
	VMOVMSKPS Y2, CX
	VMOVMSKPS Y3, DX
	SHLL      $8, BX
	SHLL      $16, CX
	SHLL      $24, DX
	ORL       BX, AX
	ORL       CX, AX
	ORL       DX, AX
	MOVL      AX, ret+32(FP)
	VZEROUPPER
	RET
