// Moves the memory of handles, as a part of pager/move.h. The gate is closed and a context current. Only files of
// src/pager include this header.
#pragma once
#include "pager/copy.h"
#include "pager/handle.h"

// Takes rooms in the host for all memory that can leave and has no room yet.
void pager_handles_take_host(void);
// Gives back the rooms of handles whose memory is on the device and has no copy in the host. Call it after every move
// to the host, even after a failed one.
void pager_handles_give_host(void);
// Prepares the move to the host: marks all blocks as changed, and stores the access rights of the mappings, with which
// the memory is mapped again later.
CUresult pager_handles_begin(void);
// Hashes the memory that is on the device and can leave (pager/blocks.h).
CUresult pager_handles_hash(void);
// Begins the copies to the host. When the last copy of a handle ends, its device memory is released.
CUresult pager_handles_begin_out(struct pager_copies *copies);
// Calls a function with each room whose bytes pager_handles_bring() copies, in the order of its copies.
void pager_handles_list(void (*list)(const struct pager_room *room, size_t size));
// Creates device memory for all handles that have none.
CUresult pager_handles_create(void);
uint64_t pager_handles_count_absent(void);
uint64_t pager_handles_count_away(void);
// Creates the missing device memory and begins the copies to the device. Maps the memory at the program's addresses,
// and if necessary at an address of the pager's own for the copies. Returns the result of creating and
// mapping. If a copy cannot begin, stops, and stores the copy's result in *ret_copied.
CUresult pager_handles_bring(struct pager_copies *copies, CUresult *ret_copied);
// Unmaps and releases the device memory of handles whose bytes are in the host.
CUresult pager_handles_release(void);
// Notes that the bytes of all handles are on the device.
CUresult pager_handles_note_return(void);
