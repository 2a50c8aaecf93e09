// Softmax of two queries, as the 16-bit weights of the values: two exponentials at a time, five multiplications each.
#include "../sets.h"

#if LLM_KERNELS_ARMV7EM

    .syntax unified
    .thumb
    .text

#include "macros.inc"

    scores .req r0
    v_scale .req r2
    // r4 to r9: constants of exp2q

    .equ PAIRS_END, 0 // of v_scale
    .equ ODD, 4 // a last position is still to come
    .equ FRAME, 8

// void llm_armv7em_softmax(float *scores, uint64_t totals[2], const uint16_t *v_scale, uint32_t n_positions, const float max[2],
//     float per_weight);
// scores [n_positions rounded up to 2][2] in powers of two, minus infinity past the end; in place of each four, of positions 2i and
// 2i + 1, come two words: a pair of int16 weights a query. v_scale [n_positions]: bfloat16; times per_weight it turns a probability
// into a weight. totals: sums of the probabilities. n_positions is at least 1.
    .global llm_armv7em_softmax
    .type llm_armv7em_softmax, %function
    .balign 8
llm_armv7em_softmax:
    push {r1, r4-r11, lr}
    sub sp, sp, #FRAME
    ldr r4, [sp, #FRAME + 40] // max
    vldm r4, {s14-s15}
    vmov.f32 s6, s0 // per_weight
    and r4, r3, #1
    bic r3, r3, #1
    add r3, v_scale, r3, lsl #1
    strd r3, r4, [sp, #PAIRS_END]
    mov r12, #0
    vmov s10, s11, r12, r12 // total of the first query, low and high
    vmov s12, s13, r12, r12 // of the second
    exp2q_constants
    cmp v_scale, r3
    beq .Lodd

.Lpair:
    ldr r1, [v_scale], #4
    lsl r3, r1, #16
    lsr r1, r1, #16
    lsl r1, r1, #16
    vmov s4, s5, r3, r1
.Lpositions:
    vldm scores, {s0-s3}
    vmul.f32 s4, s4, s6
    vmul.f32 s5, s5, s6
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
    ldr r12, [sp, #PAIRS_END]
    pkhbt r1, r1, r10, lsl #16
    pkhbt r3, r3, r11, lsl #16
    strd r1, r3, [scores], #16
    cmp v_scale, r12
    bne .Lpair

.Lodd:
    ldr r1, [sp, #ODD]
    cbz r1, .Ldone
    mov r1, #0
    str r1, [sp, #ODD]
    ldrh r3, [v_scale]
    lsl r3, r3, #16
    vmov s4, s5, r3, r1
    b .Lpositions

.Ldone:
    ldr r1, [sp, #FRAME]
    vstm r1, {s10-s13}
    add sp, sp, #FRAME + 4
    pop {r4-r11, pc}
    .ltorg
    .size llm_armv7em_softmax, . - llm_armv7em_softmax

#endif
