// A virtual GPU's memory, for other rooms. Any thread.
#pragma once
#include <stdbool.h>

#include "virgate/memory_space.h"
#include "virgate/stream.h"

// Where pages are charged before they are created. Called without locks of the space. The owner of a budget with
// `charge` logs blocks that were left at the end.
struct space_budget {
	void *user;
	enum vg_status (*charge)(void *user, uint64_t bytes); // INSUFFICIENT with need and have
	void (*refund)(void *user, uint64_t bytes);
	// Makes `stream` wait for all work of the virtual GPU that was dispatched so far; NULL: waits for the whole
	// context.
	enum vg_status (*fence)(void *user, struct vg_stream *stream);
};

// Like vg_memory_space_create(). `budget` is copied. It or its functions may be NULL: then only the space's own limit
// applies.
enum vg_status space_create(struct vg_context *context, const struct vg_memory_space_options *options,
			    const struct space_budget *budget, struct vg_memory_space **ret_space);
// Frees empty pages if necessary. INVALID (0, or above the device's memory), LIMIT (more is charged), DRIVER.
enum vg_status space_set_limit(struct vg_memory_space *space, uint64_t limit);
// Checks that all bytes are in one block with a valid address. BOUNDS and STALE name them `what`. No driver call.
enum vg_status space_check(struct vg_memory_space *space, vg_address address, size_t size, const char *what);

// ---- to the host and back --------------------------------------------------------------------------------

// Reports how many bytes of a move were copied. Returns false to stop the move, which is then undone.
typedef bool space_progress_fn(void *user, uint64_t bytes, uint64_t total);
// Waits for the dispatched work of the virtual GPU and for other calls, then moves all pages to the host. The addresses
// and the charge stay. No more work may be dispatched until space_move_in() has succeeded. STATE (it is out already, or
// the callback stopped the move), NO_MEMORY (of the host), CLOSED, DRIVER. After a failure all pages are on the device;
// if the device has no room for them any more, the space is out.
enum vg_status space_move_out(struct vg_memory_space *space, space_progress_fn *progress, void *user);
// Moves all pages back. STATE (it is not out, or the callback stopped the move), INSUFFICIENT (the device has no room),
// CLOSED, DRIVER. After a failure all pages are in the host.
enum vg_status space_move_in(struct vg_memory_space *space, space_progress_fn *progress, void *user);
// Returns whether the space is out, also during a move, and how many bytes are in the host.
bool space_is_out(struct vg_memory_space *space, uint64_t *ret_bytes);
