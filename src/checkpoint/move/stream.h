// Sends and receives an image as a stream of bytes: a header, then frames. The frames have the text of virgate.json,
// the name and data of each file without its holes, and an end. In version 2, packs of device memory are sent before
// the image: those of precopy rounds, and then those of the image itself. Files of the image that are such packs are
// not sent again. The receiver trusts nothing before it has verified it. One thread at a time.
#pragma once
#include "checkpoint/image/device_index.h"
#include "checkpoint/image/image.h"
#include "checkpoint/move/frame.h"

struct stream_header {
	bool answers;	     // the sender waits for FRAME_READY and sends FRAME_GO
	bool same_processes; // the receiver sees the sender's processes: same kernel and pid namespace
	bool has_packs;	     // packs are sent before the image
};

// The packs that were transferred, by number. The sender recognises a pack that it has sent by the inode number of the
// file. It keeps the file open, so that no other file gets that number. The receiver stores the packs as files in a
// draft, the directory of an unfinished image.
struct packs {
	int *fds; // for the sender: descriptor of each pack's file; -1: closed, because no round uses the pack any more
	size_t count;
	const struct image_draft *store; // for the receiver: the draft in which the packs are stored
	// Receiver: called after the packs of a precopy round, with the index of the round. May be NULL.
	enum vg_status (*round)(void *user, const void *index, size_t length, struct phase *phase);
	void *user;
	uint64_t bytes;
	// For the receiver, indexed by pack: true if all blocks of the pack were read and have their checksums.
	bool *is_checked;
	// For the receiver, indexed by the pack's number in the image: true if `is_checked` was true for the received
	// pack of which the image's file is a hard link.
	bool *is_trusted;
};
// Sends a file as the next pack, unless it was sent already. Takes ownership of the descriptor. Adds the sent bytes to
// frames->phase. *ret_number: number of the pack. *ret_bytes: size of the pack; 0: it was sent before. SYSTEM,
// NO_MEMORY, and the errors of frame_write().
enum vg_status stream_send_pack(struct frames *frames, struct packs *packs, int consume_fd, uint32_t *ret_number,
				uint64_t *ret_bytes);
enum vg_status stream_send_index(struct frames *frames, const void *index, size_t length);
enum vg_status stream_end_packs(struct frames *frames);
// Receives all packs into the directory of packs->store. Keeps a part of the disk free. INTEGRITY, INSUFFICIENT (the
// disk; the error tells the bytes needed and the bytes free), SYSTEM, NO_MEMORY, and the errors of packs->round().
enum vg_status stream_receive_packs(struct frames *frames, struct packs *packs);
// Closes the sender's files of packs that the index does not use. `index` contains the numbers with which the packs
// were sent. If a closed file is needed after all, it is sent again. NO_MEMORY.
enum vg_status packs_close_unused(struct packs *packs, const struct device_index *index);
void packs_finish(struct packs *packs);

enum vg_status stream_begin(struct frames *frames, bool answers, bool has_packs);
// Sends the header, unless it was sent before (`begun`), and then the image. Adds the sent bytes to frames->phase.
// Returns the errors of frame_write(). Returns the errors of image_read() before it sends anything.
enum vg_status stream_send(struct frames *frames, const struct image_dir *dir, bool begun);

// Reads the header. PROTOCOL: not the stream of an image. UNSUPPORTED: a later version.
enum vg_status stream_accept(struct frames *frames, struct stream_header *ret_header);
// Receives an image into a draft and verifies it, so that it is ready for image_publish(). The caller frees
// *ret_description with json_decref(). INTEGRITY, INSUFFICIENT (the disk has too little room; the error tells how much
// is needed and free), EXISTS, SYSTEM.
enum vg_status stream_receive(struct frames *frames, struct image_draft *draft, json_t **ret_description);

// ---- this directory only ----
enum vg_status stream_failed(const struct frames *frames, int error, const char *path, const char *name);
