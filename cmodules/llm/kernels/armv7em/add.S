#include "../sets.h"

#if LLM_KERNELS_ARMV7EM

    .syntax unified
    .thumb
    .text

// void llm_armv7em_add(float *x, const float *y, uint32_t n);
    .global llm_armv7em_add
    .type llm_armv7em_add, %function
    .balign 8
llm_armv7em_add:
    subs r2, r2, #8
    blo 2f
1:  vldm r0, {s0-s7}
    vldmia r1!, {s8-s15}
    vadd.f32 s0, s0, s8
    vadd.f32 s1, s1, s9
    vadd.f32 s2, s2, s10
    vadd.f32 s3, s3, s11
    vadd.f32 s4, s4, s12
    vadd.f32 s5, s5, s13
    vadd.f32 s6, s6, s14
    vadd.f32 s7, s7, s15
    subs r2, r2, #8
    vstmia r0!, {s0-s7}
    bhs 1b
2:  adds r2, r2, #8
    beq 4f
3:  vldr s0, [r0]
    vldmia r1!, {s1}
    subs r2, r2, #1
    vadd.f32 s0, s0, s1
    vstmia r0!, {s0}
    bne 3b
4:  bx lr
    .size llm_armv7em_add, . - llm_armv7em_add

#endif
