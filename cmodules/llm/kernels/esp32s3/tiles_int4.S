// An int4 matrix times one vector: void llm_esp32s3_tiles_int4(const llm_esp32s3_matmul_t *m).
//
// A tile's groups are taken in chunks of at most 32, each in two passes:
//   1. A dot product of 32 for each group and row, through ACCX, stored as 16 bits (at most 32 * 8 * 127 in magnitude). The
//      multiplication by 16 that keeps 8 bits leaves 16 times the low nibbles, 0xF0 leaves 16 times the high ones; the shift by 4
//      of srs.accx takes the 16 back. Seven instructions a row and group, every load in a slot of one that works.
//   2. The dot products times their scales, eight at once, into QACC. Scales are interleaved with zeros to 256 times their value:
//      no sign to extend, and the 32 bits of a sum begin at bit 8 of its lane. 512 groups of extreme values stay below 2^39.
// A tile's scales begin anywhere in a vector of 16, so the dot products are stored as far from the beginning of theirs: only vectors
// that hold a scale of the tile are read, and the other tiles' scales in them meet zeros.
#include "../sets.h"
#if LLM_KERNELS_ESP32S3

// One row. In: q3 and q4 the row's low and high nibbles, q2 the next row's bytes. Out: the same of the next row.
    .macro row offset
    ee.vmulas.s8.accx q4, q1
    ee.vmulas.s8.accx q3, q0
    ee.andq q4, q2, q6
    ee.vmul.s8.ld.incp q2, a3, q3, q2, q7
    ee.srs.accx a13, a15, 0
    ee.zero.accx
    s16i a13, a11, \offset
    .endm

    .text
    .align 4
    .global llm_esp32s3_tiles_int4
    .type llm_esp32s3_tiles_int4, @function
llm_esp32s3_tiles_int4:
    // 320 bytes of dot products: 35 groups, the rest of the last vector of scales, and what is loaded ahead.
    entry a1, 368

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
    lsi f0, a10, 0
    l32i a3, a2, 4      // data
    l32i a4, a2, 8      // scales
    l32i a5, a2, 12     // row_scales
    l32i a6, a2, 0      // y
    l32i a7, a2, 24     // n_groups
    l32i a8, a2, 28     // tiles left
    l32i a9, a2, 16     // codes
    movi a15, 4
    ee.zero.accx

.Ltile:
    addi a10, a9, 16    // codes, 16 ahead: the high half of a group is loaded first
    mov a14, a7         // groups left
    ssai 0
    ee.zero.qacc

.Lchunk:
    movi a12, 32
    minu a12, a12, a14  // groups in this chunk
    sub a14, a14, a12
    ee.vld.128.ip q2, a3, 16
    ee.vld.128.ip q1, a10, -16
    ee.vld.128.ip q0, a10, 48
    extui a13, a4, 2, 2 // groups before the first in its vector of scales
    addx8 a11, a13, a1  // dot products
    add a2, a13, a12
    addi a2, a2, 3
    srli a2, a2, 2      // vectors of scales
    // Zeros before the first dot product and after the last.
    mov a13, a1
    ee.vst.128.ip q5, a13, 16
    ee.vst.128.ip q5, a13, 0
    slli a13, a2, 5
    add a13, a13, a1
    addi a13, a13, -32
    ee.vst.128.ip q5, a13, 16
    ee.vst.128.ip q5, a13, 0
    ee.andq q4, q2, q6
    ee.vmul.s8.ld.incp q2, a3, q3, q2, q7

    addi a13, a12, -1
    loopnez a13, 1f
    row 0
    row 2
    row 4
    ee.vmulas.s8.accx.ld.ip q1, a10, -16, q4, q1
    ee.vmulas.s8.accx.ld.ip q0, a10, 48, q3, q0
    ee.andq q4, q2, q6
    ee.vmul.s8.ld.incp q2, a3, q3, q2, q7
    ee.srs.accx a13, a15, 0
    ee.zero.accx
    s16i a13, a11, 6
    addi a11, a11, 8
1:
    // The last group, which loads nothing ahead.
    row 0
    row 2
    ee.vmulas.s8.accx q4, q1
    ee.vmulas.s8.accx q3, q0
    ee.andq q4, q2, q6
    ee.vmul.s8 q3, q2, q7
    ee.srs.accx a13, a15, 0
    ee.zero.accx
    s16i a13, a11, 4
    ee.vmulas.s8.accx q4, q1
    ee.vmulas.s8.accx q3, q0
    srli a13, a4, 4
    slli a13, a13, 4    // the first vector of scales
    addx4 a4, a12, a4   // the next chunk's scales
    ee.srs.accx a12, a15, 0
    ee.zero.accx
    s16i a12, a11, 6

    // The second pass.
    mov a11, a1
    ee.vld.128.ip q0, a11, 16
    ee.vld.128.ip q1, a11, 16
    loop a2, 2f
    ee.vld.128.ip q2, a13, 16
    ee.zero.q q3
    ee.vzip.8 q3, q2
    ee.vmulas.s16.qacc.ld.ip q0, a11, 16, q0, q3
    ee.vmulas.s16.qacc.ld.ip q1, a11, 16, q1, q2
2:
    bnez a14, .Lchunk

    // A row's sum is bits 8 to 39 of two lanes of 40 bits, even groups in QACC_L and odd ones in QACC_H.
    lsi f5, a5, 0
    lsi f6, a5, 4
    lsi f7, a5, 8
    lsi f8, a5, 12
    mul.s f5, f5, f0
    mul.s f6, f6, f0
    mul.s f7, f7, f0
    mul.s f8, f8, f0
    rur.qacc_l_0 a10
    rur.qacc_l_1 a11
    rur.qacc_h_0 a12
    rur.qacc_h_1 a13
    ssai 8
    src a10, a11, a10
    src a12, a13, a12
    add a10, a10, a12
    float.s f1, a10, 0
    rur.qacc_l_2 a10
    rur.qacc_h_2 a12
    ssai 16
    src a11, a10, a11
    src a13, a12, a13
    add a11, a11, a13
    float.s f2, a11, 0
    rur.qacc_l_3 a11
    rur.qacc_h_3 a13
    ssai 24
    src a10, a11, a10
    src a12, a13, a12
    add a10, a10, a12
    float.s f3, a10, 0
    rur.qacc_l_4 a11
    rur.qacc_h_4 a13
    mul.s f1, f1, f5
    mul.s f2, f2, f6
    add a11, a11, a13
    float.s f4, a11, 0
    addi a5, a5, 16
    mul.s f3, f3, f7
    ssi f1, a6, 0
    mul.s f4, f4, f8
    ssi f2, a6, 4
    ssi f3, a6, 8
    addi a8, a8, -1
    ssi f4, a6, 12
    addi a6, a6, 16
    bnez a8, .Ltile
    retw
    .size llm_esp32s3_tiles_int4, . - llm_esp32s3_tiles_int4
#endif
