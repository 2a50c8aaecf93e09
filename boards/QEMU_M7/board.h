// What board.c has for the board's other files.
#ifndef BOARD_H
#define BOARD_H

#include <stdbool.h>
#include <stdint.h>

// Waits until an interrupt, or for `timeout_ms` at most (for ever if negative).
void board_wait(int32_t timeout_ms);

// The second UART. `baud` is what the other end listens at, too.
void board_uart_init(uint32_t baud);

// Whether a byte waits to be read; then the next one.
bool board_uart_any(void);
uint8_t board_uart_read(void);

// Sends a byte at the rate that its divider gives at the clock of now.
void board_uart_write(uint8_t c);

#endif
