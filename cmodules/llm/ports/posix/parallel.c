// Other cores through POSIX threads, which all models share.
#define _POSIX_C_SOURCE 200809L

#include "../ports.h"
#if LLM_PORT_POSIX
#include <pthread.h>
#include <signal.h>

// Where threads run is the operating system's affair: a model may have more of them than there are cores, at a loss.
#define MAX_CORES 16

// A desk multiplies 2^21 times in 70 us on one core. To wake a thread and to wait for it takes 10 to 25 us of the 35 that the
// second core saves, when nothing else runs (AVX2, Linux 6).
#define MIN_MACS (1u << 21)

static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER; // held by who computes, or ends the threads
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of `team`
static pthread_cond_t begin = PTHREAD_COND_INITIALIZER; // team.round has changed
static pthread_cond_t done = PTHREAD_COND_INITIALIZER; // team.n_working has become 0
static pthread_once_t once = PTHREAD_ONCE_INIT; // for watch_forks

static struct {
    uint32_t n_users; // models that may use the threads
    uint32_t n_threads; // that run, thread i is core i + 1
    pthread_t threads[MAX_CORES - 1];
    uint32_t round; // products begun, wraps
    uint32_t n_cores; // that work on this one; 0: the threads end
    uint32_t n_working; // threads that still do
    void (*work)(void *argument, uint32_t core);
    void *argument;
} team;

// Signals wait until nothing is shared any more: a handler that jumps away (MicroPython's for Ctrl-C) would leave the threads
// at work. They inherit the mask, so that they never see a signal.
static void block_signals(sigset_t *before) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, before);
}

static void restore_signals(const sigset_t *before) {
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

// A fork has none of the threads, and whoever held a lock may be gone too.
static void forked(void) {
    pthread_mutex_init(&busy, NULL);
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&begin, NULL);
    pthread_cond_init(&done, NULL);
    team.n_threads = 0;
}

static void watch_forks(void) {
    pthread_atfork(NULL, NULL, forked);
}

static void *thread_main(void *argument) {
    uint32_t core = (uint32_t)(uintptr_t)argument;
    pthread_mutex_lock(&lock);
    uint32_t round = team.round - 1; // it was started for this one
    for (;;) {
        while (team.round == round) {
            pthread_cond_wait(&begin, &lock);
        }
        round = team.round;
        if (team.n_cores == 0) {
            break;
        }
        if (core < team.n_cores) {
            pthread_mutex_unlock(&lock);
            team.work(team.argument, core);
            pthread_mutex_lock(&lock);
            if (--team.n_working == 0) {
                pthread_cond_signal(&done);
            }
        }
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void run(const llm_parallel_t *parallel, void (*work)(void *argument, uint32_t core), void *argument) {
    sigset_t signals;
    block_signals(&signals);
    uint32_t n_others = 0; // threads that work
    if (pthread_mutex_trylock(&busy) == 0) {
        pthread_mutex_lock(&lock);
        team.round++;
        while (team.n_threads + 1 < parallel->n_cores
            && pthread_create(&team.threads[team.n_threads], NULL, thread_main, (void *)(uintptr_t)(team.n_threads + 1)) == 0) {
            team.n_threads++;
        }
        n_others = team.n_threads + 1 < parallel->n_cores ? team.n_threads : parallel->n_cores - 1;
        team.n_cores = n_others + 1;
        team.n_working = n_others;
        team.work = work;
        team.argument = argument;
        pthread_cond_broadcast(&begin);
        pthread_mutex_unlock(&lock);
        work(argument, 0);
        for (uint32_t core = n_others + 1; core < parallel->n_cores; core++) {
            work(argument, core);
        }
        pthread_mutex_lock(&lock);
        while (team.n_working > 0) {
            pthread_cond_wait(&done, &lock);
        }
        pthread_mutex_unlock(&lock);
        pthread_mutex_unlock(&busy);
    } else {
        // Another model has them.
        for (uint32_t core = 0; core < parallel->n_cores; core++) {
            work(argument, core);
        }
    }
    restore_signals(&signals);
}

uint32_t llm_port_cores(void) {
    return MAX_CORES;
}

void llm_port_parallel(llm_parallel_t *parallel, uint32_t cores) {
    *parallel = (llm_parallel_t){
        .n_cores = cores > 1 ? cores : 1, .min_macs = MIN_MACS, .run = run};
    if (parallel->n_cores > 1) {
        sigset_t signals;
        block_signals(&signals);
        pthread_once(&once, watch_forks);
        pthread_mutex_lock(&lock);
        team.n_users++;
        pthread_mutex_unlock(&lock);
        restore_signals(&signals);
    }
}

static void end_threads(void) {
    pthread_mutex_lock(&lock);
    uint32_t n_threads = team.n_threads;
    team.round++;
    team.n_cores = 0;
    team.n_threads = 0;
    pthread_cond_broadcast(&begin);
    pthread_mutex_unlock(&lock);
    for (uint32_t i = 0; i < n_threads; i++) {
        pthread_join(team.threads[i], NULL);
    }
}

void llm_port_parallel_end(llm_parallel_t *parallel) {
    if (parallel->n_cores > 1) {
        sigset_t signals;
        block_signals(&signals);
        pthread_mutex_lock(&busy);
        pthread_mutex_lock(&lock);
        bool last = --team.n_users == 0;
        pthread_mutex_unlock(&lock);
        if (last) {
            end_threads();
        }
        pthread_mutex_unlock(&busy);
        restore_signals(&signals);
        parallel->n_cores = 1;
    }
}
#endif
