// Starts and ends the daemon. Main thread only.
#pragma once
#include "daemon/node.h"

// Locks the directory, opens the GPUs, loads the state and listens. Returns 0, or -1 after a log line.
int start_node(struct node *node);
// Writes the state, and ends the threads and MPS servers.
void start_finish(struct node *node);
