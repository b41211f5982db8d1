// Keeps the connection to the broker on which a publication or a lease depends, and the page of shared state. One
// thread at a time: the caller locks.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "node/node.h"
#include "virgate/broker.h"
#include "wire/page.h"

struct share_link {
	struct vg_node node; // a copy of the program's connection to the daemon, which the program may close
	int descriptor;
	bool ended;    // true: the daemon has ended, or has closed the connection
	pid_t process; // the process that created the link
	uint64_t generation;
	const struct vg_wire_page *_Atomic page; // NULL: not received yet
	char name[VG_WIRE_NAME];
	// Received from the broker, and sent to it again after it was restarted: the id of the publication, and a
	// ticket, which proves to the new broker which generation this was.
	char id[2 * VG_PAGE_ID + 1], ticket[2 * 32 + 1];
};

// Initializes the fields; does not connect.
void share_link_init(struct share_link *link, const struct vg_node *node, const char *name);
// Shuts the connection down for all processes that have it open. In a forked child, only closes the descriptor.
void share_link_finish(struct share_link *link);

enum share_start {
	SHARE_NO_START,
	SHARE_MAY_START, // start a daemon if none listens
};
// Connects, sends the request, and maps the page that comes with the reply. When a link connects again, the descriptor
// number stays the same. Consumes `request`; the caller owns the reply.
enum vg_status share_link_begin(struct share_link *link, enum share_start start, json_t *request, json_t **ret_reply);
// Sends another request, and receives the reply to it.
enum vg_status share_link_ask(struct share_link *link, json_t *request, json_t **ret_reply);
// Receives a reply to data that the caller sent on `descriptor`.
enum vg_status share_link_receive(struct share_link *link, json_t **ret_reply);
// Reads the generation and the ticket (the proof for a restarted broker) from a reply that came with a page. Fails with
// PROTOCOL if a value or the page is missing, or if the generation differs from the known one. A known generation is
// not written again, because other threads may be reading it.
enum vg_status share_link_read_grant(struct share_link *link, const json_t *reply);
// Reads and drops events of the broker, without waiting. Sets `ended` if the connection was closed.
void share_link_drain(struct share_link *link);
// Fills the program's view of the state from the page.
void share_link_view(const struct share_link *link, struct vg_publication_view *ret_view);
// Returns VG_OK. In a forked child, which may not use the connection of its parent, fails with VG_STATE.
enum vg_status share_link_check_process(const struct share_link *link);
