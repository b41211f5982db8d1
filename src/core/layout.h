// Layouts, as this room sees them. Pure arithmetic; any thread.
#pragma once
#include <stdbool.h>

#include "base/status.h"
#include "virgate/layout.h"

// What every constructor asks: ranks, extents and strides such that no count or offset in bytes overflows.
enum vg_status core_layout_check(const struct vg_layout *layout);
// For those that cannot refuse: none is none.
static inline bool core_layout_is_none(const struct vg_layout *layout)
{
	return !layout || layout->rank < 0 || layout->rank > VG_LAYOUT_RANK;
}
// The axes with an extent over 1, those with the greatest strides first; returns how many.
int core_layout_sorted_axes(const struct vg_layout *layout, int ret_axes[VG_LAYOUT_RANK]);
// Row-major strides for the layout's shape.
void core_layout_fill_c(struct vg_layout *layout);
