// The MicroPython module `_llm`: converts objects, calls the engine (core/llm.h, ports/ports.h) and raises exceptions, nothing else.
//
// The Python side of it is documented in py/llm/_llm.pyi.
#ifndef LLM_BINDINGS_H
#define LLM_BINDINGS_H

#include "py/obj.h"

#include "../ports/ports.h"

// A file that weights are read from.
typedef struct {
    llm_source_t source; // whose context is the model
    mp_obj_t seek[2]; // methods of the object, as mp_load_method gives them
    mp_obj_t readinto[2];
    mp_obj_t window; // memoryview of what is to be filled
} llm_file_t;

// An image and its working memory.
typedef struct {
    mp_obj_base_t base;
    mp_obj_t data; // what holds the image, kept alive; MP_OBJ_NULL once closed
    const void *address; // of its buffer when the model was made; NULL if it is a file
    size_t size; // of its buffer when the model was made
    llm_file_t file; // if it is one
    void *tables; // what is in RAM of a file: one block of the heap
    size_t tables_size; // bytes, 0 if there are none
    void *ram; // one block of the heap, model.plan.total bytes
    mp_obj_t spill; // a buffer or stream that pages spill to, or None
    bool busy; // a stream or file is being read or written for it
    llm_model_t model; // points into all
} llm_model_obj_t;

// A sequence of a model beside its main one.
typedef struct {
    mp_obj_base_t base;
    mp_obj_t model; // kept alive
    llm_sequence_t *sequence; // NULL once closed
} llm_sequence_obj_t;

// Settings and random state.
typedef struct {
    mp_obj_base_t base;
    llm_sampler_t sampler;
} llm_sampler_obj_t;

extern const mp_obj_type_t llm_model_type;
extern const mp_obj_type_t llm_sequence_type;
extern const mp_obj_type_t llm_sampler_type;
extern const mp_obj_type_t llm_decoder_type;

// Raises the exception for `error`, with its message.
void llm_raise(const llm_error_t *error) __attribute__((noreturn));

// The object inside `o`, an instance of `type` or of a Python subclass of it. Raises TypeError.
void *llm_instance(mp_obj_t o, const mp_obj_type_t *type);

// The model in `o`, open and with its buffer where it was. Raises TypeError, ValueError.
llm_model_obj_t *llm_model_get(mp_obj_t o);

// The sequence in `o`, which is a Sequence or a Model, whose main one it is then, and its model, as llm_model_get. Raises TypeError,
// ValueError.
llm_sequence_t *llm_sequence_get(mp_obj_t o, llm_model_obj_t **model);

// Methods of both.
MP_DECLARE_CONST_FUN_OBJ_2(llm_sequence_eval_obj);
MP_DECLARE_CONST_FUN_OBJ_3(llm_sequence_eval_step_obj);
MP_DECLARE_CONST_FUN_OBJ_2(llm_sequence_sample_obj);
MP_DECLARE_CONST_FUN_OBJ_VAR_BETWEEN(llm_sequence_logits_obj);
MP_DECLARE_CONST_FUN_OBJ_2(llm_sequence_rewind_obj);
MP_DECLARE_CONST_FUN_OBJ_2(llm_sequence_reuse_obj);
MP_DECLARE_CONST_FUN_OBJ_1(llm_sequence_tokens_obj);
MP_DECLARE_CONST_FUN_OBJ_1(llm_sequence_fork_obj);
MP_DECLARE_CONST_FUN_OBJ_2(llm_sequence_save_state_obj);
MP_DECLARE_CONST_FUN_OBJ_2(llm_sequence_load_state_obj);

// Takes the buffer or stream in `o` as the spill region of `model`, which is being made. Raises OSError if it is neither.
void llm_spill_get(mp_obj_t o, llm_model_obj_t *model, llm_spill_t *spill);

// Model.sequence().
MP_DECLARE_CONST_FUN_OBJ_1(llm_sequence_new_obj);

// Makes model->file of `o`, any object with seek and readinto, and returns its size in bytes. Raises TypeError, and what the object
// raises.
uint64_t llm_file_open(llm_model_obj_t *model, mp_obj_t o);

// The int in `o`, from 0 to `max`. Raises TypeError and ValueError with the message `what`, in which {} stands for `max`.
uint64_t llm_get_uint(mp_obj_t o, const char *what, uint64_t max);

// The token id in `o`, below the vocabulary size of `model`. Raises TypeError, ValueError.
uint32_t llm_get_token(mp_obj_t o, const llm_model_t *model);

#endif
