// One core.
#include "../ports.h"
#if !LLM_PORT_ESP32 && !LLM_PORT_POSIX

uint32_t llm_port_cores(void) {
    return 1;
}

void llm_port_parallel(llm_parallel_t *parallel, uint32_t cores) {
    (void)cores;
    *parallel = (llm_parallel_t){
        .n_cores = 1};
}

void llm_port_parallel_end(llm_parallel_t *parallel) {
    (void)parallel;
}
#endif
