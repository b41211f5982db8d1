#include "registration.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "connection.h"
#include "deviceplugin.pb-c.h"
#include "frame.h"

// How long to wait for the kubelet's answer. The kubelet connects to the plugin before it answers, which may take 10 s.
enum { ANSWER_MS = 20000 };

struct registration {
	struct connection connection; // first
	registration_ended *ended;
	void *user;
	uint64_t begun_ms;
	uint8_t *request;
	size_t length, sent;
	int status; // the value of grpc-status; -1: it was not received
	char text[512];
};

static void free_registration(struct registration *registration)
{
	connection_finish(&registration->connection);
	free(registration->request);
	free(registration);
}

static void end(struct registration *registration, const char *error)
{
	registration->ended(registration->user, error);
	free_registration(registration);
}

static void connection_ended(struct connection *connection)
{
	struct registration *registration = (struct registration *)connection;

	if (registration->status < 0)
		end(registration, "the kubelet closed the connection without an answer");
	else if (registration->status > 0)
		end(registration, *registration->text ? registration->text : "the kubelet gave no reason");
	else
		end(registration, NULL);
}

// ---- callbacks of nghttp2 ---------------------------------------------------------------------------------------

static void copy_text(struct registration *registration, const uint8_t *value, size_t length)
{
	size_t size = sizeof registration->text;

	snprintf(registration->text, size, "%.*s", (int)(length < size ? length : size), (const char *)value);
	for (char *at = registration->text; *at; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
}

static int read_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_length,
		       const uint8_t *value, size_t length, uint8_t flags, void *registration_)
{
	struct registration *registration = registration_;

	if (name_length == 11 && memcmp(name, "grpc-status", 11) == 0)
		registration->status = atoi((const char *)value); // nghttp2 ends values with a zero byte
	if (name_length == 12 && memcmp(name, "grpc-message", 12) == 0)
		copy_text(registration, value, length);
	return 0;
}

static int end_stream(nghttp2_session *session, int32_t stream, uint32_t error, void *registration)
{
	return nghttp2_session_terminate_session(session, NGHTTP2_NO_ERROR);
}

static ssize_t read_request(nghttp2_session *session, int32_t stream, uint8_t *to, size_t length, uint32_t *flags,
			    nghttp2_data_source *source, void *user)
{
	struct registration *registration = source->ptr;
	size_t left = registration->length - registration->sent;
	size_t taken = left < length ? left : length;

	memcpy(to, registration->request + registration->sent, taken);
	registration->sent += taken;
	if (taken == left)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)taken;
}

// ---- the request ------------------------------------------------------------------------------------------------

static bool make_request(struct registration *registration, const char *endpoint, const char *resource)
{
	V1beta1__DevicePluginOptions options = V1BETA1__DEVICE_PLUGIN_OPTIONS__INIT;
	V1beta1__RegisterRequest request = V1BETA1__REGISTER_REQUEST__INIT;

	options.pre_start_required = options.get_preferred_allocation_available = 1;
	request.version = (char *)"v1beta1";
	request.endpoint = (char *)endpoint;
	request.resource_name = (char *)resource;
	request.options = &options;
	size_t length = v1beta1__register_request__get_packed_size(&request);
	registration->request = malloc(FRAME_HEAD + length);
	if (!registration->request)
		return false;
	frame_write_head(registration->request, length);
	v1beta1__register_request__pack(&request, registration->request + FRAME_HEAD);
	registration->length = FRAME_HEAD + length;
	return true;
}

#define HEADER(name, value)                                                                                      \
	{                                                                                                        \
		(uint8_t *)(name), (uint8_t *)(value), sizeof(name) - 1, sizeof(value) - 1, NGHTTP2_NV_FLAG_NONE \
	}

static nghttp2_session *make_session(struct registration *registration)
{
	static const nghttp2_nv headers[] = {
		HEADER(":method", "POST"),
		HEADER(":scheme", "http"),
		HEADER(":path", "/v1beta1.Registration/Register"),
		HEADER(":authority", "localhost"),
		HEADER("content-type", "application/grpc"),
		HEADER("te", "trailers"),
	};
	const nghttp2_data_provider provider = {.source.ptr = registration, .read_callback = read_request};
	nghttp2_session_callbacks *callbacks;
	nghttp2_session *session = NULL;

	if (nghttp2_session_callbacks_new(&callbacks))
		return NULL;
	nghttp2_session_callbacks_set_on_header_callback(callbacks, read_header);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, end_stream);
	if (nghttp2_session_client_new(&session, callbacks, registration) == 0 &&
	    (nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, NULL, 0) ||
	     nghttp2_submit_request(session, NULL, headers, sizeof headers / sizeof *headers, &provider, NULL) < 0)) {
		nghttp2_session_del(session);
		session = NULL;
	}
	nghttp2_session_callbacks_del(callbacks);
	return session;
}

static int connect_to(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	if (snprintf(address.sun_path, sizeof address.sun_path, "%s", path) >= (int)sizeof address.sun_path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
		return fd;
	int error = errno;
	close(fd);
	errno = error;
	return -1;
}

struct registration *registration_begin(struct loop *loop, const char *kubelet, const char *endpoint,
					const char *resource, registration_ended *ended, void *user)
{
	int fd = connect_to(kubelet);
	struct registration *registration = fd >= 0 ? calloc(1, sizeof *registration) : NULL;

	if (!registration) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	registration->ended = ended;
	registration->user = user;
	registration->begun_ms = loop_now_ms();
	registration->status = -1;
	nghttp2_session *session = make_request(registration, endpoint, resource) ? make_session(registration) : NULL;
	if (session && connection_init(&registration->connection, loop, fd, session, connection_ended) == 0)
		return registration;
	if (session)
		nghttp2_session_del(session);
	else
		close(fd);
	free(registration->request);
	free(registration);
	errno = ENOMEM;
	return NULL;
}

void registration_cancel(struct registration *registration)
{
	if (registration)
		free_registration(registration);
}

void registration_end_late(struct registration *registration)
{
	if (registration && loop_now_ms() - registration->begun_ms > ANSWER_MS)
		end(registration, "the kubelet did not answer within 20 s");
}
