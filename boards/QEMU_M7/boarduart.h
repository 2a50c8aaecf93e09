// machine.UART(1): what extmod/machine_uart.c asks of a port; it includes this file once.

#include "py/mperrno.h"
#include "py/mphal.h"
#include "board.h"

#define MICROPY_PY_MACHINE_UART_CLASS_CONSTANTS

struct _machine_uart_obj_t {
    mp_obj_base_t base;
    uint32_t baudrate; // bits a second
    uint32_t timeout; // milliseconds that a read waits for each byte
};

static machine_uart_obj_t board_uart = {{&machine_uart_type}, 115200, 0};

static void mp_machine_uart_print(const mp_print_t *print, mp_obj_t self_in, mp_print_kind_t kind) {
    const machine_uart_obj_t *self = MP_OBJ_TO_PTR(self_in);
    (void)kind;
    mp_printf(print, "UART(1, baudrate=%u, timeout=%u)", (unsigned)self->baudrate, (unsigned)self->timeout);
}

static void mp_machine_uart_init_helper(machine_uart_obj_t *self, size_t n_args, const mp_obj_t *pos_args, mp_map_t *kw_args) {
    enum {
        ARG_baudrate,
        ARG_timeout,
    };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_baudrate, MP_ARG_INT, {.u_int = 115200}},
        {MP_QSTR_timeout, MP_ARG_KW_ONLY | MP_ARG_INT, {.u_int = 0}},
    };
    mp_arg_val_t args[MP_ARRAY_SIZE(allowed)];
    mp_arg_parse_all(n_args, pos_args, kw_args, MP_ARRAY_SIZE(allowed), allowed, args);
    if (args[ARG_baudrate].u_int < 300 || args[ARG_baudrate].u_int > 1000000) {
        mp_raise_ValueError(MP_ERROR_TEXT("baudrate: must be 300 to 1000000"));
    }
    if (args[ARG_timeout].u_int < 0) {
        mp_raise_ValueError(MP_ERROR_TEXT("timeout: must be 0 or more"));
    }
    self->baudrate = args[ARG_baudrate].u_int;
    self->timeout = args[ARG_timeout].u_int;
    board_uart_init(self->baudrate);
}

static mp_obj_t mp_machine_uart_make_new(const mp_obj_type_t *type, size_t n_args, size_t n_kw, const mp_obj_t *args) {
    (void)type;
    mp_arg_check_num(n_args, n_kw, 1, MP_OBJ_FUN_ARGS_MAX, true);
    if (mp_obj_get_int(args[0]) != 1) {
        mp_raise_ValueError(MP_ERROR_TEXT("id: must be 1, UART 0 is the REPL"));
    }
    mp_map_t kw_args;
    mp_map_init_fixed_table(&kw_args, n_kw, args + n_args);
    mp_machine_uart_init_helper(&board_uart, n_args - 1, args + 1, &kw_args);
    return MP_OBJ_FROM_PTR(&board_uart);
}

static void mp_machine_uart_deinit(machine_uart_obj_t *self) {
    (void)self;
}

static mp_int_t mp_machine_uart_any(machine_uart_obj_t *self) {
    (void)self;
    return board_uart_any();
}

static bool mp_machine_uart_txdone(machine_uart_obj_t *self) {
    (void)self;
    return true; // the emulator takes no time for it
}

static mp_uint_t mp_machine_uart_read(mp_obj_t self_in, void *buf_in, mp_uint_t size, int *errcode) {
    const machine_uart_obj_t *self = MP_OBJ_TO_PTR(self_in);
    uint8_t *buf = buf_in;
    mp_uint_t n = 0;
    while (n < size) {
        mp_uint_t start = mp_hal_ticks_ms();
        while (!board_uart_any()) {
            mp_uint_t waited = mp_hal_ticks_ms() - start;
            if (waited >= self->timeout) {
                if (n == 0) {
                    *errcode = MP_EAGAIN;
                    return MP_STREAM_ERROR;
                }
                return n;
            }
            mp_event_wait_ms(self->timeout - waited);
        }
        buf[n++] = board_uart_read();
    }
    return n;
}

static mp_uint_t mp_machine_uart_write(mp_obj_t self_in, const void *buf_in, mp_uint_t size, int *errcode) {
    (void)self_in;
    (void)errcode;
    for (mp_uint_t i = 0; i < size; ++i) {
        board_uart_write(((const uint8_t *)buf_in)[i]);
    }
    return size;
}

static mp_uint_t mp_machine_uart_ioctl(mp_obj_t self_in, mp_uint_t request, uintptr_t arg, int *errcode) {
    (void)self_in;
    switch (request) {
        case MP_STREAM_POLL:
            return (arg & MP_STREAM_POLL_WR) | (board_uart_any() ? arg & MP_STREAM_POLL_RD : 0);
        case MP_STREAM_FLUSH:
            return 0;
        default:
            *errcode = MP_EINVAL;
            return MP_STREAM_ERROR;
    }
}
