// Kernels for Cortex-M7 and M4 (Armv7E-M with the DSP extension: STM32H7, nRF52840). kernels.h says what each does.
//
// Codes are int16, sixteen times the int8 code of the reference, in the order in which masks and SXTB16 take weights out of a
// word. A group of 32 is four times four pairs; of word j of an int4 block (bytes 4j to 4j + 3):
//
//     pair 4j      elements 4j + 1, 4j + 3      low nibbles of bytes 1 and 3     (word << 4) & 0xF000F000
//     pair 4j + 1  elements 4j, 4j + 2          low nibbles of bytes 0 and 2     (word << 12) & 0xF000F000
//     pair 4j + 2  elements 4j + 17, 4j + 19    high nibbles of bytes 1 and 3    word & 0xF000F000
//     pair 4j + 3  elements 4j + 16, 4j + 18    high nibbles of bytes 0 and 2    (word << 8) & 0xF000F000
//
// A masked halfword is 4096 times a weight; times 16 times a code, the sum over a group is 65536 times the dot product, at most
// 32 * 8 * 127 * 65536 < 2^31, and SMLAWB with a group's scale adds exactly dot * scale to the row.
#ifndef LLM_ARMV7EM_H
#define LLM_ARMV7EM_H

#include "../kernels.h"
#include "../numeric.h"
#include "../sets.h"

void llm_armv7em_matmul_int4(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x);
void llm_armv7em_matmul_int8(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x);
float llm_armv7em_quantize(void *codes, const float *x, uint32_t n);
uint16_t llm_armv7em_quantize_kv(int8_t *codes, const float *x, uint32_t n);
float llm_armv7em_rmsnorm_quantize(void *codes, float *y, const float *x, const float *w, uint32_t n, float eps);
void llm_armv7em_rope(float *x, const float *cos, const float *sin, uint32_t n_heads, uint32_t head_dim, llm_rope_t rope);
void llm_armv7em_attention_query(const llm_attention_t *a);
void llm_armv7em_attention_scores(const llm_attention_t *a, const llm_run_t *run);
void llm_armv7em_attention_values(const llm_attention_t *a, const llm_run_t *run);
void llm_armv7em_add(float *x, const float *y, uint32_t n);
float llm_armv7em_silu_mul_quantize(void *codes, float *gate, const float *up, uint32_t n);

// y[4 * n_tiles] = whole tiles of weights times one vector. `w`, `scales`, `row_scales`: of the first tile; `codes`: n_groups
// groups; `x_scale`: theirs. n_groups and n_tiles are at least 1.
void llm_armv7em_gemv_int4(float *y, const void *w, const int8_t *scales, const int16_t *codes, const float *row_scales, uint32_t n_groups, uint32_t n_tiles, float x_scale);
void llm_armv7em_gemv_int8(float *y, const void *w, const int8_t *scales, const int16_t *codes, const float *row_scales, uint32_t n_groups, uint32_t n_tiles, float x_scale);

// acc [2 * n_pairs][4] = the four rows of a tile times an even number of vectors, `stride` bytes apart; n_groups and n_pairs are
// at least 1.
void llm_armv7em_gemm_int4(int32_t *acc, const void *w, const int8_t *scales, const int16_t *codes, uint32_t stride, uint32_t n_groups, uint32_t n_pairs);
void llm_armv7em_gemm_int8(int32_t *acc, const void *w, const int8_t *scales, const int16_t *codes, uint32_t stride, uint32_t n_groups, uint32_t n_pairs);

// y [2 * n_pairs][y_stride bytes], four floats each = acc [2 * n_pairs][4] * (row_scales * x_scales [2 * n_pairs]); n_pairs is at
// least 1.
void llm_armv7em_scale_tile(float *y, uint32_t y_stride, const int32_t *acc, const float row_scales[4], const float *x_scales, uint32_t n_pairs);

#endif
