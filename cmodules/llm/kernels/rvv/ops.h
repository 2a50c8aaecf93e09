// What the functions of this set share.
#ifndef LLM_RVV_OPS_H
#define LLM_RVV_OPS_H

#include "rvv.h"

#if defined(__riscv_xtheadvector)
#include <riscv_th_vector.h>
#else
#include <riscv_vector.h>

// As llm_exp2q.
static inline vint32m4_t exp2q(vfloat32m4_t exponent, size_t vl) {
    vfloat32m4_t clamped = __riscv_vfmax_vf_f32m4(exponent, -31.0f, vl); // NaN gives the other
    vint32m4_t fixed = __riscv_vfcvt_rtz_x_f_v_i32m4(__riscv_vfmul_vf_f32m4(clamped, 16777216.0f, vl), vl);
    vint32m4_t fraction = __riscv_vsll_vx_i32m4(__riscv_vand_vx_i32m4(fixed, 0xFFFFFF, vl), 7, vl);
    vint32m4_t n = __riscv_vrsub_vx_i32m4(__riscv_vsra_vx_i32m4(fixed, 24, vl), 0, vl);
    vint32m4_t r = __riscv_vadd_vx_i32m4(__riscv_vmulh_vx_i32m4(fraction, 64154101, vl), 154911401, vl);
    r = __riscv_vadd_vx_i32m4(__riscv_vmulh_vv_i32m4(fraction, r, vl), 479317604, vl);
    r = __riscv_vadd_vx_i32m4(__riscv_vmulh_vv_i32m4(fraction, r, vl), 1031498459, vl);
    r = __riscv_vadd_vx_i32m4(__riscv_vmulh_vv_i32m4(fraction, r, vl), 1488531108, vl);
    r = __riscv_vadd_vx_i32m4(__riscv_vmulh_vv_i32m4(fraction, r, vl), 1073741824, vl);
    return __riscv_vsra_vv_i32m4(r, __riscv_vreinterpret_v_i32m4_u32m4(n), vl);
}

// As llm_round.
static inline vint32m4_t round_all(vfloat32m4_t v, size_t vl) {
    vfloat32m4_t shifted = __riscv_vfadd_vf_f32m4(v, 12582912.0f, vl);
    return __riscv_vsub_vx_i32m4(__riscv_vreinterpret_v_f32m4_i32m4(shifted), 0x4B400000, vl);
}

// bfloat16 as floats.
static inline vfloat32m4_t load_bf16(const uint16_t *p, size_t vl) {
    vuint32m4_t bits = __riscv_vzext_vf2_u32m4(__riscv_vle16_v_u16m2(p, vl), vl);
    return __riscv_vreinterpret_v_u32m4_f32m4(__riscv_vsll_vx_u32m4(bits, 16, vl));
}

// The sum of eight lanes, halves folded, as docs/arithmetic.md says of lanes(v).
static inline float fold(vfloat32m2_t v) {
    v = __riscv_vfadd_vv_f32m2(v, __riscv_vslidedown_vx_f32m2(v, 4, 8), 4);
    v = __riscv_vfadd_vv_f32m2(v, __riscv_vslidedown_vx_f32m2(v, 2, 4), 2);
    v = __riscv_vfadd_vv_f32m2(v, __riscv_vslidedown_vx_f32m2(v, 1, 2), 1);
    return __riscv_vfmv_f_s_f32m2_f32(v);
}

// As llm_ref_dot. Lanes past the end keep their sums.
static inline float dot(const float *a, const float *b, uint32_t n) {
    vfloat32m2_t sum = __riscv_vfmv_v_f_f32m2(0.0f, 8);
    for (uint32_t i = 0; i < n; i += 8) {
        size_t vl = n - i < 8 ? n - i : 8;
        vfloat32m2_t product = __riscv_vfmul_vv_f32m2(__riscv_vle32_v_f32m2(a + i, vl), __riscv_vle32_v_f32m2(b + i, vl), vl);
        sum = __riscv_vfadd_vv_f32m2_tu(sum, sum, product, vl);
    }
    return fold(sum);
}

#endif

#endif
