#include "rvv.h"

#if LLM_KERNELS_RVV && !defined(__riscv_xtheadvector)

#include "ops.h"

#define SMALLEST 1e-30f // as in ref: below it a vector is taken as zeros

static float max_magnitude(const float *x, uint32_t n) {
    vfloat32m1_t max = __riscv_vfmv_s_f_f32m1(0.0f, 1);
    for (size_t vl; n > 0; n -= vl, x += vl) {
        vl = __riscv_vsetvl_e32m4(n);
        max = __riscv_vfredmax(__riscv_vfabs(__riscv_vle32_v_f32m4(x, vl), vl), max, vl);
    }
    return __riscv_vfmv_f(max);
}

static void round_to_codes(int8_t *codes, const float *x, uint32_t n, float k) {
    for (size_t vl; n > 0; n -= vl, x += vl, codes += vl) {
        vl = __riscv_vsetvl_e32m4(n);
        vint32m4_t rounded = round_all(__riscv_vfmul(__riscv_vle32_v_f32m4(x, vl), k, vl), vl);
        __riscv_vse8(codes, __riscv_vncvt_x(__riscv_vncvt_x(rounded, vl), vl), vl);
    }
}

float llm_rvv_quantize(void *codes, const float *x, uint32_t n) {
    float max = max_magnitude(x, n);
    if (!(max >= SMALLEST)) {
        memset(codes, 0, (size_t)llm_n_groups(n) * LLM_GROUP);
        return 0.0f;
    }
    round_to_codes(codes, x, n, 127.0f / max);
    memset((int8_t *)codes + n, 0, (size_t)llm_n_groups(n) * LLM_GROUP - n);
    return max / 127.0f;
}

uint16_t llm_rvv_quantize_kv(int8_t *codes, const float *x, uint32_t n) {
    float max = max_magnitude(x, n);
    if (!(max >= SMALLEST)) {
        memset(codes, 0, n);
        return 0;
    }
    // Rounded up, so that no code leaves -127 to 127.
    uint32_t bits = llm_float_bits(max / 127.0f) + 0xFFFF;
    round_to_codes(codes, x, n, 1.0f / llm_bits_float(bits & 0xFFFF0000u));
    return (uint16_t)(bits >> 16);
}

#endif
