// Compares every function of a kernel set with `ref`, bit for bit: check_kernels [SET] (without a name: the best set).
//
// Runs on a host (build it with AddressSanitizer), under an emulator of a processor and on a bare board with a C library.
// Outputs lie between guard bytes; inputs end where their block of memory ends, and begin where the least alignment that
// kernels.h promises puts them. Prints a line for each function and at the end `N checks, N failures`.
//
// With -DCHECK_PAGES=1 (POSIX) a page that may not be touched follows each block: for where there is no AddressSanitizer.
// With -DCHECK_SMALL=1 there are fewer and smaller shapes of each kind, for an emulated board of a few megabytes.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../cmodules/llm/kernels/kernels.h"
#include "../../cmodules/llm/kernels/numeric.h"

#ifndef CHECK_PAGES
#define CHECK_PAGES 0
#endif
#if CHECK_PAGES
#include <sys/mman.h>
#include <unistd.h>
#endif

#ifndef CHECK_SMALL
#define CHECK_SMALL 0
#endif

#define GUARD 64 // bytes on each side of an output
#define PATTERN 0x5A // of guards, and of outputs before they are written
#define MAX_REPORTS 5 // failures a function that are told in full

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const llm_kernels_t *ref;
static const llm_kernels_t *set;
static const char *function; // under test
static unsigned n_checks, n_failures; // of it
static unsigned total_checks, total_failures;

// ---------------------------------------------------------------------------- random numbers

static uint64_t state;

// SplitMix64.
static uint32_t random_bits(void) {
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ (z >> 31)) >> 32);
}

static uint32_t random_below(uint32_t n) {
    return random_bits() % n;
}

// From -1 to 1.
static float random_float(void) {
    return (float)((int32_t)random_bits() >> 7) * (1.0f / 16777216.0f);
}

// ---------------------------------------------------------------------------- memory

typedef struct {
    void *block; // to be freed
    size_t block_size; // with CHECK_PAGES
    uint8_t *bytes; // [size], `shift` bytes after a multiple of 16
    size_t size;
} memory_t;

#if CHECK_PAGES

// The bytes end where their last page does, up to their alignment, and no page follows.
static memory_t take(size_t size, size_t shift) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t mapped = (size + 16 + page - 1) / page * page;
    uint8_t *block = mmap(NULL, mapped + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED || mprotect(block + mapped, page, PROT_NONE) != 0) {
        printf("out of memory: %lu bytes\n", (unsigned long)size);
        exit(2);
    }
    uint8_t *bytes = block + mapped - size;
    bytes -= ((uintptr_t)bytes - shift) % 16;
    return (memory_t){.block = block, .block_size = mapped + page, .bytes = bytes, .size = size};
}

static void drop(memory_t *m) {
    munmap(m->block, m->block_size);
}

#else

static memory_t take(size_t size, size_t shift) {
    // Some C libraries of 32-bit targets align to 8 only. Elsewhere nothing may lie behind the bytes.
    size_t spare = sizeof(void *) < 8 ? 16 : 0;
    memory_t m = {.block = malloc(spare + shift + size + (size == 0)), .size = size};
    if (m.block == NULL) {
        printf("out of memory: %lu bytes\n", (unsigned long)size);
        exit(2);
    }
    m.bytes = (uint8_t *)m.block + (-(uintptr_t)m.block & 15) + shift;
    return m;
}

static void drop(memory_t *m) {
    free(m->block);
}

#endif

// An output between guards.
static memory_t take_output(size_t size, size_t shift) {
    memory_t m = take(size + 2 * GUARD, shift);
    memset(m.bytes, PATTERN, m.size);
    m.bytes += GUARD;
    m.size = size;
    return m;
}

static bool guards_hold(const memory_t *m) {
    const uint8_t *before = m->bytes - GUARD;
    const uint8_t *after = m->bytes + m->size;
    for (size_t i = 0; i < GUARD; i++) {
        if (before[i] != PATTERN || after[i] != PATTERN) {
            return false;
        }
    }
    return true;
}

// ---------------------------------------------------------------------------- verdicts

static char shape[160]; // what is being checked, for reports

static void judge(bool right, const char *what, unsigned long where) {
    n_checks++;
    if (!right) {
        n_failures++;
        if (n_failures <= MAX_REPORTS) {
            printf("%s %s: %s (at %lu)\n", function, shape, what, where);
        }
    }
}

// The set's output against that of ref, and its guards.
static void compare(const memory_t *expected, const memory_t *actual, bool bits_matter) {
    size_t i = 0;
    while (i < actual->size && expected->bytes[i] == actual->bytes[i]) {
        i++;
    }
    judge(!bits_matter || i == actual->size, "differs from ref", (unsigned long)i);
    judge(guards_hold(actual), "writes outside of its output", (unsigned long)actual->size);
}

static void compare_floats(float expected, float actual, bool bits_matter) {
    judge(!bits_matter || llm_float_bits(expected) == llm_float_bits(actual), "another scale than ref", llm_float_bits(actual));
}

static void begin(const char *name) {
    function = name;
    n_checks = n_failures = 0;
    state = 1; // each function's cases are the same whatever came before
}

static void end(void) {
    printf("%s: %u checks, %u failures\n", function, n_checks, n_failures);
    fflush(stdout);
    total_checks += n_checks;
    total_failures += n_failures;
}

// ---------------------------------------------------------------------------- float vectors

// What a vector of floats is filled with.
enum {
    FLOAT_RANDOM,
    FLOAT_ZERO,
    FLOAT_LIMIT, // the largest magnitude everywhere, either sign
    FLOAT_WIDE, // magnitudes from 1e-20 to 1e10
    FLOAT_SPIKE, // one large, the rest small
    FLOAT_TINY, // around the smallest that is quantized
    FLOAT_NO_NUMBER, // NaN and infinity: no particular bits, but no harm
    FLOAT_KINDS,
};

static float float_of(int kind, uint32_t i) {
    switch (kind) {
        case FLOAT_ZERO:
            return i % 3 == 0 ? -0.0f : 0.0f;
        case FLOAT_LIMIT:
            return random_bits() & 1 ? 1.7f : -1.7f;
        case FLOAT_WIDE: {
            float value = random_float();
            for (uint32_t n = random_below(21); n > 0; n--) {
                value *= 0.1f;
            }
            return random_below(4) == 0 ? value * 1e10f : value;
        }
        case FLOAT_SPIKE:
            return i == 1 ? -3e4f : random_float();
        case FLOAT_TINY:
            return random_float() * 1.1e-30f;
        case FLOAT_NO_NUMBER:
            return llm_bits_float(random_below(3) == 0 ? 0x7FC00000u : 0x7F800000u | (random_bits() & 0x80000000u));
        default:
            return random_float() * 2.5f;
    }
}

// n floats at the least alignment there is.
static memory_t take_floats(uint32_t n, int kind) {
    memory_t m = take(n * sizeof(float), 4);
    float *values = (float *)m.bytes;
    for (uint32_t i = 0; i < n; i++) {
        values[i] = float_of(kind, i);
    }
    return m;
}

// A copy between guards, for what is changed in place.
static memory_t copy_of(const memory_t *m) {
    memory_t copy = take_output(m->size, 4);
    memcpy(copy.bytes, m->bytes, m->size);
    return copy;
}

// ---------------------------------------------------------------------------- matrices

enum {
    WEIGHTS_RANDOM,
    WEIGHTS_LOW, // all -8 or -128, the largest scales
    WEIGHTS_HIGH, // all 7 or 127, the smallest scales
    WEIGHTS_LIMIT, // lowest and highest, largest and smallest scales, mixed
    WEIGHTS_ZERO_SCALES,
    WEIGHTS_UNIT, // the unit matrix, int8 only
    WEIGHTS_KINDS,
};

typedef struct {
    llm_tensor_t tensor;
    memory_t data;
    memory_t scales;
    memory_t row_scales;
} matrix_t;

static int32_t code_of(int kind, int32_t low, int32_t high) {
    switch (kind) {
        case WEIGHTS_LOW:
            return low;
        case WEIGHTS_HIGH:
            return high;
        case WEIGHTS_LIMIT:
            return random_bits() & 1 ? low : high;
        default:
            return low + (int32_t)random_below((uint32_t)(high - low + 1));
    }
}

// A quantized matrix. Padding is not zero here: nothing depends on it, since the codes it meets are.
static matrix_t take_matrix(llm_dtype_t dtype, uint32_t rows, uint32_t cols, int kind) {
    size_t n_blocks = (size_t)llm_n_tiles(rows) * llm_n_groups(cols) * LLM_TILE;
    size_t block_size = dtype == LLM_INT4 ? 16 : 32;
    uint32_t n_padded = llm_n_tiles(rows) * LLM_TILE;
    matrix_t m = {
        .data = take(n_blocks * block_size, 0),
        .scales = take(n_blocks, 0),
        .row_scales = take(n_padded * sizeof(float), 0),
    };
    for (size_t i = 0; i < m.data.size; i++) {
        if (dtype == LLM_INT4) {
            m.data.bytes[i] = (uint8_t)((code_of(kind, -8, 7) & 15) | code_of(kind, -8, 7) * 16);
        } else {
            m.data.bytes[i] = (uint8_t)code_of(kind, -128, 127);
        }
    }
    // An int8 row's sum must fit 32 bits: docs/image-format.md, "Tensor data".
    int32_t largest = 127;
    if (dtype == LLM_INT8 && cols > 1000) {
        largest = (int32_t)(16909320u / (128u * llm_n_groups(cols) * LLM_GROUP));
    }
    for (size_t i = 0; i < n_blocks; i++) {
        int32_t scale = code_of(kind, -largest, largest);
        if (kind == WEIGHTS_LOW || kind == WEIGHTS_HIGH) {
            scale = -scale;
        }
        m.scales.bytes[i] = kind == WEIGHTS_ZERO_SCALES ? 0 : (uint8_t)scale;
    }
    float *row_scales = (float *)m.row_scales.bytes;
    for (uint32_t i = 0; i < n_padded; i++) {
        row_scales[i] = kind == WEIGHTS_UNIT ? 1.0f : random_float() * 1e-3f;
    }
    if (kind == WEIGHTS_UNIT) {
        memset(m.data.bytes, 0, m.data.size);
        memset(m.scales.bytes, 1, m.scales.size);
        for (uint32_t r = 0; r < rows && r < cols; r++) {
            size_t block = ((size_t)(r / LLM_TILE) * llm_n_groups(cols) + r / LLM_GROUP) * LLM_TILE + r % LLM_TILE;
            m.data.bytes[block * 32 + r % LLM_GROUP] = 1;
        }
    }
    m.tensor = (llm_tensor_t){
        .data = m.data.bytes,
        .scales = (const int8_t *)m.scales.bytes,
        .row_scales = (const float *)m.row_scales.bytes,
        .rows = rows,
        .cols = cols,
        .dtype = dtype,
    };
    return m;
}

static void drop_matrix(matrix_t *m) {
    drop(&m->data);
    drop(&m->scales);
    drop(&m->row_scales);
}

// n vectors of x [n][cols], quantized by `kernels` into codes with room between the vectors.
static memory_t take_codes(const llm_kernels_t *kernels, const float *x, uint32_t n, uint32_t cols, uint32_t stride, float *scales) {
    memory_t m = take((size_t)((n - 1) * stride + llm_n_groups(cols) * LLM_GROUP) * kernels->code_size, 0);
    memset(m.bytes, PATTERN, m.size);
    for (uint32_t i = 0; i < n; i++) {
        scales[i] = kernels->quantize(m.bytes + (size_t)i * stride * kernels->code_size, x + i * cols, cols);
    }
    return m;
}

static void run_matmul(const llm_kernels_t *kernels, memory_t *y, uint32_t y_stride, const llm_tensor_t *w, const float *x, uint32_t n, uint32_t stride) {
    float scales[LLM_MAX_BLOCK];
    memory_t codes = take_codes(kernels, x, n, w->cols, stride, scales);
    const llm_codes_t input = {.codes = codes.bytes, .scales = scales, .stride = stride, .n = n};
    if (w->dtype == LLM_INT4) {
        kernels->matmul_int4((float *)y->bytes, y_stride, w, &input);
    } else {
        kernels->matmul_int8((float *)y->bytes, y_stride, w, &input);
    }
    drop(&codes);
}

static void check_matmul(llm_dtype_t dtype, uint32_t rows, uint32_t cols, uint32_t n, int weights, int floats) {
    snprintf(shape, sizeof(shape), "rows %u cols %u n %u weights %d floats %d", (unsigned)rows, (unsigned)cols, (unsigned)n, weights, floats);
    matrix_t w = take_matrix(dtype, rows, cols, weights);
    memory_t x = take_floats(n * cols, floats);
    uint32_t y_stride = rows + (n > 1 ? 3 : 0);
    uint32_t stride = (llm_n_groups(cols) + n % 2) * LLM_GROUP;
    size_t y_size = ((n - 1) * y_stride + rows) * sizeof(float);
    memory_t expected = take_output(y_size, 4);
    memory_t actual = take_output(y_size, 4);
    run_matmul(ref, &expected, y_stride, &w.tensor, (const float *)x.bytes, n, stride);
    run_matmul(set, &actual, y_stride, &w.tensor, (const float *)x.bytes, n, stride);
    compare(&expected, &actual, floats != FLOAT_NO_NUMBER);
    drop(&expected);
    drop(&actual);
    drop(&x);
    drop_matrix(&w);
}

static void check_matmul_f32(uint32_t rows, uint32_t cols, uint32_t n, int floats) {
    snprintf(shape, sizeof(shape), "rows %u cols %u n %u floats %d", (unsigned)rows, (unsigned)cols, (unsigned)n, floats);
    memory_t data = take(rows * cols * sizeof(float), 0);
    for (uint32_t i = 0; i < rows * cols; i++) {
        ((float *)data.bytes)[i] = float_of(floats, i);
    }
    const llm_tensor_t w = {.data = data.bytes, .rows = rows, .cols = cols, .dtype = LLM_F32};
    uint32_t x_stride = cols + n % 3;
    uint32_t y_stride = rows + (n > 1 ? 3 : 0);
    memory_t x = take_floats((n - 1) * x_stride + cols, FLOAT_WIDE);
    size_t y_size = ((n - 1) * y_stride + rows) * sizeof(float);
    memory_t expected = take_output(y_size, 4);
    memory_t actual = take_output(y_size, 4);
    ref->matmul_f32((float *)expected.bytes, y_stride, &w, (const float *)x.bytes, x_stride, n);
    set->matmul_f32((float *)actual.bytes, y_stride, &w, (const float *)x.bytes, x_stride, n);
    compare(&expected, &actual, floats != FLOAT_NO_NUMBER);
    drop(&expected);
    drop(&actual);
    drop(&x);
    drop(&data);
}

#if CHECK_SMALL
static const uint32_t all_cols[] = {1, 31, 32, 33, 44, 64, 96, 172, 288, 768, 1024, 4096};
static const uint32_t all_rows[] = {1, 2, 3, 4, 5, 9};
static const uint32_t all_batches[] = {1, 2, 3, 4, 5, 8, 16};
#else
static const uint32_t all_cols[] = {1, 2, 16, 31, 32, 33, 44, 63, 64, 65, 96, 128, 160, 172, 192, 288, 300, 512, 576, 768, 1023, 1024, 1536, 2048, 4096};
static const uint32_t all_rows[] = {1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 33, 64};
static const uint32_t all_batches[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
#endif

static void check_matrices(llm_dtype_t dtype) {
    uint32_t turn = 0;
    for (size_t c = 0; c < COUNT(all_cols); c++) {
        for (size_t r = 0; r < COUNT(all_rows); r++) {
            check_matmul(dtype, all_rows[r], all_cols[c], 1, WEIGHTS_RANDOM, FLOAT_RANDOM);
            // The batches take turns over the shapes.
            uint32_t n = all_batches[turn++ % COUNT(all_batches)];
            check_matmul(dtype, all_rows[r], all_cols[c], n, WEIGHTS_RANDOM, FLOAT_RANDOM);
        }
        for (int weights = WEIGHTS_RANDOM; weights < WEIGHTS_UNIT; weights++) {
            for (int floats = FLOAT_RANDOM; floats < FLOAT_KINDS; floats++) {
                check_matmul(dtype, 6, all_cols[c], 1, weights, floats);
                check_matmul(dtype, 6, all_cols[c], all_batches[turn++ % COUNT(all_batches)], weights, floats);
            }
        }
    }
    for (size_t i = 0; i < COUNT(all_batches); i++) {
        check_matmul(dtype, 7, 172, all_batches[i], WEIGHTS_RANDOM, FLOAT_RANDOM);
        check_matmul(dtype, 12, 288, all_batches[i], WEIGHTS_LIMIT, FLOAT_LIMIT);
    }
}

static void check_matrices_f32(void) {
    uint32_t turn = 0;
    for (size_t c = 0; c < COUNT(all_cols); c++) {
        for (size_t r = 0; r < COUNT(all_rows); r++) {
            check_matmul_f32(all_rows[r], all_cols[c], 1, FLOAT_RANDOM);
            check_matmul_f32(all_rows[r], all_cols[c], all_batches[turn++ % COUNT(all_batches)], FLOAT_RANDOM);
        }
        for (int floats = FLOAT_RANDOM; floats < FLOAT_KINDS; floats++) {
            check_matmul_f32(6, all_cols[c], all_batches[turn++ % COUNT(all_batches)], floats);
        }
    }
}

// ---------------------------------------------------------------------------- quantization

// What codes hold is a set's own affair: they are read back through a product with the unit matrix.
static memory_t read_codes(const llm_kernels_t *kernels, const void *codes, uint32_t n) {
    matrix_t unit = take_matrix(LLM_INT8, n, n, WEIGHTS_UNIT);
    memory_t y = take_output(n * sizeof(float), 4);
    float one = 1.0f;
    const llm_codes_t input = {.codes = codes, .scales = &one, .stride = llm_n_groups(n) * LLM_GROUP, .n = 1};
    kernels->matmul_int8((float *)y.bytes, n, &unit.tensor, &input);
    drop_matrix(&unit);
    return y;
}

static void compare_codes(const memory_t *expected, const memory_t *actual, uint32_t n, bool bits_matter) {
    judge(guards_hold(actual), "writes outside of its codes", (unsigned long)actual->size);
    memory_t expected_values = read_codes(ref, expected->bytes, n);
    memory_t actual_values = read_codes(set, actual->bytes, n);
    compare(&expected_values, &actual_values, bits_matter);
    drop(&expected_values);
    drop(&actual_values);
}

static memory_t take_codes_output(const llm_kernels_t *kernels, uint32_t n) {
    return take_output((size_t)llm_n_groups(n) * LLM_GROUP * kernels->code_size, 0);
}

static void check_quantize(uint32_t n, int floats) {
    snprintf(shape, sizeof(shape), "n %u floats %d", (unsigned)n, floats);
    bool bits_matter = floats != FLOAT_NO_NUMBER;
    memory_t x = take_floats(n, floats);
    memory_t expected = take_codes_output(ref, n);
    memory_t actual = take_codes_output(set, n);
    float expected_scale = ref->quantize(expected.bytes, (const float *)x.bytes, n);
    float actual_scale = set->quantize(actual.bytes, (const float *)x.bytes, n);
    compare_floats(expected_scale, actual_scale, bits_matter);
    compare_codes(&expected, &actual, n, bits_matter);
    drop(&expected);
    drop(&actual);
    drop(&x);
}

static void check_quantize_kv(uint32_t n, int floats) {
    snprintf(shape, sizeof(shape), "n %u floats %d", (unsigned)n, floats);
    bool bits_matter = floats != FLOAT_NO_NUMBER;
    memory_t x = take_floats(n, floats);
    memory_t expected = take_output(n, 1);
    memory_t actual = take_output(n, 1);
    uint16_t expected_scale = ref->quantize_kv((int8_t *)expected.bytes, (const float *)x.bytes, n);
    uint16_t actual_scale = set->quantize_kv((int8_t *)actual.bytes, (const float *)x.bytes, n);
    judge(!bits_matter || expected_scale == actual_scale, "another scale than ref", actual_scale);
    compare(&expected, &actual, bits_matter);
    drop(&expected);
    drop(&actual);
    drop(&x);
}

// ---------------------------------------------------------------------------- norm, gate, addition, rotation

static void check_rmsnorm(uint32_t n, int floats, bool quantized) {
    snprintf(shape, sizeof(shape), "n %u floats %d", (unsigned)n, floats);
    bool bits_matter = floats != FLOAT_NO_NUMBER;
    memory_t x = take_floats(n, floats);
    memory_t w = take_floats(n, FLOAT_RANDOM);
    memory_t expected = take_output(n * sizeof(float), 4);
    memory_t actual = take_output(n * sizeof(float), 4);
    const float *in = (const float *)x.bytes;
    const float *weights = (const float *)w.bytes;
    if (quantized) {
        memory_t expected_codes = take_codes_output(ref, n);
        memory_t actual_codes = take_codes_output(set, n);
        float expected_scale = ref->rmsnorm_quantize(expected_codes.bytes, (float *)expected.bytes, in, weights, n, 1e-5f);
        float actual_scale = set->rmsnorm_quantize(actual_codes.bytes, (float *)actual.bytes, in, weights, n, 1e-5f);
        compare_floats(expected_scale, actual_scale, bits_matter);
        compare_codes(&expected_codes, &actual_codes, n, bits_matter);
        drop(&expected_codes);
        drop(&actual_codes);
    } else {
        ref->rmsnorm((float *)expected.bytes, in, weights, n, 1e-5f);
        set->rmsnorm((float *)actual.bytes, in, weights, n, 1e-5f);
    }
    compare(&expected, &actual, bits_matter);
    drop(&expected);
    drop(&actual);
    drop(&x);
    drop(&w);
}

static void check_silu_mul(uint32_t n, int floats, bool quantized) {
    snprintf(shape, sizeof(shape), "n %u floats %d", (unsigned)n, floats);
    bool bits_matter = floats != FLOAT_NO_NUMBER;
    memory_t gate = take_floats(n, floats);
    if (floats == FLOAT_RANDOM) {
        for (uint32_t i = 0; i < n; i++) {
            ((float *)gate.bytes)[i] *= 12.0f; // past both ends of the exponential
        }
    }
    memory_t up = take_floats(n, FLOAT_RANDOM);
    memory_t expected = copy_of(&gate);
    memory_t actual = copy_of(&gate);
    if (quantized) {
        memory_t expected_codes = take_codes_output(ref, n);
        memory_t actual_codes = take_codes_output(set, n);
        float expected_scale = ref->silu_mul_quantize(expected_codes.bytes, (float *)expected.bytes, (const float *)up.bytes, n);
        float actual_scale = set->silu_mul_quantize(actual_codes.bytes, (float *)actual.bytes, (const float *)up.bytes, n);
        compare_floats(expected_scale, actual_scale, bits_matter);
        compare_codes(&expected_codes, &actual_codes, n, bits_matter);
        drop(&expected_codes);
        drop(&actual_codes);
    } else {
        ref->silu_mul((float *)expected.bytes, (const float *)up.bytes, n);
        set->silu_mul((float *)actual.bytes, (const float *)up.bytes, n);
    }
    compare(&expected, &actual, bits_matter);
    drop(&expected);
    drop(&actual);
    drop(&gate);
    drop(&up);
}

static void check_add(uint32_t n, int floats) {
    snprintf(shape, sizeof(shape), "n %u floats %d", (unsigned)n, floats);
    memory_t x = take_floats(n, floats);
    memory_t y = take_floats(n, FLOAT_WIDE);
    memory_t expected = copy_of(&x);
    memory_t actual = copy_of(&x);
    ref->add((float *)expected.bytes, (const float *)y.bytes, n);
    set->add((float *)actual.bytes, (const float *)y.bytes, n);
    compare(&expected, &actual, floats != FLOAT_NO_NUMBER);
    drop(&expected);
    drop(&actual);
    drop(&x);
    drop(&y);
}

static void check_rope(uint32_t n_heads, uint32_t head_dim, llm_rope_t rope, int floats) {
    snprintf(shape, sizeof(shape), "n_heads %u head_dim %u rope %d floats %d", (unsigned)n_heads, (unsigned)head_dim, (int)rope, floats);
    memory_t x = take_floats(n_heads * head_dim, floats);
    memory_t cosines = take_floats(head_dim / 2, FLOAT_RANDOM);
    memory_t sines = take_floats(head_dim / 2, FLOAT_RANDOM);
    memory_t expected = copy_of(&x);
    memory_t actual = copy_of(&x);
    ref->rope((float *)expected.bytes, (const float *)cosines.bytes, (const float *)sines.bytes, n_heads, head_dim, rope);
    set->rope((float *)actual.bytes, (const float *)cosines.bytes, (const float *)sines.bytes, n_heads, head_dim, rope);
    compare(&expected, &actual, floats != FLOAT_NO_NUMBER);
    drop(&expected);
    drop(&actual);
    drop(&x);
    drop(&cosines);
    drop(&sines);
}

// ---------------------------------------------------------------------------- attention

enum {
    CACHE_RANDOM,
    CACHE_FLAT, // all keys equal: every weight is the same
    CACHE_LIMIT, // codes of -127 and 127 only, equal scales of the values: the largest sums
    CACHE_STEEP, // scores far apart: all weight on few positions
    CACHE_NO_VALUES, // scales of the values are 0
    CACHE_NO_KEYS, // scales of the keys are 0
    CACHE_NO_QUERY, // the query is 0
    CACHE_KINDS,
};

static uint16_t bf16_of(float value) {
    return (uint16_t)(llm_float_bits(value) >> 16);
}

static int8_t cache_code(int kind, uint32_t i, uint32_t head_dim) {
    switch (kind) {
        case CACHE_FLAT:
            return (int8_t)((i % head_dim) * 7 % 255 - 127);
        case CACHE_LIMIT:
            return random_below(64) == 0 ? -127 : 127;
        default:
            return (int8_t)((int32_t)random_below(255) - 127);
    }
}

// How a cache is cut into runs.
enum {
    CUT_NOWHERE,
    CUT_EVERYWHERE, // runs of 1
    CUT_PAGES, // 4 positions, then as many as a page has: 64
    CUT_RANDOM,
    CUT_KINDS,
};

static uint32_t run_length(int cut, uint32_t first) {
    switch (cut) {
        case CUT_NOWHERE:
            return UINT32_MAX;
        case CUT_EVERYWHERE:
            return 1;
        case CUT_PAGES:
            return first == 0 ? 4 : 64;
        default:
            return 1 + random_below(random_below(2) == 0 ? 10 : 600);
    }
}

// A cache of one KV head in one piece, and the queries that look at it.
typedef struct {
    memory_t k;
    memory_t v;
    memory_t k_scale;
    memory_t v_scale;
    memory_t q[2]; // for positions before `other` and from there on
    uint32_t other;
    uint32_t n_queries;
    uint32_t n_positions;
    uint32_t head_dim;
} cache_t;

static cache_t take_cache(uint32_t n_queries, uint32_t n_positions, uint32_t head_dim, int kind) {
    uint32_t n = n_positions * head_dim;
    cache_t c = {
        .k = take(n, 0),
        .v = take(n, 0),
        .k_scale = take(n_positions * sizeof(uint16_t), 2),
        .v_scale = take(n_positions * sizeof(uint16_t), 2),
        .other = random_below(2) == 0 ? n_positions : random_below(n_positions),
        .n_queries = n_queries,
        .n_positions = n_positions,
        .head_dim = head_dim,
    };
    for (uint32_t i = 0; i < n; i++) {
        c.k.bytes[i] = (uint8_t)cache_code(kind, i, head_dim);
        c.v.bytes[i] = (uint8_t)cache_code(kind, i, head_dim);
    }
    for (uint32_t t = 0; t < n_positions; t++) {
        float k_value = 0.0001f + 0.02f * (random_float() + 1.0f);
        float v_value = 0.0001f + 0.02f * (random_float() + 1.0f);
        if (kind == CACHE_FLAT || kind == CACHE_LIMIT) {
            k_value = v_value = 0.01f;
        } else if (kind == CACHE_STEEP) {
            k_value *= 30.0f;
            v_value *= t % 5 == 0 ? 1e-6f : 1e3f;
        }
        ((uint16_t *)c.k_scale.bytes)[t] = kind == CACHE_NO_KEYS ? 0 : bf16_of(k_value);
        ((uint16_t *)c.v_scale.bytes)[t] = kind == CACHE_NO_VALUES ? 0 : bf16_of(v_value);
    }
    for (size_t i = 0; i < COUNT(c.q); i++) {
        c.q[i] = take_floats(n_queries * head_dim, kind == CACHE_NO_QUERY ? FLOAT_ZERO : kind == CACHE_LIMIT ? FLOAT_LIMIT
                                                                                                             : FLOAT_RANDOM);
    }
    return c;
}

static void drop_cache(cache_t *c) {
    drop(&c->k);
    drop(&c->v);
    drop(&c->k_scale);
    drop(&c->v_scale);
    drop(&c->q[0]);
    drop(&c->q[1]);
}

static memory_t part_of(const memory_t *m, size_t start, size_t size, size_t shift) {
    memory_t part = take(size, shift);
    memcpy(part.bytes, m->bytes + start, size);
    return part;
}

// Shows the runs of a cache to the scores or to the values of a set, each with the memory that they may read and nothing else.
static void show_runs(const llm_kernels_t *kernels, llm_attention_t *a, const cache_t *c, int cut, bool scores) {
    for (uint32_t first = 0, n; first < c->n_positions; first += n) {
        uint32_t left = first < c->other ? c->other - first : c->n_positions - first;
        n = run_length(cut, first);
        n = n < left ? n : left;
        size_t shift = random_below(16) * c->head_dim % 16; // a whole number of rows
        memory_t rows = part_of(scores ? &c->k : &c->v, first * c->head_dim, n * c->head_dim, shift);
        memory_t k_scale = part_of(&c->k_scale, first * sizeof(uint16_t), n * sizeof(uint16_t), 2);
        memory_t v_scale = part_of(&c->v_scale, first * sizeof(uint16_t), n * sizeof(uint16_t), 2);
        llm_run_t run = {.v_scale = (const uint16_t *)v_scale.bytes, .first = first, .n = n};
        if (scores) {
            if (first == 0 || first == c->other) {
                a->q = (const float *)c->q[first == c->other].bytes;
                kernels->attention_query(a);
                a->q = NULL;
            }
            run.k = rows.bytes;
            run.k_scale = (const uint16_t *)k_scale.bytes;
            kernels->attention_scores(a, &run);
        } else {
            run.v = rows.bytes;
            kernels->attention_values(a, &run);
        }
        drop(&rows);
        drop(&k_scale);
        drop(&v_scale);
    }
}

static memory_t run_attention(const llm_kernels_t *kernels, const cache_t *c, int cut) {
    memory_t out = take_output(c->q[0].size, 4);
    memory_t scratch = take(LLM_ATTENTION_SCRATCH(c->n_queries, c->n_positions, c->head_dim), 0);
    memset(scratch.bytes, PATTERN, scratch.size);
    llm_attention_t a = {
        .out = (float *)out.bytes,
        .n_queries = c->n_queries,
        .n_positions = c->n_positions,
        .head_dim = c->head_dim,
        .scale = llm_rsqrt((float)c->head_dim) * LLM_LOG2_E,
        .scratch = scratch.bytes,
    };
    show_runs(kernels, &a, c, cut, true);
    show_runs(kernels, &a, c, cut, false);
    drop(&scratch);
    return out;
}

static void check_attention_int8(uint32_t n_queries, uint32_t n_positions, uint32_t head_dim, int kind) {
    cache_t c = take_cache(n_queries, n_positions, head_dim, kind);
    memory_t expected = run_attention(ref, &c, CUT_NOWHERE);
    for (int i = 0; i < 2; i++) {
        int cut = i == 0 ? CUT_NOWHERE : 1 + (int)random_below(CUT_KINDS - 1);
        snprintf(shape, sizeof(shape), "n_queries %u n_positions %u head_dim %u cache %d cut %d", (unsigned)n_queries, (unsigned)n_positions, (unsigned)head_dim, kind, cut);
        memory_t actual = run_attention(set, &c, cut);
        compare(&expected, &actual, true);
        drop(&actual);
    }
    drop(&expected);
    drop_cache(&c);
}

// In runs of `cut` positions.
static void attend_f32(const llm_kernels_t *kernels, const llm_attention_t *a, const void *k, const void *v, uint32_t cut) {
    for (int values = 0; values < 2; values++) {
        for (uint32_t first = 0; first < a->n_positions; first += cut) {
            llm_run_t run = {.first = first, .n = a->n_positions - first < cut ? a->n_positions - first : cut};
            *(values ? &run.v : &run.k) = (const float *)(values ? v : k) + (size_t)first * a->head_dim;
            (values ? kernels->attention_values_f32 : kernels->attention_scores_f32)(a, &run);
        }
    }
}

static void check_attention_f32(uint32_t n_queries, uint32_t n_positions, uint32_t head_dim, int kind) {
    snprintf(shape, sizeof(shape), "n_queries %u n_positions %u head_dim %u cache %d", (unsigned)n_queries, (unsigned)n_positions, (unsigned)head_dim, kind);
    memory_t k = take_floats(n_positions * head_dim, kind == CACHE_NO_KEYS ? FLOAT_ZERO : kind == CACHE_FLAT ? FLOAT_LIMIT
                                                                                                             : FLOAT_RANDOM);
    memory_t v = take_floats(n_positions * head_dim, kind == CACHE_NO_VALUES ? FLOAT_ZERO : FLOAT_RANDOM);
    memory_t q = take_floats(n_queries * head_dim, kind == CACHE_NO_QUERY ? FLOAT_ZERO : FLOAT_RANDOM);
    if (kind == CACHE_STEEP) {
        for (uint32_t i = 0; i < n_queries * head_dim; i++) {
            ((float *)q.bytes)[i] *= 50.0f;
        }
    }
    memory_t expected = take_output(q.size, 4);
    memory_t actual = take_output(q.size, 4);
    memory_t scratch = take(LLM_ATTENTION_SCRATCH(n_queries, n_positions, head_dim), 0);
    memset(scratch.bytes, PATTERN, scratch.size);
    llm_attention_t a = {
        .q = (const float *)q.bytes,
        .out = (float *)expected.bytes,
        .n_queries = n_queries,
        .n_positions = n_positions,
        .head_dim = head_dim,
        .scale = llm_rsqrt((float)head_dim) * LLM_LOG2_E,
        .scratch = scratch.bytes,
    };
    attend_f32(ref, &a, k.bytes, v.bytes, n_positions);
    for (int cut = 0; cut < 2; cut++) {
        memset(scratch.bytes, PATTERN, scratch.size);
        a.out = (float *)actual.bytes;
        attend_f32(set, &a, k.bytes, v.bytes, cut == 0 ? n_positions : 1 + random_below(n_positions));
        compare(&expected, &actual, true);
    }
    drop(&k);
    drop(&v);
    drop(&q);
    drop(&expected);
    drop(&actual);
    drop(&scratch);
}

#if CHECK_SMALL
static const uint32_t all_positions[] = {1, 2, 5, 8, 9, 33, 511, 512, 513, 1100};
static const uint32_t all_head_dims[] = {2, 6, 8, 10, 16, 18, 32, 44, 48, 64, 66, 96, 128};
static const uint32_t long_head_dims[] = {6, 16};
#else
static const uint32_t all_positions[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 255, 511, 512, 513, 777, 1023, 1024, 1025, 1100};
static const uint32_t all_head_dims[] = {2, 4, 6, 8, 10, 12, 14, 16, 18, 22, 24, 26, 30, 32, 34, 38, 40, 44, 48, 50, 56, 62, 64, 66, 72, 80, 86, 96, 98, 112, 118, 126, 128, 130, 256, 512};
static const uint32_t long_head_dims[] = {2, 6, 8, 16, 34, 48, 64, 126, 128};
#endif

static void check_attention(void (*check)(uint32_t, uint32_t, uint32_t, int)) {
    uint32_t turn = 0;
    for (size_t d = 0; d < COUNT(all_head_dims); d++) {
        for (int kind = CACHE_RANDOM; kind < CACHE_KINDS; kind++) {
            uint32_t n_queries = 1 + turn++ % 5 % 4;
            check(n_queries, 1 + random_below(CHECK_SMALL ? 20 : 70), all_head_dims[d], kind);
        }
        check(1, 1, all_head_dims[d], CACHE_RANDOM);
        check(4, 3, all_head_dims[d], CACHE_RANDOM);
        check(2, 24, all_head_dims[d], CACHE_LIMIT);
    }
    for (size_t p = 0; p < COUNT(all_positions); p++) {
        for (size_t d = 0; d < COUNT(long_head_dims); d++) {
            check(1 + turn++ % 4, all_positions[p], long_head_dims[d], CACHE_RANDOM);
            check(1 + turn++ % 4, all_positions[p], long_head_dims[d], CACHE_LIMIT);
            check(1, all_positions[p], long_head_dims[d], (int)(turn % CACHE_KINDS));
        }
    }
    check(9, 40, 8, CACHE_RANDOM);
}

// ---------------------------------------------------------------------------- all

#if CHECK_SMALL
static const uint32_t all_lengths[] = {1, 2, 7, 8, 9, 31, 32, 33, 44, 64, 172, 288};
#else
static const uint32_t all_lengths[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33, 44, 63, 64, 65, 96, 127, 172, 255, 288, 300, 576, 768};
#endif

#define FOR_LENGTHS(name, call) \
    begin(name); \
    for (size_t i = 0; i < COUNT(all_lengths); i++) { \
        for (int floats = FLOAT_RANDOM; floats < FLOAT_KINDS; floats++) { \
            uint32_t n = all_lengths[i]; \
            call; \
        } \
    } \
    end()

static void check_ropes(void) {
    for (size_t d = 0; d < COUNT(all_head_dims); d++) {
        for (int floats = FLOAT_RANDOM; floats < FLOAT_KINDS; floats++) {
            check_rope(1 + (uint32_t)d % 4, all_head_dims[d], LLM_ROPE_NEIGHBOURS, floats);
            check_rope(1 + (uint32_t)d % 4, all_head_dims[d], LLM_ROPE_HALVES, floats);
        }
    }
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : NULL;
    ref = llm_kernels_find("ref");
    set = llm_kernels_find(name);
    if (set == NULL) {
        printf("there is no kernel set %s on this machine\n", name);
        return 2;
    }
    printf("kernel set %s\n", llm_kernels_name(set));

    begin("matmul_int4");
    check_matrices(LLM_INT4);
    end();
    begin("matmul_int8");
    check_matrices(LLM_INT8);
    end();
    begin("matmul_f32");
    check_matrices_f32();
    end();
    FOR_LENGTHS("quantize", check_quantize(n, floats));
    FOR_LENGTHS("quantize_kv", check_quantize_kv(n, floats));
    FOR_LENGTHS("rmsnorm", check_rmsnorm(n, floats, false));
    FOR_LENGTHS("rmsnorm_quantize", check_rmsnorm(n, floats, true));
    FOR_LENGTHS("silu_mul", check_silu_mul(n, floats, false));
    FOR_LENGTHS("silu_mul_quantize", check_silu_mul(n, floats, true));
    FOR_LENGTHS("add", check_add(n, floats));
    begin("rope");
    check_ropes();
    end();
    begin("attention_int8");
    check_attention(check_attention_int8);
    end();
    begin("attention_f32");
    check_attention(check_attention_f32);
    end();

    printf("%u checks, %u failures\n", total_checks, total_failures);
    return total_failures != 0;
}
