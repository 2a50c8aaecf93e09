// Weighted values of attention over an int8 cache, of two queries and of one. Elements of two positions that follow each other are put
// side by side and widened, so that one SMLAD takes both times their weights.
//
// A few elements of the head are summed over all positions, then the next few: `sums` has those of each few together.
#include "../sets.h"

#if LLM_KERNELS_ARMV7EM

    .syntax unified
    .thumb
    .text

    v .req r0
    weights .req r1
    stride .req r2
    fours_end .req r3 // of the weights of positions that go by fours
    // r4 to r7: sums

    .equ N, 0
    .equ SUMS, 4
    .equ V, 8
    .equ WEIGHTS, 12
    .equ V_END, 16
    .equ FRAME, 20
    .equ HEAD_DIM, FRAME + 36
    .equ ANEW, FRAME + 40

// What both functions begin with; a weight takes 2^bytes. What each few elements begin and end with.
    .macro enter bytes
    push {r4-r11, lr}
    sub sp, sp, #FRAME
    ldr r12, [sp, #HEAD_DIM]
    strd r3, r0, [sp, #N]
    strd r2, weights, [sp, #V]
    add r4, r2, r12
    str r4, [sp, #V_END]
    bic r3, r3, #1
    add fours_end, weights, r3, lsl #\bytes
    mov stride, r12
    .endm

    .macro begin_few
    ldr r4, [sp, #ANEW]
    ldr r12, [sp, #SUMS]
    ldrd v, weights, [sp, #V]
    cbz r4, 11f
    mov r4, #0
    mov r5, #0
    mov r6, #0
    mov r7, #0
    b 12f
11: ldm r12, {r4-r7}
12: ldr r12, [sp, #N]
    .endm

    .macro end_few width, again
    ldrd r12, v, [sp, #SUMS]
    ldr weights, [sp, #V_END]
    add v, v, #\width
    stm r12!, {r4-r7}
    strd r12, v, [sp, #SUMS]
    cmp v, weights
    bne \again
    add sp, sp, #FRAME
    pop {r4-r11, pc}
    .endm

// ---------------------------------------------------------------------------- two queries

// Two elements of two positions; a word of two weights for each query. r4, r5: sums of the first query; r6, r7: of the second.
    .macro pair_of_two weights0, weights1
    ldrh r12, [v]
    ldrh lr, [v, stride]
    add v, v, stride, lsl #1
    orr r12, r12, lr, lsl #16
    sxtb16 lr, r12
    sxtb16 r12, r12, ror #8
    smlad r4, lr, \weights0, r4
    smlad r6, lr, \weights1, r6
    smlad r5, r12, \weights0, r5
    smlad r7, r12, \weights1, r7
    .endm

// void llm_armv7em_add_two(int32_t *sums, const float *weights, const int8_t *v, uint32_t n, uint32_t head_dim, bool anew);
// sums [head_dim / 2][2 queries][2] += weights, as llm_armv7em_softmax_two leaves them, times v [n][head_dim]; or = if `anew`. n is
// at least 1, head_dim even.
    .global llm_armv7em_add_two
    .type llm_armv7em_add_two, %function
    .balign 8
llm_armv7em_add_two:
    enter 3
1:  begin_few
    tst r12, #2
    beq 2f
    ldrd r8, r9, [weights], #16
    pair_of_two r8, r9
2:  cmp weights, fours_end
    beq 4f
3:  ldrd r8, r9, [weights], #16
    ldrd r10, r11, [weights], #16
    pair_of_two r8, r9
    pair_of_two r10, r11
    cmp weights, fours_end
    bne 3b
4:  ldr r12, [sp, #N]
    tst r12, #1
    beq 5f
    ldrsb r12, [v]
    ldrsb lr, [v, #1]
    ldrd r8, r9, [weights]
    smlabb r4, r12, r8, r4
    smlabb r5, lr, r8, r5
    smlabb r6, r12, r9, r6
    smlabb r7, lr, r9, r7
5:  end_few 2, 1b
    .size llm_armv7em_add_two, . - llm_armv7em_add_two

// void llm_armv7em_put_two(float *out, const int32_t *sums, uint32_t head_dim, bool first, float scale0, float scale1);
// out [2][head_dim] = sums [head_dim / 2][2 queries][2] times the scale of their query, `out` added before if these are not the first.
    .global llm_armv7em_put_two
    .type llm_armv7em_put_two, %function
    .balign 8
llm_armv7em_put_two:
    add r2, r0, r2, lsl #2
    mov r12, r2 // the second query's out
1:  vldmia r1!, {s2-s5}
    vcvt.f32.s32 s2, s2
    vcvt.f32.s32 s3, s3
    vcvt.f32.s32 s4, s4
    vcvt.f32.s32 s5, s5
    cbnz r3, 2f
    vldm r0, {s6-s7}
    vldm r12, {s8-s9}
    vadd.f32 s2, s2, s6
    vadd.f32 s3, s3, s7
    vadd.f32 s4, s4, s8
    vadd.f32 s5, s5, s9
2:  vmul.f32 s2, s2, s0
    vmul.f32 s3, s3, s0
    vmul.f32 s4, s4, s1
    vmul.f32 s5, s5, s1
    vstmia r0!, {s2-s3}
    vstmia r12!, {s4-s5}
    cmp r0, r2
    bne 1b
    bx lr
    .size llm_armv7em_put_two, . - llm_armv7em_put_two

// ---------------------------------------------------------------------------- one query

// Two positions of four elements, the second at \second; a word of their weights.
    .macro pair_of_one weights, first, second
    ldr r10, \first
    ldr r11, \second
    pkhbt r12, r10, r11, lsl #16
    pkhtb r11, r11, r10, asr #16
    sxtb16 r10, r12
    sxtb16 r12, r12, ror #8
    smlad r4, r10, \weights, r4
    smlad r5, r12, \weights, r5
    sxtb16 r10, r11
    sxtb16 r11, r11, ror #8
    smlad r6, r10, \weights, r6
    smlad r7, r11, \weights, r7
    .endm

// void llm_armv7em_add_one(int32_t *sums, const int16_t *weights, const int8_t *v, uint32_t n, uint32_t head_dim, bool anew);
// The same for one query: sums [head_dim], weights [n] at a multiple of 4; head_dim is a multiple of 4.
    .global llm_armv7em_add_one
    .type llm_armv7em_add_one, %function
    .balign 8
llm_armv7em_add_one:
    enter 1
    add lr, stride, stride, lsl #1 // three positions
1:  begin_few
    tst r12, #2
    beq 2f
    ldr r8, [weights], #4
    pair_of_one r8, [v], "[v, stride]"
    add v, v, stride, lsl #1
2:  cmp weights, fours_end
    beq 4f
3:  ldrd r8, r9, [weights], #8
    pair_of_one r8, [v], "[v, stride]"
    pair_of_one r9, "[v, stride, lsl #1]", "[v, lr]"
    add v, v, stride, lsl #2
    cmp weights, fours_end
    bne 3b
4:  ldr r12, [sp, #N]
    tst r12, #1
    beq 5f
    ldr r10, [v]
    ldrh r8, [weights]
    sxtb16 r11, r10
    sxtb16 r10, r10, ror #8
    smlabb r4, r11, r8, r4
    smlabb r5, r10, r8, r5
    smlatb r6, r11, r8, r6
    smlatb r7, r10, r8, r7
5:  end_few 4, 1b
    .size llm_armv7em_add_one, . - llm_armv7em_add_one

#endif
