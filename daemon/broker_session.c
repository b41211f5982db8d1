// A connection to the broker: one that publishes, reads, or revokes. Whatever the peer does or leaves costs only this
// session; nothing here waits for it.
#include "base/clock.h"
#include "daemon/broker.h"
#include "daemon/process.h"
#include "daemon/user.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

static uint64_t patience(void)
{
	return vg_clock_monotonic_ns() + BROKER_PATIENCE_S * 1000000000ull;
}

void session_end(struct node *node, struct session *session)
{
	struct session **link = &node->sessions;
	struct edition *edition = session->edition;

	BROKER_STEP("a session is about to end");
	while (*link != session)
		link = &(*link)->next;
	*link = session->next;
	discard_socket(node, &session->socket, session->peer.uid);
	node_unwatch(node, &session->process);
	revoke_stop(node, session);
	if (edition && edition->publisher == session) {
		edition_withdraw(node, edition);
		edition->publisher = NULL;
		edition_release(node, edition);
	} else if (edition) {
		struct publication *publication = edition->publication;
		edition->leases--;
		if (publication->revoker)
			revoke_look(node, publication);
		edition_release(node, edition);
	}
	free(session);
}

void session_answer(struct node *node, struct session *session, json_t *answer, int descriptor)
{
	char *text = answer ? json_dumps(answer, JSON_COMPACT) : NULL;
	bool agreed = json_is_true(json_object_get(answer, "ok"));

	json_decref(answer);
	// A peer that does not take a word of this size has not taken many before: it is on its way out.
	if (text &&
	    vg_wire_send(session->socket.fd, VG_WIRE_REPLY, 0, text, strlen(text), &descriptor, descriptor >= 0) < 0)
		shutdown(session->socket.fd, SHUT_RDWR);
	free(text);
	if (agreed)
		return;
	revoke_stop(node, session); // who revokes and says something else has ended that
	session->state = SESSION_ENDED;
	session->deadline_ns = patience();
	struct edition *edition = session->edition;
	if (edition && edition->publisher == session) {
		edition_withdraw(node, edition);
		edition->publisher = NULL;
	} else if (edition) {
		edition->leases--;
	}
	session->edition = NULL;
	if (edition)
		edition_release(node, edition);
}

void session_tell(struct session *session, enum vg_wire_event_kind kind, uint64_t generation, uint64_t deadline_ns)
{
	struct vg_wire_event event = {.kind = kind, .generation = generation, .deadline_ns = deadline_ns};

	// Whoever does not take its words finds the page, which has it all.
	vg_wire_send(session->socket.fd, VG_WIRE_EVENT, 0, &event, sizeof event, NULL, 0);
}

// As it came, but that a lease for reading says so.
static int send_packet(const struct session *session, const struct packet *packet)
{
	static char body[SHARE_BODY_MAX]; // one thread
	struct share_entry entry;

	memcpy(body, packet->body, packet->header.size);
	for (unsigned int i = 0; i < packet->header.count; i++) {
		memcpy(&entry, body + i * sizeof entry, sizeof entry);
		entry.access = session->access;
		memcpy(body + i * sizeof entry, &entry, sizeof entry);
	}
	return vg_wire_send_raw(session->socket.fd, &packet->header, sizeof packet->header, body, packet->header.size,
				packet->descriptors, packet->header.count);
}

void session_send_packets(struct node *node, struct session *session)
{
	while (session->to_send) {
		const struct packet *packet = session->to_send;
		int r = send_packet(session, packet);
		if (r == -EAGAIN) {
			node_watch(node, &session->socket, EPOLLIN | EPOLLOUT);
			return;
		}
		if (r < 0) {
			shutdown(session->socket.fd, SHUT_RDWR); // the loop sees it end
			return;
		}
		session->to_send = packet->next;
		BROKER_STEP("a packet went to a reader");
	}
	node_watch(node, &session->socket, EPOLLIN);
	session->state = SESSION_READING;
	session->deadline_ns = 0;
}

static void answer_request(struct node *node, struct session *session, const char *text, bool first)
{
	static const struct {
		const char *op;
		bool first;
		enum session_state state; // what it is good in
		void (*begin)(struct session *session, const struct request *request);
	} ops[] = {
		{"publish", true, SESSION_ENDED, publish_begin},
		{"open", true, SESSION_ENDED, open_begin},
		{"revoke", true, SESSION_ENDED, revoke_begin},
		{"commit", false, SESSION_REGISTERED, publish_commit},
		{"withdraw", false, SESSION_PUBLISHED, publish_withdraw},
	};
	json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	struct request request = {.node = node, .peer = &session->peer, .object = object, .verb = AUTHORITY_REVOKE};
	const char *op = json_string_value(json_object_get(object, "op"));
	json_t *refusal = first ? other_gpus(&request) : NULL;
	bool known = false;

	for (size_t i = 0; op && !refusal && i < sizeof ops / sizeof *ops; i++) {
		if (strcmp(op, ops[i].op) != 0 || ops[i].first != first || ops[i].state != session->state)
			continue;
		known = true;
		ops[i].begin(session, &request);
	}
	if (!known)
		session_answer(node, session,
			       refusal ? refusal
				       : refuse("invalid",
						"the broker is asked for \"%.40s\", which makes no sense here",
						op ? op : ""),
			       -1);
	json_decref(object);
}

// It was told that this is over: what it had sent before it heard is left unread no more than its descriptors open.
static void take_rest(struct node *node, struct session *session)
{
	static char rest[2][SHARE_BODY_MAX]; // one thread
	struct iovec parts[2] = {{rest[0], sizeof rest[0]}, {rest[1], sizeof rest[1]}};
	int descriptors[VG_WIRE_DESCRIPTORS_MAX];
	unsigned int count;
	ssize_t got = vg_wire_receive_raw(session->socket.fd, parts, descriptors, &count);

	for (unsigned int i = 0; got > 0 && i < count; i++)
		discard(descriptors[i]);
	if (got < 0 && got != -EAGAIN)
		session_end(node, session);
}

static void take_word(struct node *node, struct session *session)
{
	static struct vg_wire_message message; // one thread
	int r = vg_wire_receive(session->socket.fd, &message);

	if (r == -EAGAIN)
		return;
	for (unsigned int i = 0; r == 0 && i < message.descriptor_count; i++)
		discard(message.descriptors[i]); // these words come without
	if (r == -EPROTO || (r == 0 && message.type != VG_WIRE_SHARE))
		say("a malformed message from process %d of user %u: its session is over", (int)session->peer.pid,
		    (unsigned int)session->peer.uid);
	if (r < 0 || message.type != VG_WIRE_SHARE)
		session_end(node, session);
	else
		answer_request(node, session, message.text, false);
}

static void socket_ready(struct node *node, struct source *source, uint32_t events)
{
	struct session *session = (struct session *)source;

	uid_t uid = session->peer.uid;
	uint64_t begun = vg_clock_monotonic_ns();

	discard_from(uid);
	if (user_waits_until(node, uid)) {
		node_leave(node, source);
		session->rests = true;
		return;
	}
	if (discard_is_full(node, uid))
		session_end(node, session);
	else if (session->state == SESSION_RECEIVING)
		publish_take_packet(node, session);
	else if (session->state == SESSION_ENDED)
		take_rest(node, session);
	else if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		take_word(node, session);
	else if (session->state == SESSION_SENDING)
		session_send_packets(node, session);
	user_charge_request(uid, begun);
}

static void process_ended(struct node *node, struct source *source, uint32_t events)
{
	session_end(node, (struct session *)((char *)source - offsetof(struct session, process)));
}

// A forked child may keep the connection open; the lease is the process's.
static int watch_process(struct node *node, struct session *session)
{
	if (session->peer.pid <= 0)
		return 0; // of another pid namespace: the connection must do
	session->process.fd = process_open_peer(&session->peer);
	return session->process.fd < 0 ? session->process.fd : node_watch(node, &session->process, EPOLLIN);
}

// Says no at once: what waits to be told, or to hear it, is counted nowhere.
static void refuse_session(int fd, json_t *refusal)
{
	char *text = json_dumps(refusal, JSON_COMPACT);

	connection_refuse(fd, text ? text : "{}");
	free(text);
	json_decref(refusal);
}

void session_begin(struct node *node, int fd, const struct authority_peer *peer, const char *text)
{
	json_t *refusal = broker_room(node, peer->uid, &(struct usage){.descriptors = 2});
	struct session *session = refusal ? NULL : calloc(1, sizeof *session);
	int r;

	discard_from(peer->uid);
	if (!session) {
		refuse_session(fd, refusal ? refusal : refuse("system", "the daemon has no memory for a session"));
		return;
	}
	session->socket = (struct source){fd, socket_ready, true, user_owner(peer->uid)};
	session->process = (struct source){-1, process_ended, true, user_owner(peer->uid)};
	session->peer = *peer;
	session->since = (double)vg_clock_realtime_ns() / 1e9;
	session->state = SESSION_ENDED;
	session->next = node->sessions;
	node->sessions = session;
	r = node_watch(node, &session->socket, EPOLLIN);
	if (r == 0)
		r = watch_process(node, session);
	if (r < 0)
		session_end(node, session); // it is gone already, or there are no descriptors
	else
		answer_request(node, session, text, true);
	BROKER_STEP("a session began");
}

void session_expire_all(struct node *node, uint64_t now, uint64_t *deadline)
{
	for (struct session *session = node->sessions, *next; session; session = next) {
		next = session->next;
		uint64_t rests_until = session->rests ? user_waits_until(node, session->peer.uid) : 0;
		if (rests_until && (!*deadline || rests_until < *deadline))
			*deadline = rests_until;
		if (session->rests && !rests_until)
			session->rests = node_watch(node, &session->socket,
						    EPOLLIN | (session->state == SESSION_SENDING ? EPOLLOUT : 0)) < 0;
		if (session->deadline_ns && now >= session->deadline_ns) {
			if (session->state == SESSION_REVOKING)
				revoke_step(node, session);
			else
				session_end(node, session);
			session_expire_all(node, now, deadline); // either may have ended others
			return;
		}
		if (session->deadline_ns && (!*deadline || session->deadline_ns < *deadline))
			*deadline = session->deadline_ns;
	}
}
