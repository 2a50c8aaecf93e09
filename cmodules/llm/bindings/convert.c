// Between Python's objects and the engine's types.
#include "py/objint.h"
#include "py/runtime.h"

#include "bindings.h"

void llm_raise(const llm_error_t *error) {
    const mp_obj_type_t *type = &mp_type_ValueError;
    if (error->status == LLM_ERROR_MEMORY) {
        type = &mp_type_MemoryError;
    } else if (error->status == LLM_ERROR_STORAGE) {
        type = &mp_type_OSError;
    }
#if MICROPY_PY_BUILTINS_STR_UNICODE
    if (error->status == LLM_ERROR_UTF8) {
        type = &mp_type_UnicodeError;
    }
#endif
    mp_raise_msg_varg(type, MP_ERROR_TEXT("%s"), error->message);
}

void *llm_instance(mp_obj_t o, const mp_obj_type_t *type) {
    mp_obj_t native = mp_obj_cast_to_native_base(o, MP_OBJ_FROM_PTR(type));
    // An instance of a Python subclass holds something else until its __init__ has called the one of this class.
    if (native == MP_OBJ_NULL || !mp_obj_is_exact_type(native, type)) {
        mp_raise_msg_varg(&mp_type_TypeError, MP_ERROR_TEXT("%q wanted, not %s"), (qstr)type->name, mp_obj_get_type_str(o));
    }
    return MP_OBJ_TO_PTR(native);
}

uint64_t llm_get_uint(mp_obj_t o, const char *what, uint64_t max) {
    const mp_obj_type_t *type = &mp_type_TypeError;
    if (mp_obj_is_small_int(o)) {
        mp_int_t value = MP_OBJ_SMALL_INT_VALUE(o);
        if (value >= 0 && (uint64_t)value <= max) {
            return (uint64_t)value;
        }
        type = &mp_type_ValueError;
    } else if (mp_obj_is_exact_type(o, &mp_type_int)) {
        byte bytes[8];
        if (mp_obj_int_sign(o) >= 0 && mp_obj_int_to_bytes_impl(o, false, sizeof(bytes), bytes)) {
            uint64_t value = 0;
            for (size_t i = sizeof(bytes); i-- > 0;) {
                value = value << 8 | bytes[i];
            }
            if (value <= max) {
                return value;
            }
        }
        type = &mp_type_ValueError;
    }
    // The engine forms the message: it can print 64 bits on every port.
    llm_error_t error;
    llm_fail(&error, LLM_ERROR_VALUE, what, max, 0);
    mp_raise_msg_varg(type, MP_ERROR_TEXT("%s"), error.message);
}

uint32_t llm_get_token(mp_obj_t o, const llm_model_t *model) {
    return (uint32_t)llm_get_uint(o, "token: must be an int from 0 to {}", model->image.config.vocab_size - 1);
}
