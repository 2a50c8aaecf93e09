// SiLU (Hendrycks and Gimpel, 2016) of the gate times the other half of a gated feed-forward block (Shazeer, 2020).
#include "ref.h"

static float silu(float x) {
    float magnitude = x < 0.0f ? -x : x;
    float e = (float)llm_exp2q(-(magnitude * LLM_LOG2_E)) * (1.0f / 1073741824.0f); // exp(-|x|)
    float r = 1.0f / (1.0f + e);
    return x >= 0.0f ? x * r : x * (e * r);
}

void llm_ref_silu_mul(float *gate, const float *up, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        gate[i] = silu(gate[i]) * up[i];
    }
}

float llm_ref_silu_mul_quantize(void *codes, float *gate, const float *up, uint32_t n) {
    llm_ref_silu_mul(gate, up, n);
    return llm_ref_quantize(codes, gate, n);
}
