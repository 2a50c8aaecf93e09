// int8 weights times one vector: see armv7em.h for the order of the codes. Its twin gemv_int4.S says what is where.
#include "../sets.h"

#if LLM_KERNELS_ARMV7EM

    .syntax unified
    .thumb
    .text

#include "macros.inc"

    w .req r0 // weights of the group, less 8 bytes
    scales .req r1 // its four scales
    codes .req r2 // its codes
    part .req r3 // two weights
    // r4 to r7: four pairs of codes; r8 to r11: the sum of each row over the group
    word .req r12 // four weights
    next .req lr // the four weights that follow

    .equ CODES, 16
    .equ CODES_END, 20
    .equ ROW_SCALES, 24
    .equ Y, 28
    .equ TILES, 32
    .equ FRAME, 44

// Eight weights of row \r, at \byte of its block. Those of the last row at byte 24 are the last of the group.
    .macro row_words byte, r, sum
    .if \r == 3 && \byte == 24
    ldrd word, next, [w, #128]!
    .else
    ldrd word, next, [w, #32 * \r + \byte + 8]
    .endif
    sxtb16 part, word, ror #8
    sxtb16 word, word
    .if \byte == 0
    smuad \sum, part, r4
    .else
    smlad \sum, part, r4, \sum
    .endif
    sxtb16 part, next, ror #8
    smlad \sum, word, r5, \sum
    sxtb16 next, next
    smlad \sum, part, r6, \sum
    smlad \sum, next, r7, \sum
    .endm

// Eight columns of all rows, whose codes lie in two halves.
    .macro columns byte, codes_0, codes_1
    ldrd r6, r7, [codes, #\codes_1]
    ldrd r4, r5, [codes, #\codes_0]
    row_words \byte, 0, r8
    row_words \byte, 1, r9
    row_words \byte, 2, r10
    row_words \byte, 3, r11
    .endm

    .macro group
    columns 0, 0, 16
    columns 8, 32, 48
    columns 16, 8, 24
    columns 24, 40, 56
    ldr r3, [scales], #4
    add codes, codes, #64
    asr r8, r8, #4 // the codes are sixteenfold
    asr r9, r9, #4
    asr r10, r10, #4
    asr r11, r11, #4
    sxtb r4, r3
    sxtb r5, r3, ror #8
    .endm

// void llm_armv7em_gemv_int8(float *y, const void *w, const int8_t *scales, const int16_t *codes, const float *row_scales,
//     uint32_t n_groups, uint32_t n_tiles, float x_scale);
    .global llm_armv7em_gemv_int8
    .type llm_armv7em_gemv_int8, %function
    .balign 8
llm_armv7em_gemv_int8:
    begin_tiles
    sub w, r1, #8
    mov scales, r2

.Ltile:
    str r6, [sp, #TILES]
    ldr codes, [sp, #CODES]
    group
    mul r6, r8, r4
    sxtb r4, r3, ror #16
    mul r7, r9, r5
    asr r5, r3, #24
    mul r12, r10, r4
    mul lr, r11, r5
    ldr r4, [sp, #CODES_END]
    cmp codes, r4
    beq .Lscale
.Lnext_group:
    stm sp, {r6, r7, r12, lr}
    group
    ldm sp, {r6, r7, r12, lr}
    mla r6, r8, r4, r6
    sxtb r4, r3, ror #16
    mla r7, r9, r5, r7
    asr r5, r3, #24
    mla r12, r10, r4, r12
    mla lr, r11, r5, lr
    ldr r4, [sp, #CODES_END]
    cmp codes, r4
    bne .Lnext_group

.Lscale:
    scale_tile
    subs r6, r6, #1
    bne .Ltile

    add sp, sp, #FRAME
    pop {r4-r11, pc}
    .size llm_armv7em_gemv_int8, . - llm_armv7em_gemv_int8

#endif
