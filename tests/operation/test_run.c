// Tests running plans: on streams of green contexts, in captures, from many threads, and with any current context.
#include "operation_test.h"

#include <pthread.h>

enum { SIDE = 96 };

struct square {
	struct tensor a, b, c;
	struct vg_matrix_multiply d;
};

static struct square make_square(struct subject *s)
{
	struct square q = {make_tensor(s, VG_F32, SIDE * SIDE), make_tensor(s, VG_F32, SIDE * SIDE),
			   make_tensor(s, VG_F32, SIDE * SIDE)};

	q.d = (struct vg_matrix_multiply){.size = sizeof q.d, .m = SIDE, .n = SIDE, .k = SIDE};
	q.d.a = q.a.address;
	q.d.b = q.b.address;
	q.d.c = q.c.address;
	return q;
}

static void drop_square(struct square *q)
{
	drop_tensor(&q->a);
	drop_tensor(&q->b);
	drop_tensor(&q->c);
}

static void check_square(struct subject *s, const struct square *q, const char *what)
{
	float *c = download(s, &q->c);

	for (size_t i = 0; i < SIDE * SIDE; i += 7) {
		long double sum = 0, size = 0;
		for (size_t j = 0; j < SIDE; j++) {
			long double term = (long double)((float *)q->a.host)[i / SIDE * SIDE + j] *
					   ((float *)q->b.host)[j * SIDE + i % SIDE];
			sum += term;
			size += fabsl(term);
		}
		check_near(VG_F32, c[i], sum, (SIDE + 8) * 0x1p-23L * size, what, i);
	}
	free(c);
}

static void run_on(struct subject *s, struct operation_plan *plan, struct vg_stream *stream)
{
	struct vg_buffer *workspace = NULL;

	if (operation_plan_workspace(plan))
		OK(vg_buffer_create(s->bench.pool, operation_plan_workspace(plan), stream, &workspace));
	OK(operation_plan_run(plan, stream, workspace ? vg_buffer_address(workspace) : 0));
	OK(vg_stream_sync(stream));
	vg_buffer_destroy(workspace);
}

static enum vg_status plan_product(struct subject *s, const struct square *q, struct operation_rules rules,
				   struct operation_plan **ret_plan)
{
	return operation_plan_matrix_multiply(s->set, &q->d, rules, ret_plan);
}

// Plans a convolution with a filter of 1 x 1. Its result is a product of matrices, which the test knows.
static enum vg_status plan_convolution(struct subject *s, const struct square *q, struct operation_rules rules,
				       struct operation_plan **ret_plan)
{
	const struct vg_convolution d = {.size = sizeof d,
					 .input = q->d.b,
					 .filter = q->d.a,
					 .output = q->d.c,
					 .batch = 1,
					 .in_channels = SIDE,
					 .out_channels = SIDE,
					 .height = 8,
					 .width = SIDE / 8,
					 .kernel_height = 1,
					 .kernel_width = 1};

	return operation_plan_convolution(s->set, &d, rules, ret_plan);
}

// Runs a plan on a green context, first with the library's own kernels, and then with the default provider.
static void check_green(__typeof__(plan_product) *make)
{
	struct subject s = open_subject();
	struct square q = make_square(&s);
	struct vg_context *green = green_context(8);
	struct vg_stream *stream;

	OK(vg_stream_create(green, NULL, &stream));
	for (int portable = 1; portable >= 0; portable--) {
		struct operation_plan *plan;
		upload(&s, &q.c);
		OK(make(&s, &q, (struct operation_rules){.portable = portable}, &plan));
		run_on(&s, plan, stream);
		check_square(&s, &q, operation_plan_says(plan));
		operation_plan_destroy(plan);
	}
	vg_stream_destroy(stream);
	vg_context_destroy(green);
	drop_square(&q);
	close_subject(&s);
}

TEST(products_run_in_green_contexts)
{
	check_green(plan_product);
}

TEST(convolutions_run_in_green_contexts)
{
	check_green(plan_convolution);
}

// A run of a plan can be captured. The graph can be launched even after the plan is destroyed.
TEST(plans_can_be_captured)
{
	struct subject s = open_subject();
	struct square q = make_square(&s);

	for (int portable = 1; portable >= 0; portable--) {
		struct vg_buffer *workspace = NULL;
		struct operation_plan *plan;
		struct vg_graph *graph;
		upload(&s, &q.c);
		OK(operation_plan_matrix_multiply(s.set, &q.d, (struct operation_rules){.portable = portable}, &plan));
		if (operation_plan_workspace(plan))
			OK(vg_buffer_create(s.bench.pool, operation_plan_workspace(plan), s.bench.stream, &workspace));
		OK(vg_stream_sync(s.bench.stream));
		struct vg_graph_builder *builder = begin_capture(s.bench.stream);
		OK(operation_plan_run(plan, s.bench.stream, workspace ? vg_buffer_address(workspace) : 0));
		operation_plan_destroy(plan);
		OK(vg_graph_builder_end(builder));
		OK(vg_graph_builder_complete(builder, NULL, &graph));
		OK(vg_graph_launch(graph, s.bench.stream));
		OK(vg_stream_sync(s.bench.stream));
		check_square(&s, &q, "captured");
		vg_graph_destroy(graph);
		vg_graph_builder_destroy(builder);
		vg_buffer_destroy(workspace);
	}
	drop_square(&q);
	close_subject(&s);
}

struct worker {
	struct subject *s;
	struct square square;
	pthread_t thread;
	bool failed;
	char text[300];
};

// Runs plans in a thread that has its own plans and its own stream.
static void *work(void *argument)
{
	struct worker *w = argument;
	struct vg_buffer *workspace = NULL;
	struct vg_stream *stream = NULL;

	enum vg_status status = vg_stream_create(w->s->bench.context, NULL, &stream);
	for (int i = 0; status == VG_OK && i < 20; i++) {
		struct operation_plan *plan = NULL;
		struct vg_activation a = {.size = sizeof a,
					  .input = w->square.d.c,
					  .output = w->square.d.c,
					  .batch = 1,
					  .channels = SIDE,
					  .height = SIDE,
					  .width = 1};
		status = operation_plan_activation(w->s->set, &a, (struct operation_rules){0}, &plan);
		if (status == VG_OK)
			status = operation_plan_run(plan, stream, 0);
		operation_plan_destroy(plan);
		plan = NULL;
		if (status == VG_OK)
			status = operation_plan_matrix_multiply(w->s->set, &w->square.d,
								(struct operation_rules){.portable = i % 2}, &plan);
		if (status == VG_OK && operation_plan_workspace(plan) && !workspace)
			status = vg_buffer_create(w->s->bench.pool, (size_t)32 << 20, stream, &workspace);
		if (status == VG_OK)
			status = operation_plan_run(plan, stream, workspace ? vg_buffer_address(workspace) : 0);
		operation_plan_destroy(plan);
	}
	if (status == VG_OK)
		status = vg_stream_sync(stream);
	w->failed = status != VG_OK;
	snprintf(w->text, sizeof w->text, "%s", vg_last_error()->text);
	vg_buffer_destroy(workspace);
	vg_stream_destroy(stream);
	return NULL;
}

TEST(threads)
{
	struct subject s = open_subject();
	struct worker workers[4];

	for (int i = 0; i < 4; i++)
		workers[i] = (struct worker){.s = &s, .square = make_square(&s)};
	for (int i = 0; i < 4; i++)
		CHECK_INT(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(workers[i].thread, NULL);
	for (int i = 0; i < 4; i++) {
		if (workers[i].failed)
			FAIL("thread %d: %s", i, workers[i].text);
		check_square(&s, &workers[i].square, "threads");
		drop_square(&workers[i].square);
	}
	close_subject(&s);
}

// Checks that sets of operations and plans free all their device memory. The leak checker checks the heap.
TEST(sets_and_plans_leave_no_memory)
{
	struct subject first = open_subject(); // permanent allocations
	struct square q = make_square(&first);
	struct operation_plan *plan;

	OK(operation_plan_matrix_multiply(first.set, &q.d, (struct operation_rules){0}, &plan));
	run_plan(&first, plan);
	MEMORY_STEADY(
		first.bench.device, for (int i = 0; i < 3; i++) {
			struct operation_set *set;
			OK(operation_set_create(first.bench.context, &set));
			OK(operation_plan_matrix_multiply(set, &q.d, (struct operation_rules){.portable = true},
							  &plan));
			OK(operation_plan_run(plan, first.bench.stream, 0));
			OK(vg_stream_sync(first.bench.stream));
			operation_plan_destroy(plan);
			operation_set_destroy(set);
		});
	drop_square(&q);
	close_subject(&first);
}
