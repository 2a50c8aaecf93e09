// The operations of this machine's vector unit, and what is made of them alone.
#ifndef LLM_HOST_OPS_H
#define LLM_HOST_OPS_H

#include "host.h"

#if defined(__x86_64__)
#include "avx2.h"
#else
#include "neon.h"
#endif

// n < 8 floats, then zeros.
LLM_OPERATION f32x8_t f_load_part(const float *p, uint32_t n) {
    float eight[8] = {0.0f};
    memcpy(eight, p, n * sizeof(*p));
    return f_load(eight);
}

LLM_OPERATION void f_store_part(float *p, f32x8_t v, uint32_t n) {
    float eight[8];
    f_store(eight, v);
    memcpy(p, eight, n * sizeof(*p));
}

// As llm_ref_dot. Past the end zeros are added, which changes no sum: one that began at 0.0 is never -0.0.
LLM_OPERATION float f_dot(const float *a, const float *b, uint32_t n) {
    f32x8_t sum = f_set(0.0f);
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        sum = f_add(sum, f_mul(f_load(a + i), f_load(b + i)));
    }
    if (i < n) {
        sum = f_add(sum, f_mul(f_load_part(a + i, n - i), f_load_part(b + i, n - i)));
    }
    return f_fold(sum);
}

#define LLM_HOST_SMALLEST 1e-30f // as in ref: below it a vector is taken as zeros

LLM_OPERATION float max_magnitude(const float *x, uint32_t n) {
    f32x8_t max = f_set(0.0f);
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        max = f_max(f_abs(f_load(x + i)), max);
    }
    if (i < n) {
        max = f_max(f_abs(f_load_part(x + i, n - i)), max);
    }
    return f_largest(max);
}

// Quantizes x [n] to groups of 32 codes, `group_bytes` apart, and completes them where there is room; returns the scale.
LLM_OPERATION float f_quantize(int8_t *codes, uint32_t group_bytes, const float *x, uint32_t n) {
    float max = max_magnitude(x, n);
    if (max < LLM_HOST_SMALLEST) {
        memset(codes, 0, (size_t)llm_n_groups(n) * group_bytes);
        return 0.0f;
    }
    f32x8_t k = f_set(127.0f / max);
    for (uint32_t start = 0; start < n; start += LLM_GROUP, codes += group_bytes) {
        for (uint32_t i = 0; i < LLM_GROUP; i += 8) {
            uint32_t at = start + i;
            f32x8_t values = at + 8 <= n ? f_load(x + at) : at < n ? f_load_part(x + at, n - at)
                                                                   : f_set(0.0f);
            i_store_i8(codes + i, i_round(f_mul(values, k)));
        }
        if (group_bytes != LLM_GROUP) {
            finish_group(codes);
        }
    }
    return max / 127.0f;
}

#endif
