// Which kernel sets are compiled in. By default each that the compiler's target can run; any can be left out to save flash with
// -DLLM_KERNELS_ARMV7EM=0 and so on. `ref` is always there.
#ifndef LLM_SETS_H
#define LLM_SETS_H

#ifndef LLM_KERNELS_ARMV7EM
#if defined(__ARM_FEATURE_DSP) && defined(__ARM_FEATURE_SIMD32) && !defined(__aarch64__)
#define LLM_KERNELS_ARMV7EM 1
#else
#define LLM_KERNELS_ARMV7EM 0
#endif
#endif

#endif
