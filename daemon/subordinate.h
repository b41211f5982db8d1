// Finds the owners of subordinate user ids (subuid(5)). The owner can act under each of these ids (newuidmap), so the
// owner's limits apply to them. Main thread only.
#pragma once
#include <stdbool.h>

struct node;

// Reads /etc/subuid in a thread, and then tells user.h the owners.
void subordinate_start(const struct node *node);
// Reads /etc/subuid again if it has changed. Checks that at most once a second.
void subordinate_refresh(void);
// Returns whether /etc/subuid is being read for the first time, so that no owner is known yet.
bool subordinate_is_pending(void);
