// Shows a listing repeatedly: in place on a terminal, else one below the other. One thread.
#pragma once
#include <stdio.h>

#include "virgate/status.h"

// Writes the listing. After VG_NO_DAEMON the last error is shown, and the next interval tries again.
typedef enum vg_status (*refresh_draw)(void *user, FILE *out);

// Draws every `seconds`, and when the size of the terminal changes. ^C ends the program with EXIT_OK. Returns
// EXIT_FAILED if the output cannot be written, or after a message if drawing fails.
int refresh_until_interrupted(const char *title, unsigned seconds, refresh_draw draw, void *user);
