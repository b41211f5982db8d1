// Manages the memory of a virtual GPU. Other directories use this header. Any thread may call the functions.
#pragma once
#include <stdbool.h>

#include "virgate/memory_space.h"
#include "virgate/stream.h"

// Functions of the owner of a space. The space calls `charge` before it creates pages, and `refund` after it has freed
// pages. It calls these functions without holding its lock. An owner that sets `charge` must log the blocks that are
// left when the space is closed.
struct space_budget {
	void *user;
	// If this fails with INSUFFICIENT, the error has the needed and the available bytes.
	enum vg_status (*charge)(void *user, uint64_t bytes);
	void (*refund)(void *user, uint64_t bytes);
	// Makes `stream` wait for all work of the virtual GPU that was submitted so far. If `stream` is NULL, waits for
	// all work in the context.
	enum vg_status (*fence)(void *user, struct vg_stream *stream);
};

// Creates a space like vg_memory_space_create(). Copies `budget`. If `budget` or its functions are NULL, only the
// space's own limit applies.
enum vg_status space_create(struct vg_context *context, const struct vg_memory_space_options *options,
			    const struct space_budget *budget, struct vg_memory_space **ret_space);
// Sets the limit, and frees empty pages if necessary. Fails with INVALID (0, or above the device's memory), LIMIT (more
// is charged) or DRIVER.
enum vg_status space_set_limit(struct vg_memory_space *space, uint64_t limit);
// Checks that all bytes are in one block and the address is valid. Fails with BOUNDS or STALE; the error's text calls
// the address `what`. Makes no driver call.
enum vg_status space_check(struct vg_memory_space *space, vg_address address, size_t size, const char *what);

// ---- to the host and back --------------------------------------------------------------------------------

// Tells the caller how many bytes of a move were copied. Returns false to stop the move, which is then undone.
typedef bool space_progress_fn(void *user, uint64_t bytes, uint64_t total);
// Waits for the submitted work of the virtual GPU and for other calls, then moves all pages to the host. The addresses
// and the charge stay. Submit no more work until space_move_in() has succeeded. Fails with STATE (the pages are in the
// host already, or the callback stopped the move), NO_MEMORY (of the host), CLOSED or DRIVER. After a failure all pages
// are on the device; if the device has no more room for them, they stay in the host and space_is_out() returns true.
enum vg_status space_move_out(struct vg_memory_space *space, space_progress_fn *progress, void *user);
// Moves all pages back to the device. Fails with STATE (the pages are not in the host, or the callback stopped the
// move), INSUFFICIENT (the device has no room), CLOSED or DRIVER. After a failure all pages are in the host.
enum vg_status space_move_in(struct vg_memory_space *space, space_progress_fn *progress, void *user);
// Returns whether the pages are in the host or are being moved. *ret_bytes: number of bytes in the host.
bool space_is_out(struct vg_memory_space *space, uint64_t *ret_bytes);
