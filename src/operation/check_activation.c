#include "operation/check.h"

#include <math.h>

static enum vg_status check_alpha(struct vg_activation *d)
{
	bool takes = d->kind == VG_ACTIVATION_LEAKY_RELU || d->kind == VG_ACTIVATION_ELU;

	if (!vg_activation_name(d->kind))
		return vg_fail(VG_INVALID, 0, "there is no activation %d: vg_activation_by_name() knows them",
			       (int)d->kind);
	if (!isfinite(d->alpha) || (d->alpha != 0 && !takes))
		return vg_fail(VG_INVALID, 0, "alpha is %g: %s", d->alpha,
			       takes ? "it has to be finite" : "only leaky_relu and elu take one");
	if (d->alpha == 0)
		d->alpha = d->kind == VG_ACTIVATION_ELU ? 1 : 0.01;
	return VG_OK;
}

enum vg_status operation_check_activation(const struct vg_activation *description,
					  struct checked_activation *ret_checked)
{
	struct checked_activation c = {.ranges.count = 0};
	struct vg_activation *d = &c.d;
	uint64_t elements;

	enum vg_status status = check_description(d, sizeof *d, description);
	if (status)
		return status;
	status = check_type(d->type, &c.type);
	if (status)
		return status;
	status = check_alpha(d);
	if (status)
		return status;
	const struct check_extent extents[] = {
		{"batch", d->batch}, {"channels", d->channels}, {"height", d->height}, {"width", d->width}};
	status = check_extents(extents, sizeof extents / sizeof *extents, INT64_MAX);
	if (status)
		return status;
	const uint64_t shape[] = {d->batch, d->channels, d->height, d->width};
	status = check_elements("input", c.type, shape, 4, &elements);
	if (status)
		return status;
	bool in_place = d->input == d->output;
	status = check_range(&c.ranges, "input", d->input, elements, c.type, in_place);
	if (status)
		return status;
	if (!in_place) {
		status = check_range(&c.ranges, "output", d->output, elements, c.type, true);
		if (status)
			return status;
	}
	*ret_checked = c;
	return VG_OK;
}
