// Tells the daemon that a tenant has started. Any thread.
#pragma once

// Waits 20 ms at most; failure does not matter: the daemon finds new tenants in the ledger
// as well, only later.
void shim_hello(const char *vgpu);
