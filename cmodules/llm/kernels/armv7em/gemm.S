// Weights times a block of vectors: each group of a tile is widened once, to memory on the stack, for all of them.
#include "../sets.h"

#if LLM_KERNELS_ARMV7EM

    .syntax unified
    .thumb
    .text

// The inner loop: two rows times two vectors.
    codes0 .req r0
    codes1 .req r1
    wide .req r2 // widened weights, in the order of the codes: 16 words a row
    // r3, r4: words of a row; r5, r6: of the first vector; r7, r8: of the second
    sum00 .req r9 // first row, first vector
    sum01 .req r10 // first row, second vector
    sum10 .req r11
    sum11 .req r12
    acc .req lr // [vector][4 rows]

    // On the stack, after the widened weights:
    .equ SCALES_02, 256 // of the group: rows 0 and 2
    .equ SCALES_13, 260 // rows 1 and 3
    .equ W, 264 // of the next group
    .equ SCALES, 268 // of the next group
    .equ CODES, 272 // of the next group, first vector
    .equ STRIDE, 276 // bytes from one vector to the next
    .equ GROUPS, 280 // still to do
    .equ ACC_END, 284 // past the last vector
    .equ ACC, 288 // of the first vector
    .equ FRAME, 300

// Two words of each row and vector, eight products.
    .macro step row, i
    ldrd r5, r6, [codes0, #8 * \i]
    ldrd r3, r4, [wide, #64 * \row + 8 * \i]
    ldrd r7, r8, [codes1, #8 * \i]
    .if \i == 0
    smuad sum00, r3, r5
    smuad sum01, r3, r7
    .else
    smlad sum00, r3, r5, sum00
    smlad sum01, r3, r7, sum01
    .endif
    smlad sum00, r4, r6, sum00
    smlad sum01, r4, r8, sum01
    ldrd r3, r4, [wide, #64 * \row + 64 + 8 * \i]
    .if \i == 0
    smuad sum10, r3, r5
    smuad sum11, r3, r7
    .else
    smlad sum10, r3, r5, sum10
    smlad sum11, r3, r7, sum11
    .endif
    smlad sum10, r4, r6, sum10
    smlad sum11, r4, r8, sum11
    .endm

// Adds two sums, scaled, to the accumulators of one vector. \half of the scales: b for rows 0 and 1, t for 2 and 3.
    .macro add_scaled bits, row, vector, half, a, b, sum_a, sum_b
    ldrd \a, \b, [acc, #16 * \vector + 4 * \row]
    .if \bits == 4 // a sum is 65536 times the dot product
    smlaw\half \a, \sum_a, r3, \a
    smlaw\half \b, \sum_b, r4, \b
    .else // 16 times; r3 and r4 hold the two scales
    mla \a, \sum_a, r3, \a
    mla \b, \sum_b, r4, \b
    .endif
    strd \a, \b, [acc, #16 * \vector + 4 * \row]
    .endm

    .macro two_rows bits, row, half
    .irp i, 0, 1, 2, 3, 4, 5, 6, 7
    step \row, \i
    .endr
    ldrd r3, r4, [sp, #SCALES_02]
    .if \bits == 8
    asr sum00, sum00, #4
    asr sum01, sum01, #4
    asr sum10, sum10, #4
    asr sum11, sum11, #4
    .if \row == 0
    sxth r3, r3
    sxth r4, r4
    .else
    asr r3, r3, #16
    asr r4, r4, #16
    .endif
    .endif
    add_scaled \bits, \row, 0, \half, r5, r6, sum00, sum10
    add_scaled \bits, \row, 1, \half, r7, r8, sum01, sum11
    .endm

// Widens eight int4 weights. r11: 0xF000F000; r12: where to.
    .macro widen_int4 word
    and r7, r11, \word, lsl #4
    and r8, r11, \word, lsl #12
    and r9, r11, \word
    and r10, r11, \word, lsl #8
    stm r12!, {r7-r10}
    .endm

// Widens word \j of a row of int8 weights at r0, and word \j + 4. r12: where to.
    .macro widen_int8 j
    ldr r3, [r0, #4 * \j + 16]
    ldr r4, [r0, #4 * \j]
    sxtb16 r7, r4, ror #8
    sxtb16 r8, r4
    sxtb16 r9, r3, ror #8
    sxtb16 r10, r3
    stm r12!, {r7-r10}
    .endm

// void llm_armv7em_gemm_intN(int32_t *acc, const void *w, const int8_t *scales, const int16_t *codes, uint32_t stride,
//     uint32_t n_groups, uint32_t n_pairs);
// acc [2 * n_pairs][4]: the four rows of a tile times vectors of codes, `stride` bytes apart.
    .macro gemm bits
    .global llm_armv7em_gemm_int\bits
    .type llm_armv7em_gemm_int\bits, %function
    .balign 8
llm_armv7em_gemm_int\bits:
    push {r4-r11, lr}
    sub sp, sp, #FRAME
    str r0, [sp, #ACC]
    strd r1, r2, [sp, #W]
    ldr r4, [sp, #FRAME + 36] // stride
    strd r3, r4, [sp, #CODES]
    ldr r5, [sp, #FRAME + 40] // n_groups
    ldr r6, [sp, #FRAME + 44] // n_pairs
    add r6, r0, r6, lsl #5
    strd r5, r6, [sp, #GROUPS]
    .irp zero, r7, r8, r9, r10
    mov \zero, #0
    .endr
0:  stm r0!, {r7-r10}
    cmp r0, r6
    bne 0b

1:  // Widen the group.
    ldr r0, [sp, #W]
    mov r12, sp
    .if \bits == 4
    mov r11, #0xF000F000
    .rept 4
    ldm r0!, {r3-r6}
    .irp word, r3, r4, r5, r6
    widen_int4 \word
    .endr
    .endr
    .else
    .rept 4
    .irp j, 0, 1, 2, 3
    widen_int8 \j
    .endr
    add r0, r0, #32
    .endr
    .endif
    str r0, [sp, #W]
    ldr r1, [sp, #SCALES]
    ldr r3, [r1], #4
    str r1, [sp, #SCALES]
    sxtb16 r4, r3
    sxtb16 r5, r3, ror #8
    strd r4, r5, [sp, #SCALES_02]

    // Two vectors at a time.
    ldr codes0, [sp, #CODES]
    ldr r3, [sp, #STRIDE]
    add codes1, codes0, r3
    add r4, codes0, #64
    str r4, [sp, #CODES]
    ldr acc, [sp, #ACC]
    mov wide, sp
2:  two_rows \bits, 0, b
    two_rows \bits, 2, t
    ldr r3, [sp, #STRIDE]
    add acc, acc, #32
    add codes0, codes0, r3, lsl #1
    add codes1, codes1, r3, lsl #1
    ldr r3, [sp, #ACC_END]
    cmp acc, r3
    bne 2b

    ldr r3, [sp, #GROUPS]
    subs r3, r3, #1
    str r3, [sp, #GROUPS]
    bne 1b
    add sp, sp, #FRAME
    pop {r4-r11, pc}
    .size llm_armv7em_gemm_int\bits, . - llm_armv7em_gemm_int\bits
    .endm

    gemm 4
    gemm 8

#endif
