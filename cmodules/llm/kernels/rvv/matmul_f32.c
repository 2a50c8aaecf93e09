#include "rvv.h"

#if LLM_KERNELS_RVV && !defined(__riscv_xtheadvector)

#include "ops.h"

// Four rows at once, since an addition waits for the one before it in its lanes.
static void multiply4(float *y, const float *row, uint32_t cols, const float *x) {
    const float *row1 = row + cols;
    const float *row2 = row1 + cols;
    const float *row3 = row2 + cols;
    vfloat32m2_t sum0 = __riscv_vfmv_v_f_f32m2(0.0f, 8);
    vfloat32m2_t sum1 = sum0;
    vfloat32m2_t sum2 = sum0;
    vfloat32m2_t sum3 = sum0;
    for (uint32_t i = 0; i < cols; i += 8) {
        size_t vl = cols - i < 8 ? cols - i : 8;
        vfloat32m2_t values = __riscv_vle32_v_f32m2(x + i, vl);
        sum0 = __riscv_vfadd_tu(sum0, sum0, __riscv_vfmul(__riscv_vle32_v_f32m2(row + i, vl), values, vl), vl);
        sum1 = __riscv_vfadd_tu(sum1, sum1, __riscv_vfmul(__riscv_vle32_v_f32m2(row1 + i, vl), values, vl), vl);
        sum2 = __riscv_vfadd_tu(sum2, sum2, __riscv_vfmul(__riscv_vle32_v_f32m2(row2 + i, vl), values, vl), vl);
        sum3 = __riscv_vfadd_tu(sum3, sum3, __riscv_vfmul(__riscv_vle32_v_f32m2(row3 + i, vl), values, vl), vl);
    }
    y[0] = fold(sum0);
    y[1] = fold(sum1);
    y[2] = fold(sum2);
    y[3] = fold(sum3);
}

void llm_rvv_matmul_f32(float *y, uint32_t y_stride, const llm_tensor_t *w, const float *x, uint32_t x_stride, uint32_t n) {
    const float *row = w->data;
    uint32_t r = 0;
    for (; r + 4 <= w->rows; r += 4, row += (size_t)4 * w->cols) {
        for (uint32_t i = 0; i < n; i++) {
            multiply4(y + i * y_stride + r, row, w->cols, x + i * x_stride);
        }
    }
    for (; r < w->rows; r++, row += w->cols) {
        for (uint32_t i = 0; i < n; i++) {
            y[i * y_stride + r] = dot(row, x + i * x_stride, w->cols);
        }
    }
}

#endif
