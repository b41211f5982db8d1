#include "share/link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/status.h"
#include "share/step.h"

void share_link_init(struct share_link *link, const struct vg_node *node, const char *name)
{
	*link = (struct share_link){.node = *node, .descriptor = -1, .process = getpid()};
	snprintf(link->name, sizeof link->name, "%s", name);
}

void share_link_finish(struct share_link *link)
{
	if (link->descriptor >= 0 && link->process == getpid())
		// Forked children may have the connection open, too, so close() alone would not end it.
		shutdown(link->descriptor, SHUT_RDWR);
	if (link->descriptor >= 0)
		close(link->descriptor);
	if (link->page)
		munmap((void *)link->page, VG_PAGE_SIZE);
}

enum vg_status share_link_check_process(const struct share_link *link)
{
	if (link->process == getpid())
		return VG_OK;
	return vg_fail(VG_STATE, 0, "this is process %d's, and a forked child can only destroy it", (int)link->process);
}

// Maps the page that came with a reply. Checks the file's type and size, since access to a truncated file would fault.
// Replaces the old page at the same address, since another thread may be reading that page. Usually both are the same
// file.
static void map_page(struct share_link *link, int descriptor)
{
	void *before = (void *)link->page, *page = MAP_FAILED;
	struct stat status;

	if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_size == VG_PAGE_SIZE)
		page = mmap(before, VG_PAGE_SIZE, PROT_READ, MAP_SHARED | (before ? MAP_FIXED : 0), descriptor, 0);
	if (page != MAP_FAILED)
		link->page = page;
}

enum vg_status share_link_receive(struct share_link *link, json_t **ret_reply)
{
	struct vg_wire_message *message = malloc(sizeof *message);
	json_t *reply = NULL;
	int r;

	if (!message)
		return vg_fail(VG_NO_MEMORY, ENOMEM, "no memory for the daemon's answer");
	do
		r = vg_wire_receive(link->descriptor, message);
	while (r == 0 && message->type == VG_WIRE_EVENT); // skip events: the page has the new state anyway
	if (r == 0 && message->type == VG_WIRE_REPLY)
		reply = json_loads(message->text, JSON_REJECT_DUPLICATES, NULL);
	for (unsigned i = 0; r == 0 && i < message->descriptor_count; i++) {
		if (i == 0)
			map_page(link, message->descriptors[i]);
		close(message->descriptors[i]);
	}
	free(message);
	if (r < 0) {
		link->ended = true;
		return vg_node_unreached(&link->node, r);
	}
	enum vg_status status = VG_OK;
	if (!json_is_object(reply))
		status = vg_fail(VG_PROTOCOL, 0, "the daemon's reply is not a JSON object");
	else if (!json_is_true(json_object_get(reply, "ok")))
		status = vg_node_refused(reply);
	if (status)
		json_decref(reply);
	else
		*ret_reply = reply;
	return status;
}

static enum vg_status send_request(int descriptor, const struct share_link *link, json_t *request)
{
	char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;

	json_decref(request);
	if (!text)
		return vg_fail(VG_INVALID, 0, "the request cannot be put in JSON: its names must be UTF-8");
	int r = vg_wire_send(descriptor, VG_WIRE_SHARE, 0, text, strlen(text), NULL, 0);
	free(text);
	return r < 0 ? vg_node_unreached(&link->node, r) : VG_OK;
}

enum vg_status share_link_ask(struct share_link *link, json_t *request, json_t **ret_reply)
{
	enum vg_status status = send_request(link->descriptor, link, request);

	return status ? status : share_link_receive(link, ret_reply);
}

enum vg_status share_link_begin(struct share_link *link, enum share_start start, json_t *request, json_t **ret_reply)
{
	enum vg_status status;
	int descriptor = -1;

	link->node.may_start &= start == SHARE_MAY_START;
	if (request)
		json_object_set_new(request, "simulate", json_string(link->node.simulate));
	status = vg_node_reach(&link->node, &descriptor);
	SHARE_STEP("connected to the broker");
	if (status == VG_OK) {
		status = send_request(descriptor, link, request);
		request = NULL;
	}
	json_decref(request);
	if (status) {
		if (descriptor >= 0)
			close(descriptor);
		return status;
	}
	if (link->descriptor >= 0) { // keep the descriptor number, because the program may poll it
		dup3(descriptor, link->descriptor, O_CLOEXEC);
		close(descriptor);
	} else {
		link->descriptor = descriptor;
	}
	link->ended = false;
	return share_link_receive(link, ret_reply);
}

enum vg_status share_link_read_grant(struct share_link *link, const json_t *reply)
{
	const char *ticket = json_string_value(json_object_get(reply, "ticket"));
	json_int_t generation = json_integer_value(json_object_get(reply, "generation"));

	if (!ticket || generation <= 0 || !link->page)
		return vg_fail(VG_PROTOCOL, 0, "the daemon's reply lacks the publication's generation or page");
	if (link->generation && link->generation != (uint64_t)generation)
		return vg_fail(VG_PROTOCOL, 0, "the daemon takes generation %llu back as %lld",
			       (unsigned long long)link->generation, (long long)generation);
	if (!link->generation)
		link->generation = (uint64_t)generation;
	snprintf(link->ticket, sizeof link->ticket, "%s", ticket);
	return VG_OK;
}

void share_link_drain(struct share_link *link)
{
	struct pollfd ready = {.fd = link->descriptor, .events = POLLIN};
	struct vg_wire_message *message = NULL;

	while (!link->ended && poll(&ready, 1, 0) == 1) {
		if (!message && !(message = malloc(sizeof *message)))
			return;
		int r = vg_wire_receive(link->descriptor, message);
		for (unsigned i = 0; r == 0 && i < message->descriptor_count; i++)
			close(message->descriptors[i]);
		link->ended = r < 0;
	}
	free(message);
}

void share_link_view(const struct share_link *link, struct vg_publication_view *ret_view)
{
	const struct vg_wire_page *page = link->page;
	uint64_t current = page ? page->current : 0, asked = page ? page->asked : 0;
	int64_t left = page ? (int64_t)(page->deadline_ns - vg_clock_monotonic_ns()) : 0;

	*ret_view = (struct vg_publication_view){.size = sizeof *ret_view,
						 .state = VG_PUBLICATION_SUPERSEDED,
						 .generation = link->generation,
						 .current = current};
	if (asked >= link->generation && asked) {
		ret_view->state = VG_PUBLICATION_ASKED_BACK;
		ret_view->seconds_left = (double)left / 1e9;
	} else if (current == link->generation) {
		ret_view->state = VG_PUBLICATION_CURRENT;
	} else if (current == 0) {
		ret_view->state = VG_PUBLICATION_WITHDRAWN;
	}
}
