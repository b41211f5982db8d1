// Manages publications and their editions (state.h), and checks the limits of users. Main thread only.
#pragma once
#include <jansson.h>

#include "daemon/broker/state.h"

struct publication *publication_find(const struct node *node, const char *name);
// Adds a publication. Returns NULL if there is no memory.
struct publication *publication_add(struct node *node, const char *name, uid_t owner, const uint8_t id[VG_PAGE_ID]);
// Frees the publication if it has no edition, no publisher that may connect again, and no session that revokes it.
void publication_release(struct node *node, struct publication *publication);
// Returns the edition that readers can open, or NULL.
struct edition *publication_current(const struct publication *publication);
// Stops waiting for a publisher of an earlier daemon to connect again.
void publication_forget_lost(struct node *node, struct publication *publication);

// Adds an edition to the publication. Returns NULL if there is no memory.
struct edition *edition_add(struct publication *publication, struct session *publisher, uint32_t ranges);
// Frees the edition and closes its descriptors if it has neither a publisher nor readers.
void edition_release(struct node *node, struct edition *edition);
// Withdraws the edition: no process can open it any more, and its readers are notified.
void edition_withdraw(struct node *node, struct edition *edition);
void edition_notify_readers(const struct node *node, const struct edition *edition, enum vg_wire_event_kind kind,
			    uint64_t deadline_ns);
// Sends an event to the peer. If the peer does not receive the event, it finds the same facts in the publication's
// page, which it has mapped (wire/page.h).
void edition_notify(const struct session *session, enum vg_wire_event_kind kind, uint64_t generation,
		    uint64_t deadline_ns);
// Returns whether the peer may open the edition for reading or writing (`access`, a value as in struct share_entry).
bool edition_allows(const struct edition *edition, const struct authority_peer *peer, uint32_t access);

struct usage {
	size_t editions, leases, descriptors, metadata;
};
// Returns a refusal if the user would exceed a limit by using `more`; else NULL.
json_t *broker_check_room(const struct node *node, uid_t user, const struct usage *more);
