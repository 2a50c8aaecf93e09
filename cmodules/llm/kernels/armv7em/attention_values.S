// Four elements of the values, weighted for two queries. One loop for each width of a head, as the step from one position to the
// next is part of the instructions.
#include "../sets.h"

#if LLM_KERNELS_ARMV7EM

    .syntax unified
    .thumb
    .text

    v .req r0
    weights .req r1
    weight0 .req r2 // of the first query
    weight1 .req r3 // of the second
    // r4 to r7: sums of the first query, elements 0, 2, 1, 3; r8 to r11: of the second
    word .req r12 // four elements
    part .req lr // two of them

    .macro position head_dim
    ldrd weight0, weight1, [weights], #8
    ldr word, [v], #\head_dim
    sxtb16 part, word
    sxtb16 word, word, ror #8
    smlabb r4, part, weight0, r4
    smlabb r8, part, weight1, r8
    smlatb r5, part, weight0, r5
    smlatb r9, part, weight1, r9
    smlabb r6, word, weight0, r6
    smlabb r10, word, weight1, r10
    smlatb r7, word, weight0, r7
    smlatb r11, word, weight1, r11
    .endm

// void llm_armv7em_values_N(const int8_t *v, const int32_t *weights, uint32_t n_positions, int32_t sums[8]);
// v: four elements of a head of N at the first position; weights: two, of 15 bits, for each position; n_positions is at least 1.
// sums: elements 0, 2, 1, 3 of the first query, then of the second; these positions are added to them.
    .macro values head_dim
    .global llm_armv7em_values_\head_dim
    .type llm_armv7em_values_\head_dim, %function
    .balign 8
llm_armv7em_values_\head_dim:
    push {r3, r4-r11, lr}
    add r12, weights, r2, lsl #3 // end of the weights
    push {r12}
    ldm r3, {r4-r11}
    tst r2, #1
    beq 1f
    position \head_dim
    ldr word, [sp]
    cmp weights, word
    beq 2f
1:  position \head_dim
    position \head_dim
    ldr word, [sp]
    cmp weights, word
    bne 1b
2:  ldr r3, [sp, #4]
    stm r3, {r4-r11}
    add sp, sp, #8
    pop {r4-r11, pc}
    .size llm_armv7em_values_\head_dim, . - llm_armv7em_values_\head_dim
    .endm

    .irp head_dim, 8, 16, 32, 48, 64, 96, 128
    values \head_dim
    .endr

#endif
