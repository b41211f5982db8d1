// Compares matrix products with the host's results: shapes, types, batches and epilogues, with every provider (library)
// that is available.
#include "operation_test.h"

struct product {
	struct vg_matrix_multiply d;
	struct tensor a, b, c, bias;
};

static long double epilogue_of(enum vg_epilogue epilogue, long double x)
{
	if (epilogue == VG_EPILOGUE_RELU || epilogue == VG_EPILOGUE_RELU_BIAS)
		return x <= 0 ? 0 : x;
	if (epilogue == VG_EPILOGUE_GELU || epilogue == VG_EPILOGUE_GELU_BIAS)
		return x / 2 * (1 + tanhl(sqrtl(2 / acosl(-1)) * (x + 0.044715L * x * x * x)));
	return x;
}

static bool has_bias(enum vg_epilogue epilogue)
{
	return epilogue == VG_EPILOGUE_BIAS || epilogue == VG_EPILOGUE_RELU_BIAS || epilogue == VG_EPILOGUE_GELU_BIAS;
}

static bool has_gelu(enum vg_epilogue epilogue)
{
	return epilogue == VG_EPILOGUE_GELU || epilogue == VG_EPILOGUE_GELU_BIAS;
}

static size_t span(uint64_t batch, int64_t stride, bool shared, uint64_t size)
{
	return shared ? size : (size_t)((batch ? batch - 1 : 0) * (stride ? (uint64_t)stride : size) + size);
}

static struct product make_product(struct subject *s, struct vg_matrix_multiply d)
{
	struct product p = {.d = d};

	p.a = make_tensor(s, d.type, span(d.batch, d.stride_a, d.shared_a, d.m * d.k));
	p.b = make_tensor(s, d.type, span(d.batch, d.stride_b, d.shared_b, d.k * d.n));
	p.c = make_tensor(s, d.type, span(d.batch, d.stride_c, false, d.m * d.n));
	p.bias = make_tensor(s, d.type, d.n);
	p.d.size = sizeof p.d;
	p.d.a = p.a.address;
	p.d.b = p.b.address;
	p.d.c = p.c.address;
	p.d.bias = has_bias(d.epilogue) ? p.bias.address : 0;
	return p;
}

static void drop_product(struct product *p)
{
	drop_tensor(&p->a);
	drop_tensor(&p->b);
	drop_tensor(&p->c);
	drop_tensor(&p->bias);
}

// Compares an element of the output with the sum of its terms, which the host computes.
static void check_element(const struct product *p, const void *got, uint64_t batch, uint64_t row, uint64_t column,
			  bool own, const char *what)
{
	const struct vg_matrix_multiply *d = &p->d;
	const struct traits *t = traits_of(d->type);
	long double alpha = d->alpha == 0 && d->beta == 0 ? 1 : d->alpha, sum = 0, size = 0;
	size_t a = d->shared_a ? 0 : batch * (d->stride_a ? (size_t)d->stride_a : d->m * d->k);
	size_t b = d->shared_b ? 0 : batch * (d->stride_b ? (size_t)d->stride_b : d->k * d->n);
	size_t c = batch * (d->stride_c ? (size_t)d->stride_c : d->m * d->n) + row * d->n + column;

	for (uint64_t i = 0; alpha != 0 && i < d->k; i++) {
		long double term = (long double)get(d->type, p->a.host, a + row * d->k + i) *
				   get(d->type, p->b.host, b + i * d->n + column);
		sum += alpha * term;
		size += fabsl(alpha * term);
	}
	long double tolerance = t->product * size, before = fabsl(sum);
	const long double more[] = {d->beta != 0 ? d->beta * get(d->type, p->c.host, c) : 0,
				    d->bias ? get(d->type, p->bias.host, column) : 0};
	for (int i = 0; i < 2; i++) {
		sum += more[i];
		size += fabsl(more[i]);
		before += fabsl(sum);
	}
	// some algorithms of cuBLASLt store intermediate results before the epilogue, once or several times
	if (!own && d->epilogue != VG_EPILOGUE_NONE)
		tolerance += before * t->half;
	tolerance += (long double)(d->k + 8) * t->sum * size;
	// The slope of GELU is at most 1.13, so it magnifies errors by that. An approximate tanh has an error of up to
	// 2^-11.
	if (has_gelu(d->epilogue))
		tolerance = tolerance * 1.13L + fabsl(sum) * (d->type == VG_F64 ? 0x1p-46L : 0x1p-12L);
	check_near(d->type, get(d->type, got, c), epilogue_of(d->epilogue, sum), tolerance, what, c);
}

// Runs a product, and compares its elements with the host's. Elements of the output between the products of a batch
// must not change.
static void check_product(struct subject *s, struct product *p, struct operation_rules rules)
{
	struct operation_plan *plan;
	char what[200];

	upload(s, &p->c);
	OK(operation_plan_matrix_multiply(s->set, &p->d, rules, &plan));
	snprintf(what, sizeof what, "%llu x %llu x %llu, epilogue %d, %s", (unsigned long long)p->d.m,
		 (unsigned long long)p->d.n, (unsigned long long)p->d.k, (int)p->d.epilogue, operation_plan_says(plan));
	CHECK(!rules.no_workspace || operation_plan_workspace(plan) == 0);
	bool own = operation_plan_provider(plan) == OPERATION_PORTABLE;
	run_plan(s, plan);
	void *got = download(s, &p->c);
	uint64_t size = p->d.m * p->d.n, stride = p->d.stride_c ? (uint64_t)p->d.stride_c : size;
	size_t step = p->c.count > 200000 ? 997 : 1;
	for (size_t i = 0; i < p->c.count; i += step)
		if (i % stride < size)
			check_element(p, got, i / stride, i % stride / p->d.n, i % stride % p->d.n, own, what);
		else if (get(p->d.type, got, i) != get(p->d.type, p->c.host, i))
			FAIL("%s: element %zu between two products has been written", what, i);
	free(got);
}

static void check_all(struct subject *s, struct vg_matrix_multiply d)
{
	struct product p = make_product(s, d);

	check_product(s, &p, (struct operation_rules){.portable = true});
	if (!operation_set_lacks(s->set, OPERATION_CUBLASLT)) {
		check_product(s, &p, (struct operation_rules){0});
		check_product(s, &p, (struct operation_rules){.no_workspace = true});
		if (d.type != VG_TF32)
			check_product(s, &p, (struct operation_rules){.no_tensor_cores = true});
	}
	drop_product(&p);
}

TEST(shapes)
{
	static const uint64_t shapes[][3] = {{1, 1, 1},	   {1, 7, 3},	 {5, 1, 64},  {16, 16, 16}, {17, 31, 13},
					     {64, 64, 64}, {65, 63, 17}, {3, 130, 5}, {128, 1, 129}};
	struct subject s = open_subject();

	for (int type = 0; type < TYPES; type++)
		for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
			check_all(&s, (struct vg_matrix_multiply){.type = all_types[type],
								  .m = shapes[i][0],
								  .n = shapes[i][1],
								  .k = shapes[i][2]});
	close_subject(&s);
}

TEST(epilogues)
{
	struct subject s = open_subject();

	for (int type = 0; type < TYPES; type++)
		for (int epilogue = VG_EPILOGUE_NONE; epilogue <= VG_EPILOGUE_GELU_BIAS; epilogue++)
			check_all(&s, (struct vg_matrix_multiply){.type = all_types[type],
								  .m = 24,
								  .n = 40,
								  .k = 16,
								  .alpha = 1.5,
								  .beta = epilogue % 2 ? -0.75 : 0,
								  .epilogue = (enum vg_epilogue)epilogue});
	close_subject(&s);
}

TEST(batches)
{
	struct subject s = open_subject();

	for (int type = 0; type < TYPES; type++) {
		struct vg_matrix_multiply d = {
			.type = all_types[type], .m = 8, .n = 12, .k = 20, .batch = 5, .beta = 0.5};
		d.alpha = 1;
		check_all(&s, d);
		d.stride_a = 168;
		d.stride_b = 256;
		d.stride_c = 100;
		check_all(&s, d);
		d.stride_a = 4; // the ranges of a and b may overlap, since they are only read
		check_all(&s, d);
		d.stride_a = 0;
		d.shared_a = 1;
		check_all(&s, d);
		d.stride_b = 0;
		d.shared_b = 1;
		d.epilogue = VG_EPILOGUE_BIAS;
		check_all(&s, d);
	}
	close_subject(&s);
}

// Only these three types have kernels with large tiles. The product is so large that these kernels are used.
TEST(large_tiles)
{
	static const enum vg_element_type types[] = {VG_F32, VG_F16, VG_BF16};
	struct subject s = open_subject();

	for (int type = 0; type < 3; type++)
		check_all(
			&s,
			(struct vg_matrix_multiply){
				.type = types[type], .m = 1410, .n = 1533, .k = 19, .epilogue = VG_EPILOGUE_RELU_BIAS});
	close_subject(&s);
}

// If alpha is 0, A and B must not be read. If beta is 0, C must not be read.
TEST(unused_operands_are_not_read)
{
	struct subject s = open_subject();

	for (int type = 0; type < TYPES; type++) {
		struct product p = make_product(
			&s, (struct vg_matrix_multiply){.type = all_types[type], .m = 9, .n = 10, .k = 11, .alpha = 1});
		for (size_t i = 0; i < p.c.count; i++)
			put(p.c.type, p.c.host, i, NAN);
		check_product(&s, &p, (struct operation_rules){0});
		for (size_t i = 0; i < p.c.count; i++)
			put(p.c.type, p.c.host, i, noise());
		for (size_t i = 0; i < p.a.count; i++)
			put(p.a.type, p.a.host, i, NAN);
		upload(&s, &p.a);
		p.d.alpha = 0;
		p.d.beta = 2;
		check_product(&s, &p, (struct operation_rules){0});
		drop_product(&p);
	}
	close_subject(&s);
}

// Makes a product that f32 represents exactly. It must be stored as the nearest number of the type, also for ties (to
// even), subnormals and overflow.
TEST(results_are_rounded_to_nearest)
{
	static const enum vg_element_type narrow[] = {VG_F16, VG_BF16};
	enum { SIDE = 70 };
	struct subject s = open_subject();

	for (int type = 0; type < 2; type++) {
		struct vg_matrix_multiply d = {.type = narrow[type], .m = SIDE, .n = SIDE, .k = 1};
		struct product p = make_product(&s, d);
		struct operation_plan *plan;
		const struct traits *t = traits_of(d.type);
		for (int i = 0; i < SIDE; i++) { // the numbers have all magnitudes but few bits, so that there are ties
			double one = 1 + i * ldexp(1, 1 - t->mantissa);
			put(d.type, p.a.host, (size_t)i, i == 0 ? (double)NAN : ldexp(i % 2 ? one : -one, i % 7 - 3));
			put(d.type, p.b.host, (size_t)i, i < 9 ? ldexp(1, i - 6) : ldexp(one, (i - 39) * 5 / 12));
		}
		put(d.type, p.b.host, 1, t->greatest);
		put(d.type, p.b.host, 2, ldexp(1, t->least));
		upload(&s, &p.a);
		upload(&s, &p.b);
		OK(operation_plan_matrix_multiply(s.set, &p.d, (struct operation_rules){.portable = true}, &plan));
		run_plan(&s, plan);
		void *got = download(&s, &p.c);
		for (size_t i = 0; i < SIDE * SIDE; i++) {
			double exact = get(d.type, p.a.host, i / SIDE) * get(d.type, p.b.host, i % SIDE);
			double want = rounded(d.type, exact), is = get(d.type, got, i);
			if (isnan(want) ? !isnan(is) : is != want)
				FAIL("%s: %a is stored as %a, not %a", t->name, exact, is, want);
		}
		free(got);
		drop_product(&p);
	}
	close_subject(&s);
}
