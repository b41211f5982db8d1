// Manages physical memory that the program creates with cuMemCreate() and maps where it likes (pager/mapping.h): at one
// address, at several, or nowhere. The driver's memory and its handle change with each move. So the program gets a
// number in place of the driver's handle. Callers are inside the gate (pager/gate.h), so that the pager moves nothing
// meanwhile.
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pager/driver.h"
#include "pager/room.h"

struct pager_mapping;

struct pager_handle {
	CUmemGenericAllocationHandle number; // the number that the program uses as its handle
	CUmemGenericAllocationHandle real;   // the driver's handle; 0: no memory on the device
	CUmemAllocationProp properties;
	size_t size;
	unsigned int references;    // number of handles that the program has
	unsigned int holders;	    // number of references, mappings and calls under way; at 0, the memory is released
	_Atomic unsigned int stays; // number of reasons to stay on the device; 0: the memory can leave
	struct pager_mapping *mappings;
	CUdeviceptr own_address; // where the pager has mapped the memory for a copy; 0: nowhere
	bool is_away;		 // true: the memory's bytes are in the host; the device memory, if any, is not valid
	size_t left;		 // number of chunks whose copy to the host has not ended
	size_t chunk_count;
	struct pager_room rooms[]; // one room for each chunk
};

// Returns whether a handle has the form of a number that pager_handle_create() gives, valid or not. The driver's
// handles are pointers or small numbers.
static inline bool pager_handle_is_ours(CUmemGenericAllocationHandle handle)
{
	return handle >> 62 == 1;
}

// Create and release memory like the driver's calls, with the same results. A release that fails changes nothing.
CUresult pager_handle_create(CUmemGenericAllocationHandle *ret_number, size_t size,
			     const CUmemAllocationProp *properties);
CUresult pager_handle_release(CUmemGenericAllocationHandle number);
// Finds the memory of a number, and makes the caller a holder of it until pager_handle_drop(), which accepts NULL.
// Returns NULL if the program has no such handle. If the driver fails to release the memory, pager_handle_drop()
// returns the driver's result, and the caller remains a holder.
struct pager_handle *pager_handle_hold(CUmemGenericAllocationHandle number);
CUresult pager_handle_drop(struct pager_handle *handle);
// Adds one more hold for the caller. The caller or a mapping must hold the memory already.
void pager_handle_hold_again(struct pager_handle *handle);
// Gives the program one more handle of this memory. The caller, which called pager_handle_hold(), is no longer a
// holder: the program's handle replaces it. Returns the handle's number.
CUmemGenericAllocationHandle pager_handle_hand_out(struct pager_handle *handle);
// Adds a reason to keep the memory on the device.
void pager_handle_keep_on_device(struct pager_handle *handle);
// Removes one reason that pager_handle_keep_on_device() added. Returns whether the memory can leave now.
bool pager_handle_let_leave(struct pager_handle *handle);
// Returns the bytes of all memory of handles that can leave. Any thread, at any time.
uint64_t pager_handle_bytes(void);
// Returns how many bytes that can leave have no room in the host. Only the pager's thread calls this.
uint64_t pager_handle_roomless(void);
// Gives back the rooms of memory that is on the device. Only the pager's thread calls this.
void pager_handle_forget_copies(void);

// Returns all handles. For the pager, with the gate closed; valid until the gate opens.
struct pager_handle **pager_handle_list(size_t *ret_count);
static inline bool pager_handle_can_leave(const struct pager_handle *handle)
{
	return atomic_load(&handle->stays) == 0;
}
