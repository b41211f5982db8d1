// Subordinate user ids (subuid(5)). Their owner can act under each of them (newuidmap), so the limits of the owner
// apply to them. Main thread only.
#pragma once
#include <stdbool.h>

struct node;

// Reads /etc/subuid in a thread, and gives user.h the owners.
void subordinate_start(const struct node *node);
// Reads the file again if it has changed; checks that once a second at most.
void subordinate_refresh(void);
// Returns whether the first reading is in progress.
bool subordinate_is_pending(void);
