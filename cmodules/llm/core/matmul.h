// Products of a matrix: cut into rows, divided between cores.
#ifndef LLM_MATMUL_H
#define LLM_MATMUL_H

#include "../kernels/kernels.h"
#include "llm.h"

// What matrices are multiplied by: `n` vectors. A matrix of f32 reads `x`, a quantized one `codes`.
typedef struct {
    const float *x; // [n][x_stride]
    uint32_t x_stride; // elements between two vectors
    llm_codes_t codes; // the same vectors quantized; its `n` counts for both
} llm_vectors_t;

// Bytes of codes or values in a tile of a matrix, whole or padded; and of its scales: those of rows and those of groups.
uint32_t llm_tile_codes(const llm_tensor_t *w);
uint32_t llm_tile_scales(const llm_tensor_t *w);

// Rows [first_tile * LLM_TILE, ...) of `w`, `n_tiles` tiles of them (the last may end early), as a tensor of its own: the
// same bytes, so the same bits. Its data begin at a multiple of LLM_ALIGNMENT, since a tile of any type is a multiple of it.
llm_tensor_t llm_tensor_rows(const llm_tensor_t *w, uint32_t first_tile, uint32_t n_tiles);

// y[i][r] = w[r] . x[i]; y is [n][y_stride]. Divided between the cores of `parallel` if the matrix is large enough for them.
void llm_multiply(const llm_kernels_t *kernels, const llm_parallel_t *parallel, float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_vectors_t *x);

#endif
