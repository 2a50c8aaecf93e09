// SiLU of the gate times the other half, two elements at a time.
#include "../sets.h"

#if LLM_KERNELS_ARMV7EM

    .syntax unified
    .thumb
    .text

#include "macros.inc"

    gate .req r0
    up .req r1
    // s11: end of the gate

// \d = \s if \x >= 0, else \d. VSEL is of FPv5.
    .macro keep_if_negative d, s, x
    vcmp.f32 \x, #0
    vmrs APSR_nzcv, fpscr
#if __ARM_FP & 8
    vselge.f32 \d, \s, \d
#else
    it ge
    vmovge.f32 \d, \s
#endif
    .endm

// float llm_armv7em_silu_mul_pairs(float *gate, const float *up, const float *gate_end);
// gate = silu(gate) * up for an even number of elements, at least two; returns the largest magnitude.
    .global llm_armv7em_silu_mul_pairs
    .type llm_armv7em_silu_mul_pairs, %function
    .balign 8
llm_armv7em_silu_mul_pairs:
    push {r4-r11, lr}
    vmov s11, r2
    exp2q_constants
    ldr r3, =0x3FB8AA3B // log2(e)
    vmov s12, r3
    vmov.f32 s13, #1.0
    vsub.f32 s14, s13, s13 // largest magnitude so far
    vmov s15, s14

1:  vldm gate, {s0-s1}
    vabs.f32 s2, s0
    vabs.f32 s3, s1
    vnmul.f32 s2, s2, s12
    vnmul.f32 s3, s3, s12
    vcvt.s32.f32 s2, s2, #24
    vcvt.s32.f32 s3, s3, #24
    exp2q s2, s3, r2, r3, r10, r11, r12, lr
    vcvt.f32.s32 s2, s2, #30 // exp(-|x|)
    vcvt.f32.s32 s3, s3, #30
    vadd.f32 s4, s2, s13
    vadd.f32 s5, s3, s13
    vdiv.f32 s4, s13, s4
    vdiv.f32 s5, s13, s5
    vldmia up!, {s6-s7}
    vmul.f32 s2, s2, s4
    vmul.f32 s3, s3, s5
    keep_if_negative s2, s4, s0
    keep_if_negative s3, s5, s1
    vmul.f32 s0, s0, s2
    vmul.f32 s1, s1, s3
    vmul.f32 s0, s0, s6
    vmul.f32 s1, s1, s7
    vstmia gate!, {s0-s1}
    vabs.f32 s0, s0
    vabs.f32 s1, s1
    max s14, s0
    max s15, s1
    vmov r2, s11
    cmp gate, r2
    bne 1b

    max s14, s15
    vmov s0, s14
    pop {r4-r11, pc}
    .ltorg
    .size llm_armv7em_silu_mul_pairs, . - llm_armv7em_silu_mul_pairs

#endif
