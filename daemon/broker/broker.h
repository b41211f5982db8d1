// Serves connections that publish, read or revoke device memory. The broker keeps the descriptors of the memory, and
// never reads the memory itself. Main thread only.
#pragma once
#include <jansson.h>

#include "daemon/authority.h"
#include "daemon/node.h"

// Begins a session with the first request of a connection. Takes `fd`. The session frees itself when it ends.
void broker_begin_session(struct node *node, int fd, const struct authority_peer *peer, const json_t *request);
// Ends sessions whose deadline has passed, and takes the next step of revocations. Lowers *deadline to the time at
// which this function must be called again.
void broker_expire_sessions(struct node *node, uint64_t now, uint64_t *deadline);
// Takes over the publications of an earlier daemon.
void broker_load_pages(struct node *node);
// If the address is in the mapping of a publication's page (broker/page.h) whose file was truncated, replaces the
// mapping by empty memory. Async-signal-safe.
bool broker_mend_page(const struct node *node, const void *address);
// Returns the publications as JSON: a row for each generation that has a publisher or a reader.
json_t *broker_list(const struct node *node, const struct authority_peer *peer);
