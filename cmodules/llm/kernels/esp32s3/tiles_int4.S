// An int4 matrix times one vector: void llm_esp32s3_tiles_int4(const llm_esp32s3_matmul_t *m).
//
// Two tiles go together; an odd last one with the one before, which is then computed again, or with itself. Their groups are
// taken in chunks of at most 24, each in two passes:
//   1. A dot product of 32 for each group and row, through ACCX, stored as 16 bits (at most 32 * 8 * 127 in magnitude). The
//      multiplication by 16 that keeps 8 bits leaves 16 times the low nibbles, 0xF0 leaves 16 times the high ones; the shift by 4
//      of srs.accx takes the 16 back. Seven instructions a row and group, every load in a slot of one that works.
//   2. The dot products times their scales, the four rows of both tiles at once, into QACC. Scales are interleaved with zeros to 256
//      times their value: no sign to extend, and the 32 bits of a sum begin at bit 8 of its lane. 512 groups of extreme values
//      stay below 2^39.
// A tile's scales begin anywhere in a vector of 16, so its dot products are stored as far from the beginning of theirs, and the other
// scales in those vectors meet zeros. The tiles may span different numbers of vectors of scales: then the first tile has one more
// behind it, which is the second's, or the second one more before it, which is the first's. None is read that holds no scale.
#include "../sets.h"
#if LLM_KERNELS_ESP32S3

// The frame: dot products [28 groups][2 tiles][4 rows] and what is loaded ahead, then variables.
#define CODES 480
#define SECOND_LINE 484
#define LEFT 488
#define Y 492
#define ROW_SCALES 496
#define SECOND 500
#define FRAME 560

// One row. In: q3 and q4 the row's low and high nibbles, q2 the next row's bytes. Out: the same of the next row. `from` is the
// tile of the row after that.
    .macro row from to offset
    ee.vmulas.s8.accx q4, q1
    ee.vmulas.s8.accx q3, q0
    ee.andq q4, q2, q6
    ee.vmul.s8.ld.incp q2, \from, q3, q2, q7
    ee.srs.accx a2, a15, 0
    ee.zero.accx
    s16i a2, \to, \offset
    .endm

    .text
    .align 4
    .global llm_esp32s3_tiles_int4
    .type llm_esp32s3_tiles_int4, @function
llm_esp32s3_tiles_int4:
    entry a1, FRAME

    // q5 = 0, q6 = 16 x 0xF0, q7 = 16 x 16; f0 = x_scale.
    movi a8, -16
    s8i a8, a1, 0
    movi a9, 16
    s8i a9, a1, 1
    addi a10, a1, 1
    ee.vldbc.8 q6, a1
    ee.vldbc.8 q7, a10
    ee.zero.q q5
    l32i a10, a2, 20
    l32i a11, a2, 16    // codes
    l32i a12, a2, 0     // y
    lsi f0, a10, 0
    l32i a13, a2, 12    // row_scales
    addi a11, a11, 16   // the high half of a group is loaded first
    l32i a14, a2, 28    // n_tiles
    l32i a7, a2, 24     // n_groups
    l32i a3, a2, 4      // data of the first tile
    l32i a5, a2, 8      // its scales
    s32i a11, a1, CODES
    s32i a12, a1, Y
    s32i a13, a1, ROW_SCALES
    s32i a14, a1, LEFT
    // From the first tile to the second: a8 groups, SECOND bytes of results and of row scales.
    mov a8, a7
    addi a14, a14, -1
    bnez a14, 1f
    movi a8, 0
    movi a9, 0
1:
    s32i a9, a1, SECOND
    ee.zero.accx

.Lpair:
    l32i a10, a1, CODES
    slli a4, a8, 6
    add a4, a4, a3      // data of the second tile
    addx4 a6, a8, a5    // its scales
    mov a14, a7         // groups left
    ssai 0
    ee.zero.qacc

.Lchunk:
    movi a12, 24
    minu a12, a12, a14  // groups in this chunk
    sub a14, a14, a12
    ee.vld.128.ip q2, a3, 16
    ee.vld.128.ip q1, a10, -16
    ee.vld.128.ip q0, a10, 48
    // Groups before the first in its vector of scales, and how many vectors there are: of the tiles, then the larger.
    extui a11, a5, 2, 2
    extui a13, a6, 2, 2
    add a9, a11, a12
    add a15, a13, a12
    addi a9, a9, 3
    addi a15, a15, 3
    srli a9, a9, 2
    srli a15, a15, 2
    maxu a9, a9, a15
    // The first dot product of each tile; a vector of scales more before the second tile's if it has less of them.
    sub a15, a9, a15
    slli a11, a11, 4
    addx4 a13, a15, a13
    add a11, a11, a1
    slli a13, a13, 4
    add a13, a13, a1
    srli a2, a6, 4
    sub a2, a2, a15
    slli a2, a2, 4
    s32i a2, a1, SECOND_LINE
    // Zeros, unless each vector of scales is whole.
    extui a2, a5, 2, 2
    or a2, a2, a7
    extui a2, a2, 0, 2
    beqz a2, 2f
    mov a2, a1
    loop a9, 2f
    ee.vst.128.ip q5, a2, 16
    ee.vst.128.ip q5, a2, 16
    ee.vst.128.ip q5, a2, 16
    ee.vst.128.ip q5, a2, 16
2:
    movi a15, 4
    ee.andq q4, q2, q6
    ee.vmul.s8.ld.incp q2, a3, q3, q2, q7
    addi a2, a12, -1
    loopnez a2, 3f
    row a3 a11 0
    row a3 a11 2
    row a4 a11 4
    row a4 a11 6
    row a4 a13 8
    row a4 a13 10
    row a3 a13 12
    ee.vmulas.s8.accx.ld.ip q1, a10, -16, q4, q1
    ee.vmulas.s8.accx.ld.ip q0, a10, 48, q3, q0
    ee.andq q4, q2, q6
    ee.vmul.s8.ld.incp q2, a3, q3, q2, q7
    ee.srs.accx a2, a15, 0
    ee.zero.accx
    s16i a2, a13, 14
    addi a11, a11, 16
    addi a13, a13, 16
3:
    // The last group, which loads nothing beyond it.
    row a3 a11 0
    row a3 a11 2
    row a4 a11 4
    row a4 a11 6
    row a4 a13 8
    row a4 a13 10
    ee.vmulas.s8.accx q4, q1
    ee.vmulas.s8.accx q3, q0
    ee.andq q4, q2, q6
    ee.vmul.s8 q3, q2, q7
    ee.srs.accx a2, a15, 0
    ee.zero.accx
    s16i a2, a13, 12
    ee.vmulas.s8.accx q4, q1
    ee.vmulas.s8.accx q3, q0
    mov a11, a1
    ee.srs.accx a2, a15, 0
    ee.zero.accx
    s16i a2, a13, 14

    // The second pass.
    l32i a15, a1, SECOND_LINE
    srli a2, a5, 4
    slli a2, a2, 4
    addx4 a5, a12, a5   // the next chunk's scales
    addx4 a6, a12, a6
    ee.vld.128.ip q0, a11, 16
    ee.vld.128.ip q1, a11, 16
    loop a9, 4f
    ee.vld.128.ip q2, a2, 16
    ee.vld.128.ip q3, a15, 16
    ee.zero.q q4
    ee.vzip.32 q2, q3
    ee.vzip.8 q4, q2
    ee.vmulas.s16.qacc.ld.ip q0, a11, 16, q0, q4
    ee.vmulas.s16.qacc.ld.ip q1, a11, 16, q1, q2
    ee.zero.q q4
    ee.vzip.8 q4, q3
    ee.vmulas.s16.qacc.ld.ip q0, a11, 16, q0, q4
    ee.vmulas.s16.qacc.ld.ip q1, a11, 16, q1, q3
4:
    bnez a14, .Lchunk

    // The rows' scales; then their sums, bits 8 to 39 of lanes of 40 bits, the first tile's in QACC_L.
    l32i a2, a1, ROW_SCALES
    l32i a9, a1, SECOND
    l32i a14, a1, Y
    add a15, a2, a9
    lsi f1, a2, 0
    lsi f2, a2, 4
    lsi f3, a2, 8
    lsi f4, a2, 12
    lsi f5, a15, 0
    lsi f6, a15, 4
    lsi f7, a15, 8
    lsi f8, a15, 12
    mul.s f1, f1, f0
    mul.s f2, f2, f0
    mul.s f3, f3, f0
    mul.s f4, f4, f0
    mul.s f5, f5, f0
    mul.s f6, f6, f0
    mul.s f7, f7, f0
    mul.s f8, f8, f0
    add a15, a14, a9
    rur.qacc_l_0 a10
    rur.qacc_l_1 a11
    rur.qacc_h_0 a12
    rur.qacc_h_1 a13
    ssai 8
    src a10, a11, a10
    src a12, a13, a12
    float.s f9, a10, 0
    float.s f13, a12, 0
    rur.qacc_l_2 a10
    rur.qacc_h_2 a12
    ssai 16
    src a11, a10, a11
    src a13, a12, a13
    float.s f10, a11, 0
    float.s f14, a13, 0
    mul.s f1, f1, f9
    rur.qacc_l_3 a11
    rur.qacc_h_3 a13
    ssai 24
    src a10, a11, a10
    src a12, a13, a12
    float.s f11, a10, 0
    float.s f15, a12, 0
    rur.qacc_l_4 a10
    rur.qacc_h_4 a12
    mul.s f2, f2, f10
    float.s f12, a10, 0
    float.s f9, a12, 0
    mul.s f3, f3, f11
    ssi f1, a14, 0
    mul.s f5, f5, f13
    mul.s f4, f4, f12
    mul.s f6, f6, f14
    mul.s f7, f7, f15
    mul.s f8, f8, f9
    ssi f2, a14, 4
    ssi f3, a14, 8
    ssi f4, a14, 12
    ssi f5, a15, 0
    ssi f6, a15, 4
    ssi f7, a15, 8
    ssi f8, a15, 12

    // The next two tiles.
    l32i a9, a1, LEFT
    mov a3, a4
    mov a5, a6
    addi a9, a9, -2
    beqz a9, 6f
    bltz a9, 6f
    addi a2, a2, 32
    addi a14, a14, 32
    addi a10, a9, -1
    bnez a10, 5f
    // One is left: back to the one before it.
    slli a10, a7, 6
    sub a3, a3, a10
    slli a10, a7, 2
    sub a5, a5, a10
    addi a2, a2, -16
    addi a14, a14, -16
5:
    s32i a9, a1, LEFT
    s32i a2, a1, ROW_SCALES
    s32i a14, a1, Y
    j .Lpair
6:
    retw
    .size llm_esp32s3_tiles_int4, . - llm_esp32s3_tiles_int4
#endif
