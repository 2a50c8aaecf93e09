// Four elements of the values, weighted for two queries. One loop for each width of a head, as the step from one position to the
// next is part of the instructions.
#include "../sets.h"

#if LLM_KERNELS_ARMV7EM

    .syntax unified
    .thumb
    .text

    v .req r0
    weights .req r1
    weight0 .req r2 // of the first query, two positions
    weight1 .req r3 // of the second
    // r4 to r7: sums of the first query, elements 0, 2, 1, 3; r8 to r11: of the second
    word .req r12 // four elements
    part .req lr // two of them

// One position; \half of the weights is its: b (the lower) or t.
    .macro position head_dim, half
    ldr word, [v], #\head_dim
    sxtb16 part, word
    sxtb16 word, word, ror #8
    smlab\half r4, part, weight0, r4
    smlab\half r8, part, weight1, r8
    smlat\half r5, part, weight0, r5
    smlat\half r9, part, weight1, r9
    smlab\half r6, word, weight0, r6
    smlab\half r10, word, weight1, r10
    smlat\half r7, word, weight0, r7
    smlat\half r11, word, weight1, r11
    .endm

// void llm_armv7em_values_N(const int8_t *v, const int32_t *weights, uint32_t n_positions, int32_t sums[8]);
// v: four elements of a head of N at the first position; weights: two words, then two unused, for each two positions; n_positions
// is at least 1. sums: elements 0, 2, 1, 3 of the first query, then of the second.
    .macro values head_dim
    .global llm_armv7em_values_\head_dim
    .type llm_armv7em_values_\head_dim, %function
    .balign 8
llm_armv7em_values_\head_dim:
    push {r2, r3, r4-r11, lr}
    bic r2, r2, #1
    add r2, weights, r2, lsl #3
    push {r2} // sp: end of the weights of whole pairs, 4: n_positions, 8: sums
    .irp sum, r4, r5, r6, r7, r8, r9, r10, r11
    mov \sum, #0
    .endr
    cmp weights, r2
    beq 2f
1:  ldrd weight0, weight1, [weights], #16
    position \head_dim, b
    position \head_dim, t
    ldr word, [sp]
    cmp weights, word
    bne 1b
2:  ldr word, [sp, #4]
    tst word, #1
    beq 3f
    ldrd weight0, weight1, [weights]
    position \head_dim, b
3:  ldr r3, [sp, #8]
    stm r3, {r4-r11}
    pop {r1-r3, r4-r11, pc}
    .size llm_armv7em_values_\head_dim, . - llm_armv7em_values_\head_dim
    .endm

    .irp head_dim, 8, 16, 32, 48, 64, 96, 128
    values \head_dim
    .endr

#endif
