// Asks the daemon for what the page shows. Asks for each list at most twice a second, however many readers the page
// has. Used by the server's thread only.
#pragma once
#include <stdbool.h>

#include <virgate/journal.h>
#include <virgate/vgpu.h>

#include "exporter/samples.h"

// What the page and its interface show. The lists belong to gather().
struct gathered {
	char problem[512]; // why the lists are missing; "": they are complete
	double time;	   // when the lists were made
	const struct vg_vgpu_list *vgpus;
	const struct vg_device_list *devices;
	struct vg_daemon_info daemon;
	const struct samples *samples;
	const struct vg_journal_list *events; // the newest ones
};

// Returns the lists, which are valid until the next call. With `is_public`, the events are only those that every user
// may see. The vGPUs always have their tenants, which the caller must not show then.
const struct gathered *gather(struct vg_node *node, bool is_public);
