// A gRPC server on one unix socket. Its peers must be of this process's user, or root. Main thread only.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"
#include "loop.h"

enum {
	SERVER_CONNECTIONS = 32,	 // at a time
	SERVER_STREAMS = 16,		 // of a connection, at a time
	SERVER_MESSAGE_MOST = 256 << 10, // bytes of a request
	SERVER_REQUEST_MS = 10000,	 // for a request to be complete, and for the first one of a connection
	SERVER_PAUSE_MS = 1000,		 // without accepting, if there are too many open files
};

struct server;
struct call; // one request, until its stream has ended

struct service {
	void *user;
	// Answers a request, by calling call_send() or call_fail(), or by keeping the call for later.
	void (*answer)(void *user, struct call *call, const char *method, const uint8_t *message, size_t length);
	// The stream of a call that was kept has ended. The call is not valid any more afterwards.
	void (*ended)(void *user, struct call *call);
};

// Listens at `path`, and replaces a file that is there. `service` must stay valid. Returns 0 or -errno; the server is
// freed with server_destroy().
int server_create(struct loop *loop, const char *path, const struct service *service, struct server **ret_server);
// Removes the socket if it is still this server's. Accepts NULL.
void server_destroy(struct server *server);
// Returns whether the path still leads to this server.
bool server_is_reachable(const struct server *server);
// Ends requests that do not become complete, and connections that make none. Accepts connections again after a pause.
// `now` is loop_now_ms(). Call it every second or so.
void server_tick(struct server *server, uint64_t now);
// Returns whether the server accepts no connections for now, because there are too many open files or no memory.
bool server_is_paused(const struct server *server);

// Sends the only answer of a call. Copies the message. An answer for which there is no memory resets the stream.
void call_send(struct call *call, const uint8_t *message, size_t length);
// Ends a call without an answer.
void call_fail(struct call *call, enum rpc_status status, const char *text);
// Keeps a call, which may then be answered several times with call_update(). An answer that the peer has not read yet
// is replaced by a newer one.
void call_keep(struct call *call);
void call_update(struct call *call, const uint8_t *message, size_t length);
