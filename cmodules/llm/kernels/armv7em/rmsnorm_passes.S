// The two passes of RMSNorm over a vector.
#include "../sets.h"

#if LLM_KERNELS_ARMV7EM

    .syntax unified
    .thumb
    .text

#include "macros.inc"

// float llm_armv7em_sum_of_squares(const float *x, uint32_t n);
// In the eight partial sums of the reference. n is a multiple of 8, at least 8.
    .global llm_armv7em_sum_of_squares
    .type llm_armv7em_sum_of_squares, %function
    .balign 8
llm_armv7em_sum_of_squares:
    vpush {s16-s23}
    add r1, r0, r1, lsl #2
    mov r2, #0
    .irp s, s0, s1, s2, s3, s4, s5, s6, s7
    vmov \s, r2
    .endr
1:  vldmia r0!, {s8-s15}
    vmul.f32 s16, s8, s8
    vmul.f32 s17, s9, s9
    vmul.f32 s18, s10, s10
    vmul.f32 s19, s11, s11
    vadd.f32 s0, s0, s16
    vmul.f32 s20, s12, s12
    vadd.f32 s1, s1, s17
    vmul.f32 s21, s13, s13
    vadd.f32 s2, s2, s18
    vmul.f32 s22, s14, s14
    vadd.f32 s3, s3, s19
    vmul.f32 s23, s15, s15
    vadd.f32 s4, s4, s20
    cmp r0, r1
    vadd.f32 s5, s5, s21
    vadd.f32 s6, s6, s22
    vadd.f32 s7, s7, s23
    bne 1b
    vpop {s16-s23}
    vadd.f32 s0, s0, s4
    vadd.f32 s1, s1, s5
    vadd.f32 s2, s2, s6
    vadd.f32 s3, s3, s7
    vadd.f32 s0, s0, s2
    vadd.f32 s1, s1, s3
    vadd.f32 s0, s0, s1
    bx lr
    .size llm_armv7em_sum_of_squares, . - llm_armv7em_sum_of_squares

// float llm_armv7em_scale(float *y, const float *x, const float *w, uint32_t n, float r);
// y = (x * r) * w; returns the largest magnitude. n is a multiple of 4, at least 4.
    .global llm_armv7em_scale
    .type llm_armv7em_scale, %function
    .balign 8
llm_armv7em_scale:
    vmov.f32 s1, #1.0
    vsub.f32 s1, s1, s1 // largest magnitudes so far
    vmov s2, s1
    add r3, r0, r3, lsl #2
1:  vldmia r1!, {s4-s7}
    vldmia r2!, {s8-s11}
    vmul.f32 s4, s4, s0
    vmul.f32 s5, s5, s0
    vmul.f32 s6, s6, s0
    vmul.f32 s7, s7, s0
    vmul.f32 s4, s4, s8
    vmul.f32 s5, s5, s9
    vmul.f32 s6, s6, s10
    vmul.f32 s7, s7, s11
    vstmia r0!, {s4-s7}
    vabs.f32 s4, s4
    vabs.f32 s5, s5
    vabs.f32 s6, s6
    vabs.f32 s7, s7
    max s1, s4
    max s2, s5
    max s1, s6
    max s2, s7
    cmp r0, r3
    bne 1b
    max s1, s2
    vmov s0, s1
    bx lr
    .size llm_armv7em_scale, . - llm_armv7em_scale

#endif
