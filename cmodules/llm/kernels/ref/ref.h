// The reference kernels: plain C, one function a file, the definition of every result. kernels.h says what each does.
#ifndef LLM_REF_H
#define LLM_REF_H

#include "../kernels.h"
#include "../numeric.h"

void llm_ref_matmul_int4(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x);
void llm_ref_matmul_int8(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x);
void llm_ref_matmul_f32(float *y, uint32_t y_stride, const llm_tensor_t *w, const float *x, uint32_t x_stride, uint32_t n);
float llm_ref_quantize(void *codes, const float *x, uint32_t n);
uint16_t llm_ref_quantize_kv(int8_t *codes, const float *x, uint32_t n);
void llm_ref_rmsnorm(float *y, const float *x, const float *w, uint32_t n, float eps);
float llm_ref_rmsnorm_quantize(void *codes, float *y, const float *x, const float *w, uint32_t n, float eps);
void llm_ref_rope(float *x, const float *cos, const float *sin, uint32_t n_heads, uint32_t head_dim, llm_rope_t rope);
void llm_ref_attention_query(const llm_attention_t *a);
void llm_ref_attention_scores(const llm_attention_t *a, const llm_run_t *run);
void llm_ref_attention_values(const llm_attention_t *a, const llm_run_t *run);
void llm_ref_attention_scores_f32(const llm_attention_t *a, const llm_run_t *run);
void llm_ref_attention_values_f32(const llm_attention_t *a, const llm_run_t *run);
void llm_ref_silu_mul(float *gate, const float *up, uint32_t n);
float llm_ref_silu_mul_quantize(void *codes, float *gate, const float *up, uint32_t n);
void llm_ref_add(float *x, const float *y, uint32_t n);

// The loops of attention over an int8 cache: attention.h says what each does.
float llm_ref_attention_score(float *scores, const int8_t *q, float q_scale, const llm_run_t *run, uint32_t head_dim, float max);
uint64_t llm_ref_attention_weigh(int16_t *weights, const float *scores, const uint16_t *v_scale, uint32_t n, float max, float per_weight);
void llm_ref_attention_add(int32_t *sums, const int16_t *weights, const int8_t *v, uint32_t n, uint32_t head_dim);

// The sum of a[i] * b[i], i < n, in eight partial sums: lane j adds elements j, j + 8, ... in order, then halves are
// folded. The order is fixed, yet a vector unit can follow it.
static inline float llm_ref_dot(const float *a, const float *b, uint32_t n) {
    float lane[8] = {0.0f};
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (uint32_t j = 0; j < 8; j++) {
            lane[j] += a[i + j] * b[i + j];
        }
    }
    for (uint32_t j = 0; i + j < n; j++) {
        lane[j] += a[i + j] * b[i + j];
    }
    for (uint32_t width = 4; width >= 1; width /= 2) {
        for (uint32_t j = 0; j < width; j++) {
            lane[j] += lane[j + width];
        }
    }
    return lane[0];
}

#endif
