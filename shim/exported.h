// Keeps physical memory charged that was exported as descriptors, until the last copy of its descriptors is closed in
// any process. Any thread.
#pragma once
#include "shim/physical.h"

// Watches a descriptor of the memory; takes over the caller's reference. Memory that cannot be watched stays charged
// until the process ends. Returns true if this process had no exported memory before.
bool shim_exported_watch(int descriptor, struct shim_physical *physical, uint64_t bytes);
// Drops the references to exported memory whose descriptors are all closed.
void shim_exported_refund_closed(void);
// Returns the epoll instance that watches the descriptors, for the daemon, which outlives this process. -1: none.
int shim_exported_watcher(void);
