// A stand-in for ESP-IDF's FreeRTOS: what ports/esp32 uses of it, as its documentation declares it. fake.c does it with threads.
#ifndef FREERTOS_H
#define FREERTOS_H

#include <stdbool.h>
#include <stdint.h>

typedef int BaseType_t;
typedef unsigned int UBaseType_t;
typedef uint32_t TickType_t;

#define pdFALSE ((BaseType_t)0)
#define pdTRUE ((BaseType_t)1)
#define pdPASS pdTRUE
#define portMAX_DELAY ((TickType_t)0xFFFFFFFF)

// The core that the caller runs on.
BaseType_t xPortGetCoreID(void);

#endif
