// One HTTP/2 connection over a unix socket: moves bytes between the socket and a session of nghttp2. Main thread only.
// Source: https://nghttp2.org/documentation/
#pragma once
#include <nghttp2/nghttp2.h>

#include "loop.h"

struct connection {
	struct source source;
	struct loop *loop;
	nghttp2_session *session;
	const uint8_t *unsent; // what the session has produced and the socket has not taken
	size_t unsent_length;
	// Called when the connection is broken or complete, never from within a call of this module other than that of
	// the loop. It calls connection_finish().
	void (*ended)(struct connection *connection);
};

// Takes the socket, also on failure. `session` belongs to the connection from now on. Returns 0 or -errno.
int connection_init(struct connection *connection, struct loop *loop, int socket, nghttp2_session *session,
		    void (*ended)(struct connection *connection));
void connection_finish(struct connection *connection);
// Makes the loop send what the session has to send.
void connection_wake(struct connection *connection);
