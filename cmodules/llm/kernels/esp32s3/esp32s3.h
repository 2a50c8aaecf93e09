// ESP32-S3: the vector instructions (PIE) of its two Xtensa LX7 cores.
//
// What adds many products is assembly (.S); C around it brings shapes and floats into the form that assembly takes, and what is
// left is ref's. A .S file is one function with the windowed calling convention; it uses the vector registers and the state ACCX,
// QACC and SAR, which no C code expects to survive. Loads drop the low four address bits silently, so every vector is aligned.
#ifndef LLM_ESP32S3_H
#define LLM_ESP32S3_H

#include "../kernels.h"

// A matrix of whole tiles times one vector, or times pairs of vectors. The .S files know the offsets.
typedef struct {
    float *y; // 0: [vectors][y_step / 4], 4 * n_tiles of each written
    const void *data; // 4: plane of codes
    const int8_t *scales; // 8: plane of group scales
    const float *row_scales; // 12: plane of row scales
    const int8_t *codes; // 16: [vectors][stride], aligned to 16
    const float *x_scales; // 20: [vectors]
    uint32_t n_groups; // 24: at least 1
    uint32_t n_tiles; // 28: at least 1
    uint32_t n; // 32: vectors (matmul_int8) or pairs of them (pairs_int4), at least 1
    uint32_t stride; // 36: bytes from one vector's codes to the next
    uint32_t y_step; // 40: bytes from one vector's results to the next
} llm_esp32s3_matmul_t;

// One vector; n, stride and y_step are not read.
void llm_esp32s3_tiles_int4(const llm_esp32s3_matmul_t *m);
// 2 * n vectors; each tile is read from memory once and serves them all.
void llm_esp32s3_pairs_int4(const llm_esp32s3_matmul_t *m);
// n vectors, in the same way.
void llm_esp32s3_tiles_int8(const llm_esp32s3_matmul_t *m);

// out[t] = sum over i < 16 * n_blocks of q[i] * k[t * stride + i], for t < n; n_blocks is 1 to 4. q, k and stride are multiples of 16.
void llm_esp32s3_scores(int32_t *out, const int8_t *q, const int8_t *k, uint32_t n, uint32_t stride, uint32_t n_blocks);
// sums[i] = sum over t < n of weights[t] * v[t * stride + i], for i < 16 and n <= 512; weights are not negative. v and stride are
// multiples of 16.
void llm_esp32s3_values(int32_t *sums, const int16_t *weights, const int8_t *v, uint32_t n, uint32_t stride);

void llm_esp32s3_matmul_int4(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x);
void llm_esp32s3_matmul_int8(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x);
void llm_esp32s3_attention_scores(const llm_attention_t *a, const llm_run_t *run);
void llm_esp32s3_attention_values(const llm_attention_t *a, const llm_run_t *run);

#endif
