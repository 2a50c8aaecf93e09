// A matrix times codes, in 16 lanes. Included with these defined:
//
// SUFFIX               of the functions
// E8, E16, E32         how many registers 16 lanes of 8, 16 and 32 bits take
// BLOCK                bytes of a row in a group
// LOAD_TILE(data)      loads a group of a tile, LOW(r) and HIGH(r) are then elements 0 to 15 and 16 to 31 of row r
// LOAD_PAIR(data)      loads a group of two rows, PAIR_LOW(r) and PAIR_HIGH(r) are then their elements
//
// Activation codes are -127 to 127, so that the two products of a lane and group, at most 2 * 128 * 127, fit 16 bits.

#define LANES 16

#define JOIN3(a, b, c) a##b##c
#define JOIN(a, b, c) JOIN3(a, b, c)
#define NAME(function) JOIN(function, _, SUFFIX)
#define i8_t JOIN(vint8, E8, _t)
#define i16_t JOIN(vint16, E16, _t)
#define i32_t JOIN(vint32, E32, _t)

static inline i8_t NAME(load)(const void *codes) {
    return JOIN(__riscv_vle8_v_i8, E8, )((const int8_t *)codes, LANES);
}

static inline i16_t NAME(multiply)(i8_t low, i8_t high, i8_t x_low, i8_t x_high) {
    return __riscv_vwmacc(__riscv_vwmul(low, x_low, LANES), high, x_high, LANES);
}

static inline i32_t NAME(clear)(void) {
    return JOIN(__riscv_vmv_v_x_i32, E32, )(0, LANES);
}

// Stores the sum of the lanes in the place of a float.
static inline void NAME(store)(float *y, i32_t sums) {
    vint32m1_t sum = __riscv_vredsum(sums, __riscv_vmv_s_x_i32m1(0, 1), LANES);
    __riscv_vse32(y, __riscv_vreinterpret_v_i32m1_f32m1(sum), 1);
}

// All rows of one vector.
static void NAME(gemv)(float *y, const llm_tensor_t *w, const int8_t *codes) {
    const int8_t *data = w->data;
    const int8_t *scales = w->scales;
    uint32_t n_groups = llm_n_groups(w->cols);
    for (uint32_t r = 0; r < w->rows; r += LLM_TILE) {
        const int8_t *x = codes;
        const int8_t *end = scales + (size_t)n_groups * LLM_TILE;
        i32_t sums0 = NAME(clear)();
        i32_t sums1 = NAME(clear)();
        i32_t sums2 = NAME(clear)();
        i32_t sums3 = NAME(clear)();
        for (; scales < end; scales += LLM_TILE, data += LLM_TILE * BLOCK) {
            LOAD_TILE(data);
            i8_t x_low = NAME(load)(x);
            x += LANES;
            i8_t x_high = NAME(load)(x);
            x += LANES;
            // Two rows at a time: each change of the width of elements is an instruction, but there are few registers.
            i16_t products0 = NAME(multiply)(LOW(0), HIGH(0), x_low, x_high);
            i16_t products1 = NAME(multiply)(LOW(1), HIGH(1), x_low, x_high);
            sums0 = __riscv_vwmacc(sums0, (int16_t)scales[0], products0, LANES);
            sums1 = __riscv_vwmacc(sums1, (int16_t)scales[1], products1, LANES);
            i16_t products2 = NAME(multiply)(LOW(2), HIGH(2), x_low, x_high);
            i16_t products3 = NAME(multiply)(LOW(3), HIGH(3), x_low, x_high);
            sums2 = __riscv_vwmacc(sums2, (int16_t)scales[2], products2, LANES);
            sums3 = __riscv_vwmacc(sums3, (int16_t)scales[3], products3, LANES);
        }
        NAME(store)(y + r, sums0);
        if (r + LLM_TILE <= w->rows) {
            NAME(store)(y + r + 1, sums1);
            NAME(store)(y + r + 2, sums2);
            NAME(store)(y + r + 3, sums3);
            continue;
        }
        if (r + 1 < w->rows) {
            NAME(store)(y + r + 1, sums1);
        }
        if (r + 2 < w->rows) {
            NAME(store)(y + r + 2, sums2);
        }
    }
}

// Two rows of two vectors.
static void NAME(pairs)(float *y, uint32_t y_stride, bool second, const int8_t *data, const int8_t *scales, uint32_t n_groups, const int8_t *x, uint32_t x_stride) {
    const int8_t *x0 = x;
    const int8_t *x1 = x + x_stride;
    const int8_t *end = scales + (size_t)n_groups * LLM_TILE;
    i32_t sums00 = NAME(clear)(); // row, vector
    i32_t sums01 = NAME(clear)();
    i32_t sums10 = NAME(clear)();
    i32_t sums11 = NAME(clear)();
    for (; scales < end; scales += LLM_TILE, data += LLM_TILE * BLOCK) {
        LOAD_PAIR(data);
        i8_t x0_low = NAME(load)(x0);
        x0 += LANES;
        i8_t x0_high = NAME(load)(x0);
        x0 += LANES;
        i8_t x1_low = NAME(load)(x1);
        x1 += LANES;
        i8_t x1_high = NAME(load)(x1);
        x1 += LANES;
        i16_t products00 = NAME(multiply)(PAIR_LOW(0), PAIR_HIGH(0), x0_low, x0_high);
        i16_t products01 = NAME(multiply)(PAIR_LOW(0), PAIR_HIGH(0), x1_low, x1_high);
        i16_t products10 = NAME(multiply)(PAIR_LOW(1), PAIR_HIGH(1), x0_low, x0_high);
        i16_t products11 = NAME(multiply)(PAIR_LOW(1), PAIR_HIGH(1), x1_low, x1_high);
        sums00 = __riscv_vwmacc(sums00, (int16_t)scales[0], products00, LANES);
        sums01 = __riscv_vwmacc(sums01, (int16_t)scales[0], products01, LANES);
        sums10 = __riscv_vwmacc(sums10, (int16_t)scales[1], products10, LANES);
        sums11 = __riscv_vwmacc(sums11, (int16_t)scales[1], products11, LANES);
    }
    NAME(store)(y, sums00);
    NAME(store)(y + y_stride, sums01);
    if (second) {
        NAME(store)(y + 1, sums10);
        NAME(store)(y + y_stride + 1, sums11);
    }
}

static void NAME(matmul)(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x) {
    uint32_t n_groups = llm_n_groups(w->cols);
    uint32_t n = x->n & ~1u; // done in pairs, two rows for all before the next
    for (uint32_t r = 0; r < w->rows && n > 0; r += 2) {
        size_t first = (size_t)(r / LLM_TILE) * n_groups * LLM_TILE + r % LLM_TILE; // block of group 0
        const int8_t *data = (const int8_t *)w->data + first * BLOCK;
        for (uint32_t i = 0; i < n; i += 2) {
            const int8_t *codes = (const int8_t *)x->codes + (size_t)i * x->stride;
            NAME(pairs)(y + i * y_stride + r, y_stride, r + 1 < w->rows, data, w->scales + first, n_groups, codes, x->stride);
        }
    }
    for (uint32_t i = n; i < x->n; i++) {
        NAME(gemv)(y + i * y_stride, w, (const int8_t *)x->codes + (size_t)i * x->stride);
    }

    // The sums as floats.
    for (uint32_t i = 0; i < x->n; i++) {
        float *values = y + i * y_stride;
        for (size_t r = 0, vl; r < w->rows; r += vl) {
            vl = __riscv_vsetvl_e32m4(w->rows - r);
            vint32m4_t sums = __riscv_vreinterpret_v_f32m4_i32m4(__riscv_vle32_v_f32m4(values + r, vl));
            vfloat32m4_t scale = __riscv_vfmul(__riscv_vle32_v_f32m4(w->row_scales + r, vl), x->scales[i], vl);
            __riscv_vse32(values + r, __riscv_vfmul(__riscv_vfcvt_f(sums, vl), scale, vl), vl);
        }
    }
}

#undef LANES
#undef JOIN3
#undef JOIN
#undef NAME
#undef i8_t
#undef i16_t
#undef i32_t
