// Checks what ports/ports.h promises of other cores, and that products divided between them have the same bits.
//
//   check_parallel IMAGE
//
// prints a line a number of cores: it, and the CRC32C of the logits of 40 tokens. Anything wrong ends the program with status 1.
// For POSIX threads, or with fake.c for FreeRTOS; under ThreadSanitizer.
#define _DEFAULT_SOURCE

#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "../../cmodules/llm/ports/ports.h"
#include "fake.h"
#include "freertos/FreeRTOS.h"

#define MAX_CORES 4
#define N_RUNS 10000

static void check(bool right, const char *what, int line) {
    if (!right) {
        fprintf(stderr, "check_parallel.c:%d: %s\n", line, what);
        exit(1);
    }
}
#define CHECK(right) check(right, #right, __LINE__)

#if LLM_PORT_ESP32
// Tasks that there are now.
static uint32_t n_started(void) {
    return fake_n_tasks();
}
#else
static uint32_t n_before; // threads: the caller, and the sanitizer's

static uint32_t n_threads(void) {
    DIR *tasks = opendir("/proc/self/task");
    uint32_t n = 0;
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
        n += entry->d_name[0] != '.';
    }
    closedir(tasks);
    return n;
}

// Threads that the port has now.
static uint32_t n_started(void) {
    return n_threads() - n_before;
}
#endif

static void *nothing(void *argument) {
    return argument;
}

// An ended thread or task is gone a moment later.
static void check_started(uint32_t n, int line) {
    for (int i = 0; i < 1000 && n_started() != n; i++) {
        struct timespec millisecond = {.tv_nsec = 1000000};
        nanosleep(&millisecond, NULL);
    }
    check(n_started() == n, "wrong number of tasks or threads", line);
}
#define CHECK_STARTED(n) check_started(n, __LINE__)

// ---------------------------------------------------------------------------- who does what

// A product: each core counts its share, and where it was.
typedef struct {
    uint32_t done[MAX_CORES];
    pthread_t thread[MAX_CORES];
    int core[MAX_CORES]; // of the chip
} product_t;

static void share(void *argument, uint32_t core) {
    product_t *product = argument;
    CHECK(core < MAX_CORES);
    product->done[core]++;
    product->thread[core] = pthread_self();
#if LLM_PORT_ESP32
    product->core[core] = xPortGetCoreID();
#endif
}

// Divides `n` products between the cores; each must do its share of each once.
static void divide(const llm_parallel_t *parallel, uint32_t n) {
    product_t product = {0};
    for (uint32_t i = 1; i <= n; i++) {
        parallel->run(parallel, share, &product);
        for (uint32_t core = 0; core < parallel->n_cores; core++) {
            CHECK(product.done[core] == i);
        }
        CHECK(pthread_equal(product.thread[0], pthread_self()));
    }
}

// Whether core 1 worked on a thread of its own.
static bool divided(const llm_parallel_t *parallel) {
    product_t product = {0};
    parallel->run(parallel, share, &product);
    CHECK(product.done[0] == 1 && product.done[1] == 1);
    bool apart = !pthread_equal(product.thread[1], pthread_self());
#if LLM_PORT_ESP32
    CHECK(!apart || product.core[1] == 1 - product.core[0]);
#endif
    return apart;
}

static void check_life(void) {
    uint32_t most = llm_port_cores() < MAX_CORES ? llm_port_cores() : MAX_CORES;
    CHECK(most >= 2);
    CHECK_STARTED(0);

    llm_parallel_t best, alone, two, all;
    llm_port_parallel(&best, 0);
    CHECK(best.n_cores == (LLM_PORT_ESP32 ? 2 : 1));
    llm_port_parallel_end(&best);
    llm_port_parallel(&alone, 1);
    CHECK(alone.n_cores == 1);
    llm_port_parallel(&two, 2);
    CHECK(two.n_cores == 2 && two.min_macs > 0);
    CHECK_STARTED(0); // nothing was divided yet
    divide(&two, N_RUNS);
    CHECK(divided(&two));
    CHECK_STARTED(1);

    llm_port_parallel(&all, most);
    CHECK(all.n_cores == most);
    CHECK_STARTED(1);
    for (int i = 0; i < 100; i++) {
        divide(&all, 10);
        divide(&two, 10); // some threads have nothing to do
    }
    CHECK_STARTED(most - 1);

    llm_port_parallel_end(&all);
    CHECK(all.n_cores == 1);
    llm_port_parallel_end(&all); // again: no effect
    CHECK_STARTED(most - 1); // the other model may use them
    CHECK(divided(&two));
    llm_port_parallel_end(&two);
    CHECK_STARTED(0);
    llm_port_parallel_end(&alone);

    for (int i = 0; i < 200; i++) {
        llm_port_parallel(&two, 2);
        divide(&two, i % 3);
        llm_port_parallel_end(&two);
    }
    CHECK_STARTED(0);
}

#if LLM_PORT_ESP32
static void check_no_memory(void) {
    llm_parallel_t two;
    llm_port_parallel(&two, 2);
    fake_no_memory(true);
    divide(&two, 100);
    CHECK(!divided(&two));
    CHECK_STARTED(0);
    fake_no_memory(false);
    CHECK(divided(&two));
    fake_no_memory(true);
    llm_port_parallel_end(&two);
    CHECK_STARTED(0);
    fake_no_memory(false);
    fake_move(0); // as on a chip without a radio
    llm_port_parallel(&two, 2);
    CHECK(divided(&two));
    llm_port_parallel_end(&two);
    fake_move(1);
}
#endif

// ---------------------------------------------------------------------------- two callers at once

static void *model_thread(void *parallel) {
    for (int i = 0; i < 10; i++) {
        divide(parallel, N_RUNS / 10);
    }
    return NULL;
}

static void check_two_callers(void) {
    llm_parallel_t a, b;
    llm_port_parallel(&a, 2);
    llm_port_parallel(&b, llm_port_cores() < 3 ? 2 : 3);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, model_thread, &b) == 0);
    model_thread(&a);
    llm_port_parallel_end(&a); // while the other computes
    pthread_join(thread, NULL);
    llm_port_parallel_end(&b);
    CHECK_STARTED(0);
}

// ---------------------------------------------------------------------------- a signal that jumps away

#if LLM_PORT_POSIX
static sigjmp_buf landing;
static uint32_t n_inside; // shares begun and not ended

static void on_alarm(int signal) {
    (void)signal;
    siglongjmp(landing, 1);
}

static void slow_share(void *argument, uint32_t core) {
    (void)argument;
    (void)core;
    __atomic_add_fetch(&n_inside, 1, __ATOMIC_SEQ_CST);
    for (volatile int i = 0; i < 20000; i++) {
    }
    __atomic_sub_fetch(&n_inside, 1, __ATOMIC_SEQ_CST);
}

// As MicroPython's handler of Ctrl-C.
static void check_signals(void) {
    llm_parallel_t two;
    llm_port_parallel(&two, 2);
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    for (volatile int i = 0; i < 200; i++) {
        if (sigsetjmp(landing, 1) == 0) {
            const struct itimerval soon = {.it_value = {.tv_usec = 100 + 37 * i % 900}};
            setitimer(ITIMER_REAL, &soon, NULL);
            for (;;) {
                two.run(&two, slow_share, NULL);
            }
        }
        CHECK(__atomic_load_n(&n_inside, __ATOMIC_SEQ_CST) == 0);
        divide(&two, 3);
    }
    llm_port_parallel_end(&two);
    CHECK_STARTED(0);
}
#endif

// ---------------------------------------------------------------------------- the same bits

// `size` bytes, aligned as an image and the RAM of a model must be.
static void *allocate(size_t size) {
    void *memory;
    CHECK(posix_memalign(&memory, 64, size) == 0);
    return memory;
}

static void *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    void *data = allocate(*size);
    CHECK(fread(data, 1, *size, file) == *size);
    fclose(file);
    return data;
}

static uint32_t n_divided; // products, of the model below

static void run_counted(const llm_parallel_t *parallel, void (*work)(void *argument, uint32_t core), void *argument) {
    llm_parallel_t real;
    llm_port_parallel(&real, parallel->n_cores);
    n_divided++;
    real.run(&real, work, argument);
    llm_port_parallel_end(&real);
}

// CRC32C of the logits of 40 tokens, one by one and 20 as a prompt; every product is divided if there are cores for it.
static uint32_t crc_of_logits(const llm_image_t *image, uint32_t cores) {
    llm_error_t error;
    llm_plan_t plan;
    llm_parallel_t held; // so that tasks live on between two products
    llm_port_parallel(&held, cores);
    llm_options_t options = {.context = 64, .parallel = {.n_cores = cores, .min_macs = 0, .run = run_counted}};
    CHECK(llm_plan(image, &options, &plan, &error) == LLM_OK);
    void *ram = allocate(plan.total);
    llm_model_t model;
    CHECK(llm_model_init(&model, image, &options, ram, plan.total, &error) == LLM_OK);
    uint32_t tokens[40];
    for (uint32_t i = 0; i < 40; i++) {
        tokens[i] = (i * 37 + 5) % image->config.vocab_size;
    }
    uint32_t crc = 0;
    for (uint32_t i = 0; i < 40; i += i == 20 ? 20 : 1) {
        CHECK(llm_model_eval(&model, tokens + i, i == 20 ? 20 : 1, &error) == LLM_OK);
        crc = llm_crc32c(crc, model.logits, image->config.vocab_size * sizeof(float));
    }
    free(ram);
    llm_port_parallel_end(&held);
    return crc;
}

static void check_bits(const char *path) {
    size_t size;
    void *data = read_file(path, &size);
    llm_image_t image;
    llm_error_t error;
    CHECK(llm_image_open(&image, data, size, true, &error) == LLM_OK);
    for (uint32_t cores = 1; cores <= MAX_CORES && cores <= llm_port_cores(); cores++) {
        n_divided = 0;
        printf("%u %08x\n", (unsigned)cores, (unsigned)crc_of_logits(&image, cores));
        CHECK(cores == 1 ? n_divided == 0 : n_divided > 100);
    }
    free(data);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    pthread_t thread; // with the first, a sanitizer starts its own
    CHECK(pthread_create(&thread, NULL, nothing, NULL) == 0);
    pthread_join(thread, NULL);
#if LLM_PORT_POSIX
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL); // until the joined one is gone
    n_before = n_threads();
#endif
    check_life();
    check_two_callers();
#if LLM_PORT_ESP32
    check_no_memory();
#else
    check_signals();
#endif
    check_bits(argv[1]);
    return 0;
}
