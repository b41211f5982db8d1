// Sends messages to the peer of a session. Main thread only.
#pragma once
#include <jansson.h>

#include "daemon/broker/state.h"

// Sets the deadline by which the peer must send its next message.
void session_set_deadline(struct session *session);
// Ends the session's edition if the session published it, or else its lease. May free the edition and its publication.
void session_leave_edition(struct node *node, struct session *session);
// Sends and frees the answer, together with `descriptor` unless that is negative. A refusal ends the session, and with
// it the session's edition or lease.
void session_answer(struct node *node, struct session *session, json_t *answer, int descriptor);
// Sends the packets of the session's edition, as far as the socket accepts them.
void session_send_packets(struct node *node, struct session *session);
