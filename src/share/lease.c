// Implements leases: the right of a reader to one generation of a publication.
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/core.h"
#include "core/object.h"
#include "share/link.h"
#include "share/step.h"

struct vg_share_lease {
	pthread_mutex_t lock;
	struct share_link link;
	struct vg_share_offer *offer;
	bool writable, lost;
};

static void destroy_lease(struct vg_share_lease *lease)
{
	vg_share_offer_destroy(lease->offer);
	share_link_finish(&lease->link);
	pthread_mutex_destroy(&lease->lock);
	free(lease);
}

static enum vg_status request_lease(struct vg_share_lease *lease, enum share_start start)
{
	struct share_link *link = &lease->link;
	json_t *request = json_pack("{s:s, s:s, s:s}", "op", "open", "name", link->name, "access",
				    lease->writable ? "read-write" : "read");
	json_t *reply;

	if (request && link->generation) { // the daemon was restarted: ask for the same generation again
		json_object_set_new(request, "generation", json_integer((json_int_t)link->generation));
		json_object_set_new(request, "ticket", json_string(link->ticket));
	}
	enum vg_status status = share_link_begin(link, start, request, &reply);
	if (status)
		return status;
	status = share_link_read_grant(link, reply);
	json_decref(reply);
	SHARE_STEP("granted");
	return status;
}

enum vg_status vg_share_open(struct vg_node *node, const char *name, const struct vg_share_open_options *options,
			     struct vg_share_lease **ret_lease)
{
	VG_ENTRY();
	struct vg_share_open_options o;

	VG_NEEDED(node);
	VG_NEEDED(name);
	VG_NEEDED(ret_lease);
	CORE_OPTIONS(o, options);
	enum vg_status status = vg_check_name(name);
	if (status == VG_OK)
		status = core_open(); // load the driver first, because without it the memory could not be used
	if (status)
		return status;
	struct vg_share_lease *lease = calloc(1, sizeof *lease);
	if (!lease)
		return vg_fail(VG_NO_MEMORY, ENOMEM, "no memory for a lease");
	pthread_mutex_init(&lease->lock, NULL);
	share_link_init(&lease->link, node, name);
	lease->writable = o.writable;
	status = request_lease(lease, SHARE_MAY_START);
	if (status == VG_OK)
		status = vg_share_receive(lease->link.descriptor, NULL, &lease->offer);
	SHARE_STEP("opened");
	if (status)
		destroy_lease(lease);
	else
		*ret_lease = lease;
	return status;
}

const struct vg_share_offer *vg_share_lease_offer(const struct vg_share_lease *lease)
{
	return lease ? lease->offer : NULL;
}

uint64_t vg_share_lease_generation(const struct vg_share_lease *lease)
{
	return lease ? lease->link.generation : 0;
}

int vg_share_lease_is_current(const struct vg_share_lease *lease)
{
	const struct vg_wire_page *page = lease ? lease->link.page : NULL;

	return page && page->current == lease->link.generation && page->asked < lease->link.generation;
}

int vg_share_lease_descriptor(const struct vg_share_lease *lease)
{
	return lease ? lease->link.descriptor : -1;
}

// Requests the same lease from a restarted daemon. The daemon does not send the ranges again.
static void reopen_lease(struct vg_share_lease *lease)
{
	enum vg_status status = request_lease(lease, SHARE_NO_START);

	if (status == VG_OK)
		return;
	lease->link.ended = true;
	lease->lost = status == VG_NOT_FOUND || status == VG_DENIED || status == VG_INVALID || status == VG_PROTOCOL;
}

enum vg_status vg_share_lease_look(struct vg_share_lease *lease, struct vg_publication_view *ret_view)
{
	VG_ENTRY();
	struct vg_kept_error kept;
	struct vg_publication_view view;

	VG_NEEDED(lease);
	VG_NEEDED(ret_view);
	enum vg_status status = share_link_check_process(&lease->link);
	if (status)
		return status;
	if (ret_view->size < sizeof(size_t) || ret_view->size > 4096)
		return vg_fail(VG_INVALID, 0, "the view's size field is not set: set it to sizeof");
	pthread_mutex_lock(&lease->lock);
	share_link_drain(&lease->link);
	if (lease->link.ended && !lease->lost) {
		vg_error_keep(&kept); // a failure only changes the lease's state, so the last error is restored
		reopen_lease(lease);
		vg_error_restore(&kept);
	}
	share_link_view(&lease->link, &view);
	if (lease->lost)
		view.state = VG_PUBLICATION_LOST;
	else if (lease->link.ended && view.state == VG_PUBLICATION_CURRENT)
		view.state = VG_PUBLICATION_DETACHED;
	pthread_mutex_unlock(&lease->lock);
	view.size = ret_view->size;
	memcpy(ret_view, &view, view.size < sizeof view ? view.size : sizeof view);
	return VG_OK;
}

void vg_share_lease_close(struct vg_share_lease *lease)
{
	if (lease)
		destroy_lease(lease);
}
