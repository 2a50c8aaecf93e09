// Matrices of int4 and int8: whole tiles go to assembly, and so does a last tile of less than four rows, into a buffer.
#include "../sets.h"
#if LLM_KERNELS_ESP32S3
#include "esp32s3.h"

#include <string.h>

typedef void run_t(llm_esp32s3_matmul_t *m, uint32_t n);

// The vectors two by two, an odd one alone.
static void run_int4(llm_esp32s3_matmul_t *m, uint32_t n) {
    m->n = n / 2;
    if (m->n > 0) {
        llm_esp32s3_pairs_int4(m);
    }
    if (n % 2 != 0) {
        m->y += (n - 1) * (m->y_step / sizeof(float));
        m->codes += (n - 1) * m->stride;
        m->x_scales += n - 1;
        llm_esp32s3_tiles_int4(m);
    }
}

static void run_int8(llm_esp32s3_matmul_t *m, uint32_t n) {
    m->n = n;
    llm_esp32s3_tiles_int8(m);
}

// `block_size`: bytes of a group of a row.
static void multiply(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x, size_t block_size, run_t *run) {
    llm_esp32s3_matmul_t whole = {
        .y = y,
        .data = w->data,
        .scales = w->scales,
        .row_scales = w->row_scales,
        .codes = x->codes,
        .x_scales = x->scales,
        .n_groups = llm_n_groups(w->cols),
        .n_tiles = w->rows / LLM_TILE,
        .stride = x->stride,
        .y_step = y_stride * sizeof(float),
    };
    llm_esp32s3_matmul_t last = whole;
    if (whole.n_tiles > 0) {
        run(&whole, x->n);
    }

    uint32_t rest = w->rows % LLM_TILE;
    if (rest > 0) {
        float rows[LLM_MAX_BLOCK][LLM_TILE];
        uint32_t first = w->rows - rest;
        size_t blocks = (size_t)first * last.n_groups; // before the last tile
        last.y = rows[0];
        last.y_step = sizeof(rows[0]);
        last.data = (const uint8_t *)w->data + blocks * block_size;
        last.scales += blocks;
        last.row_scales += first;
        last.n_tiles = 1;
        run(&last, x->n);
        for (uint32_t i = 0; i < x->n; i++) {
            memcpy(y + i * y_stride + first, rows[i], rest * sizeof(float));
        }
    }
}

void llm_esp32s3_matmul_int4(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x) {
    multiply(y, y_stride, w, x, LLM_GROUP / 2, run_int4);
}

void llm_esp32s3_matmul_int8(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x) {
    multiply(y, y_stride, w, x, LLM_GROUP, run_int8);
}
#endif
