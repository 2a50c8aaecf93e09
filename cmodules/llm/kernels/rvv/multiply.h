// Tiles of a matrix times codes, in 16 lanes. Included with SUFFIX (of the functions), E8, E16 and E32 (how many registers 16
// lanes of 8, 16 and 32 bits take) and BLOCK (bytes of a row in a group: 16 for int4, 32 for int8) defined.
//
// Activation codes are -127 to 127, so that the two products of a lane and group, at most 2 * 128 * 127, fit 16 bits.

#define LANES 16
#define AT_ONCE 4 // tokens for which a row is unpacked once

#define JOIN3(a, b, c) a##b##c
#define JOIN(a, b, c) JOIN3(a, b, c)
#define NAME(function) JOIN(function, _, SUFFIX)
#define i8_t JOIN(vint8, E8, _t)
#define i16_t JOIN(vint16, E16, _t)
#define i32_t JOIN(vint32, E32, _t)

static inline i8_t NAME(load)(const void *codes) {
    return JOIN(__riscv_vle8_v_i8, E8, )((const int8_t *)codes, LANES);
}

// The elements 0 to 15 and 16 to 31 of a row's group.
#if BLOCK == 16
#define UNPACK(block) \
    i8_t packed = NAME(load)(block); \
    i8_t low = __riscv_vsra(__riscv_vsll(packed, 4, LANES), 4, LANES); \
    i8_t high = __riscv_vsra(packed, 4, LANES)
#else
#define UNPACK(block) \
    i8_t low = NAME(load)(block); \
    i8_t high = NAME(load)((block) + LANES)
#endif

static inline i16_t NAME(multiply)(i8_t low, i8_t high, i8_t x_low, i8_t x_high) {
    return __riscv_vwmacc(__riscv_vwmul(low, x_low, LANES), high, x_high, LANES);
}

static inline i16_t NAME(products)(const uint8_t *block, i8_t x_low, i8_t x_high) {
    UNPACK(block);
    return NAME(multiply)(low, high, x_low, x_high);
}

static inline i32_t NAME(clear)(void) {
    return JOIN(__riscv_vmv_v_x_i32, E32, )(0, LANES);
}

static inline float NAME(total)(i32_t sums) {
    vint32m1_t zero = __riscv_vmv_s_x_i32m1(0, 1);
    return (float)__riscv_vmv_x_s_i32m1_i32(__riscv_vredsum(sums, zero, LANES));
}

// Four rows of one vector, of which `n` are stored.
static void NAME(tile)(float *y, uint32_t n, const uint8_t *data, const int8_t *scales, const float *row_scales, uint32_t n_groups, const int8_t *x, float x_scale) {
    i32_t sums0 = NAME(clear)();
    i32_t sums1 = NAME(clear)();
    i32_t sums2 = NAME(clear)();
    i32_t sums3 = NAME(clear)();
    for (uint32_t g = 0; g < n_groups; g++) {
        i8_t x_low = NAME(load)(x);
        i8_t x_high = NAME(load)(x + LANES);
        // All products, then all sums: each change of the width of elements is an instruction.
        i16_t products0 = NAME(products)(data, x_low, x_high);
        i16_t products1 = NAME(products)(data + BLOCK, x_low, x_high);
        i16_t products2 = NAME(products)(data + 2 * BLOCK, x_low, x_high);
        i16_t products3 = NAME(products)(data + 3 * BLOCK, x_low, x_high);
        sums0 = __riscv_vwmacc(sums0, (int16_t)scales[0], products0, LANES);
        sums1 = __riscv_vwmacc(sums1, (int16_t)scales[1], products1, LANES);
        sums2 = __riscv_vwmacc(sums2, (int16_t)scales[2], products2, LANES);
        sums3 = __riscv_vwmacc(sums3, (int16_t)scales[3], products3, LANES);
        x += LLM_GROUP;
        data += LLM_TILE * BLOCK;
        scales += LLM_TILE;
    }
    y[0] = NAME(total)(sums0) * (row_scales[0] * x_scale);
    if (n > 1) {
        y[1] = NAME(total)(sums1) * (row_scales[1] * x_scale);
    }
    if (n > 2) {
        y[2] = NAME(total)(sums2) * (row_scales[2] * x_scale);
    }
    if (n > 3) {
        y[3] = NAME(total)(sums3) * (row_scales[3] * x_scale);
    }
}

// One row of four vectors.
static void NAME(row)(float *y, uint32_t y_stride, const uint8_t *data, const int8_t *scales, float row_scale, uint32_t n_groups, const int8_t *x, uint32_t x_stride, const float *x_scales) {
    const int8_t *x0 = x;
    const int8_t *x1 = x0 + x_stride;
    const int8_t *x2 = x1 + x_stride;
    const int8_t *x3 = x2 + x_stride;
    i32_t sums0 = NAME(clear)();
    i32_t sums1 = NAME(clear)();
    i32_t sums2 = NAME(clear)();
    i32_t sums3 = NAME(clear)();
    for (size_t at = 0; at < (size_t)n_groups * LLM_GROUP; at += LLM_GROUP) {
        UNPACK(data);
        i16_t products0 = NAME(multiply)(low, high, NAME(load)(x0 + at), NAME(load)(x0 + at + LANES));
        i16_t products1 = NAME(multiply)(low, high, NAME(load)(x1 + at), NAME(load)(x1 + at + LANES));
        i16_t products2 = NAME(multiply)(low, high, NAME(load)(x2 + at), NAME(load)(x2 + at + LANES));
        i16_t products3 = NAME(multiply)(low, high, NAME(load)(x3 + at), NAME(load)(x3 + at + LANES));
        int16_t scale = *scales;
        sums0 = __riscv_vwmacc(sums0, scale, products0, LANES);
        sums1 = __riscv_vwmacc(sums1, scale, products1, LANES);
        sums2 = __riscv_vwmacc(sums2, scale, products2, LANES);
        sums3 = __riscv_vwmacc(sums3, scale, products3, LANES);
        data += LLM_TILE * BLOCK;
        scales += LLM_TILE;
    }
    y[0] = NAME(total)(sums0) * (row_scale * x_scales[0]);
    y[y_stride] = NAME(total)(sums1) * (row_scale * x_scales[1]);
    y[2 * y_stride] = NAME(total)(sums2) * (row_scale * x_scales[2]);
    y[3 * y_stride] = NAME(total)(sums3) * (row_scale * x_scales[3]);
}

static void NAME(matmul)(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x) {
    const uint8_t *data = w->data;
    const int8_t *scales = w->scales;
    uint32_t n_groups = llm_n_groups(w->cols);
    for (uint32_t r = 0; r < w->rows; r += LLM_TILE) {
        uint32_t n = w->rows - r < LLM_TILE ? w->rows - r : LLM_TILE;
        const int8_t *codes = x->codes;
        uint32_t i = 0;
        for (; i + AT_ONCE <= x->n; i += AT_ONCE, codes += (size_t)AT_ONCE * x->stride) {
            for (uint32_t j = 0; j < n; j++) {
                NAME(row)(y + i * y_stride + r + j, y_stride, data + j * BLOCK, scales + j, w->row_scales[r + j], n_groups, codes, x->stride, x->scales + i);
            }
        }
        for (; i < x->n; i++, codes += x->stride) {
            NAME(tile)(y + i * y_stride + r, n, data, scales, w->row_scales + r, n_groups, codes, x->scales[i]);
        }
        data += (size_t)n_groups * LLM_TILE * BLOCK;
        scales += (size_t)n_groups * LLM_TILE;
    }
}

#undef LANES
#undef AT_ONCE
#undef JOIN3
#undef JOIN
#undef NAME
#undef UNPACK
#undef i8_t
#undef i16_t
#undef i32_t
