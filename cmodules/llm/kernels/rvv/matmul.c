// A matrix times codes, in one way for vectors of any length: the four rows of a tile at once, eight columns of each.
//
// As elements of 64 bits a vector holds a piece of each row, eight of its codes, and a piece of x is spread over the rows by
// broadcasting it. As elements of 8 bits it holds what is multiplied: two registers of 128 bits, or a part of longer ones. Loads of
// a tile put the pieces of a row into one vector each.
#include "rvv.h"

#if LLM_KERNELS_RVV

#include "ops.h"

#define INLINE static inline __attribute__((always_inline))

#define PIECE 8 // columns
#define LANES (LLM_TILE * PIECE)

static inline vint8m2_t as_codes(vuint64m2_t pieces) {
    return __riscv_vreinterpret_v_u8m2_i8m2(__riscv_vreinterpret_v_u64m2_u8m2(pieces));
}

static inline vint8m2_t broadcast(const int8_t *x) {
    uint64_t piece;
    memcpy(&piece, __builtin_assume_aligned(x, sizeof(piece)), sizeof(piece));
    return as_codes(__riscv_vmv_v_x_u64m2(piece, LLM_TILE));
}

// The scale of each row in all lanes of its piece.
static inline vint8m2_t load_scales(const int8_t *scales) {
#if defined(__riscv_xtheadvector)
    vuint64m2_t bytes = __riscv_th_vlbu_v_u64m2((const void *)scales, LLM_TILE);
#else
    vuint64m2_t bytes = __riscv_vzext_vf8_u64m2(__riscv_vle8_v_u8mf4((const uint8_t *)scales, LLM_TILE), LLM_TILE);
#endif
    return as_codes(__riscv_vmul_vx_u64m2(bytes, 0x0101010101010101, LLM_TILE));
}

// sums + products * scale. `first`: there are no sums yet; zeros would take registers that are needed.
static inline vint32m8_t add(vint32m8_t sums, vint16m4_t products, vint16m4_t scale, bool first) {
    return first ? __riscv_vwmul_vv_i32m8(products, scale, LANES) : __riscv_vwmacc_vv_i32m8(sums, products, scale, LANES);
}

// sums + a group of a tile times x. The low nibbles are columns 0 to 15. A lane's four products fit 16 bits: 4 * 8 * 127.
INLINE vint32m8_t add_int4(vint32m8_t sums, const uint8_t *data, const int8_t *scales, const int8_t *x, bool first) {
    vuint64m2x2_t packed = __riscv_vlseg2e64_v_u64m2x2((const void *)data, LLM_TILE);
    vint8m2_t scale8 = load_scales(scales);
    vint8m2_t x0 = broadcast(x);
    vint8m2_t x1 = broadcast(x + PIECE);
    vint8m2_t x2 = broadcast(x + 2 * PIECE);
    vint8m2_t x3 = broadcast(x + 3 * PIECE);
    vint8m2_t w02 = as_codes(__riscv_vget_v_u64m2x2_u64m2(packed, 0));
    vint8m2_t w13 = as_codes(__riscv_vget_v_u64m2x2_u64m2(packed, 1));
    vint8m2_t w0 = __riscv_vsra_vx_i8m2(__riscv_vsll_vx_i8m2(w02, 4, LANES), 4, LANES);
    vint8m2_t w1 = __riscv_vsra_vx_i8m2(__riscv_vsll_vx_i8m2(w13, 4, LANES), 4, LANES);
    vint16m4_t products = __riscv_vwmul_vv_i16m4(w0, x0, LANES);
    products = __riscv_vwmacc_vv_i16m4(products, w1, x1, LANES);
    products = __riscv_vwmacc_vv_i16m4(products, __riscv_vsra_vx_i8m2(w02, 4, LANES), x2, LANES);
    products = __riscv_vwmacc_vv_i16m4(products, __riscv_vsra_vx_i8m2(w13, 4, LANES), x3, LANES);
    vint16m4_t scale = __riscv_vwcvt_x_x_v_i16m4(scale8, LANES);
    return add(sums, products, scale, first);
}

// The same of int8. Two products fit 16 bits: 2 * 128 * 127.
INLINE vint32m8_t add_int8(vint32m8_t sums, const uint8_t *data, const int8_t *scales, const int8_t *x, bool first) {
    vuint64m2x2_t w01 = __riscv_vlsseg2e64_v_u64m2x2((const void *)data, LLM_GROUP, LLM_TILE);
    vuint64m2x2_t w23 = __riscv_vlsseg2e64_v_u64m2x2((const void *)(data + 2 * PIECE), LLM_GROUP, LLM_TILE);
    vint8m2_t scale8 = load_scales(scales);
    vint8m2_t x0 = broadcast(x);
    vint8m2_t x1 = broadcast(x + PIECE);
    vint8m2_t x2 = broadcast(x + 2 * PIECE);
    vint8m2_t x3 = broadcast(x + 3 * PIECE);
    vint16m4_t products01 = __riscv_vwmul_vv_i16m4(as_codes(__riscv_vget_v_u64m2x2_u64m2(w01, 0)), x0, LANES);
    products01 = __riscv_vwmacc_vv_i16m4(products01, as_codes(__riscv_vget_v_u64m2x2_u64m2(w01, 1)), x1, LANES);
    vint16m4_t products23 = __riscv_vwmul_vv_i16m4(as_codes(__riscv_vget_v_u64m2x2_u64m2(w23, 0)), x2, LANES);
    products23 = __riscv_vwmacc_vv_i16m4(products23, as_codes(__riscv_vget_v_u64m2x2_u64m2(w23, 1)), x3, LANES);
    vint16m4_t scale = __riscv_vwcvt_x_x_v_i16m4(scale8, LANES);
    return add(add(sums, products01, scale, first), products23, scale, false);
}

// The sum of each row's lanes: three times the even and the odd ones are added.
static inline vint32m1_t add_lanes(vint32m8_t sums) {
    vuint64m8_t pairs8 = __riscv_vreinterpret_v_u32m8_u64m8(__riscv_vreinterpret_v_i32m8_u32m8(sums));
    vuint32m4_t odd4 = __riscv_vnsrl_wx_u32m4(pairs8, 32, 4 * LLM_TILE);
    vuint32m4_t sums4 = __riscv_vadd_vv_u32m4(__riscv_vnsrl_wx_u32m4(pairs8, 0, 4 * LLM_TILE), odd4, 4 * LLM_TILE);
    vuint64m4_t pairs4 = __riscv_vreinterpret_v_u32m4_u64m4(sums4);
    vuint32m2_t odd2 = __riscv_vnsrl_wx_u32m2(pairs4, 32, 2 * LLM_TILE);
    vuint32m2_t sums2 = __riscv_vadd_vv_u32m2(__riscv_vnsrl_wx_u32m2(pairs4, 0, 2 * LLM_TILE), odd2, 2 * LLM_TILE);
    vuint64m2_t pairs2 = __riscv_vreinterpret_v_u32m2_u64m2(sums2);
    vuint32m1_t odd1 = __riscv_vnsrl_wx_u32m1(pairs2, 32, LLM_TILE);
    vuint32m1_t sums1 = __riscv_vadd_vv_u32m1(__riscv_vnsrl_wx_u32m1(pairs2, 0, LLM_TILE), odd1, LLM_TILE);
    return __riscv_vreinterpret_v_u32m1_i32m1(sums1);
}

INLINE vint32m8_t add_group(vint32m8_t sums, const uint8_t *data, const int8_t *scales, const int8_t *x, bool first, bool int4) {
    return int4 ? add_int4(sums, data, scales, x, first) : add_int8(sums, data, scales, x, first);
}

INLINE void matmul(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x, bool int4) {
    size_t group_size = LLM_TILE * LLM_GROUP / (int4 ? 2 : 1);
    size_t n_groups = llm_n_groups(w->cols);
    const uint8_t *tile = w->data;
    const int8_t *tile_scales = w->scales;
    for (uint32_t row = 0; row < w->rows; row += LLM_TILE, tile += n_groups * group_size, tile_scales += n_groups * LLM_TILE) {
        size_t n_rows = w->rows - row < LLM_TILE ? w->rows - row : LLM_TILE;
        const int8_t *end = tile_scales + n_groups * LLM_TILE;
        const int8_t *codes = x->codes;
        float *out = y + row;
        for (uint32_t i = 0; i < x->n; i++, codes += x->stride, out += y_stride) {
            const uint8_t *data = tile;
            const int8_t *at = codes;
            vint32m8_t sums = add_group(__riscv_vundefined_i32m8(), data, tile_scales, at, true, int4);
            for (const int8_t *scales = tile_scales + LLM_TILE; scales < end; scales += LLM_TILE) {
                data += group_size;
                at += LLM_GROUP;
                sums = add_group(sums, data, scales, at, false, int4);
            }
            vfloat32m1_t values = __riscv_vfcvt_f_x_v_f32m1(add_lanes(sums), LLM_TILE);
            vfloat32m1_t factors = __riscv_vfmul_vf_f32m1(__riscv_vle32_v_f32m1(w->row_scales + row, LLM_TILE), x->scales[i], LLM_TILE);
            __riscv_vse32_v_f32m1(out, __riscv_vfmul_vv_f32m1(values, factors, LLM_TILE), n_rows);
        }
    }
}

void llm_rvv_matmul_int4(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x) {
    matmul(y, y_stride, w, x, true);
}

void llm_rvv_matmul_int8(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x) {
    matmul(y, y_stride, w, x, false);
}

#endif
