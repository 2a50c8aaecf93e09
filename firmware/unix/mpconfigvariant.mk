# MicroPython's Unix port as the project builds it: no library beyond libc.
MICROPY_PY_BLUETOOTH = 0
MICROPY_PY_BTREE = 0
MICROPY_PY_FFI = 0
MICROPY_PY_SSL = 0
MICROPY_SSL_MBEDTLS = 0

# SANITIZE=1: ASan everywhere; UBSan in the module, since MicroPython 1.25 itself passes null pointers
# to memcpy and shifts into the sign. Both end the process at the first error.
ifeq ($(SANITIZE),1)
CFLAGS_EXTRA += -fsanitize=address --param asan-use-after-return=0
LDFLAGS_EXTRA += -fsanitize=address,undefined
$(BUILD)/llm/%.o: CFLAGS += -fsanitize=undefined -fno-sanitize-recover=undefined
COPT = -O1
STRIP =
endif
