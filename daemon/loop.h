// The loop: periodic work, and one event at a time. Main thread only.
#pragma once
#include "daemon/node.h"

// Runs until the daemon ends.
void loop_run(struct node *node);
// Does what is due, and handles one event; waits at most `longest_ms` for it, -1: until something is due. Returns 1
// after an event, 0 without one, -1 if the daemon ends.
int loop_step(struct node *node, int longest_ms);
