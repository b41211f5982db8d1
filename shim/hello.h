// What a tenant says to the daemon. Any thread.
#pragma once
#include <stdbool.h>

#include "wire/wire.h"

// It has started, or should be measured. Without `wait` fire and forget: the daemon finds new tenants in the ledger as
// well, only later. With it, true once the daemon has looked at this process; at most 20 ms.
bool shim_hello(const char *vgpu, bool wait);
// Holds what another vGPU is charged for. False: nobody knows it, or there is no daemon that would.
bool shim_guest_join(const char *vgpu, uint64_t key, struct vg_wire_guest *ret_guest);
// The share `share` of the vGPU `of` was given back.
void shim_guest_leave(const char *vgpu, uint32_t share, const char *of);
