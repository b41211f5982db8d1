// Shares as numbers. Any thread.
#pragma once
#include <stdbool.h>

#include "virgate/status.h"

struct compute_share_asked {
	double share;	    // 0: not given
	unsigned units;	    // likewise
	unsigned max_units; // that the device has
	double taken;	    // by others
	unsigned places;    // for units, that are left, this one's included
};
// INVALID, LIMIT, with the figures.
enum vg_status compute_share(const struct compute_share_asked *asked, double *ret_share);
