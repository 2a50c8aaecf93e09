#include "host.h"

#if LLM_KERNELS_HOST

#include "ops.h"

LLM_VECTOR float llm_host_quantize(void *codes, const float *x, uint32_t n) {
    return f_quantize(codes, LLM_GROUP_BYTES, x, n);
}

LLM_VECTOR uint16_t llm_host_quantize_kv(int8_t *codes, const float *x, uint32_t n) {
    float max = max_magnitude(x, n);
    if (max < LLM_HOST_SMALLEST) {
        memset(codes, 0, n);
        return 0;
    }
    // Rounded up, so that no code leaves -127 to 127.
    uint32_t bits = llm_float_bits(max / 127.0f) + 0xFFFF;
    float k = 1.0f / llm_bits_float(bits & 0xFFFF0000u);
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        i_store_i8(codes + i, i_round(f_mul(f_load(x + i), f_set(k))));
    }
    for (; i < n; i++) {
        codes[i] = (int8_t)llm_round(x[i] * k);
    }
    return (uint16_t)(bits >> 16);
}

#endif
