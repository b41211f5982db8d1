// Sends and receives frames, in which two machines exchange an image. The checksum of a frame includes its number, so
// the receiver detects a frame that is lost, repeated or moved. Little-endian. One thread at a time.
#pragma once
#include "checkpoint/process/phase.h"

#include <stdbool.h>

enum frame_type {
	// Sent by the sender of an image:
	FRAME_DESCRIPTION = 1, // contains a part of the text of virgate.json; an empty frame ends the text
	FRAME_FILE,	       // contains the name of the next file
	FRAME_DATA,	       // contains an offset in the file (8 bytes), and the bytes from there on
	FRAME_END,	       // ends the image; contains the number of its files (8 bytes)
	FRAME_GO,	       // asks the receiver to restore the processes, which have ended on the sender
	// Sent by the receiver:
	FRAME_READY,   // says that the image is complete, verified, and fits the machine
	FRAME_RUNNING, // says that the processes run; contains a struct frame_running
	FRAME_REFUSED, // contains a status (4 bytes) and the reason; the receiver has removed everything
	// Sent by the sender, in version 2 of the stream:
	// Begins a pack, and contains its number (4 bytes). Frames with the pack's data follow. All packs come before
	// the image.
	FRAME_PACK,
	FRAME_PACKED, // says that no more packs follow and the image begins
	// Contains a part of the index of a precopy round, which tells the pack of each block of device memory. Comes
	// after the packs of the round. An empty frame ends the index.
	FRAME_INDEX,
	// Stands for a file of the image that was sent before, as a pack. Contains the pack's number (4 bytes) and the
	// file's name.
	FRAME_LINK,
};

struct frame_running {
	int32_t pid;
	uint32_t processes, cuda_processes;
};

enum { FRAME_MOST = (1 << 20) + 8 };

struct frames {
	int in, out;		// descriptors, which may be the same; -1: not used
	struct phase *phase;	// phase_tick() is called during a wait; may be NULL
	bool may_stop;		// a wait may end early if the progress function asked to stop
	uint64_t patience;	// how long to wait, in ns, after the progress function asked to stop
	uint64_t deadline;	// time in ns at which a wait ends; 0: none
	uint64_t read, written; // number of frames so far
	struct packs *packs;	// packs that were transferred before the image (stream.h); NULL: none
	unsigned char *payload; // payload of the last frame that was read
	uint32_t payload_bytes;
};
// Frees the memory of the frames. To initialize a struct frames, set it to zero, and then set `in` and `out`.
void frames_finish(struct frames *frames);

// Writes a frame with the payload `head` and then `body`. SYSTEM (ECONNRESET: the other side has closed the
// connection), STATE (the progress function asked to stop).
enum vg_status frame_write(struct frames *frames, enum frame_type type, const void *head, size_t head_bytes,
			   const void *body, size_t body_bytes);
// Reads a frame. Returns the errors of frame_write(), INTEGRITY (the bytes are no frame, or the frame is damaged), and
// NO_MEMORY.
enum vg_status frame_read(struct frames *frames, enum frame_type *ret_type);

// Write and read bytes outside frames. Errors: see frame_write() and frame_read().
enum vg_status frames_write_plain(struct frames *frames, const void *data, size_t bytes);
enum vg_status frames_read_plain(struct frames *frames, void *data, size_t bytes);
// Checks that no bytes follow the last frame. INTEGRITY.
enum vg_status frames_read_end(struct frames *frames);
