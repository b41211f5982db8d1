#include "daemon/broker/publish.h"

#include "base/descriptor.h"
#include "daemon/broker/page.h"
#include "daemon/broker/publication.h"
#include "daemon/broker/session.h"
#include "daemon/broker/step.h"
#include "daemon/broker/ticket.h"
#include "daemon/discard.h"
#include "daemon/json_text.h"
#include "daemon/registry.h"
#include "daemon/source.h"
#include "daemon/tenant.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { NVIDIA_MAJOR = 195, NVIDIA_CONTROL = 255 };

struct wanted {
	const char *name;
	uint32_t ranges;
	mode_t mode;
	gid_t group;
	// Only a publisher that connects again, after a restart of the daemon, sends these members:
	uint64_t generation; // the generation that the publisher published earlier; 0: a new publication
	uint8_t id[VG_PAGE_ID];
};

static bool read_id(const char *text, uint8_t id[VG_PAGE_ID])
{
	unsigned int byte;

	if (!text || strlen(text) != 2 * VG_PAGE_ID || strspn(text, "0123456789abcdef") != 2 * VG_PAGE_ID)
		return false;
	for (int i = 0; i < VG_PAGE_ID; i++) {
		sscanf(text + 2 * i, "%2x", &byte);
		id[i] = (uint8_t)byte;
	}
	return true;
}

static json_t *read_wanted(const struct request *request, struct wanted *wanted)
{
	const json_t *ranges = json_object_get(request->object, "ranges");
	const json_t *mode = json_object_get(request->object, "mode");
	const json_t *generation = json_object_get(request->object, "generation");

	wanted->name = request_text(request, "name");
	if (!wanted->name || !registry_name_is_valid(wanted->name))
		return refuse("invalid",
			      "a publication's name has 1 to 63 letters, digits, '.', '_' and '-', and begins with "
			      "a letter or a digit");
	if (!json_is_integer(ranges) || json_integer_value(ranges) < 1 ||
	    json_integer_value(ranges) > BROKER_RANGES_MAX)
		return refuse("invalid", "publication %s: 1 to %d ranges can be published under one name", wanted->name,
			      BROKER_RANGES_MAX);
	if (!json_is_integer(mode) || (json_integer_value(mode) & ~0666))
		return refuse("invalid", "publication %s: its mode says who may read (4) and write (2), such as 0640",
			      wanted->name);
	wanted->ranges = (uint32_t)json_integer_value(ranges);
	wanted->mode = (mode_t)json_integer_value(mode);
	wanted->group = (gid_t)-1;
	wanted->generation = generation ? (uint64_t)json_integer_value(generation) : 0;
	if (generation && (json_integer_value(generation) <= 0 || !read_id(request_text(request, "id"), wanted->id)))
		return refuse("invalid", "publication %s: to resume it, a valid \"generation\" and \"id\" are needed",
			      wanted->name);
	return request_read_group(request, &wanted->group);
}

// Finds the publication of that name; NULL in *ret_publication: the name is free. Returns a refusal if the peer may not
// use the name.
static json_t *find_name(struct node *node, const struct request *request, const struct wanted *wanted,
			 struct publication **ret_publication)
{
	struct publication *publication = publication_find(node, wanted->name);
	json_t *owner;

	*ret_publication = publication;
	if (!publication)
		return NULL;
	if (publication->owner != request->peer->uid) {
		owner = json_user(publication->owner);
		json_t *refusal = refuse("exists", "publication %s is user %s's: choose another name", wanted->name,
					 json_string_value(owner));
		json_decref(owner);
		return refusal;
	}
	if (publication->refuses)
		return refuse("busy", "publication %s is being revoked: try again when that is done", wanted->name);
	if (wanted->generation && memcmp(publication->id, wanted->id, VG_PAGE_ID) != 0)
		return refuse("exists", "publication %s was published again in the meantime, and this one has ended",
			      wanted->name);
	for (const struct edition *edition = publication->editions; edition && wanted->generation;
	     edition = edition->next)
		if (edition->generation == wanted->generation)
			return refuse("exists", "publication %s: generation %llu is there", wanted->name,
				      (unsigned long long)wanted->generation);
	return NULL;
}

// Begins an edition. Creates the publication if the name is free. Returns NULL if there is no memory.
static struct edition *begin_edition(struct node *node, struct session *session, struct wanted *wanted,
				     struct publication *publication)
{
	if (!publication) {
		bool has_id = wanted->generation || getrandom(wanted->id, sizeof wanted->id, 0) == sizeof wanted->id;
		publication = has_id ? publication_add(node, wanted->name, session->peer.uid, wanted->id) : NULL;
	}
	if (!publication)
		return NULL;
	struct edition *edition = edition_add(publication, session, wanted->ranges);
	if (!edition)
		publication_release(node, publication);
	return edition;
}

void publish_begin(struct session *session, const struct request *request)
{
	struct node *node = request->node;
	struct publication *publication = NULL;
	struct edition *edition = NULL;
	struct wanted wanted = {0};
	json_t *refusal = read_wanted(request, &wanted);

	if (!refusal)
		refusal = find_name(node, request, &wanted, &publication);
	if (!refusal)
		refusal = broker_check_room(node, request->peer->uid,
					    &(struct usage){.editions = 1, .descriptors = wanted.ranges + 1});
	if (!refusal && !(edition = begin_edition(node, session, &wanted, publication)))
		refusal = refuse("system", "publication %s: no memory for it", wanted.name);
	if (refusal) {
		session_answer(node, session, refusal, -1);
		return;
	}
	BROKER_STEP("named");
	edition->mode = wanted.mode;
	edition->group = wanted.group;
	session->renews = wanted.generation;
	session->state = SESSION_RECEIVING;
	session_set_deadline(session);
	session_answer(node, session, agree_with("ranges", json_integer(wanted.ranges)), -1);
}

// Returns whether the descriptor is of device memory. Does not access the file: it may be in a user's own file system
// (FUSE) that never answers.
static bool is_memory(const struct node *node, int fd)
{
	char path[48], name[PATH_MAX];
	struct statx status;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) < 0)
		return false;
	if (!node->simulated)
		return S_ISCHR(status.stx_mode) && status.stx_rdev_major == NVIDIA_MAJOR &&
		       status.stx_rdev_minor == NVIDIA_CONTROL;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	ssize_t length = readlink(path, name, sizeof name - 1);
	name[length > 0 ? length : 0] = '\0';
	return S_ISFIFO(status.stx_mode) && strstr(name, "/export-1-");
}

static json_t *check_packet(const struct node *node, const struct edition *edition, const struct packet *packet,
			    const int *descriptors, unsigned int count)
{
	const struct share_header *header = &packet->header;
	const char *name = edition->publication->name;
	char problem[256];

	if (!share_header_check(header, problem, sizeof problem) ||
	    !share_body_check(header, packet->body, problem, sizeof problem))
		return refuse("protocol", "publication %s: %s", name, problem);
	if (header->total != edition->ranges || header->first != edition->received)
		return refuse("protocol", "publication %s: ranges %u of %u came, %u of %u were due", name,
			      header->first, header->total, edition->received, edition->ranges);
	if (count != header->count)
		return refuse("protocol",
			      "publication %s: %u descriptors came with %u ranges: there must be one for each", name,
			      count, header->count);
	for (unsigned int i = 0; i < count; i++)
		if (!is_memory(node, descriptors[i]))
			return refuse(
				"invalid",
				"publication %s: the descriptor of range %u is not one of %s device memory: export "
				"it with "
				"cuMemExportToShareableHandle",
				name, header->first + i, node->simulated ? "simulated" : "NVIDIA's");
	return NULL;
}

static void keep_packet(struct edition *edition, struct packet *packet)
{
	struct share_entry entry;

	for (unsigned int i = 0; i < packet->header.count; i++) {
		memcpy(&entry, packet->body + i * sizeof entry, sizeof entry);
		// The publisher can claim any size, so the sum is bounded by INT64_MAX, the largest integer in JSON.
		edition->bytes = entry.mapped > INT64_MAX - edition->bytes ? INT64_MAX : edition->bytes + entry.mapped;
		edition->writable = entry.access && (edition->writable || packet->header.first + i == 0);
		if (packet->header.first + i == 0)
			memcpy(edition->uuid, entry.uuid, sizeof edition->uuid);
	}
	edition->received += packet->header.count;
	edition->metadata += sizeof *packet + packet->header.size;
	packet->next = NULL;
	*edition->end = packet;
	edition->end = &packet->next;
}

// Copies the packet into *ret_packet if it is valid. Returns NULL or a refusal.
static json_t *copy_packet(const struct node *node, const struct session *session, const struct share_header *header,
			   const char *body, const int *descriptors, unsigned int count, struct packet **ret_packet)
{
	const struct edition *edition = session->edition;
	json_t *refusal = broker_check_room(node, session->peer.uid,
					    &(struct usage){.metadata = sizeof **ret_packet + header->size});

	if (refusal)
		return refusal;
	struct packet *packet = malloc(sizeof *packet + header->size);
	if (!packet)
		return refuse("system", "publication %s: no memory for it", edition->publication->name);
	packet->header = *header;
	memcpy(packet->body, body, header->size);
	refusal = check_packet(node, edition, packet, descriptors, count);
	if (refusal) {
		free(packet);
		return refusal;
	}
	memcpy(packet->descriptors, descriptors, sizeof *descriptors * count);
	*ret_packet = packet;
	return NULL;
}

bool publish_receive_packet(struct node *node, struct session *session)
{
	static char body[SHARE_BODY_MAX + 1]; // too large for the stack
	struct edition *edition = session->edition;
	struct share_header header;
	struct iovec parts[2] = {{&header, sizeof header}, {body, sizeof body}};
	int descriptors[VG_WIRE_DESCRIPTORS_MAX];
	unsigned int count;
	struct packet *packet = NULL;
	json_t *refusal;
	ssize_t got = vg_wire_receive_raw(session->socket.fd, parts, descriptors, &count);

	if (got == -EAGAIN)
		return true;
	if (got < 0)
		return false;
	if ((size_t)got < sizeof header || (size_t)got - sizeof header != header.size)
		refusal = refuse("protocol", "publication %s: a packet of %zd bytes is not part of an offer",
				 edition->publication->name, got);
	else
		refusal = copy_packet(node, session, &header, body, descriptors, count, &packet);
	if (refusal) {
		for (unsigned int i = 0; i < count; i++)
			discard(descriptors[i]);
		session_answer(node, session, refusal, -1);
		return true;
	}
	keep_packet(edition, packet);
	BROKER_STEP("a packet is kept");
	session_set_deadline(session);
	if (edition->received < edition->ranges)
		return true;
	ticket_digest(edition);
	session->state = SESSION_REGISTERED;
	session->deadline_ns = 0; // no deadline: the publisher commits when its GPU work is done
	session_answer(node, session, agree_with("bytes", json_integer((json_int_t)edition->bytes)), -1);
	return true;
}

// Returns whether the publisher may enter the vGPU. A ledger can name any process, but only processes that may enter
// its vGPU count as charged to it.
static bool may_enter(const struct session *session, const struct vgpu *vgpu)
{
	return authority_allows(AUTHORITY_ENTER, authority_classify(&session->peer, vgpu->owner, vgpu->group));
}

// Finds the vGPU to which the publisher's memory is charged; "": no vGPU.
static void find_vgpu(struct node *node, const struct session *session, char ret_name[VG_LEDGER_NAME])
{
	*ret_name = '\0';
	for (struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next) {
		if (!may_enter(session, vgpu))
			continue;
		tenant_scan(node, vgpu);
		for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
			if (session->peer.pid > 0 && tenant->pid == session->peer.pid &&
			    vg_start_time_same(tenant->start_time, session->peer.start_time))
				memcpy(ret_name, vgpu->name, VG_LEDGER_NAME);
	}
}

// Checks the ticket of a publisher that already published under an earlier daemon. Returns NULL or a refusal.
static json_t *check_ticket(struct session *session, const struct request *request)
{
	struct edition *edition = session->edition;
	struct publication *publication = edition->publication;

	edition->generation = session->renews;
	bool is_valid = ticket_is_valid(request->node, edition, request_text(request, "ticket"));
	edition->generation = 0;
	if (!is_valid)
		return refuse("denied",
			      "publication %s: no valid ticket for generation %llu in this runtime directory: "
			      "publish it again",
			      publication->name, (unsigned long long)session->renews);
	return NULL;
}

// Makes the edition the current one. Readers of the previous edition keep it, and are notified.
static void replace_current(struct node *node, struct publication *publication, struct edition *edition)
{
	struct edition *before = publication_current(publication);
	struct vg_wire_page *page = publication->page;

	page->publisher = edition->pid;
	page->publisher_start = edition->publisher->peer.start_time;
	BROKER_STEP("the page knows its publisher");
	page->newest = publication->newest = edition->generation;
	BROKER_STEP("the generation is given out");
	page_set_current(publication, edition->generation);
	BROKER_STEP("visible");
	source_close(node, &publication->lost);
	if (before && before != edition)
		edition_notify_readers(node, before, VG_WIRE_SUPERSEDED, 0);
}

// Gives the edition its generation and its ticket, and the publication its page. Returns NULL or a refusal.
static json_t *complete_edition(struct session *session, const struct request *request,
				char ret_ticket[TICKET_TEXT + 1])
{
	struct node *node = request->node;
	struct edition *edition = session->edition;
	struct publication *publication = edition->publication;
	json_t *refusal = session->renews ? check_ticket(session, request) : NULL;

	if (refusal)
		return refusal;
	int r = publication->page ? 0 : page_create(node, publication);
	if (r < 0)
		return refuse("system", "publication %s: its page cannot be made in %s: %s", publication->name,
			      node->runtime_dir, strerror(-r));
	edition->generation = session->renews ? session->renews : publication->newest + 1;
	BROKER_STEP("there is a page");
	r = ticket_make(node, edition, ret_ticket);
	BROKER_STEP("there is a ticket");
	if (r == 0)
		return NULL;
	edition->generation = 0;
	return refuse("system", "publication %s: the broker's key in %s: %s", publication->name, node->runtime_dir,
		      strerror(-r));
}

void publish_commit(struct session *session, const struct request *request)
{
	struct node *node = request->node;
	struct edition *edition = session->edition;
	struct publication *publication = edition->publication;
	char ticket[TICKET_TEXT + 1], id[2 * VG_PAGE_ID + 1];
	json_t *refusal;

	if (publication->refuses)
		refusal = refuse("busy", "publication %s is being revoked: try again when that is done",
				 publication->name);
	else
		refusal = complete_edition(session, request, ticket);
	if (refusal) {
		session_answer(node, session, refusal, -1);
		return;
	}
	find_vgpu(node, session, edition->vgpu);
	if (edition->generation >= publication->newest)
		replace_current(node, publication, edition);
	session->state = SESSION_PUBLISHED;
	for (int i = 0; i < VG_PAGE_ID; i++)
		sprintf(id + 2 * i, "%02x", publication->id[i]);
	session_answer(node, session,
		       json_pack("{s:b, s:I, s:s, s:s}", "ok", 1, "generation", (json_int_t)edition->generation, "id",
				 id, "ticket", ticket),
		       publication->page_fd);
}

void publish_withdraw(struct session *session, const struct request *request)
{
	struct edition *edition = session->edition;
	unsigned int leases = edition->leases;

	edition_withdraw(request->node, edition);
	BROKER_STEP("withdrawn");
	edition->publisher = NULL;
	session->edition = NULL;
	session->state = SESSION_ENDED;
	session_set_deadline(session);
	edition_release(request->node, edition);
	session_answer(request->node, session, agree_with("readers", json_integer(leases)), -1);
}
