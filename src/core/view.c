#include "core/view.h"

#include "core/buffer.h"
#include "core/layout.h"

#include <stdlib.h>

static void free_view(struct core_object *object)
{
	struct vg_view *view = (struct vg_view *)object;

	if (view->release)
		view->release(view->owner);
	vg_buffer_destroy(view->buffer);
	vg_view_destroy(view->base);
	free(view);
}

static const struct core_class view_class = {"view", NULL, free_view};

static enum vg_status check_type(const struct vg_layout *layout, struct vg_data_type type)
{
	unsigned int bits = (unsigned int)type.bits * type.lanes;

	if (bits == 0)
		return vg_fail(VG_INVALID, 0, "a type of %u bits in %u lanes", type.bits, type.lanes);
	if (bits % 8)
		return vg_fail(VG_UNSUPPORTED, 0, "elements of %u bits: views are of whole bytes", bits);
	if (bits / 8 != layout->item_size)
		return vg_fail(VG_INVALID, 0, "the layout has elements of %zu bytes, the type has %u",
			       layout->item_size, bits / 8);
	return VG_OK;
}

enum vg_status core_view_new(vg_address address, const struct vg_layout *layout, struct vg_data_type type,
			     struct vg_view **ret_view)
{
	CORE_TRY(core_layout_check(layout));
	CORE_TRY(check_type(layout, type));
	struct vg_view *view = calloc(1, sizeof *view);
	if (!view)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a view");
	core_object_init(&view->object, &view_class);
	view->address = address;
	view->layout = *layout;
	view->type = type;
	view->kind = VG_MEMORY_HOST;
	view->device = -1;
	*ret_view = view;
	return VG_OK;
}

static enum vg_status find_kind(const struct vg_memory_properties *properties, enum vg_memory_kind *ret_kind)
{
	if (properties->managed)
		*ret_kind = VG_MEMORY_MANAGED;
	else if (properties->device_accessible)
		*ret_kind = properties->host_accessible ? VG_MEMORY_PINNED : VG_MEMORY_DEVICE;
	else if (properties->host_accessible)
		*ret_kind = VG_MEMORY_HOST;
	else
		return vg_fail(VG_UNSUPPORTED, 0, "neither the host nor a device can reach the buffer");
	return VG_OK;
}

// Checks that a layout stays within `bytes` from the pointer.
static enum vg_status check_size(const struct vg_layout *layout, size_t bytes)
{
	size_t required;

	if (vg_layout_required_size(layout, &required))
		return vg_fail(VG_INVALID, 0, "elements lie before the first byte");
	if (required > bytes)
		return vg_fail(VG_INVALID, 0, "the layout needs %zu bytes, and there are %zu", required, bytes);
	return VG_OK;
}

enum vg_status vg_view_of_buffer(struct vg_buffer *buffer, const struct vg_layout *layout, struct vg_data_type type,
				 int read_only, struct vg_view **ret_view)
{
	VG_ENTRY();
	struct vg_memory_properties properties;
	enum vg_memory_kind kind = VG_MEMORY_HOST;
	struct vg_view *view;

	CORE_USABLE(buffer, "buffer");
	CORE_NEEDED(layout);
	CORE_NEEDED(ret_view);
	CORE_TRY(core_layout_check(layout));
	CORE_TRY(check_size(layout, vg_buffer_size(buffer)));
	CORE_TRY(vg_buffer_properties(buffer, &properties));
	CORE_TRY(find_kind(&properties, &kind));
	CORE_TRY(core_view_new(vg_buffer_address(buffer), layout, type, &view));
	view->kind = kind;
	view->device = kind == VG_MEMORY_HOST ? -1 : properties.device;
	view->read_only = read_only;
	view->buffer = vg_buffer_retain(buffer);
	*ret_view = view;
	return VG_OK;
}

enum vg_status vg_view_create(vg_address address, const struct vg_layout *layout, struct vg_data_type type,
			      const struct vg_view_options *options, struct vg_view **ret_view)
{
	VG_ENTRY();
	struct vg_view_options o;
	struct vg_view *view;

	CORE_NEEDED(layout);
	CORE_NEEDED(ret_view);
	CORE_OPTIONS(o, options);
	enum vg_memory_kind kind = o.kind ? o.kind : VG_MEMORY_HOST;
	if (kind != VG_MEMORY_HOST && kind != VG_MEMORY_DEVICE && kind != VG_MEMORY_PINNED && kind != VG_MEMORY_MANAGED)
		return vg_fail(VG_INVALID, 0, "memory kind %d: it is one of enum vg_memory_kind", kind);
	CORE_TRY(core_view_new(address, layout, type, &view));
	if (!address && vg_layout_volume(layout) > 0) {
		vg_view_destroy(view);
		return vg_fail(VG_INVALID, 0, "%lld elements at address 0", (long long)vg_layout_volume(layout));
	}
	view->kind = kind;
	view->device = kind == VG_MEMORY_HOST ? -1 : o.device;
	view->read_only = o.read_only;
	view->owner = o.owner;
	view->release = o.release;
	*ret_view = view;
	return VG_OK;
}

static void find_byte_range(const struct vg_layout *layout, int64_t *ret_first, int64_t *ret_end)
{
	int64_t least, greatest;

	vg_layout_bounds(layout, &least, &greatest);
	*ret_first = least * (int64_t)layout->item_size;
	*ret_end = vg_layout_volume(layout) ? (greatest + 1) * (int64_t)layout->item_size : *ret_first;
}

// Changes the type of the elements along the innermost axis, whose bytes must be a multiple of the new size.
static enum vg_status retype_layout(const struct vg_view *view, struct vg_data_type type, struct vg_layout *ret_layout)
{
	size_t item_size = (size_t)type.bits * type.lanes / 8;

	*ret_layout = view->layout;
	if (item_size == view->layout.item_size || view->layout.rank == 0)
		return VG_OK;
	return vg_layout_repack(&view->layout, view->layout.rank - 1, item_size, ret_layout);
}

enum vg_status vg_view_reinterpret(struct vg_view *view, const struct vg_layout *layout,
				   const struct vg_data_type *type, struct vg_view **ret_view)
{
	VG_ENTRY();
	struct vg_layout retyped;
	int64_t first, end, new_first, new_end;
	struct vg_view *result;

	CORE_USABLE(view, "view");
	CORE_NEEDED(ret_view);
	struct vg_data_type wanted = type ? *type : view->type;
	CORE_TRY(layout ? core_layout_check(layout) : retype_layout(view, wanted, &retyped));
	layout = layout ? layout : &retyped;
	find_byte_range(&view->layout, &first, &end);
	find_byte_range(layout, &new_first, &new_end);
	if (vg_layout_volume(layout) && (new_first < first || new_end > end))
		return vg_fail(VG_INVALID, 0, "bytes %lld to %lld: the view spans %lld to %lld", (long long)new_first,
			       (long long)new_end, (long long)first, (long long)end);
	CORE_TRY(core_view_new(view->address, layout, wanted, &result));
	core_object_retain(&view->object);
	result->base = view;
	result->buffer = vg_buffer_retain(view->buffer);
	result->kind = view->kind;
	result->device = view->device;
	result->read_only = view->read_only;
	*ret_view = result;
	return VG_OK;
}

void vg_view_destroy(struct vg_view *view)
{
	core_object_release(view ? &view->object : NULL);
}

vg_address vg_view_address(const struct vg_view *view)
{
	return view ? view->address : 0;
}

const struct vg_layout *vg_view_layout(const struct vg_view *view)
{
	return view ? &view->layout : NULL;
}

struct vg_data_type vg_view_type(const struct vg_view *view)
{
	return view ? view->type : (struct vg_data_type){0};
}

enum vg_memory_kind vg_view_kind(const struct vg_view *view)
{
	return view ? view->kind : 0;
}

int vg_view_device(const struct vg_view *view)
{
	return view ? view->device : -1;
}

int vg_view_is_device_accessible(const struct vg_view *view)
{
	return view && view->kind != VG_MEMORY_HOST;
}

int vg_view_is_host_accessible(const struct vg_view *view)
{
	return view && view->kind != VG_MEMORY_DEVICE;
}

int vg_view_is_read_only(const struct vg_view *view)
{
	return view && view->read_only;
}

struct vg_buffer *vg_view_buffer(const struct vg_view *view)
{
	return view ? view->buffer : NULL;
}
