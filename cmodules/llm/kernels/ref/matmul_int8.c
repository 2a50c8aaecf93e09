#include "ref.h"

static int32_t dot_group(const int8_t *w, const int8_t *x) {
    int32_t sum = 0;
    for (uint32_t k = 0; k < LLM_GROUP; k++) {
        sum += w[k] * x[k];
    }
    return sum;
}

void llm_ref_matmul_int8(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x) {
    const int8_t *data = w->data;
    uint32_t n_groups = llm_n_groups(w->cols);
    for (uint32_t r = 0; r < w->rows; r++) {
        size_t first = (size_t)(r / LLM_TILE) * n_groups * LLM_TILE + r % LLM_TILE; // block of group 0
        for (uint32_t i = 0; i < x->n; i++) {
            const int8_t *codes = (const int8_t *)x->codes + i * x->stride;
            uint32_t acc = 0; // wraps, as the format allows no sum that would
            for (uint32_t g = 0; g < n_groups; g++) {
                size_t block = first + (size_t)g * LLM_TILE;
                acc += (uint32_t)(w->scales[block] * dot_group(data + block * 32, codes + g * LLM_GROUP));
            }
            y[i * y_stride + r] = (float)(int32_t)acc * (w->row_scales[r] * x->scales[i]);
        }
    }
}
