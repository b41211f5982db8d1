#include "exporter/server.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { REQUEST_MOST = 8192 }; // bytes of a request's headers, at most

struct client {
	struct client *next;
	int fd;
	time_t since;
};

struct server {
	struct MHD_Daemon *http;
	const struct server_options *options;
	pthread_mutex_t lock; // guards `clients`, and keeps their descriptors open
	struct client *clients;
};

static time_t read_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

static void add_client(struct server *server, int fd, void **ret_client)
{
	struct client *client = calloc(1, sizeof *client);

	if (!client) {
		shutdown(fd, SHUT_RDWR);
		return;
	}
	*client = (struct client){server->clients, fd, read_seconds()};
	server->clients = client;
	*ret_client = client;
}

static void remove_client(struct server *server, struct client *client)
{
	struct client **link = &server->clients;

	while (*link && *link != client)
		link = &(*link)->next;
	if (*link)
		*link = client->next;
	free(client);
}

// libmicrohttpd calls this for a new connection, and before it closes one.
static void note_connection(void *server_, struct MHD_Connection *connection, void **client,
			    enum MHD_ConnectionNotificationCode code)
{
	struct server *server = server_;

	pthread_mutex_lock(&server->lock);
	if (code == MHD_CONNECTION_NOTIFY_STARTED)
		add_client(server, MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
			   client);
	else if (*client)
		remove_client(server, *client);
	pthread_mutex_unlock(&server->lock);
}

// Returns whether the peer of a unix socket is this process's user, or root.
static bool is_trusted(const struct server *server, struct MHD_Connection *connection)
{
	struct ucred peer;
	socklen_t length = sizeof peer;

	if (!server->options->is_unix)
		return false;
	int fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && (peer.uid == 0 || peer.uid == geteuid());
}

static enum MHD_Result send_answer(struct MHD_Connection *connection, unsigned status, const struct document *document)
{
	struct MHD_Response *response =
		MHD_create_response_from_buffer(document->length, (void *)document->text,
						document->is_static ? MHD_RESPMEM_PERSISTENT : MHD_RESPMEM_MUST_COPY);

	if (!response)
		return MHD_NO;
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, document->type);
	if (document->is_gzip)
		MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip");
	MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(response, "Content-Security-Policy",
				"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
	MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
	MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
	if (status == MHD_HTTP_UNAUTHORIZED) { // browsers ask their users for a password only if Basic is offered
		MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer realm=\"virgate\"");
		MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Basic realm=\"virgate\"");
	}
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	document_count(status);
	enum MHD_Result result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static unsigned refuse(enum guard_result result, struct document *ret_document)
{
	static const struct {
		unsigned status;
		const char *text;
	} refusals[] = {
		[GUARD_MALFORMED] = {400, "the request has no valid Host header\n"},
		[GUARD_TOKEN] =
			{401,
			 "the request needs the header Authorization: Bearer TOKEN with the exporter's token, or the "
			 "token as a password\n"},
		[GUARD_HOST] = {403, "the Host header names another server: see --host in virgate-exporter(8)\n"},
		[GUARD_METHOD] = {405, "only GET and HEAD: nothing can be changed over HTTP\n"},
	};

	*ret_document = (struct document){.type = "text/plain; charset=utf-8",
					  .text = refusals[result].text,
					  .length = strlen(refusals[result].text)};
	return refusals[result].status;
}

static const char *read_query(struct MHD_Connection *connection, const char *name)
{
	return MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, name);
}

// A request without the header accepts any encoding.
static bool accepts_gzip(struct MHD_Connection *connection)
{
	const char *accepted =
		MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT_ENCODING);

	return !accepted || strstr(accepted, "gzip") || strchr(accepted, '*');
}

static unsigned find_document(const struct server_options *options, struct MHD_Connection *connection, const char *path,
			      bool is_public, struct document *ret_document)
{
	const struct document_request request = {.path = path,
						 .vgpu = read_query(connection, "vgpu"),
						 .figures = read_query(connection, "figures"),
						 .after = read_query(connection, "after"),
						 .most = read_query(connection, "most"),
						 .is_public = is_public,
						 .accepts_gzip = accepts_gzip(connection)};

	return document_find(&options->source, &request, ret_document);
}

static enum MHD_Result handle_request(void *server_, struct MHD_Connection *connection, const char *path,
				      const char *method, const char *version, const char *data, size_t *data_size,
				      void **state)
{
	static char begun;
	struct server *server = server_;
	const struct server_options *options = server->options;
	struct document document;
	unsigned status;

	if (!*state) { // the headers are not complete yet; libmicrohttpd calls this function again
		*state = &begun;
		return MHD_YES;
	}
	if (*data_size) { // the request has a body, which no valid request has
		*data_size = 0;
		return MHD_YES;
	}
	const struct guard_request request = {
		.method = method,
		.path = path,
		.host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST),
		.authorization =
			MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION),
		.is_trusted = is_trusted(server, connection)};
	enum guard_result result = guard_check(&options->guard, &request);
	if (result == GUARD_PUBLIC || result == GUARD_FULL)
		status = find_document(options, connection, path, result == GUARD_PUBLIC, &document);
	else
		status = refuse(result, &document);
	return send_answer(connection, status, &document);
}

struct server *server_start(int listener, const struct server_options *options)
{
	struct server *server = calloc(1, sizeof *server);

	if (!server)
		return NULL;
	server->options = options;
	pthread_mutex_init(&server->lock, NULL);
	server->http = MHD_start_daemon(
		MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, handle_request, server, MHD_OPTION_LISTEN_SOCKET,
		listener, MHD_OPTION_CONNECTION_LIMIT, (unsigned)SERVER_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
		(unsigned)SERVER_IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_MOST,
		MHD_OPTION_NOTIFY_CONNECTION, note_connection, server, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
	if (server->http)
		return server;
	server_stop(server);
	return NULL;
}

void server_end_old(struct server *server)
{
	time_t now = read_seconds();

	pthread_mutex_lock(&server->lock);
	for (struct client *client = server->clients; client; client = client->next)
		if (now - client->since >= SERVER_LONGEST_S)
			shutdown(client->fd, SHUT_RDWR); // libmicrohttpd notices the end, and closes the descriptor
	pthread_mutex_unlock(&server->lock);
}

void server_stop(struct server *server)
{
	if (!server)
		return;
	if (server->http)
		MHD_stop_daemon(server->http);
	while (server->clients)
		remove_client(server, server->clients);
	pthread_mutex_destroy(&server->lock);
	free(server);
}
