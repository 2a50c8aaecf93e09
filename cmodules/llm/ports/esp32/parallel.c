// The second core of an ESP32 or ESP32-S3 through a FreeRTOS task, which all models share.
#include "../ports.h"
#if LLM_PORT_ESP32
#include "freertos/FreeRTOS.h"
#include "freertos/semphr.h"
#include "freertos/task.h"

// To wake a task on the other core and to be woken by it is taken to cost 20 us: 4,800 cycles at 240 MHz for two interrupts between
// the cores and two switches of task. 65,536 multiplications take 19,700 cycles on one core (int4, 0.30 each): from there on the
// second saves twice what it costs.
#define MIN_MACS 65536

// Bytes. A product needs less than 1 KB; interrupts save the registers of FPU and vector unit here.
#define STACK_SIZE 3072

static struct {
    uint32_t n_users; // models that may use the task
    TaskHandle_t task; // NULL until it is started
    SemaphoreHandle_t busy; // mutex, held by who computes or ends the task
    SemaphoreHandle_t done; // given by the task; a notification would be mixed up with those that MicroPython's own task waits for
    StaticSemaphore_t busy_memory;
    StaticSemaphore_t done_memory;
    void (*work)(void *argument, uint32_t core); // what the task is to do; NULL: end
    void *argument;
} other;

static void task_main(void *unused) {
    (void)unused;
    bool end;
    do {
        ulTaskNotifyTake(pdTRUE, portMAX_DELAY);
        end = other.work == NULL;
        if (!end) {
            other.work(other.argument, 1);
        }
        xSemaphoreGive(other.done);
    } while (!end);
    vTaskDelete(NULL);
}

// Hands `work` to the task and, while it works, does the caller's share.
static void run_both(void (*work)(void *argument, uint32_t core), void *argument) {
    other.work = work;
    other.argument = argument;
    xTaskNotifyGive(other.task);
    if (work != NULL) {
        work(argument, 0);
    }
    xSemaphoreTake(other.done, portMAX_DELAY);
}

// On the core that the caller is not on, at the caller's priority: below the radio's tasks, which may interrupt it at any time.
static bool start_task(void) {
    if (other.task == NULL
        && xTaskCreatePinnedToCore(task_main, "llm", STACK_SIZE, NULL, uxTaskPriorityGet(NULL), &other.task, 1 - xPortGetCoreID()) != pdPASS) {
        other.task = NULL; // no memory for it
    }
    return other.task != NULL;
}

static void run(const llm_parallel_t *parallel, void (*work)(void *argument, uint32_t core), void *argument) {
    (void)parallel; // of two cores
    bool mine = xSemaphoreTake(other.busy, 0) == pdTRUE;
    if (mine && start_task()) {
        run_both(work, argument);
    } else {
        work(argument, 0);
        work(argument, 1);
    }
    if (mine) {
        xSemaphoreGive(other.busy);
    }
}

uint32_t llm_port_cores(void) {
#if CONFIG_FREERTOS_UNICORE
    return 1;
#else
    return 2;
#endif
}

void llm_port_parallel(llm_parallel_t *parallel, uint32_t cores) {
    *parallel = (llm_parallel_t){
        .n_cores = cores != 0 ? cores : llm_port_cores(), .min_macs = MIN_MACS, .run = run};
    if (parallel->n_cores > 1) {
        if (other.busy == NULL) {
            other.busy = xSemaphoreCreateMutexStatic(&other.busy_memory);
            other.done = xSemaphoreCreateBinaryStatic(&other.done_memory);
        }
        other.n_users++;
    }
}

void llm_port_parallel_end(llm_parallel_t *parallel) {
    if (parallel->n_cores > 1) {
        xSemaphoreTake(other.busy, portMAX_DELAY);
        if (--other.n_users == 0 && other.task != NULL) {
            run_both(NULL, NULL);
            other.task = NULL;
        }
        xSemaphoreGive(other.busy);
        parallel->n_cores = 1;
    }
}
#endif
