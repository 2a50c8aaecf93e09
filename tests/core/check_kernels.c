// Every kernel set against the reference: the same bits for shapes of all kinds, and not a byte written outside of what
// kernels.h allows. Runs on the desk under sanitizers and on the emulated Cortex-M7; tests/host/test_kernels.py starts both.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../cmodules/llm/kernels/kernels.h"
#include "../../cmodules/llm/kernels/numeric.h"

#define GUARD_SIZE 64
#define GUARD 0xA5
#define MAX_BUFFERS 24
#define POSITIONS 1030
#define CODES_ROW 256 // elements between two vectors of codes

// ---------------------------------------------------------------------------- memory with guards

typedef struct {
    uint8_t *block; // what malloc gave
    uint8_t *bytes; // what is used, GUARD_SIZE bytes of guard on either side
    size_t size; // of bytes
} buffer_t;

static buffer_t buffers[MAX_BUFFERS];
static size_t n_buffers;
static const char *what; // is being tested, for messages

static void fail(const char *why) {
    printf("%s: %s\n", what, why);
    exit(1);
}

// `size` bytes that begin `shift` bytes after a multiple of 64. Their contents are the guard's.
static void *take(size_t size, size_t shift) {
    buffer_t *b = &buffers[n_buffers++];
    b->block = malloc(size + 2 * GUARD_SIZE + 128);
    if (b->block == NULL || n_buffers == MAX_BUFFERS) {
        fail("out of memory");
    }
    b->bytes = b->block + GUARD_SIZE;
    b->bytes += (64 - (uintptr_t)b->bytes % 64) % 64 + shift;
    b->size = size;
    memset(b->bytes - GUARD_SIZE, GUARD, size + 2 * GUARD_SIZE);
    return b->bytes;
}

// Checks all guards and gives all memory back.
static void release(void) {
    for (; n_buffers > 0; n_buffers--) {
        const buffer_t *b = &buffers[n_buffers - 1];
        for (size_t i = 0; i < GUARD_SIZE; i++) {
            if (b->bytes[-1 - (ptrdiff_t)i] != GUARD) {
                fail("wrote before a buffer");
            }
            if (b->bytes[b->size + i] != GUARD) {
                fail("wrote past a buffer");
            }
        }
        free(b->block);
    }
}

// ---------------------------------------------------------------------------- contents

static uint32_t state = 1;

static uint32_t draw(uint32_t n) {
    state = state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)(state ^ state >> 15) * n) >> 32);
}

static float draw_float(float size) {
    return ((float)draw(1u << 20) / 524288.0f - 1.0f) * size;
}

// Floats where only the alignment of a float is promised. Of every size, sometimes one that outweighs the rest, or nothing.
static float *take_floats(size_t n) {
    static const float sizes[] = {1.0f, 1.0f, 1e-3f, 1e4f, 1e-34f, 0.0f};
    float size = sizes[draw(6)];
    float *x = take(n * sizeof(*x), 4 * draw(4));
    for (size_t i = 0; i < n; i++) {
        x[i] = draw_float(size);
    }
    if (draw(4) == 0) {
        x[draw((uint32_t)n)] = size * -7.0f;
    }
    return x;
}

static void *take_copy(const void *data, size_t size) {
    return memcpy(take(size, 0), data, size);
}

static void same(const void *a, const void *b, size_t size) {
    if (memcmp(a, b, size) != 0) {
        fail("another result than ref");
    }
}

// ---------------------------------------------------------------------------- kernels

typedef void (*matmul_t)(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x);

static matmul_t matmul_of(const llm_kernels_t *set, llm_dtype_t dtype) {
    return dtype == LLM_INT4 ? set->matmul_int4 : set->matmul_int8;
}

// A matrix of codes and scales over their whole range, or all of them at one end of it.
static llm_tensor_t take_matrix(llm_dtype_t dtype, uint32_t rows, uint32_t cols) {
    size_t blocks = (size_t)llm_n_tiles(rows) * LLM_TILE * llm_n_groups(cols);
    size_t block = dtype == LLM_INT4 ? 16 : 32;
    uint8_t *data = take(blocks * block, 0);
    int8_t *scales = take(blocks, 0);
    float *row_scales = take(llm_n_tiles(rows) * LLM_TILE * sizeof(*row_scales), 0);
    uint32_t extreme = draw(4);
    for (size_t i = 0; i < blocks * block; i++) {
        data[i] = extreme == 0 ? (dtype == LLM_INT4 ? 0x88 : 0x80) : (uint8_t)draw(256);
    }
    for (size_t i = 0; i < blocks; i++) {
        scales[i] = (int8_t)(extreme == 0 ? 127 : (int)draw(255) - 127);
    }
    for (size_t i = 0; i < llm_n_tiles(rows) * LLM_TILE; i++) {
        row_scales[i] = draw_float(0.01f);
    }
    return (llm_tensor_t){.data = data, .scales = scales, .row_scales = row_scales, .rows = rows, .cols = cols, .dtype = dtype};
}

// y [n][rows] of codes that the set itself has written.
static const float *multiply(const llm_kernels_t *set, const llm_tensor_t *w, const void *codes, const float *scales, uint32_t n) {
    float *y = take(n * w->rows * sizeof(*y), 4);
    const llm_codes_t x = {.codes = codes, .scales = scales, .stride = CODES_ROW, .n = n};
    matmul_of(set, w->dtype)(y, w->rows, w, &x);
    return y;
}

static void check_matmul(const llm_kernels_t *set, const llm_kernels_t *ref, llm_dtype_t dtype) {
    uint32_t rows = 1 + draw(13);
    uint32_t cols = 1 + draw(CODES_ROW);
    uint32_t n = 1 + draw(LLM_MAX_BLOCK);
    llm_tensor_t w = take_matrix(dtype, rows, cols);
    const float *y[2];
    const float *x = take_floats(n * cols);
    for (int i = 0; i < 2; i++) {
        const llm_kernels_t *k = i == 0 ? set : ref;
        uint8_t *codes = take(n * CODES_ROW * k->code_size, 0);
        float *scales = take(n * sizeof(*scales), 4);
        for (uint32_t j = 0; j < n; j++) {
            scales[j] = k->quantize(codes + j * CODES_ROW * k->code_size, x + j * cols, cols);
        }
        y[i] = multiply(k, &w, codes, scales, n);
    }
    same(y[0], y[1], n * rows * sizeof(float));
}

static void check_matmul_f32(const llm_kernels_t *set, const llm_kernels_t *ref) {
    uint32_t rows = 1 + draw(13);
    uint32_t cols = 1 + draw(100);
    uint32_t n = 1 + draw(LLM_MAX_BLOCK);
    const llm_tensor_t w = {.data = take_copy(take_floats(rows * cols), rows * cols * sizeof(float)), .rows = rows, .cols = cols, .dtype = LLM_F32};
    const float *x = take_floats(n * cols);
    float *a = take(n * rows * sizeof(*a), 4);
    float *b = take(n * rows * sizeof(*b), 8);
    set->matmul_f32(a, rows, &w, x, cols, n);
    ref->matmul_f32(b, rows, &w, x, cols, n);
    same(a, b, n * rows * sizeof(*a));
}

// The fused functions: what they leave as floats, and what their codes give in a product.
static void check_fused(const llm_kernels_t *set, const llm_kernels_t *ref) {
    uint32_t n = 1 + draw(CODES_ROW);
    llm_tensor_t w = take_matrix(draw(2) ? LLM_INT4 : LLM_INT8, 5, n);
    const float *x = take_floats(n);
    const float *weight = take_floats(n);
    const float *results[2][5];
    for (int i = 0; i < 2; i++) {
        const llm_kernels_t *k = i == 0 ? set : ref;
        void *codes = take(CODES_ROW * k->code_size, 0);
        float *y = take(n * sizeof(*y), 4);
        float *gate = take_copy(x, n * sizeof(*x));
        float scale = k->rmsnorm_quantize(codes, y, x, weight, n, 1e-5f);
        results[i][0] = y;
        results[i][1] = multiply(k, &w, codes, &scale, 1);
        scale = k->silu_mul_quantize(codes, gate, weight, n);
        results[i][2] = gate;
        results[i][3] = multiply(k, &w, codes, &scale, 1);
    }
    for (int j = 0; j < 4; j++) {
        same(results[0][j], results[1][j], (j % 2 == 0 ? n : w.rows) * sizeof(float));
    }
}

static void check_vectors(const llm_kernels_t *set, const llm_kernels_t *ref) {
    uint32_t n_heads = 1 + draw(3);
    uint32_t head_dim = 2 * (1 + draw(20));
    uint32_t n = n_heads * head_dim;
    const float *x = take_floats(n);
    const float *y = take_floats(n);
    float *a = take(n * sizeof(*a), 4);
    float *b = take(n * sizeof(*b), 8);
    int8_t *a_codes = take(n, draw(4));
    int8_t *b_codes = take(n, draw(4));
    if (set->quantize_kv(a_codes, x, n) != ref->quantize_kv(b_codes, x, n)) {
        fail("quantize_kv: another scale than ref");
    }
    same(a_codes, b_codes, n);
    set->rmsnorm(a, x, y, n, 1e-6f);
    ref->rmsnorm(b, x, y, n, 1e-6f);
    same(a, b, n * sizeof(*a));
    for (int pairs = LLM_ROPE_NEIGHBOURS; pairs <= LLM_ROPE_HALVES; pairs++) {
        set->rope(a, x, y, n_heads, head_dim, (llm_rope_t)pairs);
        ref->rope(b, x, y, n_heads, head_dim, (llm_rope_t)pairs);
        same(a, b, n * sizeof(*a));
    }
    set->silu_mul(a, y, n);
    ref->silu_mul(b, y, n);
    same(a, b, n * sizeof(*a));
    set->add(a, y, n);
    ref->add(b, y, n);
    same(a, b, n * sizeof(*a));
}

static void check_attention(const llm_kernels_t *set, const llm_kernels_t *ref, bool int8, uint32_t n_queries, uint32_t n_positions, uint32_t head_dim) {
    const float *q = take_floats(n_queries * head_dim);
    size_t n = (size_t)n_positions * head_dim;
    // A row somewhere in the cache is only as aligned as its length makes it.
    int8_t *k = take(n, int8 ? head_dim % 64 : 4);
    int8_t *v = k;
    uint16_t *k_scale = NULL;
    uint16_t *v_scale = NULL;
    if (int8) {
        v = take(n, head_dim % 64);
        k_scale = take(n_positions * sizeof(*k_scale), 2);
        v_scale = take(n_positions * sizeof(*v_scale), 2);
        bool extreme = draw(4) == 0;
        for (size_t i = 0; i < n; i++) {
            k[i] = (int8_t)((int)draw(255) - 127);
            v[i] = (int8_t)(extreme ? 127 : (int)draw(255) - 127);
        }
        for (uint32_t t = 0; t < n_positions; t++) {
            k_scale[t] = (uint16_t)(llm_float_bits(draw(8) == 0 ? 0.0f : (1.0f + draw_float(1.0f)) * 0.002f) >> 16);
            v_scale[t] = extreme ? 0x3C00 : (uint16_t)(llm_float_bits((1.0f + draw_float(1.0f)) * 0.01f) >> 16);
        }
    } else {
        release();
        q = take_floats(n_queries * head_dim);
        k = (int8_t *)(void *)take_floats(n);
        v = (int8_t *)(void *)take_floats(n);
    }
    float *out[2];
    for (int i = 0; i < 2; i++) {
        const llm_kernels_t *kernels = i == 0 ? set : ref;
        out[i] = take(n_queries * head_dim * sizeof(float), 4);
        const llm_attention_t a = {
            .q = q,
            .out = out[i],
            .k = k,
            .v = v,
            .k_scale = k_scale,
            .v_scale = v_scale,
            .n_queries = n_queries,
            .n_positions = n_positions,
            .head_dim = head_dim,
            .scratch = take(LLM_ATTENTION_SCRATCH(n_queries, n_positions, head_dim), 16),
        };
        (int8 ? kernels->attention_int8 : kernels->attention_f32)(&a);
    }
    same(out[0], out[1], n_queries * head_dim * sizeof(float));
    release();
}

static void check_set(const llm_kernels_t *set, const llm_kernels_t *ref) {
    for (int i = 0; i < 300; i++) {
        what = "matmul_int4";
        check_matmul(set, ref, LLM_INT4);
        release();
        what = "matmul_int8";
        check_matmul(set, ref, LLM_INT8);
        release();
        what = "matmul_f32";
        check_matmul_f32(set, ref);
        release();
        what = "rmsnorm_quantize or silu_mul_quantize";
        check_fused(set, ref);
        release();
        what = "quantize_kv, rmsnorm, rope, silu_mul or add";
        check_vectors(set, ref);
        release();
    }
    static const uint32_t head_dims[] = {2, 4, 6, 8, 12, 16, 32, 36, 48, 64, 128};
    static const uint32_t positions[] = {1, 2, 3, 8, 9, 31, 200, 511, 512, 513, POSITIONS};
    for (size_t d = 0; d < sizeof(head_dims) / sizeof(*head_dims); d++) {
        for (size_t p = 0; p < sizeof(positions) / sizeof(*positions); p++) {
            uint32_t n_queries = 1 + (uint32_t)(d + p) % 4;
            what = "attention_int8";
            check_attention(set, ref, true, 1, positions[p], head_dims[d]);
            check_attention(set, ref, true, n_queries, positions[p], head_dims[d]);
            what = "attention_f32";
            check_attention(set, ref, false, n_queries, positions[p], head_dims[d]);
        }
    }
}

int main(void) {
    const llm_kernels_t *ref = llm_kernels_find("ref");
    const llm_kernels_t *set;
    for (size_t i = 0; (set = llm_kernels_at(i)) != NULL; i++) {
        check_set(set, ref);
        printf("%s ok\n", llm_kernels_name(set));
    }
    return 0;
}
