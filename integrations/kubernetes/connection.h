// Moves bytes between a unix socket and a session of nghttp2, for one HTTP/2 connection. Main thread only. Source:
// https://nghttp2.org/documentation/
#pragma once
#include <nghttp2/nghttp2.h>

#include "loop.h"

struct connection {
	struct source source;
	struct loop *loop;
	nghttp2_session *session;
	const uint8_t *unsent; // bytes from the session that the socket has not accepted yet
	size_t unsent_length;
	// Called when the connection has failed or is complete. It must call connection_finish(). Only the loop calls
	// it; the functions below never do.
	void (*ended)(struct connection *connection);
};

// Takes over the socket, and closes it on failure. On success, also takes over `session`. Returns 0 or -errno.
int connection_init(struct connection *connection, struct loop *loop, int socket, nghttp2_session *session,
		    void (*ended)(struct connection *connection));
void connection_finish(struct connection *connection);
// Makes the loop send what the session has produced since.
void connection_wake(struct connection *connection);
