#include "armv7em.h"

#if LLM_KERNELS_ARMV7EM

void llm_armv7em_matmul_int4(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x) {
    uint32_t n_groups = llm_n_groups(w->cols);
    for (uint32_t r = 0; r < w->rows; r += LLM_TILE) {
        size_t block = (size_t)r * n_groups;
        uint32_t n_rows = w->rows - r < LLM_TILE ? w->rows - r : LLM_TILE;
        for (uint32_t i = 0; i < x->n; i++) {
            int32_t acc[LLM_TILE];
            llm_armv7em_tile_int4(acc, (const uint8_t *)w->data + block * 16, w->scales + block, (const int16_t *)x->codes + i * x->stride, n_groups);
            for (uint32_t j = 0; j < n_rows; j++) {
                y[i * y_stride + r + j] = (float)acc[j] * (w->row_scales[r + j] * x->scales[i]);
            }
        }
    }
}

#endif
