// Reads and opens the address that the exporter listens on. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

struct listen_address {
	struct sockaddr_storage address; // a struct sockaddr_un for a unix socket
	socklen_t length;
	bool is_unix;
	bool is_loopback; // false for a unix socket
};

// Reads "unix:/PATH", "ADDRESS:PORT", "[ADDRESS]:PORT" or "PORT". ADDRESS is numeric, and 127.0.0.1 if it is missing.
// Returns NULL, or the reason why the text is invalid as the end of a sentence.
const char *listen_read(const char *text, struct listen_address *ret_address);
// Opens the listening socket. Replaces a socket file on which no process listens. Returns the descriptor, or -1 with a
// message in `problem`.
int listen_open(const struct listen_address *address, mode_t mode, char *problem, size_t capacity);
// Writes the address of the open socket, with the port that the kernel has chosen for port 0.
void listen_describe(int fd, const struct listen_address *address, char *text, size_t capacity);
