// The sums of a tile to floats, for a block of vectors.
#include "../sets.h"

#if LLM_KERNELS_ARMV7EM

    .syntax unified
    .thumb
    .text

// void llm_armv7em_scale_tile(float *y, uint32_t y_stride, const int32_t *acc, const float row_scales[4], const float *x_scales,
//     uint32_t n_pairs);
// y [2 * n_pairs][y_stride bytes], four floats each = acc [2 * n_pairs][4] * (row_scales * x_scales [2 * n_pairs]). n_pairs is at
// least 1.
    .global llm_armv7em_scale_tile
    .type llm_armv7em_scale_tile, %function
    .balign 8
llm_armv7em_scale_tile:
    push {r4}
    vpush {s16-s17}
    vldm r3, {s0-s3}
    ldrd r3, r4, [sp, #12] // x_scales, n_pairs
1:  vldmia r3!, {s4-s5}
    vldmia r2!, {s6-s13}
    .irp s, s6, s7, s8, s9, s10, s11, s12, s13
    vcvt.f32.s32 \s, \s
    .endr
    vmul.f32 s14, s0, s4
    vmul.f32 s15, s1, s4
    vmul.f32 s16, s2, s4
    vmul.f32 s17, s3, s4
    vmul.f32 s6, s6, s14
    vmul.f32 s7, s7, s15
    vmul.f32 s8, s8, s16
    vmul.f32 s9, s9, s17
    vmul.f32 s14, s0, s5
    vmul.f32 s15, s1, s5
    vmul.f32 s16, s2, s5
    vmul.f32 s17, s3, s5
    vmul.f32 s10, s10, s14
    vmul.f32 s11, s11, s15
    vmul.f32 s12, s12, s16
    vmul.f32 s13, s13, s17
    subs r4, r4, #1
    vstm r0, {s6-s9}
    add r0, r0, r1
    vstm r0, {s10-s13}
    add r0, r0, r1
    bne 1b
    vpop {s16-s17}
    pop {r4}
    bx lr
    .size llm_armv7em_scale_tile, . - llm_armv7em_scale_tile

#endif
