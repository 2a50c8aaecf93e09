// See FreeRTOS.h.
#ifndef FREERTOS_SEMPHR_H
#define FREERTOS_SEMPHR_H

#include "FreeRTOS.h"

typedef struct QueueDefinition *SemaphoreHandle_t;

// Memory of a semaphore, which the caller gives. ESP-IDF's is of about this size.
typedef struct {
    uint64_t memory[24];
} StaticSemaphore_t;

SemaphoreHandle_t xSemaphoreCreateMutexStatic(StaticSemaphore_t *pxMutexBuffer);
SemaphoreHandle_t xSemaphoreCreateBinaryStatic(StaticSemaphore_t *pxSemaphoreBuffer); // begins empty

// pdTRUE if it was taken within the time, 0: at once.
BaseType_t xSemaphoreTake(SemaphoreHandle_t xSemaphore, TickType_t xTicksToWait);

// pdTRUE, or pdFALSE if it was there already.
BaseType_t xSemaphoreGive(SemaphoreHandle_t xSemaphore);

#endif
