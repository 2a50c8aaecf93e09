// Softmax of attention, as the 16-bit weights of the values: of two queries, two positions at a time, and of one. An exponential takes
// five multiplications.
//
// The probabilities are summed modulo 2^64, times a constant that is in a register anyway: one UMLAL. As it is odd, its inverse gives
// the sum back.
#include "../sets.h"

#if LLM_KERNELS_ARMV7EM

    .syntax unified
    .thumb
    .text

#include "macros.inc"

    scores .req r0
    mask .req r2
    // r4 to r9: constants of exp2q
    // s6: per_weight
    // s14, s15: the largest scores of the queries

// s4, s5 = the two bfloat16 at r1, which steps on and goes to [sp, #\slot]. r3 is overwritten.
    .macro load_scales slot
    ldr r3, [r1], #4
    str r1, [sp, #\slot]
    lsl r1, r3, #16
    bfc r3, #0, #16
    vmov s4, s5, r1, r3
    .endm

// s4 = the bfloat16 at r1, times per_weight. r3 is overwritten.
    .macro load_last_share
    ldrh r3, [r1]
    lsl r3, r3, #16
    vmov s4, r3
    vmul.f32 s4, s4, s6
    .endm

// ---------------------------------------------------------------------------- two queries

    .equ TOTALS, 0 // of both queries, low and high
    .equ V_SCALE, 16
    .equ PAIRS_END, 20 // of v_scale
    .equ ODD, 24 // a last position is still to come
    .equ FRAME, 32

// void llm_armv7em_softmax_two(float *scores, uint64_t totals[2], const uint16_t *v_scale, uint32_t n, const float max[2],
//     float per_weight);
// scores [n][2] in powers of two. Where those of two positions were come, in the first two words, the weights of their values: two of
// the first query in one, two of the second in the other; 0 beside a last one. v_scale [n]: bfloat16; times per_weight it turns a
// probability into a weight. The probabilities, times 64154101, are added to totals. n is at least 1.
    .global llm_armv7em_softmax_two
    .type llm_armv7em_softmax_two, %function
    .balign 8
llm_armv7em_softmax_two:
    push {r1, r4-r11, lr}
    sub sp, sp, #FRAME
    ldr r4, [sp, #FRAME + 40] // max
    vldm r4, {s14-s15}
    vmov.f32 s6, s0
    and r4, r3, #1
    bic r3, r3, #1
    ldm r1, {r5-r8}
    stm sp, {r5-r8}
    mov r1, r2
    add r3, r1, r3, lsl #1
    strd r3, r4, [sp, #PAIRS_END]
    exp2q_constants
    mvn mask, #0x80000000
    cmp r1, r3
    beq .Lend

.Lpair: // r1: v_scale, here and at .Lend
    load_scales V_SCALE
    vldm scores, {s0-s3}
    vmul.f32 s4, s4, s6
    vmul.f32 s5, s5, s6
    vsub.f32 s0, s0, s14
    vsub.f32 s1, s1, s15
    vsub.f32 s2, s2, s14
    vsub.f32 s3, s3, s15
.Lexponents:
    vcvt.s32.f32 s0, s0, #24
    vcvt.s32.f32 s1, s1, #24
    vcvt.s32.f32 s2, s2, #24
    vcvt.s32.f32 s3, s3, #24
    exp2q s0, s1, r1, r3, r10, r11, r12, lr, mask
    exp2q s2, s3, r1, r3, r10, r11, r12, lr, mask
    vmov r10, r11, s0, s1
    vcvt.f32.s32 s0, s0
    vcvt.f32.s32 s1, s1
    add r1, r1, r10 // two of them fit 32 bits
    add r3, r3, r11
    ldm sp, {r10, r11, r12, lr}
    vcvt.f32.s32 s2, s2
    vcvt.f32.s32 s3, s3
    vmul.f32 s0, s0, s4
    vmul.f32 s1, s1, s4
    umlal r10, r11, r1, r4
    umlal r12, lr, r3, r4
    vmul.f32 s2, s2, s5
    vmul.f32 s3, s3, s5
    stm sp, {r10, r11, r12, lr}
    vcvtr.s32.f32 s0, s0
    vcvtr.s32.f32 s1, s1
    vcvtr.s32.f32 s2, s2
    vcvtr.s32.f32 s3, s3
    ldrd r1, r3, [sp, #V_SCALE]
    vmov r10, r11, s0, s1
    vmov r12, lr, s2, s3
    cmp r1, r3
    pkhbt r10, r10, r12, lsl #16
    pkhbt r11, r11, lr, lsl #16
    strd r10, r11, [scores], #16
    bne .Lpair

.Lend:
    ldr r3, [sp, #ODD]
    cbz r3, .Ldone
    load_last_share
    mov r3, #0
    str r1, [sp, #V_SCALE] // its end, as far as pairs go
    str r3, [sp, #ODD]
    vldm scores, {s0-s1}
    vsub.f32 s0, s0, s14
    vsub.f32 s1, s1, s15
    vmov.f32 s2, #-31.0 // which gives 0
    vmov.f32 s3, s2
    vmov.f32 s5, s4
    b .Lexponents
.Ldone:
    ldm sp, {r4-r7}
    ldr r1, [sp, #FRAME]
    stm r1, {r4-r7}
    add sp, sp, #FRAME + 4
    pop {r4-r11, pc}
    .ltorg
    .size llm_armv7em_softmax_two, . - llm_armv7em_softmax_two

// ---------------------------------------------------------------------------- one query

    .equ ONE_TOTAL, 0 // low and high
    .equ ONE_V_SCALE, 8
    .equ ONE_WEIGHTS, 12
    .equ ONE_SCORES_END, 16 // of whole pairs of positions
    .equ ONE_ODD, 20 // a last position is still to come
    .equ ONE_FRAME, 24

// uint64_t llm_armv7em_softmax_one(int16_t *weights, const float *scores, const uint16_t *v_scale, uint32_t n, float max,
//     float per_weight);
// The same for one query: weights [n rounded up to 2], a multiple of 4, become those of scores [n]; returns the sum of the
// probabilities, times 64154101.
    .global llm_armv7em_softmax_one
    .type llm_armv7em_softmax_one, %function
    .balign 8
llm_armv7em_softmax_one:
    push {r4-r11, lr}
    sub sp, sp, #ONE_FRAME
    vmov.f32 s14, s0
    vmov.f32 s6, s1
    mov r4, #0
    mov r5, #0
    strd r4, r5, [sp, #ONE_TOTAL]
    str r0, [sp, #ONE_WEIGHTS]
    and r5, r3, #1
    bic r3, r3, #1
    add r3, r1, r3, lsl #2
    strd r3, r5, [sp, #ONE_SCORES_END]
    mov scores, r1
    mov r1, r2
    exp2q_constants
    mvn mask, #0x80000000
    cmp scores, r3
    beq .Lone_end

.Lone_pair: // r1: v_scale, here and at .Lone_end
    load_scales ONE_V_SCALE
    vldmia scores!, {s0-s1}
    vmul.f32 s4, s4, s6
    vmul.f32 s5, s5, s6
    vsub.f32 s0, s0, s14
    vsub.f32 s1, s1, s14
.Lone_exponents:
    vcvt.s32.f32 s0, s0, #24
    vcvt.s32.f32 s1, s1, #24
    exp2q s0, s1, r1, r3, r10, r11, r12, lr, mask
    ldrd r10, r11, [sp, #ONE_TOTAL]
    vcvt.f32.s32 s0, s0
    vcvt.f32.s32 s1, s1
    add r1, r1, r3 // two of them fit 32 bits
    vmul.f32 s0, s0, s4
    vmul.f32 s1, s1, s5
    umlal r10, r11, r1, r4
    vcvtr.s32.f32 s0, s0
    vcvtr.s32.f32 s1, s1
    strd r10, r11, [sp, #ONE_TOTAL]
    ldrd r1, r12, [sp, #ONE_V_SCALE]
    ldr r3, [sp, #ONE_SCORES_END]
    vmov r10, r11, s0, s1
    pkhbt r10, r10, r11, lsl #16
    str r10, [r12], #4
    str r12, [sp, #ONE_WEIGHTS]
    cmp scores, r3
    bne .Lone_pair

.Lone_end:
    ldr r3, [sp, #ONE_ODD]
    cbz r3, .Lone_done
    load_last_share
    mov r3, #0
    str r3, [sp, #ONE_ODD]
    vldr s0, [scores]
    vmov.f32 s1, #-31.0 // which gives 0
    vsub.f32 s0, s0, s14
    vmov.f32 s5, s4
    b .Lone_exponents
.Lone_done:
    ldrd r0, r1, [sp, #ONE_TOTAL]
    add sp, sp, #ONE_FRAME
    pop {r4-r11, pc}
    .ltorg
    .size llm_armv7em_softmax_one, . - llm_armv7em_softmax_one

#endif
