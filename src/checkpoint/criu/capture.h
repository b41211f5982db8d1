// Receives the files that CRIU writes through --stream, and writes them into an image. Threads skip zero pages and
// compress and sum the others while CRIU goes on. One thread calls.
#pragma once
#include "checkpoint/image/image.h"

struct capture;
// Starts to listen for CRIU in `directory`, see streamer.h. SYSTEM, NO_MEMORY.
enum vg_status capture_begin(struct image_draft *draft, unsigned tree, const char *directory,
			     struct capture **ret_capture);
// Reads a file that exists already, to its end.
void capture_file(struct capture *capture, const char *name, int consume_fd);
// Call it after CRIU has exited. Adds the received files to the draft, and frees `capture`. SYSTEM (a write failed),
// NO_MEMORY.
enum vg_status capture_end(struct capture *capture);
