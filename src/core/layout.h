// Checks layouts, which a program may have filled by hand. Pure arithmetic; any thread.
#pragma once
#include <stdbool.h>

#include "base/status.h"
#include "virgate/layout.h"

// Returns INVALID for NULL, and if ranks, extents and strides make a count or an offset in bytes overflow.
enum vg_status core_layout_check(const struct vg_layout *layout);
// Returns whether the layout is NULL or has an invalid rank. For functions that cannot fail.
static inline bool core_layout_is_invalid(const struct vg_layout *layout)
{
	return !layout || layout->rank < 0 || layout->rank > VG_LAYOUT_RANK;
}
// Lists the axes with an extent over 1, by descending stride, and returns their number.
int core_layout_sorted_axes(const struct vg_layout *layout, int ret_axes[VG_LAYOUT_RANK]);
// Fills in row-major strides for the layout's shape.
void core_layout_fill_c(struct vg_layout *layout);
