// An image as a stream of bytes: a header, then frames: virgate.json's text, each file's name with what stands in it,
// its holes left out, and an end. What comes in is taken for hostile until all of it was verified. One thread.
#pragma once
#include "checkpoint/frame.h"
#include "checkpoint/image.h"

struct stream_header {
	bool answers;	     // the sender waits for FRAME_READY, and says FRAME_GO
	bool same_processes; // the receiver sees the sender's processes: same machine, same pid namespace
};

enum vg_status stream_begin(struct frames *frames, bool answers);
// All of the image, after the beginning unless that was sent already. As frame_write(), and as image_read(): then
// nothing was written. Its bytes are counted in the frames' phase.
enum vg_status stream_send(struct frames *frames, const struct image_dir *dir, bool begun);

// PROTOCOL: this is no image's stream. UNSUPPORTED: of a later version.
enum vg_status stream_accept(struct frames *frames, struct stream_header *ret_header);
// Into a draft, up to the end; verified then, and ready for image_publish(). *ret_description is to be given back with
// json_decref(). INTEGRITY, INSUFFICIENT (the disk, with need and have), EXISTS, SYSTEM.
enum vg_status stream_receive(struct frames *frames, struct image_draft *draft, json_t **ret_description);

// ---- this room only ----
enum vg_status stream_failed(const struct frames *frames, int error, const char *path, const char *name);
