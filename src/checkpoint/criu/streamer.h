// Implements the server for CRIU's option --stream. CRIU connects to a socket in the directory of its images. For each
// file, CRIU sends the file's name and one end of a pipe. The streamer has its own thread, which answers CRIU.
#pragma once
#include <stdbool.h>

struct streamer;
struct streamer_events {
	bool serves; // true: CRIU reads files; false: CRIU writes files
	// Returns whether the file exists. Called only if CRIU reads files.
	bool (*has)(void *user, const char *name);
	// Receives this process's end of the pipe for a file. Runs on the streamer's thread, and must not wait.
	void (*file)(void *user, const char *name, int pipe_consume_fd);
	// Called if the connection failed, with -errno or -EPROTO.
	void (*broken)(void *user, int error);
	void *user;
};
// Starts the server. `directory` must belong to this user, and have a short path, since the path is part of a socket's
// address. Returns 0 or -errno.
int streamer_start(const char *directory, const struct streamer_events *events, struct streamer **ret_streamer);
// Stops the server after CRIU has exited. Waits until all requests of CRIU were handled.
void streamer_stop(struct streamer *streamer);
