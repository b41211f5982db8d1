// What the daemon sends in a session. Main thread only.
#pragma once
#include <jansson.h>

#include "daemon/broker/state.h"

// Sets the deadline for the next message of the peer.
void session_set_deadline(struct session *session);
// Sends and frees the answer, with a descriptor unless it is negative. A refusal ends the session and its edition or
// lease.
void session_answer(struct node *node, struct session *session, json_t *answer, int descriptor);
// Sends the packets of the edition, as far as the socket accepts them.
void session_send_packets(struct node *node, struct session *session);
