// Shows a listing again and again: in place on a terminal, one below the other elsewhere. One thread.
#pragma once
#include <stdio.h>

#include "virgate/status.h"

// Writes the listing. VG_NO_DAEMON: the last error says why, and the next turn tries again.
typedef enum vg_status (*refresh_draw)(void *user, FILE *out);

// Draws every `seconds`, and at once when the terminal's size changes. ^C ends the program with EXIT_OK. Returns
// EXIT_FAILED when the output cannot be written, or after a message when drawing failed otherwise.
int refresh_until_interrupted(const char *title, unsigned seconds, refresh_draw draw, void *user);
