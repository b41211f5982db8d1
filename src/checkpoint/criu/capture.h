// What CRIU writes through its --stream, on its way into an image: zero pages are left out, the rest is compressed,
// summed and written by threads while CRIU goes on. One thread calls.
#pragma once
#include "checkpoint/image/image.h"

struct capture;
// `folder`: where CRIU's socket goes, see streamer.h. SYSTEM, NO_MEMORY.
enum vg_status capture_begin(struct image_draft *draft, unsigned tree, const char *folder,
			     struct capture **ret_capture);
// The same for a file that is there already: it is read to its end.
void capture_file(struct capture *capture, const char *name, int consume_fd);
// CRIU has ended. Adds what came to the draft. SYSTEM: something could not be written; NO_MEMORY. Takes the capture.
enum vg_status capture_end(struct capture *capture);
