#include "ref.h"

// A block of 16 bytes: element k in the low nibble of byte k, element k + 16 in the high one, two's complement.
static int32_t dot_group(const uint8_t *w, const int8_t *x) {
    int32_t sum = 0;
    for (uint32_t k = 0; k < 16; k++) {
        int32_t low = (int8_t)(uint8_t)(w[k] << 4) >> 4;
        int32_t high = (int8_t)w[k] >> 4;
        sum += low * x[k] + high * x[k + 16];
    }
    return sum;
}

void llm_ref_matmul_int4(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x) {
    const uint8_t *data = w->data;
    uint32_t n_groups = llm_n_groups(w->cols);
    for (uint32_t r = 0; r < w->rows; r++) {
        size_t first = (size_t)(r / LLM_TILE) * n_groups * LLM_TILE + r % LLM_TILE; // block of group 0
        for (uint32_t i = 0; i < x->n; i++) {
            const int8_t *codes = (const int8_t *)x->codes + i * x->stride;
            uint32_t acc = 0; // wraps: no image that passes the checks has enough columns to
            for (uint32_t g = 0; g < n_groups; g++) {
                size_t block = first + (size_t)g * LLM_TILE;
                acc += (uint32_t)(w->scales[block] * dot_group(data + block * 16, codes + g * LLM_GROUP));
            }
            y[i * y_stride + r] = (float)(int32_t)acc * (w->row_scales[r] * x->scales[i]);
        }
    }
}
