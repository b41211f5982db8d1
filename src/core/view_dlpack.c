// Imports views from DLPack, and exports them.
#include "core/dlpack.h"
#include "core/layout.h"
#include "core/view.h"

#include <stdlib.h>
#include <string.h>

static enum vg_status check_tensor(const struct dlpack_tensor *tensor)
{
	enum vg_memory_kind kind = (enum vg_memory_kind)tensor->device.type;

	if (kind != VG_MEMORY_HOST && kind != VG_MEMORY_DEVICE && kind != VG_MEMORY_PINNED && kind != VG_MEMORY_MANAGED)
		return vg_fail(VG_UNSUPPORTED, 0, "DLPack device type %d: views are of host and CUDA memory",
			       tensor->device.type);
	if (tensor->rank < 0 || tensor->rank > VG_LAYOUT_RANK)
		return vg_fail(VG_INVALID, 0, "rank %d: a layout has 0 to %d axes", tensor->rank, VG_LAYOUT_RANK);
	if ((unsigned int)tensor->type.bits * tensor->type.lanes % 8)
		return vg_fail(VG_UNSUPPORTED, 0, "elements of %u bits: views are of whole bytes",
			       (unsigned int)tensor->type.bits * tensor->type.lanes);
	return VG_OK;
}

static enum vg_status create_view(const struct dlpack_tensor *tensor, struct vg_view **ret_view)
{
	const struct vg_data_type type = {tensor->type.code, tensor->type.bits, tensor->type.lanes};
	vg_address address = (vg_address)(uintptr_t)tensor->data;
	struct vg_layout layout;
	struct vg_view *view;

	CORE_TRY(check_tensor(tensor));
	CORE_TRY(vg_layout_strided(tensor->rank, tensor->shape, tensor->strides, (size_t)type.bits * type.lanes / 8,
				   &layout));
	if (__builtin_add_overflow(address, tensor->byte_offset, &address))
		return vg_fail(VG_INVALID, 0, "byte_offset %llu leads beyond the address space",
			       (unsigned long long)tensor->byte_offset);
	if (!tensor->data && vg_layout_volume(&layout) > 0)
		return vg_fail(VG_INVALID, 0, "%lld elements at address 0", (long long)vg_layout_volume(&layout));
	CORE_TRY(core_view_new(address, &layout, type, &view));
	view->kind = (enum vg_memory_kind)tensor->device.type;
	view->device = view->kind == VG_MEMORY_HOST ? -1 : tensor->device.id;
	*ret_view = view;
	return VG_OK;
}

static void delete_imported(void *owner)
{
	struct DLManagedTensor *tensor = owner;

	if (tensor->deleter)
		tensor->deleter(tensor);
}

static void delete_imported_versioned(void *owner)
{
	struct DLManagedTensorVersioned *tensor = owner;

	if (tensor->deleter)
		tensor->deleter(tensor);
}

enum vg_status vg_view_import(struct DLManagedTensor *tensor, struct vg_view **ret_view)
{
	VG_ENTRY();
	CORE_NEEDED(tensor);
	CORE_NEEDED(ret_view);
	CORE_TRY(create_view(&tensor->tensor, ret_view));
	(*ret_view)->owner = tensor;
	(*ret_view)->release = delete_imported;
	return VG_OK;
}

enum vg_status vg_view_import_versioned(struct DLManagedTensorVersioned *tensor, struct vg_view **ret_view)
{
	VG_ENTRY();
	CORE_NEEDED(tensor);
	CORE_NEEDED(ret_view);
	if (tensor->version.major != DLPACK_MAJOR)
		return vg_fail(VG_UNSUPPORTED, 0, "a tensor of DLPack %u.%u: %d is known", tensor->version.major,
			       tensor->version.minor, DLPACK_MAJOR);
	CORE_TRY(create_view(&tensor->tensor, ret_view));
	(*ret_view)->read_only = tensor->flags & DLPACK_READ_ONLY;
	(*ret_view)->owner = tensor;
	(*ret_view)->release = delete_imported_versioned;
	return VG_OK;
}

// An exported tensor, with storage for the arrays that the tensor points to.
struct exported {
	union {
		struct DLManagedTensor plain;
		struct DLManagedTensorVersioned versioned;
	};
	struct vg_view *view;
	int64_t shape[VG_LAYOUT_RANK], strides[VG_LAYOUT_RANK];
};

static void free_exported(struct exported *exported)
{
	vg_view_destroy(exported->view);
	free(exported);
}

static void delete_exported(struct DLManagedTensor *tensor)
{
	if (tensor)
		free_exported(tensor->manager);
}

static void delete_exported_versioned(struct DLManagedTensorVersioned *tensor)
{
	if (tensor)
		free_exported(tensor->manager);
}

static struct exported *create_exported(struct vg_view *view)
{
	struct exported *exported = calloc(1, sizeof *exported);

	if (!exported)
		return NULL;
	core_object_retain(&view->object);
	exported->view = view;
	memcpy(exported->shape, view->layout.shape, sizeof exported->shape);
	memcpy(exported->strides, view->layout.strides, sizeof exported->strides);
	return exported;
}

// Describes a view as a tensor of DLPack. Adds the offset to the pointer, since some consumers ignore byte_offset.
static struct dlpack_tensor describe_view(const struct vg_view *view, struct exported *exported)
{
	int64_t offset = view->layout.offset * (int64_t)view->layout.item_size;

	return (struct dlpack_tensor){
		.data = (void *)(uintptr_t)(view->address + (vg_address)offset),
		.device = {(int32_t)view->kind, view->device < 0 ? 0 : view->device},
		.rank = view->layout.rank,
		.type = {view->type.code, view->type.bits, view->type.lanes},
		.shape = exported->shape,
		.strides = exported->strides,
	};
}

enum vg_status vg_view_export(struct vg_view *view, struct DLManagedTensor **ret_tensor)
{
	VG_ENTRY();
	CORE_USABLE(view, "view");
	CORE_NEEDED(ret_tensor);
	if (view->read_only)
		return vg_fail(
			VG_UNSUPPORTED, 0,
			"the view is read-only, which this form of DLPack cannot say: use vg_view_export_versioned()");
	struct exported *exported = create_exported(view);
	if (!exported)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a tensor");
	exported->plain = (struct DLManagedTensor){describe_view(view, exported), exported, delete_exported};
	*ret_tensor = &exported->plain;
	return VG_OK;
}

enum vg_status vg_view_export_versioned(struct vg_view *view, struct DLManagedTensorVersioned **ret_tensor)
{
	VG_ENTRY();
	CORE_USABLE(view, "view");
	CORE_NEEDED(ret_tensor);
	struct exported *exported = create_exported(view);
	if (!exported)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a tensor");
	exported->versioned = (struct DLManagedTensorVersioned){
		.version = {DLPACK_MAJOR, DLPACK_MINOR},
		.manager = exported,
		.deleter = delete_exported_versioned,
		.flags = view->read_only ? DLPACK_READ_ONLY : 0,
		.tensor = describe_view(view, exported),
	};
	*ret_tensor = &exported->versioned;
	return VG_OK;
}
