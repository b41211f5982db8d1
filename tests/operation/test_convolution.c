// Compares convolutions with the host's results, for every parameter and type, and with every provider (library) that
// is available.
#include "operation_test.h"

struct layer {
	struct vg_convolution d;
	uint64_t rows, columns; // the number of rows and columns of the output
	struct tensor input, filter, output, bias;
};

static struct layer make_layer(struct subject *s, struct vg_convolution d, bool bias)
{
	struct layer l = {.d = d};
	unsigned groups = d.groups ? d.groups : 1;

	l.d.size = sizeof l.d;
	OK(vg_convolution_output(&l.d, &l.rows, &l.columns));
	l.input = make_tensor(s, d.type, d.batch * d.in_channels * d.height * d.width);
	l.filter = make_tensor(s, d.type, d.out_channels * (d.in_channels / groups) * d.kernel_height * d.kernel_width);
	l.output = make_tensor(s, d.type, d.batch * d.out_channels * l.rows * l.columns);
	l.bias = make_tensor(s, d.type, d.out_channels);
	l.d.input = l.input.address;
	l.d.filter = l.filter.address;
	l.d.output = l.output.address;
	l.d.bias = bias ? l.bias.address : 0;
	return l;
}

static void drop_layer(struct layer *l)
{
	drop_tensor(&l->input);
	drop_tensor(&l->filter);
	drop_tensor(&l->output);
	drop_tensor(&l->bias);
}

// Compares element `at` of the output with the sum of its terms, which the host computes.
static void check_element(const struct layer *l, const void *got, size_t at, const char *what)
{
	const struct vg_convolution *d = &l->d;
	const struct traits *t = traits_of(d->type);
	int64_t stride[2], dilation[2], groups = d->groups ? d->groups : 1;
	int64_t x = (int64_t)(at % l->columns), y = (int64_t)(at / l->columns % l->rows);
	int64_t o = (int64_t)(at / l->columns / l->rows % d->out_channels);
	int64_t image = (int64_t)(at / l->columns / l->rows / d->out_channels);
	int64_t channels = (int64_t)d->in_channels / groups, first = o / ((int64_t)d->out_channels / groups) * channels;
	long double sum = 0, size = 0;
	uint64_t terms = 0;

	for (int i = 0; i < 2; i++) {
		stride[i] = d->stride[i] ? d->stride[i] : 1;
		dilation[i] = d->dilation[i] ? d->dilation[i] : 1;
	}
	for (int64_t c = 0; c < channels; c++)
		for (int64_t r = 0; r < (int64_t)d->kernel_height; r++)
			for (int64_t q = 0; q < (int64_t)d->kernel_width; q++, terms++) {
				int64_t row = y * stride[0] - d->padding[0] + r * dilation[0];
				int64_t column = x * stride[1] - d->padding[1] + q * dilation[1];
				if (row < 0 || row >= (int64_t)d->height || column < 0 || column >= (int64_t)d->width)
					continue;
				size_t in =
					(size_t)(((image * (int64_t)d->in_channels + first + c) * (int64_t)d->height +
						  row) * (int64_t)d->width +
						 column);
				size_t weight = (size_t)(((o * channels + c) * (int64_t)d->kernel_height + r) *
								 (int64_t)d->kernel_width +
							 q);
				long double term = (long double)get(d->type, l->input.host, in) *
						   get(d->type, l->filter.host, weight);
				sum += term;
				size += fabsl(term);
			}
	long double tolerance = t->product * size;
	if (d->bias) {
		long double bias = get(d->type, l->bias.host, (size_t)o);
		tolerance += fabsl(sum) * t->half; // a provider may round the sum before it adds the bias
		sum += bias;
		size += fabsl(bias);
	}
	tolerance += (long double)(terms + 8) * t->sum * size;
	check_near(d->type, get(d->type, got, at), sum, tolerance, what, at);
}

static void check_layer(struct subject *s, struct layer *l, struct operation_rules rules)
{
	struct operation_plan *plan;
	char what[200];

	upload(s, &l->output);
	OK(operation_plan_convolution(s->set, &l->d, rules, &plan));
	snprintf(what, sizeof what, "%llu channels of %llu x %llu to %llu, %s", (unsigned long long)l->d.in_channels,
		 (unsigned long long)l->d.height, (unsigned long long)l->d.width, (unsigned long long)l->d.out_channels,
		 operation_plan_says(plan));
	CHECK(!rules.no_workspace || operation_plan_workspace(plan) == 0);
	run_plan(s, plan);
	void *got = download(s, &l->output);
	size_t step = l->output.count > 100000 ? 499 : 1;
	for (size_t i = 0; i < l->output.count; i += step)
		check_element(l, got, i, what);
	free(got);
}

static void check_all(struct subject *s, struct vg_convolution d, bool bias)
{
	struct layer l = make_layer(s, d, bias);

	check_layer(s, &l, (struct operation_rules){.portable = true});
	if (!operation_set_lacks(s->set, OPERATION_CUDNN)) {
		check_layer(s, &l, (struct operation_rules){0});
		check_layer(s, &l, (struct operation_rules){.no_workspace = true});
		if (d.type != VG_TF32)
			check_layer(s, &l, (struct operation_rules){.no_tensor_cores = true});
	}
	drop_layer(&l);
}

static const struct vg_convolution layers[] = {
	{.batch = 1,
	 .in_channels = 1,
	 .out_channels = 1,
	 .height = 1,
	 .width = 1,
	 .kernel_height = 1,
	 .kernel_width = 1},
	{.batch = 2,
	 .in_channels = 3,
	 .out_channels = 5,
	 .height = 7,
	 .width = 6,
	 .kernel_height = 3,
	 .kernel_width = 2},
	{.batch = 1,
	 .in_channels = 8,
	 .out_channels = 16,
	 .height = 10,
	 .width = 13,
	 .kernel_height = 3,
	 .kernel_width = 3,
	 .padding = {1, 1}},
	{.batch = 3,
	 .in_channels = 4,
	 .out_channels = 4,
	 .height = 11,
	 .width = 9,
	 .kernel_height = 5,
	 .kernel_width = 3,
	 .stride = {2, 3},
	 .padding = {4, 0}},
	{.batch = 1,
	 .in_channels = 2,
	 .out_channels = 3,
	 .height = 12,
	 .width = 12,
	 .kernel_height = 3,
	 .kernel_width = 3,
	 .padding = {2, 3},
	 .dilation = {2, 4}},
	{.batch = 2,
	 .in_channels = 6,
	 .out_channels = 9,
	 .height = 5,
	 .width = 8,
	 .kernel_height = 3,
	 .kernel_width = 3,
	 .padding = {1, 1},
	 .groups = 3},
	{.batch = 2,
	 .in_channels = 5,
	 .out_channels = 10,
	 .height = 6,
	 .width = 6,
	 .kernel_height = 3,
	 .kernel_width = 3,
	 .stride = {2, 2},
	 .padding = {1, 1},
	 .groups = 5}, // each group has one input channel
	{.batch = 1,
	 .in_channels = 2,
	 .out_channels = 2,
	 .height = 3,
	 .width = 3,
	 .kernel_height = 1,
	 .kernel_width = 1,
	 .stride = {5, 5},
	 .padding = {2, 2}}, // the first element of the output uses only padding
	{.batch = 1,
	 .in_channels = 70,
	 .out_channels = 65,
	 .height = 4,
	 .width = 4,
	 .kernel_height = 1,
	 .kernel_width = 1},
};

TEST(convolutions_are_correct)
{
	struct subject s = open_subject();

	for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
		for (int type = 0; type < TYPES; type++) {
			struct vg_convolution d = layers[i];
			d.type = all_types[type];
			check_all(&s, d, false);
			check_all(&s, d, true);
		}
	close_subject(&s);
}

// Only these three types have kernels with large tiles. The output is so large that these kernels are used.
TEST(large_tiles)
{
	static const enum vg_element_type types[] = {VG_F32, VG_F16, VG_BF16};
	struct subject s = open_subject();

	for (int type = 0; type < 3; type++)
		check_all(&s,
			  (struct vg_convolution){.type = types[type],
						  .batch = 2,
						  .in_channels = 2,
						  .out_channels = 130,
						  .height = 66,
						  .width = 130,
						  .kernel_height = 3,
						  .kernel_width = 3,
						  .padding = {1, 1}},
			  true);
	close_subject(&s);
}

// Checks that a NaN affects only the sums in which it is a term.
TEST(nan_affects_only_its_sums)
{
	struct subject s = open_subject();
	struct layer l = make_layer(&s, layers[2], true);

	put(VG_F32, l.input.host, 57, NAN);
	put(VG_F32, l.input.host, 300, INFINITY);
	upload(&s, &l.input);
	check_layer(&s, &l, (struct operation_rules){.portable = true});
	drop_layer(&l);
	close_subject(&s);
}
