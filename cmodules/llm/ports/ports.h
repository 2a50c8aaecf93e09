// What differs by chip and operating system: other cores to compute on.
//
// A port is a folder of functions; the compiler's target chooses one, and `none` is for targets without. Unlike the core, ports
// may keep global state and call the system.
#ifndef LLM_PORTS_H
#define LLM_PORTS_H

#include "../core/llm.h"

// ESP-IDF defines ESP_PLATFORM. -DLLM_PORT_POSIX=0 builds for Unix without threads.
#ifndef LLM_PORT_ESP32
#if defined(ESP_PLATFORM)
#define LLM_PORT_ESP32 1
#else
#define LLM_PORT_ESP32 0
#endif
#endif
#ifndef LLM_PORT_POSIX
#if (defined(__unix__) || defined(__APPLE__)) && !defined(__EMSCRIPTEN__)
#define LLM_PORT_POSIX 1
#else
#define LLM_PORT_POSIX 0
#endif
#endif

// Most cores that a model can use here, 1 where there is no other.
uint32_t llm_port_cores(void);

// Makes `parallel` for a model of `cores` cores: at most llm_port_cores(), or 0 for what is best here, all cores of a chip and one
// thread of an operating system. All models share the tasks or threads, which start with the first product that is divided; one that
// cannot be started costs speed only, as does a model that finds them taken by another.
void llm_port_parallel(llm_parallel_t *parallel, uint32_t cores);

// The model is closed: makes `parallel` one core. With the last model's, tasks and threads end.
void llm_port_parallel_end(llm_parallel_t *parallel);

#endif
