// Softmax of two queries, as the 16-bit weights of the values: two exponentials at a time, five multiplications each.
#include "../sets.h"

#if LLM_KERNELS_ARMV7EM

    .syntax unified
    .thumb
    .text

#include "macros.inc"

    scores .req r0
    mask .req r2
    // r4 to r9: constants of exp2q

    .equ TOTALS, 0 // of both queries, low and high
    .equ V_SCALE, 16
    .equ PAIRS_END, 20 // of v_scale
    .equ ODD, 24 // a last position is still to come
    .equ FRAME, 32

// void llm_armv7em_softmax(float *scores, uint64_t totals[2], const uint16_t *v_scale, uint32_t n_positions, const float max[2],
//     float per_weight);
// scores [n_positions rounded up to 2][2] in powers of two, minus infinity past the end; in their place come the weights of the
// values, as int32. v_scale [n_positions]: bfloat16; times per_weight it turns a probability into a weight. totals: the
// probabilities are added to them. n_positions is at least 1.
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
    mov r1, r2
    add r3, r1, r3, lsl #1
    strd r3, r4, [sp, #PAIRS_END]
    ldr r4, [sp, #FRAME]
    ldm r4, {r4-r7}
    stm sp, {r4-r7}
    exp2q_constants
    mvn mask, #0x80000000
    cmp r1, r3
    beq .Lodd

.Lpair: // r1: v_scale, here and at .Lodd
    ldr r3, [r1], #4
    str r1, [sp, #V_SCALE]
    lsl r1, r3, #16
    bfc r3, #0, #16
    vmov s4, s5, r1, r3
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
    adds r10, r10, r1
    adc r11, r11, #0
    vmul.f32 s0, s0, s4
    vmul.f32 s1, s1, s4
    adds r12, r12, r3
    adc lr, lr, #0
    vmul.f32 s2, s2, s5
    vmul.f32 s3, s3, s5
    stm sp, {r10, r11, r12, lr}
    ldrd r1, r3, [sp, #V_SCALE]
    vcvtr.s32.f32 s0, s0
    vcvtr.s32.f32 s1, s1
    vcvtr.s32.f32 s2, s2
    vcvtr.s32.f32 s3, s3
    cmp r1, r3
    vstmia scores!, {s0-s3}
    bne .Lpair

.Lodd:
    ldr r3, [sp, #ODD]
    cbz r3, .Ldone
    ldrh r3, [r1]
    str r1, [sp, #V_SCALE] // its end, as far as pairs go
    lsl r3, r3, #16
    mov r1, #0
    str r1, [sp, #ODD]
    vmov s4, s5, r3, r1
    b .Lpositions

.Ldone:
    ldm sp, {r4-r7}
    ldr r1, [sp, #FRAME]
    stm r1, {r4-r7}
    add sp, sp, #FRAME + 4
    pop {r4-r11, pc}
    .ltorg
    .size llm_armv7em_softmax, . - llm_armv7em_softmax

#endif
