// _llm.Model
#include <string.h>

#include "py/gc.h"
#include "py/objarray.h"
#include "py/runtime.h"

#include "bindings.h"

// A stream that is Python code may not use the model that reads or writes it.
static void check_busy(const llm_model_obj_t *self) {
    if (self->busy) {
        mp_raise_msg(&mp_type_RuntimeError, MP_ERROR_TEXT("model: used by its own stream"));
    }
}

llm_model_obj_t *llm_model_get(mp_obj_t o) {
    llm_model_obj_t *self = llm_instance(o, &llm_model_type);
    if (self->data == MP_OBJ_NULL) {
        mp_raise_ValueError(MP_ERROR_TEXT("model: is closed"));
    }
    mp_buffer_info_t buffer;
    if (self->address != NULL
        && (!mp_get_buffer(self->data, &buffer, MP_BUFFER_READ) || buffer.buf != self->address || buffer.len != self->size)) {
        mp_raise_ValueError(MP_ERROR_TEXT("data: the buffer was moved or resized since the model was made, load it again"));
    }
    const llm_kv_t *kv = &self->model.kv;
    if (kv->memory[1] != NULL
        && (!mp_get_buffer(self->spill, &buffer, MP_BUFFER_RW) || buffer.buf != kv->memory[1] || buffer.len < kv->n_units[1] * kv->unit_size)) {
        mp_raise_ValueError(MP_ERROR_TEXT("spill: the buffer was moved or resized since the model was made, load it again"));
    }
    check_busy(self);
    return self;
}

// ---------------------------------------------------------------------------- making one

// Names by value; NULL for a value that None stands for.
static const char *const cache_names[] = {NULL, "int8", "f32", "int4"};
static const char *const layout_names[] = {"auto", "static", "paged"};
static const char *const policy_names[] = {"slide", "error", "compress"};

// The value whose name is in `o`; `what` lists them.
static unsigned get_name(mp_obj_t o, const char *const *names, size_t n, mp_rom_error_text_t what) {
    if (o == mp_const_none && names[0] == NULL) {
        return 0;
    }
    const char *name = mp_obj_str_get_str(o);
    for (unsigned i = 0; i < n; i++) {
        if (names[i] != NULL && strcmp(name, names[i]) == 0) {
            return i;
        }
    }
    mp_raise_msg_varg(&mp_type_ValueError, what, name);
}

static const llm_kernels_t *get_kernels(mp_obj_t o) {
    if (o == mp_const_none) {
        return NULL;
    }
    const char *name = mp_obj_str_get_str(o);
    const llm_kernels_t *kernels = llm_kernels_find(name);
    if (kernels == NULL) {
        mp_raise_msg_varg(&mp_type_ValueError, MP_ERROR_TEXT("kernels: no '%s' on this machine, kernels() lists what there is"), name);
    }
    return kernels;
}

// Takes RAM from the heap. If there is not enough, `what` says for what, how much, and what to do.
static void *allocate(size_t size, const char *what) {
    // The heap's blocks are aligned well enough as they are.
    MP_STATIC_ASSERT(MICROPY_BYTES_PER_GC_BLOCK % LLM_ALIGNMENT == 0);
    void *ram = m_malloc_maybe(size);
    if (ram == NULL) {
        gc_info_t info;
        gc_info(&info);
        llm_error_t error;
        llm_fail(&error, LLM_ERROR_MEMORY, what, size, info.free);
        llm_raise(&error);
    }
    return ram;
}

// Opens the image in a buffer.
static void open_buffer(llm_model_obj_t *self, mp_obj_t data, bool verify, llm_image_t *image) {
    mp_buffer_info_t buffer;
    mp_get_buffer_raise(data, &buffer, MP_BUFFER_READ);
    llm_error_t error;
    if (llm_image_open(image, buffer.buf, buffer.len, verify, &error) != LLM_OK) {
        llm_raise(&error);
    }
    self->address = buffer.buf;
    self->size = buffer.len;
}

// Opens the image in a file; its tables go to RAM.
static void open_file(llm_model_obj_t *self, mp_obj_t file, bool verify, llm_image_t *image) {
    uint64_t size = llm_file_open(self, file);
    const llm_source_t *source = &self->file.source;
    llm_error_t error;
    size_t tables_size;
    if (llm_image_resident(source, size, &tables_size, &error) != LLM_OK) {
        llm_raise(&error);
    }
    self->tables = allocate(tables_size, "the image's tables need one block of {} bytes of RAM, {} are free in all");
    self->tables_size = tables_size;
    if (llm_image_open_source(image, source, size, verify, self->tables, tables_size, &error) != LLM_OK) {
        llm_raise(&error);
    }
}

static mp_obj_t model_make_new(const mp_obj_type_t *type, size_t n_args, size_t n_kw, const mp_obj_t *args_in) {
    enum {
        ARG_data,
        ARG_context,
        ARG_block,
        ARG_cache,
        ARG_kv,
        ARG_policy,
        ARG_sequences,
        ARG_ram,
        ARG_spill,
        ARG_kernels,
        ARG_cores,
        ARG_stream,
        ARG_verify,
    };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_data, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_obj = MP_OBJ_NULL}},
        {MP_QSTR_context, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(0)}},
        {MP_QSTR_block, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(0)}},
        {MP_QSTR_cache, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_kv, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_QSTR(MP_QSTR_auto)}},
        {MP_QSTR_policy, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_QSTR(MP_QSTR_slide)}},
        {MP_QSTR_sequences, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(0)}},
        {MP_QSTR_ram, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(0)}},
        {MP_QSTR_spill, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_kernels, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_cores, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_INT(0)}},
        {MP_QSTR_stream, MP_ARG_KW_ONLY | MP_ARG_OBJ, {.u_rom_obj = MP_ROM_FALSE}},
        {MP_QSTR_verify, MP_ARG_KW_ONLY | MP_ARG_BOOL, {.u_bool = true}},
    };
    mp_arg_val_t args[MP_ARRAY_SIZE(allowed)];
    mp_arg_parse_all_kw_array(n_args, n_kw, args_in, MP_ARRAY_SIZE(allowed), allowed, args);

    llm_options_t options = {
        .context = (uint32_t)llm_get_uint(args[ARG_context].u_obj, "context: must be an int from 0 to {}", UINT32_MAX),
        .block = (uint32_t)llm_get_uint(args[ARG_block].u_obj, "block: must be an int from 0 to {}", UINT32_MAX),
        .sequences = (uint32_t)llm_get_uint(args[ARG_sequences].u_obj, "sequences: must be an int from 0 to {}", LLM_MAX_SEQUENCES),
        .cache = get_name(args[ARG_cache].u_obj, cache_names, MP_ARRAY_SIZE(cache_names),
            MP_ERROR_TEXT("cache: must be None, 'int8', 'f32' or 'int4', not '%s'")),
        .layout = get_name(args[ARG_kv].u_obj, layout_names, MP_ARRAY_SIZE(layout_names),
            MP_ERROR_TEXT("kv: must be 'auto', 'static' or 'paged', not '%s'")),
        .policy = get_name(args[ARG_policy].u_obj, policy_names, MP_ARRAY_SIZE(policy_names),
            MP_ERROR_TEXT("policy: must be 'slide', 'error' or 'compress', not '%s'")),
        .ram = (size_t)llm_get_uint(args[ARG_ram].u_obj, "ram: must be an int from 0 to {}", SIZE_MAX),
        .kernels = get_kernels(args[ARG_kernels].u_obj),
    };
    uint32_t cores = (uint32_t)llm_get_uint(args[ARG_cores].u_obj, "cores: must be an int from 0 to {}", llm_port_cores());
    // All of them at once, as far as one pass takes them.
    options.batch = options.sequences < LLM_MAX_BLOCK ? options.sequences : LLM_MAX_BLOCK;
    mp_obj_t stream = args[ARG_stream].u_obj;
    if (!mp_obj_is_bool(stream)) {
        options.stream = (uint32_t)llm_get_uint(stream, "stream: must be an int from 0 to {}", LLM_STREAM_MAX);
    }
    llm_model_obj_t *self = mp_obj_malloc_with_finaliser(llm_model_obj_t, type);
    self->data = MP_OBJ_NULL;
    self->address = NULL;
    self->tables = NULL;
    self->tables_size = 0;
    self->busy = false;
    self->model.parallel.n_cores = 1; // until it has some, for model_del
    llm_spill_get(args[ARG_spill].u_obj, self, &options.spill);
    llm_error_t error;
    llm_image_t image;
    llm_plan_t plan;
    (mp_obj_is_true(stream) ? open_file : open_buffer)(self, args[ARG_data].u_obj, args[ARG_verify].u_bool, &image);
    if (options.ram != 0) {
        options.ram = options.ram > self->tables_size ? options.ram - self->tables_size : 1;
    }
    if (llm_plan(&image, &options, &plan, &error) != LLM_OK) {
        llm_raise(&error);
    }

    self->ram = allocate(plan.total, "the model needs one block of {} bytes of RAM, {} are free in all: choose a smaller context or block");
    if (llm_model_init(&self->model, &image, &options, self->ram, plan.total, &error) != LLM_OK) {
        llm_raise(&error);
    }
    llm_port_parallel(&self->model.parallel, cores);
    self->data = args[ARG_data].u_obj;
    return MP_OBJ_FROM_PTR(self);
}

// What the heap does not know of. The garbage collector calls it for a model that was not closed.
static mp_obj_t model_del(mp_obj_t self_in) {
    llm_model_obj_t *self = llm_instance(self_in, &llm_model_type);
    llm_port_parallel_end(&self->model.parallel);
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_1(model_del_obj, model_del);

static mp_obj_t model_close(mp_obj_t self_in) {
    llm_model_obj_t *self = llm_instance(self_in, &llm_model_type);
    if (self->data != MP_OBJ_NULL) {
        check_busy(self);
        self->data = MP_OBJ_NULL;
        self->spill = mp_const_none;
        model_del(MP_OBJ_FROM_PTR(self));
        m_del(byte, self->ram, self->model.plan.total);
        m_del(byte, self->tables, self->tables_size);
        self->ram = NULL;
        self->tables = NULL;
    }
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_1(model_close_obj, model_close);

static mp_obj_t model_exit(size_t n_args, const mp_obj_t *args) {
    (void)n_args;
    return model_close(args[0]);
}
static MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(model_exit_obj, 4, 4, model_exit);

// ---------------------------------------------------------------------------- its sequences

static mp_obj_t model_event(mp_obj_t self_in) {
    llm_model_obj_t *self = llm_model_get(self_in);
    uint32_t n;
    qstr kind = MP_QSTR_slide;
    switch (llm_model_event(&self->model, &n)) {
        case LLM_EVENT_SLIDE:
            break;
        case LLM_EVENT_COMPRESS:
            kind = MP_QSTR_compress;
            break;
        case LLM_EVENT_SPILL:
            kind = MP_QSTR_spill;
            break;
        default:
            return mp_const_none;
    }
    mp_obj_t pair[] = {MP_OBJ_NEW_QSTR(kind), mp_obj_new_int_from_uint(n)};
    return mp_obj_new_tuple(MP_ARRAY_SIZE(pair), pair);
}
static MP_DEFINE_CONST_FUN_OBJ_1(model_event_obj, model_event);

static mp_obj_t model_eval_batch(mp_obj_t self_in, mp_obj_t sequences_in, mp_obj_t tokens_in) {
    llm_model_obj_t *self = llm_model_get(self_in);
    llm_sequence_t *sequences[LLM_MAX_BLOCK];
    uint32_t tokens[LLM_MAX_BLOCK];
    size_t n = (size_t)mp_obj_get_int(mp_obj_len(sequences_in));
    if (n != (size_t)mp_obj_get_int(mp_obj_len(tokens_in))) {
        mp_raise_ValueError(MP_ERROR_TEXT("tokens: must be as many as sequences"));
    }
    llm_error_t error;
    // More are refused below, whatever they are.
    for (size_t i = 0; i < n && i < MP_ARRAY_SIZE(sequences); i++) {
        llm_model_obj_t *model;
        sequences[i] = llm_sequence_get(mp_obj_subscr(sequences_in, MP_OBJ_NEW_SMALL_INT(i), MP_OBJ_SENTINEL), &model);
        if (model != self) {
            mp_raise_ValueError(MP_ERROR_TEXT("sequences: one is of another model"));
        }
        tokens[i] = llm_get_token(mp_obj_subscr(tokens_in, MP_OBJ_NEW_SMALL_INT(i), MP_OBJ_SENTINEL), &self->model);
    }
    bool done = false;
    while (!done) {
        self = llm_model_get(self_in); // what was called above may have closed it
        if (llm_model_eval_batch(&self->model, sequences, tokens, n, &done, &error) != LLM_OK) {
            llm_raise(&error);
        }
    }
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_3(model_eval_batch_obj, model_eval_batch);

// ---------------------------------------------------------------------------- what it is

// A dict that prints in the order in which it is filled.
static mp_obj_t new_dict(size_t n) {
    mp_obj_t dict = mp_obj_new_dict(n);
    mp_obj_dict_get_map(dict)->is_ordered = 1;
    return dict;
}

static void store(mp_obj_t dict, qstr key, mp_obj_t value) {
    mp_obj_dict_store(dict, MP_OBJ_NEW_QSTR(key), value);
}

static void store_uint(mp_obj_t dict, qstr key, size_t value) {
    store(dict, key, mp_obj_new_int_from_uint(value));
}

// Counts the elements of `tensor` and notes its type.
static uint64_t survey(const llm_tensor_t *tensor, unsigned *dtypes) {
    *dtypes |= 1u << tensor->dtype;
    return (uint64_t)tensor->rows * tensor->cols;
}

static mp_obj_t model_config(mp_obj_t self_in) {
    const llm_model_t *model = &llm_model_get(self_in)->model;
    const llm_config_t *config = &model->image.config;

    unsigned dtypes = 0;
    uint64_t n_parameters = survey(&model->token_embd, &dtypes) + config->dim;
    if (!config->tied) {
        n_parameters += survey(&model->output, &dtypes);
    }
    for (uint32_t l = 0; l < config->n_layers; l++) {
        const llm_layer_t *layer = &model->layers[l];
        n_parameters += 2 * config->dim + survey(&layer->attn_q, &dtypes) + survey(&layer->attn_k, &dtypes)
            + survey(&layer->attn_v, &dtypes) + survey(&layer->attn_output, &dtypes) + survey(&layer->ffn_gate, &dtypes)
            + survey(&layer->ffn_up, &dtypes) + survey(&layer->ffn_down, &dtypes);
    }
    char dtype[16] = "";
    for (llm_dtype_t i = LLM_F32; i <= LLM_INT4; i++) {
        static const char *const names[] = {[LLM_F32] = "f32", [LLM_INT8] = "int8", [LLM_INT4] = "int4"};
        if (dtypes & 1u << i) {
            if (dtype[0] != '\0') {
                strcat(dtype, "+");
            }
            strcat(dtype, names[i]);
        }
    }

    mp_obj_t dict = new_dict(14);
    store_uint(dict, MP_QSTR_vocab_size, config->vocab_size);
    store_uint(dict, MP_QSTR_dim, config->dim);
    store_uint(dict, MP_QSTR_hidden_dim, config->hidden_dim);
    store_uint(dict, MP_QSTR_n_layers, config->n_layers);
    store_uint(dict, MP_QSTR_n_heads, config->n_heads);
    store_uint(dict, MP_QSTR_n_kv_heads, config->n_kv_heads);
    store_uint(dict, MP_QSTR_head_dim, config->head_dim);
    store_uint(dict, MP_QSTR_context, config->context);
    store(dict, MP_QSTR_norm_eps, mp_obj_new_float_from_f(config->norm_eps));
    store(dict, MP_QSTR_rope_theta, mp_obj_new_float_from_f(config->rope_theta));
    store(dict, MP_QSTR_rope, MP_OBJ_NEW_QSTR(config->rope == LLM_ROPE_NEIGHBOURS ? MP_QSTR_neighbours : MP_QSTR_halves));
    store(dict, MP_QSTR_tied, mp_obj_new_bool(config->tied));
    store(dict, MP_QSTR_dtype, mp_obj_new_str_from_cstr(dtype));
    store(dict, MP_QSTR_n_parameters, mp_obj_new_int_from_ull(n_parameters));
    return dict;
}
static MP_DEFINE_CONST_FUN_OBJ_1(model_config_obj, model_config);

static mp_obj_t model_memory(mp_obj_t self_in) {
    const llm_model_obj_t *self = llm_model_get(self_in);
    const llm_model_t *model = &self->model;
    const llm_plan_t *plan = &model->plan;
    const llm_kv_t *kv = &model->kv;
    mp_obj_t dict = new_dict(15);
    store_uint(dict, MP_QSTR_image, model->image.size);
    store_uint(dict, MP_QSTR_weights, model->image.tensor_data_size);
    store_uint(dict, MP_QSTR_tokenizer, model->image.tokenizer.size);
    store_uint(dict, MP_QSTR_object, sizeof(llm_model_obj_t));
    store_uint(dict, MP_QSTR_tensors, plan->tensors);
    store_uint(dict, MP_QSTR_sequences, plan->sequence_tables);
    store_uint(dict, MP_QSTR_kv, plan->kv);
    store_uint(dict, MP_QSTR_activations, plan->activations);
    store_uint(dict, MP_QSTR_logits, plan->logits);
    store_uint(dict, MP_QSTR_tokens, plan->tokens);
    store_uint(dict, MP_QSTR_stream, self->tables_size + plan->stream);
    store_uint(dict, MP_QSTR_ram, sizeof(llm_model_obj_t) + self->tables_size + plan->total);
    store_uint(dict, MP_QSTR_kv_used, (kv->n_units[0] - kv->n_free[0]) * kv->unit_size);
    store_uint(dict, MP_QSTR_spill, kv->n_units[1] * kv->unit_size);
    store_uint(dict, MP_QSTR_spill_used, (kv->n_units[1] - kv->n_free[1]) * kv->unit_size);
    return dict;
}
static MP_DEFINE_CONST_FUN_OBJ_1(model_memory_obj, model_memory);

static mp_obj_t model_card(mp_obj_t self_in) {
    const llm_image_t *image = &llm_model_get(self_in)->model.image;
    llm_error_t error;
    size_t valid = llm_utf8_check(image->card, image->card_size);
    if (valid != image->card_size) {
        llm_fail(&error, LLM_ERROR_UTF8, "card: the byte at {} is not UTF-8", valid, 0);
        llm_raise(&error);
    }
    return mp_obj_new_str(image->card, image->card_size);
}
static MP_DEFINE_CONST_FUN_OBJ_1(model_card_obj, model_card);

static mp_obj_t model_hash(mp_obj_t self_in) {
    return mp_obj_new_bytes(llm_model_get(self_in)->model.image.hash, 32);
}
static MP_DEFINE_CONST_FUN_OBJ_1(model_hash_obj, model_hash);

static mp_obj_t model_verify(mp_obj_t self_in) {
    llm_error_t error;
    llm_model_obj_t *self = llm_model_get(self_in);
    size_t size = self->address == NULL ? 4096 : 0;
    byte *scratch = m_new(byte, size);
    llm_status_t status = llm_image_verify(&self->model.image, scratch, size, &error);
    m_del(byte, scratch, size);
    if (status != LLM_OK) {
        llm_raise(&error);
    }
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_1(model_verify_obj, model_verify);

static mp_obj_t model_stream_stats(mp_obj_t self_in) {
    const llm_stream_t *stream = llm_model_get(self_in)->model.stream;
    if (stream == NULL) {
        mp_raise_ValueError(MP_ERROR_TEXT("stream: the weights are in memory"));
    }
    float waiting = stream->total > 0 ? (float)stream->waited / (float)stream->total : 0.0f;
    mp_obj_t dict = new_dict(7);
    store(dict, MP_QSTR_bytes, mp_obj_new_int_from_ull(stream->bytes));
    store(dict, MP_QSTR_waited_ms, mp_obj_new_int_from_ull(stream->waited / 1000));
    store(dict, MP_QSTR_total_ms, mp_obj_new_int_from_ull(stream->total / 1000));
    store(dict, MP_QSTR_waiting, mp_obj_new_float_from_f(waiting));
    store_uint(dict, MP_QSTR_range, stream->range_size);
    store_uint(dict, MP_QSTR_latency_us, (size_t)stream->latency);
    store(dict, MP_QSTR_bytes_per_s, mp_obj_new_int_from_ull((uint64_t)(stream->rate * 1e6f)));
    return dict;
}
static MP_DEFINE_CONST_FUN_OBJ_1(model_stream_stats_obj, model_stream_stats);

// ---------------------------------------------------------------------------- its tokenizer

static mp_obj_t model_encode(size_t n_args, const mp_obj_t *pos_args, mp_map_t *kw_args) {
    enum {
        ARG_self,
        ARG_text,
        ARG_bos,
        ARG_special,
    };
    static const mp_arg_t allowed[] = {
        {MP_QSTR_self, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_obj = MP_OBJ_NULL}},
        {MP_QSTR_text, MP_ARG_REQUIRED | MP_ARG_OBJ, {.u_obj = MP_OBJ_NULL}},
        {MP_QSTR_bos, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_NONE}},
        {MP_QSTR_special, MP_ARG_OBJ, {.u_rom_obj = MP_ROM_FALSE}},
    };
    mp_arg_val_t args[MP_ARRAY_SIZE(allowed)];
    mp_arg_parse_all(n_args, pos_args, kw_args, MP_ARRAY_SIZE(allowed), allowed, args);

    llm_model_t *model = &llm_model_get(args[ARG_self].u_obj)->model;
    const llm_tokenizer_t *tokenizer = &model->image.tokenizer;
    mp_buffer_info_t text;
    mp_get_buffer_raise(args[ARG_text].u_obj, &text, MP_BUFFER_READ);
    bool bos = args[ARG_bos].u_obj == mp_const_none ? tokenizer->add_bos : mp_obj_is_true(args[ARG_bos].u_obj);
    bool special = mp_obj_is_true(args[ARG_special].u_obj);

    // In memory of the model's that is free between two calls, if that is enough.
    size_t max_tokens = tokenizer->tokens_per_byte * text.len + 2;
    size_t scratch_size = llm_encode_scratch(tokenizer, text.buf, text.len, special);
    size_t tokens_size = (max_tokens * sizeof(uint32_t) + LLM_ALIGNMENT - 1) & ~(size_t)(LLM_ALIGNMENT - 1);
    size_t own_size;
    byte *own = llm_model_scratch(model, &own_size);
    byte *memory = own;
    size_t size = tokens_size + scratch_size;
    if (size > own_size) {
        memory = m_new(byte, size);
    }
    uint32_t *tokens = (uint32_t *)memory;
    size_t n;
    llm_error_t error;
    llm_status_t status = llm_encode(tokenizer, text.buf, text.len, bos, special, tokens, max_tokens, &n, memory + tokens_size, scratch_size, &error);
    mp_obj_list_t *list = NULL;
    if (status == LLM_OK) {
        list = MP_OBJ_TO_PTR(mp_obj_new_list(n, NULL));
        for (size_t i = 0; i < n; i++) {
            list->items[i] = mp_obj_new_int_from_uint(tokens[i]);
        }
    }
    if (memory != own) {
        m_del(byte, memory, size);
    }
    if (status != LLM_OK) {
        llm_raise(&error);
    }
    return MP_OBJ_FROM_PTR(list);
}
static MP_DEFINE_CONST_FUN_OBJ_KW(model_encode_obj, 2, model_encode);

static mp_obj_t model_piece(mp_obj_t self_in, mp_obj_t token_in) {
    const llm_model_t *model = &llm_model_get(self_in)->model;
    uint32_t size;
    const uint8_t *piece = llm_piece(&model->image.tokenizer, llm_get_token(token_in, model), &size);
    return mp_obj_new_bytes(piece, size);
}
static MP_DEFINE_CONST_FUN_OBJ_2(model_piece_obj, model_piece);

// ---------------------------------------------------------------------------- the type

static void model_attr(mp_obj_t self_in, qstr name, mp_obj_t *dest) {
    if (dest[0] != MP_OBJ_NULL) {
        return; // all are for reading
    }
    const llm_model_t *model = &((llm_model_obj_t *)MP_OBJ_TO_PTR(self_in))->model;
    const llm_tokenizer_t *tokenizer = &model->image.tokenizer;
    switch (name) {
        case MP_QSTR_n_tokens:
            llm_model_get(self_in); // a closed one has no sequences
            dest[0] = mp_obj_new_int_from_uint(model->kv.sequences[0].n_tokens);
            break;
        case MP_QSTR_context:
            dest[0] = mp_obj_new_int_from_uint(model->plan.context);
            break;
        case MP_QSTR_block:
            dest[0] = mp_obj_new_int_from_uint(model->plan.block);
            break;
        case MP_QSTR_cache: {
            const char *cache = cache_names[model->plan.cache];
            dest[0] = mp_obj_new_str_from_cstr(cache);
            break;
        }
        case MP_QSTR_kv: {
            const char *layout = layout_names[model->plan.layout];
            dest[0] = mp_obj_new_str_from_cstr(layout);
            break;
        }
        case MP_QSTR_policy: {
            const char *policy = policy_names[model->plan.policy];
            dest[0] = mp_obj_new_str_from_cstr(policy);
            break;
        }
        case MP_QSTR_kernels: {
            const char *kernels = llm_kernels_name(model->kernels);
            dest[0] = mp_obj_new_str_from_cstr(kernels);
            break;
        }
        case MP_QSTR_cores:
            dest[0] = mp_obj_new_int_from_uint(model->parallel.n_cores);
            break;
        case MP_QSTR_vocab_size:
            dest[0] = mp_obj_new_int_from_uint(model->image.config.vocab_size);
            break;
        case MP_QSTR_bos_id:
            dest[0] = mp_obj_new_int(tokenizer->bos_id);
            break;
        case MP_QSTR_eos_id:
            dest[0] = mp_obj_new_int(tokenizer->eos_id);
            break;
        case MP_QSTR_add_bos:
            dest[0] = mp_obj_new_bool(tokenizer->add_bos);
            break;
        default:
            dest[1] = MP_OBJ_SENTINEL; // a method
            return;
    }
    llm_model_get(self_in);
}

static const mp_rom_map_elem_t model_locals_table[] = {
    {MP_ROM_QSTR(MP_QSTR_eval), MP_ROM_PTR(&llm_sequence_eval_obj)},
    {MP_ROM_QSTR(MP_QSTR_eval_step), MP_ROM_PTR(&llm_sequence_eval_step_obj)},
    {MP_ROM_QSTR(MP_QSTR_sample), MP_ROM_PTR(&llm_sequence_sample_obj)},
    {MP_ROM_QSTR(MP_QSTR_logits), MP_ROM_PTR(&llm_sequence_logits_obj)},
    {MP_ROM_QSTR(MP_QSTR_rewind), MP_ROM_PTR(&llm_sequence_rewind_obj)},
    {MP_ROM_QSTR(MP_QSTR_reuse), MP_ROM_PTR(&llm_sequence_reuse_obj)},
    {MP_ROM_QSTR(MP_QSTR_tokens), MP_ROM_PTR(&llm_sequence_tokens_obj)},
    {MP_ROM_QSTR(MP_QSTR_fork), MP_ROM_PTR(&llm_sequence_fork_obj)},
    {MP_ROM_QSTR(MP_QSTR_save_state), MP_ROM_PTR(&llm_sequence_save_state_obj)},
    {MP_ROM_QSTR(MP_QSTR_load_state), MP_ROM_PTR(&llm_sequence_load_state_obj)},
    {MP_ROM_QSTR(MP_QSTR_sequence), MP_ROM_PTR(&llm_sequence_new_obj)},
    {MP_ROM_QSTR(MP_QSTR_eval_batch), MP_ROM_PTR(&model_eval_batch_obj)},
    {MP_ROM_QSTR(MP_QSTR_event), MP_ROM_PTR(&model_event_obj)},
    {MP_ROM_QSTR(MP_QSTR_config), MP_ROM_PTR(&model_config_obj)},
    {MP_ROM_QSTR(MP_QSTR_memory), MP_ROM_PTR(&model_memory_obj)},
    {MP_ROM_QSTR(MP_QSTR_card), MP_ROM_PTR(&model_card_obj)},
    {MP_ROM_QSTR(MP_QSTR_hash), MP_ROM_PTR(&model_hash_obj)},
    {MP_ROM_QSTR(MP_QSTR_verify), MP_ROM_PTR(&model_verify_obj)},
    {MP_ROM_QSTR(MP_QSTR_stream_stats), MP_ROM_PTR(&model_stream_stats_obj)},
    {MP_ROM_QSTR(MP_QSTR_encode), MP_ROM_PTR(&model_encode_obj)},
    {MP_ROM_QSTR(MP_QSTR_piece), MP_ROM_PTR(&model_piece_obj)},
    {MP_ROM_QSTR(MP_QSTR_close), MP_ROM_PTR(&model_close_obj)},
    {MP_ROM_QSTR(MP_QSTR___del__), MP_ROM_PTR(&model_del_obj)},
    {MP_ROM_QSTR(MP_QSTR___enter__), MP_ROM_PTR(&mp_identity_obj)},
    {MP_ROM_QSTR(MP_QSTR___exit__), MP_ROM_PTR(&model_exit_obj)},
};
static MP_DEFINE_CONST_DICT(model_locals, model_locals_table);

MP_DEFINE_CONST_OBJ_TYPE(
    llm_model_type,
    MP_QSTR_Model,
    MP_TYPE_FLAG_NONE,
    make_new, model_make_new,
    attr, model_attr,
    locals_dict, &model_locals);
