// A view, as this room sees it.
#pragma once
#include "core/object.h"
#include "virgate/view.h"

struct vg_view {
	struct core_object object;
	vg_address address;
	struct vg_layout layout;
	struct vg_data_type type;
	enum vg_memory_kind kind;
	int device; // -1: the host's memory
	bool read_only;
	struct vg_buffer *buffer; // held, or NULL
	struct vg_view *base;	  // held, or NULL: what this one reinterprets
	void *owner;
	void (*release)(void *owner);
};

// A view with these properties that keeps nothing yet; `layout` is checked against `type`.
enum vg_status core_view_new(vg_address address, const struct vg_layout *layout, struct vg_data_type type,
			     struct vg_view **ret_view);
