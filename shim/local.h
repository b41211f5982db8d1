// Notes kernels whose threads need more local memory than a new context has. At the first launch of such a kernel, the
// driver allocates that memory for every thread that the device can hold (shim/raise.h charges it). Any thread.
#pragma once
#include "shim/charge.h"

// True if the launch of a noted kernel may allocate local memory. While this is false, launches are not checked.
extern _Atomic bool shim_launch_watched;

// Bytes of local memory that a new context has for each thread. They are charged with the context.
static const uint64_t shim_local_initial = 1024;

// Notes how many bytes of local memory a thread of a function or kernel needs.
void shim_local_note(uint64_t function, uint64_t local);
// Notes a kernel that cannot be queried or loaded yet, because no context exists.
void shim_local_defer(CUkernel kernel);
// Notes that contexts were created (`change` is 1) or destroyed (-1), or that a context's stack limit changed (0).
void shim_local_note_contexts(int change);
// Notes for how much local memory a context is charged. If the process has no other context, and the charge is enough
// for all noted kernels, launches are not checked any more.
void shim_local_note_charge(uint64_t charged);

// Returns `bytes` times the number of threads that the device can hold at once; UINT64_MAX if that overflows.
uint64_t shim_for_every_thread(uint64_t bytes);
// Returns how many more bytes a context needs than a new one has, if its kernels use `each` bytes of local memory a
// thread.
uint64_t shim_local_beyond_initial(uint64_t each);
