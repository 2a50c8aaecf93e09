// The sums of a tile to floats, for a block of vectors.
#include "../sets.h"

#if LLM_KERNELS_ARMV7EM

    .syntax unified
    .thumb
    .text

// void llm_armv7em_scale_tile(float *y, uint32_t y_stride, const int32_t *acc, const float row_scales[4], const float *x_scales,
//     uint32_t n);
// y [n][y_stride], four floats each = acc [n][4] * (row_scales * x_scales [n]). n is at least 1; y_stride in bytes.
    .global llm_armv7em_scale_tile
    .type llm_armv7em_scale_tile, %function
    .balign 8
llm_armv7em_scale_tile:
    push {r4}
    vldm r3, {s4-s7}
    ldrd r3, r4, [sp, #4] // x_scales, n
1:  vldmia r2!, {s0-s3}
    vldmia r3!, {s8}
    vcvt.f32.s32 s0, s0
    vcvt.f32.s32 s1, s1
    vcvt.f32.s32 s2, s2
    vcvt.f32.s32 s3, s3
    vmul.f32 s12, s4, s8
    vmul.f32 s13, s5, s8
    vmul.f32 s14, s6, s8
    vmul.f32 s15, s7, s8
    vmul.f32 s0, s0, s12
    vmul.f32 s1, s1, s13
    vmul.f32 s2, s2, s14
    vmul.f32 s3, s3, s15
    subs r4, r4, #1
    vstm r0, {s0-s3}
    add r0, r0, r1
    bne 1b
    pop {r4}
    bx lr
    .size llm_armv7em_scale_tile, . - llm_armv7em_scale_tile

#endif
