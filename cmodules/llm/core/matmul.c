// Products of a matrix: cut into rows, divided between cores.
#include "matmul.h"

uint32_t llm_tile_codes(const llm_tensor_t *w) {
    if (w->dtype == LLM_F32) {
        return LLM_TILE * w->cols * (uint32_t)sizeof(float);
    }
    return LLM_TILE * llm_n_groups(w->cols) * (w->dtype == LLM_INT4 ? LLM_GROUP / 2 : LLM_GROUP);
}

uint32_t llm_tile_scales(const llm_tensor_t *w) {
    return w->dtype == LLM_F32 ? 0 : LLM_TILE * (uint32_t)(sizeof(float) + llm_n_groups(w->cols));
}

llm_tensor_t llm_tensor_rows(const llm_tensor_t *w, uint32_t first_tile, uint32_t n_tiles) {
    llm_tensor_t rows = *w;
    uint32_t first = first_tile * LLM_TILE;
    uint32_t left = w->rows - first;
    rows.rows = n_tiles < llm_n_tiles(left) ? n_tiles * LLM_TILE : left;
    rows.data = (const uint8_t *)w->data + (size_t)first_tile * llm_tile_codes(w);
    if (w->dtype != LLM_F32) {
        rows.scales += (size_t)first * llm_n_groups(w->cols);
        rows.row_scales += first;
    }
    return rows;
}

// One kernel call; y is [n][y_stride].
static void multiply(const llm_kernels_t *kernels, float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_vectors_t *x) {
    if (w->dtype == LLM_F32) {
        kernels->matmul_f32(y, y_stride, w, x->x, x->x_stride, x->codes.n);
    } else if (w->dtype == LLM_INT8) {
        kernels->matmul_int8(y, y_stride, w, &x->codes);
    } else {
        kernels->matmul_int4(y, y_stride, w, &x->codes);
    }
}

// The arguments of llm_multiply, for the cores.
typedef struct {
    const llm_kernels_t *kernels;
    uint32_t n_cores;
    float *y;
    uint32_t y_stride;
    const llm_tensor_t *w;
    const llm_vectors_t *x;
} product_t;

// One core's share: as many tiles as any other, or one more.
static void multiply_share(void *argument, uint32_t core) {
    const product_t *p = argument;
    uint32_t n_tiles = llm_n_tiles(p->w->rows);
    uint32_t first = (uint32_t)((uint64_t)n_tiles * core / p->n_cores);
    uint32_t end = (uint32_t)((uint64_t)n_tiles * (core + 1) / p->n_cores);
    if (first < end) {
        llm_tensor_t rows = llm_tensor_rows(p->w, first, end - first);
        multiply(p->kernels, p->y + (size_t)first * LLM_TILE, p->y_stride, &rows, p->x);
    }
}

void llm_multiply(const llm_kernels_t *kernels, const llm_parallel_t *parallel, float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_vectors_t *x) {
    if (parallel->n_cores > 1 && (uint64_t)w->rows * w->cols * x->codes.n >= parallel->min_macs) {
        product_t product = {.kernels = kernels, .n_cores = parallel->n_cores, .y = y, .y_stride = y_stride, .w = w, .x = x};
        parallel->run(parallel, multiply_share, &product);
    } else {
        multiply(kernels, y, y_stride, w, x);
    }
}
