// Rotary position embedding (Su et al., 2021).
#include "ref.h"

void llm_ref_rope(float *x, const float *cos, const float *sin, uint32_t n_heads, uint32_t head_dim, llm_rope_t rope) {
    uint32_t n_pairs = head_dim / 2;
    uint32_t step = rope == LLM_ROPE_NEIGHBOURS ? 2 : 1; // from one pair to the next
    uint32_t apart = rope == LLM_ROPE_NEIGHBOURS ? 1 : n_pairs; // from the first of a pair to the second
    for (uint32_t h = 0; h < n_heads; h++, x += head_dim) {
        for (uint32_t j = 0; j < n_pairs; j++) {
            float a = x[j * step];
            float b = x[j * step + apart];
            x[j * step] = a * cos[j] - b * sin[j];
            x[j * step + apart] = a * sin[j] + b * cos[j];
        }
    }
}
