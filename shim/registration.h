// Messages of this process to the daemon. Any thread.
#pragma once
#include <stdbool.h>

#include "wire/wire.h"

// Sends the registration of this process in the vGPU `vgpu`, and does not wait for an answer. If the message is lost,
// the daemon finds the process later, in the ledger.
void shim_register(const char *vgpu);
// Registers, and waits until the daemon has measured this process, for at most 20 ms. Returns false if it has not.
bool shim_register_and_measure(const char *vgpu);
// Asks the daemon to make this process a guest of the vGPU that is charged for the shared allocation `key`. Returns
// false if no daemon answers, or none knows the key.
bool shim_guest_join(const char *vgpu, uint64_t key, struct vg_wire_guest *ret_guest);
// Tells the daemon that this process no longer has the shared allocation `number` of the vGPU `of` open.
void shim_guest_leave(const char *vgpu, uint32_t number, const char *of);

// Registers the function that returns the descriptor to be sent with each registration, or -1. Call it once.
void shim_registration_set_descriptor(int (*get)(void));
