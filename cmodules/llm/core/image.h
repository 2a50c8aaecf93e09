// The image reader's inner interface: what model.c needs beyond llm.h.
#ifndef LLM_IMAGE_H
#define LLM_IMAGE_H

#include "llm.h"

// `size` bytes, rounded up to a multiple of LLM_ALIGNMENT.
static inline uint64_t llm_align(uint64_t size) {
    return (size + LLM_ALIGNMENT - 1) & ~(uint64_t)(LLM_ALIGNMENT - 1);
}

// What a tensor is for. docs/image-format.md has the shapes.
typedef enum {
    LLM_TOKEN_EMBD = 1,
    LLM_OUTPUT_NORM = 2,
    LLM_OUTPUT = 3,
    LLM_ROPE_PHASE = 4,
    LLM_ATTN_NORM = 16,
    LLM_ATTN_Q = 17,
    LLM_ATTN_K = 18,
    LLM_ATTN_V = 19,
    LLM_ATTN_OUTPUT = 20,
    LLM_FFN_NORM = 32,
    LLM_FFN_GATE = 33,
    LLM_FFN_UP = 34,
    LLM_FFN_DOWN = 35,
} llm_role_t;

#define LLM_WHOLE_MODEL 0xFFFF // layer of a tensor that belongs to none

// The `i`-th tensor of the directory of an image that llm_image_open has accepted. In such an image the tensors of
// layer l are entries [l * LLM_TENSORS_PER_LAYER, ...) in ascending order of role, those of the whole model last. If the image has a
// source, matrices have no data and no scales.
llm_tensor_t llm_image_tensor(const llm_image_t *image, uint32_t i);

#define LLM_TENSORS_PER_LAYER 9
#define LLM_MATRICES_PER_LAYER 7

// The entry of the `i`-th matrix in the order in which a token needs them: those of each layer, then the head's.
uint32_t llm_image_matrix(const llm_image_t *image, uint32_t i);

// The entry of the embedding.
uint32_t llm_image_embedding(const llm_image_t *image);

// Where the planes of a tensor begin in the image.
typedef struct {
    uint64_t data; // codes or values
    uint64_t scales; // of the groups, if it has any
    uint64_t row_scales; // the same
} llm_planes_t;

llm_planes_t llm_image_planes(const llm_image_t *image, uint32_t i);

#endif
