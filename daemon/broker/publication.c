#include "daemon/broker/publication.h"

#include "base/clock.h"
#include "daemon/answer.h"
#include "daemon/broker/page.h"
#include "daemon/discard.h"
#include "daemon/names.h"
#include "daemon/source.h"
#include "daemon/user.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct publication *publication_find(const struct node *node, const char *name)
{
	for (struct publication *one = node->publications; one; one = one->next)
		if (strcmp(one->name, name) == 0)
			return one;
	return NULL;
}

struct publication *publication_add(struct node *node, const char *name, uid_t owner, const uint8_t id[VG_PAGE_ID])
{
	struct publication *publication = calloc(1, sizeof *publication);

	if (!publication)
		return NULL;
	snprintf(publication->name, sizeof publication->name, "%s", name);
	publication->owner = owner;
	names_expect_user(owner);
	memcpy(publication->id, id, VG_PAGE_ID);
	publication->page_fd = -1;
	publication->lost.fd = -1;
	publication->next = node->publications;
	node->publications = publication;
	return publication;
}

void publication_release(struct node *node, struct publication *publication)
{
	struct publication **link = &node->publications;

	if (publication->editions || publication->lost.fd >= 0 || publication->revoker)
		return;
	while (*link != publication)
		link = &(*link)->next;
	*link = publication->next;
	page_drop(node, publication);
	free(publication);
}

struct edition *publication_current(const struct publication *publication)
{
	for (struct edition *edition = publication->editions; edition; edition = edition->next)
		if (edition->generation && edition->publisher && publication->page &&
		    edition->generation == publication->current)
			return edition;
	return NULL;
}

void publication_forget_lost(struct node *node, struct publication *publication)
{
	source_close(node, &publication->lost);
	if (publication->page && !publication_current(publication))
		page_set_current(publication, 0);
}

struct edition *edition_add(struct publication *publication, struct session *publisher, uint32_t ranges)
{
	struct edition *edition = calloc(1, sizeof *edition);

	if (!edition)
		return NULL;
	edition->publication = publication;
	edition->publisher = publisher;
	edition->ranges = ranges;
	edition->end = &edition->packets;
	edition->pid = publisher->peer.pid;
	edition->created = (double)vg_clock_realtime_ns() / 1e9;
	edition->next = publication->editions;
	publication->editions = edition;
	publisher->edition = edition;
	return edition;
}

void edition_release(struct node *node, struct edition *edition)
{
	struct publication *publication = edition->publication;
	struct edition **link = &publication->editions;

	if (edition->publisher || edition->leases)
		return;
	while (*link != edition)
		link = &(*link)->next;
	*link = edition->next;
	while (edition->packets) {
		struct packet *packet = edition->packets;
		edition->packets = packet->next;
		discard_from(publication->owner);
		for (unsigned int i = 0; i < packet->header.count; i++)
			discard(packet->descriptors[i]);
		free(packet);
	}
	free(edition);
	publication_release(node, publication);
}

void edition_notify(const struct session *session, enum vg_wire_event_kind kind, uint64_t generation,
		    uint64_t deadline_ns)
{
	struct vg_wire_event event = {.kind = kind, .generation = generation, .deadline_ns = deadline_ns};

	vg_wire_send(session->socket.fd, VG_WIRE_EVENT, 0, &event, sizeof event, NULL, 0);
}

void edition_notify_readers(const struct node *node, const struct edition *edition, enum vg_wire_event_kind kind,
			    uint64_t deadline_ns)
{
	for (struct session *session = node->sessions; session; session = session->next)
		if (session->edition == edition && session->state == SESSION_READING)
			edition_notify(session, kind, edition->generation, deadline_ns);
}

void edition_withdraw(struct node *node, struct edition *edition)
{
	struct publication *publication = edition->publication;

	if (!edition->generation || !publication->page || publication->current != edition->generation)
		return;
	page_set_current(publication, 0);
	edition_notify_readers(node, edition, VG_WIRE_WITHDRAWN, 0);
}

// ---- limits of a user ---------------------------------------------------------------------------------------

// Returns how many descriptors the broker may keep for one user: an eighth of the daemon's limit in the system's
// daemon, and half of it in a user's own daemon.
static size_t count_allowed_descriptors(const struct node *node)
{
	struct rlimit files = {.rlim_cur = 1024};

	getrlimit(RLIMIT_NOFILE, &files);
	return (size_t)files.rlim_cur / (node->system_wide ? 8 : 2);
}

static struct usage sum_usage(const struct node *node, uid_t user)
{
	struct usage usage = {0};
	uid_t owner = user_owner(user);

	for (const struct session *session = node->sessions; session; session = session->next) {
		if (user_owner(session->peer.uid) != owner)
			continue;
		usage.descriptors += 2; // the descriptors of the connection and of the process
		usage.leases += session->state == SESSION_SENDING || session->state == SESSION_READING;
	}
	for (const struct publication *one = node->publications; one; one = one->next) {
		if (user_owner(one->owner) != owner)
			continue;
		usage.descriptors += 1; // the descriptor of the publication's page
		for (const struct edition *edition = one->editions; edition; edition = edition->next) {
			usage.editions++;
			usage.descriptors += edition->ranges;
			usage.metadata += edition->metadata;
		}
	}
	return usage;
}

json_t *broker_check_room(const struct node *node, uid_t user, const struct usage *more)
{
	struct usage now = sum_usage(node, user);
	size_t descriptors = count_allowed_descriptors(node);

	if (now.editions + more->editions > BROKER_EDITIONS_MAX)
		return refuse("limit", "you have %zu publications, and %d are the most: withdraw some", now.editions,
			      BROKER_EDITIONS_MAX);
	if (now.leases + more->leases > BROKER_LEASES_MAX)
		return refuse("limit", "you have %zu leases, and %d are the most: close some", now.leases,
			      BROKER_LEASES_MAX);
	if (now.metadata + more->metadata > BROKER_METADATA_MAX)
		return refuse("limit", "your publications' metadata take %zu bytes, and %d are the most: withdraw some",
			      now.metadata, BROKER_METADATA_MAX);
	if (now.descriptors + more->descriptors > descriptors)
		return refuse(
			"limit",
			"the broker holds %zu descriptors for you, %zu more are wanted, and %zu are the most: withdraw "
			"or close something, or raise the daemon's limit (LimitNOFILE, ulimit -n)",
			now.descriptors, more->descriptors, descriptors);
	return NULL;
}

bool edition_allows(const struct edition *edition, const struct authority_peer *peer, uint32_t access)
{
	mode_t wanted = access ? 06 : 04;

	switch (authority_classify(peer, edition->publication->owner, edition->group)) {
	case AUTHORITY_ROOT:
		return true;
	case AUTHORITY_OWNER:
		return (edition->mode >> 6 & wanted) == wanted;
	case AUTHORITY_GROUP:
		return (edition->mode >> 3 & wanted) == wanted;
	default:
		return (edition->mode & wanted) == wanted;
	}
}
