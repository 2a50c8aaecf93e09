// What the engine reads and writes through a stream: pages that spill, states.
#include "py/runtime.h"
#include "py/stream.h"

#include "bindings.h"

// Reads or writes all of `size` bytes. The stream may be Python code, which must not use the model meanwhile.
static llm_io_t transfer(llm_model_obj_t *model, mp_obj_t stream, void *data, size_t size, byte flags) {
    nlr_buf_t nlr;
    if (nlr_push(&nlr) != 0) {
        model->busy = false;
        nlr_jump(nlr.ret_val);
    }
    model->busy = true;
    int error;
    size_t n = mp_stream_rw(stream, data, size, &error, flags);
    if (error != 0) {
        mp_raise_OSError(error);
    }
    model->busy = false;
    nlr_pop();
    return n == size ? LLM_IO_OK : flags == MP_STREAM_RW_READ ? LLM_IO_END
                                                              : LLM_IO_FAILED;
}

static void seek(mp_obj_t stream, uint64_t offset) {
    int error;
    if (mp_stream_seek(stream, (mp_off_t)offset, MP_SEEK_SET, &error) == (mp_off_t)-1) {
        mp_raise_OSError(error);
    }
}

static llm_io_t read_spill(void *context, uint64_t offset, void *data, size_t size) {
    llm_model_obj_t *model = context;
    seek(model->spill, offset);
    return transfer(model, model->spill, data, size, MP_STREAM_RW_READ);
}

static llm_io_t write_spill(void *context, uint64_t offset, const void *data, size_t size) {
    llm_model_obj_t *model = context;
    seek(model->spill, offset);
    return transfer(model, model->spill, (void *)data, size, MP_STREAM_RW_WRITE);
}

void llm_spill_get(mp_obj_t o, llm_model_obj_t *model, llm_spill_t *spill) {
    model->spill = o;
    if (o == mp_const_none) {
        return;
    }
    mp_buffer_info_t buffer;
    if (mp_get_buffer(o, &buffer, MP_BUFFER_RW)) {
        spill->memory = buffer.buf;
        spill->size = buffer.len;
        return;
    }
    mp_get_stream_raise(o, MP_STREAM_OP_READ | MP_STREAM_OP_WRITE | MP_STREAM_OP_IOCTL);
    spill->store = (llm_store_t){.context = model, .read = read_spill, .write = write_spill};
    spill->size = UINT64_MAX; // it grows
}

// ---------------------------------------------------------------------------- states

typedef struct {
    llm_model_obj_t *model;
    mp_obj_t stream;
} state_t;

static llm_io_t read_state(void *context, uint64_t offset, void *data, size_t size) {
    (void)offset; // one after the other
    const state_t *state = context;
    return transfer(state->model, state->stream, data, size, MP_STREAM_RW_READ);
}

static llm_io_t write_state(void *context, uint64_t offset, const void *data, size_t size) {
    (void)offset;
    const state_t *state = context;
    return transfer(state->model, state->stream, (void *)data, size, MP_STREAM_RW_WRITE);
}

static mp_obj_t save_state(mp_obj_t self_in, mp_obj_t stream) {
    state_t state = {.stream = stream};
    llm_sequence_t *sequence = llm_sequence_get(self_in, &state.model);
    mp_get_stream_raise(stream, MP_STREAM_OP_WRITE);
    const llm_store_t store = {.context = &state, .write = write_state};
    llm_error_t error;
    if (llm_sequence_save(&state.model->model, sequence, &store, &error) != LLM_OK) {
        llm_raise(&error);
    }
    return mp_const_none;
}
MP_DEFINE_CONST_FUN_OBJ_2(llm_sequence_save_state_obj, save_state);

static mp_obj_t load_state(mp_obj_t self_in, mp_obj_t stream) {
    state_t state = {.stream = stream};
    llm_sequence_t *sequence = llm_sequence_get(self_in, &state.model);
    mp_get_stream_raise(stream, MP_STREAM_OP_READ);
    const llm_store_t store = {.context = &state, .read = read_state};
    llm_error_t error;
    llm_status_t status = LLM_OK;
    nlr_buf_t nlr;
    if (nlr_push(&nlr) == 0) {
        status = llm_sequence_load(&state.model->model, sequence, &store, &error);
        nlr_pop();
    } else {
        llm_sequence_rewind(&state.model->model, sequence, 0, NULL);
        nlr_jump(nlr.ret_val);
    }
    if (status != LLM_OK) {
        llm_raise(&error);
    }
    return mp_const_none;
}
MP_DEFINE_CONST_FUN_OBJ_2(llm_sequence_load_state_obj, load_state);
