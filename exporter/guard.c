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

static int read_digit(char digit)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *found = digit ? strchr(digits, digit) : NULL;

	return found ? (int)(found - digits) : -1;
}

// Decodes base64 up to its padding. Returns the length, or -1 if the text is invalid or too long.
static ssize_t decode_base64(const char *text, char *decoded, size_t capacity)
{
	unsigned bits = 0, bit_count = 0;
	size_t length = 0;

	for (; *text && *text != '='; text++) {
		int digit = read_digit(*text);
		if (digit < 0 || length == capacity)
			return -1;
		bits = bits << 6 | (unsigned)digit;
		bit_count += 6;
		if (bit_count < 8)
			continue;
		bit_count -= 8;
		decoded[length++] = (char)(bits >> bit_count & 0xff);
	}
	return text[strspn(text, "=")] ? -1 : (ssize_t)length;
}

// Returns whether the credentials of a browser, "USER:PASSWORD" in base64, have the token as the password.
static bool is_password(const char *token, const char *credentials)
{
	char decoded[2 * GUARD_TOKEN_MOST + 1];
	ssize_t length = decode_base64(credentials, decoded, sizeof decoded - 1);

	if (length < 0 || memchr(decoded, '\0', (size_t)length))
		return false;
	decoded[length] = '\0';
	const char *colon = strchr(decoded, ':');
	return colon && is_token(token, colon + 1);
}

static bool is_authorized(const char *token, const char *given)
{
	static const char bearer[] = "Bearer ", basic[] = "Basic ";

	if (!*token)
		return false;
	if (strncasecmp(given, bearer, sizeof bearer - 1) == 0)
		return is_token(token, given + sizeof bearer - 1);
	return strncasecmp(given, basic, sizeof basic - 1) == 0 && is_password(token, given + sizeof basic - 1);
}

enum guard_result guard_check(const struct guard *guard, const struct guard_request *request)
{
	enum guard_result result = check_host(guard, request->host);
	if (result != GUARD_PUBLIC)
		return result;
	if (strcmp(request->method, "GET") != 0 && strcmp(request->method, "HEAD") != 0)
		return GUARD_METHOD;
	if (request->authorization)
		return is_authorized(guard->token, request->authorization) ? GUARD_FULL : GUARD_TOKEN;
	if (guard->needs_token)
		return GUARD_TOKEN;
	return request->is_trusted ? GUARD_FULL : GUARD_PUBLIC;
}
