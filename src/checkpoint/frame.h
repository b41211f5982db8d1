// What goes from one machine to the other, both ways: frames with a checksum each, that of the place in the row too, so
// that none is lost, doubled or moved. Little-endian. One thread.
#pragma once
#include "checkpoint/phase.h"

#include <stdbool.h>

enum frame_type {
	// whoever sends an image
	FRAME_DESCRIPTION = 1, // a piece of virgate.json's text; an empty one is behind the last
	FRAME_FILE,	       // the next file's name
	FRAME_DATA,	       // where in the file, 8 bytes, and what stands there
	FRAME_END,	       // how many files there were, 8 bytes
	FRAME_GO,	       // the processes have ended here: they are yours
	// whoever takes it
	FRAME_READY,   // all of it is here, and fits
	FRAME_RUNNING, // struct frame_running
	FRAME_REFUSED, // a status, 4 bytes, and why: nothing of it is left there
	// whoever sends an image, in version 2 of the stream
	FRAME_PACK,   // before the image: a pack comes, its number 4 bytes; data without a file's name is its own
	FRAME_PACKED, // no more packs: the image begins
	FRAME_INDEX,  // behind the packs of a round: a piece of an index, whose packs are these; an empty one is behind the last
	FRAME_LINK,   // in place of a file: the number of the pack that it is, 4 bytes, and its name
};

struct frame_running {
	int32_t pid;
	uint32_t processes, cuda_processes;
};

enum { FRAME_MOST = (1 << 20) + 8 };

struct frames {
	int in, out; // may be the same, or -1: that way there is nothing to go
	const char *function;
	struct phase *phase;	// ticks while it waits; NULL: nobody looks
	bool heed;		// a wish to stop
	uint64_t patience;	// ns that it waits on after such a wish
	uint64_t deadline;	// ns: nobody waits longer; 0: however long
	uint64_t read, written; // frames so far
	struct packs *packs;	// that went over before the image (stream.h); NULL: none
	unsigned char *payload; // of the last frame that was read
	uint32_t payload_bytes;
};
// No memory yet; a zeroed struct with descriptors will do. Gives back what the frames took.
void frames_finish(struct frames *frames);

// `head` and `body` follow each other in the frame. SYSTEM (ECONNRESET: the other side has closed it), STATE (stopped).
enum vg_status frame_write(struct frames *frames, enum frame_type type, const void *head, size_t head_bytes,
			   const void *body, size_t body_bytes);
// As above; INTEGRITY: it is none of these frames, or damaged; NO_MEMORY.
enum vg_status frame_read(struct frames *frames, enum frame_type *ret_type);

// The same without a frame.
enum vg_status frames_write_plain(struct frames *frames, const void *data, size_t bytes);
enum vg_status frames_read_plain(struct frames *frames, void *data, size_t bytes);
// INTEGRITY: something comes behind the last.
enum vg_status frames_read_end(struct frames *frames);
