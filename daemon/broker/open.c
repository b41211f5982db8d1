#include "daemon/broker/open.h"

#include "daemon/broker/publication.h"
#include "daemon/broker/session.h"
#include "daemon/broker/step.h"
#include "daemon/broker/ticket.h"
#include "daemon/json_text.h"
#include "daemon/registry.h"

#include <string.h>

static const struct {
	const char *word;
	uint32_t access;
	const char *verb;
} accesses[] = {{"read", 0, "read"}, {"read-write", 1, "read and write"}};

static json_t *refuse_missing(const struct publication *publication, const char *name)
{
	if (!publication || (!publication->editions && publication->lost.fd < 0))
		return refuse("not_found", "there is no publication %s: `virgate share list%s` lists them", name,
			      sim_flag());
	if (publication->lost.fd >= 0)
		return refuse("not_ready",
			      "publication %s: the daemon was restarted, and its publisher (process %d) has not "
			      "connected again yet: try again",
			      name, (int)publication->lost_pid);
	if (publication->page)
		return refuse("not_found", "publication %s is withdrawn, and only its present readers have it", name);
	return refuse("not_ready", "publication %s is not complete: its publisher still works on it", name);
}

static json_t *refuse_access(const struct edition *edition, const char *verb)
{
	json_t *owner = json_user(edition->publication->owner);
	json_t *refusal =
		refuse("denied", "publication %s is user %s's, and its mode %04o does not allow you to %s",
		       edition->publication->name, json_string_value(owner), (unsigned int)edition->mode, verb);

	json_decref(owner);
	return refusal;
}

// Finds the edition that the request means. Without the field "generation", this is the edition that readers can open
// now. With it, this is the edition of that generation, if the request also has the edition's ticket (ticket.h).
static struct edition *find_edition(const struct request *request, const struct publication *publication)
{
	const json_t *generation = json_object_get(request->object, "generation");
	const char *ticket = request_text(request, "ticket");

	if (!generation)
		return publication_current(publication);
	for (struct edition *edition = publication->editions; edition; edition = edition->next)
		if (edition->generation && edition->generation == (uint64_t)json_integer_value(generation) &&
		    ticket_is_valid(request->node, edition, ticket))
			return edition;
	return NULL;
}

// A lease that a request asks for.
struct wanted {
	const char *name;
	size_t access;	 // the index of the wanted access in `accesses`
	bool is_resumed; // the reader had this lease already under an earlier daemon, and connects again
	struct publication *publication;
	struct edition *edition;
};

static json_t *read_wanted(const struct request *request, struct wanted *wanted)
{
	const char *word = request_text(request, "access");

	wanted->name = request_text(request, "name");
	wanted->is_resumed = json_object_get(request->object, "generation");
	while (wanted->access < 2 && (!word || strcmp(word, accesses[wanted->access].word) != 0))
		wanted->access++;
	if (!wanted->name || !registry_name_is_valid(wanted->name) || wanted->access == 2)
		return refuse("invalid", "a lease needs a name, and is for \"read\" or \"read-write\"");
	wanted->publication = publication_find(request->node, wanted->name);
	wanted->edition = wanted->publication ? find_edition(request, wanted->publication) : NULL;
	return NULL;
}

static json_t *check_wanted(const struct request *request, const struct wanted *wanted)
{
	const struct edition *edition = wanted->edition;
	uint32_t access = accesses[wanted->access].access;

	if (wanted->publication && wanted->publication->refuses && !wanted->is_resumed)
		return refuse("busy", "publication %s is being revoked", wanted->name);
	if (!edition)
		return refuse_missing(wanted->publication, wanted->name);
	if (!edition_allows(edition, request->peer, access))
		return refuse_access(edition, accesses[wanted->access].verb);
	if (access && !edition->writable)
		return refuse("invalid", "publication %s is offered for reading only", wanted->name);
	return broker_check_room(request->node, request->peer->uid, &(struct usage){.leases = 1});
}

void open_begin(struct session *session, const struct request *request)
{
	struct node *node = request->node;
	struct wanted wanted = {0};
	char ticket[TICKET_TEXT + 1];
	json_t *refusal = read_wanted(request, &wanted);
	struct edition *edition = wanted.edition;

	if (!refusal)
		refusal = check_wanted(request, &wanted);
	if (!refusal && ticket_make(node, edition, ticket) < 0)
		refusal = refuse("system", "publication %s: the broker's key in %s cannot be read", wanted.name,
				 node->runtime_dir);
	if (refusal) {
		session_answer(node, session, refusal, -1);
		return;
	}
	session->edition = edition;
	session->access = accesses[wanted.access].access;
	session->to_send = wanted.is_resumed ? NULL : edition->packets; // a reader that resumes has the memory already
	session->state = SESSION_SENDING;
	session_set_deadline(session);
	edition->leases++;
	BROKER_STEP("a lease is given");
	session_answer(node, session,
		       json_pack("{s:b, s:I, s:i, s:I, s:o, s:i, s:s}", "ok", 1, "generation",
				 (json_int_t)edition->generation, "ranges", (int)edition->ranges, "bytes",
				 (json_int_t)edition->bytes, "owner", json_user(wanted.publication->owner), "mode",
				 (int)edition->mode, "ticket", ticket),
		       wanted.publication->page_fd);
	session_send_packets(node, session);
}
