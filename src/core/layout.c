#include "core/layout.h"

#include "core/object.h"

#include <string.h>

void core_layout_fill_c(struct vg_layout *layout)
{
	int64_t stride = 1;

	// An axis of extent 0 counts as 1 here, so that a shape without elements has strides, too.
	for (int i = layout->rank; i-- > 0;) {
		layout->strides[i] = stride;
		stride *= layout->shape[i] > 1 ? layout->shape[i] : 1;
	}
}

static enum vg_status check_rank(int rank)
{
	if (rank < 0 || rank > VG_LAYOUT_RANK)
		return vg_fail(VG_INVALID, 0, "rank %d: a layout has 0 to %d axes", rank, VG_LAYOUT_RANK);
	return VG_OK;
}

static enum vg_status check_shape(int rank, const int64_t *shape, size_t item_size)
{
	int64_t volume = 1, bytes;

	CORE_TRY(check_rank(rank));
	if (rank && !shape)
		return vg_fail(VG_INVALID, 0, "shape is NULL, and the rank is %d", rank);
	if (item_size == 0)
		return vg_fail(VG_INVALID, 0, "elements of 0 bytes");
	for (int i = 0; i < rank; i++) {
		if (shape[i] < 0)
			return vg_fail(VG_INVALID, 0, "shape[%d] is %lld: an extent is 0 or more", i,
				       (long long)shape[i]);
		// Count an axis of extent 0 as 1, as core_layout_fill_c() does. So the strides that it computes cannot
		// overflow.
		if (__builtin_mul_overflow(volume, shape[i] > 1 ? shape[i] : 1, &volume))
			return vg_fail(VG_INVALID, 0, "the shape has more than 2^63 elements");
	}
	if (item_size > INT64_MAX || __builtin_mul_overflow(volume, (int64_t)item_size, &bytes))
		return vg_fail(VG_INVALID, 0, "%lld elements of %zu bytes are more than 2^63 bytes", (long long)volume,
			       item_size);
	return VG_OK;
}

enum vg_status core_layout_check(const struct vg_layout *layout)
{
	int64_t reach, bytes;

	CORE_NEEDED(layout);
	CORE_TRY(check_shape(layout->rank, layout->shape, layout->item_size));
	int64_t least = layout->offset, greatest = layout->offset;
	for (int i = 0; i < layout->rank; i++) {
		int64_t last = layout->shape[i] > 1 ? layout->shape[i] - 1 : 0;
		if (layout->strides[i] == INT64_MIN || __builtin_mul_overflow(last, layout->strides[i], &reach) ||
		    __builtin_add_overflow(reach < 0 ? least : greatest, reach, reach < 0 ? &least : &greatest))
			return vg_fail(VG_INVALID, 0, "strides[%d] is %lld: elements would lie beyond 2^63", i,
				       (long long)layout->strides[i]);
	}
	// The end of the last element must have a valid offset in bytes too.
	if (least == INT64_MIN || __builtin_add_overflow(greatest, 1, &greatest) ||
	    __builtin_mul_overflow(greatest, (int64_t)layout->item_size, &bytes) ||
	    __builtin_mul_overflow(least, (int64_t)layout->item_size, &bytes))
		return vg_fail(VG_INVALID, 0, "elements would lie beyond 2^63 bytes");
	return VG_OK;
}

static enum vg_status return_layout(const struct vg_layout *layout, struct vg_layout *ret_layout)
{
	CORE_TRY(core_layout_check(layout));
	*ret_layout = *layout;
	return VG_OK;
}

static enum vg_status check_axes(int rank, const int *axes)
{
	bool seen[VG_LAYOUT_RANK] = {false};

	for (int i = 0; i < rank; i++) {
		if (axes[i] < 0 || axes[i] >= rank || seen[axes[i]])
			return vg_fail(VG_INVALID, 0, "axes[%d] is %d: each of 0 to %d must be there once", i, axes[i],
				       rank - 1);
		seen[axes[i]] = true;
	}
	return VG_OK;
}

enum vg_status vg_layout_dense_axes(int rank, const int64_t *shape, size_t item_size, const int *axes,
				    struct vg_layout *ret_layout)
{
	VG_ENTRY();
	struct vg_layout layout = {.rank = rank, .item_size = item_size};
	int64_t stride = 1;

	CORE_NEEDED(ret_layout);
	CORE_TRY(check_shape(rank, shape, item_size));
	if (rank && !axes)
		return vg_fail(VG_INVALID, 0, "axes is NULL");
	CORE_TRY(check_axes(rank, axes));
	for (int i = rank; i-- > 0;) {
		int axis = axes[i];
		layout.shape[axis] = shape[axis];
		layout.strides[axis] = stride;
		stride *= shape[axis] > 1 ? shape[axis] : 1;
	}
	return return_layout(&layout, ret_layout);
}

enum vg_status vg_layout_dense(int rank, const int64_t *shape, size_t item_size, enum vg_order order,
			       struct vg_layout *ret_layout)
{
	VG_ENTRY();
	int axes[VG_LAYOUT_RANK];

	CORE_TRY(check_rank(rank));
	if (order != VG_ORDER_C && order != VG_ORDER_F)
		return vg_fail(VG_INVALID, 0, "order %d: it is VG_ORDER_C or VG_ORDER_F", order);
	for (int i = 0; i < rank; i++)
		axes[i] = order == VG_ORDER_C ? i : rank - 1 - i;
	return vg_layout_dense_axes(rank, shape, item_size, axes, ret_layout);
}

enum vg_status vg_layout_strided(int rank, const int64_t *shape, const int64_t *strides, size_t item_size,
				 struct vg_layout *ret_layout)
{
	VG_ENTRY();
	struct vg_layout layout = {.rank = rank, .item_size = item_size};

	CORE_NEEDED(ret_layout);
	CORE_TRY(check_shape(rank, shape, item_size));
	memcpy(layout.shape, shape ? shape : layout.shape, (size_t)rank * sizeof *shape);
	if (strides)
		memcpy(layout.strides, strides, (size_t)rank * sizeof *strides);
	else
		core_layout_fill_c(&layout);
	return return_layout(&layout, ret_layout);
}

static enum vg_status check_axis(const struct vg_layout *layout, int axis)
{
	if (axis < 0 || axis >= layout->rank)
		return vg_fail(VG_INVALID, 0, "axis %d: the layout has %d, counted from 0", axis, layout->rank);
	return VG_OK;
}

enum vg_status vg_layout_permute(const struct vg_layout *layout, const int *axes, struct vg_layout *ret_layout)
{
	VG_ENTRY();
	CORE_TRY(core_layout_check(layout));
	CORE_NEEDED(axes);
	CORE_NEEDED(ret_layout);
	struct vg_layout result = *layout;
	CORE_TRY(check_axes(layout->rank, axes));
	for (int i = 0; i < layout->rank; i++) {
		result.shape[i] = layout->shape[axes[i]];
		result.strides[i] = layout->strides[axes[i]];
	}
	return return_layout(&result, ret_layout);
}

enum vg_status vg_layout_squeeze(const struct vg_layout *layout, struct vg_layout *ret_layout)
{
	VG_ENTRY();
	CORE_TRY(core_layout_check(layout));
	CORE_NEEDED(ret_layout);
	struct vg_layout result = *layout;
	result.rank = 0;
	for (int i = 0; i < layout->rank; i++)
		if (layout->shape[i] != 1) {
			result.shape[result.rank] = layout->shape[i];
			result.strides[result.rank++] = layout->strides[i];
		}
	return return_layout(&result, ret_layout);
}

enum vg_status vg_layout_unsqueeze(const struct vg_layout *layout, int axis, struct vg_layout *ret_layout)
{
	VG_ENTRY();
	CORE_TRY(core_layout_check(layout));
	CORE_NEEDED(ret_layout);
	struct vg_layout result = *layout;
	if (axis < 0 || axis > layout->rank || layout->rank == VG_LAYOUT_RANK)
		return vg_fail(VG_INVALID, 0, "an axis before %d: the layout has %d, and %d is the most", axis,
			       layout->rank, VG_LAYOUT_RANK);
	size_t behind = (size_t)(layout->rank - axis) * sizeof *layout->shape;
	memmove(result.shape + axis + 1, layout->shape + axis, behind);
	memmove(result.strides + axis + 1, layout->strides + axis, behind);
	result.shape[axis] = 1;
	if (axis == layout->rank ||
	    __builtin_mul_overflow(layout->shape[axis], layout->strides[axis], &result.strides[axis]))
		result.strides[axis] = 1; // an axis of extent 1 may have any stride
	result.rank++;
	return return_layout(&result, ret_layout);
}

enum vg_status vg_layout_broadcast(const struct vg_layout *layout, int rank, const int64_t *shape,
				   struct vg_layout *ret_layout)
{
	VG_ENTRY();
	CORE_TRY(core_layout_check(layout));
	CORE_NEEDED(ret_layout);
	struct vg_layout result = {.rank = rank, .offset = layout->offset, .item_size = layout->item_size};
	CORE_TRY(check_shape(rank, shape, layout->item_size));
	int added = rank - layout->rank;
	if (added < 0)
		return vg_fail(VG_INVALID, 0, "%d axes cannot become %d", layout->rank, rank);
	for (int i = 0; i < rank; i++) {
		int64_t extent = i < added ? 1 : layout->shape[i - added];
		if (extent != 1 && extent != shape[i])
			return vg_fail(VG_INVALID, 0, "shape[%d] is %lld: %lld elements do not repeat to it", i,
				       (long long)shape[i], (long long)extent);
		result.shape[i] = shape[i];
		result.strides[i] = extent == shape[i] && i >= added ? layout->strides[i - added] : 0;
	}
	return return_layout(&result, ret_layout);
}

enum vg_status vg_layout_slice(const struct vg_layout *layout, int axis, int64_t start, int64_t stop, int64_t step,
			       struct vg_layout *ret_layout)
{
	VG_ENTRY();
	CORE_TRY(core_layout_check(layout));
	CORE_NEEDED(ret_layout);
	struct vg_layout result = *layout;
	CORE_TRY(check_axis(layout, axis));
	int64_t extent = layout->shape[axis];
	if (step == 0 || step == INT64_MIN)
		return vg_fail(VG_INVALID, 0, "a step of %lld", (long long)step);
	if (step > 0 ? start < 0 || start > extent || stop < start || stop > extent
		     : start < -1 || start >= extent || stop < -1 || stop > start)
		return vg_fail(VG_INVALID, 0, "from %lld to %lld by %lld: axis %d has %lld elements", (long long)start,
			       (long long)stop, (long long)step, axis, (long long)extent);
	int64_t distance = step > 0 ? stop - start : start - stop, stride = step > 0 ? step : -step;
	result.shape[axis] = distance / stride + (distance % stride != 0);
	if (__builtin_mul_overflow(layout->strides[axis], step, &result.strides[axis]))
		result.strides[axis] = 0; // the step is larger than the axis, so only one element is left
	if (result.shape[axis] > 0)
		result.offset += start * layout->strides[axis];
	return return_layout(&result, ret_layout);
}
