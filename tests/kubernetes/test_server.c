// Tests the gRPC server of virgate-device-plugin with a client that uses nghttp2: late requests, answers that nghttp2
// does not accept, and too many open files. meson.build wraps functions of nghttp2 and accept4(), so that a test can
// make them fail.
#include <errno.h>
#include <fcntl.h>
#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "loop.h"
#include "server.h"
#include "test.h"

enum { STREAMS = 16, OPEN = 1000 };

static struct loop loop;
static struct server *server;
static char directory[] = "/tmp/virgate-test-XXXXXX", path[64];
static struct call *kept;
static int kept_ended;

// ---- functions that fail on request ---------------------------------------------------------------------------

static int failing_responses, failing_trailers, failing_resets, failing_accepts, accepts;

int __real_nghttp2_submit_response(nghttp2_session *session, int32_t stream, const nghttp2_nv *headers, size_t count,
				   const nghttp2_data_provider *provider);
int __wrap_nghttp2_submit_response(nghttp2_session *session, int32_t stream, const nghttp2_nv *headers, size_t count,
				   const nghttp2_data_provider *provider);
int __real_nghttp2_submit_trailer(nghttp2_session *session, int32_t stream, const nghttp2_nv *headers, size_t count);
int __wrap_nghttp2_submit_trailer(nghttp2_session *session, int32_t stream, const nghttp2_nv *headers, size_t count);
int __real_nghttp2_submit_rst_stream(nghttp2_session *session, uint8_t flags, int32_t stream, uint32_t error);
int __wrap_nghttp2_submit_rst_stream(nghttp2_session *session, uint8_t flags, int32_t stream, uint32_t error);
int __real_accept4(int socket, struct sockaddr *address, socklen_t *length, int flags);
int __wrap_accept4(int socket, struct sockaddr *address, socklen_t *length, int flags);

static bool fails(int *count)
{
	return *count && (*count)--;
}

int __wrap_nghttp2_submit_response(nghttp2_session *session, int32_t stream, const nghttp2_nv *headers, size_t count,
				   const nghttp2_data_provider *provider)
{
	if (fails(&failing_responses))
		return NGHTTP2_ERR_NOMEM;
	return __real_nghttp2_submit_response(session, stream, headers, count, provider);
}

int __wrap_nghttp2_submit_trailer(nghttp2_session *session, int32_t stream, const nghttp2_nv *headers, size_t count)
{
	if (fails(&failing_trailers))
		return NGHTTP2_ERR_NOMEM;
	return __real_nghttp2_submit_trailer(session, stream, headers, count);
}

int __wrap_nghttp2_submit_rst_stream(nghttp2_session *session, uint8_t flags, int32_t stream, uint32_t error)
{
	if (fails(&failing_resets))
		return NGHTTP2_ERR_NOMEM;
	return __real_nghttp2_submit_rst_stream(session, flags, stream, error);
}

int __wrap_accept4(int socket, struct sockaddr *address, socklen_t *length, int flags)
{
	accepts++;
	if (fails(&failing_accepts)) {
		errno = EMFILE;
		return -1;
	}
	return __real_accept4(socket, address, length, flags);
}

// ---- the client -----------------------------------------------------------------------------------------------

struct peer {
	int socket;
	bool is_closed;
	nghttp2_session *session;
	size_t received[STREAMS]; // bytes of messages
	int ended[STREAMS];	  // OPEN, or the error code with which the stream ended
};

static int receive_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data, size_t length,
			void *peer)
{
	((struct peer *)peer)->received[stream] += length;
	return 0;
}

static int end_stream(nghttp2_session *session, int32_t stream, uint32_t error, void *peer)
{
	((struct peer *)peer)->ended[stream] = (int)error;
	return 0;
}

static bool join(struct peer *peer)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
	*peer = (struct peer){.socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
	return peer->socket >= 0 && connect(peer->socket, (struct sockaddr *)&address, sizeof address) == 0;
}

static void speak(struct peer *peer)
{
	nghttp2_session_callbacks *callbacks;

	CHECK(join(peer));
	for (int i = 0; i < STREAMS; i++)
		peer->ended[i] = OPEN;
	CHECK(nghttp2_session_callbacks_new(&callbacks) == 0);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, receive_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, end_stream);
	CHECK(nghttp2_session_client_new(&peer->session, callbacks, peer) == 0);
	nghttp2_session_callbacks_del(callbacks);
	CHECK(nghttp2_submit_settings(peer->session, NGHTTP2_FLAG_NONE, NULL, 0) == 0);
}

static void leave(struct peer *peer)
{
	nghttp2_session_del(peer->session);
	close(peer->socket);
}

static void exchange(struct peer *peer)
{
	const uint8_t *data;
	uint8_t piece[4096];
	ssize_t length;

	while (!peer->is_closed && (length = nghttp2_session_mem_send(peer->session, &data)) > 0)
		peer->is_closed = send(peer->socket, data, (size_t)length, MSG_NOSIGNAL) != length;
	while ((length = recv(peer->socket, piece, sizeof piece, 0)) > 0)
		CHECK_INT(nghttp2_session_mem_recv(peer->session, piece, (size_t)length), length);
	if (length == 0 || (errno != EAGAIN && errno != EWOULDBLOCK))
		peer->is_closed = true;
}

// Runs the server and the peer in turn, in this thread, until neither has anything to do. No step waits.
static void pass(struct peer *peer)
{
	for (int i = 0; i < 50; i++) {
		loop_step(&loop, 0);
		if (peer->session)
			exchange(peer);
	}
}

#define HEADER(name, value)                                                                              \
	{                                                                                                \
		(uint8_t *)(name), (uint8_t *)(value), strlen(name), strlen(value), NGHTTP2_NV_FLAG_NONE \
	}

static ssize_t read_request(nghttp2_session *session, int32_t stream, uint8_t *to, size_t length, uint32_t *flags,
			    nghttp2_data_source *source, void *user)
{
	if (!source->ptr)
		return NGHTTP2_ERR_DEFERRED; // more data is never provided, so the request stays incomplete
	memset(to, 0, 5);
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	return 5;
}

static int32_t ask(struct peer *peer, const char *method, bool is_complete)
{
	const nghttp2_nv headers[] = {HEADER(":method", "POST"), HEADER(":scheme", "http"), HEADER(":path", method),
				      HEADER(":authority", "localhost"), HEADER("content-type", "application/grpc")};
	const nghttp2_data_provider provider = {.source.ptr = is_complete ? peer : NULL, .read_callback = read_request};
	int32_t stream = nghttp2_submit_request(peer->session, NULL, headers, 5, &provider, NULL);

	CHECK(stream > 0 && stream < STREAMS);
	pass(peer);
	return stream;
}

// ---- the server -----------------------------------------------------------------------------------------------

static void answer(void *user, struct call *call, const char *method, const uint8_t *message, size_t length)
{
	if (strcmp(method, "/keep") == 0)
		call_keep(kept = call);
	else if (strcmp(method, "/fail") == 0)
		call_fail(call, RPC_INVALID_ARGUMENT, "it is asked for");
	else
		call_send(call, (const uint8_t *)"text", 4);
}

static void ended(void *user, struct call *call)
{
	kept_ended++;
	kept = NULL;
}

static void set_up(void)
{
	const struct service service = {NULL, answer, ended};

	kept = NULL;
	kept_ended = accepts = 0;
	strcpy(directory, "/tmp/virgate-test-XXXXXX");
	CHECK(mkdtemp(directory));
	snprintf(path, sizeof path, "%s/socket", directory);
	CHECK_INT(loop_init(&loop), 0);
	CHECK_INT(server_create(&loop, path, &service, &server), 0);
}

static void tear_down(void)
{
	server_destroy(server);
	close(loop.epoll);
	CHECK_INT(rmdir(directory), 0);
}

// Checks that the peer's call `keeping` stays open, and that its other requests are answered meanwhile.
static void check_in_order(struct peer *peer, int32_t keeping)
{
	size_t before = peer->received[keeping];

	int32_t stream = ask(peer, "/send", true);
	CHECK_INT(peer->ended[stream], NGHTTP2_NO_ERROR);
	CHECK_INT(peer->received[stream], 9);
	CHECK(kept && !kept_ended && !peer->is_closed);
	call_update(kept, (const uint8_t *)"list", 4);
	pass(peer);
	CHECK_INT(peer->received[keeping], before + 9);
	CHECK_INT(peer->ended[keeping], OPEN);
}

TEST(late_request_is_reset_and_its_connection_goes_on)
{
	struct peer peer;

	set_up();
	speak(&peer);
	int32_t keeping = ask(&peer, "/keep", true), late = ask(&peer, "/send", false);
	server_tick(server, loop_now_ms());
	pass(&peer);
	CHECK_INT(peer.ended[late], OPEN);
	server_tick(server, loop_now_ms() + SERVER_REQUEST_MS + 1000);
	pass(&peer);
	CHECK_INT(peer.ended[late], NGHTTP2_CANCEL);
	check_in_order(&peer, keeping);
	server_tick(server, loop_now_ms() + 10 * SERVER_REQUEST_MS);
	pass(&peer);
	check_in_order(&peer, keeping);
	leave(&peer);
	pass(&(struct peer){0});
	CHECK_INT(kept_ended, 1);
	tear_down();
}

TEST(connection_without_a_complete_request_is_ended)
{
	struct peer silent, peer;

	set_up();
	speak(&silent);
	pass(&silent);
	speak(&peer);
	int32_t late = ask(&peer, "/send", false);
	server_tick(server, loop_now_ms() + SERVER_REQUEST_MS + 1000);
	pass(&silent);
	pass(&peer);
	CHECK(silent.is_closed && !peer.is_closed);
	CHECK_INT(peer.ended[late], NGHTTP2_CANCEL);
	server_tick(server, loop_now_ms() + SERVER_REQUEST_MS + 1000);
	pass(&peer);
	CHECK(peer.is_closed);
	leave(&silent);
	leave(&peer);
	tear_down();
}

// The socket is full, because the peer does not read, so the server cannot send a reset.
TEST(connection_whose_peer_does_not_read_is_ended)
{
	enum { WINDOW = 16 << 20 };
	const nghttp2_settings_entry window = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW};
	static uint8_t large[WINDOW / 2];
	struct peer peer;

	set_up();
	speak(&peer);
	CHECK_INT(nghttp2_submit_settings(peer.session, NGHTTP2_FLAG_NONE, &window, 1), 0);
	CHECK_INT(nghttp2_session_set_local_window_size(peer.session, NGHTTP2_FLAG_NONE, 0, WINDOW), 0);
	ask(&peer, "/keep", true);
	ask(&peer, "/send", false);
	call_update(kept, large, sizeof large);
	pass(&(struct peer){0});
	uint64_t now = loop_now_ms();
	server_tick(server, now + SERVER_REQUEST_MS + 1000);
	pass(&(struct peer){0});
	CHECK_INT(kept_ended, 0);
	server_tick(server, now + 2 * SERVER_REQUEST_MS + 1000);
	CHECK_INT(kept_ended, 1);
	leave(&peer);
	tear_down();
}

TEST(answer_that_cannot_be_submitted_resets_its_stream)
{
	static const char *const methods[] = {"/send", "/fail", "/other"};
	struct peer peer;

	set_up();
	speak(&peer);
	int32_t keeping = ask(&peer, "/keep", true);
	for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
		*(i == 2 ? &failing_trailers : &failing_responses) = 1;
		int32_t stream = ask(&peer, methods[i], true);
		CHECK_INT(peer.ended[stream], NGHTTP2_INTERNAL_ERROR);
		CHECK_INT(failing_responses + failing_trailers, 0);
	}
	check_in_order(&peer, keeping);
	leave(&peer);
	tear_down();
}

TEST(kept_call_that_cannot_begin_is_ended)
{
	struct peer peer;

	set_up();
	speak(&peer);
	failing_responses = 1;
	int32_t stream = ask(&peer, "/keep", true);
	CHECK_INT(peer.ended[stream], NGHTTP2_INTERNAL_ERROR);
	CHECK_INT(kept_ended, 1);
	CHECK_INT(peer.ended[ask(&peer, "/send", true)], NGHTTP2_NO_ERROR);
	leave(&peer);
	tear_down();
}

TEST(connection_without_memory_for_a_reset_is_ended)
{
	struct peer peer;

	set_up();
	speak(&peer);
	ask(&peer, "/keep", true);
	failing_responses = failing_resets = 1;
	int32_t stream = ask(&peer, "/send", true);
	CHECK_INT(peer.ended[stream], OPEN);
	server_tick(server, loop_now_ms());
	pass(&peer);
	CHECK(peer.is_closed);
	CHECK_INT(kept_ended, 1);
	leave(&peer);
	tear_down();
}

TEST(too_many_open_files_pause_the_server)
{
	struct peer peer;

	set_up();
	speak(&peer);
	failing_accepts = 100;
	pass(&peer);
	CHECK_INT(accepts, 1);
	CHECK(server_is_paused(server));
	server_tick(server, loop_now_ms());
	pass(&peer);
	CHECK_INT(accepts, 1);
	failing_accepts = 0;
	server_tick(server, loop_now_ms() + SERVER_PAUSE_MS);
	CHECK(!server_is_paused(server));
	int32_t stream = ask(&peer, "/send", true);
	CHECK_INT(peer.ended[stream], NGHTTP2_NO_ERROR);
	leave(&peer);
	tear_down();
}

TEST(too_many_open_files_end_a_connection_without_requests)
{
	struct peer idle, peer;

	set_up();
	speak(&idle);
	CHECK_INT(idle.ended[ask(&idle, "/send", true)], NGHTTP2_NO_ERROR);
	speak(&peer);
	failing_accepts = 1;
	int32_t keeping = ask(&peer, "/keep", true);
	CHECK(!server_is_paused(server));
	check_in_order(&peer, keeping);
	pass(&idle);
	CHECK(idle.is_closed);
	leave(&idle);
	leave(&peer);
	tear_down();
}
