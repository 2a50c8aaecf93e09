// Symmetric int8 quantization of activations: one scale a vector, the largest magnitude becomes 127.
#include "ref.h"

static float max_magnitude(const float *x, uint32_t n) {
    float max = 0.0f;
    for (uint32_t i = 0; i < n; i++) {
        float magnitude = x[i] < 0.0f ? -x[i] : x[i];
        max = magnitude > max ? magnitude : max;
    }
    return max;
}

float llm_ref_quantize(void *codes_out, const float *x, uint32_t n) {
    int8_t *codes = codes_out; // in the order of x
    float max = max_magnitude(x, n);
    memset(codes, 0, (size_t)llm_n_groups(n) * LLM_GROUP);
    if (max < LLM_SMALLEST) {
        return 0.0f;
    }
    float k = 127.0f / max;
    for (uint32_t i = 0; i < n; i++) {
        codes[i] = (int8_t)llm_round(x[i] * k);
    }
    return max / 127.0f;
}

uint16_t llm_ref_quantize_kv(int8_t *codes, const float *x, uint32_t n) {
    float max = max_magnitude(x, n);
    if (max < LLM_SMALLEST) {
        memset(codes, 0, n);
        return 0;
    }
    // Rounded up, so that no code leaves -127 to 127.
    uint32_t bits = llm_float_bits(max / 127.0f) + 0xFFFF;
    float k = 1.0f / llm_bits_float(bits & 0xFFFF0000u);
    for (uint32_t i = 0; i < n; i++) {
        codes[i] = (int8_t)llm_round(x[i] * k);
    }
    return (uint16_t)(bits >> 16);
}
