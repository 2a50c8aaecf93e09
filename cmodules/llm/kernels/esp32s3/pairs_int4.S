// An int4 matrix times pairs of vectors: void llm_esp32s3_pairs_int4(const llm_esp32s3_matmul_t *m).
//
// The two passes of tiles_int4.S, with what a pair can share: a row's nibbles are separated once, and the lanes of the second pass are
// the four rows of one vector and the four of the other, so that QACC_L ends as the sums of one and QACC_H as those of the other.
// Chunks are of 24 groups at most. Each tile serves all pairs before the next is read.
#include "../sets.h"
#if LLM_KERNELS_ESP32S3

// The frame: 16 bytes for a store before the first, dot products [27 groups][2 vectors][4 rows], their last vector's rest and what is
// loaded ahead, then variables.
#define DOTS 16
#define TILES_LEFT 528
#define DATA 532
#define SCALES 536
#define PAIRS_LEFT 540
#define CODES 544
#define X_SCALES 548
#define Y 552
#define FRAME 608

// One row of both vectors; what is stored first is the dot product before these. Between the rows a10 is 16 bytes into the first
// vector's group: the high half is loaded first, then the low one. a9 goes on to the second vector's, a8 back.
    .macro first offset
    ee.vmulas.s8.accx.ld.ip q1, a10, -16, q4, q1
    ee.vmulas.s8.accx.ld.xp q0, a10, a8, q3, q0
    s16i a13, a11, \offset
    ee.srs.accx a13, a15, 0
    ee.zero.accx
    .endm

    .macro second offset
    ee.vmulas.s8.accx.ld.ip q1, a10, -16, q4, q1
    ee.vmulas.s8.accx.ld.xp q0, a10, a9, q3, q0
    s16i a13, a11, \offset
    ee.andq q4, q2, q6
    ee.vmul.s8.ld.incp q2, a3, q3, q2, q7
    ee.srs.accx a13, a15, 0
    ee.zero.accx
    .endm

    .text
    .align 4
    .global llm_esp32s3_pairs_int4
    .type llm_esp32s3_pairs_int4, @function
llm_esp32s3_pairs_int4:
    entry a1, FRAME

    // q5 = 0, q6 = 16 x 0xF0, q7 = 16 x 16.
    movi a8, -16
    s8i a8, a1, 0
    movi a9, 16
    s8i a9, a1, 1
    addi a10, a1, 1
    ee.vldbc.8 q6, a1
    ee.vldbc.8 q7, a10
    ee.zero.q q5
    ee.vst.128.ip q5, a1, 0

    l32i a3, a2, 4      // data
    l32i a4, a2, 8      // scales
    l32i a5, a2, 12     // row_scales
    l32i a6, a2, 0      // y of the first vector
    l32i a7, a2, 24     // n_groups
    l32i a8, a2, 36     // stride
    l32i a13, a2, 28
    addi a9, a8, 16
    neg a8, a8
    addi a8, a8, 16
    s32i a13, a1, TILES_LEFT
    movi a15, 4
    ee.zero.accx

.Ltile:
    l32i a10, a2, 16
    l32i a13, a2, 20
    l32i a14, a2, 32
    s32i a3, a1, DATA
    s32i a4, a1, SCALES
    s32i a13, a1, X_SCALES
    s32i a14, a1, PAIRS_LEFT
    s32i a6, a1, Y

.Lpair:
    s32i a10, a1, CODES
    addi a10, a10, 16
    mov a14, a7         // groups left
    ssai 0
    ee.zero.qacc

.Lchunk:
    movi a12, 24
    minu a12, a12, a14  // groups in this chunk
    sub a14, a14, a12
    ee.vld.128.ip q2, a3, 16
    ee.vld.128.ip q1, a10, -16
    ee.vld.128.xp q0, a10, a9
    // Zeros before the first dot product and after the last, as the scales lie in their vectors.
    addi a11, a1, DOTS
    ee.vst.128.ip q5, a11, 16
    ee.vst.128.ip q5, a11, 16
    ee.vst.128.ip q5, a11, 0
    extui a13, a4, 2, 2
    add a11, a13, a12
    addi a11, a11, 3
    srli a11, a11, 2    // vectors of scales
    slli a13, a13, 4
    slli a11, a11, 6
    add a11, a11, a1
    addi a11, a11, DOTS - 48
    ee.vst.128.ip q5, a11, 16
    ee.vst.128.ip q5, a11, 16
    ee.vst.128.ip q5, a11, 0
    add a11, a13, a1    // 16 before the first dot product
    movi a13, 0         // stored before it

    ee.andq q4, q2, q6
    ee.vmul.s8.ld.incp q2, a3, q3, q2, q7
    addi a12, a12, -1
    loopnez a12, 1f
    first 14
    addi a11, a11, 16
    second 0
    first 8
    second 2
    first 10
    second 4
    first 12
    addi a10, a10, 32
    second 6
1:
    // The last group, which loads nothing beyond it.
    first 14
    addi a11, a11, 16
    second 0
    first 8
    second 2
    first 10
    ee.vmulas.s8.accx.ld.ip q1, a10, -16, q4, q1
    ee.vmulas.s8.accx.ld.xp q0, a10, a9, q3, q0
    s16i a13, a11, 4
    ee.andq q4, q2, q6
    ee.vmul.s8 q3, q2, q7
    ee.srs.accx a13, a15, 0
    ee.zero.accx
    first 12
    ee.vmulas.s8.accx q4, q1
    ee.vmulas.s8.accx q3, q0
    s16i a13, a11, 6
    addi a12, a12, 1
    ee.srs.accx a13, a15, 0
    ee.zero.accx
    s16i a13, a11, 14

    // The second pass: each scale of a group for both vectors.
    addi a10, a10, 32   // the next chunk's codes
    extui a13, a4, 2, 2
    add a13, a13, a12
    addi a13, a13, 3
    srli a13, a13, 2    // vectors of scales
    addx4 a12, a12, a4  // the next chunk's scales
    srli a4, a4, 4
    slli a4, a4, 4      // the first vector of scales
    addi a11, a1, DOTS
    ee.vld.128.ip q0, a11, 16
    ee.vld.128.ip q1, a11, 16
    loop a13, 2f
    ee.vld.128.ip q2, a4, 16
    ee.zero.q q4
    ee.orq q3, q2, q2
    ee.vzip.32 q2, q3
    ee.vzip.8 q4, q2
    ee.vmulas.s16.qacc.ld.ip q0, a11, 16, q0, q4
    ee.vmulas.s16.qacc.ld.ip q1, a11, 16, q1, q2
    ee.zero.q q4
    ee.vzip.8 q4, q3
    ee.vmulas.s16.qacc.ld.ip q0, a11, 16, q0, q4
    ee.vmulas.s16.qacc.ld.ip q1, a11, 16, q1, q3
2:
    mov a4, a12
    bnez a14, .Lchunk

    // A row's sum is bits 8 to 39 of a lane of 40 bits.
    l32i a14, a1, X_SCALES
    lsi f1, a5, 0
    lsi f9, a14, 0
    lsi f10, a14, 4
    lsi f2, a5, 4
    lsi f3, a5, 8
    lsi f4, a5, 12
    addi a14, a14, 8
    mul.s f5, f1, f9
    mul.s f1, f1, f10
    mul.s f6, f2, f9
    mul.s f2, f2, f10
    mul.s f7, f3, f9
    mul.s f3, f3, f10
    mul.s f8, f4, f9
    mul.s f4, f4, f10
    rur.qacc_l_0 a10
    rur.qacc_l_1 a11
    rur.qacc_h_0 a12
    rur.qacc_h_1 a13
    ssai 8
    src a10, a11, a10
    src a12, a13, a12
    float.s f11, a10, 0
    float.s f15, a12, 0
    rur.qacc_l_2 a10
    rur.qacc_h_2 a12
    ssai 16
    src a11, a10, a11
    src a13, a12, a13
    float.s f12, a11, 0
    float.s f0, a13, 0
    rur.qacc_l_3 a11
    rur.qacc_h_3 a13
    ssai 24
    src a10, a11, a10
    src a12, a13, a12
    float.s f13, a10, 0
    float.s f9, a12, 0
    rur.qacc_l_4 a10
    rur.qacc_h_4 a12
    mul.s f5, f5, f11
    float.s f14, a10, 0
    float.s f10, a12, 0
    mul.s f6, f6, f12
    mul.s f7, f7, f13
    l32i a12, a2, 40
    mul.s f8, f8, f14
    ssi f5, a6, 0
    ssi f6, a6, 4
    ssi f7, a6, 8
    mul.s f1, f1, f15
    ssi f8, a6, 12
    mul.s f2, f2, f0
    add a6, a6, a12
    mul.s f3, f3, f9
    mul.s f4, f4, f10
    ssi f1, a6, 0
    ssi f2, a6, 4
    ssi f3, a6, 8
    ssi f4, a6, 12
    add a6, a6, a12

    // The next pair.
    l32i a13, a1, PAIRS_LEFT
    l32i a10, a1, CODES
    l32i a12, a2, 36
    addi a13, a13, -1
    beqz a13, 3f
    l32i a3, a1, DATA
    l32i a4, a1, SCALES
    s32i a13, a1, PAIRS_LEFT
    s32i a14, a1, X_SCALES
    addx2 a10, a12, a10
    j .Lpair
3:
    // The next tile.
    l32i a6, a1, Y
    l32i a13, a1, TILES_LEFT
    addi a6, a6, 16
    addi a5, a5, 16
    addi a13, a13, -1
    s32i a13, a1, TILES_LEFT
    bnez a13, .Ltile
    retw
    .size llm_esp32s3_pairs_int4, . - llm_esp32s3_pairs_int4
#endif
