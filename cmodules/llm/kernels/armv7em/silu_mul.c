#include "armv7em.h"

#if LLM_KERNELS_ARMV7EM
#include "../ref/ref.h"
#include "quantize.h"

float llm_armv7em_silu_mul_pairs(float *gate, const float *up, const float *gate_end);

float llm_armv7em_silu_mul_quantize(void *codes, float *gate, const float *up, uint32_t n) {
    uint32_t even = n & ~1u;
    float max = even > 0 ? llm_armv7em_silu_mul_pairs(gate, up, gate + even) : 0.0f;
    if (even < n) {
        llm_ref_silu_mul(gate + even, up + even, 1);
        float last = gate[even] < 0.0f ? -gate[even] : gate[even];
        max = last > max ? last : max;
    }
    return llm_armv7em_quantize_max(codes, gate, n, max);
}

#endif
