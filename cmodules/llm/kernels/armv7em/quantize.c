// Activations to codes: armv7em.h has their form.
#include "armv7em.h"

#if LLM_KERNELS_ARMV7EM
#include "fpu.h"
#include "quantize.h"

static float max_magnitude(const float *x, uint32_t n) {
    float a = 0.0f;
    float b = 0.0f;
    uint32_t i = 0;
    for (; i + 4 <= n; i += 4) {
        a = llm_armv7em_max(a, llm_armv7em_abs(x[i]));
        b = llm_armv7em_max(b, llm_armv7em_abs(x[i + 1]));
        a = llm_armv7em_max(a, llm_armv7em_abs(x[i + 2]));
        b = llm_armv7em_max(b, llm_armv7em_abs(x[i + 3]));
    }
    for (; i < n; i++) {
        a = llm_armv7em_max(a, llm_armv7em_abs(x[i]));
    }
    return llm_armv7em_max(a, b);
}

// Two codes, sixteenfold.
static uint32_t pair(float low, float high) {
    uint32_t a = (uint32_t)llm_armv7em_round(low) << 4;
    uint32_t b = (uint32_t)llm_armv7em_round(high);
    __asm__("pkhbt %0, %0, %1, lsl #20" : "+r"(a) : "r"(b));
    return a;
}

static void quantize_group(uint32_t *codes, const float *x, float k) {
    for (uint32_t j = 0; j < 4; j++, x += 4, codes += 4) {
        codes[0] = pair(x[17] * k, x[19] * k);
        codes[1] = pair(x[1] * k, x[3] * k);
        codes[2] = pair(x[16] * k, x[18] * k);
        codes[3] = pair(x[0] * k, x[2] * k);
    }
}

float llm_armv7em_quantize_max(void *codes_out, const float *x, uint32_t n, float max) {
    uint32_t *codes = codes_out;
    if (max < LLM_SMALLEST) {
        memset(codes, 0, (size_t)llm_n_groups(n) * LLM_GROUP * sizeof(int16_t));
        return 0.0f;
    }
    float k = 127.0f / max;
    uint32_t i = 0;
    for (; i + LLM_GROUP <= n; i += LLM_GROUP, codes += LLM_GROUP / 2) {
        quantize_group(codes, x + i, k);
    }
    if (i < n) {
        float last[LLM_GROUP] = {0.0f};
        memcpy(last, x + i, (n - i) * sizeof(*x));
        quantize_group(codes, last, k);
    }
    return max / 127.0f;
}

float llm_armv7em_quantize(void *codes, const float *x, uint32_t n) {
    return llm_armv7em_quantize_max(codes, x, n, max_magnitude(x, n));
}

uint16_t llm_armv7em_quantize_kv(int8_t *codes, const float *x, uint32_t n) {
    float max = max_magnitude(x, n);
    if (max < LLM_SMALLEST) {
        memset(codes, 0, n);
        return 0;
    }
    uint32_t bits = llm_float_bits(max / 127.0f) + 0xFFFF;
    float k = 1.0f / llm_bits_float(bits & 0xFFFF0000u);
    for (uint32_t i = 0; i < n; i++) {
        codes[i] = (int8_t)llm_armv7em_round(x[i] * k);
    }
    return (uint16_t)(bits >> 16);
}

#endif
