// Runs the daemon's loop: periodic work, and one event at a time. Main thread only.
#pragma once
#include "daemon/node.h"

// Runs until the daemon ends.
void loop_run(struct node *node);
// Does the work that is due, and handles at most one event. Waits for an event for at most `longest_ms`; if that is -1,
// until the next work is due. Returns 1 after an event, 0 without one, -1 if the daemon ends.
int loop_step(struct node *node, int longest_ms);
