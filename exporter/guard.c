#include "exporter/guard.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HOST_MOST = 255 };

static const char *check_token(const char *token, ssize_t length)
{
	if (length < GUARD_TOKEN_LEAST || length > GUARD_TOKEN_MOST)
		return "a token has 16 to 256 characters";
	for (ssize_t i = 0; i < length; i++)
		if (token[i] <= ' ' || token[i] > '~')
			return "a token has only printable ASCII characters without spaces";
	return NULL;
}

const char *guard_read_token(const char *path, char ret_token[GUARD_TOKEN_MOST + 1])
{
	char text[GUARD_TOKEN_MOST + 3];
	struct stat status;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return strerror(errno);
	ssize_t length = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) ? read(fd, text, sizeof text - 1) : -1;
	close(fd);
	if (length < 0)
		return "it is not a regular file";
	if (status.st_mode & 077)
		return "other users may read or write the file: run chmod 600";
	text[length] = '\0';
	length = (ssize_t)strcspn(text, "\r\n");
	const char *wrong = check_token(text, length);
	if (!wrong)
		snprintf(ret_token, GUARD_TOKEN_MOST + 1, "%.*s", (int)length, text);
	return wrong;
}

// Compares in a time that does not depend on where the texts differ.
static bool is_token(const char *token, const char *text)
{
	size_t length = strlen(token), other = strlen(text);
	unsigned char difference = length != other;

	for (size_t i = 0; i < length; i++)
		difference |= (unsigned char)(token[i] ^ (i < other ? text[i] : 0));
	return !difference;
}

// Copies the name out of "NAME", "NAME:PORT" or "[ADDRESS]:PORT". Returns false if the text has another form.
static bool read_host(const char *text, char ret_name[HOST_MOST + 1])
{
	bool has_bracket = *text == '[';
	size_t length = has_bracket ? strcspn(text, "]") : strcspn(text, ":");
	const char *rest = text + length + (has_bracket && text[length]);

	if (has_bracket && text[length] != ']')
		return false;
	text += has_bracket;
	length -= has_bracket;
	if (!length || length > HOST_MOST)
		return false;
	if (*rest == ':')
		rest += 1 + strspn(rest + 1, "0123456789");
	if (*rest)
		return false;
	memcpy(ret_name, text, length);
	ret_name[length] = '\0';
	return true;
}

static bool is_own_name(const struct guard *guard, const char *name)
{
	struct in6_addr in6;
	struct in_addr in;

	if (strcasecmp(name, "localhost") == 0)
		return true;
	if (inet_pton(AF_INET, name, &in) == 1 && ntohl(in.s_addr) >> 24 == 127)
		return true;
	if (inet_pton(AF_INET6, name, &in6) == 1 && IN6_IS_ADDR_LOOPBACK(&in6))
		return true;
	for (size_t i = 0; i < guard->host_count; i++)
		if (strcasecmp(name, guard->hosts[i]) == 0)
			return true;
	return false;
}

static enum guard_result check_host(const struct guard *guard, const char *host)
{
	char name[HOST_MOST + 1];

	if (!guard->checks_host)
		return GUARD_PUBLIC;
	if (!host || !read_host(host, name))
		return GUARD_MALFORMED;
	return is_own_name(guard, name) ? GUARD_PUBLIC : GUARD_HOST;
}

enum guard_result guard_check(const struct guard *guard, const struct guard_request *request)
{
	static const char scheme[] = "Bearer ";
	const char *given = request->authorization;

	enum guard_result result = check_host(guard, request->host);
	if (result != GUARD_PUBLIC)
		return result;
	if (strcmp(request->method, "GET") != 0 && strcmp(request->method, "HEAD") != 0)
		return GUARD_METHOD;
	if (given) {
		bool is_right = *guard->token && strncasecmp(given, scheme, sizeof scheme - 1) == 0 &&
				is_token(guard->token, given + sizeof scheme - 1);
		return is_right ? GUARD_FULL : GUARD_TOKEN;
	}
	if (guard->needs_token)
		return GUARD_TOKEN;
	return request->is_trusted ? GUARD_FULL : GUARD_PUBLIC;
}
