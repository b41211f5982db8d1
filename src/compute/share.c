// Validates and computes the compute shares of compute units.
#include "compute/share.h"

#include "base/status.h"

#include <math.h>

static const double slack = 1e-9; // for rounding errors

static enum vg_status check_range(double share)
{
	if (share > 0 && share <= 1)
		return VG_OK;
	return vg_fail(VG_INVALID, 0, "a share of %g: above 0 up to 1 is possible", share);
}

static enum vg_status check_units(unsigned units, unsigned max_units)
{
	if (units >= 1 && units <= max_units)
		return VG_OK;
	return vg_fail(VG_INVALID, 0, "%u compute units: 1 to %u, which the device is divided into, are possible",
		       units, max_units);
}

static enum vg_status check_sum(double share, double taken)
{
	if (share + taken <= 1 + slack)
		return VG_OK;
	if (1 - taken <= slack)
		return vg_fail(VG_LIMIT, 0,
			       "a share of %g, but nothing is left: all of the device is given away to other units; "
			       "make another's share smaller first",
			       share);
	return vg_fail(VG_LIMIT, 0,
		       "a share of %g, but %g is left: %g of 1 is given away to other units; ask for less, or make "
		       "another's share smaller first",
		       share, 1 - taken, taken);
}

static enum vg_status compute_equal_part(double taken, unsigned places, double *ret_share)
{
	if (1 - taken <= slack)
		return vg_fail(VG_LIMIT, 0,
			       "all of the device is given away to other units: make another's share smaller first");
	*ret_share = (1 - taken) / (places ? places : 1);
	return VG_OK;
}

enum vg_status compute_share(const struct compute_share_asked *asked, double *ret_share)
{
	const bool by_units = asked->units != 0, by_share = asked->share != 0 || isnan(asked->share);
	double share = asked->share;

	if (!by_units && !by_share)
		return compute_equal_part(asked->taken, asked->places, ret_share);
	enum vg_status status = by_share ? check_range(share) : VG_OK;
	if (status)
		return status;
	if (by_units) {
		status = check_units(asked->units, asked->max_units);
		if (status)
			return status;
		double of_units = (double)asked->units / asked->max_units;
		if (by_share && fabs(of_units - share) > slack)
			return vg_fail(VG_INVALID, 0,
				       "a share of %g and %u of %u compute units, which are %g: leave one of them 0",
				       share, asked->units, asked->max_units, of_units);
		share = of_units;
	}
	status = check_sum(share, asked->taken);
	if (status)
		return status;
	*ret_share = share;
	return VG_OK;
}
