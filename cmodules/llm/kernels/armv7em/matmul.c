// Quantized weights times one vector (decoding: gemv) or a block of them (a prompt: gemm).
#include "armv7em.h"

#if LLM_KERNELS_ARMV7EM

// The functions and sizes that differ between int4 and int8.
typedef struct {
    void (*gemv)(float *y, const void *w, const int8_t *scales, const int16_t *codes, const float *row_scales, uint32_t n_groups, uint32_t n_tiles, float x_scale);
    void (*gemm)(int32_t *acc, const void *w, const int8_t *scales, const int16_t *codes, uint32_t stride, uint32_t n_groups, uint32_t n_pairs);
    uint32_t block_size; // bytes of one row's group
} type_t;

static void multiply_one(float *y, const llm_tensor_t *w, const int16_t *codes, float x_scale, const type_t *type) {
    uint32_t n_groups = llm_n_groups(w->cols);
    uint32_t n_tiles = w->rows / LLM_TILE;
    uint32_t rest = w->rows % LLM_TILE;
    if (n_tiles > 0) {
        type->gemv(y, w->data, w->scales, codes, w->row_scales, n_groups, n_tiles, x_scale);
    }
    if (rest > 0) {
        float last[LLM_TILE];
        size_t block = (size_t)n_tiles * n_groups * LLM_TILE;
        type->gemv(last, (const uint8_t *)w->data + block * type->block_size, w->scales + block, codes, w->row_scales + n_tiles * LLM_TILE, n_groups, 1, x_scale);
        memcpy(y + n_tiles * LLM_TILE, last, rest * sizeof(*y));
    }
}

// 2 * n_pairs vectors.
static void multiply_pairs(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x, uint32_t n_pairs, const type_t *type) {
    int32_t acc[LLM_MAX_BLOCK][LLM_TILE];
    uint32_t n_groups = llm_n_groups(w->cols);
    uint32_t stride = x->stride * sizeof(int16_t);
    const uint8_t *data = w->data;
    const int8_t *scales = w->scales;
    const float *row_scales = w->row_scales;
    const float *last = row_scales + w->rows / LLM_TILE * LLM_TILE; // of the rows that fill no tile
    for (; row_scales < last; row_scales += LLM_TILE, y += LLM_TILE) {
        type->gemm(acc[0], data, scales, x->codes, stride, n_groups, n_pairs);
        llm_armv7em_scale_tile(y, y_stride * sizeof(*y), acc[0], row_scales, x->scales, n_pairs);
        data += n_groups * LLM_TILE * type->block_size;
        scales += n_groups * LLM_TILE;
    }
    uint32_t rest = w->rows % LLM_TILE;
    if (rest > 0) {
        type->gemm(acc[0], data, scales, x->codes, stride, n_groups, n_pairs);
        for (uint32_t i = 0; i < 2 * n_pairs; i++) {
            for (uint32_t j = 0; j < rest; j++) {
                y[i * y_stride + j] = (float)acc[i][j] * (row_scales[j] * x->scales[i]);
            }
        }
    }
}

static void multiply(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x, const type_t *type) {
    uint32_t even = x->n & ~1u;
    if (even > 0) {
        multiply_pairs(y, y_stride, w, x, even / 2, type);
    }
    if (even < x->n) {
        multiply_one(y + even * y_stride, w, (const int16_t *)x->codes + even * x->stride, x->scales[even], type);
    }
}

void llm_armv7em_matmul_int4(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x) {
    static const type_t int4 = {llm_armv7em_gemv_int4, llm_armv7em_gemm_int4, 16};
    multiply(y, y_stride, w, x, &int4);
}

void llm_armv7em_matmul_int8(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x) {
    static const type_t int8 = {llm_armv7em_gemv_int8, llm_armv7em_gemm_int8, 32};
    multiply(y, y_stride, w, x, &int8);
}

#endif
