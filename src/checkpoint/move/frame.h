// Frames, in which two machines exchange an image. The checksum of a frame covers its number, so the receiver detects a
// frame that is lost, repeated or moved. Little-endian. One thread.
#pragma once
#include "checkpoint/process/phase.h"

#include <stdbool.h>

enum frame_type {
	// from the sender of an image
	FRAME_DESCRIPTION = 1, // a part of the text of virgate.json; an empty frame ends the text
	FRAME_FILE,	       // the name of the next file
	FRAME_DATA,	       // an offset in the file, 8 bytes, and the bytes from there on
	FRAME_END,	       // number of files, 8 bytes
	FRAME_GO,	       // the processes have ended on the sender: make them
	// from the receiver
	FRAME_READY,   // the image is complete, verified, and fits
	FRAME_RUNNING, // struct frame_running
	FRAME_REFUSED, // a status, 4 bytes, and the reason; the receiver has removed everything
	// from the sender, in version 2 of the stream
	FRAME_PACK,   // before the image: the number of the next pack, 4 bytes; the data frames after it are the pack's
	FRAME_PACKED, // no more packs: the image begins
	// After the packs of a precopy round: a part of the index of these packs. An empty frame ends the index.
	FRAME_INDEX,
	FRAME_LINK, // instead of a file: the number of the pack that is this file, 4 bytes, and its name
};

struct frame_running {
	int32_t pid;
	uint32_t processes, cuda_processes;
};

enum { FRAME_MOST = (1 << 20) + 8 };

struct frames {
	int in, out;		// may be the same; -1: not used
	struct phase *phase;	// ticks during a wait; may be NULL
	bool may_stop;		// stop if the phase wants to
	uint64_t patience;	// ns of further waiting after the phase wants to stop
	uint64_t deadline;	// ns, at which a wait ends; 0: none
	uint64_t read, written; // frames so far
	struct packs *packs;	// that were transferred before the image (stream.h); NULL: none
	unsigned char *payload; // of the last frame that was read
	uint32_t payload_bytes;
};
// Frees the memory of the frames. A zeroed struct with descriptors needs no initialization.
void frames_finish(struct frames *frames);

// Writes a frame of `head` followed by `body`. SYSTEM (ECONNRESET: the other side has closed the connection), STATE
// (stopped).
enum vg_status frame_write(struct frames *frames, enum frame_type type, const void *head, size_t head_bytes,
			   const void *body, size_t body_bytes);
// Reads a frame. As above, and INTEGRITY (not such a frame, or a damaged one), NO_MEMORY.
enum vg_status frame_read(struct frames *frames, enum frame_type *ret_type);

// The same for bytes outside frames.
enum vg_status frames_write_plain(struct frames *frames, const void *data, size_t bytes);
enum vg_status frames_read_plain(struct frames *frames, void *data, size_t bytes);
// Checks that nothing follows the last frame. INTEGRITY.
enum vg_status frames_read_end(struct frames *frames);
