// Declares the view object. Any thread.
#pragma once
#include "core/object.h"
#include "virgate/view.h"

struct vg_view {
	struct core_object object;
	vg_address address;
	struct vg_layout layout;
	struct vg_data_type type;
	enum vg_memory_kind kind;
	int device; // ordinal; -1: host memory
	bool read_only;
	struct vg_buffer *buffer; // owns a reference, or NULL
	struct vg_view *base;	  // the view that this one reinterprets; owns a reference, or NULL
	void *owner;
	void (*release)(void *owner);
};

// Creates a view without references to other objects. Checks `layout` against `type`. INVALID, UNSUPPORTED, NO_MEMORY.
enum vg_status core_view_new(vg_address address, const struct vg_layout *layout, struct vg_data_type type,
			     struct vg_view **ret_view);
