// Descriptors of physical memory that this process has exported. Any thread.
#pragma once

// Refunds the memory whose last descriptor has been closed, in whatever process, and that nothing
// else keeps.
void shim_exports_settle(void);
// The epoll instance that watches them, for the daemon, which outlives us; -1: nothing was exported.
int shim_exports_descriptor(void);
