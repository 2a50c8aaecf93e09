// Activations to codes: armv7em.h has their form.
#include "armv7em.h"

#if LLM_KERNELS_ARMV7EM
#include "quantize.h"

float llm_armv7em_max_magnitude(const float *x, uint32_t n);
void llm_armv7em_quantize_groups(int16_t *codes, const float *x, uint32_t n_groups, float k);
void llm_armv7em_quantize_bytes(int8_t *codes, const float *x, uint32_t n_fours, float k);

float llm_armv7em_quantize_max(void *codes_out, const float *x, uint32_t n, float max) {
    int16_t *codes = codes_out;
    if (max < LLM_SMALLEST) {
        memset(codes, 0, (size_t)llm_n_groups(n) * LLM_GROUP * sizeof(*codes));
        return 0.0f;
    }
    float k = 127.0f / max;
    uint32_t whole = n / LLM_GROUP * LLM_GROUP;
    if (whole > 0) {
        llm_armv7em_quantize_groups(codes, x, whole / LLM_GROUP, k);
    }
    if (whole < n) {
        float last[LLM_GROUP] = {0.0f};
        memcpy(last, x + whole, (n - whole) * sizeof(*x));
        llm_armv7em_quantize_groups(codes + whole, last, 1, k);
    }
    return max / 127.0f;
}

float llm_armv7em_quantize(void *codes, const float *x, uint32_t n) {
    return llm_armv7em_quantize_max(codes, x, n, llm_armv7em_max_magnitude(x, n));
}

uint16_t llm_armv7em_quantize_kv(int8_t *codes, const float *x, uint32_t n) {
    float max = llm_armv7em_max_magnitude(x, n);
    if (max < LLM_SMALLEST) {
        memset(codes, 0, n);
        return 0;
    }
    uint32_t bits = llm_float_bits(max / 127.0f) + 0xFFFF;
    float k = 1.0f / llm_bits_float(bits & 0xFFFF0000u);
    uint32_t whole = n & ~3u;
    if (whole > 0) {
        llm_armv7em_quantize_bytes(codes, x, whole / 4, k);
    }
    for (uint32_t i = whole; i < n; i++) {
        codes[i] = (int8_t)llm_round(x[i] * k);
    }
    return (uint16_t)(bits >> 16);
}

#endif
