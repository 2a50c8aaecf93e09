// Files that weights are read from: any object with seek and readinto, as an llm_source_t.
//
// They are read when the engine begins a read: a MicroPython object can be used by one thread only.
#include "py/mphal.h"
#include "py/objarray.h"
#include "py/runtime.h"

#include "bindings.h"

// Shows `size` bytes at `data` through file->window.
static void show(llm_file_t *file, void *data, size_t size) {
    mp_obj_array_t *window = MP_OBJ_TO_PTR(file->window);
    window->items = data;
    window->len = size;
}

static void seek(const llm_file_t *file, uint64_t offset) {
    mp_obj_t call[] = {file->seek[0], file->seek[1], mp_obj_new_int_from_ull(offset)};
    mp_call_method_n_kw(1, 0, call);
}

static void read_all(llm_file_t *file, uint64_t offset, uint8_t *data, size_t size) {
    seek(file, offset);
    for (size_t at = 0; at < size;) {
        show(file, data + at, size - at);
        mp_obj_t call[] = {file->readinto[0], file->readinto[1], file->window};
        mp_obj_t result = mp_call_method_n_kw(1, 0, call);
        mp_int_t n = result == mp_const_none ? -1 : mp_obj_get_int(result);
        if (n == 0) {
            mp_raise_msg_varg(&mp_type_OSError, MP_ERROR_TEXT("it ends at %u"), (unsigned)(offset + at));
        }
        if (n < 0 || (size_t)n > size - at) {
            mp_raise_msg(&mp_type_OSError, MP_ERROR_TEXT("nothing was read"));
        }
        at += (size_t)n;
    }
}

// Raises an OSError that says what could not be read; its errno is that of `exception`, if it has one.
static void __attribute__((noreturn)) raise_storage(mp_obj_t exception, uint64_t offset, size_t size) {
    mp_obj_t value = mp_obj_exception_get_value(exception);
    vstr_t text;
    mp_print_t print;
    vstr_init_print(&text, 80, &print);
    mp_printf(&print, "stream: %u bytes at %u: ", (unsigned)size, (unsigned)offset);
    mp_obj_print_helper(&print, mp_obj_is_small_int(value) ? exception : value, PRINT_STR);
    mp_obj_t args[] = {value, mp_obj_new_str_from_vstr(&text)};
    bool with_errno = mp_obj_is_small_int(value);
    nlr_raise(mp_obj_new_exception_args(&mp_type_OSError, with_errno ? 2 : 1, with_errno ? args : args + 1));
}

static bool read_file(void *context, uint64_t offset, void *data, size_t size) {
    llm_model_obj_t *model = context;
    llm_file_t *file = &model->file;
    if (MP_STATE_THREAD(mp_pending_exception) != MP_OBJ_NULL) {
        mp_handle_pending(true); // Ctrl-C
    }
    nlr_buf_t nlr;
    model->busy = true;
    bool good = nlr_push(&nlr) == 0;
    if (good) {
        read_all(file, offset, data, size);
        nlr_pop();
    }
    model->busy = false;
    show(file, NULL, 0);
    if (!good) {
        mp_obj_t exception = MP_OBJ_FROM_PTR(nlr.ret_val);
        if (mp_obj_is_subclass_fast(MP_OBJ_FROM_PTR(mp_obj_get_type(exception)), MP_OBJ_FROM_PTR(&mp_type_OSError))) {
            raise_storage(exception, offset, size);
        }
        nlr_jump(nlr.ret_val);
    }
    return true;
}

static uint32_t now(void *context) {
    (void)context;
    return (uint32_t)mp_hal_ticks_us();
}

uint64_t llm_file_open(llm_model_obj_t *model, mp_obj_t o) {
    llm_file_t *file = &model->file;
    mp_load_method_maybe(o, MP_QSTR_seek, file->seek);
    mp_load_method_maybe(o, MP_QSTR_readinto, file->readinto);
    if (file->seek[0] == MP_OBJ_NULL || file->readinto[0] == MP_OBJ_NULL) {
        mp_raise_TypeError(MP_ERROR_TEXT("stream: needs an object with seek and readinto"));
    }
    file->window = mp_obj_new_memoryview('B' | MP_OBJ_ARRAY_TYPECODE_FLAG_RW, 0, NULL);
    file->source = (llm_source_t){
        .context = model, .read = read_file, .now = now};
    mp_obj_t call[] = {file->seek[0], file->seek[1], MP_OBJ_NEW_SMALL_INT(0), MP_OBJ_NEW_SMALL_INT(2)};
    return llm_get_uint(mp_call_method_n_kw(2, 0, call), "stream: its size is not an int from 0 to {}", UINT64_MAX);
}
