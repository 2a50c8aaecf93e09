#include "armv7em.h"

#if LLM_KERNELS_ARMV7EM

void llm_armv7em_matmul_int4(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x) {
    uint32_t n_groups = llm_n_groups(w->cols);
    uint32_t n_tiles = w->rows / LLM_TILE;
    uint32_t rest = w->rows % LLM_TILE;
    size_t block = (size_t)n_tiles * n_groups * LLM_TILE; // of the rest
    for (uint32_t i = 0; i < x->n; i++, y += y_stride) {
        const int16_t *codes = (const int16_t *)x->codes + i * x->stride;
        if (n_tiles > 0) {
            llm_armv7em_gemv_int4(y, w->data, w->scales, codes, w->row_scales, n_groups, n_tiles, x->scales[i]);
        }
        if (rest > 0) {
            float last[LLM_TILE];
            llm_armv7em_gemv_int4(last, (const uint8_t *)w->data + block * 16, w->scales + block, codes, w->row_scales + n_tiles * LLM_TILE, n_groups, 1, x->scales[i]);
            memcpy(y + n_tiles * LLM_TILE, last, rest * sizeof(*y));
        }
    }
}

#endif
