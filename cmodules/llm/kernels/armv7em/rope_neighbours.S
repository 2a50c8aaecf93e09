// Rotates pairs of neighbours.
#include "../sets.h"

#if LLM_KERNELS_ARMV7EM

    .syntax unified
    .thumb
    .text

// void llm_armv7em_rope_neighbours(float *x, const float *cos, const float *sin, uint32_t n_pairs);
// One head; n_pairs is even, at least 2.
    .global llm_armv7em_rope_neighbours
    .type llm_armv7em_rope_neighbours, %function
    .balign 8
llm_armv7em_rope_neighbours:
1:  vldm r0, {s0-s3}
    vldmia r1!, {s4-s5}
    vldmia r2!, {s6-s7}
    vmul.f32 s8, s0, s4
    vmul.f32 s9, s1, s6
    vmul.f32 s10, s0, s6
    vmul.f32 s11, s1, s4
    vmul.f32 s12, s2, s5
    vmul.f32 s13, s3, s7
    vmul.f32 s14, s2, s7
    vmul.f32 s15, s3, s5
    vsub.f32 s0, s8, s9
    vadd.f32 s1, s10, s11
    vsub.f32 s2, s12, s13
    vadd.f32 s3, s14, s15
    subs r3, r3, #2
    vstmia r0!, {s0-s3}
    bne 1b
    bx lr
    .size llm_armv7em_rope_neighbours, . - llm_armv7em_rope_neighbours

#endif
