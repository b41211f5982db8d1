// Compares activations with the host's results: all kinds and types, ordinary and extreme values, with the output in
// place of the input, and at every alignment.
#include "operation_test.h"

static long double sigmoid(long double x)
{
	return 1 / (1 + expl(-x));
}

static long double reference(enum vg_activation_kind kind, long double x, long double alpha)
{
	const long double root = sqrtl(2 / acosl(-1));

	if (isnan(x))
		return x;
	switch (kind) {
	case VG_ACTIVATION_RELU:
		return x <= 0 ? 0 : x;
	case VG_ACTIVATION_LEAKY_RELU:
		return x <= 0 ? alpha * x : x;
	case VG_ACTIVATION_ELU:
		return x <= 0 ? alpha * expm1l(x) : x;
	case VG_ACTIVATION_GELU: // (1 + tanh(u)) / 2 is sigmoid(2 u)
		return isinf(x) ? (x < 0 ? 0 : x) : x * sigmoid(2 * root * (x + 0.044715L * x * x * x));
	case VG_ACTIVATION_SILU:
		return isinf(x) ? (x < 0 ? 0 : x) : x * sigmoid(x);
	case VG_ACTIVATION_SIGMOID:
		return sigmoid(x);
	default:
		return tanhl(x);
	}
}

// Returns the error that is allowed for the computation in f32 or f64. Functions without an exponential may be wrong by
// one unit in the last place. For the others, the allowed number of units grows with the exponential's argument,
// because its rounding error grows with it. They may also have a small fixed error, for results near 0.
static long double tolerance_of(enum vg_element_type type, enum vg_activation_kind kind, long double x,
				long double want)
{
	long double unit = type == VG_F64 ? 0x1p-52L : 0x1p-23L;
	long double argument = kind == VG_ACTIVATION_GELU ? 1.6L * fabsl(x) * (1 + 0.045L * x * x) : fabsl(x);

	if (kind <= VG_ACTIVATION_LEAKY_RELU || isinf(x))
		return unit * fabsl(want);
	return unit * fabsl(want) * (8 + 4 * fminl(argument, 1100)) + (type == VG_F64 ? 0x1p-1012L : 0x1p-119L);
}

static void run_activation(struct subject *s, struct vg_activation d)
{
	struct operation_plan *plan;

	d.size = sizeof d;
	OK(operation_plan_activation(s->set, &d, (struct operation_rules){0}, &plan));
	CHECK_INT(operation_plan_provider(plan), OPERATION_PORTABLE);
	run_plan(s, plan);
}

static const double extreme[] = {0.0,	-0.0,  1e-7,   -1e-7, 0.5,    -0.5,	1,	   -1,	   3,	 -3,	8,
				 -8,	11,    -11,    17,    -17,    20,	-20,	   60,	   -60,	 89,	-89,
				 104,	-104,  700,    -700,  1000,   -1000,	60000,	   -60000, 1e30, -1e30, 3e38,
				 -3e38, 1e-40, -1e-40, 1e300, -1e300, INFINITY, -INFINITY, NAN};

TEST(elementwise_activations_are_correct)
{
	const size_t count = 700, extremes = sizeof extreme / sizeof *extreme;
	struct subject s = open_subject();

	for (int type = 0; type < TYPES; type++) {
		struct tensor input = make_tensor(&s, all_types[type], count);
		struct tensor output = make_tensor(&s, all_types[type], count);
		for (size_t i = 0; i < count; i++)
			put(input.type, input.host, i, i < extremes ? extreme[i] : noise() * 10);
		upload(&s, &input);
		for (int kind = VG_ACTIVATION_RELU; kind < VG_ACTIVATION_SOFTMAX; kind++) {
			bool takes = kind == VG_ACTIVATION_LEAKY_RELU || kind == VG_ACTIVATION_ELU;
			for (int turn = 0; turn <= takes; turn++) {
				struct vg_activation d = {.type = input.type,
							  .kind = (enum vg_activation_kind)kind,
							  .input = input.address,
							  .output = output.address,
							  .batch = 7,
							  .channels = 10,
							  .height = 5,
							  .width = 2,
							  .alpha = turn ? 0.25 : 0};
				long double alpha = turn ? 0.25L : kind == VG_ACTIVATION_ELU ? 1 : (long double)0.01;
				run_activation(&s, d);
				void *got = download(&s, &output);
				for (size_t i = 0; i < count; i++) {
					long double x = get(input.type, input.host, i);
					long double want = reference(d.kind, x, alpha);
					check_near(input.type, get(input.type, got, i), want,
						   tolerance_of(input.type, d.kind, x, want),
						   vg_activation_name(d.kind), i);
				}
				free(got);
			}
		}
		drop_tensor(&input);
		drop_tensor(&output);
	}
	close_subject(&s);
}

// Compares vectors of all lengths and at all alignments, so that whole vectors, remainders and unaligned addresses
// occur. Also writes the output in place of the input.
TEST(activations_are_correct_at_every_alignment)
{
	struct subject s = open_subject();

	for (int type = 0; type < TYPES; type++) {
		size_t bytes = traits_of(all_types[type])->bytes;
		for (size_t from = 0; from < 3; from++)
			for (size_t size = 1; size < 40; size += 6) {
				struct tensor input = make_tensor(&s, all_types[type], 48);
				struct tensor output = make_tensor(&s, all_types[type], 48);
				bool in_place = size % 4 == 3;
				const struct tensor *to = in_place ? &input : &output;
				run_activation(&s, (struct vg_activation){.type = input.type,
									  .kind = VG_ACTIVATION_RELU,
									  .input = input.address + from * bytes,
									  .output = to->address + from * bytes,
									  .batch = 1,
									  .channels = size,
									  .height = 1,
									  .width = 1});
				void *got = download(&s, to);
				for (size_t i = 0; i < 48; i++) {
					double x = get(input.type, input.host, i);
					double want = i >= from && i < from + size ? (x < 0 ? 0 : x)
										   : get(to->type, to->host, i);
					if (get(to->type, got, i) != want)
						FAIL("%s, %zu elements from %zu: element %zu is %g, not %g",
						     traits_of(input.type)->name, size, from, i, get(to->type, got, i),
						     want);
				}
				free(got);
				drop_tensor(&input);
				drop_tensor(&output);
			}
	}
	close_subject(&s);
}

static void check_softmax(struct subject *s, const struct tensor *input, const struct tensor *output, uint64_t batch,
			  uint64_t channels, uint64_t area)
{
	long double unit = input->type == VG_F64 ? 0x1p-52L : 0x1p-23L;

	run_activation(s, (struct vg_activation){.type = input->type,
						 .kind = VG_ACTIVATION_SOFTMAX,
						 .input = input->address,
						 .output = output->address,
						 .batch = batch,
						 .channels = channels,
						 .height = area,
						 .width = 1});
	void *got = download(s, output);
	for (uint64_t place = 0; place < batch * area; place++) {
		size_t first = place / area * channels * area + place % area;
		long double largest = -INFINITY, sum = 0;
		bool nan = false;
		for (uint64_t c = 0; c < channels; c++) {
			long double x = get(input->type, input->host, first + c * area);
			nan |= isnan(x) || x == INFINITY;
			largest = x > largest ? x : largest;
		}
		for (uint64_t c = 0; c < channels && !nan; c++)
			sum += expl(get(input->type, input->host, first + c * area) - largest);
		for (uint64_t c = 0; c < channels; c++) {
			size_t at = first + c * area;
			long double below = get(input->type, input->host, at) - largest;
			long double want = nan || largest == -INFINITY ? (long double)NAN : expl(below) / sum;
			long double scale = 16 + fminl(-below, 1100) * 2 + (long double)channels / 2;
			check_near(input->type, get(input->type, got, at), want,
				   unit * fabsl(want) * scale + (input->type == VG_F64 ? 0x1p-1020L : 0x1p-124L),
				   "softmax", at);
		}
	}
	free(got);
}

TEST(softmax)
{
	static const uint64_t shapes[][3] = {{1, 1, 1},	   {1, 2, 1},	{3, 10, 1},  {2, 1000, 1}, {5, 3, 7},
					     {2, 257, 33}, {4, 7, 100}, {70, 33, 2}, {1, 1, 300},  {300, 5, 1}};
	struct subject s = open_subject();

	for (int type = 0; type < TYPES; type++)
		for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
			size_t count = shapes[i][0] * shapes[i][1] * shapes[i][2];
			struct tensor input = make_tensor(&s, all_types[type], count);
			struct tensor output = make_tensor(&s, all_types[type], count);
			for (size_t j = 0; j < count; j++)
				put(input.type, input.host, j, noise() * 20);
			upload(&s, &input);
			check_softmax(&s, &input, &output, shapes[i][0], shapes[i][1], shapes[i][2]);
			drop_tensor(&input);
			drop_tensor(&output);
		}
	close_subject(&s);
}

// Each row is a case: large values whose exponentials overflow, some values -infinity, only -infinity, infinity, NaN.
TEST(softmax_handles_extreme_values)
{
	static const double rows[][4] = {{60000, 59999, -60000, 0},
					 {-INFINITY, 1, 2, -INFINITY},
					 {-INFINITY, -INFINITY, -INFINITY, -INFINITY},
					 {INFINITY, 1, 2, 3},
					 {1, NAN, 2, 3},
					 {-60000, -60000, -60000, -60000},
					 {0, -0.0, 0, 0}};
	struct subject s = open_subject();

	for (int type = 0; type < TYPES; type++)
		// If `apart` is 0, the channels of one position are adjacent in memory. If it is 1, the positions of
		// one channel are adjacent.
		for (int apart = 0; apart < 2; apart++) {
			struct tensor input = make_tensor(&s, all_types[type], 28),
				      output = make_tensor(&s, input.type, 28);
			for (size_t row = 0; row < 7; row++)
				for (size_t c = 0; c < 4; c++)
					put(input.type, input.host, apart ? c * 7 + row : row * 4 + c, rows[row][c]);
			upload(&s, &input);
			check_softmax(&s, &input, &output, apart ? 1 : 7, 4, apart ? 7 : 1);
			drop_tensor(&input);
			drop_tensor(&output);
		}
	close_subject(&s);
}
