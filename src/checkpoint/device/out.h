// Writes the host memory of processes into the packs and the index of an image, with threads of its own, while the
// caller does something else. One thread calls.
#pragma once
#include "checkpoint/device/base.h"
#include "checkpoint/image/image.h"

struct device_source {
	pid_t pid;
	int fd;		// of a file
	uint64_t bytes; // of it; a multiple of DEVICE_BLOCK
	bool is_loose;	// the file may change while it is read. The digests then differ, and the round fails.
};

struct device_out;
// Begins. Takes the sources' descriptors, also on failure. The draft and the bases must outlive it. NO_MEMORY, SYSTEM.
enum vg_status device_out_start(struct image_draft *draft, const struct device_source *consume_sources, size_t count,
				const struct device_bases *bases, struct device_out **ret_out);
struct device_written {
	uint64_t bytes;	       // of all memory
	uint64_t zero_bytes;   // of these, in blocks of zeroes
	uint64_t linked_bytes; // of the image's packs that it has in common with the bases
	uint64_t copied_bytes; // of the packs that were copied, since the base is on another file system
	uint64_t new_bytes;    // of the packs that were written
};
// Waits for the end, and adds the files to the draft and a summary to `description`. Takes `out`. SYSTEM (the disk),
// NO_MEMORY, STATE (the phase wants to stop).
enum vg_status device_out_finish(struct device_out *out, json_t *description, struct phase *phase,
				 struct device_written *ret_written);
// The same without an image: what was written becomes a base for others.
enum vg_status device_out_finish_base(struct device_out *out, struct phase *phase, struct device_written *ret_written,
				      struct device_base *ret_base);
// Ends it as soon as possible. Takes `out`, which may be NULL.
void device_out_abort(struct device_out *out);
