#include "host.h"

#if LLM_KERNELS_HOST

#include "ops.h"

LLM_OPERATION f32x8_t silu8(f32x8_t x) {
    f32x8_t exponent = f_sub(f_set(0.0f), f_mul(f_abs(x), f_set(LLM_LOG2_E)));
    f32x8_t e = f_mul(f_of(i_exp2q(exponent)), f_set(1.0f / 1073741824.0f)); // exp(-|x|)
    f32x8_t r = f_div(f_set(1.0f), f_add(f_set(1.0f), e));
    return f_where_positive(x, f_mul(x, r), f_mul(x, f_mul(e, r)));
}

LLM_VECTOR void llm_host_silu_mul(float *gate, const float *up, uint32_t n) {
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        f_store(gate + i, f_mul(silu8(f_load(gate + i)), f_load(up + i)));
    }
    if (i < n) {
        f32x8_t rest = f_mul(silu8(f_load_part(gate + i, n - i)), f_load_part(up + i, n - i));
        f_store_part(gate + i, rest, n - i);
    }
}

float llm_host_silu_mul_quantize(void *codes, float *gate, const float *up, uint32_t n) {
    llm_host_silu_mul(gate, up, n);
    return llm_host_quantize(codes, gate, n);
}

#endif
