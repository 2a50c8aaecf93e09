// Four rows of int8 weights times one vector: see armv7em.h for the order of the codes.
#include "../sets.h"

#if LLM_KERNELS_ARMV7EM

    .syntax unified
    .thumb
    .text

    w .req r0 // weights of the group
    scales .req r1 // its four scales
    codes .req r2
    // r4 to r7: four pairs of codes; r8 to r11: the sum of each row over the group
    word .req r12 // four weights
    part .req r3 // two of them
    other .req lr // the next four

// Words \j and \j + 4 of a row: the elements of four pairs.
    .macro row_words r, sum, j
    ldr word, [w, #32 * \r + 4 * \j]
    ldr other, [w, #32 * \r + 4 * \j + 16]
    sxtb16 part, word
    sxtb16 word, word, ror #8
    .if \j == 0
    smuad \sum, part, r7
    .else
    smlad \sum, part, r7, \sum
    .endif
    sxtb16 part, other
    smlad \sum, word, r5, \sum
    sxtb16 other, other, ror #8
    smlad \sum, part, r6, \sum
    smlad \sum, other, r4, \sum
    .endm

    .macro words j
    ldm codes!, {r4-r7}
    row_words 0, r8, \j
    row_words 1, r9, \j
    row_words 2, r10, \j
    row_words 3, r11, \j
    .endm

// void llm_armv7em_tile_int8(int32_t acc[4], const void *w, const int8_t *scales, const int16_t *codes, uint32_t n_groups);
    .global llm_armv7em_tile_int8
    .type llm_armv7em_tile_int8, %function
    .balign 8
llm_armv7em_tile_int8:
    push {r0, r4-r11, lr}
    ldr r4, [sp, #40] // n_groups
    add r4, r3, r4, lsl #6 // end of the codes
    mov r5, #0
    mov r6, #0
    push {r4, r5}
    push {r5, r6}
    push {r5, r6} // sp: the four rows' sums, 16: end of the codes, 24: acc
    mov w, r1
    mov scales, r2
    mov codes, r3

1:  words 0
    words 1
    words 2
    words 3
    // The codes are sixteenfold, so a sum is 16 times the dot product.
    ldr r4, [scales], #4
    ldrd r6, r7, [sp]
    asr r8, r8, #4
    sxtb r5, r4
    mla r6, r8, r5, r6
    asr r9, r9, #4
    sxtb r5, r4, ror #8
    mla r7, r9, r5, r7
    strd r6, r7, [sp]
    ldrd r6, r7, [sp, #8]
    asr r10, r10, #4
    sxtb r5, r4, ror #16
    mla r6, r10, r5, r6
    asr r11, r11, #4
    asr r4, r4, #24
    mla r7, r11, r4, r7
    strd r6, r7, [sp, #8]
    ldr word, [sp, #16]
    add w, w, #128
    cmp codes, word
    bne 1b

    pop {r4-r7}
    ldr r0, [sp, #8]
    stm r0, {r4-r7}
    add sp, sp, #8
    pop {r0, r4-r11, pc}
    .size llm_armv7em_tile_int8, . - llm_armv7em_tile_int8

#endif
