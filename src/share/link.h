// A connection to the broker that stands for a publication or a lease, and the page that goes with it. The caller's
// lock keeps threads apart.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "node/node.h"
#include "virgate/broker.h"
#include "wire/page.h"

struct share_link {
	struct vg_node node; // a copy: the program may close its own
	int descriptor;
	bool ended;    // the daemon has gone, or has closed it
	pid_t process; // whose it is
	uint64_t generation;
	const struct vg_wire_page *_Atomic page; // NULL: none yet
	char name[VG_WIRE_NAME];
	char id[2 * VG_PAGE_ID + 1], ticket[2 * 32 + 1]; // as the broker gave them
};

// Nothing is connected yet.
void share_link_init(struct share_link *link, const struct vg_node *node, const char *name);
// Ends the connection, in every process that has it, unless this is a forked child.
void share_link_finish(struct share_link *link);

// Connects and asks; a link that was connected keeps its descriptor's number. `request` is consumed, and the reply is
// the caller's. With `start`, a daemon may be started. A page that comes is taken.
enum vg_status share_link_begin(struct share_link *link, bool start, json_t *request, json_t **ret_reply);
// A further request, and its reply.
enum vg_status share_link_ask(struct share_link *link, json_t *request, json_t **ret_reply);
// The reply to what was sent by other means.
enum vg_status share_link_hear(struct share_link *link, json_t **ret_reply);
// The generation and the ticket that a reply gives, the page having come with it; the same generation as before, if
// there was one: other threads may be reading it. PROTOCOL.
enum vg_status share_link_take(struct share_link *link, const json_t *reply);
// Takes what the broker said unasked, without waiting; `ended` says whether it is still there.
void share_link_drain(struct share_link *link);
// As the page has it.
void share_link_view(const struct share_link *link, struct vg_publication_view *ret_view);
// STATE in a forked child.
enum vg_status share_link_own(const struct share_link *link);
