#include "server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "connection.h"

struct client {
	struct connection connection; // first
	struct server *server;
	struct client *next;
	struct call *calls;
	uint64_t begun_ms;
	bool has_asked; // at least one request of the connection was complete
	bool is_broken; // there was no memory to reset a stream, so server_tick() ends the connection
};

struct buffer {
	uint8_t *data;
	size_t length;
};

struct call {
	struct client *client;
	struct call *next;
	int32_t stream;
	uint64_t begun_ms;
	char method[96];
	bool is_post, is_grpc, is_complete, is_too_long, is_kept, is_answered, is_reset;
	struct buffer body;    // of the request
	struct buffer current; // the message that is being sent
	size_t sent;
	struct buffer newer; // the message to send after `current`
	enum rpc_status status;
	char text[768]; // value of the header grpc-message
};

struct server {
	struct source listener; // first
	struct loop *loop;
	struct service service;
	struct client *clients;
	uint64_t resume_at; // when to accept connections again, in milliseconds; 0: they are accepted
	char path[108];
	ino_t inode; // inode of the socket's file
	dev_t device;
};

// ---- answers --------------------------------------------------------------------------------------------------

#define HEADER(name, value)                                                                              \
	(nghttp2_nv)                                                                                     \
	{                                                                                                \
		(uint8_t *)(name), (uint8_t *)(value), strlen(name), strlen(value), NGHTTP2_NV_FLAG_NONE \
	}

// Sends the gRPC status: after the messages, or, without messages, as the whole answer.
static int send_status(nghttp2_session *session, struct call *call, bool is_whole_answer)
{
	char number[16];

	snprintf(number, sizeof number, "%d", (int)call->status);
	const nghttp2_nv headers[] = {HEADER(":status", "200"), HEADER("content-type", "application/grpc"),
				      HEADER("grpc-status", number), HEADER("grpc-message", call->text)};
	if (!is_whole_answer)
		return nghttp2_submit_trailer(session, call->stream, headers + 2, 1);
	return nghttp2_submit_response(session, call->stream, headers, *call->text ? 4 : 3, NULL);
}

// Gives nghttp2 the next bytes of the messages that are to be sent.
static ssize_t read_answer(nghttp2_session *session, int32_t stream, uint8_t *to, size_t length, uint32_t *flags,
			   nghttp2_data_source *source, void *user)
{
	struct call *call = source->ptr;

	if (call->sent == call->current.length && call->newer.data) {
		free(call->current.data);
		call->current = call->newer;
		call->newer = (struct buffer){0};
		call->sent = 0;
	}
	size_t left = call->current.length - call->sent;
	size_t taken = left < length ? left : length;
	if (taken)
		memcpy(to, call->current.data + call->sent, taken);
	call->sent += taken;
	if (!call->is_kept && taken == left) {
		*flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
		return send_status(session, call, false) ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE : (ssize_t)taken;
	}
	return taken ? (ssize_t)taken : NGHTTP2_ERR_DEFERRED;
}

static bool make_frame(const uint8_t *message, size_t length, struct buffer *ret_buffer)
{
	struct buffer made = {malloc(FRAME_HEAD + length), FRAME_HEAD + length};

	if (!made.data)
		return false;
	frame_write_head(made.data, length);
	memcpy(made.data + FRAME_HEAD, message, length);
	*ret_buffer = made;
	return true;
}

static void reset_call(struct call *call, uint32_t error)
{
	call->is_reset = true;
	if (nghttp2_submit_rst_stream(call->client->connection.session, NGHTTP2_FLAG_NONE, call->stream, error))
		call->client->is_broken = true;
	connection_wake(&call->client->connection);
}

static void begin_answer(struct call *call)
{
	const nghttp2_nv headers[] = {HEADER(":status", "200"), HEADER("content-type", "application/grpc")};
	const nghttp2_data_provider provider = {.source.ptr = call, .read_callback = read_answer};

	call->is_answered = true;
	if (nghttp2_submit_response(call->client->connection.session, call->stream, headers, 2, &provider))
		reset_call(call, NGHTTP2_INTERNAL_ERROR);
	connection_wake(&call->client->connection);
}

void call_send(struct call *call, const uint8_t *message, size_t length)
{
	if (!make_frame(message, length, &call->newer))
		call_fail(call, RPC_RESOURCE_EXHAUSTED, "no memory for the answer");
	else
		begin_answer(call);
}

void call_fail(struct call *call, enum rpc_status status, const char *text)
{
	call->status = status;
	call->is_answered = true;
	frame_write_text(text, call->text, sizeof call->text);
	if (send_status(call->client->connection.session, call, true))
		reset_call(call, NGHTTP2_INTERNAL_ERROR);
	connection_wake(&call->client->connection);
}

void call_keep(struct call *call)
{
	call->is_kept = true;
	begin_answer(call);
}

void call_update(struct call *call, const uint8_t *message, size_t length)
{
	struct buffer made;

	if (!make_frame(message, length, &made))
		return; // no memory: the peer keeps the list that it has until the next change
	free(call->newer.data);
	call->newer = made;
	// Another error means that nghttp2 is still sending the message before this one. It then asks for more by
	// itself.
	if (nghttp2_session_resume_data(call->client->connection.session, call->stream) == NGHTTP2_ERR_NOMEM)
		reset_call(call, NGHTTP2_INTERNAL_ERROR);
	connection_wake(&call->client->connection);
}

// ---- requests -------------------------------------------------------------------------------------------------

static void free_call(struct call *call)
{
	struct call **link = &call->client->calls;

	while (*link != call)
		link = &(*link)->next;
	*link = call->next;
	if (call->is_kept)
		call->client->server->service.ended(call->client->server->service.user, call);
	free(call->body.data);
	free(call->current.data);
	free(call->newer.data);
	free(call);
}

static int begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *client_)
{
	struct client *client = client_;
	struct call *call;

	if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	call = calloc(1, sizeof *call);
	if (!call)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	*call = (struct call){
		.client = client, .next = client->calls, .stream = frame->hd.stream_id, .begun_ms = loop_now_ms()};
	client->calls = call;
	nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, call);
	return 0;
}

static bool is_text(const uint8_t *bytes, size_t length, const char *text)
{
	return length == strlen(text) && memcmp(bytes, text, length) == 0;
}

static int read_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_length,
		       const uint8_t *value, size_t length, uint8_t flags, void *client)
{
	static const char grpc[] = "application/grpc";
	struct call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

	if (!call)
		return 0;
	if (is_text(name, name_length, ":method"))
		call->is_post = is_text(value, length, "POST");
	if (is_text(name, name_length, "content-type"))
		call->is_grpc = length >= strlen(grpc) && memcmp(value, grpc, strlen(grpc)) == 0;
	if (is_text(name, name_length, ":path") && length < sizeof call->method)
		memcpy(call->method, value, length);
	return 0;
}

static int read_body(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data, size_t length,
		     void *client)
{
	struct call *call = nghttp2_session_get_stream_user_data(session, stream);

	if (!call || call->is_too_long)
		return 0;
	if (length > SERVER_MESSAGE_MOST - call->body.length) {
		call->is_too_long = true;
		return 0;
	}
	uint8_t *longer = realloc(call->body.data, call->body.length + length + 1);
	if (!longer)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	call->body.data = longer;
	memcpy(longer + call->body.length, data, length);
	call->body.length += length;
	return 0;
}

static void answer(struct call *call)
{
	const struct service *service = &call->client->server->service;
	const uint8_t *message;
	size_t length;

	call->is_complete = call->client->has_asked = true;
	if (!call->is_post || !call->is_grpc) {
		call_fail(call, RPC_UNIMPLEMENTED, "only gRPC is spoken here");
		return;
	}
	if (call->is_too_long) {
		call_fail(call, RPC_RESOURCE_EXHAUSTED, "the request is longer than 256 KiB");
		return;
	}
	const char *wrong = frame_read(call->body.data, call->body.length, &message, &length);
	if (wrong) {
		call_fail(call, RPC_INVALID_ARGUMENT, wrong);
		return;
	}
	service->answer(service->user, call, call->method, message, length);
	if (!call->is_answered)
		call_fail(call, RPC_INTERNAL, "the plugin has no answer");
}

static int receive_frame(nghttp2_session *session, const nghttp2_frame *frame, void *client)
{
	struct call *call;

	if ((frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) ||
	    !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		return 0;
	call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	if (call && !call->is_complete && !call->is_reset)
		answer(call);
	return 0;
}

static int end_stream(nghttp2_session *session, int32_t stream, uint32_t error, void *client)
{
	struct call *call = nghttp2_session_get_stream_user_data(session, stream);

	if (call)
		free_call(call);
	return 0;
}

// ---- connections ----------------------------------------------------------------------------------------------

static nghttp2_session *make_session(struct client *client)
{
	const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, SERVER_STREAMS},
						   {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, 8192}};
	nghttp2_session_callbacks *callbacks;
	nghttp2_session *session = NULL;

	if (nghttp2_session_callbacks_new(&callbacks))
		return NULL;
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, read_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, read_body);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, receive_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, end_stream);
	if (nghttp2_session_server_new(&session, callbacks, client) == 0 &&
	    nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings, 2)) {
		nghttp2_session_del(session);
		session = NULL;
	}
	nghttp2_session_callbacks_del(callbacks);
	return session;
}

static void end_client(struct connection *connection)
{
	struct client *client = (struct client *)connection;
	struct client **link = &client->server->clients;

	while (*link != client)
		link = &(*link)->next;
	*link = client->next;
	while (client->calls)
		free_call(client->calls);
	connection_finish(connection);
	free(client);
}

static bool is_trusted(int socket)
{
	struct ucred peer;
	socklen_t length = sizeof peer;

	return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
	       (peer.uid == 0 || peer.uid == geteuid());
}

// Ends the oldest connection that has no requests. Returns whether such a connection existed.
static bool end_idle(struct server *server)
{
	struct client *oldest = NULL;

	for (struct client *client = server->clients; client; client = client->next)
		if (!client->calls)
			oldest = client; // the list begins with the newest connection
	if (oldest)
		end_client(&oldest->connection);
	return oldest;
}

// Makes room for another connection. Returns whether there is room.
static bool make_room(struct server *server)
{
	int count = 0;

	for (const struct client *client = server->clients; client; client = client->next)
		count++;
	return count < SERVER_CONNECTIONS || end_idle(server);
}

// Handles a failed accept(). The connection stays in the socket's queue, and the loop would report it again at once. So
// the server ends an idle connection to get a free descriptor, or accepts no connections for a while.
static void handle_failed_accept(struct server *server, int error)
{
	if (error != EMFILE && error != ENFILE && error != ENOBUFS && error != ENOMEM)
		return;
	if (end_idle(server))
		return;
	server->resume_at = loop_now_ms() + SERVER_PAUSE_MS;
	loop_change(server->loop, &server->listener, 0);
}

static void accept_client(struct source *listener, uint32_t events)
{
	struct server *server = (struct server *)listener;
	int socket = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (socket < 0) {
		handle_failed_accept(server, errno);
		return;
	}
	struct client *client = is_trusted(socket) && make_room(server) ? calloc(1, sizeof *client) : NULL;
	nghttp2_session *session = client ? make_session(client) : NULL;
	if (!session) {
		free(client);
		close(socket);
		return;
	}
	client->server = server;
	client->begun_ms = loop_now_ms();
	if (connection_init(&client->connection, server->loop, socket, session, end_client) < 0) {
		nghttp2_session_del(session);
		free(client);
		return;
	}
	client->next = server->clients;
	server->clients = client;
}

static bool is_late(uint64_t begun_ms, uint64_t now)
{
	return now > begun_ms && now - begun_ms > SERVER_REQUEST_MS;
}

// Resets the streams of requests that are late. Returns whether the connection must be ended, because its peer has not
// even read the reset in time.
static bool reset_late_calls(struct client *client, uint64_t now)
{
	for (struct call *call = client->calls; call; call = call->next) {
		if (call->is_complete || !is_late(call->begun_ms, now))
			continue;
		if (!call->is_reset)
			reset_call(call, NGHTTP2_CANCEL);
		else if (is_late(call->begun_ms + SERVER_REQUEST_MS, now))
			return true;
	}
	return false;
}

void server_tick(struct server *server, uint64_t now)
{
	for (struct client *client = server->clients, *next; client; client = next) {
		next = client->next;
		bool is_silent = !client->has_asked && !client->calls && is_late(client->begun_ms, now);
		if (reset_late_calls(client, now) || client->is_broken || is_silent)
			end_client(&client->connection);
	}
	if (!server->resume_at || now < server->resume_at)
		return;
	server->resume_at = 0;
	loop_change(server->loop, &server->listener, EPOLLIN);
}

bool server_is_paused(const struct server *server)
{
	return server->resume_at;
}

// ---- the socket -----------------------------------------------------------------------------------------------

// Creates the socket under another name, and renames it when it listens. So a peer that finds the socket at its path
// can connect at once.
static int listen_at(const char *path, ino_t *ret_inode, dev_t *ret_device)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct stat info;
	int r = 0;

	if (snprintf(address.sun_path, sizeof address.sun_path, "%s.new", path) >= (int)sizeof address.sun_path)
		return -ENAMETOOLONG;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	unlink(address.sun_path);
	if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || chmod(address.sun_path, 0600) < 0 ||
	    listen(fd, SERVER_CONNECTIONS) < 0 || stat(address.sun_path, &info) < 0 ||
	    rename(address.sun_path, path) < 0)
		r = -errno;
	if (r == 0) {
		*ret_inode = info.st_ino;
		*ret_device = info.st_dev;
		return fd;
	}
	close(fd);
	unlink(address.sun_path);
	return r;
}

int server_create(struct loop *loop, const char *path, const struct service *service, struct server **ret_server)
{
	struct server *server = calloc(1, sizeof *server);

	if (!server)
		return -ENOMEM;
	*server = (struct server){.listener = {-1, accept_client}, .loop = loop, .service = *service};
	if ((size_t)snprintf(server->path, sizeof server->path, "%s", path) >= sizeof server->path) {
		free(server);
		return -ENAMETOOLONG;
	}
	int r = server->listener.fd = listen_at(path, &server->inode, &server->device);
	if (r >= 0)
		r = loop_add(loop, &server->listener, EPOLLIN);
	if (r < 0) {
		server_destroy(server);
		return r;
	}
	*ret_server = server;
	return 0;
}

bool server_is_reachable(const struct server *server)
{
	struct stat info;

	return lstat(server->path, &info) == 0 && info.st_ino == server->inode && info.st_dev == server->device;
}

void server_destroy(struct server *server)
{
	if (!server)
		return;
	while (server->clients)
		end_client(&server->clients->connection);
	if (server->listener.fd >= 0 && server_is_reachable(server))
		unlink(server->path);
	loop_close(server->loop, &server->listener);
	free(server);
}
