// The server for CRIU's --stream: CRIU connects to a socket in the directory of its images, names one file after the
// other, and passes one end of a pipe for each. A thread of its own answers.
#pragma once
#include <stdbool.h>

struct streamer;
struct streamer_events {
	bool serves; // CRIU reads; false: it writes
	// CRIU reads: returns whether the file exists
	bool (*has)(void *user, const char *name);
	// Receives our end of the pipe. Runs on the streamer's thread, and must not wait.
	void (*file)(void *user, const char *name, int pipe_consume_fd);
	// The connection failed: -errno, or -EPROTO.
	void (*broken)(void *user, int error);
	void *user;
};
// `directory` has a short path, since it is part of a socket's address, and belongs to this user. Returns 0 or -errno.
int streamer_start(const char *directory, const struct streamer_events *events, struct streamer **ret_streamer);
// Call it after CRIU has exited. Waits until all its requests were handled.
void streamer_stop(struct streamer *streamer);
