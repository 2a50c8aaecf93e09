// Kernels of RISC-V processors with vectors: the extension V 1.0, and the matrices for 0.7.1 (the Allwinner D1's C906, which gcc 14
// calls xtheadvector). kernels.h says what each does; the bits are those of `ref`.
//
// Vectors may be of 128 bits or more: what is fixed to 8 or 32 lanes uses a part of longer ones, everything else takes what it gets.
#ifndef LLM_RVV_H
#define LLM_RVV_H

#include "../kernels.h"
#include "../numeric.h"
#include "../sets.h"

#if LLM_KERNELS_RVV

void llm_rvv_matmul_int4(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x);
void llm_rvv_matmul_int8(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x);
void llm_rvv_matmul_f32(float *y, uint32_t y_stride, const llm_tensor_t *w, const float *x, uint32_t x_stride, uint32_t n);
float llm_rvv_quantize(void *codes, const float *x, uint32_t n);
uint16_t llm_rvv_quantize_kv(int8_t *codes, const float *x, uint32_t n);
void llm_rvv_rmsnorm(float *y, const float *x, const float *w, uint32_t n, float eps);
float llm_rvv_rmsnorm_quantize(void *codes, float *y, const float *x, const float *w, uint32_t n, float eps);
void llm_rvv_attention_query(const llm_attention_t *a);
void llm_rvv_attention_scores(const llm_attention_t *a, const llm_run_t *run);
void llm_rvv_attention_values(const llm_attention_t *a, const llm_run_t *run);
void llm_rvv_attention_scores_f32(const llm_attention_t *a, const llm_run_t *run);
void llm_rvv_attention_values_f32(const llm_attention_t *a, const llm_run_t *run);
void llm_rvv_silu_mul(float *gate, const float *up, uint32_t n);
float llm_rvv_silu_mul_quantize(void *codes, float *gate, const float *up, uint32_t n);
void llm_rvv_add(float *x, const float *y, uint32_t n);

#endif

#endif
