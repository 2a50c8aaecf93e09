// _llm.Sampler
#include "py/runtime.h"

#include "bindings.h"

static mp_obj_t sampler_make_new(const mp_obj_type_t *type, size_t n_args, size_t n_kw, const mp_obj_t *args_in) {
    enum {
        ARG_temperature,
        ARG_top_k,
        ARG_top_p,
        ARG_min_p,
        ARG_repetition_penalty,
        ARG_repeat_last_n,
        ARG_seed,
    };
    // MP_OBJ_NULL stands for the default: floats are no constants on every port.
    static const mp_arg_t allowed[] = {
        {MP_QSTR_temperature, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_PTR(NULL)}},
        {MP_QSTR_top_k, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(0)}},
        {MP_QSTR_top_p, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_PTR(NULL)}},
        {MP_QSTR_min_p, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_PTR(NULL)}},
        {MP_QSTR_repetition_penalty, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_PTR(NULL)}},
        {MP_QSTR_repeat_last_n, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(64)}},
        {MP_QSTR_seed, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(0)}},
    };
    mp_arg_val_t args[MP_ARRAY_SIZE(allowed)];
    mp_arg_parse_all_kw_array(n_args, n_kw, args_in, MP_ARRAY_SIZE(allowed), allowed, args);

    llm_sampler_t sampler = {
        .temperature = 0.8f,
        .top_p = 0.9f,
        .min_p = 0.0f,
        .repetition_penalty = 1.0f,
    };
    float *floats[MP_ARRAY_SIZE(allowed)] = {
        [ARG_temperature] = &sampler.temperature,
        [ARG_top_p] = &sampler.top_p,
        [ARG_min_p] = &sampler.min_p,
        [ARG_repetition_penalty] = &sampler.repetition_penalty,
    };
    for (size_t i = 0; i < MP_ARRAY_SIZE(allowed); i++) {
        if (floats[i] != NULL && args[i].u_obj != MP_OBJ_NULL) {
            *floats[i] = mp_obj_get_float_to_f(args[i].u_obj);
        }
    }
    sampler.top_k = (uint32_t)llm_get_uint(args[ARG_top_k].u_obj, "top_k: must be an int from 0 to {}", UINT32_MAX);
    sampler.repeat_last_n = (uint32_t)llm_get_uint(args[ARG_repeat_last_n].u_obj, "repeat_last_n: must be an int from 0 to {}", UINT32_MAX);
    sampler.state = llm_get_uint(args[ARG_seed].u_obj, "seed: must be an int from 0 to {}", UINT64_MAX);
    llm_error_t error;
    if (llm_sampler_check(&sampler, &error) != LLM_OK) {
        llm_raise(&error);
    }

    llm_sampler_obj_t *self = mp_obj_malloc(llm_sampler_obj_t, type);
    self->sampler = sampler;
    return MP_OBJ_FROM_PTR(self);
}

MP_DEFINE_CONST_OBJ_TYPE(
    llm_sampler_type,
    MP_QSTR_Sampler,
    MP_TYPE_FLAG_NONE,
    make_new, sampler_make_new);
