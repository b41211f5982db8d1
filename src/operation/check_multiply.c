#include "operation/check.h"

#include <math.h>

static enum vg_status check_shape(struct vg_matrix_multiply *d)
{
	if (d->batch == 0)
		d->batch = 1;
	const struct check_extent extents[] = {{"m", d->m}, {"n", d->n}, {"k", d->k}, {"batch", d->batch}};
	enum vg_status status = check_extents(extents, sizeof extents / sizeof *extents, INT64_MAX);
	if (status)
		return status;
	if (!isfinite(d->alpha) || !isfinite(d->beta))
		return vg_fail(VG_INVALID, 0, "alpha is %g and beta %g: both have to be finite", d->alpha, d->beta);
	if (d->alpha == 0 && d->beta == 0)
		d->alpha = 1;
	return VG_OK;
}

static enum vg_status check_epilogue(const struct vg_matrix_multiply *d)
{
	bool takes_bias = d->epilogue == VG_EPILOGUE_BIAS || d->epilogue == VG_EPILOGUE_RELU_BIAS ||
			  d->epilogue == VG_EPILOGUE_GELU_BIAS;

	if ((unsigned)d->epilogue > VG_EPILOGUE_GELU_BIAS)
		return vg_fail(VG_INVALID, 0, "there is no epilogue %d", (int)d->epilogue);
	if (d->bias && !takes_bias)
		return vg_fail(VG_INVALID, 0,
			       "a bias is given, and the epilogue takes none: name one of "
			       "VG_EPILOGUE_BIAS, _RELU_BIAS and _GELU_BIAS");
	return VG_OK;
}

// Checks the stride from one product's matrix to the next one's. Computes how many elements all the matrices span.
static enum vg_status check_stride(const char *name, uint64_t rows, uint64_t columns, bool shared,
				   const struct checked_multiply *c, int64_t *stride, uint64_t *ret_span)
{
	uint64_t size, steps = c->d.batch - 1, span;

	enum vg_status status = check_elements(name, c->type, (const uint64_t[]){rows, columns}, 2, &size);
	if (status)
		return status;
	if (*stride < 0 || (shared && *stride))
		return vg_fail(VG_INVALID, 0, "stride_%s is %lld: %s", name, (long long)*stride,
			       shared ? "a matrix that all products share has none" : "a stride is not negative");
	if (*stride == 0 && !shared)
		*stride = (int64_t)size;
	if (__builtin_mul_overflow(steps, (uint64_t)*stride, &span) || __builtin_add_overflow(span, size, &span))
		span = UINT64_MAX;
	*ret_span = span;
	return check_elements(name, c->type, &span, 1, &span);
}

static enum vg_status check_strides(struct checked_multiply *c, uint64_t *ret_span_a, uint64_t *ret_span_b,
				    uint64_t *ret_span_c)
{
	struct vg_matrix_multiply *d = &c->d;

	enum vg_status status = check_stride("a", d->m, d->k, d->shared_a, c, &d->stride_a, ret_span_a);
	if (status)
		return status;
	status = check_stride("b", d->k, d->n, d->shared_b, c, &d->stride_b, ret_span_b);
	if (status)
		return status;
	status = check_stride("c", d->m, d->n, false, c, &d->stride_c, ret_span_c);
	if (status)
		return status;
	if (d->batch > 1 && (uint64_t)d->stride_c < d->m * d->n)
		return vg_fail(VG_INVALID, 0,
			       "stride_c is %lld, less than the %llu elements of C: the products would overlap",
			       (long long)d->stride_c, (unsigned long long)(d->m * d->n));
	return VG_OK;
}

static enum vg_status check_ranges(struct checked_multiply *c, uint64_t span_a, uint64_t span_b, uint64_t span_c)
{
	const struct vg_matrix_multiply *d = &c->d;
	bool takes_bias =
		d->epilogue != VG_EPILOGUE_NONE && d->epilogue != VG_EPILOGUE_RELU && d->epilogue != VG_EPILOGUE_GELU;

	enum vg_status status = check_range(&c->ranges, "a", d->a, span_a, c->type, false);
	if (status)
		return status;
	status = check_range(&c->ranges, "b", d->b, span_b, c->type, false);
	if (status)
		return status;
	if (takes_bias) {
		status = check_range(&c->ranges, "bias", d->bias, d->n, c->type, false);
		if (status)
			return status;
	}
	return check_range(&c->ranges, "c", d->c, span_c, c->type, true);
}

enum vg_status operation_check_multiply(const struct vg_matrix_multiply *description,
					struct checked_multiply *ret_checked)
{
	struct checked_multiply c = {.ranges.count = 0};
	struct vg_matrix_multiply *d = &c.d;
	uint64_t span_a, span_b, span_c;

	enum vg_status status = check_description(d, sizeof *d, description);
	if (status)
		return status;
	status = check_type(d->type, &c.type);
	if (status)
		return status;
	status = check_shape(d);
	if (status)
		return status;
	status = check_epilogue(d);
	if (status)
		return status;
	status = check_strides(&c, &span_a, &span_b, &span_c);
	if (status)
		return status;
	status = check_ranges(&c, span_a, span_b, span_c);
	if (status)
		return status;
	*ret_checked = c;
	return VG_OK;
}
