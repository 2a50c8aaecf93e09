#include "armv7em.h"

#if LLM_KERNELS_ARMV7EM
#include "../ref/ref.h"

void llm_armv7em_rope_neighbours(float *x, const float *cos, const float *sin, uint32_t n_pairs);

void llm_armv7em_rope(float *x, const float *cos, const float *sin, uint32_t n_heads, uint32_t head_dim, llm_rope_t rope) {
    if (rope != LLM_ROPE_NEIGHBOURS || head_dim % 4 != 0) {
        llm_ref_rope(x, cos, sin, n_heads, head_dim, rope);
        return;
    }
    for (uint32_t h = 0; h < n_heads; h++) {
        llm_armv7em_rope_neighbours(x + h * head_dim, cos, sin, head_dim / 2);
    }
}

#endif
