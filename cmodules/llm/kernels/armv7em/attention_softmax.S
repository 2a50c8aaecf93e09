// Softmax of two queries, as the 16-bit weights of the values: llm_exp2q in five multiplications, two at a time.
#include "../sets.h"

#if LLM_KERNELS_ARMV7EM

    .syntax unified
    .thumb
    .text

    scores .req r0
    ratio .req r2
    // r4 to r9: C5, C4, C3, C2, C1 and 2^30 of llm_exp2q

    .equ RATIO_END, 0
    .equ TOTALS, 4
    .equ FRAME, 12

#include "macros.inc"

// void llm_armv7em_softmax(float *scores, uint64_t totals[2], const float *ratio, uint32_t n_pairs, const float max[2]);
// scores [2 * n_pairs][2] in powers of two; in place of each four, of positions 2i and 2i + 1, come two words: a pair of int16
// weights a query. ratio [2 * n_pairs]: what turns a probability into a weight. totals: sums of the probabilities.
    .global llm_armv7em_softmax
    .type llm_armv7em_softmax, %function
    .balign 8
llm_armv7em_softmax:
    push {r1, r4-r11, lr}
    sub sp, sp, #FRAME
    ldr r4, [sp, #FRAME + 40] // max
    vldm r4, {s14-s15}
    add r3, ratio, r3, lsl #3
    str r3, [sp, #RATIO_END]
    mov r3, #0
    vmov s10, s11, r3, r3 // total of the first query, low and high
    vmov s12, s13, r3, r3 // of the second
    exp2q_constants

1:  vldm scores, {s0-s3}
    vldmia ratio!, {s4-s5}
    vsub.f32 s0, s0, s14
    vsub.f32 s1, s1, s15
    vsub.f32 s2, s2, s14
    vsub.f32 s3, s3, s15
    vcvt.s32.f32 s0, s0, #24
    vcvt.s32.f32 s1, s1, #24
    vcvt.s32.f32 s2, s2, #24
    vcvt.s32.f32 s3, s3, #24
    exp2q s0, s1, r1, r3, r10, r11, r12, lr
    exp2q s2, s3, r1, r3, r10, r11, r12, lr
    vmov r10, r11, s0, s1
    vcvt.f32.s32 s0, s0
    vcvt.f32.s32 s1, s1
    add r10, r10, r1 // two of them fit 32 bits
    add r11, r11, r3
    vmov r1, r3, s10, s11
    vcvt.f32.s32 s2, s2
    vcvt.f32.s32 s3, s3
    adds r1, r1, r10
    adc r3, r3, #0
    vmul.f32 s0, s0, s4
    vmul.f32 s1, s1, s4
    vmov r10, r12, s12, s13
    vmov s10, s11, r1, r3
    adds r10, r10, r11
    adc r12, r12, #0
    vmul.f32 s2, s2, s5
    vmul.f32 s3, s3, s5
    vcvtr.s32.f32 s0, s0
    vcvtr.s32.f32 s1, s1
    vmov s12, s13, r10, r12
    vcvtr.s32.f32 s2, s2
    vcvtr.s32.f32 s3, s3
    vmov r1, r3, s0, s1
    vmov r10, r11, s2, s3
    ldr r12, [sp, #RATIO_END]
    pkhbt r1, r1, r10, lsl #16
    pkhbt r3, r3, r11, lsl #16
    strd r1, r3, [scores], #16
    cmp ratio, r12
    bne 1b

    ldr r1, [sp, #FRAME]
    vstm r1, {s10-s13}
    add sp, sp, #FRAME + 4
    pop {r4-r11, pc}
    .ltorg
    .size llm_armv7em_softmax, . - llm_armv7em_softmax

#endif
