// Weights times a block of vectors: each group of a tile is widened once, to memory on the stack, for all of them.
#include "../sets.h"

#if LLM_KERNELS_ARMV7EM

    .syntax unified
    .thumb
    .text

// The inner loop: four rows times two vectors.
    codes0 .req r0
    codes1 .req r1
    row_a .req r2 // a pair of weights of an even row
    row_b .req r3 // of the odd row that follows
    code0 .req r4 // a pair of codes of the first vector
    code1 .req r5 // of the second
    // r6 to r9: sums of the four rows with the first vector; r10, r11, r12, lr: with the second

    // On the stack:
    .equ ACC_NEXT, 0 // of the two vectors at work
    .equ STARTED, 4 // 0 in the first group, whose sums are added to nothing
    .equ SCALES_02, 8 // of the group: rows 0 and 2
    .equ SCALES_13, 12 // rows 1 and 3
    .equ W, 16 // of the next group
    .equ SCALES, 20 // of the next group
    .equ CODES, 24 // of the next group, first vector
    .equ STRIDE, 28 // bytes from one vector to the next
    .equ ACC_END, 32 // past the last vector
    .equ ACC, 36 // of the first vector
    .equ GROUPS, 40 // still to do
    .equ WIDE, 48 // the widened weights: for each two rows 16 pairs of the one and of the other in turn, in the order of the codes
    .equ FRAME, 308

    .macro multiply i, sum, a, b
    .if \i == 0
    smuad \sum, \a, \b
    .else
    smlad \sum, \a, \b, \sum
    .endif
    .endm

// Pair \i of each row times that of each vector. A load of codes stands between two multiplications that do not wait for it, so
// that it issues with one: that of the first vector is for the next pair.
    .macro step i
    ldrd row_a, row_b, [sp, #WIDE + 8 * \i]
    multiply \i, r6, row_a, code0
    ldr code1, [codes1, #4 * \i]
    multiply \i, r7, row_b, code0
    multiply \i, r10, row_a, code1
    multiply \i, r11, row_b, code1
    ldrd row_a, row_b, [sp, #WIDE + 128 + 8 * \i]
    multiply \i, r8, row_a, code0
    multiply \i, r9, row_b, code0
    .if \i < 15
    ldr code0, [codes0, #4 * \i + 4]
    .endif
    multiply \i, r12, row_a, code1
    multiply \i, lr, row_b, code1
    .endm

// Adds a sum, scaled, to word \i of the accumulators at r2; the result stays in \sum. \scale: b or t of a register.
    .macro add_scaled i, half, scale, sum
    ldr r3, [r2, #4 * \i]
    smlaw\half \sum, \sum, \scale, r3
    .endm

// Widens word \j of rows \row and \row + 1 of int4 weights. r0: the group; r1: 0xF000F000; r12: where to.
    .macro widen_int4 row, j
    ldr r2, [r0, #16 * \row + 4 * \j]
    ldr r3, [r0, #16 * \row + 16 + 4 * \j]
    and r4, r1, r2, lsl #4
    and r5, r1, r3, lsl #4
    and r6, r1, r2, lsl #12
    and r7, r1, r3, lsl #12
    and r8, r1, r2
    and r9, r1, r3
    and r10, r1, r2, lsl #8
    and r11, r1, r3, lsl #8
    stm r12!, {r4-r11}
    .endm

// Widens words \j and \j + 4 of the two rows of int8 weights.
    .macro widen_int8 row, j
    ldr r1, [r0, #32 * \row + 4 * \j]
    ldr r2, [r0, #32 * \row + 32 + 4 * \j]
    ldr r3, [r0, #32 * \row + 4 * \j + 16]
    ldr lr, [r0, #32 * \row + 32 + 4 * \j + 16]
    sxtb16 r4, r1, ror #8
    sxtb16 r5, r2, ror #8
    sxtb16 r6, r1
    sxtb16 r7, r2
    sxtb16 r8, r3, ror #8
    sxtb16 r9, lr, ror #8
    sxtb16 r10, r3
    sxtb16 r11, lr
    stm r12!, {r4-r11}
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
    strd r1, r2, [sp, #W]
    ldr r4, [sp, #FRAME + 36] // stride
    strd r3, r4, [sp, #CODES]
    ldr r5, [sp, #FRAME + 40] // n_groups
    ldr r6, [sp, #FRAME + 44] // n_pairs
    add r6, r0, r6, lsl #5
    str r5, [sp, #GROUPS]
    strd r6, r0, [sp, #ACC_END]
    mov r4, #0
    str r4, [sp, #STARTED]

1:  // Widen the group.
    ldrd r0, lr, [sp, #W]
    add r12, sp, #WIDE
    .if \bits == 4
    mov r1, #0xF000F000
    .endif
    ldr r3, [lr], #4
    str lr, [sp, #SCALES]
    .if \bits == 4 // a sum is 65536 times the dot product
    sxtb16 r4, r3
    sxtb16 r5, r3, ror #8
    .else // 256 times, and scales are too
    bic r5, r3, #0x00FF00FF
    lsl r3, r3, #8
    bic r4, r3, #0x00FF00FF
    .endif
    strd r4, r5, [sp, #SCALES_02]
    .irp row, 0, 2
    .irp j, 0, 1, 2, 3
    widen_int\bits \row, \j
    .endr
    .endr
    add r0, r0, #16 * \bits
    str r0, [sp, #W]

    // Two vectors at a time.
    ldrd codes0, r3, [sp, #CODES] // and their stride
    add r4, codes0, #64
    str r4, [sp, #CODES]
    ldr r5, [sp, #ACC]
    add codes1, codes0, r3
    str r5, [sp, #ACC_NEXT]
2:  ldr code0, [codes0]
    .irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    step \i
    .endr
    ldm sp, {r2-r5} // ACC_NEXT, STARTED, SCALES_02, SCALES_13
    .if \bits == 8
    .irp sum, r6, r7, r8, r9, r10, r11, r12, lr
    lsl \sum, \sum, #4
    .endr
    .endif
    cbz r3, 4f
    add_scaled 0, b, r4, r6
    add_scaled 1, b, r5, r7
    add_scaled 2, t, r4, r8
    add_scaled 3, t, r5, r9
    add_scaled 4, b, r4, r10
    add_scaled 5, b, r5, r11
    add_scaled 6, t, r4, r12
    add_scaled 7, t, r5, lr
3:  ldrd r3, r4, [sp, #STRIDE] // and ACC_END
    stm r2!, {r6-r12, lr}
    add codes0, codes0, r3, lsl #1
    str r2, [sp, #ACC_NEXT]
    add codes1, codes1, r3, lsl #1
    cmp r2, r4
    bne 2b
    b 5f

4:  // The first group has nothing to be added to.
    smulwb r6, r6, r4
    smulwb r7, r7, r5
    smulwt r8, r8, r4
    smulwt r9, r9, r5
    smulwb r10, r10, r4
    smulwb r11, r11, r5
    smulwt r12, r12, r4
    smulwt lr, lr, r5
    b 3b

5:  ldr r3, [sp, #GROUPS]
    str r3, [sp, #STARTED] // not 0
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
