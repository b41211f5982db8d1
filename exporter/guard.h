// Decides by the headers of a request whether it is answered. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum { GUARD_TOKEN_LEAST = 16, GUARD_TOKEN_MOST = 256, GUARD_HOSTS_MOST = 16 };

struct guard {
	char token[GUARD_TOKEN_MOST + 1]; // "": no token
	bool needs_token;		  // requests without the token are refused
	// the Host header is checked; false for a unix socket, which browsers cannot reach
	bool checks_host;
	const char *hosts[GUARD_HOSTS_MOST]; // further host names of this server
	size_t host_count;
};

struct guard_request {
	const char *method, *path;	  // `path` is the path without the query
	const char *host, *authorization; // headers; NULL: missing
	bool is_trusted;		  // the peer of the unix socket is the exporter's own user, or root
};

enum guard_result {
	GUARD_PUBLIC,	 // the peer may see what `virgate ps` shows to other users
	GUARD_FULL,	 // the peer may see what the exporter's user may see
	GUARD_MALFORMED, // 400
	GUARD_TOKEN,	 // 401
	GUARD_HOST,	 // 403: the Host header names another server
	GUARD_METHOD,	 // 405
};

// Reads the token from a file that only its owner may read. Returns NULL, or the reason of a refusal as the end of a
// sentence.
const char *guard_read_token(const char *path, char ret_token[GUARD_TOKEN_MOST + 1]);
// Decides whether a request is answered, and what its sender may see. A page of another site can make a browser send
// requests to the loopback address, under a host name of that site's choice. So the Host header must name this machine:
// localhost, an address of the loopback network, or one of `hosts`.
enum guard_result guard_check(const struct guard *guard, const struct guard_request *request);
