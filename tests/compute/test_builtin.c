// Compares the built-in kernels with the host, for grids and blocks of any shape.
#include "compute/registry.h"
#include "core/code_test.h"

#include <math.h>
#include <stdint.h>

struct bench {
	struct compute_registry *registry;
	struct vg_context *context;
	struct vg_stream *stream;
};

// Shapes of launches: one thread; a part of a warp in all dimensions; the usual shape; more threads than elements.
static const struct vg_launch_config shapes[] = {
	{.size = sizeof shapes[0], .grid = {1}, .block = {1}},
	{.size = sizeof shapes[0], .grid = {2, 3, 2}, .block = {3, 5, 3}},
	{.size = sizeof shapes[0], .grid = {3}, .block = {256}},
	{.size = sizeof shapes[0], .grid = {4, 4}, .block = {16, 16}},
	{.size = sizeof shapes[0], .grid = {5}, .block = {33}},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static struct bench open_bench(void)
{
	struct bench b = {.context = first_context()};

	OK(compute_registry_create(90, &b.registry));
	OK(vg_stream_create(b.context, NULL, &b.stream));
	return b;
}

static void close_bench(struct bench *b)
{
	compute_registry_destroy(b->registry);
	vg_stream_destroy(b->stream);
	vg_context_destroy(b->context);
}

static float *floats(size_t count, unsigned seed)
{
	float *values = malloc(count * sizeof *values);

	for (size_t i = 0; i < count; i++) {
		seed = seed * 1103515245 + 12345;
		values[i] = (float)((int)(seed >> 16 & 15) - 8); // with whole numbers, a sum is exact in any order
	}
	return values;
}

static vg_address upload(struct bench *b, const float *values, size_t count)
{
	vg_address address = words(b->context, count * sizeof *values + 4);
	struct CUctx_st *before;

	DRIVER(cuCtxPushCurrent_v2, (struct CUctx_st *), vg_context_handle(b->context));
	DRIVER(cuMemcpyHtoD_v2, (vg_address, const void *, size_t), address, values, count * sizeof *values);
	DRIVER(cuCtxPopCurrent_v2, (struct CUctx_st **), &before);
	return address;
}

static void launch(struct bench *b, const char *name, const struct vg_launch_config *shape,
		   const struct vg_argument *arguments, size_t count)
{
	struct compute_entry *entry;

	OK(compute_registry_find(b->registry, name, &entry));
	OK(vg_launch(b->stream, shape, entry->kernel, arguments, count));
	OK(vg_stream_sync(b->stream));
	compute_entry_release(entry);
}

// Checks `count` values at `address`, within a relative `tolerance`.
static void check_values(struct bench *b, const char *name, vg_address address, const float *want, size_t count,
			 float tolerance)
{
	float *got = malloc((count + 1) * sizeof *got);

	read_words(b->context, got, address, (count + 1) * sizeof *got);
	for (size_t i = 0; i < count; i++)
		if (!(fabsf(got[i] - want[i]) <= tolerance * fabsf(want[i])) && !(isnan(got[i]) && isnan(want[i])))
			FAIL("%s: value %zu of %zu is %g, not %g", name, i, count, got[i], want[i]);
	// the word behind the values has been 0 since its allocation; the kernel must not have changed it
	if (got[count] != 0)
		FAIL("%s wrote behind its %zu values", name, count);
	free(got);
}

enum { N = 1037 };

struct vectors {
	struct bench b;
	float *x, *y, *want;
	vg_address at_x, at_y, at_z;
};

static struct vectors open_vectors(void)
{
	struct vectors v = {open_bench(), floats(N, 1), floats(N, 2), malloc(N * sizeof(float))};

	v.at_x = upload(&v.b, v.x, N);
	v.at_y = upload(&v.b, v.y, N);
	v.at_z = upload(&v.b, v.y, N);
	return v;
}

static void close_vectors(struct vectors *v)
{
	free_words(v->b.context, v->at_x);
	free_words(v->b.context, v->at_y);
	free_words(v->b.context, v->at_z);
	free(v->x);
	free(v->y);
	free(v->want);
	close_bench(&v->b);
}

// Tests a kernel with each shape of launch. The arguments are x, y and z of `v`, and n. `expression` is the expected
// value of z[i].
#define EACH_SHAPE(name, expression, ...)                                             \
	do {                                                                          \
		struct vectors v = open_vectors();                                    \
		float a = -3;                                                         \
		uint64_t n = N;                                                       \
		(void)a;                                                              \
		for (size_t i = 0; i < N; i++)                                        \
			v.want[i] = expression;                                       \
		for (size_t s = 0; s < SHAPES; s++) {                                 \
			free_words(v.b.context, v.at_z);                              \
			v.at_z = upload(&v.b, v.y, N);                                \
			launch(&v.b, name, &shapes[s], VG_ARGUMENTS(__VA_ARGS__, n)); \
			check_values(&v.b, name, v.at_z, v.want, N, 0);               \
		}                                                                     \
		n = 0;                                                                \
		launch(&v.b, name, &shapes[1], VG_ARGUMENTS(__VA_ARGS__, n));         \
		check_values(&v.b, name, v.at_z, v.want, N, 0);                       \
		close_vectors(&v);                                                    \
	} while (0)

TEST(fill)
{
	EACH_SHAPE("fill", a, v.at_z, a);
}

TEST(copy)
{
	EACH_SHAPE("copy", v.x[i], v.at_x, v.at_z);
}

TEST(scale)
{
	EACH_SHAPE("scale", a * v.x[i], a, v.at_x, v.at_z);
}

TEST(axpy)
{
	EACH_SHAPE("axpy", a * v.x[i] + v.y[i], a, v.at_x, v.at_z);
}

TEST(vector_add)
{
	EACH_SHAPE("vector_add", v.x[i] + v.y[i], v.at_x, v.at_y, v.at_z);
}

TEST(vector_multiply)
{
	EACH_SHAPE("vector_multiply", v.x[i] * v.y[i], v.at_x, v.at_y, v.at_z);
}

TEST(relu)
{
	EACH_SHAPE("relu", v.x[i] < 0 ? 0 : v.x[i], v.at_x, v.at_z);
}

TEST(relu_keeps_nan)
{
	struct bench b = open_bench();
	float x[] = {NAN, -INFINITY, INFINITY, -0.5f}, want[] = {NAN, 0, INFINITY, 0};
	vg_address at = upload(&b, x, 4);
	uint64_t n = 4;

	launch(&b, "relu", &shapes[0], VG_ARGUMENTS(at, at, n));
	read_words(b.context, x, at, sizeof x);
	for (int i = 0; i < 4; i++)
		CHECK(x[i] == want[i] || (isnan(x[i]) && isnan(want[i])));
	free_words(b.context, at);
	close_bench(&b);
}

// The kernels for the sum and the dot product add their result to the value that is already in memory.
TEST(reduce_sum_and_dot)
{
	struct vectors v = open_vectors();
	uint64_t n = N;

	for (size_t s = 0; s < SHAPES; s++) {
		vg_address at = words(v.b.context, 4 * sizeof(float));
		float want[2] = {0, 0};
		for (size_t i = 0; i < N; i++) {
			want[0] += v.x[i];
			want[1] += v.x[i] * v.y[i];
		}
		want[0] *= 2;
		vg_address second = at + sizeof(float);
		for (int twice = 0; twice < 2; twice++)
			launch(&v.b, "reduce_sum", &shapes[s], VG_ARGUMENTS(v.at_x, at, n));
		launch(&v.b, "dot", &shapes[s], VG_ARGUMENTS(v.at_x, v.at_y, second, n));
		check_values(&v.b, "reduce_sum and dot", at, want, 2, 0);
		free_words(v.b.context, at);
	}
	close_vectors(&v);
}

TEST(transpose)
{
	struct vectors v = open_vectors();
	uint64_t rows = 17, columns = 61; // 1037

	for (size_t i = 0; i < N; i++)
		v.want[i % columns * rows + i / columns] = v.x[i];
	for (size_t s = 0; s < SHAPES; s++) {
		launch(&v.b, "transpose", &shapes[s], VG_ARGUMENTS(v.at_x, v.at_z, rows, columns));
		check_values(&v.b, "transpose", v.at_z, v.want, N, 0);
	}
	close_vectors(&v);
}

TEST(matrix_multiply)
{
	struct vectors v = open_vectors();
	uint64_t m = 17, n = 19, k = 23;
	float want[17 * 19] = {0};

	for (size_t i = 0; i < m; i++)
		for (size_t j = 0; j < n; j++)
			for (size_t l = 0; l < k; l++)
				want[i * n + j] += v.x[i * k + l] * v.y[l * n + j];
	for (size_t s = 0; s < SHAPES; s++) {
		vg_address at = words(v.b.context, sizeof want + 4);
		launch(&v.b, "matrix_multiply", &shapes[s], VG_ARGUMENTS(v.at_x, v.at_y, at, m, n, k));
		check_values(&v.b, "matrix_multiply", at, want, 17 * 19, 0);
		k = 0; // there are no elements to sum up
		launch(&v.b, "matrix_multiply", &shapes[s], VG_ARGUMENTS(v.at_x, v.at_y, at, m, n, k));
		check_values(&v.b, "matrix_multiply", at, (float[17 * 19]){0}, 17 * 19, 0);
		k = 23;
		free_words(v.b.context, at);
	}
	close_vectors(&v);
}

TEST(softmax)
{
	struct vectors v = open_vectors();
	uint64_t rows = 17, columns = 61;

	for (size_t row = 0; row < rows; row++) {
		double sum = 0, most = -INFINITY;
		for (size_t i = 0; i < columns; i++)
			most = fmax(most, v.x[row * columns + i]);
		for (size_t i = 0; i < columns; i++)
			sum += exp(v.x[row * columns + i] - most);
		for (size_t i = 0; i < columns; i++)
			v.want[row * columns + i] = (float)(exp(v.x[row * columns + i] - most) / sum);
	}
	for (size_t s = 0; s < SHAPES; s++) {
		launch(&v.b, "softmax", &shapes[s], VG_ARGUMENTS(v.at_x, v.at_z, rows, columns));
		check_values(&v.b, "softmax", v.at_z, v.want, N, 1e-5f);
	}
	close_vectors(&v);
}
