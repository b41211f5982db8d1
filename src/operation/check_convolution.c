#include "operation/check.h"

// Returns the number of output positions along one side; 0 if the filter does not fit.
static uint64_t count_positions(uint64_t extent, uint64_t kernel, unsigned stride, unsigned padding, unsigned dilation)
{
	uint64_t padded = extent + 2 * (uint64_t)padding, reach = (kernel - 1) * dilation + 1;

	return padded < reach ? 0 : (padded - reach) / stride + 1;
}

static enum vg_status check_side(const char *side, uint64_t extent, uint64_t kernel, unsigned *stride, unsigned padding,
				 unsigned *dilation, uint64_t *ret_positions)
{
	*stride = *stride ? *stride : 1;
	*dilation = *dilation ? *dilation : 1;
	if (*stride > INT32_MAX || padding > INT32_MAX || *dilation > INT32_MAX)
		return vg_fail(VG_INVALID, 0, "stride %u, padding %u, dilation %u: none may be above %d", *stride,
			       padding, *dilation, INT32_MAX);
	*ret_positions = count_positions(extent, kernel, *stride, padding, *dilation);
	if (*ret_positions == 0)
		return vg_fail(
			VG_INVALID, 0,
			"the filter's %s, %llu with a dilation of %u, is larger than the image's with its padding, "
			"%llu + 2 * %u: there is no output",
			side, (unsigned long long)kernel, *dilation, (unsigned long long)extent, padding);
	if (*ret_positions > INT32_MAX)
		return vg_fail(VG_INVALID, 0, "the output's %s would be %llu, above %d", side,
			       (unsigned long long)*ret_positions, INT32_MAX);
	return VG_OK;
}

static enum vg_status check_groups(struct vg_convolution *d)
{
	d->groups = d->groups ? d->groups : 1;
	if (d->in_channels % d->groups == 0 && d->out_channels % d->groups == 0)
		return VG_OK;
	return vg_fail(VG_INVALID, 0, "%u groups do not divide %llu input and %llu output channels", d->groups,
		       (unsigned long long)d->in_channels, (unsigned long long)d->out_channels);
}

static enum vg_status check_shape(struct checked_convolution *c)
{
	struct vg_convolution *d = &c->d;
	const struct check_extent extents[] = {{"batch", d->batch},
					       {"in_channels", d->in_channels},
					       {"out_channels", d->out_channels},
					       {"height", d->height},
					       {"width", d->width},
					       {"kernel_height", d->kernel_height},
					       {"kernel_width", d->kernel_width}};
	uint64_t weights = 0;

	enum vg_status status = check_extents(extents, sizeof extents / sizeof *extents, INT32_MAX);
	if (status)
		return status;
	status = check_groups(d);
	if (status)
		return status;
	status = check_side("height", d->height, d->kernel_height, &d->stride[0], d->padding[0], &d->dilation[0],
			    &c->output_height);
	if (status)
		return status;
	status = check_side("width", d->width, d->kernel_width, &d->stride[1], d->padding[1], &d->dilation[1],
			    &c->output_width);
	if (status)
		return status;
	const uint64_t filter[] = {d->in_channels / d->groups, d->kernel_height, d->kernel_width};
	status = check_elements("a filter", c->type, filter, 3, &weights);
	if (status)
		return status;
	if (weights > INT32_MAX)
		return vg_fail(VG_INVALID, 0, "an output channel's filter has %llu weights, more than %d",
			       (unsigned long long)weights, INT32_MAX);
	return VG_OK;
}

static enum vg_status check_ranges(struct checked_convolution *c)
{
	const struct vg_convolution *d = &c->d;
	const uint64_t input[] = {d->batch, d->in_channels, d->height, d->width};
	const uint64_t filter[] = {d->out_channels, d->in_channels / d->groups, d->kernel_height, d->kernel_width};
	const uint64_t output[] = {d->batch, d->out_channels, c->output_height, c->output_width};
	uint64_t inputs, weights, outputs;

	enum vg_status status = check_elements("input", c->type, input, 4, &inputs);
	if (status)
		return status;
	status = check_elements("filter", c->type, filter, 4, &weights);
	if (status)
		return status;
	status = check_elements("output", c->type, output, 4, &outputs);
	if (status)
		return status;
	status = check_range(&c->ranges, "input", d->input, inputs, c->type, false);
	if (status)
		return status;
	status = check_range(&c->ranges, "filter", d->filter, weights, c->type, false);
	if (status)
		return status;
	if (d->bias) {
		status = check_range(&c->ranges, "bias", d->bias, d->out_channels, c->type, false);
		if (status)
			return status;
	}
	return check_range(&c->ranges, "output", d->output, outputs, c->type, true);
}

static enum vg_status check_convolution(struct checked_convolution *c, const struct vg_convolution *description)
{
	enum vg_status status = check_description(&c->d, sizeof c->d, description);
	if (status)
		return status;
	status = check_type(c->d.type, &c->type);
	return status ? status : check_shape(c);
}

enum vg_status operation_check_convolution(const struct vg_convolution *description,
					   struct checked_convolution *ret_checked)
{
	struct checked_convolution c = {.ranges.count = 0};

	enum vg_status status = check_convolution(&c, description);
	if (status)
		return status;
	status = check_ranges(&c);
	if (status)
		return status;
	*ret_checked = c;
	return VG_OK;
}

enum vg_status vg_convolution_output(const struct vg_convolution *convolution, uint64_t *ret_height,
				     uint64_t *ret_width)
{
	VG_ENTRY();
	struct checked_convolution c;

	CORE_NEEDED(ret_height);
	CORE_NEEDED(ret_width);
	enum vg_status status = check_convolution(&c, convolution);
	if (status)
		return status;
	*ret_height = c.output_height;
	*ret_width = c.output_width;
	return VG_OK;
}
