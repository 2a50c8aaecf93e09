// A matrix times codes, in 16 lanes. Included with these defined:
//
// SUFFIX               of the functions
// E8, E16, E32         how many registers 16 lanes of 8, 16 and 32 bits take
// BLOCK                bytes of a row in a group
// LOAD_TILE(data)      loads a group of a tile, LOW(r) and HIGH(r) are then elements 0 to 15 and 16 to 31 of row r
// LOAD_ROW(data)       loads a row's group, `low` and `high` are then its elements
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

// One row of four vectors.
static void NAME(row)(float *y, uint32_t y_stride, const int8_t *data, const int8_t *scales, uint32_t n_groups, const int8_t *x, uint32_t x_stride) {
    const int8_t *x0 = x;
    const int8_t *x1 = x0 + x_stride;
    const int8_t *x2 = x1 + x_stride;
    const int8_t *x3 = x2 + x_stride;
    const int8_t *end = scales + (size_t)n_groups * LLM_TILE;
    i32_t sums0 = NAME(clear)();
    i32_t sums1 = NAME(clear)();
    i32_t sums2 = NAME(clear)();
    i32_t sums3 = NAME(clear)();
    for (; scales < end; scales += LLM_TILE, data += LLM_TILE * BLOCK) {
        LOAD_ROW(data);
        i16_t products0 = NAME(multiply)(low, high, NAME(load)(x0), NAME(load)(x0 + LANES));
        i16_t products1 = NAME(multiply)(low, high, NAME(load)(x1), NAME(load)(x1 + LANES));
        i16_t products2 = NAME(multiply)(low, high, NAME(load)(x2), NAME(load)(x2 + LANES));
        i16_t products3 = NAME(multiply)(low, high, NAME(load)(x3), NAME(load)(x3 + LANES));
        int16_t scale = *scales;
        sums0 = __riscv_vwmacc(sums0, scale, products0, LANES);
        sums1 = __riscv_vwmacc(sums1, scale, products1, LANES);
        sums2 = __riscv_vwmacc(sums2, scale, products2, LANES);
        sums3 = __riscv_vwmacc(sums3, scale, products3, LANES);
        x0 += LLM_GROUP;
        x1 += LLM_GROUP;
        x2 += LLM_GROUP;
        x3 += LLM_GROUP;
    }
    NAME(store)(y, sums0);
    NAME(store)(y + y_stride, sums1);
    NAME(store)(y + 2 * y_stride, sums2);
    NAME(store)(y + 3 * y_stride, sums3);
}

static void NAME(matmul)(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x) {
    uint32_t n_groups = llm_n_groups(w->cols);
    uint32_t n = x->n & ~(AT_ONCE - 1u); // of which four are done at once, a tile for all before the next
    for (uint32_t r = 0; r < w->rows && n > 0; r++) {
        size_t first = (size_t)(r / LLM_TILE) * n_groups * LLM_TILE + r % LLM_TILE; // block of group 0
        const int8_t *data = (const int8_t *)w->data + first * BLOCK;
        for (uint32_t i = 0; i < n; i += AT_ONCE) {
            const int8_t *codes = (const int8_t *)x->codes + (size_t)i * x->stride;
            NAME(row)(y + i * y_stride + r, y_stride, data, w->scales + first, n_groups, codes, x->stride);
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
#undef AT_ONCE
#undef JOIN3
#undef JOIN
#undef NAME
#undef i8_t
#undef i16_t
#undef i32_t
