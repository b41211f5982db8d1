// Manages pinned host memory for chunks that leave the device. The memory lies in a file without a name in a tmpfs
// (pager/host_file.h), or is anonymous if the tmpfs has no space. Either way, the kernel frees the memory when the
// process ends. After a dump the file may have a name; then the daemon removes it. The memory grows in pieces, which
// stay pinned. A room is the place of one chunk in this memory, and may extend over several pieces. If rooms are always
// taken in the same order, they leave no gaps, whatever their sizes. Call these functions in the pager's thread, or
// inside the gate.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pager/driver.h"

// Sets the most host memory that may be used, in bytes.
void pager_host_limit(uint64_t bytes);
enum pager_host_step {
	PAGER_HOST_READY, // all requested bytes are pinned and free
	PAGER_HOST_MORE,  // one more piece was pinned, call again
	PAGER_HOST_SHORT, // nothing was pinned: the host's memory or the limit lacks *ret_missing bytes
};
// Pins one more piece. Call it again until `bytes` are pinned and free. Fails if, after that, the host would have less
// than `kept` bytes of available memory. The context is current. Meanwhile, other threads that use this memory wait.
enum pager_host_step pager_host_grow(uint64_t bytes, uint64_t kept, uint64_t *ret_missing);
// Returns whether `bytes` bytes of this memory are pinned and free.
bool pager_host_has(uint64_t bytes);
// Takes a room of a multiple of 2 MiB from the memory that is pinned and free. Returns 0 if the room does not fit.
uint64_t pager_host_take(size_t size);
void pager_host_give(uint64_t room, size_t size);
// Returns the address of a byte in a room. A copy may take at most *ret_size bytes from there. Returns NULL if the byte
// lies in the file of a parked process. It is then at *ret_offset in the file.
void *pager_host_at(uint64_t room, size_t *ret_size, uint64_t *ret_offset);
// Notes that a context was destroyed, so memory that was pinned in it is no longer pinned. NULL: no memory is pinned
// any more.
void pager_host_forget(CUcontext context);

// While the process is dumped and restored, its file has a name and the process does not map the file. The gate is
// closed.

struct pager_file;

// Gives the file a name and frees its unused pages. From then on another process can read the memory in the file, until
// the memory is used again. *ret_file identifies the file; its number is 0 if no memory lies in a file. A context is
// current if any memory is pinned. Returns 0, or -errno; then pieces may be unpinned, which pager_host_grow() pins.
int pager_host_finish_file(struct pager_file *ret_file);
// Unpins and unmaps the memory in the file. Call it after pager_host_finish_file(). Anonymous memory stays mapped. A
// context is current if any memory is pinned. Returns 0, or -EIO if the driver fails; then all memory is still mapped,
// and pieces may be unpinned.
int pager_host_park(void);
// Maps the memory in `file` again, which may be another file than before. The memory is not pinned: pager_host_grow()
// pins it. Returns 0, or -errno, after which nothing has changed: -ENOENT, -EINVAL and -EPERM if there is no such file.
int pager_host_unpark(const struct pager_file *file);
// Forgets the file of a parked process: its bytes have returned to the device through a window, and no room is in use.
void pager_host_forget_file(void);
// Unpins and releases all memory, if none of it is in use, and removes the name of the file. A context is current if
// any memory is pinned.
void pager_host_release(void);
// If no memory is in use, unpins one piece, and releases all memory after the last piece. Returns whether pieces are
// left. A context is current if any memory is pinned.
bool pager_host_release_step(void);
// Returns how much host memory is allocated, in use or not.
uint64_t pager_host_bytes(void);
// Returns whether the file was given a name.
bool pager_host_is_named(void);
// Returns whether the file was given a name and cannot be opened by it any more.
bool pager_host_has_lost_name(void);
// Closes the file in a forked child, which does not have the memory.
void pager_host_reset(void);
