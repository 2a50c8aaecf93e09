// Four rows of int4 weights times one vector: see armv7em.h for the order of the codes.
#include "../sets.h"

#if LLM_KERNELS_ARMV7EM

    .syntax unified
    .thumb
    .text

    w .req r0 // weights of the group
    scales .req r1 // its four scales
    codes .req r2
    mask .req r3 // 0xF000F000
    // r4 to r7: four pairs of codes; r8 to r11: the sum of each row over the group
    word .req r12 // eight weights
    part .req lr // two of them

// Eight weights of a row: word \j of its block.
    .macro row_word r, sum, j
    ldr word, [w, #16 * \r + 4 * \j]
    and part, mask, word
    .if \j == 0
    smuad \sum, part, r4
    .else
    smlad \sum, part, r4, \sum
    .endif
    and part, mask, word, lsl #4
    smlad \sum, part, r5, \sum
    and part, mask, word, lsl #8
    smlad \sum, part, r6, \sum
    and part, mask, word, lsl #12
    smlad \sum, part, r7, \sum
    .endm

    .macro words j
    ldm codes!, {r4-r7}
    row_word 0, r8, \j
    row_word 1, r9, \j
    row_word 2, r10, \j
    row_word 3, r11, \j
    .endm

// void llm_armv7em_tile_int4(int32_t acc[4], const void *w, const int8_t *scales, const int16_t *codes, uint32_t n_groups);
    .global llm_armv7em_tile_int4
    .type llm_armv7em_tile_int4, %function
    .balign 8
llm_armv7em_tile_int4:
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
    mov mask, #0xF000F000

1:  words 0
    words 1
    words 2
    words 3
    ldr r4, [scales], #4
    ldrd r6, r7, [sp]
    sxtb16 r5, r4 // scales of rows 0 and 2
    sxtb16 r4, r4, ror #8 // of rows 1 and 3
    smlawb r6, r8, r5, r6
    smlawb r7, r9, r4, r7
    strd r6, r7, [sp]
    ldrd r6, r7, [sp, #8]
    smlawt r6, r10, r5, r6
    smlawt r7, r11, r4, r7
    strd r6, r7, [sp, #8]
    ldr word, [sp, #16]
    add w, w, #64
    cmp codes, word
    bne 1b

    pop {r4-r7}
    ldr r0, [sp, #8]
    stm r0, {r4-r7}
    add sp, sp, #8
    pop {r0, r4-r11, pc}
    .size llm_armv7em_tile_int4, . - llm_armv7em_tile_int4

#endif
