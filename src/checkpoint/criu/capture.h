// Receives the files that CRIU writes through --stream, and writes them into an image. While CRIU writes, threads skip
// zero pages, and compress the other pages and compute checksums. For one thread.
#pragma once
#include "checkpoint/image/image.h"

struct capture;
// Starts to listen for CRIU on a socket in `directory`, see streamer.h. SYSTEM, NO_MEMORY.
enum vg_status capture_begin(struct image_draft *draft, unsigned tree, const char *directory,
			     struct capture **ret_capture);
// Copies a file into the image that CRIU has written to its directory, and has not sent through the socket. Starts a
// thread, which reads the descriptor to the end of the file.
void capture_file(struct capture *capture, const char *name, int consume_fd);
// Ends the capture after CRIU has exited: adds the received files to the draft, and frees `capture`. SYSTEM (a write
// failed), NO_MEMORY.
enum vg_status capture_end(struct capture *capture);
