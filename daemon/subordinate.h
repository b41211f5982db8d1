// Subordinate user ids (subuid(5)): their owner can act under each of them (newuidmap), so the daemon's limits count them
// as the owner. One thread.
#pragma once
#include <stdbool.h>
#include <sys/types.h>

struct node;

// Reads /etc/subuid in a thread, and again when it has changed: subordinate_refresh() looks for that once a second at
// most.
void subordinate_start(const struct node *node);
void subordinate_refresh(void);
bool subordinate_is_pending(void); // the first reading
// Whose id it is; `uid` itself where it is nobody's. The ids of one of root's ranges are those of the range's first id,
// because programs under them do not have root's rights.
uid_t subordinate_owner(uid_t uid);
