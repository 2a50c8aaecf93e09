// Scores of attention: void llm_esp32s3_scores(int32_t *out, const int8_t *q, const int8_t *k, uint32_t n, uint32_t stride,
// uint32_t n_blocks). The query stays in q0 to q3; keys pass through q4 and q5.
#include "../sets.h"
#if LLM_KERNELS_ESP32S3

// What ends a position; addi fills the wait for the sum.
    .macro store
    addi a2, a2, 4
    ee.srs.accx a8, a9, 0
    s32i a8, a2, 0
    .endm

    .text
    .align 4
    .global llm_esp32s3_scores
    .type llm_esp32s3_scores, @function
llm_esp32s3_scores:
    entry a1, 64
    movi a9, 0
    addi a2, a2, -4
    // a6 becomes the step from the last block of a position to the first of the next.
    addi a8, a7, -1
    slli a8, a8, 4
    sub a6, a6, a8
    ee.vld.128.ip q0, a3, 16
    addi a7, a7, -2
    bltz a7, .Lone
    ee.vld.128.ip q1, a3, 16
    beqz a7, .Ltwo
    ee.vld.128.ip q2, a3, 16
    addi a7, a7, -1
    beqz a7, .Lthree
    ee.vld.128.ip q3, a3, 16

    loop a5, 1f
    ee.vld.128.ip q4, a4, 16
    ee.vld.128.ip q5, a4, 16
    ee.zero.accx
    ee.vmulas.s8.accx.ld.ip q4, a4, 16, q4, q0
    ee.vmulas.s8.accx.ld.xp q5, a4, a6, q5, q1
    ee.vmulas.s8.accx q4, q2
    ee.vmulas.s8.accx q5, q3
    store
1:
    retw

.Lthree:
    loop a5, 2f
    ee.vld.128.ip q4, a4, 16
    ee.vld.128.ip q5, a4, 16
    ee.zero.accx
    ee.vmulas.s8.accx.ld.xp q4, a4, a6, q4, q0
    ee.vmulas.s8.accx q5, q1
    ee.vmulas.s8.accx q4, q2
    store
2:
    retw

.Ltwo:
    loop a5, 3f
    ee.vld.128.ip q4, a4, 16
    ee.vld.128.xp q5, a4, a6
    ee.zero.accx
    ee.vmulas.s8.accx q4, q0
    ee.vmulas.s8.accx q5, q1
    store
3:
    retw

.Lone:
    loop a5, 4f
    ee.vld.128.xp q4, a4, a6
    ee.zero.accx
    ee.vmulas.s8.accx q4, q0
    store
4:
    retw
    .size llm_esp32s3_scores, . - llm_esp32s3_scores
#endif
