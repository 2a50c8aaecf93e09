// Runs images that tests/host/test_hostile.py sends, under AddressSanitizer and UndefinedBehaviorSanitizer.
//
// Reads requests from stdin until it ends: request_t, the image, the prompt. Answers each with a line on stdout: `ok 0` and a
// token, or the step that failed, its llm_status_t and its message. Every block of memory that is handed to the engine is
// exactly as large as it is told.
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
    } else if (r->damage_at != NONE && llm_image_verify(&model->image, error) != LLM_OK) {
        failed = "verify";
    }
    free(scratch.block);
    free(ids.block);
    return failed;
}

// All steps on one image. Returns the name of the one that failed, "ok" if none did.
static const char *run(const request_t *r, uint8_t *data, const char *prompt, uint32_t *token, llm_error_t *error) {
    llm_image_t image;
    if (llm_image_open(&image, data, r->image_size, r->verify != 0, error) != LLM_OK) {
        return "open";
    }
    const llm_options_t options = {.context = r->context, .block = r->block, .cache = (llm_cache_t)r->cache, .policy = LLM_POLICY_ERROR};
    llm_plan_t plan;
    if (llm_plan(&image, &options, &plan, error) != LLM_OK) {
        return "plan";
    }
    if (plan.total > (64u << 20)) {
        die("the model is too large for a test");
    }
    size_t ram_size = plan.total - r->ram_missing;
    memory_t ram = take(ram_size, r->ram_shift);
    llm_model_t model;
    const char *failed = "init";
    if (llm_model_init(&model, &image, &options, ram.bytes, ram_size, error) == LLM_OK) {
        if (r->damage_at != NONE) {
            memset(data + r->damage_at, 0xFF, 4);
        }
        failed = use(r, &model, prompt, token, error);
    }
    free(ram.block);
    return failed;
}

int main(void) {
    request_t request;
    while (fread(&request, sizeof(request), 1, stdin) == 1) {
        memory_t image = receive(request.image_size, request.image_shift);
        memory_t prompt = receive(request.prompt_size, 0);
        uint32_t token = 0;
        llm_error_t error = {.status = LLM_OK};
        const char *failed = run(&request, image.bytes, (const char *)prompt.bytes, &token, &error);
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
