// Runs images that tests/host/test_hostile.py sends, under AddressSanitizer and UndefinedBehaviorSanitizer.
//
// Reads requests from stdin until it ends: request_t, the image, the prompt. Answers each with a line on stdout: `ok 0` and a
// token, or the step that failed, its llm_status_t and its message. Every block of memory that is handed to the engine is
// exactly as large as it is told. Where nothing else is asked for, the image is run again as one that is not in memory, and must
// give the same answer.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../cmodules/llm/core/llm.h"

#define NONE 0xFFFFFFFFu

typedef struct {
    uint32_t image_size; // bytes that follow
    uint32_t image_shift; // bytes by which its address is off a multiple of 64
    uint32_t verify; // as llm_image_open takes it
    uint32_t context; // llm_options_t
    uint32_t block;
    uint32_t cache;
    uint32_t ram_missing; // bytes less than planned
    uint32_t ram_shift; // bytes by which its address is off a multiple of 64
    uint32_t prompt_size; // bytes that follow the image
    uint32_t bos; // as llm_encode takes it
    uint32_t special; // the same
    uint32_t scratch_missing; // bytes less than llm_encode_scratch says
    uint32_t max_tokens; // room for ids
    uint32_t token; // evaluated after the prompt, NONE if there is none
    float temperature; // llm_sampler_t
    uint32_t top_k;
    float top_p;
    float min_p;
    float repetition_penalty;
    uint32_t repeat_last_n;
    uint32_t damage_at; // offset of 4 bytes of the image that are set to ones once the model is made, or NONE
} request_t;

static void die(const char *why) {
    fprintf(stderr, "check_image: %s\n", why);
    exit(2);
}

// `size` bytes that end where the block ends and begin `shift` bytes after a multiple of 64.
typedef struct {
    void *block; // to be freed
    uint8_t *bytes;
} memory_t;

static memory_t take(size_t size, size_t shift) {
    memory_t memory;
    if (posix_memalign(&memory.block, 64, shift + size) != 0) {
        die("out of memory");
    }
    memory.bytes = (uint8_t *)memory.block + shift;
    return memory;
}

static memory_t receive(size_t size, size_t shift) {
    memory_t memory = take(size, shift);
    if (size > 0 && fread(memory.bytes, size, 1, stdin) != 1) {
        die("the request is cut short");
    }
    return memory;
}

// What is done with a model once there is one. Returns the name of the step that failed, "ok" if none did.
static const char *use(const request_t *r, llm_model_t *model, const char *prompt, uint32_t *token, llm_error_t *error) {
    const llm_tokenizer_t *tokenizer = &model->image.tokenizer;
    size_t scratch_size = llm_encode_scratch(tokenizer, prompt, r->prompt_size, r->special != 0) - r->scratch_missing;
    memory_t scratch = take(scratch_size, 0);
    memory_t ids = take(r->max_tokens * sizeof(uint32_t), 0);
    uint32_t *tokens = (uint32_t *)(void *)ids.bytes;
    size_t n_tokens;
    llm_sampler_t sampler = {
        .temperature = r->temperature,
        .top_k = r->top_k,
        .top_p = r->top_p,
        .min_p = r->min_p,
        .repetition_penalty = r->repetition_penalty,
        .repeat_last_n = r->repeat_last_n,
    };
    const char *failed = "ok";
    if (llm_encode(tokenizer, prompt, r->prompt_size, r->bos != 0, r->special != 0, tokens, r->max_tokens, &n_tokens, scratch.bytes, scratch_size, error) != LLM_OK) {
        failed = "encode";
    } else if (llm_model_eval(model, tokens, n_tokens, error) != LLM_OK
        || (r->token != NONE && llm_model_eval(model, &r->token, 1, error) != LLM_OK)) {
        failed = "eval";
    } else if (llm_sampler_check(&sampler, error) != LLM_OK) {
        failed = "sampler";
    } else if (llm_sequence_sample(model, model->kv.sequences, &sampler, token, error) != LLM_OK) {
        failed = "sample";
    } else if (*token >= model->image.config.vocab_size) {
        die("the sampled token is not one");
    } else if (r->damage_at != NONE && llm_image_verify(&model->image, NULL, 0, error) != LLM_OK) {
        failed = "verify";
    }
    free(scratch.block);
    free(ids.block);
    return failed;
}

// The steps after the image is open. Returns the name of the one that failed, "ok" if none did.
static const char *run_open(const request_t *r, const llm_image_t *image, uint32_t stream, uint8_t *data, const char *prompt, uint32_t *token, llm_error_t *error) {
    const llm_options_t options = {.context = r->context, .block = r->block, .cache = (llm_cache_t)r->cache, .policy = LLM_POLICY_ERROR, .stream = stream};
    llm_plan_t plan;
    if (llm_plan(image, &options, &plan, error) != LLM_OK) {
        return "plan";
    }
    if (plan.total > (64u << 20)) {
        die("the model is too large for a test");
    }
    size_t ram_size = plan.total - r->ram_missing;
    memory_t ram = take(ram_size, r->ram_shift);
    llm_model_t model;
    const char *failed = "init";
    if (llm_model_init(&model, image, &options, ram.bytes, ram_size, error) == LLM_OK) {
        if (r->damage_at != NONE) {
            memset(data + r->damage_at, 0xFF, 4);
        }
        failed = use(r, &model, prompt, token, error);
    }
    free(ram.block);
    return failed;
}

// All steps on one image.
static const char *run(const request_t *r, uint8_t *data, const char *prompt, uint32_t *token, llm_error_t *error) {
    llm_image_t image;
    if (llm_image_open(&image, data, r->image_size, r->verify != 0, error) != LLM_OK) {
        return "open";
    }
    return run_open(r, &image, 0, data, prompt, token, error);
}

// ---------------------------------------------------------------------------- the same from a source

typedef struct {
    const uint8_t *data; // the image
    size_t size;
    const llm_read_t *reads; // under way
    uint32_t n_reads;
    uint32_t time; // us, goes on by one each time it is asked for
} storage_t;

static bool read_storage(void *context, uint64_t offset, void *data, size_t size) {
    storage_t *storage = context;
    if (storage->reads != NULL) {
        die("read while something is under way");
    }
    if (offset > storage->size || size > storage->size - offset) {
        die("read past the end of the image");
    }
    memcpy(data, storage->data + offset, size);
    return true;
}

static bool start_storage(void *context, const llm_read_t *reads, uint32_t n) {
    storage_t *storage = context;
    if (storage->reads != NULL || n == 0 || n > 3) {
        die("a second batch is begun, or one that cannot be");
    }
    storage->reads = reads;
    storage->n_reads = n;
    return true;
}

// Only now are they read.
static bool wait_storage(void *context, uint32_t *took) {
    storage_t *storage = context;
    const llm_read_t *reads = storage->reads;
    if (reads == NULL) {
        die("waits for nothing");
    }
    storage->reads = NULL;
    for (uint32_t i = 0; i < storage->n_reads; i++) {
        read_storage(storage, reads[i].offset, reads[i].data, reads[i].size);
    }
    *took = storage->n_reads;
    return true;
}

static uint32_t now_storage(void *context) {
    return ++((storage_t *)context)->time;
}

static const char *run_source(const request_t *r, uint8_t *data, uint32_t stream, bool background, const char *prompt, uint32_t *token, llm_error_t *error) {
    storage_t storage = {.data = data, .size = r->image_size};
    const llm_source_t source = {
        .context = &storage,
        .read = read_storage,
        .start = background ? start_storage : NULL,
        .wait = background ? wait_storage : NULL,
        .now = now_storage,
    };
    llm_image_t image;
    size_t size;
    if (llm_image_resident(&source, r->image_size, &size, error) != LLM_OK) {
        return "open";
    }
    if (size > (64u << 20)) {
        return "open";
    }
    memory_t tables = take(size, 0);
    const char *failed = "open";
    if (llm_image_open_source(&image, &source, r->image_size, r->verify != 0, tables.bytes, size, error) == LLM_OK) {
        failed = run_open(r, &image, stream, data, prompt, token, error);
    }
    free(tables.block);
    return failed;
}

// The answer must be that of the image in memory. Of several things that are wrong either may name another one first.
static void check_source(const request_t *r, uint8_t *data, const char *prompt, const char *failed, uint32_t token) {
    static const uint32_t sizes[] = {0, 1, 700, LLM_STREAM_MAX};
    for (uint32_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint32_t other = 0;
        llm_error_t error = {.status = LLM_OK};
        const char *step = run_source(r, data, sizes[i / 2], i % 2 != 0, prompt, &other, &error);
        if (strcmp(step, failed) != 0 || other != token) {
            fprintf(stderr, "check_image: %s %lu from memory, %s %lu %s from a source\n", failed, (unsigned long)token, step, (unsigned long)other, error.message);
            exit(2);
        }
    }
}

int main(void) {
    request_t request;
    while (fread(&request, sizeof(request), 1, stdin) == 1) {
        memory_t image = receive(request.image_size, request.image_shift);
        memory_t prompt = receive(request.prompt_size, 0);
        uint32_t token = 0;
        llm_error_t error = {.status = LLM_OK};
        const char *failed = run(&request, image.bytes, (const char *)prompt.bytes, &token, &error);
        if (request.image_shift == 0 && request.damage_at == NONE) {
            check_source(&request, image.bytes, (const char *)prompt.bytes, failed, token);
        }
        if (strcmp(failed, "ok") == 0) {
            printf("ok 0 %lu\n", (unsigned long)token);
        } else {
            printf("%s %d %s\n", failed, (int)error.status, error.message);
        }
        fflush(stdout);
        free(image.block);
        free(prompt.block);
    }
    return 0;
}
