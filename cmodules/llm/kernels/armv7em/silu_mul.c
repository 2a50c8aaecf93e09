#include "armv7em.h"

#if LLM_KERNELS_ARMV7EM
#include "fpu.h"
#include "quantize.h"

float llm_armv7em_silu_mul_quantize(void *codes, float *gate, const float *up, uint32_t n) {
    float max = 0.0f;
    for (uint32_t i = 0; i < n; i++) {
        float x = gate[i];
        float e = (float)llm_armv7em_exp2q(-(llm_armv7em_abs(x) * LLM_LOG2_E)) * (1.0f / 1073741824.0f);
        float r = 1.0f / (1.0f + e);
        float value = (x * (x >= 0.0f ? r : e * r)) * up[i];
        max = llm_armv7em_max(max, llm_armv7em_abs(value));
        gate[i] = value;
    }
    return llm_armv7em_quantize_max(codes, gate, n, max);
}

#endif
