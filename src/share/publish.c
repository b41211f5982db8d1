// Publishes offers. Publishes them again after the daemon was restarted.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "core/object.h"
#include "core/stream.h"
#include "share/link.h"
#include "share/offer.h"
#include "share/step.h"
#include "vram/vram.h"

struct vg_publication {
	pthread_mutex_t lock;
	struct share_link link;
	struct vg_share_offer *offer; // copy with its own descriptors, to be published again if the daemon restarts
	unsigned mode;
	char *group; // NULL: none
	bool withdrawn, lost;
};

static void destroy_publication(struct vg_publication *publication)
{
	share_link_finish(&publication->link);
	vg_share_offer_destroy(publication->offer);
	pthread_mutex_destroy(&publication->lock);
	free(publication->group);
	free(publication);
}

// Copies the offer, with duplicates of its descriptors.
static enum vg_status copy_offer(const struct vg_share_offer *offer, struct vg_share_offer **ret_copy)
{
	struct vg_share_offer *copy = calloc(1, sizeof *copy);

	for (size_t i = 0; copy && i < offer->count; i++) {
		struct share_range range = offer->ranges[i];
		range.descriptor = fcntl(range.descriptor, F_DUPFD_CLOEXEC, 0);
		int error = errno;
		if (range.descriptor < 0) {
			vg_share_offer_destroy(copy);
			return vg_fail(VG_SYSTEM, error, "no more descriptors may be open here (ulimit -n): %s",
				       strerror(error));
		}
		range.seal = range.seal ? strdup(range.seal) : NULL;
		bool has_seal = !offer->ranges[i].seal || range.seal;
		if (share_offer_append(copy, &range) < 0 || !has_seal) {
			vg_share_offer_destroy(copy);
			copy = NULL;
		}
	}
	if (!copy)
		return vg_fail(VG_NO_MEMORY, ENOMEM, "no memory for a publication");
	*ret_copy = copy;
	return VG_OK;
}

// Waits for all work of this process on the devices of the offer.
static enum vg_status wait_for_devices(const struct vg_share_offer *offer)
{
	int count = 0;
	enum vg_status status = vg_device_count(&count);

	for (int i = 0; status == VG_OK && i < count; i++) {
		struct vg_device *device;
		bool is_used = false;
		status = vg_device_get(i, &device);
		for (size_t j = 0; status == VG_OK && j < offer->count; j++)
			is_used |= memcmp(offer->ranges[j].uuid, device->uuid.bytes, sizeof offer->ranges[j].uuid) == 0;
		if (is_used)
			status = vg_device_sync(device);
	}
	return status;
}

// ---- the two steps ------------------------------------------------------------------------------------------

static json_t *make_publish_request(const struct vg_publication *publication)
{
	const struct share_link *link = &publication->link;
	json_t *request = json_pack("{s:s, s:s, s:i, s:I}", "op", "publish", "name", link->name, "mode",
				    (int)publication->mode, "ranges", (json_int_t)publication->offer->count);

	if (request && publication->group)
		json_object_set_new(request, "group", json_string(publication->group));
	if (request && link->generation) { // the daemon was restarted: publish the same generation again
		json_object_set_new(request, "generation", json_integer((json_int_t)link->generation));
		json_object_set_new(request, "id", json_string(link->id));
	}
	return request;
}

// Sends name, rights and ranges. If the broker rejects the publication, it does so in this step.
static enum vg_status register_ranges(struct vg_publication *publication)
{
	struct share_link *link = &publication->link;
	json_t *reply;

	enum vg_status status = share_link_begin(link, SHARE_MAY_START, make_publish_request(publication), &reply);
	if (status)
		return status;
	json_decref(reply);
	SHARE_STEP("named");
	status = vg_share_send(link->descriptor, publication->offer, NULL);
	if (status && status != VG_SYSTEM)
		return status;
	status = share_link_receive(link, &reply); // even if sending failed with SYSTEM, the reply says why
	if (status == VG_OK)
		json_decref(reply);
	SHARE_STEP("registered");
	return status;
}

static enum vg_status commit_generation(struct vg_publication *publication)
{
	struct share_link *link = &publication->link;
	json_t *request = json_pack("{s:s}", "op", "commit"), *reply;

	if (request && link->generation)
		json_object_set_new(request, "ticket", json_string(link->ticket));
	enum vg_status status = share_link_ask(link, request, &reply);
	if (status)
		return status;
	const char *id = json_string_value(json_object_get(reply, "id"));
	status = share_link_read_grant(link, reply);
	if (status == VG_OK && id)
		snprintf(link->id, sizeof link->id, "%s", id);
	json_decref(reply);
	SHARE_STEP("committed");
	return status;
}

static enum vg_status check_publish(const char *name, const struct vg_share_offer *offer,
				    const struct vg_publish_options *options)
{
	enum vg_status status = vg_check_name(name);

	if (status)
		return status;
	if (offer->count == 0)
		return vg_fail(VG_INVALID, 0, "the offer has no ranges: add one with vg_share_offer_add()");
	if (options->mode & ~0666u)
		return vg_fail(VG_INVALID, 0, "mode %#o: it says who may read (4) and write (2), such as 0640",
			       options->mode);
	return VG_OK;
}

static enum vg_status create_publication(struct vg_node *node, const char *name, const struct vg_share_offer *offer,
					 const struct vg_publish_options *options,
					 struct vg_publication **ret_publication)
{
	struct vg_publication *publication = calloc(1, sizeof *publication);

	if (!publication)
		return vg_fail(VG_NO_MEMORY, ENOMEM, "no memory for a publication");
	pthread_mutex_init(&publication->lock, NULL);
	share_link_init(&publication->link, node, name);
	publication->mode = options->mode ? options->mode : options->group ? 0640 : 0600;
	publication->group = options->group ? strdup(options->group) : NULL;
	enum vg_status status = copy_offer(offer, &publication->offer);
	if (status == VG_OK && options->group && !publication->group)
		status = vg_fail(VG_NO_MEMORY, ENOMEM, "no memory for a publication");
	if (status)
		destroy_publication(publication);
	else
		*ret_publication = publication;
	return status;
}

enum vg_status vg_share_publish(struct vg_node *node, const char *name, const struct vg_share_offer *offer,
				const struct vg_publish_options *options, struct vg_publication **ret_publication)
{
	VG_ENTRY();
	struct vg_publish_options o;
	struct vg_publication *publication = NULL;

	VG_NEEDED(node);
	VG_NEEDED(name);
	VG_NEEDED(offer);
	VG_NEEDED(ret_publication);
	CORE_OPTIONS(o, options);
	enum vg_status status = check_publish(name, offer, &o);
	if (status == VG_OK)
		status = create_publication(node, name, offer, &o, &publication);
	if (status)
		return status;
	status = register_ranges(publication);
	if (status == VG_OK)
		status = o.fence ? vg_stream_sync(o.fence) : wait_for_devices(offer);
	SHARE_STEP("fence waited for");
	if (status == VG_OK)
		status = commit_generation(publication);
	if (status)
		destroy_publication(publication);
	else
		*ret_publication = publication;
	return status;
}

// ---- afterwards ---------------------------------------------------------------------------------------------

// Returns whether the publication was revoked. It remains revoked if the daemon restarts.
static bool is_revoked(const struct share_link *link)
{
	const struct vg_wire_page *page = link->page;

	return page && page->asked >= link->generation && page->current != link->generation;
}

// Publishes the same generation at a restarted daemon. If the daemon denies that permanently, the publication is lost.
static void publish_again(struct vg_publication *publication)
{
	enum vg_status status = register_ranges(publication);

	if (status == VG_OK)
		status = commit_generation(publication);
	if (status == VG_OK)
		return;
	publication->link.ended = true;
	publication->lost = status == VG_EXISTS || status == VG_DENIED || status == VG_INVALID ||
			    status == VG_PROTOCOL || status == VG_NOT_FOUND;
}

enum vg_status vg_publication_look(struct vg_publication *publication, struct vg_publication_view *ret_view)
{
	VG_ENTRY();
	struct vg_kept_error kept;
	struct vg_publication_view view;

	VG_NEEDED(publication);
	VG_NEEDED(ret_view);
	enum vg_status status = share_link_check_process(&publication->link);
	if (status)
		return status;
	if (ret_view->size < sizeof(size_t) || ret_view->size > 4096)
		return vg_fail(VG_INVALID, 0, "the view's size field is not set: set it to sizeof");
	pthread_mutex_lock(&publication->lock);
	share_link_drain(&publication->link);
	if (publication->link.ended && !publication->withdrawn && !publication->lost &&
	    !is_revoked(&publication->link)) {
		vg_error_keep(&kept); // a failure only changes the publication's state, so the last error is restored
		publish_again(publication);
		vg_error_restore(&kept);
	}
	share_link_view(&publication->link, &view);
	if (publication->lost)
		view.state = VG_PUBLICATION_LOST;
	else if (publication->withdrawn)
		view.state = VG_PUBLICATION_WITHDRAWN;
	else if (publication->link.ended && !is_revoked(&publication->link))
		view.state = VG_PUBLICATION_DETACHED;
	pthread_mutex_unlock(&publication->lock);
	view.size = ret_view->size;
	memcpy(ret_view, &view, view.size < sizeof view ? view.size : sizeof view);
	return VG_OK;
}

uint64_t vg_publication_generation(const struct vg_publication *publication)
{
	return publication ? publication->link.generation : 0;
}

int vg_publication_descriptor(const struct vg_publication *publication)
{
	return publication ? publication->link.descriptor : -1;
}

enum vg_status vg_publication_withdraw(struct vg_publication *publication, unsigned *ret_readers)
{
	VG_ENTRY();
	unsigned readers = 0;
	json_t *reply;

	VG_NEEDED(publication);
	enum vg_status status = share_link_check_process(&publication->link);
	if (status)
		return status;
	pthread_mutex_lock(&publication->lock);
	if (!publication->withdrawn) {
		status = share_link_ask(&publication->link, json_pack("{s:s}", "op", "withdraw"), &reply);
		publication->withdrawn = true;
		if (status == VG_OK) {
			readers = (unsigned)json_integer_value(json_object_get(reply, "readers"));
			json_decref(reply);
		}
	}
	pthread_mutex_unlock(&publication->lock);
	if (status == VG_OK && ret_readers)
		*ret_readers = readers;
	return status;
}

void vg_publication_destroy(struct vg_publication *publication)
{
	if (publication)
		destroy_publication(publication);
}
