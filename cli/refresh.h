// Shows a listing repeatedly: on a terminal in the same place, otherwise one after another. One thread.
#pragma once
#include <stdio.h>

#include "virgate/status.h"

// Writes the listing to `out`. If it returns VG_NO_DAEMON, the last error is shown instead, and the function is called
// again after the interval.
typedef enum vg_status (*refresh_draw)(void *user, FILE *out);

// Draws the listing every `seconds`, and when the size of the terminal changes. ^C ends the program with EXIT_OK.
// Returns EXIT_FAILED if the output cannot be written, or if drawing fails (after a message).
int refresh_until_interrupted(const char *title, unsigned seconds, refresh_draw draw, void *user);
