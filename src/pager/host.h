// Pinned host memory for chunks that leave the device. It lies in a file without a name (pager/host_file.h), or is
// anonymous where the tmpfs has no room, so it goes with the process. It grows by pieces, which stay pinned. A chunk
// has a room in it, which may extend over several pieces. So rooms of all sizes fit without gaps, if they are taken in
// the same order as before. The pager's thread, or threads inside the gate.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pager/driver.h"

// Limits the host memory, in bytes.
void pager_host_limit(uint64_t bytes);
enum pager_host_step {
	PAGER_HOST_READY, // the bytes are there
	PAGER_HOST_MORE,  // call again
	PAGER_HOST_SHORT, // *ret_missing more bytes are needed: the host does not have them, or the limit is lower
};
// Pins one piece more towards `bytes`, if `kept` bytes of the host's memory are left when all of it is pinned. The
// context is current. Other threads that use this memory wait meanwhile.
enum pager_host_step pager_host_grow(uint64_t bytes, uint64_t kept, uint64_t *ret_missing);
// Returns whether `bytes` are pinned and free.
bool pager_host_has(uint64_t bytes);
// Takes a room of a multiple of 2 MiB from what is pinned and free. Returns 0 if it does not fit.
uint64_t pager_host_take(size_t size);
void pager_host_give(uint64_t room, size_t size);
// Returns where a room begins, or a byte within one. A copy may take *ret_size bytes from there, and not more.
void *pager_host_at(uint64_t room, size_t *ret_size);
// Notes that a context was destroyed, and with it what was pinned in it. NULL: nothing is pinned any more.
void pager_host_forget(CUcontext context);

// While the process is dumped and restored, its file has a name, and the process does not map it. The gate is closed.

struct pager_file;

// Unpins and unmaps the memory in the file, and frees its unused rooms. Anonymous memory stays. *ret_file says where
// the file is; its number is 0 if nothing lies in a file. A context is current if any memory is pinned. Returns 0, or
// -errno after which all is as before.
int pager_host_park(struct pager_file *ret_file);
// Maps the memory again. It is not pinned yet: pager_host_grow() does that. `file` may be another one than before.
// Returns 0, or -errno after which all is as before: -ENOENT, -EINVAL and -EPERM if there is no such file.
int pager_host_unpark(const struct pager_file *file);
// Unpins and releases all memory if none of it is in use, and removes the name of the file. A context is current if any
// memory is pinned.
void pager_host_release(void);
// Unpins one piece if no memory is in use, and releases all memory after the last piece. Returns whether pieces are
// left. A context is current if any memory is pinned.
bool pager_host_release_step(void);
// Returns how much there is, in use or not.
uint64_t pager_host_bytes(void);
// Returns whether the file has a name.
bool pager_host_is_named(void);
// Closes the file in a forked child, which does not have the memory.
void pager_host_reset(void);
