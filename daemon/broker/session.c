#include "daemon/broker/session.h"

#include "base/clock.h"
#include "daemon/broker/publication.h"
#include "daemon/broker/step.h"
#include "daemon/source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

void session_set_deadline(struct session *session)
{
	session->deadline_ns = vg_clock_monotonic_ns() + BROKER_PATIENCE_S * 1000000000ull;
}

void session_leave_edition(struct node *node, struct session *session)
{
	struct edition *edition = session->edition;

	session->edition = NULL;
	if (!edition)
		return;
	if (edition->publisher == session) {
		edition_withdraw(node, edition);
		edition->publisher = NULL;
	} else {
		edition->leases--;
	}
	edition_release(node, edition);
}

void session_answer(struct node *node, struct session *session, json_t *answer, int descriptor)
{
	char *text = answer ? json_dumps(answer, JSON_COMPACT) : NULL;
	bool is_positive = json_is_true(json_object_get(answer, "ok"));

	json_decref(answer);
	// If the answer does not fit into the socket's buffer, the peer has left many messages unread. Then close the
	// connection.
	if (text &&
	    vg_wire_send(session->socket.fd, VG_WIRE_REPLY, 0, text, strlen(text), &descriptor, descriptor >= 0) < 0)
		shutdown(session->socket.fd, SHUT_RDWR);
	free(text);
	if (is_positive)
		return;
	session->state = SESSION_ENDED;
	session_set_deadline(session);
	session_leave_edition(node, session);
}

// Sends a packet unchanged, except that its entries have the access that the lease allows.
static int send_packet(const struct session *session, const struct packet *packet)
{
	static char body[SHARE_BODY_MAX]; // too large for the stack
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
			source_watch(node, &session->socket, EPOLLIN | EPOLLOUT);
			return;
		}
		if (r < 0) {
			shutdown(session->socket.fd, SHUT_RDWR); // the loop then ends the session
			return;
		}
		session->to_send = packet->next;
		BROKER_STEP("a packet went to a reader");
	}
	source_watch(node, &session->socket, EPOLLIN);
	session->state = SESSION_READING;
	session->deadline_ns = 0;
}
