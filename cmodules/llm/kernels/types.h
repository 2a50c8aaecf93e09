// What the engine and its kernels have in common: tensors, and the kernel sets by name.
#ifndef LLM_TYPES_H
#define LLM_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The image, and the RAM given to a model, must begin at a multiple of this many bytes.
#define LLM_ALIGNMENT 16

// Most tokens that are computed together.
#define LLM_MAX_BLOCK 16

typedef enum {
    LLM_F32 = 1,
    LLM_INT8 = 2,
    LLM_INT4 = 3,
    LLM_U32 = 4,
} llm_dtype_t;

typedef enum {
    LLM_ROPE_NEIGHBOURS = 1, // pairs (2i, 2i + 1)
    LLM_ROPE_HALVES = 2, // pairs (i, i + head_dim / 2)
} llm_rope_t;

// One tensor of an image; pointers into the image.
typedef struct {
    const void *data; // codes or values, 64-byte aligned within the image, layout by dtype
    const int8_t *scales; // [n_tiles][n_groups][4] group scales, NULL unless int8 or int4
    const float *row_scales; // [n_tiles * 4], NULL unless int8 or int4
    uint32_t rows; // outputs
    uint32_t cols; // inputs, without padding
    llm_dtype_t dtype; // of data
} llm_tensor_t;

typedef struct llm_kernels llm_kernels_t; // kernels.h

// The kernel set called `name`, or the best one that this machine can run if `name` is NULL. NULL if
// there is none of that name here.
const llm_kernels_t *llm_kernels_find(const char *name);

// The `i`-th kernel set that this machine can run, best first, NULL past the last.
const llm_kernels_t *llm_kernels_at(size_t i);

// The name of a kernel set, as `llm_kernels_find` takes it.
const char *llm_kernels_name(const llm_kernels_t *kernels);

#endif
