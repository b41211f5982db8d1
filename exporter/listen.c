#include "exporter/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BACKLOG = 128 };

static const char *read_unix(const char *path, struct listen_address *address)
{
	struct sockaddr_un *unix_address = (struct sockaddr_un *)&address->address;

	if (*path != '/')
		return "the path after \"unix:\" must begin with \"/\"";
	if (strlen(path) >= sizeof unix_address->sun_path)
		return "the path of the socket has more than 107 bytes";
	unix_address->sun_family = AF_UNIX;
	strcpy(unix_address->sun_path, path);
	address->length = sizeof *unix_address;
	address->is_unix = true;
	return NULL;
}

static bool read_port(const char *text, in_port_t *ret_port)
{
	char *end;
	size_t digits = strspn(text, "0123456789");
	unsigned long port = digits && digits <= 5 && !text[digits] ? strtoul(text, &end, 10) : 65536;

	if (port > 65535)
		return false;
	*ret_port = htons((in_port_t)port);
	return true;
}

static bool read_ipv4(const char *text, in_port_t port, struct listen_address *address)
{
	struct sockaddr_in *in = (struct sockaddr_in *)&address->address;

	if (inet_pton(AF_INET, text, &in->sin_addr) != 1)
		return false;
	in->sin_family = AF_INET;
	in->sin_port = port;
	address->length = sizeof *in;
	address->is_loopback = ntohl(in->sin_addr.s_addr) >> 24 == 127;
	return true;
}

static bool read_ipv6(const char *text, in_port_t port, struct listen_address *address)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&address->address;

	if (inet_pton(AF_INET6, text, &in6->sin6_addr) != 1)
		return false;
	in6->sin6_family = AF_INET6;
	in6->sin6_port = port;
	address->length = sizeof *in6;
	address->is_loopback = IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
	return true;
}

static const char *read_tcp(const char *text, struct listen_address *address)
{
	const char *colon = strrchr(text, ':'), *port_text = colon ? colon + 1 : text;
	char host[INET6_ADDRSTRLEN] = "127.0.0.1";
	size_t length = colon ? (size_t)(colon - text) : 0;
	bool has_brackets = length >= 2 && *text == '[' && text[length - 1] == ']';
	in_port_t port = 0;

	if (!read_port(port_text, &port))
		return "it does not end with a port, a number from 0 to 65535";
	if (has_brackets) {
		text++;
		length -= 2;
	}
	if (length >= sizeof host)
		return "the address is not an address in digits";
	if (colon)
		snprintf(host, sizeof host, "%.*s", (int)length, text);
	if (has_brackets ? read_ipv6(host, port, address) : read_ipv4(host, port, address))
		return NULL;
	return "the address is not one in digits, such as 127.0.0.1 or [::1]";
}

const char *listen_read(const char *text, struct listen_address *ret_address)
{
	struct listen_address address = {0};
	const char *wrong = strncmp(text, "unix:", 5) == 0 ? read_unix(text + 5, &address) : read_tcp(text, &address);

	if (!wrong)
		*ret_address = address;
	return wrong;
}

// Removes the file of a unix socket that an ended process has left. Leaves any other file.
static void remove_stale(const struct listen_address *address)
{
	const struct sockaddr_un *unix_address = (const struct sockaddr_un *)&address->address;
	struct stat status;

	if (lstat(unix_address->sun_path, &status) < 0 || !S_ISSOCK(status.st_mode))
		return;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(fd, (const struct sockaddr *)unix_address, sizeof *unix_address) < 0 && errno == ECONNREFUSED)
		unlink(unix_address->sun_path);
	close(fd);
}

static int bind_and_listen(int fd, const struct listen_address *address, mode_t mode)
{
	const struct sockaddr_un *unix_address = (const struct sockaddr_un *)&address->address;
	mode_t mask = umask(0177); // no other user may connect before the mode is set

	int r = bind(fd, (const struct sockaddr *)&address->address, address->length);
	umask(mask);
	if (r == 0 && address->is_unix)
		r = chmod(unix_address->sun_path, mode);
	return r == 0 ? listen(fd, BACKLOG) : r;
}

int listen_open(const struct listen_address *address, mode_t mode, char *problem, size_t capacity)
{
	int on = 1;

	if (address->is_unix)
		remove_stale(address);
	int fd = socket(address->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && !address->is_unix)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (fd >= 0 && bind_and_listen(fd, address, mode) == 0)
		return fd;
	snprintf(problem, capacity, "%s%s", strerror(errno),
		 errno == EADDRINUSE ? ": another process listens there; end it, or name another address with --listen"
				     : "");
	if (fd >= 0)
		close(fd);
	return -1;
}

void listen_describe(int fd, const struct listen_address *address, char *text, size_t capacity)
{
	struct sockaddr_storage now = {0};
	socklen_t length = sizeof now;
	char host[INET6_ADDRSTRLEN] = "?";

	if (address->is_unix) {
		snprintf(text, capacity, "unix:%s", ((const struct sockaddr_un *)&address->address)->sun_path);
		return;
	}
	getsockname(fd, (struct sockaddr *)&now, &length);
	const struct sockaddr_in *in = (const struct sockaddr_in *)&now;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&now;
	bool is_ipv6 = now.ss_family == AF_INET6;
	inet_ntop(now.ss_family, is_ipv6 ? (const void *)&in6->sin6_addr : (const void *)&in->sin_addr, host,
		  sizeof host);
	snprintf(text, capacity, is_ipv6 ? "http://[%s]:%u" : "http://%s:%u", host,
		 ntohs(is_ipv6 ? in6->sin6_port : in->sin_port));
}
