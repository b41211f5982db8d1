#include "core/layout.h"

#include "core/object.h"

int64_t vg_layout_volume(const struct vg_layout *layout)
{
	int64_t volume = 1;

	if (core_layout_is_invalid(layout))
		return 0;
	for (int i = 0; i < layout->rank; i++)
		volume *= layout->shape[i];
	return volume;
}

void vg_layout_bounds(const struct vg_layout *layout, int64_t *ret_least, int64_t *ret_greatest)
{
	int64_t least = 0, greatest = 0;

	if (vg_layout_volume(layout) > 0) {
		least = greatest = layout->offset;
		for (int i = 0; i < layout->rank; i++) {
			int64_t reach = (layout->shape[i] - 1) * layout->strides[i];
			*(reach < 0 ? &least : &greatest) += reach;
		}
	}
	if (ret_least)
		*ret_least = least;
	if (ret_greatest)
		*ret_greatest = greatest;
}

enum vg_status vg_layout_required_size(const struct vg_layout *layout, size_t *ret_bytes)
{
	VG_ENTRY();
	int64_t least, greatest;

	CORE_TRY(core_layout_check(layout));
	CORE_NEEDED(ret_bytes);
	vg_layout_bounds(layout, &least, &greatest);
	if (least < 0)
		return vg_fail(VG_INVALID, 0, "elements lie %lld elements before the pointer", -(long long)least);
	*ret_bytes = vg_layout_volume(layout) ? ((size_t)greatest + 1) * layout->item_size : 0;
	return VG_OK;
}

static int64_t absolute_stride(int64_t stride)
{
	return stride < 0 ? -stride : stride;
}

int core_layout_sorted_axes(const struct vg_layout *layout, int ret_axes[VG_LAYOUT_RANK])
{
	int count = 0;

	for (int i = 0; i < layout->rank; i++) {
		if (layout->shape[i] <= 1)
			continue;
		int at = count++;
		for (;
		     at > 0 && absolute_stride(layout->strides[ret_axes[at - 1]]) < absolute_stride(layout->strides[i]);
		     at--)
			ret_axes[at] = ret_axes[at - 1];
		ret_axes[at] = i;
	}
	return count;
}

// Returns whether there is no gap between elements along these axes. The last axis is innermost. An axis of extent 1
// may have any stride.
static bool has_no_gaps(const struct vg_layout *layout, const int *axes, int count)
{
	int64_t stride = 1;

	for (int i = count; i-- > 0;) {
		int64_t extent = layout->shape[axes[i]];
		if (extent == 1)
			continue;
		if (layout->strides[axes[i]] != stride)
			return false;
		stride *= extent;
	}
	return true;
}

static int is_contiguous(const struct vg_layout *layout, enum vg_order order)
{
	int axes[VG_LAYOUT_RANK];

	if (core_layout_is_invalid(layout))
		return 0;
	for (int i = 0; i < layout->rank; i++)
		axes[i] = order == VG_ORDER_C ? i : layout->rank - 1 - i;
	return vg_layout_volume(layout) == 0 || has_no_gaps(layout, axes, layout->rank);
}

int vg_layout_is_contiguous_c(const struct vg_layout *layout)
{
	return is_contiguous(layout, VG_ORDER_C);
}

int vg_layout_is_contiguous_f(const struct vg_layout *layout)
{
	return is_contiguous(layout, VG_ORDER_F);
}

int vg_layout_is_contiguous(const struct vg_layout *layout)
{
	int axes[VG_LAYOUT_RANK];

	if (core_layout_is_invalid(layout))
		return 0;
	return vg_layout_volume(layout) == 0 || has_no_gaps(layout, axes, core_layout_sorted_axes(layout, axes));
}

int vg_layout_is_unique(const struct vg_layout *layout)
{
	int axes[VG_LAYOUT_RANK];
	int64_t covered = 0; // distance to the furthest element that the inner axes reach

	if (core_layout_is_invalid(layout))
		return 0;
	if (vg_layout_volume(layout) == 0)
		return 1;
	for (int i = core_layout_sorted_axes(layout, axes); i-- > 0;) {
		int64_t stride = absolute_stride(layout->strides[axes[i]]);
		if (stride <= covered)
			return 0;
		covered += stride * (layout->shape[axes[i]] - 1);
	}
	return 1;
}
