// What the C of kernels/esp32s3 calls on a host: each assembly function hands its arguments to Python (bridge.py).
#include "../../cmodules/llm/kernels/esp32s3/esp32s3.h"

typedef struct {
    void (*matmul)(const char *name, const llm_esp32s3_matmul_t *m);
    void (*scores)(int32_t *out, const int8_t *q, const int8_t *k, uint32_t n, uint32_t stride, uint32_t n_blocks);
    void (*values)(int32_t *sums, const int16_t *weights, const int8_t *v, uint32_t n, uint32_t stride);
} hooks_t;

hooks_t pie_hooks;

void llm_esp32s3_tiles_int4(const llm_esp32s3_matmul_t *m) {
    pie_hooks.matmul("tiles_int4", m);
}

void llm_esp32s3_pairs_int4(const llm_esp32s3_matmul_t *m) {
    pie_hooks.matmul("pairs_int4", m);
}

void llm_esp32s3_tiles_int8(const llm_esp32s3_matmul_t *m) {
    pie_hooks.matmul("tiles_int8", m);
}

void llm_esp32s3_scores(int32_t *out, const int8_t *q, const int8_t *k, uint32_t n, uint32_t stride, uint32_t n_blocks) {
    pie_hooks.scores(out, q, k, n, stride, n_blocks);
}

void llm_esp32s3_values(int32_t *sums, const int16_t *weights, const int8_t *v, uint32_t n, uint32_t stride) {
    pie_hooks.values(sums, weights, v, n, stride);
}
