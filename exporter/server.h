// Runs the HTTP server in one thread, by means of libmicrohttpd.
#pragma once
#include "exporter/document.h"
#include "exporter/guard.h"

struct server;

struct server_options {
	struct guard guard;
	struct document_source source;
	bool is_unix;
};

// Starts to serve on the listening socket, which it takes over. Returns NULL on failure. `options` must stay valid.
struct server *server_start(int listener, const struct server_options *options);
// Ends connections that are older than SERVER_LONGEST_S. Call it every second or so.
enum { SERVER_LONGEST_S = 30, SERVER_IDLE_S = 10, SERVER_CONNECTIONS = 1024 };
void server_end_old(struct server *server);
void server_stop(struct server *server);
