#include "virgate/tensor_map.h"

#include "core/context.h"
#include "core/error.h"
#include "core/view.h"

#include <stdlib.h>

struct vg_tensor_map {
	CUtensorMap map;
	struct core_object object;
	struct vg_context *context; // owns a reference
	struct vg_view *view;	    // owns a reference
};

#define MAP_OF(object_) ((struct vg_tensor_map *)((char *)(object_)-offsetof(struct vg_tensor_map, object)))

static void free_map(struct core_object *object)
{
	struct vg_tensor_map *map = MAP_OF(object);

	vg_view_destroy(map->view);
	core_object_release(&map->context->object);
	free(map);
}

static const struct core_class map_class = {"tensor map", NULL, free_map};

// The tensor in the driver's form: innermost axis first, strides in bytes from the second axis on.
struct tensor {
	CUtensorMapDataType type;
	cuuint32_t rank;
	void *address;
	cuuint64_t dims[VG_TENSOR_MAP_RANK], strides[VG_TENSOR_MAP_RANK];
	cuuint32_t element_strides[VG_TENSOR_MAP_RANK];
	CUtensorMapInterleave interleave;
	CUtensorMapSwizzle swizzle;
	CUtensorMapL2promotion promotion;
	CUtensorMapFloatOOBfill fill;
};

static enum vg_status check_options(const struct vg_tensor_map_options *options)
{
	const struct {
		const char *name;
		unsigned value, most;
	} fields[] = {
		{"type", options->type, VG_TENSOR_TFLOAT32_FTZ},
		{"interleave", options->interleave, VG_INTERLEAVE_32B},
		{"swizzle", options->swizzle, VG_SWIZZLE_128B},
		{"l2_promotion", options->l2_promotion, VG_PROMOTION_256B},
		{"fill", options->fill, VG_FILL_NAN},
	};

	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
		if (fields[i].value > fields[i].most)
			return vg_fail(VG_INVALID, 0, "options.%s is %u: 0 to %u are known", fields[i].name,
				       fields[i].value, fields[i].most);
	return VG_OK;
}

// Returns the driver's element type, or VG_TENSOR_DEFAULT if the driver has no such type.
static enum vg_tensor_type convert_type(struct vg_data_type type)
{
	static const struct {
		struct vg_data_type type;
		enum vg_tensor_type name;
	} known[] = {
		{{VG_TYPE_UINT, 8, 1}, VG_TENSOR_UINT8},       {{VG_TYPE_INT, 8, 1}, VG_TENSOR_UINT8},
		{{VG_TYPE_BOOL, 8, 1}, VG_TENSOR_UINT8},       {{VG_TYPE_UINT, 16, 1}, VG_TENSOR_UINT16},
		{{VG_TYPE_INT, 16, 1}, VG_TENSOR_UINT16},      {{VG_TYPE_UINT, 32, 1}, VG_TENSOR_UINT32},
		{{VG_TYPE_INT, 32, 1}, VG_TENSOR_INT32},       {{VG_TYPE_UINT, 64, 1}, VG_TENSOR_UINT64},
		{{VG_TYPE_INT, 64, 1}, VG_TENSOR_INT64},       {{VG_TYPE_FLOAT, 16, 1}, VG_TENSOR_FLOAT16},
		{{VG_TYPE_FLOAT, 32, 1}, VG_TENSOR_FLOAT32},   {{VG_TYPE_FLOAT, 64, 1}, VG_TENSOR_FLOAT64},
		{{VG_TYPE_BFLOAT, 16, 1}, VG_TENSOR_BFLOAT16},
	};

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (known[i].type.code == type.code && known[i].type.bits == type.bits &&
		    known[i].type.lanes == type.lanes)
			return known[i].name;
	return VG_TENSOR_DEFAULT;
}

static unsigned element_bytes(enum vg_tensor_type type)
{
	static const unsigned char bytes[] = {
		[VG_TENSOR_UINT8] = 1,	      [VG_TENSOR_UINT16] = 2,	   [VG_TENSOR_UINT32] = 4,
		[VG_TENSOR_INT32] = 4,	      [VG_TENSOR_UINT64] = 8,	   [VG_TENSOR_INT64] = 8,
		[VG_TENSOR_FLOAT16] = 2,      [VG_TENSOR_FLOAT32] = 4,	   [VG_TENSOR_FLOAT64] = 8,
		[VG_TENSOR_BFLOAT16] = 2,     [VG_TENSOR_FLOAT32_FTZ] = 4, [VG_TENSOR_TFLOAT32] = 4,
		[VG_TENSOR_TFLOAT32_FTZ] = 4,
	};

	return bytes[type];
}

static enum vg_status choose_type(const struct vg_view *view, enum vg_tensor_type wanted, CUtensorMapDataType *ret_type)
{
	enum vg_tensor_type type = wanted ? wanted : convert_type(view->type);

	if (!type)
		return vg_fail(VG_INVALID, 0, "elements of DLPack type {%u, %u, %u}: name one in options.type",
			       view->type.code, view->type.bits, view->type.lanes);
	if (element_bytes(type) != view->layout.item_size)
		return vg_fail(VG_INVALID, 0, "options.type has elements of %u bytes, the view has %zu",
			       element_bytes(type), view->layout.item_size);
	*ret_type = (CUtensorMapDataType)(type - 1);
	return VG_OK;
}

static vg_address first_element(const struct vg_view *view)
{
	return view->address + (vg_address)(view->layout.offset * (int64_t)view->layout.item_size);
}

// Checks that the context's device can read the view's memory, and that the memory is aligned.
static enum vg_status check_memory(const struct vg_context *context, const struct vg_view *view)
{
	if (!vg_view_is_device_accessible(view))
		return vg_fail(VG_UNSUPPORTED, 0, "the view is of host memory, which a device cannot reach");
	if (view->kind == VG_MEMORY_DEVICE && view->device != vg_device_ordinal(context->device))
		return vg_fail(VG_UNSUPPORTED, 0, "the view is of device %d's memory, the context of device %d",
			       view->device, vg_device_ordinal(context->device));
	vg_address address = first_element(view);
	if (address % 16)
		return vg_fail(VG_INVALID, 0, "the first element is at 0x%llx: it must be aligned to 16 bytes",
			       (unsigned long long)address);
	return VG_OK;
}

static enum vg_status describe_axes(const struct vg_layout *layout, struct tensor *tensor)
{
	for (int i = 0; i < layout->rank; i++) {
		int axis = layout->rank - 1 - i;
		int64_t bytes = layout->strides[axis] * (int64_t)layout->item_size;
		if (layout->shape[axis] < 1)
			return vg_fail(VG_INVALID, 0, "shape[%d] is 0: a map needs elements", axis);
		if (i == 0 && layout->strides[axis] != 1)
			return vg_fail(VG_INVALID, 0, "strides[%d] is %lld: the innermost axis must have a stride of 1",
				       axis, (long long)layout->strides[axis]);
		if (i > 0 && (bytes <= 0 || bytes % 16 || bytes >= 1ll << 40))
			return vg_fail(
				VG_INVALID, 0,
				"strides[%d] is %lld bytes: it must be a multiple of 16 below 2^40, and more than 0",
				axis, (long long)bytes);
		tensor->dims[i] = (cuuint64_t)layout->shape[axis];
		if (i > 0)
			tensor->strides[i - 1] = (cuuint64_t)bytes;
	}
	return VG_OK;
}

static enum vg_status describe_steps(const struct vg_tensor_map_options *options, int rank, struct tensor *tensor)
{
	bool given = false;

	for (int i = 0; i < VG_TENSOR_MAP_RANK; i++)
		given |= options->element_strides[i] != 0;
	for (int i = 0; i < rank; i++) {
		unsigned step = given ? options->element_strides[rank - 1 - i] : 1;
		if (step < 1 || step > 8)
			return vg_fail(VG_INVALID, 0, "element_strides[%d] is %u: it must be in [1, 8]", rank - 1 - i,
				       step);
		tensor->element_strides[i] = step;
	}
	return VG_OK;
}

static enum vg_status describe_tensor(const struct vg_context *context, const struct vg_view *view,
				      const struct vg_tensor_map_options *options, int least_rank,
				      struct tensor *tensor)
{
	const struct vg_layout *layout = &view->layout;

	*tensor = (struct tensor){.rank = (cuuint32_t)layout->rank,
				  .address = (void *)(uintptr_t)first_element(view),
				  .interleave = (CUtensorMapInterleave)options->interleave,
				  .swizzle = (CUtensorMapSwizzle)(options->swizzle - 1),
				  .promotion = (CUtensorMapL2promotion)options->l2_promotion,
				  .fill = (CUtensorMapFloatOOBfill)options->fill};
	if (layout->rank < least_rank || layout->rank > VG_TENSOR_MAP_RANK)
		return vg_fail(VG_INVALID, 0, "rank %d: rank must be between %d and %d", layout->rank, least_rank,
			       VG_TENSOR_MAP_RANK);
	CORE_TRY(check_options(options));
	CORE_TRY(choose_type(view, options->type, &tensor->type));
	CORE_TRY(check_memory(context, view));
	CORE_TRY(describe_axes(layout, tensor));
	return describe_steps(options, layout->rank, tensor);
}

// Checks the arguments that all kinds of maps have, and describes the tensor.
static enum vg_status prepare_tensor(const struct vg_context *context, const struct vg_view *view, const void *box,
				     const struct vg_tensor_map_options *options, enum vg_tensor_swizzle swizzle,
				     int least_rank, struct tensor *tensor)
{
	struct vg_tensor_map_options o;

	CORE_USABLE(context, "context");
	CORE_USABLE(view, "view");
	if (!box)
		return vg_fail(VG_INVALID, 0, "box is NULL");
	CORE_TRY(vg_options_copy(&o, sizeof o, options));
	if (o.swizzle == VG_SWIZZLE_DEFAULT)
		o.swizzle = swizzle;
	return describe_tensor(context, view, &o, least_rank, tensor);
}

// Creates the map object from the tensor map that the driver encoded.
static enum vg_status create_map(CUresult result, const char *call, struct vg_context *context, struct vg_view *view,
				 const CUtensorMap *encoded, struct vg_tensor_map **ret_map)
{
	if (result)
		return core_driver_failed(result, call, "%s", "");
	struct vg_tensor_map *map = aligned_alloc(_Alignof(struct vg_tensor_map), sizeof *map);
	if (!map)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a tensor map");
	map->map = *encoded;
	core_object_init(&map->object, &map_class);
	core_object_retain(&context->object);
	core_object_retain(&view->object);
	map->context = context;
	map->view = view;
	*ret_map = map;
	return VG_OK;
}

enum vg_status vg_tensor_map_tiled(struct vg_context *context, struct vg_view *view, const unsigned *box,
				   const struct vg_tensor_map_options *options, struct vg_tensor_map **ret_map)
{
	VG_ENTRY();
	cuuint32_t turned[VG_TENSOR_MAP_RANK];
	struct tensor t;
	CUtensorMap map;

	CORE_NEEDED(ret_map);
	CORE_TRY(prepare_tensor(context, view, box, options, VG_SWIZZLE_NONE, 1, &t));
	for (cuuint32_t i = 0; i < t.rank; i++) {
		unsigned axis = t.rank - 1 - i;
		if (box[axis] < 1 || box[axis] > 256)
			return vg_fail(VG_INVALID, 0, "box[%u] is %u: it must be in [1, 256]", axis, box[axis]);
		turned[i] = box[axis];
	}
	CORE_ENTER(scope, context->handle);
	CUresult r =
		core_driver->cuTensorMapEncodeTiled(&map, t.type, t.rank, t.address, t.dims, t.strides, turned,
						    t.element_strides, t.interleave, t.swizzle, t.promotion, t.fill);
	return create_map(r, "cuTensorMapEncodeTiled", context, view, &map, ret_map);
}

enum vg_status vg_tensor_map_im2col(struct vg_context *context, struct vg_view *view, const struct vg_im2col *box,
				    const struct vg_tensor_map_options *options, struct vg_tensor_map **ret_map)
{
	VG_ENTRY();
	int lower[VG_TENSOR_MAP_RANK - 2], upper[VG_TENSOR_MAP_RANK - 2];
	struct tensor t;
	CUtensorMap map;

	CORE_NEEDED(ret_map);
	CORE_TRY(prepare_tensor(context, view, box, options, VG_SWIZZLE_NONE, 3, &t));
	for (int i = 0, corners = (int)t.rank - 2; i < corners; i++) {
		lower[i] = box->lower[corners - 1 - i];
		upper[i] = box->upper[corners - 1 - i];
	}
	CORE_ENTER(scope, context->handle);
	CUresult r = core_driver->cuTensorMapEncodeIm2col(
		&map, t.type, t.rank, t.address, t.dims, t.strides, lower, upper, box->channels_per_pixel,
		box->pixels_per_column, t.element_strides, t.interleave, t.swizzle, t.promotion, t.fill);
	return create_map(r, "cuTensorMapEncodeIm2col", context, view, &map, ret_map);
}

static enum vg_status check_wide(const struct vg_device *device, const struct vg_im2col_wide *box)
{
	if (device->compute_major < 10)
		return vg_fail(VG_UNSUPPORTED, 0, "wide maps need compute capability 10.0, device %d has %d.%d",
			       device->ordinal, device->compute_major, device->compute_minor);
	if (box->mode != VG_WIDE_W && box->mode != VG_WIDE_W128)
		return vg_fail(VG_INVALID, 0, "mode %d: it is VG_WIDE_W or VG_WIDE_W128", box->mode);
	return VG_OK;
}

enum vg_status vg_tensor_map_im2col_wide(struct vg_context *context, struct vg_view *view,
					 const struct vg_im2col_wide *box, const struct vg_tensor_map_options *options,
					 struct vg_tensor_map **ret_map)
{
	VG_ENTRY();
	struct tensor t;
	CUtensorMap map;

	CORE_NEEDED(ret_map);
	CORE_TRY(prepare_tensor(context, view, box, options, VG_SWIZZLE_128B, 3, &t));
	CORE_TRY(check_wide(context->device, box));
	CORE_ENTER(scope, context->handle);
	CUresult r = core_driver->cuTensorMapEncodeIm2colWide(
		&map, t.type, t.rank, t.address, t.dims, t.strides, box->lower_w, box->upper_w, box->channels_per_pixel,
		box->pixels_per_column, t.element_strides, t.interleave, (CUtensorMapIm2ColWideMode)box->mode,
		t.swizzle, t.promotion, t.fill);
	return create_map(r, "cuTensorMapEncodeIm2colWide", context, view, &map, ret_map);
}

static enum vg_status check_alike(const struct vg_layout *one, const struct vg_layout *other)
{
	bool alike = one->rank == other->rank && one->item_size == other->item_size;

	for (int i = 0; alike && i < one->rank; i++)
		alike = one->shape[i] == other->shape[i] &&
			(one->shape[i] == 1 || one->strides[i] == other->strides[i]);
	return alike ? VG_OK
		     : vg_fail(VG_INVALID, 0, "the view's shape or strides are not those that the map was made for");
}

enum vg_status vg_tensor_map_replace_address(struct vg_tensor_map *map, struct vg_view *view)
{
	VG_ENTRY();
	CORE_NEEDED(map);
	CORE_USABLE(view, "view");
	CORE_TRY(check_memory(map->context, view));
	CORE_TRY(check_alike(&map->view->layout, &view->layout));
	CORE_ENTER(scope, map->context->handle);
	CORE_CALL(cuTensorMapReplaceAddress, &map->map, (void *)(uintptr_t)first_element(view));
	core_object_retain(&view->object);
	vg_view_destroy(map->view);
	map->view = view;
	return VG_OK;
}

void vg_tensor_map_destroy(struct vg_tensor_map *map)
{
	core_object_release(map ? &map->object : NULL);
}

const void *vg_tensor_map_value(const struct vg_tensor_map *map)
{
	return map ? &map->map : NULL;
}

struct vg_device *vg_tensor_map_device(const struct vg_tensor_map *map)
{
	return map ? map->context->device : NULL;
}
