// Keeps which GPUs are drained: no new vGPUs and programs may use them. Main thread only.
#pragma once
#include <jansson.h>

#include "daemon/node.h"

// Returns the drained GPUs as a JSON array for the state file, including GPUs that are not here now.
json_t *drain_write(const struct node *node);
// Reads the array from the state file.
void drain_read(struct node *node, const json_t *array);
