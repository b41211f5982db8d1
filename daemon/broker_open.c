// Opening: a lease on the current generation, its packets as the publisher sent them, and the page.
#include "base/clock.h"
#include "daemon/broker.h"

#include <string.h>

static const struct {
	const char *word;
	uint32_t access;
	const char *verb;
} accesses[] = {{"read", 0, "read"}, {"read-write", 1, "read and write"}};

static json_t *not_there(const struct publication *publication, const char *name)
{
	if (!publication || (!publication->editions && publication->lost.fd < 0))
		return refuse("not_found", "there is no publication %s: `virgate share list%s` lists them", name,
			      sim_flag());
	if (publication->lost.fd >= 0)
		return refuse("not_ready",
			      "publication %s: the daemon was restarted, and its publisher (process %d) has not said "
			      "so far that "
			      "it goes on: try again",
			      name, (int)publication->lost_pid);
	if (publication->page)
		return refuse("not_found", "publication %s is withdrawn, and only stays for those who have it open",
			      name);
	return refuse("not_ready", "publication %s is not complete: its publisher still works on it", name);
}

static json_t *denied(const struct edition *edition, const char *verb)
{
	json_t *owner = user_name(edition->publication->owner);
	json_t *refusal =
		refuse("denied", "publication %s is user %s's, with mode %04o: it is not yours to %s",
		       edition->publication->name, json_string_value(owner), (unsigned int)edition->mode, verb);

	json_decref(owner);
	return refusal;
}

// What the request names: the current generation, or the one that its ticket is for.
static struct edition *find_edition(const struct request *request, const struct publication *publication)
{
	const json_t *generation = json_object_get(request->object, "generation");
	const char *ticket = text_of(request, "ticket");

	if (!generation)
		return publication_current(publication);
	for (struct edition *edition = publication->editions; edition; edition = edition->next)
		if (edition->generation && edition->generation == (uint64_t)json_integer_value(generation) &&
		    ticket_is_good(request->node, edition, ticket))
			return edition;
	return NULL;
}

void open_begin(struct session *session, const struct request *request)
{
	struct node *node = request->node;
	const char *name = text_of(request, "name"), *word = text_of(request, "access");
	bool again = json_object_get(request->object, "generation");
	size_t access = 0;
	char ticket[TICKET_TEXT + 1];
	json_t *refusal = NULL;

	while (access < 2 && (!word || strcmp(word, accesses[access].word) != 0))
		access++;
	struct publication *publication = name ? publication_find(node, name) : NULL;
	struct edition *edition = publication ? find_edition(request, publication) : NULL;
	if (!name || !registry_name_is_valid(name) || access == 2)
		refusal = refuse("invalid", "a lease needs a name, and is for \"read\" or \"read-write\"");
	else if (publication && publication->refuses && !again)
		refusal = refuse("busy", "publication %s is being revoked", name);
	else if (!edition)
		refusal = not_there(publication, name);
	else if (!edition_allows(edition, request->peer, accesses[access].access))
		refusal = denied(edition, accesses[access].verb);
	else if (accesses[access].access && !edition->writable)
		refusal = refuse("invalid", "publication %s is offered for reading only", name);
	else if (!(refusal = broker_room(node, request->peer->uid, &(struct usage){.leases = 1})) &&
		 ticket_make(node, edition, ticket) < 0)
		refusal = refuse("system", "publication %s: the broker's key in %s cannot be read", name,
				 node->runtime_dir);
	if (refusal) {
		session_answer(node, session, refusal, -1);
		return;
	}
	json_t *owner = user_name(publication->owner);
	session->edition = edition;
	session->access = accesses[access].access;
	session->to_send = again ? NULL : edition->packets; // who had it open has the memory
	session->state = SESSION_SENDING;
	session->deadline_ns = vg_clock_monotonic_ns() + BROKER_PATIENCE_S * 1000000000ull;
	edition->leases++;
	BROKER_STEP("a lease is given");
	session_answer(node, session,
		       json_pack("{s:b, s:I, s:i, s:I, s:O, s:i, s:s}", "ok", 1, "generation",
				 (json_int_t)edition->generation, "ranges", (int)edition->ranges, "bytes",
				 (json_int_t)edition->bytes, "owner", owner, "mode", (int)edition->mode, "ticket",
				 ticket),
		       publication->page_fd);
	json_decref(owner);
	session_send_packets(node, session);
}
