# MicroPython's Unix port as the project builds it: no library beyond libc. `SANITIZE=1` adds ASan
# and UBSan, which end the process at the first error.
MICROPY_PY_BLUETOOTH = 0
MICROPY_PY_BTREE = 0
MICROPY_PY_FFI = 0
MICROPY_PY_SSL = 0
MICROPY_SSL_MBEDTLS = 0

ifeq ($(SANITIZE),1)
SANITIZERS = -fsanitize=address,undefined -fno-sanitize-recover=undefined
CFLAGS_EXTRA += $(SANITIZERS) --param asan-use-after-return=0
LDFLAGS_EXTRA += $(SANITIZERS)
COPT = -O1
STRIP =
endif
