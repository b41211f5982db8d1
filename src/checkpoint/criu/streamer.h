// The other end of CRIU's --stream: CRIU connects to a socket in its images' folder, names one file after the other,
// and hands over one end of a pipe for each. A thread of its own answers.
#pragma once
#include <stdbool.h>

struct streamer;
struct streamer_events {
	bool serves; // CRIU reads; else it writes
	// CRIU reads: whether there is such a file.
	bool (*has)(void *user, const char *name);
	// The pipe's other end is CRIU's. Called on the streamer's thread, which waits for nobody.
	void (*file)(void *user, const char *name, int pipe_consume_fd);
	// The conversation broke off: -errno, or -EPROTO.
	void (*broken)(void *user, int error);
	void *user;
};
// `folder`: of a short name (sockets' are), and nobody else's. 0 or -errno.
int streamer_start(const char *folder, const struct streamer_events *events, struct streamer **ret_streamer);
// CRIU has ended: returns when all that it asked for was heard.
void streamer_stop(struct streamer *streamer);
