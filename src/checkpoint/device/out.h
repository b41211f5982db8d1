// Writes the device memory of processes, which their pagers have moved to host memory, into the packs and the index of
// an image. Threads of this module do the work while the caller continues. For one thread.
#pragma once
#include "checkpoint/device/base.h"
#include "checkpoint/image/image.h"

struct device_source {
	pid_t pid;
	int fd;		// descriptor of the file with the memory
	uint64_t bytes; // size of the memory; a multiple of DEVICE_BLOCK
	// True: the file may change while it is read. If a block changes before it is written, device_out_finish() and
	// device_out_finish_base() fail with STATE.
	bool is_loose;
};

// Called in a thread of this module when all packs are written, before the functions below that wait for the threads
// return. Not called after an error. The packs have the numbers 0 to `count` - 1.
struct device_packed {
	void (*call)(void *user, const struct image_draft *draft, unsigned count);
	void *user;
};

struct device_out;
// Starts the threads. Takes ownership of the sources' descriptors, also on failure. `packed` may be NULL. It, the draft
// and the bases must outlive `out`. NO_MEMORY, SYSTEM.
enum vg_status device_out_start(struct image_draft *draft, const struct device_source *consume_sources, size_t count,
				const struct device_bases *bases, const struct device_packed *packed,
				struct device_out **ret_out);
// Returns how many bytes of the memory are in the packs so far; at most all of them. There are no bases.
uint64_t device_out_stored(struct device_out *out);
struct device_written {
	uint64_t bytes;	       // size of all memory
	uint64_t zero_bytes;   // bytes of the memory in blocks of zeroes
	uint64_t linked_bytes; // size of the packs that the image has in common with the bases
	uint64_t copied_bytes; // size of the packs that were copied, because the base is on another file system
	uint64_t new_bytes;    // size of the packs that were written
};
// Waits for the threads. Adds the files to the draft, and a summary to `description`. Frees `out`. SYSTEM (a file could
// not be read or written), NO_MEMORY, STATE (the progress function asked to stop, or the file of a loose source has
// changed).
enum vg_status device_out_finish(struct device_out *out, json_t *description, struct phase *phase,
				 struct device_written *ret_written);
// Waits for the threads like device_out_finish(), but makes no image: the written packs become a base for other images.
enum vg_status device_out_finish_base(struct device_out *out, struct phase *phase, struct device_written *ret_written,
				      struct device_base *ret_base);
// Stops the threads as soon as possible, and frees `out`, which may be NULL.
void device_out_abort(struct device_out *out);
