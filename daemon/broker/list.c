#include "daemon/broker/broker.h"

#include "daemon/broker/state.h"
#include "daemon/json_text.h"

#include <string.h>

static json_t *list_reader(const struct session *session)
{
	return json_pack("{s:i, s:o, s:o, s:s, s:f}", "pid", (int)session->peer.pid, "command",
			 json_command_of(session->peer.pid), "user", json_user(session->peer.uid), "access",
			 session->access ? "read-write" : "read", "since", session->since);
}

static const char *name_state(const struct edition *edition)
{
	const struct publication *publication = edition->publication;

	if (!edition->publisher)
		return "orphaned";
	if (edition->generation != publication->current)
		return edition->generation < publication->newest ? "superseded" : "withdrawn";
	return publication->refuses ? "revoking" : "open";
}

static json_t *list_edition(const struct node *node, const struct edition *edition, const struct authority_peer *peer)
{
	const struct publication *publication = edition->publication;
	bool with_readers =
		authority_allows(AUTHORITY_READERS, authority_classify(peer, publication->owner, edition->group));
	json_t *readers = with_readers ? json_array() : json_null(), *device = json_null();

	for (size_t i = 0; i < vg_system_device_count(node->system); i++)
		if (memcmp(vg_system_device(node->system, i)->uuid, edition->uuid, sizeof edition->uuid) == 0)
			device = json_integer((json_int_t)i);
	for (const struct session *session = node->sessions; with_readers && session; session = session->next)
		if (session->edition == edition && session != edition->publisher)
			json_array_insert_new(readers, 0, list_reader(session));
	return json_pack("{s:s, s:I, s:s, s:I, s:i, s:o, s:o, s:o, s:i, s:o, s:i, s:f, s:i, s:o}", "name",
			 publication->name, "generation", (json_int_t)edition->generation, "state", name_state(edition),
			 "bytes", (json_int_t)edition->bytes, "ranges", (int)edition->ranges, "device", device, "owner",
			 json_user(publication->owner), "group", json_group(edition->group), "mode", (int)edition->mode,
			 "vgpu", *edition->vgpu ? json_string(edition->vgpu) : json_null(), "publisher",
			 edition->publisher ? (int)edition->pid : 0, "published", edition->created, "leases",
			 (int)edition->leases, "readers", readers);
}

static json_t *list_lost(const struct publication *publication)
{
	return json_pack("{s:s, s:I, s:s, s:n, s:n, s:n, s:o, s:n, s:n, s:n, s:i, s:n, s:i, s:n}", "name",
			 publication->name, "generation", (json_int_t)publication->newest, "state", "lost", "bytes",
			 "ranges", "device", "owner", json_user(publication->owner), "group", "mode", "vgpu",
			 "publisher", (int)publication->lost_pid, "published", "leases", 0, "readers");
}

json_t *broker_list(const struct node *node, const struct authority_peer *peer)
{
	json_t *array = json_array();

	for (const struct publication *one = node->publications; one; one = one->next) {
		for (const struct edition *edition = one->editions; edition; edition = edition->next)
			if (edition->generation)
				json_array_insert_new(array, 0, list_edition(node, edition, peer));
		if (one->lost.fd >= 0)
			json_array_insert_new(array, 0, list_lost(one));
	}
	return array;
}
