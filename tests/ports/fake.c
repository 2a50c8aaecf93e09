// The FreeRTOS of freertos/*.h: a POSIX thread a task. What FreeRTOS forbids ends the program.
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "fake.h"
#include "freertos/FreeRTOS.h"
#include "freertos/semphr.h"
#include "freertos/task.h"

#define PRIORITY 1 // of the threads that are no tasks

struct tskTaskControlBlock {
    TaskFunction_t code;
    void *parameters;
    UBaseType_t priority;
    BaseType_t core;
    pthread_mutex_t lock;
    pthread_cond_t notified;
    uint32_t notifications;
};

struct QueueDefinition {
    pthread_mutex_t lock;
    pthread_cond_t given;
    bool mutex;
    bool there;
    pthread_t holder; // of a mutex that is not there
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of these
static uint32_t n_tasks;
static bool no_memory;

static __thread TaskHandle_t current; // NULL: a thread that is no task
static __thread BaseType_t core = 1; // of one that is none

static void forbid(bool forbidden, const char *what) {
    if (forbidden) {
        fprintf(stderr, "FreeRTOS: %s\n", what);
        abort();
    }
}

// Waits for `condition`; who waits for half a minute waits for ever.
static void wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 30;
    forbid(pthread_cond_timedwait(condition, mutex, &end) != 0, "deadlock");
}

uint32_t fake_n_tasks(void) {
    pthread_mutex_lock(&lock);
    uint32_t n = n_tasks;
    pthread_mutex_unlock(&lock);
    return n;
}

void fake_no_memory(bool none) {
    pthread_mutex_lock(&lock);
    no_memory = none;
    pthread_mutex_unlock(&lock);
}

void fake_move(int to) {
    core = to;
}

BaseType_t xPortGetCoreID(void) {
    return current != NULL ? current->core : core;
}

static void *task_main(void *argument) {
    current = argument;
    current->code(current->parameters);
    forbid(true, "a task returned");
    return NULL;
}

BaseType_t xTaskCreatePinnedToCore(TaskFunction_t pvTaskCode, const char *const pcName, const uint32_t usStackDepth, void *const pvParameters,
    UBaseType_t uxPriority, TaskHandle_t *const pvCreatedTask, const BaseType_t xCoreID) {
    forbid(pcName == NULL || usStackDepth < 1024 || usStackDepth > 8192, "a task without a name or a sensible stack");
    forbid(xCoreID != 0 && xCoreID != 1, "no such core");
    pthread_mutex_lock(&lock);
    bool fails = no_memory;
    n_tasks += !fails;
    pthread_mutex_unlock(&lock);
    if (fails) {
        return -1; // errCOULD_NOT_ALLOCATE_REQUIRED_MEMORY
    }
    TaskHandle_t task = calloc(1, sizeof(*task));
    task->code = pvTaskCode;
    task->parameters = pvParameters;
    task->priority = uxPriority;
    task->core = xCoreID;
    pthread_mutex_init(&task->lock, NULL);
    pthread_cond_init(&task->notified, NULL);
    *pvCreatedTask = task;
    pthread_t thread;
    forbid(pthread_create(&thread, NULL, task_main, task) != 0, "no thread");
    pthread_detach(thread);
    return pdPASS;
}

void vTaskDelete(TaskHandle_t xTaskToDelete) {
    forbid(xTaskToDelete != NULL || current == NULL, "this stand-in lets a task delete itself only");
    TaskHandle_t task = current;
    current = NULL;
    free(task);
    pthread_mutex_lock(&lock);
    n_tasks--;
    pthread_mutex_unlock(&lock);
    pthread_exit(NULL);
}

UBaseType_t uxTaskPriorityGet(const TaskHandle_t xTask) {
    return xTask != NULL ? xTask->priority : current != NULL ? current->priority
                                                             : PRIORITY;
}

BaseType_t xTaskNotifyGive(TaskHandle_t xTaskToNotify) {
    pthread_mutex_lock(&xTaskToNotify->lock);
    xTaskToNotify->notifications++;
    pthread_cond_signal(&xTaskToNotify->notified);
    pthread_mutex_unlock(&xTaskToNotify->lock);
    return pdPASS;
}

uint32_t ulTaskNotifyTake(BaseType_t xClearCountOnExit, TickType_t xTicksToWait) {
    forbid(current == NULL, "MicroPython's own task has its own use for notifications");
    forbid(xTicksToWait != portMAX_DELAY, "this stand-in waits for ever or not at all");
    pthread_mutex_lock(&current->lock);
    while (current->notifications == 0) {
        // Between two models for as long as it takes.
        pthread_cond_wait(&current->notified, &current->lock);
    }
    uint32_t value = current->notifications;
    current->notifications = xClearCountOnExit ? 0 : value - 1;
    pthread_mutex_unlock(&current->lock);
    return value;
}

static SemaphoreHandle_t create(StaticSemaphore_t *memory, bool mutex) {
    forbid(sizeof(struct QueueDefinition) > sizeof(*memory), "a semaphore is larger than its memory");
    SemaphoreHandle_t semaphore = (void *)memory;
    pthread_mutex_init(&semaphore->lock, NULL);
    pthread_cond_init(&semaphore->given, NULL);
    semaphore->mutex = mutex;
    semaphore->there = mutex;
    return semaphore;
}

SemaphoreHandle_t xSemaphoreCreateMutexStatic(StaticSemaphore_t *pxMutexBuffer) {
    return create(pxMutexBuffer, true);
}

SemaphoreHandle_t xSemaphoreCreateBinaryStatic(StaticSemaphore_t *pxSemaphoreBuffer) {
    return create(pxSemaphoreBuffer, false);
}

BaseType_t xSemaphoreTake(SemaphoreHandle_t xSemaphore, TickType_t xTicksToWait) {
    forbid(xTicksToWait != 0 && xTicksToWait != portMAX_DELAY, "this stand-in waits for ever or not at all");
    pthread_mutex_lock(&xSemaphore->lock);
    while (!xSemaphore->there && xTicksToWait != 0) {
        wait(&xSemaphore->given, &xSemaphore->lock);
    }
    bool taken = xSemaphore->there;
    if (taken) {
        xSemaphore->there = false;
        xSemaphore->holder = pthread_self();
    }
    pthread_mutex_unlock(&xSemaphore->lock);
    return taken ? pdTRUE : pdFALSE;
}

BaseType_t xSemaphoreGive(SemaphoreHandle_t xSemaphore) {
    pthread_mutex_lock(&xSemaphore->lock);
    forbid(xSemaphore->mutex && (xSemaphore->there || !pthread_equal(xSemaphore->holder, pthread_self())), "a mutex was given by who had not taken it");
    bool was_there = xSemaphore->there;
    xSemaphore->there = true;
    pthread_cond_signal(&xSemaphore->given);
    pthread_mutex_unlock(&xSemaphore->lock);
    return was_there ? pdFALSE : pdTRUE;
}
