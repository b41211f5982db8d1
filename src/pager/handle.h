// Physical memory that the program makes with cuMemCreate and maps where it likes (pager/mapping.h): at one address, at
// several, or nowhere. The program has a number in place of the driver's handle, because the driver's memory and its
// handle come and go. Callers are inside the gate (pager/gate.h), so that the pager moves nothing meanwhile.
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pager/driver.h"
#include "pager/room.h"

struct pager_mapping;

struct pager_handle {
	CUmemGenericAllocationHandle number; // the program's
	CUmemGenericAllocationHandle real;   // the driver's; 0: it has no memory on the device
	CUmemAllocationProp properties;
	size_t size;
	unsigned int references; // handles that the program has
	unsigned int holders;	 // references + mappings + calls under way; the memory goes with the last
	_Atomic unsigned int stays; // calls since which it stays on the device; 0: it can leave
	struct pager_mapping *mappings;
	CUdeviceptr window; // where the pager has it mapped for a copy; 0: nowhere
	bool is_away;	    // its bytes are in the host; what is on the device does not count
	size_t left;	    // chunks of a move to the host that have not ended
	size_t chunk_count;
	struct pager_room rooms[]; // of its chunks
};

// Returns whether a handle is one of these numbers, valid or not. The driver's handles are pointers or small numbers.
static inline bool pager_handle_is_ours(CUmemGenericAllocationHandle handle)
{
	return handle >> 62 == 1;
}

// These two do what the driver's calls do, with its results. A release that fails changes nothing.
CUresult pager_handle_create(CUmemGenericAllocationHandle *ret_number, size_t size,
			     const CUmemAllocationProp *properties);
CUresult pager_handle_release(CUmemGenericAllocationHandle number);
// Keeps the memory until pager_handle_drop(), which takes NULL. Returns NULL if the program has no such handle. If the
// driver does not release the memory, pager_handle_drop() returns its result, and the hold stays.
struct pager_handle *pager_handle_hold(CUmemGenericAllocationHandle number);
CUresult pager_handle_drop(struct pager_handle *handle);
// Adds a holder. The caller or a mapping must hold the memory already.
void pager_handle_hold_again(struct pager_handle *handle);
// Turns the caller's hold into another handle of the program. Returns its number.
CUmemGenericAllocationHandle pager_handle_hand_out(struct pager_handle *handle);
// Keeps the memory on the device from now on.
void pager_handle_keep_on_device(struct pager_handle *handle);
// Undoes one call of that. Returns whether the memory can leave again.
bool pager_handle_let_leave(struct pager_handle *handle);
// Returns the bytes of all memory that can leave. Any thread, at any time.
uint64_t pager_handle_bytes(void);
// Returns those of these bytes that have no room in the host. The pager's thread.
uint64_t pager_handle_roomless(void);
// Gives back the rooms of memory that is on the device. The pager's thread.
void pager_handle_forget_copies(void);

// For the pager, with the gate closed. Valid until the gate opens.
struct pager_handle **pager_handle_list(size_t *ret_count);
static inline bool pager_handle_can_leave(const struct pager_handle *handle)
{
	return atomic_load(&handle->stays) == 0;
}
