// Scores of two queries over keys of 8 elements, where widening and scaling cost as much as multiplying.
#include "../sets.h"

#if LLM_KERNELS_ARMV7EM

    .syntax unified
    .thumb
    .text

    k .req r0
    part .req r1 // two elements of a key
    sum0 .req r2
    sum1 .req r3
    // r4 to r7: codes of the first query; r8 to r11: of the second
    low .req r12 // a key
    high .req lr

#include "macros.inc"

    .equ K_SCALE, 0
    .equ SCORES, 4
    .equ SCORES_END, 8
    .equ MAX, 12
    .equ FRAME, 20

// One position: its two sums, as integers, to \s0 and \s1.
    .macro position s0, s1
    ldrd low, high, [k], #8
    sxtb16 part, low
    sxtb16 low, low, ror #8
    smuad sum0, part, r4
    smuad sum1, part, r8
    sxtb16 part, high
    smlad sum0, low, r5, sum0
    smlad sum1, low, r9, sum1
    sxtb16 high, high, ror #8
    smlad sum0, part, r6, sum0
    smlad sum1, part, r10, sum1
    smlad sum0, high, r7, sum0
    smlad sum1, high, r11, sum1
    vmov \s0, \s1, sum0, sum1
    .endm

// void llm_armv7em_score8(float *scores, float max[2], const int32_t codes[8], const int8_t *k, const uint16_t *k_scale,
//     uint32_t n_pairs, float scale0, float scale1);
// scores [2 * n_pairs][2], n_pairs at least 1. codes: of both queries, even elements of each four, then odd ones, as int16.
// max: in, the largest scores so far; out, these included.
    .global llm_armv7em_score8
    .type llm_armv7em_score8, %function
    .balign 8
llm_armv7em_score8:
    push {r4-r11, lr}
    sub sp, sp, #FRAME
    ldr r4, [sp, #FRAME + 36] // k_scale
    ldr r5, [sp, #FRAME + 40] // n_pairs
    add r5, r0, r5, lsl #4
    strd r4, r0, [sp, #K_SCALE]
    strd r5, r1, [sp, #SCORES_END]
    vldm r1, {s8-s9}
    mov k, r3
    ldm r2, {r4-r11}

1:  position s2, s3
    position s4, s5
    ldrd r1, r2, [sp, #K_SCALE]
    ldr lr, [r1], #4 // two scales, bfloat16
    vcvt.f32.s32 s2, s2
    vcvt.f32.s32 s3, s3
    lsl r12, lr, #16
    bfc lr, #0, #16
    vmov s6, s7, r12, lr
    vcvt.f32.s32 s4, s4
    vcvt.f32.s32 s5, s5
    vmul.f32 s10, s6, s0
    vmul.f32 s11, s6, s1
    vmul.f32 s12, s7, s0
    vmul.f32 s13, s7, s1
    vmul.f32 s2, s2, s10
    vmul.f32 s3, s3, s11
    vmul.f32 s4, s4, s12
    vmul.f32 s5, s5, s13
    vstmia r2!, {s2-s5}
    strd r1, r2, [sp, #K_SCALE]
    ldr r12, [sp, #SCORES_END]
    max s8, s2
    max s9, s3
    max s8, s4
    max s9, s5
    cmp r2, r12
    bne 1b

    ldr r1, [sp, #MAX]
    vstm r1, {s8-s9}
    add sp, sp, #FRAME
    pop {r4-r11, pc}
    .size llm_armv7em_score8, . - llm_armv7em_score8

#endif
