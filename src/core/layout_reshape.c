// Gives the same bytes another shape or another element size.
#include "core/layout.h"

#include "core/object.h"

#include <string.h>

// Returns the stride that an axis needs if it directly encloses an axis of this extent and stride. Returns 0 if that
// stride would overflow.
static int64_t outer_stride(int64_t extent, int64_t stride)
{
	int64_t around;

	return __builtin_mul_overflow(extent, stride, &around) ? 0 : around;
}

// Returns whether there is no gap between two adjacent axes, so that they can be merged into one. `outer` is the stride
// of the outer axis; `extent` and `stride` are those of the inner axis.
static bool encloses(int64_t outer, int64_t extent, int64_t stride)
{
	int64_t around;

	return !__builtin_mul_overflow(extent, stride, &around) && outer == around;
}

// Merges adjacent axes that have no gap between them, and drops axes of extent 1.
static void merge_axes(const struct vg_layout *layout, struct vg_layout *ret_merged)
{
	*ret_merged = (struct vg_layout){.offset = layout->offset, .item_size = layout->item_size};
	for (int i = 0; i < layout->rank; i++) {
		int last = ret_merged->rank - 1;
		if (layout->shape[i] == 1)
			continue;
		if (last >= 0 && encloses(ret_merged->strides[last], layout->shape[i], layout->strides[i])) {
			ret_merged->shape[last] *= layout->shape[i];
			ret_merged->strides[last] = layout->strides[i];
		} else {
			ret_merged->shape[ret_merged->rank] = layout->shape[i];
			ret_merged->strides[ret_merged->rank++] = layout->strides[i];
		}
	}
}

// Splits the merged axes into the wanted ones, from the innermost outwards. Returns false if a wanted axis would cross
// a gap.
static bool split_axes(const struct vg_layout *merged, struct vg_layout *result)
{
	int from = merged->rank - 1;
	int64_t left = from >= 0 ? merged->shape[from] : 1, stride = from >= 0 ? merged->strides[from] : 1;

	for (int i = result->rank; i-- > 0;) {
		if (result->shape[i] == 1) {
			result->strides[i] = stride;
			continue;
		}
		if (left == 1 && from > 0) {
			from--;
			left = merged->shape[from];
			stride = merged->strides[from];
		}
		if (left % result->shape[i])
			return false;
		result->strides[i] = stride;
		stride = outer_stride(result->shape[i], stride);
		left /= result->shape[i];
	}
	return true;
}

static enum vg_status infer_extent(const struct vg_layout *layout, struct vg_layout *result)
{
	int64_t volume = vg_layout_volume(layout), known = 1;
	int unknown = -1;

	for (int i = 0; i < result->rank; i++) {
		if (result->shape[i] == -1 && unknown < 0)
			unknown = i;
		else if (result->shape[i] < 0)
			return vg_fail(VG_INVALID, 0, "shape[%d] is %lld: an extent is 0 or more, and one may be -1", i,
				       (long long)result->shape[i]);
		else if (__builtin_mul_overflow(known, result->shape[i], &known))
			return vg_fail(VG_INVALID, 0, "the shape has more than 2^63 elements");
	}
	if (unknown >= 0 && known > 0 && volume % known == 0)
		result->shape[unknown] = volume / known;
	else if (unknown >= 0 || known != volume)
		return vg_fail(VG_INVALID, 0, "%lld elements do not fit a shape of %lld%s", (long long)volume,
			       (long long)known, unknown >= 0 ? " and one extent to find" : "");
	return VG_OK;
}

static enum vg_status reshape_layout(const struct vg_layout *layout, int rank, const int64_t *shape,
				     struct vg_layout *ret_layout)
{
	struct vg_layout merged, result = {.rank = rank, .offset = layout->offset, .item_size = layout->item_size};

	if (rank < 0 || rank > VG_LAYOUT_RANK || (rank && !shape))
		return vg_fail(VG_INVALID, 0, "rank %d: a layout has 0 to %d axes, and a shape", rank, VG_LAYOUT_RANK);
	memcpy(result.shape, shape ? shape : result.shape, (size_t)rank * sizeof *shape);
	CORE_TRY(infer_extent(layout, &result));
	merge_axes(layout, &merged);
	if (vg_layout_volume(layout) == 0)
		core_layout_fill_c(&result);
	else if (!split_axes(&merged, &result))
		return vg_fail(VG_UNSUPPORTED, 0, "the layout has gaps where the new shape has none: copy it first");
	CORE_TRY(core_layout_check(&result));
	*ret_layout = result;
	return VG_OK;
}

enum vg_status vg_layout_reshape(const struct vg_layout *layout, int rank, const int64_t *shape,
				 struct vg_layout *ret_layout)
{
	VG_ENTRY();
	CORE_TRY(core_layout_check(layout));
	CORE_NEEDED(ret_layout);
	return reshape_layout(layout, rank, shape, ret_layout);
}

enum vg_status vg_layout_flatten(const struct vg_layout *layout, int first, int last, struct vg_layout *ret_layout)
{
	VG_ENTRY();
	int64_t shape[VG_LAYOUT_RANK], extent = 1;
	int rank = 0;

	CORE_TRY(core_layout_check(layout));
	CORE_NEEDED(ret_layout);
	if (first < 0 || last < first || last >= layout->rank)
		return vg_fail(VG_INVALID, 0, "axes %d to %d: the layout has %d, counted from 0", first, last,
			       layout->rank);
	for (int i = 0; i < layout->rank; i++) {
		if (i < first || i > last) {
			shape[rank++] = layout->shape[i];
			continue;
		}
		extent *= layout->shape[i];
		if (i == last)
			shape[rank++] = extent;
	}
	return reshape_layout(layout, rank, shape, ret_layout);
}

static enum vg_status check_repack_axis(const struct vg_layout *layout, int axis)
{
	if (axis < 0 || axis >= layout->rank)
		return vg_fail(VG_INVALID, 0, "axis %d: the layout has %d, counted from 0", axis, layout->rank);
	if (layout->strides[axis] != 1 && layout->shape[axis] != 1)
		return vg_fail(VG_INVALID, 0, "axis %d has a stride of %lld: elements change size along a stride of 1",
			       axis, (long long)layout->strides[axis]);
	return VG_OK;
}

// Converts a number of elements to elements of another size. Returns false if the bytes are not a multiple of that
// size.
static bool convert_units(int64_t elements, size_t from, size_t to, int64_t *ret_elements)
{
	int64_t bytes = elements * (int64_t)from;

	*ret_elements = bytes / (int64_t)to;
	return bytes % (int64_t)to == 0;
}

// Changes the size of the elements along `axis`, whose elements are adjacent. In bytes, the offset, the length of
// `axis` and the strides of the other axes must be multiples of the new size. Returns -1 on success.
// Returns -2 if the offset is no such multiple, or the index of an axis whose stride or length is none.
static int repack_layout(const struct vg_layout *layout, int axis, size_t item_size, struct vg_layout *ret_layout)
{
	struct vg_layout result = *layout;

	result.item_size = item_size;
	if (!convert_units(layout->offset, layout->item_size, item_size, &result.offset))
		return -2;
	for (int i = 0; i < layout->rank; i++) {
		if (i == axis ? !convert_units(layout->shape[i], layout->item_size, item_size, &result.shape[i])
			      : layout->shape[i] > 1 && !convert_units(layout->strides[i], layout->item_size, item_size,
								       &result.strides[i]))
			return i;
	}
	result.strides[axis] = 1;
	*ret_layout = result;
	return -1;
}

enum vg_status vg_layout_repack(const struct vg_layout *layout, int axis, size_t item_size,
				struct vg_layout *ret_layout)
{
	VG_ENTRY();
	struct vg_layout result;

	CORE_TRY(core_layout_check(layout));
	CORE_NEEDED(ret_layout);
	CORE_TRY(check_repack_axis(layout, axis));
	if (item_size == 0 || item_size > INT64_MAX)
		return vg_fail(VG_INVALID, 0, "elements of %zu bytes", item_size);
	int uneven = repack_layout(layout, axis, item_size, &result);
	if (uneven == -2)
		return vg_fail(VG_INVALID, 0, "the first element does not lie on a multiple of %zu bytes", item_size);
	if (uneven >= 0)
		return vg_fail(VG_INVALID, 0, "axis %d: %lld elements of %zu bytes are no multiple of %zu bytes",
			       uneven, (long long)(uneven == axis ? layout->shape[uneven] : layout->strides[uneven]),
			       layout->item_size, item_size);
	CORE_TRY(core_layout_check(&result));
	*ret_layout = result;
	return VG_OK;
}

enum vg_status vg_layout_max_item_size(const struct vg_layout *layout, int axis, vg_address address, size_t limit,
				       size_t *ret_item_size)
{
	VG_ENTRY();
	struct vg_layout unused;
	size_t largest;

	CORE_TRY(core_layout_check(layout));
	CORE_NEEDED(ret_item_size);
	CORE_TRY(check_repack_axis(layout, axis));
	largest = layout->item_size;
	for (size_t size = 1; size <= limit && size <= (size_t)1 << 62 && address % size == 0; size *= 2)
		if (size > largest && repack_layout(layout, axis, size, &unused) == -1)
			largest = size;
	*ret_item_size = largest;
	return VG_OK;
}
