#include "ref.h"

void llm_ref_matmul_f32(float *y, uint32_t y_stride, const llm_tensor_t *w, const float *x, uint32_t x_stride, uint32_t n) {
    const float *row = w->data;
    for (uint32_t r = 0; r < w->rows; r++, row += w->cols) {
        for (uint32_t i = 0; i < n; i++) {
            y[i * y_stride + r] = llm_ref_dot(row, x + i * x_stride, w->cols);
        }
    }
}
