// Tells the daemon that a tenant has started, or that it should be measured. Any thread.
#pragma once
#include <stdbool.h>

// Without `wait` fire and forget: the daemon finds new tenants in the ledger as well, only
// later. With it, true once the daemon has looked at this process; at most 20 ms.
bool shim_hello(const char *vgpu, bool wait);
