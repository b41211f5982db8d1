// Runs a gRPC server on one unix socket. Accepts only peers that run as this process's user or as root. Main thread
// only.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"
#include "loop.h"

enum {
	SERVER_CONNECTIONS = 32,	 // at a time
	SERVER_STREAMS = 16,		 // streams of one connection at a time
	SERVER_MESSAGE_MOST = 256 << 10, // the most bytes of a request
	SERVER_REQUEST_MS = 10000,	 // time in which a request, and the first one of a connection, must be complete
	SERVER_PAUSE_MS = 1000,		 // how long no connections are accepted after too many files were open
};

struct server;
struct call; // one request, and its stream until that has ended

struct service {
	void *user;
	// Answers a request: calls call_send() or call_fail(), or keeps the call with call_keep() to answer it later.
	void (*answer)(void *user, struct call *call, const char *method, const uint8_t *message, size_t length);
	// Called when the stream of a call that was kept has ended. The call is invalid after that.
	void (*ended)(void *user, struct call *call);
};

// Listens at `path`, and replaces an existing file there. The caller keeps `service`. Returns 0 or -errno.
int server_create(struct loop *loop, const char *path, const struct service *service, struct server **ret_server);
// Removes the socket if it is still this server's. Accepts NULL.
void server_destroy(struct server *server);
// Returns whether the path still leads to this server.
bool server_is_reachable(const struct server *server);
// Ends requests that are not complete in time, and connections without requests. Accepts connections again after a
// pause. `now` is loop_now_ms(). Call it about every second.
void server_tick(struct server *server, uint64_t now);
// Returns whether the server accepts no connections for now, because there are too many open files or no memory.
bool server_is_paused(const struct server *server);

// Copies the message, sends it as the only answer, and so ends the call. If there is no memory, resets the stream.
void call_send(struct call *call, const uint8_t *message, size_t length);
// Ends a call with an error status instead of an answer.
void call_fail(struct call *call, enum rpc_status status, const char *text);
// Keeps a call open, so that call_update() can answer it several times. A newer answer replaces one that the peer has
// not read yet.
void call_keep(struct call *call);
void call_update(struct call *call, const uint8_t *message, size_t length);
