// Kernels of desks and servers: AVX2 on x86-64, NEON on arm64. kernels.h says what each does; the bits are those of `ref`.
//
// Each function is written once, over the handful of operations that avx2.h and neon.h define alike: vectors of eight floats or
// integers (so that the eight partial sums of a dot product are one of them), and sums over the tiles of a matrix.
#ifndef LLM_HOST_H
#define LLM_HOST_H

#include "../kernels.h"
#include "../numeric.h"
#include "../sets.h"

#if LLM_KERNELS_HOST

#if defined(__x86_64__)
#define LLM_HOST_NAME "avx2"
#define LLM_HOST_CODE_SIZE 2 // a group is 32 codes and what corrects for weights without a sign: see avx2.h
#else
#define LLM_HOST_NAME "neon"
#define LLM_HOST_CODE_SIZE 1 // as ref's
#endif

// Whether this machine can run the set.
bool llm_host_available(void);

void llm_host_matmul_int4(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x);
void llm_host_matmul_int8(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x);
void llm_host_matmul_f32(float *y, uint32_t y_stride, const llm_tensor_t *w, const float *x, uint32_t x_stride, uint32_t n);
float llm_host_quantize(void *codes, const float *x, uint32_t n);
uint16_t llm_host_quantize_kv(int8_t *codes, const float *x, uint32_t n);
void llm_host_rmsnorm(float *y, const float *x, const float *w, uint32_t n, float eps);
float llm_host_rmsnorm_quantize(void *codes, float *y, const float *x, const float *w, uint32_t n, float eps);
void llm_host_attention_query(const llm_attention_t *a);
void llm_host_attention_scores(const llm_attention_t *a, const llm_run_t *run);
void llm_host_attention_values(const llm_attention_t *a, const llm_run_t *run);
void llm_host_attention_scores_f32(const llm_attention_t *a, const llm_run_t *run);
void llm_host_attention_values_f32(const llm_attention_t *a, const llm_run_t *run);
void llm_host_silu_mul(float *gate, const float *up, uint32_t n);
float llm_host_silu_mul_quantize(void *codes, float *gate, const float *up, uint32_t n);
void llm_host_add(float *x, const float *y, uint32_t n);

#endif

#endif
