# User C module `_llm`: pass USER_C_MODULES=<this repository>/cmodules to the port's make.

LLM_DIR := $(USERMOD_DIR)

# Only the bindings hold names for MicroPython to collect; the engine is plain C.
SRC_USERMOD_C += $(wildcard $(LLM_DIR)/bindings/*.c)
LLM_ENGINE := $(wildcard $(LLM_DIR)/core/*.c $(LLM_DIR)/kernels/*.c $(LLM_DIR)/kernels/*/*.c $(LLM_DIR)/ports/*/*.c)
SRC_USERMOD_LIB_C += $(LLM_ENGINE)
SRC_USERMOD_LIB_ASM += $(wildcard $(LLM_DIR)/kernels/*/*.S)

# For these objects alone, after the port's own flags. Results are the same to the last bit on every target (docs/arithmetic.md):
# no operation may be fused or reordered.
$(LLM_ENGINE:$(USER_C_MODULES)/%.c=$(BUILD)/%.o): CFLAGS += -std=c99 -O3 -ffp-contract=off -fno-fast-math

# What runs once, once a text, or is bound by storage, is small instead.
LLM_SMALL := $(addprefix $(LLM_DIR)/core/,image.c normalize.c plan.c state.c unicode.c wordpiece.c)
$(LLM_SMALL:$(USER_C_MODULES)/%.c=$(BUILD)/%.o): CFLAGS += -Os
