// The broker for the rest of the daemon: connections that publish, read or revoke device memory. The broker keeps the
// descriptors, and never reads the memory. Main thread only.
#pragma once
#include <jansson.h>

#include "daemon/authority.h"
#include "daemon/node.h"

// Begins a session with its first request. Takes `fd`; the session ends by itself.
void broker_begin_session(struct node *node, int fd, const struct authority_peer *peer, const char *text);
// Ends sessions that have waited too long, and takes the next step of revocations. Lowers *deadline to the next such
// time.
void broker_expire_sessions(struct node *node, uint64_t now, uint64_t *deadline);
// Takes over the publications of an earlier daemon.
void broker_load_pages(struct node *node);
// Replaces a truncated page by empty memory if the address is in one. Async-signal-safe.
bool broker_mend_page(const struct node *node, const void *address);
// Returns the publications as JSON: a row for each generation that a publisher or a reader has.
json_t *broker_list(const struct node *node, const struct authority_peer *peer);
