// Sends messages from this process to the daemon. Any thread.
#pragma once
#include <stdbool.h>

#include "wire/wire.h"

// Registers this process with the daemon as a tenant of `vgpu`, without waiting for an answer. If the message is lost,
// the daemon finds the process later, in the ledger.
void shim_register(const char *vgpu);
// Registers this process, and waits at most 20 ms until the daemon has measured its memory. Returns false if the daemon
// has not measured it by then.
bool shim_register_and_measure(const char *vgpu);
// Asks the daemon for permission to open the shared allocation `key`, which is charged to another vGPU. The daemon
// makes this process a guest of that vGPU. Returns false if no daemon answers, or if the daemon does not know the key.
bool shim_guest_join(const char *vgpu, uint64_t key, struct vg_wire_guest *ret_guest);
// Tells the daemon that this process no longer has the shared allocation `number` of the vGPU `of` open.
void shim_guest_leave(const char *vgpu, uint32_t number, const char *of);

// Registers a function that returns the descriptor to send with each registration, or -1. Call it once.
void shim_registration_set_descriptor(int (*get)(void));
