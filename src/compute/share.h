// Computes shares. Any thread.
#pragma once
#include <stdbool.h>

#include "virgate/status.h"

struct compute_share_asked {
	double share;	    // 0: not given
	unsigned units;	    // 0: not given
	unsigned max_units; // of the device
	double taken;	    // share of other units
	unsigned places;    // number of units that may still be created, including this one
};
// INVALID or LIMIT, with the figures.
enum vg_status compute_share(const struct compute_share_asked *asked, double *ret_share);
