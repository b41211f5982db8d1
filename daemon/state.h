// Writes the state that survives the daemon; load.h reads it. Main thread only.
#pragma once
#include <jansson.h>

#include "daemon/node.h"

enum { STATE_SCHEMA = 1 };

// Returns the contents of the state file: created vGPUs, and a user's own overheads. NULL: no memory. The caller frees
// it.
char *state_text(const struct node *node);
// Keeps the entry of a vGPU whose GPU is missing now, so that it stays in the state file. Takes a reference.
void state_keep_entry(json_t *entry);
// Writes ephemeral vGPUs and launchers into the runtime directory. They do not survive a reboot, and neither does this.
void state_save_runtime(struct node *node);
