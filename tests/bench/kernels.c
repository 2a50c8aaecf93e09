// Runs kernels of the best set once each, between two calls of mark(), so that count_plugin.c can count their instructions.
// Prints the set's name and a line for each: kernel, columns, rows, batch. The first does nothing, and costs what marking costs.
#include <stdio.h>
#include <stdlib.h>

#include "../../cmodules/llm/kernels/kernels.h"

#define MAX_COLS 768
#define MAX_ROWS 768
#define BATCH 16
#define MAX_POSITIONS 512
#define MAX_QUERIES 4
#define MAX_HEAD_DIM 64

static uint8_t weights[MAX_COLS * 288] __attribute__((aligned(16)));
static int8_t scales[MAX_COLS * 288 / LLM_GROUP] __attribute__((aligned(16)));
static float row_scales[MAX_ROWS];
static float x[BATCH * MAX_COLS], y[BATCH * MAX_ROWS], ones[MAX_COLS];
static int16_t codes[BATCH * MAX_COLS] __attribute__((aligned(16)));
static float code_scales[BATCH];
static int8_t k[MAX_POSITIONS * MAX_HEAD_DIM], v[MAX_POSITIONS * MAX_HEAD_DIM];
static uint16_t k_scale[MAX_POSITIONS], v_scale[MAX_POSITIONS];
static uint8_t scratch[LLM_ATTENTION_SCRATCH(MAX_QUERIES, MAX_POSITIONS, MAX_HEAD_DIM)] __attribute__((aligned(16)));

static const llm_kernels_t *set;

__attribute__((noinline)) void mark(void) {
    __asm__ volatile("");
}

static void name(const char *kernel, uint32_t cols, uint32_t rows, uint32_t batch) {
    printf("%s %u %u %u\n", kernel, (unsigned)cols, (unsigned)rows, (unsigned)batch);
}

static void matmul(llm_dtype_t dtype, uint32_t cols, uint32_t rows, uint32_t batch) {
    const llm_tensor_t w = {.data = weights, .scales = scales, .row_scales = row_scales, .rows = rows, .cols = cols, .dtype = dtype};
    const llm_codes_t input = {.codes = codes, .scales = code_scales, .stride = cols, .n = batch};
    void (*function)(float *, uint32_t, const llm_tensor_t *, const llm_codes_t *) = dtype == LLM_INT4 ? set->matmul_int4 : set->matmul_int8;
    name(dtype == LLM_INT4 ? batch == 1 ? "gemv_q4" : "gemm_q4" : batch == 1 ? "gemv_q8"
                                                                             : "gemm_q8",
        cols, rows, batch);
    mark();
    function(y, rows, &w, &input);
    mark();
}

static void attention(uint32_t n_queries, uint32_t n_positions, uint32_t head_dim) {
    const llm_attention_t a = {
        .q = x,
        .out = y,
        .n_queries = n_queries,
        .n_positions = n_positions,
        .head_dim = head_dim,
        .scale = 0.5f,
        .scratch = scratch,
    };
    const llm_run_t run = {.k = k, .v = v, .k_scale = k_scale, .v_scale = v_scale, .first = 0, .n = n_positions};
    name("attention", head_dim, n_positions, n_queries);
    mark();
    set->attention_query(&a);
    set->attention_scores(&a, &run);
    set->attention_values(&a, &run);
    mark();
}

int main(void) {
    set = llm_kernels_find(NULL);
    srand(1);
    for (size_t i = 0; i < sizeof(weights); i++) {
        weights[i] = (uint8_t)rand();
    }
    for (size_t i = 0; i < sizeof(scales); i++) {
        scales[i] = (int8_t)rand();
    }
    for (size_t i = 0; i < BATCH * MAX_COLS; i++) {
        x[i] = (float)(rand() % 2001 - 1000) * 1e-3f;
        y[i] = x[i];
        codes[i] = (int16_t)((rand() % 255 - 127) * 16);
    }
    for (size_t i = 0; i < MAX_COLS; i++) {
        ones[i] = row_scales[i] = 1.0f;
    }
    for (size_t i = 0; i < sizeof(k); i++) {
        k[i] = (int8_t)(rand() % 255 - 127);
        v[i] = (int8_t)(rand() % 255 - 127);
    }
    for (size_t i = 0; i < MAX_POSITIONS; i++) {
        k_scale[i] = v_scale[i] = 0x3C00; // 2^-7
    }
    for (size_t i = 0; i < BATCH; i++) {
        code_scales[i] = 1.0f;
    }

    printf("%s\n", set->name);
    name("nothing", 0, 0, 0);
    mark();
    mark();

    static const uint16_t shapes[][2] = {{64, 64}, {64, 512}, {172, 64}, {288, 288}, {288, 768}, {768, 288}}; // columns, rows
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        matmul(LLM_INT4, shapes[i][0], shapes[i][1], 1);
        matmul(LLM_INT8, shapes[i][0], shapes[i][1], 1);
    }
    for (uint32_t batch = 4; batch <= BATCH; batch *= 2) {
        matmul(LLM_INT4, 288, 768, batch);
        matmul(LLM_INT8, 288, 768, batch);
    }
    for (uint32_t n_positions = 128; n_positions <= 256; n_positions *= 2) {
        attention(2, n_positions, 8);
        attention(1, n_positions, 48);
        attention(4, n_positions, 64);
    }
    name("quantize", 288, 1, 1);
    mark();
    set->quantize(codes, x, 288);
    mark();
    name("rmsnorm_quantize", 288, 1, 1);
    mark();
    set->rmsnorm_quantize(codes, y, x, ones, 288, 1e-5f);
    mark();
    name("silu_mul_quantize", 768, 1, 1);
    mark();
    set->silu_mul_quantize(codes, x, ones, 768);
    mark();
    name("add", 288, 1, 1);
    mark();
    set->add(x, y, 288);
    mark();
    return 0;
}
