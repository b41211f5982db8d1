// Reads the state that an earlier daemon left (state.h), and takes over its vGPUs. Main thread only.
#pragma once
#include "daemon/node.h"

void load_state(struct node *node);
