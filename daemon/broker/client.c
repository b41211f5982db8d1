// Handles the connections and the requests of clients.
#include "daemon/broker/broker.h"

#include "base/clock.h"
#include "daemon/answer.h"
#include "daemon/broker/open.h"
#include "daemon/broker/publication.h"
#include "daemon/broker/publish.h"
#include "daemon/broker/revoke.h"
#include "daemon/broker/session.h"
#include "daemon/broker/step.h"
#include "daemon/deadline.h"
#include "daemon/discard.h"
#include "daemon/process.h"
#include "daemon/request.h"
#include "daemon/say.h"
#include "daemon/source.h"
#include "daemon/user.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

static void end_session(struct node *node, struct session *session)
{
	struct session **link = &node->sessions;
	struct publication *publication = session->edition ? session->edition->publication : NULL;

	BROKER_STEP("a session is about to end");
	while (*link != session)
		link = &(*link)->next;
	*link = session->next;
	discard_source(node, &session->socket, session->peer.uid);
	source_close(node, &session->process);
	revoke_cancel(node, session);
	bool is_revoked = publication && publication->revoker; // a publication being revoked outlives its last edition
	session_leave_edition(node, session);
	if (is_revoked)
		revoke_check(node, publication);
	free(session);
}

enum order { REQUEST_FIRST, REQUEST_LATER }; // whether a request is the first one of its session

static void answer_request(struct node *node, struct session *session, const json_t *object, enum order order)
{
	static const struct {
		const char *op;
		enum order order;
		enum session_state state; // the state of the session in which the verb is allowed
		void (*begin)(struct session *session, const struct request *request);
	} ops[] = {
		{"publish", REQUEST_FIRST, SESSION_ENDED, publish_begin},
		{"open", REQUEST_FIRST, SESSION_ENDED, open_begin},
		{"revoke", REQUEST_FIRST, SESSION_ENDED, revoke_begin},
		{"commit", REQUEST_LATER, SESSION_REGISTERED, publish_commit},
		{"withdraw", REQUEST_LATER, SESSION_PUBLISHED, publish_withdraw},
	};
	struct request request = {.node = node, .peer = &session->peer, .object = object, .verb = AUTHORITY_REVOKE};
	const char *op = json_string_value(json_object_get(object, "op"));
	json_t *refusal = order == REQUEST_FIRST ? request_check_gpus(&request) : NULL;
	bool known = false;

	for (size_t i = 0; op && !refusal && i < sizeof ops / sizeof *ops; i++) {
		if (strcmp(op, ops[i].op) != 0 || ops[i].order != order || ops[i].state != session->state)
			continue;
		known = true;
		ops[i].begin(session, &request);
	}
	if (!known) {
		if (!refusal)
			refusal = refuse("invalid", "the request \"%.40s\" is not valid in this state of a session",
					 op ? op : "");
		revoke_cancel(node, session); // end the revocation that this session has requested
		session_answer(node, session, refusal, -1);
	}
}

// Receives the messages that the peer sent before it learned that the session has ended, to close their descriptors.
static void receive_rest(struct node *node, struct session *session)
{
	static char rest[2][SHARE_BODY_MAX]; // too large for the stack
	struct iovec parts[2] = {{rest[0], sizeof rest[0]}, {rest[1], sizeof rest[1]}};
	int descriptors[VG_WIRE_DESCRIPTORS_MAX];
	unsigned int count;
	ssize_t got = vg_wire_receive_raw(session->socket.fd, parts, descriptors, &count);

	for (unsigned int i = 0; got > 0 && i < count; i++)
		discard(descriptors[i]);
	if (got < 0 && got != -EAGAIN)
		end_session(node, session);
}

static void receive_request(struct node *node, struct session *session)
{
	static struct vg_wire_message message; // too large for the stack
	int r = vg_wire_receive(session->socket.fd, &message);

	if (r == -EAGAIN)
		return;
	for (unsigned int i = 0; r == 0 && i < message.descriptor_count; i++)
		discard(message.descriptors[i]); // requests need no descriptors
	if (r == -EPROTO || (r == 0 && message.type != VG_WIRE_SHARE))
		say("a malformed message from process %d of user %u: its session is over", (int)session->peer.pid,
		    (unsigned int)session->peer.uid);
	if (r < 0 || message.type != VG_WIRE_SHARE) {
		end_session(node, session);
		return;
	}
	json_t *request = json_loads(message.text, JSON_REJECT_DUPLICATES, NULL);
	answer_request(node, session, request, REQUEST_LATER);
	json_decref(request);
}

static void handle_events(struct node *node, struct session *session, uint32_t events)
{
	if (session->state == SESSION_RECEIVING) {
		if (!publish_receive_packet(node, session))
			end_session(node, session);
	} else if (session->state == SESSION_ENDED) {
		receive_rest(node, session);
	} else if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
		receive_request(node, session);
	} else if (session->state == SESSION_SENDING) {
		session_send_packets(node, session);
	}
}

static void socket_ready(struct node *node, struct source *source, uint32_t events)
{
	struct session *session = (struct session *)source;
	uid_t uid = session->peer.uid;
	uint64_t begun = vg_clock_monotonic_ns();

	discard_from(uid);
	if (user_waits_until(node, uid)) {
		source_ignore(node, source);
		session->rests = true;
		return;
	}
	if (discard_is_full(node, uid))
		end_session(node, session);
	else
		handle_events(node, session, events);
	user_charge_request(uid, begun);
}

static void process_ended(struct node *node, struct source *source, uint32_t events)
{
	end_session(node, (struct session *)((char *)source - offsetof(struct session, process)));
}

// Watches the peer's process: a lease ends with the process, although a forked child can keep the connection open.
static int watch_process(struct node *node, struct session *session)
{
	if (session->peer.pid <= 0)
		return 0; // the peer is in another pid namespace: only the connection is watched
	session->process.fd = process_open_peer(&session->peer);
	return session->process.fd < 0 ? session->process.fd : source_watch(node, &session->process, EPOLLIN);
}

// Sends the refusal and closes the connection. Creates no session, which would count against the user's limit.
static void refuse_session(int fd, json_t *refusal)
{
	char *text = json_dumps(refusal, JSON_COMPACT);

	discard_with_refusal(fd, text ? text : "{}");
	free(text);
	json_decref(refusal);
}

void broker_begin_session(struct node *node, int fd, const struct authority_peer *peer, const json_t *request)
{
	json_t *refusal = broker_check_room(node, peer->uid, &(struct usage){.descriptors = 2});
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
	r = source_watch(node, &session->socket, EPOLLIN);
	if (r == 0)
		r = watch_process(node, session);
	if (r < 0)
		end_session(node, session); // the process has ended, or no descriptor is left
	else
		answer_request(node, session, request, REQUEST_FIRST);
	BROKER_STEP("a session began");
}

void broker_expire_sessions(struct node *node, uint64_t now, uint64_t *deadline)
{
	for (struct session *session = node->sessions, *next; session; session = next) {
		next = session->next;
		uint64_t rests_until = session->rests ? user_waits_until(node, session->peer.uid) : 0;
		deadline_lower(deadline, rests_until);
		if (session->rests && !rests_until)
			session->rests = source_watch(node, &session->socket,
						      EPOLLIN | (session->state == SESSION_SENDING ? EPOLLOUT : 0)) < 0;
		if (session->deadline_ns && now >= session->deadline_ns) {
			if (session->state == SESSION_REVOKING)
				revoke_step(node, session);
			else
				end_session(node, session);
			// start again with the first session: the end of one session can end others
			broker_expire_sessions(node, now, deadline);
			return;
		}
		deadline_lower(deadline, session->deadline_ns);
	}
}
