// int4 weights times one vector: see armv7em.h for the order of the codes.
#include "../sets.h"

#if LLM_KERNELS_ARMV7EM

    .syntax unified
    .thumb
    .text

    w .req r0 // weights of the group
    scales .req r1 // its four scales
    codes .req r2 // its codes
    mask .req r3 // 0xF000F000
    // r4 to r7: four pairs of codes; r8 to r11: the sum of each row over the group
    word .req r12 // eight weights
    part .req lr // two of them

// On the stack: the accumulators of the four rows while there are groups to come, then what a tile needs once.
    .equ CODES, 16 // the first
    .equ CODES_END, 20
    .equ ROW_SCALES, 24
    .equ Y, 28
    .equ TILES, 32 // still to do
    .equ FRAME, 44

// Eight weights of row \r: word \j of its block.
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

    .macro group
    .irp j, 0, 1, 2, 3
    ldm codes!, {r4-r7}
    row_word 0, r8, \j
    row_word 1, r9, \j
    row_word 2, r10, \j
    row_word 3, r11, \j
    .endr
    ldr r4, [scales], #4
    add w, w, #64
    sxtb16 r5, r4 // scales of rows 0 and 2
    sxtb16 r4, r4, ror #8 // of rows 1 and 3
    .endm

// void llm_armv7em_gemv_int4(float *y, const void *w, const int8_t *scales, const int16_t *codes, const float *row_scales,
//     uint32_t n_groups, uint32_t n_tiles, float x_scale);
    .global llm_armv7em_gemv_int4
    .type llm_armv7em_gemv_int4, %function
    .balign 8
llm_armv7em_gemv_int4:
    push {r4-r11, lr}
    sub sp, sp, #FRAME
    ldr r4, [sp, #FRAME + 36] // row_scales
    ldr r5, [sp, #FRAME + 40] // n_groups
    ldr r6, [sp, #FRAME + 44] // n_tiles
    str r3, [sp, #CODES]
    add r5, r3, r5, lsl #6
    str r5, [sp, #CODES_END]
    str r4, [sp, #ROW_SCALES]
    str r0, [sp, #Y]
    vmov s8, s0 // x_scale
    mov w, r1
    mov scales, r2
    mov mask, #0xF000F000

.Ltile:
    str r6, [sp, #TILES]
    ldr codes, [sp, #CODES]
    group
    smulwb r6, r8, r5
    smulwb r7, r9, r4
    smulwt r12, r10, r5
    smulwt lr, r11, r4
    ldr r4, [sp, #CODES_END]
    cmp codes, r4
    beq .Lscale
.Lnext_group:
    stm sp, {r6, r7, r12, lr}
    group
    ldm sp, {r6, r7, r12, lr}
    smlawb r6, r8, r5, r6
    smlawb r7, r9, r4, r7
    smlawt r12, r10, r5, r12
    smlawt lr, r11, r4, lr
    ldr r4, [sp, #CODES_END]
    cmp codes, r4
    bne .Lnext_group

.Lscale:
    vmov s0, s1, r6, r7
    vmov s2, s3, r12, lr
    ldrd r4, r5, [sp, #ROW_SCALES]
    vldmia r4!, {s4-s7}
    ldr r6, [sp, #TILES]
    vcvt.f32.s32 s0, s0
    vcvt.f32.s32 s1, s1
    vcvt.f32.s32 s2, s2
    vcvt.f32.s32 s3, s3
    vmul.f32 s4, s4, s8
    vmul.f32 s5, s5, s8
    vmul.f32 s6, s6, s8
    vmul.f32 s7, s7, s8
    vmul.f32 s0, s0, s4
    vmul.f32 s1, s1, s5
    vmul.f32 s2, s2, s6
    vmul.f32 s3, s3, s7
    vstmia r5!, {s0-s3}
    strd r4, r5, [sp, #ROW_SCALES]
    subs r6, r6, #1
    bne .Ltile

    add sp, sp, #FRAME
    pop {r4-r11, pc}
    .size llm_armv7em_gemv_int4, . - llm_armv7em_gemv_int4

#endif
