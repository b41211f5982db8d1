// Publishing: a name, its ranges with their descriptors, and, once the publisher's work on them is done, the word that
// makes them visible.
#include "base/clock.h"
#include "base/descriptor.h"
#include "daemon/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

enum { NVIDIA_MAJOR = 195, NVIDIA_CONTROL = 255 };

struct wanted {
	const char *name;
	uint32_t ranges;
	mode_t mode;
	gid_t group;
	// Of a publisher that a daemon before us knew:
	uint64_t generation; // 0: a new one
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

	wanted->name = text_of(request, "name");
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
	if (generation && (json_integer_value(generation) <= 0 || !read_id(text_of(request, "id"), wanted->id)))
		return refuse("invalid", "publication %s: which one it was is not said", wanted->name);
	return take_group(request, &wanted->group);
}

// The name as it stands, if the peer may have it; NULL and no refusal: it is free.
static json_t *find_place(struct node *node, const struct request *request, const struct wanted *wanted,
			  struct publication **ret_publication)
{
	struct publication *publication = publication_find(node, wanted->name);
	json_t *owner;

	*ret_publication = publication;
	if (!publication)
		return NULL;
	if (publication->owner != request->peer->uid) {
		owner = user_name(publication->owner);
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

void publish_begin(struct session *session, const struct request *request)
{
	struct node *node = request->node;
	struct publication *publication = NULL;
	struct edition *edition = NULL;
	struct wanted wanted = {0};
	json_t *refusal = read_wanted(request, &wanted);

	if (!refusal)
		refusal = find_place(node, request, &wanted, &publication);
	if (!refusal)
		refusal = broker_room(node, request->peer->uid,
				      &(struct usage){.editions = 1, .descriptors = wanted.ranges + 1});
	if (!refusal && !publication) {
		bool named = wanted.generation || getrandom(wanted.id, sizeof wanted.id, 0) == sizeof wanted.id;
		publication = named ? publication_add(node, wanted.name, request->peer->uid, wanted.id) : NULL;
	}
	if (!refusal && publication)
		edition = edition_add(publication, session, wanted.ranges);
	if (!refusal && !edition)
		refusal = refuse("system", "publication %s: no memory for it", wanted.name);
	if (refusal) {
		session_answer(node, session, refusal, -1);
		if (publication)
			publication_release(node, publication);
		return;
	}
	BROKER_STEP("named");
	edition->mode = wanted.mode;
	edition->group = wanted.group;
	session->renews = wanted.generation;
	session->state = SESSION_RECEIVING;
	session->deadline_ns = vg_clock_monotonic_ns() + BROKER_PATIENCE_S * 1000000000ull;
	session_answer(node, session, agree_with("ranges", json_integer(wanted.ranges)), -1);
}

// Is it a descriptor of device memory? Asks nobody but the kernel: the file may be one of a file system that a user
// serves, and would let us wait.
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
			return refuse("invalid",
				      "publication %s: the descriptor of range %u is none of %s device memory: export "
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
		// The publisher's word; JSON knows no more.
		edition->bytes =
			entry.mapped > INT64_MAX - edition->bytes ? INT64_MAX : edition->bytes + entry.mapped;
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

void publish_take_packet(struct node *node, struct session *session)
{
	static char body[SHARE_BODY_MAX + 1]; // one thread
	struct edition *edition = session->edition;
	struct share_header header;
	struct iovec parts[2] = {{&header, sizeof header}, {body, sizeof body}};
	int descriptors[VG_WIRE_DESCRIPTORS_MAX];
	unsigned int count;
	ssize_t got = vg_wire_receive_raw(session->socket.fd, parts, descriptors, &count);

	if (got == -EAGAIN)
		return;
	if (got < 0) {
		session_end(node, session);
		return;
	}
	struct packet *packet = NULL;
	json_t *refusal = NULL;
	if ((size_t)got < sizeof header || (size_t)got - sizeof header != header.size)
		refusal = refuse("protocol", "publication %s: a packet of %zd bytes is none of an offer",
				 edition->publication->name, got);
	else
		refusal =
			broker_room(node, session->peer.uid, &(struct usage){.metadata = sizeof *packet + header.size});
	if (!refusal && !(packet = malloc(sizeof *packet + header.size)))
		refusal = refuse("system", "publication %s: no memory for it", edition->publication->name);
	if (!refusal) {
		packet->header = header;
		memcpy(packet->body, body, header.size);
		refusal = check_packet(node, edition, packet, descriptors, count);
	}
	if (refusal) {
		free(packet);
		for (unsigned int i = 0; i < count; i++)
			discard(descriptors[i]);
		session_answer(node, session, refusal, -1);
		return;
	}
	memcpy(packet->descriptors, descriptors, sizeof *descriptors * count);
	keep_packet(edition, packet);
	BROKER_STEP("a packet is kept");
	session->deadline_ns = vg_clock_monotonic_ns() + BROKER_PATIENCE_S * 1000000000ull;
	if (edition->received < edition->ranges)
		return;
	ticket_digest(edition);
	session->state = SESSION_REGISTERED;
	session->deadline_ns = 0; // the publisher waits for its work as long as that takes
	session_answer(node, session, agree_with("bytes", json_integer((json_int_t)edition->bytes)), -1);
}

// A ledger may name any process, but not charge those that cannot enter it.
static bool may_enter(const struct session *session, const struct vgpu *vgpu)
{
	return authority_allows(AUTHORITY_ENTER, authority_classify(&session->peer, vgpu->owner, vgpu->group));
}

// Who is charged, as far as the ledgers say.
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

// A generation that a daemon before us gave out, to the one whom it gave it to.
static json_t *take_up(struct session *session, const struct request *request)
{
	struct edition *edition = session->edition;
	struct publication *publication = edition->publication;

	edition->generation = session->renews;
	bool good = ticket_is_good(request->node, edition, text_of(request, "ticket"));
	edition->generation = 0;
	if (!good)
		return refuse("denied",
			      "publication %s: no valid ticket for generation %llu in this runtime directory: "
			      "publish it again",
			      publication->name, (unsigned long long)session->renews);
	return NULL;
}

// Its successor is what is open from now on; readers of the one before stay, and know.
static void supersede(struct node *node, struct publication *publication, struct edition *edition)
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
	node_unwatch(node, &publication->lost);
	if (before && before != edition)
		edition_tell_readers(node, before, VG_WIRE_SUPERSEDED, 0);
}

void publish_commit(struct session *session, const struct request *request)
{
	struct node *node = request->node;
	struct edition *edition = session->edition;
	struct publication *publication = edition->publication;
	char ticket[TICKET_TEXT + 1], id[2 * VG_PAGE_ID + 1];
	json_t *refusal = publication->refuses
				  ? refuse("busy", "publication %s is being revoked: try again when that is done",
					   publication->name)
				  : NULL;

	if (!refusal && session->renews)
		refusal = take_up(session, request);
	int r = refusal || publication->page ? 0 : page_make(node, publication);
	if (r < 0)
		refusal = refuse("system", "publication %s: its page cannot be made in %s: %s", publication->name,
				 node->runtime_dir, strerror(-r));
	if (!refusal) {
		edition->generation = session->renews ? session->renews : publication->newest + 1;
		BROKER_STEP("there is a page");
		r = ticket_make(node, edition, ticket);
		BROKER_STEP("there is a ticket");
		if (r < 0)
			refusal = refuse("system", "publication %s: the broker's key in %s: %s", publication->name,
					 node->runtime_dir, strerror(-r));
	}
	if (refusal) {
		edition->generation = 0;
		session_answer(node, session, refusal, -1);
		return;
	}
	find_vgpu(node, session, edition->vgpu);
	if (edition->generation >= publication->newest)
		supersede(node, publication, edition);
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
	session->deadline_ns = vg_clock_monotonic_ns() + BROKER_PATIENCE_S * 1000000000ull;
	edition_release(request->node, edition);
	session_answer(request->node, session, agree_with("readers", json_integer(leases)), -1);
}
