// Writes the state that a later daemon takes over; load.h reads it. Main thread only.
#pragma once
#include <jansson.h>

#include "daemon/node.h"

enum { STATE_SCHEMA = 1 };

// Returns the contents of the state file: created vGPUs, and in a user's own daemon the measured overheads. NULL: no
// memory. The caller frees the text.
char *state_text(const struct node *node);
// Keeps the entry of a vGPU whose GPU is missing now, so that the entry stays in the state file. Takes a reference.
void state_keep_entry(json_t *entry);
// Writes ephemeral vGPUs and launchers into a file in the runtime directory. Neither they nor the file survive a
// reboot.
void state_save_runtime(struct node *node);
