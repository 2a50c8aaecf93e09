// Configuration of the QEMU_M7 board: MicroPython's ports/qemu and what a useful board adds to it.
// MP_CONFIGFILE names this header instead of the port's, which defines without guards.

#include "mpconfigport.h"

#undef MICROPY_HW_BOARD_NAME
#define MICROPY_HW_BOARD_NAME "QEMU_M7 (mps2-an500)"
#define MICROPY_HW_MCU_NAME "Cortex-M7"
#define MICROPY_PY_BUILTINS_HELP_TEXT board_help_text

// The stack below this many bytes is for C code that does not check it (littlefs, the engine).
#define MICROPY_STACK_CHECK_MARGIN (6 * 1024)

#define MICROPY_EPOCH_IS_1970 (1)
#define MICROPY_KBD_EXCEPTION (1)
#define MICROPY_PY_OS_UNAME (1)
#define MICROPY_PY_SELECT_SELECT (0)
#define MICROPY_PY_TIME_GMTIME_LOCALTIME_MKTIME (1)
#define MICROPY_PY_TIME_TIME_TIME_NS (1)
#define MICROPY_PY_TIME_INCLUDEFILE "boardtime.h"

// machine.freq and machine.UART, of board.c.
#define MICROPY_PY_MACHINE_EXTRA_GLOBALS {MP_ROM_QSTR(MP_QSTR_freq), MP_ROM_PTR(&board_freq_obj)},
extern const struct _mp_obj_fun_builtin_var_t board_freq_obj;
#define MICROPY_PY_MACHINE_UART (1)
#define MICROPY_PY_MACHINE_UART_INCLUDEFILE "boarduart.h"

#undef MICROPY_PY_ASYNCIO
#define MICROPY_PY_ASYNCIO (1)
#undef MICROPY_PY_SELECT
#define MICROPY_PY_SELECT (1)
#undef MICROPY_PY_SYS_STDIO_BUFFER
#define MICROPY_PY_SYS_STDIO_BUFFER (1)
#undef MICROPY_PY_TIME
#define MICROPY_PY_TIME (1)
#undef MICROPY_VFS_ROM_IOCTL
#define MICROPY_VFS_ROM_IOCTL (1)

// Waiting halts the CPU until an interrupt, so that an idle board costs the host nothing.
void board_wait(int32_t timeout_ms);
#define MICROPY_INTERNAL_WFE(timeout_ms) board_wait(timeout_ms)
