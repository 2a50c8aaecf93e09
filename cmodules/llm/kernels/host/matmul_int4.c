#include "host.h"

#if LLM_KERNELS_HOST

#include "ops.h"

#define AT_ONCE 4 // tokens for which a group of weights is unpacked once

// n rows of y for `n_tokens` vectors from one tile. Inlined with `n_tokens` a constant, so that the sums are registers.
LLM_OPERATION void multiply(float *y, uint32_t y_stride, uint32_t n, const uint8_t *data, const int8_t *scales, const float *row_scales, uint32_t n_groups, const int8_t *x, size_t x_bytes, const float *x_scales, uint32_t n_tokens) {
    int4_sums_t sums[AT_ONCE];
    for (uint32_t i = 0; i < n_tokens; i++) {
        int4_clear(&sums[i]);
    }
    for (uint32_t g = 0; g < n_groups; g++) {
        int4_tile_t tile = int4_load(data + g * LLM_TILE * 16, scales + g * LLM_TILE);
        for (uint32_t i = 0; i < n_tokens; i++) {
            int4_mac(&sums[i], &tile, x + i * x_bytes + g * LLM_GROUP_BYTES);
        }
    }
    for (uint32_t i = 0; i < n_tokens; i++) {
        int4_store(y + i * y_stride, n, &sums[i], row_scales, x_scales[i]);
    }
}

LLM_VECTOR void llm_host_matmul_int4(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x) {
    const uint8_t *data = w->data;
    const int8_t *scales = w->scales;
    uint32_t n_groups = llm_n_groups(w->cols);
    size_t x_bytes = (size_t)x->stride * LLM_HOST_CODE_SIZE;
    for (uint32_t r = 0; r < w->rows; r += LLM_TILE) {
        uint32_t n = w->rows - r < LLM_TILE ? w->rows - r : LLM_TILE;
        for (uint32_t i = 0; i < x->n; i += AT_ONCE) {
            float *to = y + i * y_stride + r;
            const int8_t *codes = (const int8_t *)x->codes + i * x_bytes;
            switch (x->n - i) {
                case 1:
                    multiply(to, y_stride, n, data, scales, w->row_scales + r, n_groups, codes, x_bytes, x->scales + i, 1);
                    break;
                case 2:
                    multiply(to, y_stride, n, data, scales, w->row_scales + r, n_groups, codes, x_bytes, x->scales + i, 2);
                    break;
                case 3:
                    multiply(to, y_stride, n, data, scales, w->row_scales + r, n_groups, codes, x_bytes, x->scales + i, 3);
                    break;
                default:
                    multiply(to, y_stride, n, data, scales, w->row_scales + r, n_groups, codes, x_bytes, x->scales + i, AT_ONCE);
                    break;
            }
        }
        data += (size_t)n_groups * LLM_TILE * 16;
        scales += (size_t)n_groups * LLM_TILE;
    }
}

#endif
