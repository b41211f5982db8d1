// Receives one request on each connection, answers it, and closes the connection. A slow, silent or malicious peer
// harms only its own connection.
#include "daemon/connection.h"

#include "base/clock.h"
#include "daemon/answer.h"
#include "daemon/broker/broker.h"
#include "daemon/deadline.h"
#include "daemon/discard.h"
#include "daemon/guests.h"
#include "daemon/journal.h"
#include "daemon/json_text.h"
#include "daemon/process.h"
#include "daemon/registration.h"
#include "daemon/save.h"
#include "daemon/say.h"
#include "daemon/source.h"
#include "daemon/subordinate.h"
#include "daemon/user.h"
#include "daemon/verbs.h"
#include "wire/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_CONNECTIONS = 512, PATIENCE_S = 10, ACCEPTS_A_TURN = 16, QUEUE_MS = 1000 };

struct connection {
	struct source source;
	struct connection *next;
	struct authority_peer peer;
	// the daemon waits for the peer until this time; 0: the connection is not read yet, because its user already
	// has as many connections as the loop reads at a time
	uint64_t deadline_ns;
	bool for_broker;
	// the request waits, because its user has used up the user's part of the loop's time
	bool rests;
	json_t *request;	     // the request, if it must be handled again later; else NULL
	const struct change *change; // the change that must be on disk before the request is answered; NULL: none
	char *answer;		     // the answer to be sent; NULL: there is no answer yet
	size_t length, sent;
	// These members are for a request that waits for room on a GPU (request_queue.c):
	uint64_t ticket; // position in the queue, the lowest first; 0: the request was never in the queue
	uint64_t wanted; // the devices that the request waits for, as bits
	bool is_waiting; // the request is in the queue
	bool is_over;	 // the request has waited long enough
	// when the request entered the queue; 0: it never did, or the journal already has the event that it has left
	uint64_t queued_ns;
	char vgpu[VG_LEDGER_NAME]; // the name of the vGPU that the request would create
};

static uint64_t last_ticket;

// Sets whether the request waits in the queue, and for which devices. Also updates the daemon's counts of waiting
// requests.
static void set_wanted(struct node *node, struct connection *connection, bool is_waiting, uint64_t wanted)
{
	for (size_t i = 0; i < VG_SYSTEM_DEVICES; i++) {
		node->waiting[i] += (unsigned int)(wanted >> i & 1);
		node->waiting[i] -= (unsigned int)(connection->wanted >> i & 1);
	}
	node->waiting_count += is_waiting;
	node->waiting_count -= connection->is_waiting;
	connection->wanted = wanted;
	connection->is_waiting = is_waiting;
}

// Returns, as bits, the devices that requests before this one in the queue wait for.
static uint64_t find_blocked(const struct node *node, const struct connection *connection)
{
	uint64_t blocked = 0;

	for (const struct connection *one = node->connections; one; one = one->next)
		if (one != connection && one->ticket && (!connection->ticket || one->ticket < connection->ticket))
			blocked |= one->wanted;
	return blocked;
}

// Begins to read from the connection, unless its user already has as many served connections as allowed. Returns 0 or
// -errno.
static int serve_connection(struct node *node, struct connection *connection)
{
	struct user *user = user_of(connection->peer.uid);

	if (user_is_limited(node, user->uid) && user_total(user->uid).served >= USER_SERVED)
		return 0;
	int r = source_watch(node, &connection->source, EPOLLIN);
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
			next = one; // the oldest connection is last in the list
	if (next && serve_connection(node, next) < 0)
		say("a connection of user %u cannot be read: %m", (unsigned int)uid);
}

static void note_queued(struct node *node, struct connection *connection, uint64_t now)
{
	connection->queued_ns = now;
	snprintf(connection->vgpu, sizeof connection->vgpu, "%s", node->queue.vgpu);
	journal_add(node, JOURNAL_QUEUED, &(struct journal_note){.name = connection->vgpu, .actor = &connection->peer},
		    "%s", node->queue.reason);
}

// Adds an event to the journal: the request has left the queue. Does nothing if there is such an event already.
// `answer` is NULL if the connection is closed without an answer.
static void note_dequeued(struct node *node, struct connection *connection, const json_t *answer)
{
	if (!connection->queued_ns)
		return;
	bool is_admitted = json_is_true(json_object_get(answer, "ok"));
	unsigned int seconds = (unsigned int)((vg_clock_monotonic_ns() - connection->queued_ns) / 1000000000);
	journal_add(node, JOURNAL_DEQUEUED,
		    &(struct journal_note){.name = connection->vgpu, .actor = &connection->peer}, "%s after %u s%s",
		    is_admitted ? "admitted"
		    : answer	? "refused"
				: "left",
		    seconds, answer ? "" : ": the client or the daemon has ended");
	connection->queued_ns = 0;
}

// Closes and frees the connection. Leaves the descriptor open if the broker has taken it over.
static void close_connection(struct node *node, struct connection *connection)
{
	struct user *user = user_of(connection->peer.uid);
	struct connection **link = &node->connections;

	note_dequeued(node, connection, NULL);
	while (*link != connection)
		link = &(*link)->next;
	*link = connection->next;
	node->connection_count--;
	user->connections--;
	user->served -= connection->deadline_ns != 0 && !connection->ticket;
	if (connection->is_waiting) {
		set_wanted(node, connection, false, 0);
		node->must_retry = true; // requests behind this one in the queue may get the room now
	}
	discard_source(node, &connection->source, user->uid);
	json_decref(connection->request);
	free(connection->answer);
	free(connection);
	serve_next(node, user->uid);
}

// Sends as much of the answer as the socket accepts. Returns false if the connection was closed.
static bool send_answer(struct node *node, struct connection *connection)
{
	while (connection->sent < connection->length) {
		size_t rest = connection->length - connection->sent;
		size_t part = rest > VG_WIRE_TEXT_MAX ? VG_WIRE_TEXT_MAX : rest;
		int r = vg_wire_send(connection->source.fd, VG_WIRE_REPLY, part < rest ? VG_WIRE_MORE : 0,
				     connection->answer + connection->sent, part, NULL, 0);
		if (r == -EAGAIN && source_watch(node, &connection->source, EPOLLOUT) == 0)
			return true;
		if (r < 0)
			break;
		connection->sent += part;
	}
	close_connection(node, connection);
	return false;
}

// Gives the connection to the broker.
static void begin_session(struct node *node, struct connection *connection, const json_t *request)
{
	int fd = connection->source.fd;
	struct authority_peer peer = connection->peer;

	source_ignore(node, &connection->source);
	connection->source.fd = -1;
	close_connection(node, connection);
	broker_begin_session(node, fd, &peer, request);
}

// Sends and frees the answer. Returns false if the connection was closed.
static bool begin_answer(struct node *node, struct connection *connection, json_t *answer)
{
	connection->answer = json_dumps(answer, JSON_COMPACT);
	json_decref(answer);
	connection->length = connection->answer ? strlen(connection->answer) : 0;
	return send_answer(node, connection);
}

// Puts the request into the queue for room, or keeps it there. A queued request does not count as served, so another
// connection of its user is served now. The connection is watched, so that the request leaves the queue when its client
// ends.
static void keep_in_queue(struct node *node, struct connection *connection)
{
	uint64_t now = vg_clock_monotonic_ns(), wait_ns = node->queue.wait_ns;

	if (!connection->ticket) {
		connection->ticket = ++last_ticket;
		user_of(connection->peer.uid)->served--;
		connection->deadline_ns = wait_ns < UINT64_MAX - now ? now + wait_ns : UINT64_MAX;
		note_queued(node, connection, now);
		serve_next(node, connection->peer.uid);
	}
	set_wanted(node, connection, true, node->queue.wanted);
	if (source_watch(node, &connection->source, EPOLLRDHUP) < 0)
		say("a connection of user %u that waits for room cannot be watched: %m",
		    (unsigned int)connection->peer.uid);
}

// Ends the request's time in the queue: its answer is sent like any other.
static void leave_queue(struct node *node, struct connection *connection, const json_t *answer)
{
	if (!connection->ticket)
		return;
	note_dequeued(node, connection, answer);
	set_wanted(node, connection, false, 0);
	connection->deadline_ns = vg_clock_monotonic_ns() + PATIENCE_S * 1000000000ull;
	node->must_retry |= node->waiting_count > 0;
}

// Answers the request, or keeps a reference to it until it can be answered. Returns false if the connection was closed.
static bool answer_request(struct node *node, struct connection *connection, json_t *request)
{
	json_t *answer = NULL;

	node->change = NULL;
	node->queue = (struct queue){.blocked = find_blocked(node, connection), .is_over = connection->is_over};
	if (connection->for_broker && verbs_are_ready(&connection->peer, request)) {
		begin_session(node, connection, request);
		return false;
	}
	if (!connection->for_broker)
		answer = verbs_answer(node, &connection->peer, request);
	if (answer) {
		leave_queue(node, connection, answer);
		return begin_answer(node, connection, answer);
	}
	if (node->change)
		connection->change = node->change;
	else
		connection->request = json_incref(request);
	if (connection->request && (node->queue.must_wait || connection->is_waiting)) {
		if (node->queue.must_wait)
			keep_in_queue(node, connection);
		return true;
	}
	source_ignore(node, &connection->source);
	return true;
}

void connection_finish(struct node *node, const struct change *change, int error)
{
	struct connection *connection = node->connections;

	json_begin_answer();
	json_t *answer = change->finish(node, change, error);

	while (connection && connection->change != change)
		connection = connection->next;
	if (!connection) {
		json_decref(answer);
		return;
	}
	connection->change = NULL;
	discard_from(connection->peer.uid);
	note_dequeued(node, connection, answer);
	begin_answer(node, connection, answer);
}

static void answer_guest(struct node *node, const struct connection *connection, struct vg_wire_guest *guest)
{
	if (guests_answer(node, &connection->peer, guest) &&
	    vg_wire_send(connection->source.fd, VG_WIRE_GUEST, 0, guest, sizeof *guest, NULL, 0) < 0)
		guests_undo(node, guest);
}

// Handles a message of a tenant. Only a registration may have a descriptor. Closes all others.
static void handle_tenant_message(struct node *node, const struct connection *connection,
				  struct vg_wire_message *message)
{
	int first = message->descriptor_count ? message->descriptors[0] : -1;

	for (unsigned int i = 1; i < message->descriptor_count; i++)
		discard(message->descriptors[i]); // each message has at most one descriptor that is used
	if (message->type == VG_WIRE_REGISTRATION)
		registration_handle(node, &message->registration, &connection->peer, first);
	else if (first >= 0)
		discard(first);
	if (message->type == VG_WIRE_GUEST)
		answer_guest(node, connection, &message->guest);
}

static void receive_request(struct node *node, struct connection *connection, const char *text)
{
	json_error_t error;
	json_t *request = json_loads(text, JSON_REJECT_DUPLICATES, &error);

	// pass invalid JSON to the broker as JSON null: the broker has its own message for that
	if (request || connection->for_broker)
		answer_request(node, connection, request ? request : json_null());
	else
		begin_answer(node, connection, refuse("invalid", "the request is not a JSON object: %s", error.text));
	json_decref(request);
}

static void receive_message(struct node *node, struct connection *connection)
{
	static struct vg_wire_message message; // too large for the stack
	int r = vg_wire_receive(connection->source.fd, &message);

	if (r == -EAGAIN)
		return;
	if (r == -EPROTO)
		say("a malformed message from process %d of user %u: connection closed", (int)connection->peer.pid,
		    (unsigned int)connection->peer.uid);
	if (r == 0)
		handle_tenant_message(node, connection, &message);
	connection->for_broker = r == 0 && message.type == VG_WIRE_SHARE;
	if (r < 0 || (message.type != VG_WIRE_ADMIN && !connection->for_broker))
		close_connection(node, connection);
	else
		receive_request(node, connection, message.text);
}

// Repeats the request. Returns false if the connection was closed.
static bool repeat_request(struct node *node, struct connection *connection)
{
	json_t *request = connection->request;

	connection->request = NULL;
	bool is_open = answer_request(node, connection, request);
	json_decref(request);
	return is_open;
}

// Returns the first request in the queue behind `ticket`; NULL: no request is behind it.
static struct connection *next_in_queue(const struct node *node, uint64_t ticket)
{
	struct connection *next = NULL;

	for (struct connection *one = node->connections; one; one = one->next)
		if (one->request && one->ticket > ticket && (!next || one->ticket < next->ticket))
			next = one;
	return next;
}

// Repeats the requests in the queue, in their order. Skips a request if earlier requests wait for all devices that it
// waits for.
static void retry_queue(struct node *node)
{
	struct connection *connection = next_in_queue(node, 0);

	while (connection && !node->must_retry) {
		uint64_t ticket = connection->ticket;
		bool is_blocked = connection->wanted && !(connection->wanted & ~find_blocked(node, connection));
		if (!is_blocked || connection->is_over)
			repeat_request(node, connection);
		connection = next_in_queue(node, ticket);
	}
}

void connection_retry(struct node *node)
{
	for (struct connection *connection = node->connections; connection; connection = connection->next) {
		if (!connection->request || connection->ticket)
			continue;
		if (!repeat_request(node, connection))
			node->must_retry = true; // a connection may have been freed: the loop calls this function again
		if (node->must_retry)
			return;
	}
	retry_queue(node);
}

// Returns whether the next message is from a tenant. Such a message is never delayed: the tenant waits at most 20 ms.
static bool is_from_tenant(int fd)
{
	struct vg_wire_header header;

	return recv(fd, &header, sizeof header, MSG_PEEK | MSG_DONTWAIT) == sizeof header &&
	       (header.type == VG_WIRE_REGISTRATION || header.type == VG_WIRE_GUEST);
}

static void connection_ready(struct node *node, struct source *source, uint32_t events)
{
	struct connection *connection = (struct connection *)source;

	if (connection->request && connection->ticket) { // the client has ended, and leaves the queue
		close_connection(node, connection);
		return;
	}
	uid_t uid = connection->peer.uid;
	uint64_t begun = vg_clock_monotonic_ns();

	discard_from(uid);
	if (user_waits_until(node, uid) && (connection->answer || !is_from_tenant(source->fd))) {
		source_ignore(node, source);
		connection->rests = true;
		return;
	}
	if (connection->answer)
		send_answer(node, connection);
	else if (discard_is_full(node, connection->peer.uid))
		close_connection(node, connection);
	else
		receive_message(node, connection);
	user_charge_request(uid, begun);
}

// Begins to serve a new connection. Takes its descriptor `fd`.
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
		discard_connection(fd);
		free(connection);
		return;
	}
	if (limited && user_total(user->uid).connections >= USER_CONNECTIONS) {
		discard_with_refusal(
			fd, "{\"ok\":false,\"code\":\"busy\",\"message\":\"you have too many connections to the "
			    "daemon: try again when some of your programs have their answers\"}");
		free(connection);
		return;
	}
	connection->peer.start_time = process_start_of_peer(&connection->peer);
	connection->next = node->connections;
	node->connections = connection;
	node->connection_count++;
	user->connections++;
	if (serve_connection(node, connection) < 0)
		close_connection(node, connection);
}

// Refuses a connection while no descriptor is free: closes the spare descriptor, accepts the connection, and refuses
// it.
static void refuse_connection(struct node *node)
{
	close(node->spare);
	int fd = accept4(node->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0)
		discard_with_refusal(fd,
				     "{\"ok\":false,\"code\":\"busy\",\"message\":\"the daemon has no descriptor left: "
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
			refuse_connection(node);
		if (fd < 0)
			return;
		open_connection(node, fd);
		if (i == ACCEPTS_A_TURN - 1)
			return; // the loop calls this function again for further connections
	}
	// There is no room for more connections, so the oldest is closed.
	struct connection *oldest = NULL;
	for (struct connection *one = node->connections; one; one = one->next)
		if (!oldest || !one->is_waiting || oldest->is_waiting)
			oldest = one; // prefer a connection that is not queued, even if a queued one is older
	close_connection(node, oldest);
}

static void close_queue(struct node *node)
{
	struct connection *connection = node->connections;

	while (connection) {
		struct connection *next = connection->next;
		if (connection->is_waiting)
			close_connection(node, connection);
		connection = next;
	}
}

// Repeats the requests in the queue from time to time. Daemons of other users do not notify this daemon when they
// release memory.
static void poll_queue(struct node *node, uint64_t now, uint64_t *deadline)
{
	static uint64_t next_ns;

	if (!node->waiting_count)
		return;
	if (node->is_leaving) { // the clients enter the queue of the next daemon
		close_queue(node);
		return;
	}
	if (now >= next_ns) {
		next_ns = now + QUEUE_MS * 1000000ull;
		node->must_retry = true;
	}
	deadline_lower(deadline, next_ns);
}

// Ends the waiting of a request that has been in the queue for long enough. The request is handled once more, and then
// refused if there is no room.
static void end_wait(struct node *node, struct connection *connection)
{
	connection->is_over = true;
	connection->deadline_ns = UINT64_MAX;
	node->must_retry = true;
}

void connection_expire(struct node *node, uint64_t now, uint64_t *deadline)
{
	poll_queue(node, now, deadline);
	for (struct connection *connection = node->connections; connection; connection = connection->next) {
		uint64_t rests_until = connection->rests ? user_waits_until(node, connection->peer.uid) : 0;
		deadline_lower(deadline, rests_until);
		if (connection->rests && !rests_until)
			connection->rests =
				source_watch(node, &connection->source, connection->answer ? EPOLLOUT : EPOLLIN) < 0;
		if (!connection->deadline_ns || connection->change)
			continue;
		if (now >= connection->deadline_ns && connection->is_waiting) {
			end_wait(node, connection);
			continue;
		}
		if (now >= connection->deadline_ns) {
			close_connection(node, connection);
			connection_expire(node, now, deadline); // a connection that waited may be served now
			return;
		}
		deadline_lower(deadline, connection->deadline_ns);
	}
}
