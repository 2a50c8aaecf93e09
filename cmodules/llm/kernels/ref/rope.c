// Rotary position embedding (Su et al., 2021).
#include "ref.h"

// Pairs of one head: `step` from the first of a pair to the first of the next, `apart` from the first to the second.
static inline void rotate(float *restrict x, const float *restrict cos, const float *restrict sin, uint32_t n_pairs, uint32_t step, uint32_t apart) {
    for (uint32_t j = 0; j < n_pairs; j++, x += step) {
        float a = x[0];
        float b = x[apart];
        x[0] = a * cos[j] - b * sin[j];
        x[apart] = a * sin[j] + b * cos[j];
    }
}

void llm_ref_rope(float *x, const float *cos, const float *sin, uint32_t n_heads, uint32_t head_dim, llm_rope_t rope) {
    for (uint32_t h = 0; h < n_heads; h++, x += head_dim) {
        if (rope == LLM_ROPE_NEIGHBOURS) {
            rotate(x, cos, sin, head_dim / 2, 2, 1);
        } else {
            rotate(x, cos, sin, head_dim / 2, 1, head_dim / 2);
        }
    }
}
