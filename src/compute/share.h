// Computes the compute shares of compute units. Any thread.
#pragma once
#include <stdbool.h>

#include "virgate/status.h"

struct compute_share_asked {
	double share;	    // the requested share; 0: not given
	unsigned units;	    // the requested share as a number of equal parts of the device; 0: not given
	unsigned max_units; // number of equal parts of the device, and maximum number of compute units
	double taken;	    // sum of the shares of other compute units
	unsigned places;    // number of compute units that the program may still create, including this one
};
// Computes the share. Fails with INVALID or LIMIT; the message has the figures.
enum vg_status compute_share(const struct compute_share_asked *asked, double *ret_share);
