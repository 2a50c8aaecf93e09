#include "host.h"

#if LLM_KERNELS_HOST

#include "ops.h"

#define ROWS 4 // at once, since an addition waits for the one before it in its lanes

LLM_VECTOR void llm_host_matmul_f32(float *y, uint32_t y_stride, const llm_tensor_t *w, const float *x, uint32_t x_stride, uint32_t n) {
    const float *row = w->data;
    uint32_t cols = w->cols;
    uint32_t whole = cols & ~7u;
    uint32_t r = 0;
    for (; r + ROWS <= w->rows; r += ROWS, row += (size_t)ROWS * cols) {
        for (uint32_t i = 0; i < n; i++) {
            const float *in = x + i * x_stride;
            f32x8_t sums[ROWS] = {f_set(0.0f), f_set(0.0f), f_set(0.0f), f_set(0.0f)};
            for (uint32_t c = 0; c < whole; c += 8) {
                f32x8_t values = f_load(in + c);
                for (uint32_t j = 0; j < ROWS; j++) {
                    sums[j] = f_add(sums[j], f_mul(f_load(row + (size_t)j * cols + c), values));
                }
            }
            if (whole < cols) {
                f32x8_t values = f_load_part(in + whole, cols - whole);
                for (uint32_t j = 0; j < ROWS; j++) {
                    sums[j] = f_add(sums[j], f_mul(f_load_part(row + (size_t)j * cols + whole, cols - whole), values));
                }
            }
            for (uint32_t j = 0; j < ROWS; j++) {
                y[i * y_stride + r + j] = f_fold(sums[j]);
            }
        }
    }
    for (; r < w->rows; r++, row += cols) {
        for (uint32_t i = 0; i < n; i++) {
            y[i * y_stride + r] = f_dot(row, x + i * x_stride, cols);
        }
    }
}

#endif
