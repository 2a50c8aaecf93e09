// The module `_llm`.
#include "py/objstr.h"
#include "py/objtuple.h"
#include "py/runtime.h"

#include "bindings.h"

static mp_obj_t module_kernels(void) {
    size_t n = 0;
    while (llm_kernels_at(n) != NULL) {
        n++;
    }
    mp_obj_tuple_t *names = MP_OBJ_TO_PTR(mp_obj_new_tuple(n, NULL));
    for (size_t i = 0; i < n; i++) {
        const char *name = llm_kernels_name(llm_kernels_at(i));
        names->items[i] = mp_obj_new_str_from_cstr(name);
    }
    return MP_OBJ_FROM_PTR(names);
}
static MP_DEFINE_CONST_FUN_OBJ_0(module_kernels_obj, module_kernels);

static const MP_DEFINE_STR_OBJ(version_obj, LLM_VERSION);

static const mp_rom_map_elem_t module_table[] = {
    {MP_ROM_QSTR(MP_QSTR___name__), MP_ROM_QSTR(MP_QSTR__llm)},
    {MP_ROM_QSTR(MP_QSTR_version), MP_ROM_PTR(&version_obj)},
    {MP_ROM_QSTR(MP_QSTR_kernels), MP_ROM_PTR(&module_kernels_obj)},
    {MP_ROM_QSTR(MP_QSTR_Model), MP_ROM_PTR(&llm_model_type)},
    {MP_ROM_QSTR(MP_QSTR_Sequence), MP_ROM_PTR(&llm_sequence_type)},
    {MP_ROM_QSTR(MP_QSTR_Sampler), MP_ROM_PTR(&llm_sampler_type)},
    {MP_ROM_QSTR(MP_QSTR_Decoder), MP_ROM_PTR(&llm_decoder_type)},
};
static MP_DEFINE_CONST_DICT(module_globals, module_table);

const mp_obj_module_t llm_module = {
    .base = {&mp_type_module},
    .globals = (mp_obj_dict_t *)&module_globals,
};

MP_REGISTER_MODULE(MP_QSTR__llm, llm_module);
