// See FreeRTOS.h.
#ifndef FREERTOS_TASK_H
#define FREERTOS_TASK_H

#include "FreeRTOS.h"

typedef struct tskTaskControlBlock *TaskHandle_t;
typedef void (*TaskFunction_t)(void *);

// `usStackDepth` is in bytes. `pvTaskCode` must not return. pdPASS, or an error if there is no memory.
BaseType_t xTaskCreatePinnedToCore(TaskFunction_t pvTaskCode, const char *const pcName, const uint32_t usStackDepth, void *const pvParameters,
    UBaseType_t uxPriority, TaskHandle_t *const pvCreatedTask, const BaseType_t xCoreID);

// NULL: the caller, which does not return from it.
void vTaskDelete(TaskHandle_t xTaskToDelete);

// NULL: the caller's.
UBaseType_t uxTaskPriorityGet(const TaskHandle_t xTask);

// Adds 1 to the task's notification value.
BaseType_t xTaskNotifyGive(TaskHandle_t xTaskToNotify);

// Waits until the caller's notification value is not 0 and returns it; sets it to 0 (pdTRUE) or takes 1 off (pdFALSE).
uint32_t ulTaskNotifyTake(BaseType_t xClearCountOnExit, TickType_t xTicksToWait);

#endif
