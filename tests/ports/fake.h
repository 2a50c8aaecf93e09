// What check_parallel.c sees of the FreeRTOS in fake.c.
#ifndef FAKE_H
#define FAKE_H

#include <stdbool.h>
#include <stdint.h>

// Tasks that were created and have not deleted themselves.
uint32_t fake_n_tasks(void);

// Whether xTaskCreatePinnedToCore finds no memory from now on.
void fake_no_memory(bool none);

// Moves the caller, which is no task, to a core. It starts on core 1, where MicroPython runs on a chip with a radio.
void fake_move(int core);

#endif
