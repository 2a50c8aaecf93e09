# User C module `_llm`: pass USER_C_MODULES=<this repository>/cmodules/llm/micropython.cmake to the port's build.

file(GLOB LLM_BINDINGS ${CMAKE_CURRENT_LIST_DIR}/bindings/*.c)
file(GLOB LLM_ENGINE
    ${CMAKE_CURRENT_LIST_DIR}/core/*.c
    ${CMAKE_CURRENT_LIST_DIR}/kernels/*.c
    ${CMAKE_CURRENT_LIST_DIR}/kernels/*/*.c
    ${CMAKE_CURRENT_LIST_DIR}/ports/*/*.c
)
file(GLOB LLM_ASSEMBLY ${CMAKE_CURRENT_LIST_DIR}/kernels/*/*.S)

# For these files alone, after the port's own flags. Results are the same to the last bit on every target (docs/arithmetic.md):
# no operation may be fused or reordered.
set_source_files_properties(${LLM_ENGINE} PROPERTIES
    COMPILE_OPTIONS "-std=c99;-O3;-ffp-contract=off;-fno-fast-math"
)
# What runs once, once a text, or is bound by storage, is small instead.
set(LLM_SMALL image.c normalize.c plan.c state.c unicode.c wordpiece.c)
list(TRANSFORM LLM_SMALL PREPEND ${CMAKE_CURRENT_LIST_DIR}/core/)
set_source_files_properties(${LLM_SMALL} PROPERTIES
    COMPILE_OPTIONS "-std=c99;-Os;-ffp-contract=off;-fno-fast-math"
)

add_library(usermod_llm INTERFACE)
target_sources(usermod_llm INTERFACE ${LLM_BINDINGS} ${LLM_ENGINE} ${LLM_ASSEMBLY})
target_link_libraries(usermod INTERFACE usermod_llm)
