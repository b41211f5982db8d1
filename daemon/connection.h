// Serves the connections of clients: one request for each connection, unless the broker takes it over. Main thread
// only.
#pragma once
#include "daemon/node.h"

struct change;

void connection_accept(struct node *node);
// Tries again to answer the requests that had to wait.
void connection_retry(struct node *node);
// Ends the change by calling its finish(), and sends the answer to the client if that is still connected.
void connection_finish(struct node *node, const struct change *change, int error);
// Closes connections that have waited too long. Lowers *deadline to the next such time.
void connection_expire(struct node *node, uint64_t now, uint64_t *deadline);
