// Handles publishing. A publisher sends a request with the name, then packets that describe ranges of device memory and
// have their descriptors, and then the commit, which makes the ranges visible. Main thread only.
#pragma once
#include "daemon/broker/state.h"
#include "daemon/request.h"

void publish_begin(struct session *session, const struct request *request);
// Receives a packet. Returns false if the connection has failed and the session must be ended.
bool publish_receive_packet(struct node *node, struct session *session);
void publish_commit(struct session *session, const struct request *request);
void publish_withdraw(struct session *session, const struct request *request);
