// The table of kernels: everything in a forward pass that is worth an instruction set of its own.
//
// A set is one row of the table in table.c: a name, a condition and the functions. `ref` is plain C and the
// definition; every other set must give the same bits (docs/arithmetic.md) and may take any function from it.
//
// Codes, weights and scratch begin at multiples of 16 bytes; float vectors and rows of the cache only at multiples of their
// element. Nothing overlaps unless said. `n` vectors are `stride` elements apart.
#ifndef LLM_KERNELS_H
#define LLM_KERNELS_H

#include "types.h"

#define LLM_GROUP 32 // columns that share a scale
#define LLM_TILE 4 // rows that are stored together

// Groups in `cols` columns, tiles in `rows` rows.
static inline uint32_t llm_n_groups(uint32_t cols) {
    return (cols + LLM_GROUP - 1) / LLM_GROUP;
}

static inline uint32_t llm_n_tiles(uint32_t rows) {
    return (rows + LLM_TILE - 1) / LLM_TILE;
}

// n vectors, quantized, as the input of a matrix. How a code is stored is the set's own affair: its `quantize` writes what its
// `matmul_int4` and `matmul_int8` read, `code_size` bytes each, in any order within a group.
typedef struct {
    const void *codes; // [n][stride], zeros from cols to the next multiple of 32
    const float *scales; // [n]
    uint32_t stride; // a multiple of 32
    uint32_t n; // 1 when decoding, up to LLM_MAX_BLOCK in a prompt
} llm_codes_t;

// Attention of the query heads that share one KV head, one query position.
typedef struct {
    const float *q; // [n_queries][head_dim]
    float *out; // [n_queries][head_dim]
    const void *k; // [n_positions][head_dim] int8 or float
    const void *v; // [n_positions][head_dim]
    const uint16_t *k_scale; // [n_positions] bfloat16, int8 only
    const uint16_t *v_scale; // [n_positions]
    uint32_t n_queries; // n_heads / n_kv_heads
    uint32_t n_positions; // at least 1
    uint32_t head_dim; // even, at most 512
    void *scratch; // LLM_ATTENTION_SCRATCH(n_queries, n_positions, head_dim) bytes
} llm_attention_t;

// Per query: a score a position, a 16-bit weight a position, a head of codes and one of 32-bit sums.
#define LLM_ATTENTION_SCRATCH(n_queries, n_positions, head_dim) \
    ((size_t)(n_queries) * (6 * (size_t)(((n_positions) + 7) & ~7u) + 5 * (size_t)(((head_dim) + 31) & ~31u)))

struct llm_kernels {
    const char *name; // as the user writes it
    bool (*available)(void); // whether this machine can run it; NULL: always
    uint32_t code_size; // bytes of a code, 1 or 2

    // y[i][r] = w[r] . x[i] for r < w->rows; y is [x->n][y_stride].
    void (*matmul_int4)(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x);
    void (*matmul_int8)(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x);
    // The same with f32 weights; x is [n][x_stride].
    void (*matmul_f32)(float *y, uint32_t y_stride, const llm_tensor_t *w, const float *x, uint32_t x_stride, uint32_t n);

    // Quantizes x [n] to codes [n rounded up to 32, zeros at the end] and returns the scale.
    float (*quantize)(void *codes, const float *x, uint32_t n);
    // Quantizes x [n] to codes [n] for the cache and returns the scale as bfloat16. `codes` need not be aligned.
    uint16_t (*quantize_kv)(int8_t *codes, const float *x, uint32_t n);

    // y[i] = x[i] / rms(x) * w[i] for i < n.
    void (*rmsnorm)(float *y, const float *x, const float *w, uint32_t n, float eps);
    // rmsnorm, then quantize of y; returns the scale.
    float (*rmsnorm_quantize)(void *codes, float *y, const float *x, const float *w, uint32_t n, float eps);
    // Rotates n_heads heads of x [n_heads][head_dim] in place; cos and sin are [head_dim / 2].
    void (*rope)(float *x, const float *cos, const float *sin, uint32_t n_heads, uint32_t head_dim, llm_rope_t rope);

    void (*attention_int8)(const llm_attention_t *a);
    void (*attention_f32)(const llm_attention_t *a);

    // gate[i] = silu(gate[i]) * up[i] for i < n.
    void (*silu_mul)(float *gate, const float *up, uint32_t n);
    // silu_mul, then quantize of gate; returns the scale.
    float (*silu_mul_quantize)(void *codes, float *gate, const float *up, uint32_t n);
    // x[i] += y[i] for i < n.
    void (*add)(float *x, const float *y, uint32_t n);
};

#endif
