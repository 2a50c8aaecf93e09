// Which kernel sets are compiled in. By default each that the compiler's target can run; any can be left out to save flash with
// -DLLM_KERNELS_ARMV7EM=0 and so on. `ref` is always there.
#ifndef LLM_SETS_H
#define LLM_SETS_H

// The assembly takes floats in registers of the FPU: -mfloat-abi=hard.
#ifndef LLM_KERNELS_ARMV7EM
#if defined(__ARM_FEATURE_DSP) && __ARM_ARCH_PROFILE == 'M' && defined(__ARM_FP) && (__ARM_FP & 4) && defined(__ARM_PCS_VFP)
#define LLM_KERNELS_ARMV7EM 1
#else
#define LLM_KERNELS_ARMV7EM 0
#endif
#endif

// Needs the vector extensions of gcc and clang. AVX2 is looked for at run time.
#ifndef LLM_KERNELS_HOST
#if defined(__GNUC__) && (defined(__x86_64__) || (defined(__aarch64__) && defined(__ARM_NEON)))
#define LLM_KERNELS_HOST 1
#else
#define LLM_KERNELS_HOST 0
#endif
#endif

// ESP-IDF names the chip in sdkconfig.h, which its builds have in the path of includes but do not include by themselves.
#ifndef LLM_KERNELS_ESP32S3
#if defined(__XTENSA__) && defined(__has_include)
#if __has_include("sdkconfig.h")
#include "sdkconfig.h"
#endif
#endif
#if defined(__XTENSA__) && defined(CONFIG_IDF_TARGET_ESP32S3)
#define LLM_KERNELS_ESP32S3 1
#else
#define LLM_KERNELS_ESP32S3 0
#endif
#endif

// Needs the vector intrinsics of gcc 14 or clang 17, version 0.12, and a target with vectors (-march=rv64gcv).
#ifndef LLM_KERNELS_RVV
#if (defined(__riscv_xtheadvector) && __GNUC__ >= 14) || (defined(__riscv_v_intrinsic) && __riscv_v_intrinsic >= 12000 && defined(__riscv_vector))
#define LLM_KERNELS_RVV 1
#else
#define LLM_KERNELS_RVV 0
#endif
#endif

#endif
