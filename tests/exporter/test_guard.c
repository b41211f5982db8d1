// Tests which requests the exporter answers: the Host header, the method, and credentials.
#include "exporter/guard.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

#define TOKEN "0123456789abcdef"

static struct guard guard = {.token = TOKEN, .checks_host = true, .hosts = {"gpu.example"}, .host_count = 1};

static enum guard_result check(const char *method, const char *host, const char *authorization)
{
	const struct guard_request request = {
		.method = method, .path = "/", .host = host, .authorization = authorization};

	return guard_check(&guard, &request);
}

static enum guard_result check_credentials(const char *authorization)
{
	return check("GET", "localhost", authorization);
}

TEST(the_token_is_accepted_as_bearer_and_as_password)
{
	static const char *const right[] = {
		"Bearer " TOKEN,
		"bearer " TOKEN,
		"Basic eDowMTIzNDU2Nzg5YWJjZGVm",	      // x:TOKEN
		"basic eDowMTIzNDU2Nzg5YWJjZGVm",	      // the scheme may be in lower case
		"Basic OjAxMjM0NTY3ODlhYmNkZWY=",	      // :TOKEN
		"Basic OjAxMjM0NTY3ODlhYmNkZWY",	      // without its padding
		"Basic YW55LW5hbWU6MDEyMzQ1Njc4OWFiY2RlZg==", // any-name:TOKEN
	};

	for (size_t i = 0; i < sizeof right / sizeof *right; i++)
		CHECK_INT(check_credentials(right[i]), GUARD_FULL);
}

TEST(other_credentials_are_refused)
{
	static const char *const wrong[] = {
		"",
		"Bearer",
		"Bearer ",
		"Bearer  " TOKEN,
		"Bearer " TOKEN "x",
		"Bearer " TOKEN " ",
		"Bearer 0123456789abcde",
		TOKEN,
		"Basic",
		"Basic ",
		"Basic " TOKEN,
		"Basic =",
		"Basic MDEyMzQ1Njc4OWFiY2RlZg==",      // TOKEN without a user name
		"Basic MDEyMzQ1Njc4OWFiY2RlZjp4",      // TOKEN:x
		"Basic eDowMTIzNDU2Nzg5YWJjZGVmOng=",  // x:TOKEN:x
		"Basic eDp4OjAxMjM0NTY3ODlhYmNkZWY=",  // x:x:TOKEN: the password is x:TOKEN
		"Basic eDowMTIzNDU2Nzg5YWJjZGVmAA==",  // x:TOKEN and a zero byte
		"Basic AHg6MDEyMzQ1Njc4OWFiY2RlZg==",  // a zero byte, and then the user name, a colon and the token
		"Basic eDow=MTIzNDU2Nzg5YWJjZGVm",     // padding inside
		"Basic eDowMTIzNDU2Nzg5YWJjZGVm\n",    // not base64
		"Basic eDowMTIzNDU2Nzg5YWJjZGVm eDow", // two texts
		"Digest eDowMTIzNDU2Nzg5YWJjZGVm",
	};

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		CHECK_INT(check_credentials(wrong[i]), GUARD_TOKEN);
}

TEST(long_credentials_are_refused)
{
	char text[4096] = "Basic ";

	for (size_t length = 600; length < sizeof text - 1; length += 499) {
		memset(text + 6, 'A', length - 6);
		text[length] = '\0';
		CHECK_INT(check_credentials(text), GUARD_TOKEN);
	}
}

TEST(without_a_token_no_credentials_are_right)
{
	struct guard with = guard;

	*guard.token = '\0';
	CHECK_INT(check_credentials("Bearer "), GUARD_TOKEN);
	CHECK_INT(check_credentials("Basic Og=="), GUARD_TOKEN); // an empty name and an empty password
	CHECK_INT(check_credentials(NULL), GUARD_PUBLIC);
	guard = with;
}

TEST(an_open_address_needs_the_token)
{
	guard.needs_token = true;
	CHECK_INT(check_credentials(NULL), GUARD_TOKEN);
	CHECK_INT(check_credentials("Bearer " TOKEN), GUARD_FULL);
	guard.needs_token = false;
}

TEST(the_owner_of_a_unix_socket_sees_all_unless_a_token_is_wrong)
{
	struct guard_request request = {.method = "GET", .path = "/", .host = "localhost", .is_trusted = true};

	CHECK_INT(guard_check(&guard, &request), GUARD_FULL);
	request.authorization = "Bearer wrong-wrong-wrong";
	CHECK_INT(guard_check(&guard, &request), GUARD_TOKEN);
}

TEST(only_reading_methods_are_answered)
{
	static const char *const others[] = {"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "get", "GETX", ""};

	CHECK_INT(check("GET", "localhost", NULL), GUARD_PUBLIC);
	CHECK_INT(check("HEAD", "localhost", NULL), GUARD_PUBLIC);
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		CHECK_INT(check(others[i], "localhost", "Bearer " TOKEN), GUARD_METHOD);
}

TEST(the_host_must_be_this_machine_even_with_the_token)
{
	CHECK_INT(check("GET", "evil.example", "Bearer " TOKEN), GUARD_HOST);
	CHECK_INT(check("GET", "127.0.0.1.nip.io", NULL), GUARD_HOST);
	CHECK_INT(check("GET", "GPU.example:80", NULL), GUARD_PUBLIC);
	CHECK_INT(check("GET", "[::1]:9844", NULL), GUARD_PUBLIC);
	CHECK_INT(check("GET", NULL, NULL), GUARD_MALFORMED);
	CHECK_INT(check("GET", "localhost:80x", NULL), GUARD_MALFORMED);
}

// Writes a token file with this text and mode, and reads it. Returns why it is refused; NULL: it is accepted.
static const char *read_file(const char *text, mode_t mode, char token[GUARD_TOKEN_MOST + 1])
{
	char path[] = "/tmp/virgate-token-XXXXXX";
	int fd = mkstemp(path);

	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && fchmod(fd, mode) == 0);
	close(fd);
	const char *wrong = guard_read_token(path, token);
	unlink(path);
	return wrong;
}

TEST(a_token_file_is_checked)
{
	char token[GUARD_TOKEN_MOST + 1], text[400];

	CHECK(!read_file(TOKEN "\n", 0600, token));
	CHECK_STR(token, TOKEN);
	CHECK(!read_file(TOKEN "\r\nmore", 0400, token));
	CHECK_STR(token, TOKEN);
	CHECK_CONTAINS(read_file(TOKEN, 0640, token), "chmod 600");
	CHECK_CONTAINS(read_file("", 0600, token), "16 to 256");
	CHECK_CONTAINS(read_file("0123456789 abcdef", 0600, token), "without spaces");
	memset(text, 'a', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	CHECK_CONTAINS(read_file(text, 0600, token), "16 to 256");
	text[GUARD_TOKEN_MOST] = '\0';
	CHECK(!read_file(text, 0600, token));
	CHECK_CONTAINS(guard_read_token("/tmp", token), "regular file");
	CHECK_CONTAINS(guard_read_token("/nonexistent", token), "No such file");
}
