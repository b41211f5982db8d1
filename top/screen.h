// Shows a canvas on the terminal, and reads keys, by means of curses. One thread.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "top/canvas.h"

// Prepares the terminal for curses. Call screen_close() at the end.
void screen_open(bool has_colour);
void screen_close(void);
void screen_size(int *ret_rows, int *ret_columns);
// Shows a canvas that has the size of the screen. Sends only the changes to the terminal.
void screen_show(const struct canvas *canvas);
// Makes the next screen_show() send the whole screen to the terminal again, for ^L.
void screen_repaint(void);
// Returns the next key that the user has pressed (keys.h); KEYS_NONE: none. SCREEN_RESIZED: the size of the screen has
// changed. SCREEN_REPAINT: the caller must call screen_repaint().
enum { SCREEN_RESIZED = 0x120000, SCREEN_REPAINT };
uint32_t screen_key(void);
