// _llm.Sequence, and the methods of _llm.Model that are those of its main sequence.
#include <string.h>

#include "py/mphal.h"
#include "py/objarray.h"
#include "py/runtime.h"

#include "bindings.h"

llm_sequence_t *llm_sequence_get(mp_obj_t o, llm_model_obj_t **model) {
    if (mp_obj_cast_to_native_base(o, MP_OBJ_FROM_PTR(&llm_model_type)) != MP_OBJ_NULL) {
        *model = llm_model_get(o);
        return (*model)->model.kv.sequences;
    }
    llm_sequence_obj_t *self = llm_instance(o, &llm_sequence_type);
    *model = llm_model_get(self->model);
    if (self->sequence == NULL) {
        mp_raise_ValueError(MP_ERROR_TEXT("sequence: is closed"));
    }
    return self->sequence;
}

static mp_obj_t new_sequence(mp_obj_t model_in) {
    llm_model_obj_t *model = llm_model_get(model_in);
    llm_sequence_obj_t *self = mp_obj_malloc(llm_sequence_obj_t, &llm_sequence_type);
    self->model = model_in;
    self->sequence = llm_sequence_open(&model->model);
    if (self->sequence == NULL) {
        llm_error_t error;
        llm_fail(&error, LLM_ERROR_VALUE, "sequences: all {} are in use, close one or load the model with more", model->model.plan.sequences, 0);
        llm_raise(&error);
    }
    return MP_OBJ_FROM_PTR(self);
}
MP_DEFINE_CONST_FUN_OBJ_1(llm_sequence_new_obj, new_sequence);

// The ids in `tokens_in`, a list, tuple or array of `*n`: a copy, in `few` if there is room for them (LLM_MAX_BLOCK), else on the heap.
static uint32_t *get_tokens(mp_obj_t tokens_in, const llm_model_t *model, uint32_t *few, size_t *n) {
    *n = (size_t)mp_obj_get_int(mp_obj_len(tokens_in));
    uint32_t *tokens = *n > LLM_MAX_BLOCK ? m_new(uint32_t, *n) : few;
    for (size_t i = 0; i < *n; i++) {
        tokens[i] = llm_get_token(mp_obj_subscr(tokens_in, MP_OBJ_NEW_SMALL_INT(i), MP_OBJ_SENTINEL), model);
    }
    return tokens;
}

// Evaluates the tokens in `tokens_in`, block by block, or part by part until about `ms` milliseconds are over, if that is not negative.
// Returns how many got through.
static size_t evaluate(mp_obj_t self_in, mp_obj_t tokens_in, int64_t ms) {
    llm_model_obj_t *model;
    llm_sequence_get(self_in, &model);
    uint32_t few[LLM_MAX_BLOCK];
    uint32_t *tokens = few;
    size_t n = 1;
    if (mp_obj_is_int(tokens_in)) {
        few[0] = llm_get_token(tokens_in, &model->model);
    } else {
        // A copy, since what runs between two blocks may change the list.
        tokens = get_tokens(tokens_in, &model->model, few, &n);
    }
    mp_uint_t start = mp_hal_ticks_ms();
    size_t at = 0;
    while (at < n) {
        // Again each time: what ran meanwhile may have closed it.
        llm_sequence_t *sequence = llm_sequence_get(self_in, &model);
        size_t done;
        llm_error_t error;
        if ((ms < 0 ? llm_sequence_eval : llm_sequence_eval_part)(&model->model, sequence, tokens + at, n - at, &done, &error) != LLM_OK) {
            llm_raise(&error);
        }
        at += done;
        if (at == n || (ms >= 0 && (mp_uint_t)(mp_hal_ticks_ms() - start) >= (mp_uint_t)ms)) {
            break;
        }
        uint32_t n_tokens = sequence->n_tokens;
        mp_handle_pending(true);
        if (llm_sequence_get(self_in, &model)->n_tokens != n_tokens) {
            mp_raise_msg(&mp_type_RuntimeError, MP_ERROR_TEXT("model: used by a callback in the middle of eval"));
        }
    }
    if (tokens != few) {
        m_del(uint32_t, tokens, n);
    }
    return at;
}

static mp_obj_t sequence_eval(mp_obj_t self_in, mp_obj_t tokens_in) {
    evaluate(self_in, tokens_in, -1);
    return mp_const_none;
}
MP_DEFINE_CONST_FUN_OBJ_2(llm_sequence_eval_obj, sequence_eval);

static mp_obj_t sequence_eval_step(mp_obj_t self_in, mp_obj_t tokens_in, mp_obj_t ms_in) {
    return mp_obj_new_int_from_uint(evaluate(self_in, tokens_in, (int64_t)llm_get_uint(ms_in, "ms: must be an int from 0 to {}", 0xFFFF)));
}
MP_DEFINE_CONST_FUN_OBJ_3(llm_sequence_eval_step_obj, sequence_eval_step);

static mp_obj_t sequence_sample(mp_obj_t self_in, mp_obj_t sampler_in) {
    llm_model_obj_t *model;
    llm_sequence_t *sequence = llm_sequence_get(self_in, &model);
    llm_sampler_obj_t *sampler = llm_instance(sampler_in, &llm_sampler_type);
    llm_error_t error;
    uint32_t token;
    if (llm_sequence_sample(&model->model, sequence, &sampler->sampler, &token, &error) != LLM_OK) {
        llm_raise(&error);
    }
    return mp_obj_new_int_from_uint(token);
}
MP_DEFINE_CONST_FUN_OBJ_2(llm_sequence_sample_obj, sequence_sample);

static mp_obj_t sequence_logits(size_t n_args, const mp_obj_t *args) {
    llm_model_obj_t *model;
    llm_sequence_t *sequence = llm_sequence_get(args[0], &model);
    const float *logits = llm_sequence_logits(&model->model, sequence);
    if (logits == NULL) {
        mp_raise_ValueError(MP_ERROR_TEXT("logits: there are none, evaluate a token first (sampling uses them up)"));
    }
    uint32_t n = model->model.image.config.vocab_size;
    if (n_args > 1 && args[1] != mp_const_none) {
        mp_buffer_info_t buffer;
        mp_get_buffer_raise(args[1], &buffer, MP_BUFFER_WRITE);
        if (buffer.len != n * sizeof(float)) {
            llm_error_t error;
            llm_fail(&error, LLM_ERROR_VALUE, "buf: has {} bytes, must have {}", buffer.len, n * sizeof(float));
            llm_raise(&error);
        }
        memcpy(buffer.buf, logits, buffer.len);
        return args[1];
    }
    mp_obj_array_t *array = mp_obj_malloc(mp_obj_array_t, &mp_type_array);
    array->typecode = 'f';
    array->free = 0;
    array->len = 0;
    array->items = NULL;
    array->items = m_new(float, n);
    array->len = n;
    memcpy(array->items, logits, n * sizeof(float));
    return MP_OBJ_FROM_PTR(array);
}
MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(llm_sequence_logits_obj, 1, 2, sequence_logits);

static mp_obj_t sequence_rewind(mp_obj_t self_in, mp_obj_t n_in) {
    llm_model_obj_t *model;
    llm_sequence_t *sequence = llm_sequence_get(self_in, &model);
    uint32_t n = (uint32_t)llm_get_uint(n_in, "n: must be an int from 0 to n_tokens {}", sequence->n_tokens);
    llm_error_t error;
    if (llm_sequence_rewind(&model->model, sequence, n, &error) != LLM_OK) {
        llm_raise(&error);
    }
    return mp_const_none;
}
MP_DEFINE_CONST_FUN_OBJ_2(llm_sequence_rewind_obj, sequence_rewind);

static mp_obj_t sequence_reuse(mp_obj_t self_in, mp_obj_t tokens_in) {
    llm_model_obj_t *model;
    llm_sequence_get(self_in, &model);
    uint32_t few[LLM_MAX_BLOCK];
    size_t n;
    uint32_t *tokens = get_tokens(tokens_in, &model->model, few, &n);
    llm_sequence_t *sequence = llm_sequence_get(self_in, &model); // the list may be an object that has closed it
    uint32_t same = llm_sequence_reuse(&model->model, sequence, tokens, n);
    if (tokens != few) {
        m_del(uint32_t, tokens, n);
    }
    return mp_obj_new_int_from_uint(same);
}
MP_DEFINE_CONST_FUN_OBJ_2(llm_sequence_reuse_obj, sequence_reuse);

static mp_obj_t sequence_tokens(mp_obj_t self_in) {
    llm_model_obj_t *model;
    llm_sequence_t *sequence = llm_sequence_get(self_in, &model);
    uint32_t n = llm_sequence_n_cached(&model->model, sequence);
    mp_obj_list_t *list = MP_OBJ_TO_PTR(mp_obj_new_list(n, NULL));
    for (uint32_t i = 0; i < n; i++) {
        list->items[i] = mp_obj_new_int_from_uint(llm_sequence_token(&model->model, sequence, i));
    }
    return MP_OBJ_FROM_PTR(list);
}
MP_DEFINE_CONST_FUN_OBJ_1(llm_sequence_tokens_obj, sequence_tokens);

static mp_obj_t sequence_fork(mp_obj_t self_in) {
    llm_model_obj_t *model;
    llm_sequence_t *from = llm_sequence_get(self_in, &model);
    mp_obj_t model_in = self_in;
    if (mp_obj_is_exact_type(self_in, &llm_sequence_type)) {
        model_in = ((llm_sequence_obj_t *)MP_OBJ_TO_PTR(self_in))->model;
    }
    mp_obj_t fork = new_sequence(model_in);
    llm_sequence_fork(&model->model, ((llm_sequence_obj_t *)MP_OBJ_TO_PTR(fork))->sequence, from);
    return fork;
}
MP_DEFINE_CONST_FUN_OBJ_1(llm_sequence_fork_obj, sequence_fork);

// ---------------------------------------------------------------------------- the type

static mp_obj_t sequence_close(mp_obj_t self_in) {
    llm_sequence_obj_t *self = llm_instance(self_in, &llm_sequence_type);
    if (self->sequence != NULL) {
        llm_model_obj_t *model = llm_instance(self->model, &llm_model_type);
        if (model->data != MP_OBJ_NULL) { // else its memory is gone
            llm_model_get(self->model); // not while it is busy
            llm_sequence_close(&model->model, self->sequence);
        }
        self->sequence = NULL;
    }
    return mp_const_none;
}
static MP_DEFINE_CONST_FUN_OBJ_1(sequence_close_obj, sequence_close);

static mp_obj_t sequence_exit(size_t n_args, const mp_obj_t *args) {
    (void)n_args;
    return sequence_close(args[0]);
}
static MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(sequence_exit_obj, 4, 4, sequence_exit);

static void sequence_attr(mp_obj_t self_in, qstr name, mp_obj_t *dest) {
    if (dest[0] != MP_OBJ_NULL) {
        return; // all are for reading
    }
    if (name == MP_QSTR_n_tokens) {
        llm_model_obj_t *model;
        dest[0] = mp_obj_new_int_from_uint(llm_sequence_get(self_in, &model)->n_tokens);
    } else {
        dest[1] = MP_OBJ_SENTINEL; // a method
    }
}

static const mp_rom_map_elem_t sequence_locals_table[] = {
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
    {MP_ROM_QSTR(MP_QSTR_close), MP_ROM_PTR(&sequence_close_obj)},
    {MP_ROM_QSTR(MP_QSTR___enter__), MP_ROM_PTR(&mp_identity_obj)},
    {MP_ROM_QSTR(MP_QSTR___exit__), MP_ROM_PTR(&sequence_exit_obj)},
};
static MP_DEFINE_CONST_DICT(sequence_locals, sequence_locals_table);

MP_DEFINE_CONST_OBJ_TYPE(
    llm_sequence_type,
    MP_QSTR_Sequence,
    MP_TYPE_FLAG_NONE,
    attr, sequence_attr,
    locals_dict, &sequence_locals);
