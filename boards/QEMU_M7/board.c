// The QEMU_M7 board: start-up, faults, serial line, clock, ROMFS and the main loop.
//
// Everything else is MicroPython's ports/qemu. QEMU's mps2-an500 stands in for a Cortex-M7 with
// 512 KB of RAM and memory-mapped QSPI flash at 0x60000000.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "py/builtin.h"
#include "py/cstack.h"
#include "py/gc.h"
#include "py/mperrno.h"
#include "py/mphal.h"
#include "py/objarray.h"
#include "py/ringbuf.h"
#include "py/runtime.h"
#include "py/stream.h"
#include "extmod/vfs.h"
#include "extmod/vfs_lfs.h"
#include "shared/runtime/interrupt_char.h"
#include "shared/runtime/pyexec.h"
#include "shared/runtime/semihosting_arm.h"
#include "uart.h"
#include "board.h"

#define REG(address) (*(volatile uint32_t *)(address))

#define SCB_AIRCR REG(0xE000ED0C)
#define SCB_CFSR REG(0xE000ED28)
#define SCB_HFSR REG(0xE000ED2C)
#define SCB_MMFAR REG(0xE000ED34)
#define SCB_BFAR REG(0xE000ED38)
#define SCB_CPACR REG(0xE000ED88)
#define MPU_CTRL REG(0xE000ED94)
#define MPU_RBAR REG(0xE000ED9C)
#define MPU_RASR REG(0xE000EDA0)
#define NVIC_ISER REG(0xE000E100)
#define NVIC_ICER REG(0xE000E180)

// The CMSDK UART and timer (Arm DDI 0479, chapter 4).
typedef struct _cmsdk_uart_t {
    volatile uint32_t data, state, ctrl, intstatus, bauddiv;
} cmsdk_uart_t;
#define UART0 ((cmsdk_uart_t *)0x40004000)
#define UART1 ((cmsdk_uart_t *)0x40005000)
#define UART_TXFULL (1 << 0) // state
#define UART_RXFULL (1 << 1) // state
#define UART_TX_EN (1 << 0) // ctrl
#define UART_RX_EN (1 << 1) // ctrl
#define UART_RX_INT (1 << 1) // intstatus
#define UART_RX_INTEN (1 << 3) // ctrl
#define UART_IRQ (0)
#define UART1_IRQ (2)

typedef struct _cmsdk_timer_t {
    volatile uint32_t ctrl, value, reload, intstatus;
} cmsdk_timer_t;
#define TIMER0 ((cmsdk_timer_t *)0x40000000)
#define TIMER1 ((cmsdk_timer_t *)0x40001000)
#define TIMER_ENABLE (1 << 0)
#define TIMER_INTEN (1 << 3)
#define TIMER0_IRQ (8)
#define TIMER1_IRQ (9)
#define TIMER_HZ (25000000)

// Set by the linker script.
extern uint8_t _sidata[], _sdata[], _edata[], _sbss[], _ebss[], _estack[], _stack_size[];
extern uint8_t _heap_start[], _heap_end[];
extern uint8_t _romfs_start[], _romfs_size[], _flash_start[], _flash_size[];

const char board_help_text[] =
    "Welcome to MicroPython on QEMU_M7, an emulated Cortex-M7 with 512 KB of RAM!\n"
    "\n"
    "  /      files in emulated flash (2 MB; kept over soft reset, lost when the emulator ends)\n"
    "  /rom   ROMFS at 0x60000000, read in place\n"
    "  time.ticks_cpu() counts instructions when the emulator runs with -icount shift=0\n"
    "\n"
    "  Ctrl-C interrupts, Ctrl-D is a soft reset, Ctrl-E pastes.\n"
    "\n"
    "For help on a module or an object: help(module), help(object). All modules: help('modules')\n";

/******************************************************************************/
// Start-up

// What may be accessed. QEMU maps more RAM than the budget, reads zeros from holes and lets code be
// overwritten: here all of that faults, as does what a null pointer reaches. A later entry wins.
static const struct {
    uint32_t base, size_log2, access;
} mpu_regions[] = {
    {0x00000000, 22, 6 << 24},            // code: read-only
    {0x00000000, 10, 1 << 28 | 0 << 24},  // the vectors: nothing
    {0x20000000, 19, 3 << 24},            // RAM: everything, native code runs here
    {0x40000000, 18, 1 << 28 | 3 << 24},  // peripherals: no code
    {0x60000000, 24, 3 << 24},            // flash: everything
};

static void start(void) NORETURN;

// Reset handler: makes the CPU fit for C code with hard float, then starts the board.
NORETURN void board_reset(void) {
    SCB_CPACR |= 0xF00000; // full access to the FPU
    for (size_t i = 0; i < MP_ARRAY_SIZE(mpu_regions); ++i) {
        MPU_RBAR = mpu_regions[i].base | 1 << 4 | i;
        MPU_RASR = mpu_regions[i].access | (mpu_regions[i].size_log2 - 1) << 1 | 1;
    }
    MPU_CTRL = 1;
    __asm volatile("dsb \n isb");

    memcpy(_sdata, _sidata, _edata - _sdata);
    memset(_sbss, 0, _ebss - _sbss);
    start();
}

/******************************************************************************/
// Faults

// Prints to the serial line and to the emulator's own output, which outlives the line.
static void fault_print_strn(void *env, const char *str, size_t len) {
    (void)env;
    mp_hal_stdout_tx_strn_cooked(str, len);
    mp_semihosting_tx_strn(str, len);
}

static const mp_print_t fault_print = {NULL, fault_print_strn};

// Reports a fault and ends the emulator with status 1. `frame` is what the exception pushed.
static NORETURN __attribute__((used)) void fault_report(const uint32_t *frame) {
    mp_printf(&fault_print, "\nFATAL: CPU fault, CFSR %08x HFSR %08x MMFAR %08x BFAR %08x SP %08x\n",
        SCB_CFSR, SCB_HFSR, SCB_MMFAR, SCB_BFAR, (unsigned)frame);
    if ((uintptr_t)frame < (uintptr_t)_estack - (uintptr_t)_stack_size) {
        mp_printf(&fault_print, "The stack overflowed.\n");
    } else {
        mp_printf(&fault_print, "R0 %08x R1 %08x R2 %08x R3 %08x R12 %08x LR %08x PC %08x xPSR %08x\n",
            frame[0], frame[1], frame[2], frame[3], frame[4], frame[5], frame[6], frame[7]);
    }
    exit(1);
}

// The stack may be what failed, so the report runs on a fresh one.
static __attribute__((naked)) void fault(void) {
    __asm volatile(
        "mrs r0, msp          \n"
        "ldr r1, =_estack     \n"
        "msr msp, r1          \n"
        "b fault_report       \n");
}

NORETURN void __real_exit(int status);

// exit(0) comes from machine.reset(), which resets the whole machine. Anything else is fatal.
NORETURN void __wrap_exit(int status) {
    if (status != 0) {
        mp_semihosting_exit(status);
    }
    SCB_AIRCR = 0x05FA0004;
    for (;;) {
    }
}

/******************************************************************************/
// Waiting

static inline uint32_t irq_disable(void) {
    uint32_t primask;
    __asm volatile("mrs %0, primask \n cpsid i" : "=r"(primask)::"memory");
    return primask;
}

static inline void irq_restore(uint32_t primask) {
    __asm volatile("msr primask, %0" ::"r"(primask) : "memory");
}

static volatile bool irq_seen; // an interrupt came since the last board_wait

void board_wait(int32_t timeout_ms) {
    if (timeout_ms == 0) {
        return;
    }
    if (timeout_ms > 0) {
        TIMER1->value = (uint32_t)MIN(timeout_ms, 100000) * (TIMER_HZ / 1000);
        TIMER1->ctrl = TIMER_ENABLE | TIMER_INTEN;
    }
    uint32_t primask = irq_disable();
    if (!irq_seen) {
        __asm volatile("wfi"); // wakes although interrupts are masked
    }
    irq_seen = false;
    irq_restore(primask);
    TIMER1->ctrl = 0;
}

static void timer1_irq(void) {
    TIMER1->intstatus = 1;
    TIMER1->ctrl = 0;
    irq_seen = true;
}

/******************************************************************************/
// Clock: timer 0 counts down at 25 MHz and wraps every 171.8 s

static volatile uint32_t timer0_wraps;
static uint64_t boot_time_ns; // since 1970

static void timer0_irq(void) {
    TIMER0->intstatus = 1;
    ++timer0_wraps;
}

static uint64_t ticks(void) {
    uint32_t primask = irq_disable();
    uint32_t wraps = timer0_wraps;
    uint32_t value = TIMER0->value;
    if (TIMER0->intstatus) {
        // It wrapped and the interrupt waits: `value` may be from before or after.
        value = TIMER0->value;
        ++wraps;
    }
    irq_restore(primask);
    return ((uint64_t)wraps << 32) + (UINT32_MAX - value);
}

// Seconds since 1970, from the host (semihosting SYS_TIME).
static uint32_t host_time(void) {
    register uint32_t r0 __asm("r0") = 0x11;
    register uint32_t r1 __asm("r1") = 0;
    __asm volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static void clock_init(void) {
    TIMER0->value = UINT32_MAX;
    TIMER0->reload = UINT32_MAX;
    TIMER0->ctrl = TIMER_ENABLE | TIMER_INTEN;
    boot_time_ns = host_time() * 1000000000ULL;
}

// Nanoseconds of virtual time, in steps of 40. With `-icount shift=0` one instruction takes one.
mp_uint_t mp_hal_ticks_cpu(void) {
    return ticks() * (1000000000 / TIMER_HZ);
}

mp_uint_t mp_hal_ticks_us(void) {
    return ticks() / (TIMER_HZ / 1000000);
}

mp_uint_t mp_hal_ticks_ms(void) {
    return ticks() / (TIMER_HZ / 1000);
}

uint64_t mp_hal_time_ns(void) {
    return boot_time_ns + ticks() * (1000000000 / TIMER_HZ);
}

void mp_hal_delay_us(mp_uint_t us) {
    uint64_t end = ticks() + (uint64_t)us * (TIMER_HZ / 1000000);
    while (ticks() < end) {
    }
}

void mp_hal_delay_ms(mp_uint_t ms) {
    const uint32_t tick = TIMER_HZ / 1000;
    uint64_t now = ticks();
    uint64_t end = now + (uint64_t)ms * tick;
    mp_event_handle_nowait();
    for (; now < end; now = ticks()) {
        mp_event_wait_ms((end - now + tick - 1) / tick);
    }
}

/******************************************************************************/
// Serial line

static uint8_t stdin_array[512];
static ringbuf_t stdin_ringbuf = {stdin_array, sizeof(stdin_array), 0, 0};

static void uart_irq(void) {
    irq_seen = true;
    if (ringbuf_free(&stdin_ringbuf) == 0) {
        // Leave the byte where it is: the sender waits until stdin is read.
        NVIC_ICER = 1 << UART_IRQ;
        return;
    }
    // In this order: reading `data` lets the next byte in, with an interrupt of its own.
    UART0->intstatus = UART_RX_INT;
    if (UART0->state & UART_RXFULL) {
        uint8_t c = UART0->data;
        if (c == mp_interrupt_char) {
            mp_sched_keyboard_interrupt();
        } else {
            ringbuf_put(&stdin_ringbuf, c);
        }
    }
}

int __wrap_mp_hal_stdin_rx_chr(void) {
    for (;;) {
        int c = ringbuf_get(&stdin_ringbuf);
        NVIC_ISER = 1 << UART_IRQ;
        if (c >= 0) {
            return c;
        }
        mp_event_wait_indefinite();
    }
}

uintptr_t __wrap_mp_hal_stdio_poll(uintptr_t poll_flags) {
    uintptr_t ready = poll_flags & MP_STREAM_POLL_WR;
    if (ringbuf_avail(&stdin_ringbuf) > 0) {
        ready |= poll_flags & MP_STREAM_POLL_RD;
    }
    return ready;
}

/******************************************************************************/
// The processor's clock, and the second UART whose rate goes with it
//
// The emulator has neither: it runs as fast as it can and sends whatever the divider is. Here both
// are a model of what a chip does whose UARTs run from the bus: a rate is set by a divider of the
// clock of that moment, so a change of the clock changes the rate until the divider is set anew.

#define CPU_HZ (25000000) // after a reset

static uint32_t cpu_hz = CPU_HZ;
static uint32_t uart1_baud = 115200; // what the other end listens at

// The REPL's divider is set anew with it, as good ports do.
static void set_cpu_hz(uint32_t hz) {
    cpu_hz = hz;
    UART0->bauddiv = 16 * (hz / CPU_HZ);
}

// machine.freq([hz]): 25, 50 or 100 MHz.
static mp_obj_t board_freq(size_t n_args, const mp_obj_t *args) {
    if (n_args == 0) {
        return mp_obj_new_int_from_uint(cpu_hz);
    }
    mp_int_t hz = mp_obj_get_int(args[0]);
    if (hz != CPU_HZ && hz != 2 * CPU_HZ && hz != 4 * CPU_HZ) {
        mp_raise_ValueError(MP_ERROR_TEXT("hz: must be 25000000, 50000000 or 100000000"));
    }
    set_cpu_hz(hz);
    return mp_const_none;
}
MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(board_freq_obj, 0, 1, board_freq);

void board_uart_init(uint32_t baud) {
    uart1_baud = baud;
    UART1->bauddiv = cpu_hz / baud;
    UART1->ctrl = UART_TX_EN | UART_RX_EN | UART_RX_INTEN;
    NVIC_ISER = 1 << UART1_IRQ;
}

// Ends a wait. The byte stays where it is until it is read, and the next one with the sender.
static void uart1_irq(void) {
    NVIC_ICER = 1 << UART1_IRQ;
    UART1->intstatus = UART_RX_INT;
    irq_seen = true;
}

bool board_uart_any(void) {
    return UART1->state & UART_RXFULL;
}

uint8_t board_uart_read(void) {
    uint8_t c = UART1->data;
    NVIC_ISER = 1 << UART1_IRQ;
    return c;
}

// The other end looks at the middle of each bit, by its own clock, from the start bit's edge on.
void board_uart_write(uint8_t c) {
    uint32_t frame = 0xFFFFFE00 | c << 1; // bit 0 is the start bit; stop bit and idle line are ones
    uint32_t rate = cpu_hz / UART1->bauddiv;
    uint8_t seen = 0;
    for (unsigned k = 1; k <= 8; ++k) {
        uint64_t bit = (uint64_t)(2 * k + 1) * rate / (2 * (uint64_t)uart1_baud);
        seen |= (bit > 31 ? 1 : frame >> bit & 1) << (k - 1);
    }
    while (UART1->state & UART_TXFULL) {
    }
    UART1->data = seen;
}

/******************************************************************************/
// Flash: ROMFS, and a block device for littlefs after it

static const MP_DEFINE_MEMORYVIEW_OBJ(romfs_obj, 'B', 0, (uintptr_t)_romfs_size, _romfs_start);

// vfs.rom_ioctl: one segment, which `mpremote romfs deploy` can write as it stands.
mp_obj_t mp_vfs_rom_ioctl(size_t n_args, const mp_obj_t *args) {
    mp_int_t cmd = mp_obj_get_int(args[0]);
    if (cmd == MP_VFS_ROM_IOCTL_GET_NUMBER_OF_SEGMENTS) {
        return MP_OBJ_NEW_SMALL_INT(1);
    }
    if (n_args >= 2 && mp_obj_get_int(args[1]) == 0) {
        if (cmd == MP_VFS_ROM_IOCTL_GET_SEGMENT) {
            return MP_OBJ_FROM_PTR(&romfs_obj);
        }
        if (cmd == MP_VFS_ROM_IOCTL_WRITE_PREPARE && n_args == 3
            && (mp_uint_t)mp_obj_get_int(args[2]) <= romfs_obj.len) {
            return MP_OBJ_NEW_SMALL_INT(1); // the smallest write
        }
        if (cmd == MP_VFS_ROM_IOCTL_WRITE && n_args == 4) {
            mp_uint_t offset = mp_obj_get_int(args[2]);
            mp_buffer_info_t buf;
            mp_get_buffer_raise(args[3], &buf, MP_BUFFER_READ);
            if (offset <= romfs_obj.len && buf.len <= romfs_obj.len - offset) {
                memcpy((uint8_t *)romfs_obj.items + offset, buf.buf, buf.len);
                return MP_OBJ_NEW_SMALL_INT(0);
            }
        }
        if (cmd == MP_VFS_ROM_IOCTL_WRITE_COMPLETE) {
            return MP_OBJ_NEW_SMALL_INT(0);
        }
    }
    return MP_OBJ_NEW_SMALL_INT(-MP_EINVAL);
}

#define FLASH_BLOCK_SIZE (4096)

// Bytes of the block device that start at `offset` in `block`: `len` of them, or NULL.
static uint8_t *flash_bytes(mp_obj_t block, mp_obj_t offset, size_t len) {
    size_t start = mp_obj_get_int(block) * FLASH_BLOCK_SIZE + mp_obj_get_int(offset);
    size_t size = (size_t)_flash_size;
    return start <= size && len <= size - start ? _flash_start + start : NULL;
}

// readblocks(block, buf, offset=0)
static mp_obj_t flash_readblocks(size_t n_args, const mp_obj_t *args) {
    mp_buffer_info_t buf;
    mp_get_buffer_raise(args[2], &buf, MP_BUFFER_WRITE);
    const uint8_t *bytes = flash_bytes(args[1], n_args == 4 ? args[3] : MP_OBJ_NEW_SMALL_INT(0), buf.len);
    if (bytes == NULL) {
        return MP_OBJ_NEW_SMALL_INT(-MP_EINVAL);
    }
    memcpy(buf.buf, bytes, buf.len);
    return MP_OBJ_NEW_SMALL_INT(0);
}
static MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(flash_readblocks_obj, 3, 4, flash_readblocks);

// writeblocks(block, buf, offset=0)
static mp_obj_t flash_writeblocks(size_t n_args, const mp_obj_t *args) {
    mp_buffer_info_t buf;
    mp_get_buffer_raise(args[2], &buf, MP_BUFFER_READ);
    uint8_t *bytes = flash_bytes(args[1], n_args == 4 ? args[3] : MP_OBJ_NEW_SMALL_INT(0), buf.len);
    if (bytes == NULL) {
        return MP_OBJ_NEW_SMALL_INT(-MP_EINVAL);
    }
    memcpy(bytes, buf.buf, buf.len);
    return MP_OBJ_NEW_SMALL_INT(0);
}
static MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(flash_writeblocks_obj, 3, 4, flash_writeblocks);

// ioctl(op, arg): nothing need be erased in RAM.
static mp_obj_t flash_ioctl(mp_obj_t self, mp_obj_t op, mp_obj_t arg) {
    (void)self;
    (void)arg;
    switch (mp_obj_get_int(op)) {
        case MP_BLOCKDEV_IOCTL_BLOCK_COUNT:
            return MP_OBJ_NEW_SMALL_INT((size_t)_flash_size / FLASH_BLOCK_SIZE);
        case MP_BLOCKDEV_IOCTL_BLOCK_SIZE:
            return MP_OBJ_NEW_SMALL_INT(FLASH_BLOCK_SIZE);
        default:
            return MP_OBJ_NEW_SMALL_INT(0);
    }
}
static MP_DEFINE_CONST_FUN_OBJ_3(flash_ioctl_obj, flash_ioctl);

static const mp_rom_map_elem_t flash_locals_table[] = {
    {MP_ROM_QSTR(MP_QSTR_readblocks), MP_ROM_PTR(&flash_readblocks_obj)},
    {MP_ROM_QSTR(MP_QSTR_writeblocks), MP_ROM_PTR(&flash_writeblocks_obj)},
    {MP_ROM_QSTR(MP_QSTR_ioctl), MP_ROM_PTR(&flash_ioctl_obj)},
};
static MP_DEFINE_CONST_DICT(flash_locals, flash_locals_table);
static MP_DEFINE_CONST_OBJ_TYPE(flash_type, MP_QSTR_Flash, MP_TYPE_FLAG_NONE, locals_dict, &flash_locals);
static const mp_obj_base_t flash_obj = {&flash_type};

// Mounts littlefs at /, formatted when there is none. (mp_init has mounted /rom.)
static void flash_mount(void) {
    mp_obj_t flash = MP_OBJ_FROM_PTR(&flash_obj);
    mp_obj_t root = MP_OBJ_NEW_QSTR(MP_QSTR__slash_);
    if (mp_vfs_mount_and_chdir_protected(flash, root) != 0) {
        mp_call_function_1(mp_load_attr(MP_OBJ_FROM_PTR(&mp_type_vfs_lfs2), MP_QSTR_mkfs), flash);
        mp_vfs_mount_and_chdir_protected(flash, root);
    }
    mp_obj_list_append(mp_sys_path, mp_obj_new_str_from_cstr("/lib"));
}

/******************************************************************************/
// Main loop

static NORETURN void start(void) {
    mp_semihosting_init();
    uart_init();
    UART0->ctrl |= UART_RX_INTEN;
    clock_init();
    NVIC_ISER = 1 << UART_IRQ | 1 << TIMER0_IRQ | 1 << TIMER1_IRQ;

    for (;;) {
        set_cpu_hz(CPU_HZ);
        mp_cstack_init_with_top(_estack, (uintptr_t)_stack_size);
        gc_init(_heap_start, _heap_end);
        mp_init(); // mounts /rom

        flash_mount();

        int ret = pyexec_file_if_exists("boot.py");
        if (ret != PYEXEC_FORCED_EXIT && pyexec_mode_kind == PYEXEC_MODE_FRIENDLY_REPL) {
            ret = pyexec_file_if_exists("main.py");
        }
        while (ret != PYEXEC_FORCED_EXIT) {
            ret = pyexec_mode_kind == PYEXEC_MODE_RAW_REPL ? pyexec_raw_repl() : pyexec_friendly_repl();
        }

        mp_printf(&mp_plat_print, "MPY: soft reboot\n");
        gc_sweep_all();
        mp_deinit();
    }
}

/******************************************************************************/
// Vectors

typedef void (*vector_t)(void);

static const vector_t vectors[16 + 32] __attribute__((section(".vectors"), used)) = {
    (vector_t)_estack,
    board_reset,
    [2 ... 47] = fault,
    [16 +
        UART_IRQ] = uart_irq,
    [16 +
        UART1_IRQ] = uart1_irq,
    [16 +
        TIMER0_IRQ] = timer0_irq,
    [16 +
        TIMER1_IRQ] = timer1_irq,
};
