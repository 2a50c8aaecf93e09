// Scores of attention over an int8 cache, two positions at a time: of two queries, which share each key that is widened (for heads of
// 8 elements with the queries in registers), and of one. Before them, how a query is quantized.
//
// Codes of a query are int16: of each four elements the even ones, then the odd ones. Those of two queries take turns, word by word.
#include "../sets.h"

#if LLM_KERNELS_ARMV7EM

    .syntax unified
    .thumb
    .text

#include "macros.inc"

// Where each function keeps on the stack what has no register.
    .equ K_SCALE, 0
    .equ SCORES, 4
    .equ SCORES_END, 8 // of whole pairs of positions
    .equ MAX, 12
    .equ ODD, 16 // a last position is still to come
    .equ CODES, 20
    .equ FRAME, 24

// s6, s7 = the two bfloat16 in \word. \part is overwritten.
    .macro widen_scales word, part
    lsl \part, \word, #16
    bfc \word, #0, #16
    vmov s6, s7, \part, \word
    .endm

// Two positions' scores of two queries: s2 to s5 = the integers in them, times s6 or s7, the scale of the key, times s0 or s1, that
// of the query. They join the maxima s8 and s9, and go to \scores.
    .macro end_of_two scores
    vcvt.f32.s32 s2, s2
    vcvt.f32.s32 s3, s3
    vmul.f32 s10, s6, s0
    vmul.f32 s11, s6, s1
    vmul.f32 s12, s7, s0
    vmul.f32 s13, s7, s1
    vcvt.f32.s32 s4, s4
    vcvt.f32.s32 s5, s5
    vmul.f32 s2, s2, s10
    vmul.f32 s3, s3, s11
    vmul.f32 s4, s4, s12
    vmul.f32 s5, s5, s13
    vstmia \scores!, {s2-s5}
    max s8, s2
    max s9, s3
    max s8, s4
    max s9, s5
    .endm

// ---------------------------------------------------------------------------- queries

// void llm_armv7em_quantize_queries(int32_t *codes, float *scales, const float *q, uint32_t head_dim, uint32_t n, float scale);
// codes [head_dim / 2][n] and scales [n] of q [n][head_dim], the latter times `scale`. head_dim is a multiple of 4.
    .global llm_armv7em_quantize_queries
    .type llm_armv7em_quantize_queries, %function
    .balign 8
llm_armv7em_quantize_queries:
    push {r4-r9, lr}
    ldr r4, [sp, #28] // n: queries still to come
    lsl r5, r4, #2 // from one word of a query to the next
    ldr r6, =0x0DA24260 // LLM_SMALLEST
    ldr r7, =0x42FE0000 // 127
    vmov s10, s11, r6, r7
    vmov.f32 s12, s0
    mov lr, #0

1:  mov r6, r2
    add r7, r2, r3, lsl #2 // end of the query
    vmov s8, s9, lr, lr // largest magnitudes so far
2:  vldmia r6!, {s0-s3}
    .irp s, s0, s1, s2, s3
    vabs.f32 \s, \s
    .endr
    max s8, s0
    max s9, s1
    max s8, s2
    max s9, s3
    cmp r6, r7
    bne 2b
    max s8, s9
    vdiv.f32 s9, s8, s11
    vcmp.f32 s8, s10
    vdiv.f32 s8, s11, s8
    vmrs APSR_nzcv, fpscr
    bpl 3f
    vmov s8, s9, lr, lr // too small for 127 / it
3:  vmul.f32 s9, s9, s12
    vstmia r1!, {s9}
    mov r6, r0
4:  vldmia r2!, {s0-s3}
    .irp s, s0, s1, s2, s3
    vmul.f32 \s, \s, s8
    .endr
    .irp s, s0, s1, s2, s3
    vcvtr.s32.f32 \s, \s
    .endr
    vmov r8, r9, s0, s1
    vmov r12, s2
    pkhbt r8, r8, r12, lsl #16
    vmov r12, s3
    pkhbt r9, r9, r12, lsl #16
    str r8, [r6]
    str r9, [r6, r5]
    add r6, r6, r5, lsl #1
    cmp r2, r7
    bne 4b
    add r0, r0, #4
    subs r4, r4, #1
    bne 1b
    pop {r4-r9, pc}
    .ltorg
    .size llm_armv7em_quantize_queries, . - llm_armv7em_quantize_queries

// ---------------------------------------------------------------------------- two queries of 8 elements

    k .req r0
    part .req r1 // two elements of a key
    sum0 .req r2
    sum1 .req r3
    // r4 to r11: codes, of the first query and of the second in turn
    low .req r12 // a key
    high .req lr

// One position: its two sums, as integers, to \s0 and \s1.
    .macro position s0, s1
    ldrd low, high, [k], #8
    sxtb16 part, low
    sxtb16 low, low, ror #8
    smuad sum0, part, r4
    smuad sum1, part, r5
    sxtb16 part, high
    smlad sum0, low, r6, sum0
    smlad sum1, low, r7, sum1
    sxtb16 high, high, ror #8
    smlad sum0, part, r8, sum0
    smlad sum1, part, r9, sum1
    smlad sum0, high, r10, sum0
    smlad sum1, high, r11, sum1
    vmov \s0, \s1, sum0, sum1
    .endm

// void llm_armv7em_score_two_of_8(float *scores, float max[2], const int32_t codes[8], const int8_t *k, const uint16_t *k_scale,
//     uint32_t n, float scale0, float scale1);
// scores [n][2], n at least 2. max: in, the largest scores so far; out, these included. k is a multiple of 4.
    .global llm_armv7em_score_two_of_8
    .type llm_armv7em_score_two_of_8, %function
    .balign 8
llm_armv7em_score_two_of_8:
    push {r4-r11, lr}
    sub sp, sp, #FRAME
    ldrd r4, r5, [sp, #FRAME + 36] // k_scale, n
    and r6, r5, #1
    sub r5, r5, r6
    add r5, r0, r5, lsl #3
    strd r4, r0, [sp, #K_SCALE]
    strd r5, r1, [sp, #SCORES_END]
    str r6, [sp, #ODD]
    vldm r1, {s8-s9}
    mov k, r3
    ldm r2, {r4-r11}

1:  position s2, s3
    position s4, s5
    ldrd r1, r2, [sp, #K_SCALE]
    ldr lr, [r1], #4
    widen_scales lr, r12
    end_of_two r2
    strd r1, r2, [sp, #K_SCALE]
    ldr r12, [sp, #SCORES_END]
    cmp r2, r12
    bne 1b

    ldr r3, [sp, #ODD]
    cbz r3, 2f
    // The last, together with the one before it, which has its score already.
    sub k, k, #8
    sub r1, r1, #2
    add r12, r2, #8
    sub r2, r2, #8
    mov r3, #0
    strd r1, r2, [sp, #K_SCALE]
    str r12, [sp, #SCORES_END]
    str r3, [sp, #ODD]
    b 1b

2:  ldr r1, [sp, #MAX]
    vstm r1, {s8-s9}
    add sp, sp, #FRAME
    pop {r4-r11, pc}
    .size llm_armv7em_score_two_of_8, . - llm_armv7em_score_two_of_8

    .unreq part
    .unreq sum0
    .unreq sum1
    .unreq low
    .unreq high

// ---------------------------------------------------------------------------- two queries

    stride .req r1 // from this position to the next, 0 if there is none
    codes .req r2
    codes_end .req r3
    // r4, r5: sums of this position; r6, r7: of the next
    even0 .req r8 // two elements of the key of this position
    odd0 .req r9 // the other two; all four before
    even1 .req r10 // of the next
    odd1 .req r11

// Four elements.
    .macro four_of_two
    ldr odd1, [k, stride]
    ldr odd0, [k], #4
    ldrd r12, lr, [codes], #8
    sxtb16 even0, odd0
    sxtb16 even1, odd1
    smlad r4, even0, r12, r4
    smlad r5, even0, lr, r5
    smlad r6, even1, r12, r6
    smlad r7, even1, lr, r7
    ldrd r12, lr, [codes], #8
    sxtb16 odd0, odd0, ror #8
    sxtb16 odd1, odd1, ror #8
    smlad r4, odd0, r12, r4
    smlad r5, odd0, lr, r5
    smlad r6, odd1, r12, r6
    smlad r7, odd1, lr, r7
    .endm

// void llm_armv7em_score_two(float *scores, float max[2], const int32_t *codes, const int8_t *k, const uint16_t *k_scale, uint32_t n,
//     uint32_t head_dim, float scale0, float scale1);
// The same for any head_dim that is a multiple of 8, and n at least 1. Of an odd number it writes the last scores twice: scores is
// [n rounded up to 2][2].
    .global llm_armv7em_score_two
    .type llm_armv7em_score_two, %function
    .balign 8
llm_armv7em_score_two:
    push {r4-r11, lr}
    sub sp, sp, #FRAME
    ldrd r4, r5, [sp, #FRAME + 36] // k_scale, n
    ldr r6, [sp, #FRAME + 44] // head_dim
    str codes, [sp, #CODES]
    vldm r1, {s8-s9}
    and r7, r5, #1
    bic r5, r5, #1
    add r5, r0, r5, lsl #3
    strd r4, r0, [sp, #K_SCALE]
    strd r5, r1, [sp, #SCORES_END]
    str r7, [sp, #ODD]
    cmp r5, r0
    mov k, r3
    mov stride, r6
    add codes_end, codes, r6, lsl #2
    beq 4f

1:  ldr r4, [sp, #K_SCALE]
    ldr r5, [r4], #4
    str r4, [sp, #K_SCALE]
    widen_scales r5, r6
2:  mov r4, #0
    mov r5, #0
    mov r6, #0
    mov r7, #0
    ldr codes, [sp, #CODES]
3:  four_of_two
    four_of_two
    cmp codes, codes_end
    bne 3b
    add k, k, stride
    vmov s2, s3, r4, r5
    vmov s4, s5, r6, r7
    ldrd r4, r5, [sp, #SCORES]
    end_of_two r4
    str r4, [sp, #SCORES]
    cmp r4, r5
    bne 1b

4:  ldr r4, [sp, #ODD]
    cbz r4, 5f
    ldr r5, [sp, #K_SCALE]
    ldrh r5, [r5]
    lsl r5, r5, #16
    vmov s6, s7, r5, r5
    ldr r5, [sp, #SCORES_END]
    add r5, r5, #16
    mov r4, #0
    mov stride, #0
    str r5, [sp, #SCORES_END]
    str r4, [sp, #ODD]
    b 2b

5:  ldr r1, [sp, #MAX]
    vstm r1, {s8-s9}
    add sp, sp, #FRAME
    pop {r4-r11, pc}
    .size llm_armv7em_score_two, . - llm_armv7em_score_two

    .unreq stride
    .unreq even0
    .unreq odd0
    .unreq even1
    .unreq odd1

// ---------------------------------------------------------------------------- one query

    k1 .req r1 // the next position's key
    // r4 to r7: codes of eight elements
    word0 .req r8 // four elements
    word1 .req r9
    part .req r10 // two of them
    sum0 .req r11
    sum1 .req r12
    head_dim .req lr

    .macro eight_of_one k, sum
    ldrd word0, word1, [\k], #8
    sxtb16 part, word0
    sxtb16 word0, word0, ror #8
    smlad \sum, part, r4, \sum
    smlad \sum, word0, r5, \sum
    sxtb16 part, word1
    sxtb16 word1, word1, ror #8
    smlad \sum, part, r6, \sum
    smlad \sum, word1, r7, \sum
    .endm

// float llm_armv7em_score_one(float *scores, const int32_t *codes, const int8_t *k, const uint16_t *k_scale, uint32_t n,
//     uint32_t head_dim, float scale, float max);
// The same for one query: scores [n rounded up to 2]; returns the largest of them and max.
    .global llm_armv7em_score_one
    .type llm_armv7em_score_one, %function
    .balign 8
llm_armv7em_score_one:
    push {r4-r11, lr}
    sub sp, sp, #FRAME
    ldr r4, [sp, #FRAME + 36] // n
    ldr head_dim, [sp, #FRAME + 40]
    and r5, r4, #1
    bic r4, r4, #1
    add r4, r0, r4, lsl #2
    strd r3, r0, [sp, #K_SCALE]
    str r4, [sp, #SCORES_END]
    str r5, [sp, #ODD]
    str r1, [sp, #CODES]
    add codes_end, r1, head_dim, lsl #1
    cmp r4, r0
    mov k, r2
    add k1, k, head_dim
    beq 4f

1:  ldr r4, [sp, #K_SCALE]
    ldr r5, [r4], #4
    str r4, [sp, #K_SCALE]
    widen_scales r5, r6
2:  mov sum0, #0
    mov sum1, #0
    ldr codes, [sp, #CODES]
3:  ldm codes!, {r4-r7}
    eight_of_one k, sum0
    eight_of_one k1, sum1
    cmp codes, codes_end
    bne 3b
    mov k, k1
    add k1, k1, head_dim
    vmov s2, s3, sum0, sum1
    ldrd r4, r5, [sp, #SCORES]
    vmul.f32 s6, s6, s0
    vmul.f32 s7, s7, s0
    vcvt.f32.s32 s2, s2
    vcvt.f32.s32 s3, s3
    vmul.f32 s2, s2, s6
    vmul.f32 s3, s3, s7
    vstmia r4!, {s2-s3}
    str r4, [sp, #SCORES]
    max s1, s2
    max s1, s3
    cmp r4, r5
    bne 1b

4:  ldr r4, [sp, #ODD]
    cbz r4, 5f
    ldr r5, [sp, #K_SCALE]
    ldrh r5, [r5]
    lsl r5, r5, #16
    vmov s6, s7, r5, r5
    ldr r5, [sp, #SCORES_END]
    add r5, r5, #8
    mov r4, #0
    mov k1, k
    str r5, [sp, #SCORES_END]
    str r4, [sp, #ODD]
    b 2b

5:  vmov.f32 s0, s1
    add sp, sp, #FRAME
    pop {r4-r11, pc}
    .size llm_armv7em_score_one, . - llm_armv7em_score_one

#endif
