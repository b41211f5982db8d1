// Handles revocations: asks readers to release the memory, and withdraws the publication. Main thread only.
#pragma once
#include "daemon/broker/state.h"
#include "daemon/request.h"

void revoke_begin(struct session *session, const struct request *request);
// Takes the next step of the revocation, after the deadline of the last one.
void revoke_step(struct node *node, struct session *revoker);
// Ends the revocation of the publication if no lease is left. Call it after a reader has ended.
void revoke_check(struct node *node, struct publication *publication);
// Ends the revocation that the session has requested, if any. Call it when the session ends.
void revoke_cancel(struct node *node, struct session *revoker);
