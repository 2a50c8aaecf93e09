// The passes of quantization: the largest magnitude, then codes, for matrices in the order of armv7em.h or for the cache.
#include "../sets.h"

#if LLM_KERNELS_ARMV7EM

    .syntax unified
    .thumb
    .text

#include "macros.inc"

// float llm_armv7em_max_magnitude(const float *x, uint32_t n);
    .global llm_armv7em_max_magnitude
    .type llm_armv7em_max_magnitude, %function
    .balign 8
llm_armv7em_max_magnitude:
    vmov.f32 s0, #1.0
    vsub.f32 s0, s0, s0 // largest magnitudes so far
    vmov s1, s0
    subs r1, r1, #4
    blo 2f
1:  vldmia r0!, {s2-s5}
    .irp s, s2, s3, s4, s5
    vabs.f32 \s, \s
    .endr
    max s0, s2
    max s1, s3
    max s0, s4
    max s1, s5
    subs r1, r1, #4
    bhs 1b
2:  adds r1, r1, #4
    beq 4f
3:  vldmia r0!, {s2}
    vabs.f32 s2, s2
    max s0, s2
    subs r1, r1, #1
    bne 3b
4:  max s0, s1
    bx lr
    .size llm_armv7em_max_magnitude, . - llm_armv7em_max_magnitude

// void llm_armv7em_quantize_bytes(int8_t *codes, const float *x, uint32_t n_fours, float k);
// codes [4 * n_fours] = round(x * k), n_fours at least 1. codes need not be aligned.
    .global llm_armv7em_quantize_bytes
    .type llm_armv7em_quantize_bytes, %function
    .balign 8
llm_armv7em_quantize_bytes:
    push {r4, r5}
    vmov s4, s0
1:  vldmia r1!, {s0-s3}
    .irp s, s0, s1, s2, s3
    vmul.f32 \s, \s, s4
    .endr
    .irp s, s0, s1, s2, s3
    vcvtr.s32.f32 \s, \s
    .endr
    vmov r3, r4, s0, s1
    vmov r5, r12, s2, s3
    bfi r3, r4, #8, #8
    bfi r5, r12, #8, #8
    pkhbt r3, r3, r5, lsl #16
    subs r2, r2, #1
    str r3, [r0], #4
    bne 1b
    pop {r4, r5}
    bx lr
    .size llm_armv7em_quantize_bytes, . - llm_armv7em_quantize_bytes

// void llm_armv7em_quantize_groups(int16_t *codes, const float *x, uint32_t n_groups, float k);
// codes = 16 * round(x * k), n_groups at least 1.
    .global llm_armv7em_quantize_groups
    .type llm_armv7em_quantize_groups, %function
    .balign 8
llm_armv7em_quantize_groups:
    push {r4-r11, lr}
    vmov s8, s0
    add r12, r0, r2, lsl #6 // end of the codes
1:  add r3, r1, #64 // elements 16 and up
    mov r2, #4
2:  vldmia r1!, {s0-s3}
    vldmia r3!, {s4-s7}
    .irp s, s0, s1, s2, s3, s4, s5, s6, s7
    vmul.f32 \s, \s, s8
    .endr
    .irp s, s0, s1, s2, s3, s4, s5, s6, s7
    vcvtr.s32.f32 \s, \s
    .endr
    vmov r5, r4, s0, s1
    vmov r9, r10, s2, s3
    vmov r7, r6, s4, s5
    vmov r11, lr, s6, s7
    lsl r5, r5, #4
    lsl r4, r4, #4
    lsl r7, r7, #4
    lsl r6, r6, #4
    pkhbt r5, r5, r9, lsl #20 // 4j and 4j + 2
    pkhbt r4, r4, r10, lsl #20 // 4j + 1 and 4j + 3
    pkhbt r7, r7, r11, lsl #20 // 4j + 16 and 4j + 18
    pkhbt r6, r6, lr, lsl #20 // 4j + 17 and 4j + 19
    subs r2, r2, #1
    stm r0!, {r4-r7}
    bne 2b
    mov r1, r3
    cmp r0, r12
    bne 1b
    pop {r4-r11, pc}
    .size llm_armv7em_quantize_groups, . - llm_armv7em_quantize_groups

#endif
