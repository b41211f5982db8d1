// Tests descriptions of operations that are refused, with their messages; the names and texts of plans; and runs of
// plans.
#include "operation_test.h"

#include <pthread.h>

static struct vg_matrix_multiply good_multiply(void)
{
	return (struct vg_matrix_multiply){
		.size = sizeof(struct vg_matrix_multiply), .m = 4, .n = 4, .k = 4, .a = 4096, .b = 8192, .c = 12288};
}

static struct vg_convolution good_convolution(void)
{
	return (struct vg_convolution){.size = sizeof(struct vg_convolution),
				       .input = 1 << 20,
				       .filter = 2 << 20,
				       .output = 3 << 20,
				       .batch = 2,
				       .in_channels = 4,
				       .out_channels = 6,
				       .height = 8,
				       .width = 9,
				       .kernel_height = 3,
				       .kernel_width = 3};
}

static struct vg_activation good_activation(void)
{
	return (struct vg_activation){.size = sizeof(struct vg_activation),
				      .input = 4096,
				      .output = 8192,
				      .batch = 2,
				      .channels = 3,
				      .height = 4,
				      .width = 5};
}

// Checks that a valid description of the operation is accepted, and is refused after the statement `change`. The
// refused call must not return a plan.
#define REFUSES(operation, part, change)                                                         \
	do {                                                                                     \
		struct operation_plan *plan_ = NULL;                                             \
		__auto_type d = good_##operation();                                              \
		OK(operation_plan_##operation(s.set, &d, rules, &plan_));                        \
		operation_plan_destroy(plan_);                                                   \
		plan_ = NULL;                                                                    \
		change;                                                                          \
		REFUSED(operation_plan_##operation(s.set, &d, rules, &plan_), VG_INVALID, part); \
		CHECK(plan_ == NULL);                                                            \
	} while (0)

#define operation_plan_multiply operation_plan_matrix_multiply

TEST(invalid_multiplications_are_refused)
{
	const struct operation_rules rules = {.portable = true};
	struct subject s = open_subject();

	REFUSES(multiply, "size is 3", d.size = 3);
	REFUSES(multiply, "no element type 5", d.type = (enum vg_element_type)5);
	REFUSES(multiply, "m is 0", d.m = 0);
	REFUSES(multiply, "n is 0", d.n = 0);
	REFUSES(multiply, "k is 0", d.k = 0);
	REFUSES(multiply, "m is 18446744073709551615", d.m = UINT64_MAX);
	REFUSES(multiply, "a would take more than 2^63 bytes", (d.m = (uint64_t)1 << 40, d.k = (uint64_t)1 << 40));
	REFUSES(multiply, "b would take more than 2^63 bytes", (d.n = (uint64_t)1 << 40, d.k = (uint64_t)1 << 40));
	REFUSES(multiply, "c would take more than 2^63 bytes", (d.n = (uint64_t)1 << 31, d.m = (uint64_t)1 << 31));
	REFUSES(multiply, "a would take more than 2^63 bytes", d.batch = (uint64_t)1 << 58);
	REFUSES(multiply, "stride_a is -1", (d.batch = 2, d.stride_a = -1));
	REFUSES(multiply, "stride_b is 16", (d.batch = 2, d.shared_b = 1, d.stride_b = 16));
	REFUSES(multiply, "stride_c is 15", (d.batch = 2, d.stride_c = 15));
	REFUSES(multiply, "alpha is nan", d.alpha = NAN);
	REFUSES(multiply, "beta inf", d.beta = INFINITY);
	REFUSES(multiply, "no epilogue 6", d.epilogue = (enum vg_epilogue)6);
	REFUSES(multiply, "bias is 0", d.epilogue = VG_EPILOGUE_BIAS);
	REFUSES(multiply, "the epilogue takes none", d.bias = 1 << 16);
	REFUSES(multiply, "a is 0", d.a = 0);
	REFUSES(multiply, "b is 0x2002, not a multiple of the 4 bytes", d.b = 8194);
	REFUSES(multiply, "c is 0x3004, not a multiple of the 8 bytes", (d.c = 12292, d.type = VG_F64));
	REFUSES(multiply, "goes past the end of the address space", d.b = UINT64_MAX - 7);
	REFUSES(multiply, "and a (64 bytes at 0x1000) overlap", d.c = 4096 + 60);
	REFUSES(multiply, "and b (64 bytes at 0x2000) overlap", d.c = 8192);
	REFUSES(multiply, "and bias (16 bytes at 0x10000) overlap",
		(d.bias = 1 << 16, d.epilogue = VG_EPILOGUE_RELU_BIAS, d.c = (1 << 16) - 60));
	struct operation_plan *plan = NULL;
	REFUSED(operation_plan_matrix_multiply(s.set, NULL, rules, &plan), VG_INVALID, "is NULL");
	close_subject(&s);
}

TEST(invalid_convolutions_are_refused)
{
	const struct operation_rules rules = {.portable = true};
	struct subject s = open_subject();
	uint64_t height = 7, width = 7;

	REFUSES(convolution, "batch is 0", d.batch = 0);
	REFUSES(convolution, "in_channels is 0", d.in_channels = 0);
	REFUSES(convolution, "out_channels is 0", d.out_channels = 0);
	REFUSES(convolution, "height is 0", d.height = 0);
	REFUSES(convolution, "width is 4294967296", d.width = (uint64_t)1 << 32);
	REFUSES(convolution, "kernel_height is 0", d.kernel_height = 0);
	REFUSES(convolution, "kernel_width is 0", d.kernel_width = 0);
	REFUSES(convolution, "no element type", d.type = (enum vg_element_type) - 1);
	REFUSES(convolution, "4 groups do not divide 4 input and 6 output channels", d.groups = 4);
	REFUSES(convolution, "the filter's height, 9", d.kernel_height = 9);
	REFUSES(convolution, "the filter's width, 4 with a dilation of 3", (d.kernel_width = 4, d.dilation[1] = 3));
	REFUSES(convolution, "the output's height would be", (d.padding[0] = INT32_MAX));
	REFUSES(convolution, "none may be above", d.stride[0] = UINT32_MAX);
	REFUSES(convolution, "more than 2^63 bytes",
		(d.batch = INT32_MAX, d.height = INT32_MAX, d.in_channels = 1 << 20));
	REFUSES(convolution, "weights, more than", (d.in_channels = 1 << 30, d.kernel_height = 4));
	REFUSES(convolution, "input is 0", d.input = 0);
	REFUSES(convolution, "filter is 0", d.filter = 0);
	REFUSES(convolution, "output is 0", d.output = 0);
	REFUSES(convolution, "bias is 0x3, not a multiple", d.bias = 3);
	REFUSES(convolution, "overlap", d.output = d.input + 64);
	REFUSES(convolution, "overlap", d.output = d.filter);
	REFUSES(convolution, "overlap", d.bias = d.output + 4);
	struct vg_convolution d = good_convolution();
	d.kernel_height = 9;
	REFUSED(vg_convolution_output(&d, &height, &width), VG_INVALID, "there is no output");
	REFUSED(vg_convolution_output(NULL, &height, &width), VG_INVALID, "NULL");
	d.padding[0] = 4;
	d.stride[1] = 2;
	d.input = 0;
	CHECK_INT(height, 7);
	OK(vg_convolution_output(&d, &height, &width));
	CHECK_INT(height, 8);
	CHECK_INT(width, 4);
	close_subject(&s);
}

TEST(invalid_activations_are_refused)
{
	const struct operation_rules rules = {.portable = true};
	struct subject s = open_subject();

	REFUSES(activation, "batch is 0", d.batch = 0);
	REFUSES(activation, "channels is 0", d.channels = 0);
	REFUSES(activation, "height is 0", d.height = 0);
	REFUSES(activation, "width is 0", d.width = 0);
	REFUSES(activation, "more than 2^63 bytes", d.batch = (uint64_t)1 << 61);
	REFUSES(activation, "no activation 8", d.kind = (enum vg_activation_kind)8);
	REFUSES(activation, "only leaky_relu and elu take one", d.alpha = 0.5);
	REFUSES(activation, "it has to be finite", (d.alpha = NAN, d.kind = VG_ACTIVATION_ELU));
	REFUSES(activation, "input is 0", d.input = 0);
	REFUSES(activation, "output is 0x2001", d.output = 8193);
	REFUSES(activation, "overlap", d.output = d.input + 4);
	close_subject(&s);
}

TEST(names)
{
	enum vg_activation_kind kind = VG_ACTIVATION_TANH;

	for (int i = 0; i < 8; i++) {
		OK(vg_activation_by_name(vg_activation_name((enum vg_activation_kind)i), &kind));
		CHECK_INT(kind, i);
	}
	CHECK(vg_activation_name((enum vg_activation_kind)8) == NULL);
	OK(vg_activation_by_name("Leaky-ReLU", &kind));
	CHECK_INT(kind, VG_ACTIVATION_LEAKY_RELU);
	REFUSED(vg_activation_by_name("swish", &kind), VG_NOT_FOUND,
		"relu leaky_relu elu gelu silu sigmoid tanh softmax");
	REFUSED(vg_activation_by_name("relu ", &kind), VG_NOT_FOUND, "\"relu \"");
	REFUSED(vg_activation_by_name("", &kind), VG_NOT_FOUND, "\"\"");
	REFUSED(vg_activation_by_name(NULL, &kind), VG_INVALID, "NULL");
	REFUSED(vg_activation_by_name("relu", NULL), VG_INVALID, "NULL");
	CHECK_INT(kind, VG_ACTIVATION_LEAKY_RELU);
}

// Checks what the rules forbid for each type. Computing in f32 and f64 is always allowed.
TEST(rules)
{
	static const bool tensor[] = {[VG_TF32] = true, [VG_F64] = false};
	static const bool mixed[] = {[VG_TF32] = true, [VG_F16] = true, [VG_BF16] = true, [VG_F64] = false};
	struct subject s = open_subject();
	struct operation_plan *plan;

	for (int type = 0; type < TYPES; type++) {
		struct vg_matrix_multiply d = good_multiply();
		struct vg_convolution c = good_convolution();
		struct vg_activation a = good_activation();
		struct operation_rules rules = {.no_tensor_cores = true};

		d.type = c.type = a.type = all_types[type];
		for (int turn = 0; turn < 2; turn++) {
			bool refused = turn ? mixed[type] : tensor[type];
			const char *word = turn ? "mixed precision is off" : "tensor cores are off";
			if (refused) {
				REFUSED(operation_plan_matrix_multiply(s.set, &d, rules, &plan), VG_UNSUPPORTED, word);
				REFUSED(operation_plan_convolution(s.set, &c, rules, &plan), VG_UNSUPPORTED, word);
			} else {
				OK(operation_plan_matrix_multiply(s.set, &d, rules, &plan));
				CHECK(strstr(operation_plan_says(plan), "no tensor cores") ||
				      operation_plan_provider(plan) == OPERATION_PORTABLE || turn);
				operation_plan_destroy(plan);
				OK(operation_plan_convolution(s.set, &c, rules, &plan));
				CHECK(strstr(operation_plan_says(plan), "no tensor cores") ||
				      operation_plan_provider(plan) == OPERATION_PORTABLE || turn);
				operation_plan_destroy(plan);
			}
			OK(operation_plan_activation(s.set, &a, rules, &plan));
			operation_plan_destroy(plan);
			rules = (struct operation_rules){.no_mixed_precision = true};
		}
	}
	close_subject(&s);
}

TEST(ranges)
{
	struct subject s = open_subject();
	struct vg_matrix_multiply d = good_multiply();
	struct operation_ranges ranges;
	struct operation_plan *plan;

	d.batch = 3;
	d.stride_a = 100;
	d.shared_b = 1;
	d.epilogue = VG_EPILOGUE_BIAS;
	d.bias = 1 << 16;
	OK(operation_plan_matrix_multiply(s.set, &d, (struct operation_rules){.portable = true}, &plan));
	operation_plan_ranges(plan, &ranges);
	operation_plan_destroy(plan);
	CHECK_INT(ranges.count, 4);
	const uint64_t bytes[] = {4 * (200 + 16), 64, 16, 3 * 64};
	const char *const names[] = {"a", "b", "bias", "c"};
	for (int i = 0; i < 4; i++) {
		CHECK_STR(ranges.range[i].name, names[i]);
		CHECK_INT(ranges.range[i].bytes, bytes[i]);
		CHECK_INT(ranges.range[i].write, i == 3);
	}
	struct vg_activation a = good_activation();
	a.output = a.input;
	OK(operation_plan_activation(s.set, &a, (struct operation_rules){0}, &plan));
	operation_plan_ranges(plan, &ranges);
	operation_plan_destroy(plan);
	CHECK_INT(ranges.count, 1);
	CHECK(ranges.range[0].write);
	CHECK_INT(ranges.range[0].bytes, 4 * 120);
	close_subject(&s);
}

// Runs plans on a closed stream, and without a stream. On the simulated GPU, also checks which provider is used.
TEST(invalid_runs_are_refused)
{
	struct vg_matrix_multiply d = good_multiply();
	struct subject s = open_subject();
	struct operation_plan *plan;
	struct vg_stream *stream;

	OK(operation_plan_matrix_multiply(s.set, &d, (struct operation_rules){.portable = true}, &plan));
	CHECK_INT(operation_plan_provider(plan), OPERATION_PORTABLE);
	CHECK_INT(operation_plan_workspace(plan), 0);
	CHECK_CONTAINS(operation_plan_says(plan), "own kernel");
	REFUSED(operation_plan_run(plan, NULL, 0), VG_INVALID, "stream is NULL");
	OK(vg_stream_create(s.bench.context, NULL, &stream));
	OK(vg_stream_close(stream));
	REFUSED(operation_plan_run(plan, stream, 0), VG_CLOSED, "closed");
	vg_stream_destroy(stream);
	operation_plan_destroy(plan);
	operation_plan_destroy(NULL);
	operation_set_destroy(NULL);
	if (getenv("VIRGATE_SIM"))
		CHECK_CONTAINS(operation_set_lacks(s.set, OPERATION_CUBLASLT), "on the simulated GPU");
	CHECK(operation_set_lacks(s.set, OPERATION_PORTABLE) == NULL);
	struct operation_set *set = NULL;
	REFUSED(operation_set_create(NULL, &set), VG_INVALID, "context is NULL");
	close_subject(&s);
}

// Prints which providers are available, and checks nothing else about them.
TEST(providers)
{
	struct subject s = open_subject();
	const char *cublaslt = operation_set_lacks(s.set, OPERATION_CUBLASLT);
	const char *cudnn = operation_set_lacks(s.set, OPERATION_CUDNN);
	char reasons[1000];

	snprintf(reasons, sizeof reasons, "%s%s%s", cublaslt ? cublaslt : "", cublaslt && cudnn ? "; " : "",
		 cudnn ? cudnn : "");
	close_subject(&s);
	if (reasons[0])
		SKIP("%.900s", reasons);
}
