// The address that the exporter listens on. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

struct listen_address {
	struct sockaddr_storage address; // of a unix socket: struct sockaddr_un
	socklen_t length;
	bool is_unix;
	bool is_loopback; // false for a unix socket
};

// Reads "unix:/PATH", "ADDRESS:PORT", "[ADDRESS]:PORT" or "PORT", with an address in digits. Without an address it is
// 127.0.0.1. Returns NULL, or why the text is invalid, as the end of a sentence.
const char *listen_read(const char *text, struct listen_address *ret_address);
// Opens the listening socket. A socket file that no process listens on is replaced. Returns the descriptor, or -1 with
// a message in `problem`.
int listen_open(const struct listen_address *address, mode_t mode, char *problem, size_t capacity);
// Writes the address as it is now, with the port that the kernel has chosen for port 0.
void listen_describe(int fd, const struct listen_address *address, char *text, size_t capacity);
