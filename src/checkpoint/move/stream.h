// An image as a stream of bytes: a header, then frames: the text of virgate.json, the name and the data of each file
// without its holes, and an end. In version 2 packs of device memory are sent first, in precopy rounds. A file of the
// image that is such a pack is not sent again. The receiver trusts nothing before it has verified it. One thread.
#pragma once
#include "checkpoint/image/device_index.h"
#include "checkpoint/image/image.h"
#include "checkpoint/move/frame.h"

struct stream_header {
	bool answers;	     // the sender waits for FRAME_READY and sends FRAME_GO
	bool same_processes; // the receiver sees the sender's processes: same machine, same pid namespace
	bool has_packs;	     // packs are sent before the image
};

// Packs that were transferred, by number. The sender keeps each file open, so that its inode number is not reused. The
// receiver has them as files in a draft.
struct packs {
	int *fds; // a sender's; -1: closed, since no round uses the pack any more
	size_t count;
	const struct image_draft *store; // a receiver's
	// A receiver's: called after the packs of a precopy round, with the index of the memory that they hold. May be
	// NULL.
	enum vg_status (*round)(void *user, const void *index, size_t length, struct phase *phase);
	void *user;
	uint64_t bytes;
	bool *is_checked; // a receiver's, by number: all blocks of the pack were read and have their checksums
	bool *is_trusted; // a receiver's, by the number of the image's pack: a link to a pack that was checked
};
// Sends a file as the next pack, unless it was sent already. Takes the descriptor. Counts its bytes in the phase of the
// frames. *ret_number: the number of the pack. *ret_bytes: how many bytes were sent. SYSTEM, NO_MEMORY, and as
// frame_write().
enum vg_status stream_send_pack(struct frames *frames, struct packs *packs, int consume_fd, uint32_t *ret_number,
				uint64_t *ret_bytes);
enum vg_status stream_send_index(struct frames *frames, const void *index, size_t length);
enum vg_status stream_end_packs(struct frames *frames);
// Receives all packs into the store's directory. INTEGRITY, INSUFFICIENT (the disk would lose its reserve, with need
// and have), SYSTEM, NO_MEMORY, and as `round`.
enum vg_status stream_receive_packs(struct frames *frames, struct packs *packs);
// Closes the sender's files that the index does not use; `index` has the numbers of the packs as they were sent. Such a
// file is sent again if it is needed after all. NO_MEMORY.
enum vg_status packs_close_unused(struct packs *packs, const struct device_index *index);
void packs_finish(struct packs *packs);

enum vg_status stream_begin(struct frames *frames, bool answers, bool has_packs);
// Sends the header, unless `begun`, and the image. Counts its bytes in the phase of the frames. Errors as
// frame_write(), and as image_read() before anything was sent.
enum vg_status stream_send(struct frames *frames, const struct image_dir *dir, bool begun);

// Reads the header. PROTOCOL: not the stream of an image. UNSUPPORTED: a later version.
enum vg_status stream_accept(struct frames *frames, struct stream_header *ret_header);
// Receives an image into a draft and verifies it, so that it is ready for image_publish(). The caller frees
// *ret_description with json_decref(). INTEGRITY, INSUFFICIENT (the disk, with need and have), EXISTS, SYSTEM.
enum vg_status stream_receive(struct frames *frames, struct image_draft *draft, json_t **ret_description);

// ---- this room only ----
enum vg_status stream_failed(const struct frames *frames, int error, const char *path, const char *name);
