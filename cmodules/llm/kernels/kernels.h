// The table of kernels: everything in a forward pass that is worth an instruction set of its own.
//
// A set is one row of the table in table.c: a name, a condition and the functions. `ref` is plain C and the
// definition; every other set must give the same bits (docs/arithmetic.md) and may take any function from it.
//
// Codes, weights and scratch begin at multiples of 16 bytes, the rows of an int8 cache a whole number of rows after one; float vectors
// and the rest of the cache only at multiples of their element. Nothing overlaps unless said. `n` vectors are `stride` elements apart.
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

// Attention of the query heads that share one KV head, at one position. The keys and values they look at come in runs.
typedef struct {
    const float *q; // [n_queries][head_dim]
    float *out; // [n_queries][head_dim]; complete once the values of the last run are in
    uint32_t n_queries; // n_heads / n_kv_heads
    uint32_t n_positions; // of all runs together, at least 1
    uint32_t head_dim; // even, at most 512
    float scale; // of a query times a key: log2(e) / sqrt(head_dim), so that scores are powers of two
    void *scratch; // LLM_ATTENTION_SCRATCH(n_queries, n_positions, head_dim) bytes, kept from call to call
} llm_attention_t;

// Positions of one KV head that lie together in the cache. Scores are made of k, k_scale and v_scale, values of v and v_scale; the
// other pointers need not be good then.
typedef struct {
    const void *k; // [n][head_dim] int8 or float
    const void *v; // [n][head_dim]
    const uint16_t *k_scale; // [n] bfloat16, int8 only
    const uint16_t *v_scale; // [n]
    uint32_t first; // positions in the runs before this one
    uint32_t n; // at least 1
} llm_run_t;

#define LLM_ATTENTION_BLOCK 512 // positions whose weighted values fit a 32-bit sum: 512 * 32767 * 127 < 2^31

// A block of 16-bit weights and 16 bytes; for each query 32 bytes, a head of 16-bit codes, one of 32-bit sums, a score a position and
// room for one more. How they lie there is the set's own affair.
#define LLM_ATTENTION_SCRATCH(n_queries, n_positions, head_dim) \
    (2 * LLM_ATTENTION_BLOCK + 16 + (size_t)(n_queries) * (32 + 6 * (size_t)(((head_dim) + 31) & ~31u) + 4 * (size_t)(((n_positions) + 8) & ~7u)))

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

    // Attention over an int8 cache: attention_query, attention_scores of every run, attention_values of every run, the runs in order
    // both times. No bit depends on where they are cut. attention_query quantizes a->q; where a run's keys ask for another query
    // (a->q may change) it is called once more before their scores.
    void (*attention_query)(const llm_attention_t *a);
    void (*attention_scores)(const llm_attention_t *a, const llm_run_t *run);
    void (*attention_values)(const llm_attention_t *a, const llm_run_t *run);
    // Attention over a float cache, in the same way. Where a run's keys ask for another query, a->q changes.
    void (*attention_scores_f32)(const llm_attention_t *a, const llm_run_t *run);
    void (*attention_values_f32)(const llm_attention_t *a, const llm_run_t *run);

    // gate[i] = silu(gate[i]) * up[i] for i < n.
    void (*silu_mul)(float *gate, const float *up, uint32_t n);
    // silu_mul, then quantize of gate; returns the scale.
    float (*silu_mul_quantize)(void *codes, float *gate, const float *up, uint32_t n);
    // x[i] += y[i] for i < n.
    void (*add)(float *x, const float *y, uint32_t n);
};

#endif
