// _llm.Decoder
#include <string.h>

#include "py/runtime.h"

#include "bindings.h"

typedef struct {
    mp_obj_base_t base;
    mp_obj_t model; // whose tokenizer it uses
    llm_text_t text; // incomplete characters and escape sequences
    bool start; // the ids begin a text
    bool drop_space; // the next bytes begin the text, a space there is the tokenizer's
} decoder_obj_t;

// The text of a piece up to this many bytes is formed on the stack.
#define SHORT_PIECE 40

static llm_ansi_t get_ansi(mp_obj_t o) {
    if (o == mp_const_none) {
        return LLM_ANSI_NONE;
    }
    const char *name = mp_obj_str_get_str(o);
    if (strcmp(name, "color") == 0) {
        return LLM_ANSI_COLOR;
    }
    if (strcmp(name, "raw") == 0) {
        return LLM_ANSI_RAW;
    }
    mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("ansi: must be None, 'color' or 'raw', not '%s'"), name);
}

static mp_obj_t decoder_make_new(const mp_obj_type_t *type, size_t n_args, size_t n_kw, const mp_obj_t *args_in) {
    enum {
        ARG_model,
        ARG_start,
        ARG_ansi,
    };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_model, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_obj = MP_OBJ_NULL}},
        {MP_QSTR_start, MP_ARG_KW_ONLY | MP_ARG_BOOL, {.u_bool = true}},
        {MP_QSTR_ansi, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
    };
    mp_arg_val_t args[MP_ARRAY_SIZE(allowed)];
    mp_arg_parse_all_kw_array(n_args, n_kw, args_in, MP_ARRAY_SIZE(allowed), allowed, args);

    llm_model_obj_t *model = llm_model_get(args[ARG_model].u_obj);
    llm_ansi_t ansi = get_ansi(args[ARG_ansi].u_obj);
    decoder_obj_t *self = mp_obj_malloc(decoder_obj_t, type);
    self->model = MP_OBJ_FROM_PTR(model);
    self->text = (llm_text_t){.ansi = ansi};
    self->start = args[ARG_start].u_bool;
    self->drop_space = self->start && model->model.image.tokenizer.add_space_prefix;
    return MP_OBJ_FROM_PTR(self);
}

static mp_obj_t decoder_feed(mp_obj_t self_in, mp_obj_t token_in) {
    decoder_obj_t *self = llm_instance(self_in, &llm_decoder_type);
    const llm_model_t *model = &llm_model_get(self->model)->model;
    uint32_t size;
    const uint8_t *piece = llm_piece(&model->image.tokenizer, llm_get_token(token_in, model), &size);
    if (size > 0 && self->drop_space) {
        self->drop_space = false;
        if (piece[0] == ' ') {
            piece++;
            size--;
        }
    }
    char small[LLM_TEXT_MAX(SHORT_PIECE)];
    if (size <= SHORT_PIECE) {
        return mp_obj_new_str(small, llm_text_feed(&self->text, piece, size, (uint8_t *)small));
    }
    vstr_t text;
    vstr_init_len(&text, LLM_TEXT_MAX(size));
    text.len = llm_text_feed(&self->text, piece, size, (uint8_t *)text.buf);
    return mp_obj_new_str_from_utf8_vstr(&text);
}
static MP_DEFINE_CONST_FUN_OBJ_2(decoder_feed_obj, decoder_feed);

static mp_obj_t decoder_finish(mp_obj_t self_in) {
    decoder_obj_t *self = llm_instance(self_in, &llm_decoder_type);
    const llm_model_t *model = &llm_model_get(self->model)->model;
    char text[LLM_TEXT_MAX(0)];
    size_t size = llm_text_finish(&self->text, (uint8_t *)text);
    self->drop_space = self->start && model->image.tokenizer.add_space_prefix;
    return mp_obj_new_str(text, size);
}
static MP_DEFINE_CONST_FUN_OBJ_1(decoder_finish_obj, decoder_finish);

static const mp_rom_map_elem_t decoder_locals_table[] = {
    {MP_ROM_QSTR(MP_QSTR_feed), MP_ROM_PTR(&decoder_feed_obj)},
    {MP_ROM_QSTR(MP_QSTR_finish), MP_ROM_PTR(&decoder_finish_obj)},
};
static MP_DEFINE_CONST_DICT(decoder_locals, decoder_locals_table);

MP_DEFINE_CONST_OBJ_TYPE(
    llm_decoder_type,
    MP_QSTR_Decoder,
    MP_TYPE_FLAG_NONE,
    make_new, decoder_make_new,
    locals_dict, &decoder_locals);
