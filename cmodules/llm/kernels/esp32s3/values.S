// Weighted values of attention: void llm_esp32s3_values(int32_t *sums, const int16_t *weights, const int8_t *v, uint32_t n,
// uint32_t stride).
//
// QACC has eight lanes of 40 bits for 16-bit factors, so 16 columns take two passes: odd columns are the high bytes of 16-bit lanes as
// they are, even ones after a multiplication by 256. Both are 256 times the value, and 512 * 32767 * 128 * 256 stays below 2^39.
#include "../sets.h"
#if LLM_KERNELS_ESP32S3

// The eight sums, bits 8 to 39 of the lanes, to a2 + offset and every 8 bytes from there.
    .macro sums half offset
    rur.qacc_\half\()_0 a8
    rur.qacc_\half\()_1 a9
    rur.qacc_\half\()_2 a10
    rur.qacc_\half\()_3 a11
    rur.qacc_\half\()_4 a12
    ssai 8
    src a8, a9, a8
    s32i a8, a2, \offset
    ssai 16
    src a8, a10, a9
    s32i a8, a2, \offset + 8
    ssai 24
    src a8, a11, a10
    s32i a8, a2, \offset + 16
    s32i a12, a2, \offset + 24
    .endm

    .text
    .align 4
    .global llm_esp32s3_values
    .type llm_esp32s3_values, @function
llm_esp32s3_values:
    entry a1, 64

    // q6 = 8 x 0xFF00, q7 = 8 x 256.
    movi a8, -256
    s16i a8, a1, 0
    movi a9, 256
    s16i a9, a1, 2
    addi a10, a1, 2
    ee.vldbc.16 q6, a1
    ee.vldbc.16 q7, a10
    addi a7, a5, -1

    // Even columns.
    mov a13, a3
    mov a14, a4
    ssai 0
    ee.zero.qacc
    ee.vldbc.16.ip q1, a13, 2
    ee.vld.128.xp q0, a14, a6
    loopnez a7, 1f
    ee.vmul.s16 q2, q0, q7
    ee.vld.128.xp q0, a14, a6
    ee.vmulas.s16.qacc.ldbc.incp q1, a13, q2, q1
1:
    ee.vmul.s16 q2, q0, q7
    ee.vmulas.s16.qacc q2, q1
    sums l 0
    sums h 32

    // Odd columns.
    ee.zero.qacc
    ee.vldbc.16.ip q1, a3, 2
    ee.vld.128.xp q0, a4, a6
    loopnez a7, 2f
    ee.andq q2, q0, q6
    ee.vld.128.xp q0, a4, a6
    ee.vmulas.s16.qacc.ldbc.incp q1, a3, q2, q1
2:
    ee.andq q2, q0, q6
    ee.vmulas.s16.qacc q2, q1
    sums l 4
    sums h 36
    retw
    .size llm_esp32s3_values, . - llm_esp32s3_values
#endif
