// Weights that are not mapped: a range of tiles is computed while the next one is read.
#ifndef LLM_STREAM_H
#define LLM_STREAM_H

#include "matmul.h"

// Sets how large the buffers for `image` are, in bytes: codes of at most `most` (0: 32 KB) but at least a tile, two such buffers, and
// scales, two such buffers.
void llm_stream_plan(const llm_image_t *image, uint32_t most, uint32_t *codes_size, uint32_t *scales_size);

// Makes a stream of the image's source, with those buffers in `ram`, one after the other: multiples of LLM_ALIGNMENT.
void llm_stream_init(llm_stream_t *stream, const llm_image_t *image, uint8_t *ram, uint32_t codes_size, uint32_t scales_size);

// Begins a block of tokens, that needs the logits or not. Nothing of a block before, however it ended, is under way then. False if
// the source fails or holds another image by now.
bool llm_stream_begin(llm_stream_t *stream, const llm_image_t *image, bool logits);

// Fills `error` with why a read failed; returns LLM_ERROR_STORAGE.
llm_status_t llm_stream_fail(const llm_stream_t *stream, llm_error_t *error);

// Ends it.
void llm_stream_end(llm_stream_t *stream);

// Reads the tile of the embedding that has the row of `token`; the row is the (token % LLM_TILE)-th of `tile`. Not between two products.
bool llm_stream_embedding(llm_stream_t *stream, const llm_image_t *image, uint32_t token, llm_tensor_t *tile);

// The next product of the block, as llm_multiply; y is [n][w->rows]. False if the source fails, here or before in the block; y is
// zeros then.
bool llm_stream_multiply(llm_stream_t *stream, const llm_image_t *image, const llm_kernels_t *kernels, const llm_parallel_t *parallel, float *y, const llm_tensor_t *w, const llm_vectors_t *x);

#endif
