// int4 weights times one vector: see armv7em.h for the order of the codes.
#include "../sets.h"

#if LLM_KERNELS_ARMV7EM

    .syntax unified
    .thumb
    .text

#include "macros.inc"

    w .req r0 // weights of the group, less 4 bytes
    part .req r1 // two weights
    codes .req r2 // codes of the group
    mask .req r3 // 0xF000F000
    // r4 to r7: four pairs of codes; r8 to r11: the sum of each row over the group
    // r12, lr: a word of eight weights, and two weights of it or of the word before, in turn

// On the stack: the scales to come and the accumulators of the four rows, then what a tile needs once.
    .equ SCALES, 0
    .equ CODES, 20 // the first
    .equ CODES_END, 24
    .equ ROW_SCALES, 28
    .equ Y, 32
    .equ TILES, 36 // still to do
    .equ FRAME, 44

    .macro multiply j, sum, a, b
    .if \j == 0
    smuad \sum, \a, \b
    .else
    smlad \sum, \a, \b, \sum
    .endif
    .endm

// Eight weights of row \r, word \j of its block, in \word. Each instruction that takes weights out stands before the multiplication
// of those taken out before, so that the two issue together: the first before that of the last row's (\before), in \other. Loads
// the word of the next row into \other.
    .macro row_word j, r, sum, before, word, other
    and part, mask, \word
    .if \r > 0
    smlad \before, \other, r5, \before
    .endif
    and \other, mask, \word, lsl #4
    multiply \j, \sum, part, r6
    and part, mask, \word, lsl #8
    smlad \sum, \other, r4, \sum
    .if \r == 2 && \j == 3
    ldr \other, [w, #64]! // the last of the group
    .elseif \r < 3
    ldr \other, [w, #16 * \r + 4 * \j + 20]
    .elseif \j < 3
    ldr \other, [w, #4 * \j + 8]
    .endif
    smlad \sum, part, r7, \sum
    and \word, mask, \word, lsl #12
    .endm

// The sums of a group to r8 to r11, its scales to r1 and r5: those of rows 0 and 2, of rows 1 and 3.
    .macro group
    ldr r12, [w, #4]
    .irp j, 0, 1, 2, 3
    ldm codes!, {r4-r7}
    row_word \j, 0, r8, r11, r12, lr
    row_word \j, 1, r9, r8, lr, r12
    row_word \j, 2, r10, r9, r12, lr
    row_word \j, 3, r11, r10, lr, r12
    smlad r11, lr, r5, r11
    .endr
    .endm

// void llm_armv7em_gemv_int4(float *y, const void *w, const int8_t *scales, const int16_t *codes, const float *row_scales,
//     uint32_t n_groups, uint32_t n_tiles, float x_scale);
    .global llm_armv7em_gemv_int4
    .type llm_armv7em_gemv_int4, %function
    .balign 8
llm_armv7em_gemv_int4:
    begin_tiles
    sub w, r1, #4
    str r2, [sp, #SCALES]
    mov mask, #0xF000F000

.Ltile:
    str r6, [sp, #TILES]
    ldr codes, [sp, #CODES]
    group
    ldr r4, [sp, #SCALES]
    ldr r5, [r4], #4
    sxtb16 r1, r5
    sxtb16 r5, r5, ror #8
    smulwb r6, r8, r1
    smulwb r7, r9, r5
    smulwt r12, r10, r1
    smulwt lr, r11, r5
    ldr r1, [sp, #CODES_END]
    cmp codes, r1
    beq .Lscale
.Lnext_group:
    stm sp, {r4, r6, r7, r12, lr}
    group
    ldm sp, {r4, r6, r7, r12, lr}
    ldr r5, [r4], #4
    sxtb16 r1, r5
    sxtb16 r5, r5, ror #8
    smlawb r6, r8, r1, r6
    smlawb r7, r9, r5, r7
    smlawt r12, r10, r1, r12
    smlawt lr, r11, r5, lr
    ldr r1, [sp, #CODES_END]
    cmp codes, r1
    bne .Lnext_group

.Lscale:
    str r4, [sp, #SCALES]
    scale_tile
    subs r6, r6, #1
    bne .Ltile

    add sp, sp, #FRAME
    pop {r4-r11, pc}
    .size llm_armv7em_gemv_int4, . - llm_armv7em_gemv_int4

#endif
