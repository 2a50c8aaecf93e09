// The second half of quantization, for kernels that find the largest magnitude on their way.
#ifndef LLM_ARMV7EM_QUANTIZE_H
#define LLM_ARMV7EM_QUANTIZE_H

#include <stdint.h>

// llm_armv7em_quantize of x [n], whose largest magnitude is `max`.
float llm_armv7em_quantize_max(void *codes, const float *x, uint32_t n, float max);

#endif
