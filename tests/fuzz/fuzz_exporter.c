// Fuzzes what virgate-exporter reads directly from its users and peers: the address to listen on, and the headers of a
// request. The input has four texts, each ending with a zero byte: the address, the method, and the headers Host and
// Authorization.
#include "exporter/guard.h"
#include "exporter/listen.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TOKEN "0123456789abcdef"

enum { TEXTS = 4, MOST = 4096 };

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void try_address(const char *text)
{
	struct listen_address address;

	if (listen_read(text, &address))
		return;
	const struct sockaddr_in *in = (const struct sockaddr_in *)&address.address;
	require(address.length > 0 && address.length <= sizeof address.address);
	require(address.is_unix == (address.address.ss_family == AF_UNIX));
	if (address.address.ss_family == AF_INET)
		require(address.is_loopback == (ntohl(in->sin_addr.s_addr) >> 24 == 127));
}

// Returns the value of a base64 digit; -1: the character is not a digit. The guard computes the value in another way,
// so that a comparison finds errors.
static int value_of(char digit)
{
	if (digit >= 'A' && digit <= 'Z')
		return digit - 'A';
	if (digit >= 'a' && digit <= 'z')
		return digit - 'a' + 26;
	if (digit >= '0' && digit <= '9')
		return digit - '0' + 52;
	return digit == '+' ? 62 : digit == '/' ? 63 : -1;
}

// Returns whether the text is base64 of a user name, a colon and the token.
static bool is_password(const char *text)
{
	static char bits[6 * MOST], decoded[MOST];
	size_t count = 0, length = 0;

	for (; *text && *text != '='; text++) {
		if (value_of(*text) < 0)
			return false;
		for (int bit = 5; bit >= 0; bit--)
			bits[count++] = (char)(value_of(*text) >> bit & 1);
	}
	for (; length < count / 8; length++) {
		decoded[length] = 0;
		for (size_t bit = 0; bit < 8; bit++)
			decoded[length] = (char)(decoded[length] << 1 | bits[8 * length + bit]);
	}
	decoded[length] = '\0';
	const char *colon = strlen(decoded) == length ? strchr(decoded, ':') : NULL;
	return colon && strcmp(colon + 1, TOKEN) == 0;
}

static bool is_right(const char *authorization)
{
	if (strncasecmp(authorization, "bearer ", 7) == 0)
		return strcmp(authorization + 7, TOKEN) == 0;
	return strncasecmp(authorization, "basic ", 6) == 0 && is_password(authorization + 6);
}

static void try_request(char *const texts[TEXTS], bool needs_token, bool is_trusted)
{
	const struct guard guard = {.token = TOKEN,
				    .needs_token = needs_token,
				    .checks_host = true,
				    .hosts = {"gpu.example"},
				    .host_count = 1};
	const struct guard_request request = {.method = texts[1],
					      .path = "/metrics",
					      .host = texts[2],
					      .authorization = *texts[3] ? texts[3] : NULL,
					      .is_trusted = is_trusted};

	enum guard_result result = guard_check(&guard, &request);
	bool has_token = is_right(texts[3]);
	if (result == GUARD_FULL)
		require(has_token || (is_trusted && !*texts[3] && !needs_token));
	if (result == GUARD_PUBLIC)
		require(!*texts[3] && !needs_token && !is_trusted);
	if (result == GUARD_FULL || result == GUARD_PUBLIC)
		require(strncasecmp(texts[2], "localhost", 9) == 0 || strncasecmp(texts[2], "gpu.example", 11) == 0 ||
			strncmp(texts[2], "127.", 4) == 0 || *texts[2] == '[' || strchr("0:", *texts[2]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char copy[MOST + TEXTS];
	char *texts[TEXTS], *at = copy;

	if (size > MOST)
		return 0;
	memcpy(copy, data, size);
	memset(copy + size, 0, TEXTS);
	for (int i = 0; i < TEXTS; i++) {
		texts[i] = at;
		at += strlen(at) + 1;
	}
	try_address(texts[0]);
	for (int i = 0; i < 4; i++)
		try_request(texts, i & 1, i & 2);
	return 0;
}
