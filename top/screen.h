// The screen, by curses. One thread.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "top/canvas.h"

// Takes the terminal over, until screen_close().
void screen_open(bool has_colour);
void screen_close(void);
void screen_size(int *ret_rows, int *ret_columns);
// Shows a canvas of the screen's size. Only what has changed is sent.
void screen_show(const struct canvas *canvas);
// Sends all of the screen again, after ^L.
void screen_repaint(void);
// Returns the next key, see keys.h; KEYS_NONE: no key waits. SCREEN_RESIZED: the screen has another size.
enum { SCREEN_RESIZED = 0x120000, SCREEN_REPAINT };
uint32_t screen_key(void);
