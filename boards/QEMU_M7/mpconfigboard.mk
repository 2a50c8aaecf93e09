# QEMU_M7: Cortex-M7 with hard float on QEMU's mps2-an500. Included by MicroPython's ports/qemu/Makefile.
QEMU_ARCH = arm
QEMU_MACHINE = mps2-an500

CFLAGS += -mthumb -mcpu=cortex-m7 -mfpu=fpv5-d16 -mfloat-abi=hard
CFLAGS += -DQEMU_SOC_MPS2
CFLAGS += -I$(BOARD_DIR) -DMP_CONFIGFILE='<mpconfigboard.h>'
QSTR_GLOBAL_DEPENDENCIES += $(BOARD_DIR)/mpconfigboard.h

MICROPY_VFS_LFS2 = 1
MPY_CROSS_FLAGS += -march=armv7emdp

# board.c has its own reset handler and main loop; what it replaces in the port is dropped at link
# time. The port demands a heap size, but here the heap is all the RAM that the linker finds free.
MICROPY_HEAP_SIZE = 4
LDSCRIPT = $(BOARD_DIR)/board.ld
LDFLAGS += -Wl,--wrap=exit -Wl,--wrap=mp_hal_stdin_rx_chr -Wl,--wrap=mp_hal_stdio_poll

vpath %.c $(BOARD_DIR)
SRC_C += board.c shared/timeutils/timeutils.c
SRC_BOARD_O = shared/runtime/gchelper_native.o shared/runtime/gchelper_thumb2.o
