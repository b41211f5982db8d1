// One request per connection: take it, answer, close. A peer that is slow, silent or malicious
// costs its own connection.
#include "base/clock.h"
#include "daemon/broker.h"
#include "daemon/process.h"
#include "daemon/subordinate.h"
#include "daemon/user.h"
#include "wire/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_CONNECTIONS = 512, PATIENCE_S = 10, ACCEPTS_A_TURN = 16 };

struct connection {
	struct source source;
	struct connection *next;
	struct authority_peer peer;
	uint64_t deadline_ns; // 0: it waits for its turn among its user's
	bool for_broker;
	bool rests;    // its user has had the loop's time for now
	char *request; // which is to be answered later; NULL: none
	const struct change *change; // whose end answers it; NULL: none
	char *answer; // NULL: the request has not come yet
	size_t length, sent;
};

// Reads from the connection from now on, unless enough of its user's are read already.
static int serve(struct node *node, struct connection *connection)
{
	struct user *user = user_of(connection->peer.uid);

	if (user_is_limited(node, user->uid) && user_total(user->uid).served >= USER_SERVED)
		return 0;
	int r = node_watch(node, &connection->source, EPOLLIN);
	if (r < 0)
		return r;
	user->served++;
	connection->deadline_ns = vg_clock_monotonic_ns() + PATIENCE_S * 1000000000ull;
	return 0;
}

static void serve_next(struct node *node, uid_t uid)
{
	struct connection *next = NULL;
	uid_t owner = user_owner(uid);

	for (struct connection *one = node->connections; one; one = one->next)
		if (!one->deadline_ns && user_owner(one->peer.uid) == owner)
			next = one; // the oldest is the last
	if (next && serve(node, next) < 0)
		say("a connection of user %u cannot be read: %m", (unsigned int)uid);
}

// Its descriptor stays open if it was taken away.
static void close_connection(struct node *node, struct connection *connection)
{
	struct user *user = user_of(connection->peer.uid);
	struct connection **link = &node->connections;

	while (*link != connection)
		link = &(*link)->next;
	*link = connection->next;
	node->connection_count--;
	user->connections--;
	user->served -= connection->deadline_ns != 0;
	discard_socket(node, &connection->source, user->uid);
	free(connection->request);
	free(connection->answer);
	free(connection);
	serve_next(node, user->uid);
}

// False: the connection is closed.
static bool send_answer(struct node *node, struct connection *connection)
{
	while (connection->sent < connection->length) {
		size_t rest = connection->length - connection->sent;
		size_t part = rest > VG_WIRE_TEXT_MAX ? VG_WIRE_TEXT_MAX : rest;
		int r = vg_wire_send(connection->source.fd, VG_WIRE_REPLY, part < rest ? VG_WIRE_MORE : 0,
				     connection->answer + connection->sent, part, NULL, 0);
		if (r == -EAGAIN && node_watch(node, &connection->source, EPOLLOUT) == 0)
			return true;
		if (r < 0)
			break;
		connection->sent += part;
	}
	close_connection(node, connection);
	return false;
}

// A tenant that has exported memory sends one descriptor along.
static void take_hello(struct node *node, const struct connection *connection, const struct vg_wire_hello *hello,
		       int exports)
{
	struct vgpu *vgpu = registry_find(node, hello->ledger);
	struct vg_ledger_owner owner = {hello->pid, hello->pid_namespace, hello->start_time};

	if (vgpu && authority_allows(AUTHORITY_ENTER, authority_classify(&connection->peer, vgpu->owner, vgpu->group)))
		tenant_hello(node, vgpu, &owner, &connection->peer, exports);
	else if (exports >= 0)
		discard(exports);
}

// The broker's connections go on: it takes this one over.
static void begin_session(struct node *node, struct connection *connection, const char *text)
{
	int fd = connection->source.fd;
	struct authority_peer peer = connection->peer;

	node_leave(node, &connection->source);
	connection->source.fd = -1;
	close_connection(node, connection);
	session_begin(node, fd, &peer, text);
}

// Frees `answer`. False: the connection is closed.
static bool give_answer(struct node *node, struct connection *connection, json_t *answer)
{
	connection->answer = json_dumps(answer, JSON_COMPACT);
	json_decref(answer);
	connection->length = connection->answer ? strlen(connection->answer) : 0;
	return send_answer(node, connection);
}

// False: the connection is closed.
static bool answer_request(struct node *node, struct connection *connection, const char *text)
{
	json_t *answer = NULL;

	node->change = NULL;
	if (connection->for_broker && request_is_ready(node, &connection->peer, text)) {
		begin_session(node, connection, text);
		return false;
	}
	if (!connection->for_broker)
		answer = request_answer(node, &connection->peer, text);
	if (!answer && node->change)
		connection->change = node->change;
	else if (!answer)
		connection->request = strdup(text);
	if (connection->change || connection->request) {
		node_leave(node, &connection->source); // nothing more is read until then
		return true;
	}
	return give_answer(node, connection, answer);
}

void connection_finish(struct node *node, const struct change *change, json_t *answer)
{
	struct connection *connection = node->connections;

	while (connection && connection->change != change)
		connection = connection->next;
	if (!connection) {
		json_decref(answer);
		return;
	}
	connection->change = NULL;
	discard_from(connection->peer.uid);
	give_answer(node, connection, answer);
}

static void take_request(struct node *node, struct connection *connection)
{
	static struct vg_wire_message message; // one thread
	int r = vg_wire_receive(connection->source.fd, &message);

	if (r == -EAGAIN)
		return;
	if (r == -EPROTO)
		say("a malformed message from process %d of user %u: connection closed", (int)connection->peer.pid,
		    (unsigned int)connection->peer.uid);
	int first = r == 0 && message.descriptor_count ? message.descriptors[0] : -1;
	if (r == 0)
		for (unsigned int i = 1; i < message.descriptor_count; i++)
			discard(message.descriptors[i]); // no request takes more than one
	if (r == 0 && message.type == VG_WIRE_HELLO)
		take_hello(node, connection, &message.hello, first);
	else if (first >= 0)
		discard(first);
	if (r == 0 && message.type == VG_WIRE_GUEST && guest_answer(node, &connection->peer, &message.guest) &&
	    vg_wire_send(connection->source.fd, VG_WIRE_GUEST, 0, &message.guest, sizeof message.guest, NULL, 0) < 0)
		guest_undo(node, &message.guest);
	connection->for_broker = r == 0 && message.type == VG_WIRE_SHARE;
	if (r < 0 || (message.type != VG_WIRE_ADMIN && !connection->for_broker)) {
		close_connection(node, connection);
		return;
	}
	answer_request(node, connection, message.text);
}

void connection_retry(struct node *node)
{
	for (struct connection *connection = node->connections; connection; connection = connection->next) {
		char *request = connection->request;
		if (!request)
			continue;
		connection->request = NULL;
		if (!answer_request(node, connection, request))
			node->retry = true; // it was closed, and with it perhaps the next one: the loop comes again
		free(request);
		if (node->retry)
			return;
	}
}

// A tenant's own word is answered at once: it waits 20 ms for it, and no longer.
static bool is_tenants_word(int fd)
{
	struct vg_wire_header header;

	return recv(fd, &header, sizeof header, MSG_PEEK | MSG_DONTWAIT) == sizeof header &&
	       (header.type == VG_WIRE_HELLO || header.type == VG_WIRE_GUEST);
}

static void connection_ready(struct node *node, struct source *source, uint32_t events)
{
	struct connection *connection = (struct connection *)source;

	uid_t uid = connection->peer.uid;
	uint64_t begun = vg_clock_monotonic_ns();

	discard_from(uid);
	if (user_waits_until(node, uid) && (connection->answer || !is_tenants_word(source->fd))) {
		node_leave(node, source);
		connection->rests = true;
		return;
	}
	if (connection->answer)
		send_answer(node, connection);
	else if (discard_is_full(node, connection->peer.uid))
		close_connection(node, connection);
	else
		take_request(node, connection);
	user_charge_request(uid, begun);
}

void connection_refuse(int fd, const char *text)
{
	static struct vg_wire_message message; // one thread

	// A request that is left unread would reset the connection, and take the answer with it.
	shutdown(fd, SHUT_RD);
	if (vg_wire_receive(fd, &message) == 0)
		for (unsigned int i = 0; i < message.descriptor_count; i++)
			discard(message.descriptors[i]);
	vg_wire_send(fd, VG_WIRE_REPLY, 0, text, strlen(text), NULL, 0);
	discard_unread(fd);
}

// Takes `fd`.
static void open_connection(struct node *node, int fd)
{
	struct connection *connection = calloc(1, sizeof *connection);

	if (!connection || authority_read_peer(fd, &connection->peer) < 0) {
		free(connection);
		close(fd);
		return;
	}
	subordinate_refresh();
	struct user *user = user_of(connection->peer.uid);
	bool limited = user_is_limited(node, user->uid);
	connection->source = (struct source){fd, connection_ready, true, user_owner(user->uid)};
	discard_from(user->uid);
	if (discard_is_full(node, user->uid)) {
		discard_unread(fd);
		free(connection);
		return;
	}
	if (limited && user_total(user->uid).connections >= USER_CONNECTIONS) {
		connection_refuse(fd, "{\"ok\":false,\"code\":\"busy\",\"message\":\"you have too many connections to the "
				      "daemon: try again when some of your programs have their answers\"}");
		free(connection);
		return;
	}
	connection->peer.start_time = process_start_of_peer(&connection->peer);
	connection->next = node->connections;
	node->connections = connection;
	node->connection_count++;
	user->connections++;
	if (serve(node, connection) < 0)
		close_connection(node, connection);
}

// With the last descriptor: whoever connects hears why it gets no answer.
static void turn_away(struct node *node)
{
	close(node->spare);
	int fd = accept4(node->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0)
		connection_refuse(fd, "{\"ok\":false,\"code\":\"busy\",\"message\":\"the daemon has no descriptor left: "
				      "try again, or raise its limit (LimitNOFILE, ulimit -Hn where it was started)\"}");
	node->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

void connection_accept(struct node *node)
{
	for (int i = 0; i < ACCEPTS_A_TURN && node->connection_count < MOST_CONNECTIONS; i++) {
		int fd = accept4(node->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0 && (errno == EMFILE || errno == ENFILE) && node->connections)
			break;
		if (fd < 0 && (errno == EMFILE || errno == ENFILE))
			turn_away(node);
		if (fd < 0)
			return;
		open_connection(node, fd);
		if (i == ACCEPTS_A_TURN - 1)
			return; // the loop comes back for more
	}
	// No room: the oldest has had its chance.
	struct connection *oldest = node->connections;
	while (oldest->next)
		oldest = oldest->next;
	close_connection(node, oldest);
}

void connection_expire(struct node *node, uint64_t now, uint64_t *deadline)
{
	for (struct connection *connection = node->connections; connection; connection = connection->next) {
		uint64_t rests_until = connection->rests ? user_waits_until(node, connection->peer.uid) : 0;
		if (rests_until && (!*deadline || rests_until < *deadline))
			*deadline = rests_until;
		if (connection->rests && !rests_until)
			connection->rests =
				node_watch(node, &connection->source, connection->answer ? EPOLLOUT : EPOLLIN) < 0;
		if (!connection->deadline_ns || connection->change)
			continue;
		if (now >= connection->deadline_ns) {
			close_connection(node, connection);
			connection_expire(node, now, deadline); // another one may be served in its place
			return;
		}
		if (!*deadline || connection->deadline_ns < *deadline)
			*deadline = connection->deadline_ns;
	}
}
