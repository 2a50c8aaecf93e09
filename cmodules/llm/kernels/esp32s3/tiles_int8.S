// An int8 matrix times vectors: void llm_esp32s3_tiles_int8(const llm_esp32s3_matmul_t *m).
//
// A dot product of 32 needs 21 bits, too many for the 16-bit lanes of tiles_int4.S, so a scale is applied with the multiplier of the
// base set: eight instructions a row and group and three more a group. Sums wrap in 32 bits as ref's do. Each tile serves all vectors
// before the next is read.
#include "../sets.h"
#if LLM_KERNELS_ESP32S3

// The frame: variables alone.
#define TILES_LEFT 0
#define DATA 4
#define SCALES 8
#define LEFT 12
#define CODES 16
#define X_SCALES 20
#define Y 24
#define FRAME 80

// One row: q2 and q3 hold its bytes and then the next row's. What is added to a sum is the product of the row before.
    .macro row offset before
    ee.vmulas.s8.accx.ld.ip q2, a3, 16, q2, q0
    add \before, \before, a14
    ee.vmulas.s8.accx.ld.ip q3, a3, 16, q3, q1
    l8ui a15, a4, \offset
    ee.srs.accx a14, a8, 0
    ee.zero.accx
    sext a15, a15, 7
    mull a14, a14, a15
    .endm

    .text
    .align 4
    .global llm_esp32s3_tiles_int8
    .type llm_esp32s3_tiles_int8, @function
llm_esp32s3_tiles_int8:
    entry a1, FRAME
    l32i a3, a2, 4      // data
    l32i a4, a2, 8      // scales
    l32i a5, a2, 12     // row_scales
    l32i a6, a2, 0      // y
    l32i a7, a2, 24     // n_groups
    l32i a15, a2, 28
    movi a8, 0
    s32i a15, a1, TILES_LEFT
    ee.zero.accx

.Ltile:
    l32i a15, a2, 32
    l32i a9, a2, 16     // codes
    l32i a14, a2, 20    // x_scales
    s32i a3, a1, DATA
    s32i a4, a1, SCALES
    s32i a6, a1, Y
    s32i a15, a1, LEFT

.Lvector:
    s32i a9, a1, CODES
    lsi f0, a14, 0
    ee.vld.128.ip q2, a3, 16
    ee.vld.128.ip q0, a9, 16
    ee.vld.128.ip q3, a3, 16
    ee.vld.128.ip q1, a9, 16
    addi a14, a14, 4
    s32i a14, a1, X_SCALES
    movi a10, 0         // sums of the four rows
    movi a11, 0
    movi a12, 0
    movi a13, 0
    movi a14, 0
    addi a15, a7, -1
    loopnez a15, 1f
    row 0 a13
    row 1 a10
    row 2 a11
    ee.vmulas.s8.accx.ld.ip q2, a3, 16, q2, q0
    add a12, a12, a14
    ee.vmulas.s8.accx.ld.ip q3, a3, 16, q3, q1
    ee.vld.128.ip q0, a9, 16
    ee.vld.128.ip q1, a9, 16
    l8ui a15, a4, 3
    ee.srs.accx a14, a8, 0
    ee.zero.accx
    sext a15, a15, 7
    mull a14, a14, a15
    addi a4, a4, 4
1:
    // The last group, which loads nothing beyond it.
    row 0 a13
    row 1 a10
    row 2 a11
    ee.vmulas.s8.accx q2, q0
    add a12, a12, a14
    ee.vmulas.s8.accx q3, q1
    l8ui a15, a4, 3
    ee.srs.accx a14, a8, 0
    ee.zero.accx
    sext a15, a15, 7
    mull a14, a14, a15

    float.s f1, a10, 0
    float.s f2, a11, 0
    float.s f3, a12, 0
    add a13, a13, a14
    float.s f4, a13, 0
    lsi f5, a5, 0
    lsi f6, a5, 4
    lsi f7, a5, 8
    lsi f8, a5, 12
    mul.s f5, f5, f0
    mul.s f6, f6, f0
    mul.s f7, f7, f0
    mul.s f8, f8, f0
    mul.s f1, f1, f5
    mul.s f2, f2, f6
    mul.s f3, f3, f7
    mul.s f4, f4, f8
    ssi f1, a6, 0
    ssi f2, a6, 4
    ssi f3, a6, 8
    ssi f4, a6, 12

    // The next vector.
    l32i a15, a1, LEFT
    l32i a9, a1, CODES
    l32i a14, a1, X_SCALES
    l32i a13, a2, 36
    l32i a12, a2, 40
    addi a15, a15, -1
    beqz a15, 2f
    l32i a3, a1, DATA
    l32i a4, a1, SCALES
    s32i a15, a1, LEFT
    add a9, a9, a13
    add a6, a6, a12
    j .Lvector
2:
    // The next tile.
    l32i a6, a1, Y
    l32i a15, a1, TILES_LEFT
    addi a4, a4, 4
    addi a6, a6, 16
    addi a5, a5, 16
    addi a15, a15, -1
    s32i a15, a1, TILES_LEFT
    bnez a15, .Ltile
    retw
    .size llm_esp32s3_tiles_int8, . - llm_esp32s3_tiles_int8
#endif
