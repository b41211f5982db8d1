// Tests graphs made by capture.
#include "graph_test.h"

#include <limits.h>
#include <pthread.h>

static void count(void *data)
{
	++**(int **)data;
}

static void launch_one(struct vg_graph_builder *builder, struct vg_kernel *kernel, vg_address word)
{
	OK(vg_launch(vg_graph_builder_stream(builder), CONFIG(1, 1), kernel, VG_ARGUMENTS(word)));
}

static void launch_affine(struct vg_graph_builder *builder, struct vg_kernel *kernel, vg_address word, int m, int b)
{
	OK(vg_launch(vg_graph_builder_stream(builder), CONFIG(1, 1), kernel, VG_ARGUMENTS(word, m, b)));
}

static int word_at(struct bench *bench, vg_address address)
{
	int value;

	read_words(bench->context, &value, address, sizeof value);
	return value;
}

// Ends and completes the builder, launches the graph once, and destroys the builder.
static struct vg_graph *finish(struct bench *bench, struct vg_graph_builder *builder)
{
	OK(vg_graph_builder_end(builder));
	struct vg_graph *graph = builder_run(bench, builder);
	vg_graph_builder_destroy(builder);
	return graph;
}

TEST(a_captured_callback_runs_at_each_launch)
{
	struct bench bench = bench_open();
	struct vg_graph_builder *builder = begin_builder(&bench);
	int ran = 0, *where = &ran, building = -1;

	OK(vg_graph_builder_is_building(builder, &building));
	CHECK_INT(building, 1);
	OK(vg_graph_builder_callback(builder, count, &where, sizeof where));
	OK(vg_graph_builder_callback(builder, count, &where, 0));
	CHECK_INT(ran, 0);
	OK(vg_graph_builder_end(builder));
	OK(vg_graph_builder_is_building(builder, &building));
	CHECK_INT(building, 0);
	struct vg_graph *graph;
	OK(vg_graph_builder_complete(builder, NULL, &graph));
	vg_graph_builder_destroy(builder);
	for (int i = 0; i < 3; i++)
		launch_and_wait(&bench, graph);
	CHECK_INT(ran, 6);
	vg_graph_destroy(graph);
	bench_close(&bench);
}

TEST(calls_in_the_wrong_state_are_refused)
{
	struct bench bench = bench_open();
	struct vg_graph_builder *builder, *two[2];
	struct vg_graph_definition *definition;
	struct vg_graph_condition condition;
	struct vg_graph *graph = NULL;
	int building;

	OK(vg_graph_builder_create(bench.context, &builder));
	OK(vg_graph_builder_is_building(builder, &building));
	CHECK_INT(building, 0);
	REFUSED(vg_graph_builder_end(builder), VG_STATE, "the graph builder is not building");
	REFUSED(vg_graph_builder_complete(builder, NULL, &graph), VG_STATE, "has not finished building");
	REFUSED(vg_graph_builder_split(builder, 2, two), VG_STATE, "must be building before it can be split");
	REFUSED(vg_graph_builder_callback(builder, count, NULL, 0), VG_STATE, "is not building");
	REFUSED(vg_graph_builder_create_condition(builder, NULL, &condition), VG_STATE, "is not building");
	REFUSED(vg_graph_builder_embed_definition(builder, bench.definition), VG_STATE, "is not being built");
	REFUSED(vg_graph_builder_definition(builder, &definition), VG_STATE, "has not begun");
	REFUSED(vg_graph_builder_dot(builder, "/dev/null", NULL), VG_STATE, "has not finished building");
	REFUSED(vg_graph_builder_begin(builder, (enum vg_graph_capture_mode)3), VG_INVALID, "capture mode 3");
	OK(vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_THREAD_LOCAL));
	REFUSED(vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_RELAXED), VG_STATE, "is already building");
	REFUSED(vg_graph_builder_split(builder, 1, two), VG_INVALID, "invalid split count: expecting 2 or more, got 1");
	REFUSED(vg_graph_builder_split(builder, UINT_MAX, two), VG_INVALID, "a split into 4294967295");
	REFUSED(vg_graph_builder_callback(builder, count, two, SIZE_MAX), VG_NO_MEMORY, "18446744073709551615 bytes");
	REFUSED(vg_graph_builder_definition(builder, &definition), VG_STATE, "is still building");
	REFUSED(vg_graph_builder_complete(builder, NULL, &graph), VG_STATE, "has not finished building");
	REFUSED(vg_graph_builder_embed(builder, builder), VG_STATE, "the child graph has not finished building");
	OK(vg_graph_builder_end(builder));
	REFUSED(vg_graph_builder_end(builder), VG_STATE, "the graph builder is not building");
	REFUSED(vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_RELAXED), VG_STATE, "cannot resume");
	OK(vg_graph_builder_close(builder));
	OK(vg_graph_builder_close(builder));
	REFUSED(vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_RELAXED), VG_CLOSED,
		"the graph builder has been closed");
	REFUSED(vg_graph_builder_is_building(builder, &building), VG_CLOSED, "has been closed");
	CHECK(vg_graph_builder_stream(builder) == NULL);
	vg_graph_builder_destroy(builder);
	REFUSED(vg_graph_builder_begin(NULL, VG_GRAPH_CAPTURE_RELAXED), VG_INVALID, "builder is NULL");
	REFUSED(vg_graph_builder_close(NULL), VG_INVALID, "builder is NULL");
	vg_graph_builder_destroy(NULL);
	CHECK(graph == NULL);
	bench_close(&bench);
}

TEST(a_graph_keeps_captured_kernels)
{
	struct bench bench = bench_open();
	vg_address word = words(bench.context, sizeof(int));
	struct vg_kernel *kernel = kernel_of(&bench, "add_one");
	struct vg_graph_builder *builder = begin_builder(&bench);

	for (int i = 0; i < 3; i++)
		launch_one(builder, kernel, word);
	vg_kernel_destroy(kernel);
	vg_object_code_destroy(bench.code);
	bench.code = NULL;
	struct vg_graph *graph = finish(&bench, builder);
	CHECK_INT(word_at(&bench, word), 3);
	launch_and_wait(&bench, graph);
	CHECK_INT(word_at(&bench, word), 6);
	vg_graph_destroy(graph);
	free_words(bench.context, word);
	bench_close(&bench);
}

TEST(split_and_joined_work_keeps_its_order)
{
	struct bench bench = bench_open();
	vg_address word = words(bench.context, 3 * sizeof(int));
	struct vg_kernel *affine = kernel_of(&bench, "affine"), *combine = kernel_of(&bench, "combine");
	struct vg_graph_builder *builder = begin_builder(&bench), *both[2], *root;

	launch_affine(builder, affine, word, 1, 3); // 3
	OK(vg_graph_builder_split(builder, 2, both));
	CHECK(both[0] == builder);
	CHECK_INT(vg_graph_builder_is_join_required(both[0]), 0);
	CHECK_INT(vg_graph_builder_is_join_required(both[1]), 1);
	vg_address a = word + 4, b = word + 8;
	launch_affine(both[0], affine, a, 1, 5);
	launch_affine(both[1], affine, b, 1, 7);
	REFUSED(vg_graph_builder_end(both[1]), VG_STATE, "was split off");
	REFUSED(vg_graph_builder_end(builder), VG_STATE, "1 graph builder split off has not been joined");
	// The join keeps the builder that began the graph, in whatever order the list is.
	OK(vg_graph_builder_join((struct vg_graph_builder *[]){both[1], both[0]}, 2, &root));
	CHECK(root == builder);
	REFUSED(vg_graph_builder_callback(both[1], count, NULL, 0), VG_CLOSED, "has been closed");
	vg_graph_builder_destroy(both[1]);
	OK(vg_launch(vg_graph_builder_stream(builder), CONFIG(1, 1), combine, VG_ARGUMENTS(word, a, b)));
	struct vg_graph_definition *definition;
	struct vg_graph_edge edges[4];
	size_t found;
	OK(vg_graph_builder_end(builder));
	OK(vg_graph_builder_definition(builder, &definition));
	OK(vg_graph_definition_edges(definition, edges, 4, &found));
	// the fork has one edge to each of the two branches, and the join has one edge from each of them
	CHECK_INT(found, 4);
	struct vg_graph *graph = builder_run(&bench, builder);
	vg_graph_builder_destroy(builder);
	vg_graph_definition_destroy(definition);
	CHECK_INT(word_at(&bench, word), 5 << 16 | 7);
	vg_graph_destroy(graph);
	vg_kernel_destroy(affine);
	vg_kernel_destroy(combine);
	free_words(bench.context, word);
	bench_close(&bench);
}

TEST(many_builders_are_joined_together_or_in_pairs)
{
	enum { MANY = 6 };
	struct bench bench = bench_open();
	vg_address word = words(bench.context, sizeof(int));
	struct vg_kernel *kernel = kernel_of(&bench, "add_one");
	struct vg_graph_builder *builder = begin_builder(&bench), *all[MANY], *root;

	OK(vg_graph_builder_split(builder, MANY, all));
	for (int i = 0; i < MANY; i++)
		launch_one(all[i], kernel, word);
	// A join of two split builders keeps the first one, which must still be joined to the root.
	OK(vg_graph_builder_join(&all[4], 2, &root));
	CHECK(root == all[4]);
	CHECK_INT(vg_graph_builder_is_join_required(root), 1);
	vg_graph_builder_destroy(all[5]);
	OK(vg_graph_builder_join(all, MANY - 1, NULL));
	for (int i = 1; i < MANY - 1; i++)
		vg_graph_builder_destroy(all[i]);
	vg_graph_destroy(finish(&bench, builder));
	CHECK_INT(word_at(&bench, word), MANY);
	vg_kernel_destroy(kernel);
	free_words(bench.context, word);
	bench_close(&bench);
}

TEST(invalid_joins_change_nothing)
{
	struct bench bench = bench_open();
	struct vg_graph_builder *first = begin_builder(&bench), *second = begin_builder(&bench), *split[2],
				*root = NULL;
	int building;

	OK(vg_graph_builder_split(first, 2, split));
	REFUSED(vg_graph_builder_join(split, 1, &root), VG_INVALID, "must join 2 or more graph builders, got 1");
	REFUSED(vg_graph_builder_join((struct vg_graph_builder *[]){first, first}, 2, &root), VG_INVALID,
		"are the same");
	REFUSED(vg_graph_builder_join((struct vg_graph_builder *[]){split[1], second}, 2, &root), VG_INVALID,
		"different captures");
	REFUSED(vg_graph_builder_join((struct vg_graph_builder *[]){first, NULL}, 2, &root), VG_INVALID,
		"builder is NULL");
	CHECK(root == NULL);
	OK(vg_graph_builder_is_building(first, &building));
	CHECK_INT(building, 1);
	OK(vg_graph_builder_is_building(second, &building));
	CHECK_INT(building, 1);
	OK(vg_graph_builder_join(split, 2, &root));
	OK(vg_graph_builder_end(first));
	OK(vg_graph_builder_end(second));
	vg_graph_builder_destroy(split[1]);
	vg_graph_builder_destroy(first);
	vg_graph_builder_destroy(second);
	bench_close(&bench);
}

TEST(streams_that_wait_for_a_builder_are_captured)
{
	struct bench bench = bench_open();
	vg_address word = words(bench.context, sizeof(int));
	struct vg_kernel *kernel = kernel_of(&bench, "add_one");
	struct vg_graph_builder *builder = begin_builder(&bench);
	struct vg_stream *other, *stream = vg_graph_builder_stream(builder);

	OK(vg_stream_create(bench.context, NULL, &other));
	launch_one(builder, kernel, word);
	OK(vg_stream_wait_stream(other, stream));
	OK(vg_launch(other, CONFIG(1, 1), kernel, VG_ARGUMENTS(word)));
	REFUSED(vg_graph_builder_end(builder), VG_DRIVER, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED");
	vg_graph_builder_destroy(builder);
	builder = begin_builder(&bench);
	stream = vg_graph_builder_stream(builder);
	OK(vg_stream_wait_stream(other, stream));
	OK(vg_launch(other, CONFIG(1, 1), kernel, VG_ARGUMENTS(word)));
	OK(vg_stream_wait_stream(stream, other));
	vg_graph_destroy(finish(&bench, builder));
	CHECK_INT(word_at(&bench, word), 1);
	OK(vg_launch(other, CONFIG(1, 1), kernel, VG_ARGUMENTS(word))); // the stream runs work again
	OK(vg_stream_sync(other));
	CHECK_INT(word_at(&bench, word), 2);
	vg_stream_destroy(other);
	vg_kernel_destroy(kernel);
	free_words(bench.context, word);
	bench_close(&bench);
}

TEST(an_embedded_graph_is_a_copy)
{
	struct bench bench = bench_open();
	int ran = 0, *where = &ran;
	struct vg_graph_builder *child = begin_builder(&bench), *parent = begin_builder(&bench);

	OK(vg_graph_builder_callback(child, count, &where, sizeof where));
	REFUSED(vg_graph_builder_embed(parent, child), VG_STATE, "the child graph has not finished building");
	OK(vg_graph_builder_end(child));
	OK(vg_graph_builder_embed(parent, child));
	OK(vg_graph_builder_embed(parent, child));
	vg_graph_builder_destroy(child);
	REFUSED(vg_graph_builder_embed(parent, NULL), VG_INVALID, "child is NULL");
	OK(vg_graph_builder_callback(parent, count, &where, sizeof where));
	struct vg_graph *graph = finish(&bench, parent);
	CHECK_INT(ran, 3);
	vg_graph_destroy(graph);
	bench_close(&bench);
}

TEST(an_ended_builder_returns_its_definition)
{
	struct bench bench = bench_open();
	int ran = 0, *where = &ran;
	struct vg_graph_builder *builder = begin_builder(&bench);
	struct vg_graph_definition *definition, *again;
	struct vg_graph_node *node, *next;
	struct vg_graph *graph;
	size_t found;

	OK(vg_graph_builder_callback(builder, count, &where, sizeof where));
	OK(vg_graph_builder_end(builder));
	OK(vg_graph_builder_definition(builder, &definition));
	OK(vg_graph_builder_definition(builder, &again));
	CHECK(definition == again);
	vg_graph_definition_destroy(again);
	OK(vg_graph_definition_nodes(definition, &node, 1, &found));
	CHECK_INT(vg_graph_node_type(node), VG_GRAPH_NODE_HOST);
	OK(vg_graph_add_callback(definition, &node, 1, count, &where, sizeof where, &next));
	OK(vg_graph_builder_complete(builder, NULL, &graph));
	vg_graph_builder_destroy(builder);
	launch_and_wait(&bench, graph);
	CHECK_INT(ran, 2);
	CHECK_INT(vg_graph_node_is_valid(next), 1);
	vg_graph_definition_destroy(definition);
	vg_graph_destroy(graph);
	bench_close(&bench);
}

TEST(closing_a_builder_discards_its_capture)
{
	struct bench bench = bench_open();
	struct vg_graph_builder *builder, *split[3];
	int ran = 0, *where = &ran, done;

	OK(vg_graph_builder_create_on(bench.stream, &builder));
	OK(vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_GLOBAL));
	OK(vg_graph_builder_callback(builder, count, &where, sizeof where));
	OK(vg_graph_builder_split(builder, 3, split));
	OK(vg_graph_builder_callback(split[1], count, &where, sizeof where));
	OK(vg_graph_builder_close(builder));
	REFUSED(vg_graph_builder_callback(split[1], count, &where, 0), VG_STATE, "is not building");
	OK(vg_graph_builder_is_building(split[2], &done));
	CHECK_INT(done, 0);
	OK(vg_stream_sync(bench.stream)); // the stream does not capture any more
	OK(vg_stream_query(bench.stream, &done));
	CHECK_INT(ran, 0);
	vg_graph_builder_destroy(split[2]);
	vg_graph_builder_destroy(builder);
	vg_graph_builder_destroy(split[1]);
	// Destroying a builder during its capture also ends the capture, even while other builders are split off.
	OK(vg_graph_builder_create_on(bench.stream, &builder));
	OK(vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_RELAXED));
	OK(vg_graph_builder_split(builder, 2, split));
	vg_graph_builder_destroy(builder);
	OK(vg_stream_sync(bench.stream));
	vg_graph_builder_destroy(split[1]);
	bench_close(&bench);
}

TEST(an_invalidated_capture_is_reported_and_closed)
{
	struct bench bench = bench_open();
	struct vg_graph_builder *builder;
	struct vg_graph_definition *definition;
	struct vg_graph *graph;
	int ran = 0, *where = &ran, building = 7;

	OK(vg_graph_builder_create_on(bench.stream, &builder));
	OK(vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_RELAXED));
	OK(vg_graph_builder_callback(builder, count, &where, sizeof where));
	CHECK_INT(vg_stream_sync(bench.stream), VG_DRIVER); // not capturable
	REFUSED(vg_graph_builder_is_building(builder, &building), VG_STATE, "invalidated");
	CHECK_INT(building, 7);
	REFUSED(vg_graph_builder_callback(builder, count, &where, sizeof where), VG_STATE, "invalidated");
	REFUSED(vg_graph_builder_end(builder), VG_DRIVER, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED");
	REFUSED(vg_graph_builder_end(builder), VG_STATE, "is not building");
	REFUSED(vg_graph_builder_complete(builder, NULL, &graph), VG_STATE, "invalidated");
	REFUSED(vg_graph_builder_definition(builder, &definition), VG_STATE, "invalidated");
	OK(vg_graph_builder_close(builder));
	vg_graph_builder_destroy(builder);
	// The capture is invalidated, and its builder destroyed without an end.
	OK(vg_graph_builder_create_on(bench.stream, &builder));
	OK(vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_RELAXED));
	CHECK_INT(vg_stream_sync(bench.stream), VG_DRIVER);
	vg_graph_builder_destroy(builder);
	OK(vg_stream_sync(bench.stream));
	bench_close(&bench);
}

TEST(work_of_an_unjoined_builder_fails_the_end)
{
	struct bench bench = bench_open();
	struct vg_graph_builder *builder, *split[2];
	int ran = 0, *where = &ran;
	struct vg_buffer *buffer;

	OK(vg_buffer_borrow(words(bench.context, 4), 4, NULL, &buffer));
	builder = begin_builder(&bench);
	OK(vg_graph_builder_split(builder, 2, split));
	OK(vg_buffer_fill_byte(buffer, 7, vg_graph_builder_stream(split[1])));
	vg_graph_builder_destroy(split[1]);
	REFUSED(vg_graph_builder_end(builder), VG_DRIVER, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED");
	vg_graph_builder_destroy(builder);
	builder = begin_builder(&bench);
	OK(vg_graph_builder_split(builder, 2, split));
	vg_graph_builder_destroy(split[1]); // this builder captured nothing
	OK(vg_graph_builder_end(builder));
	vg_graph_builder_destroy(builder);
	// A node that the builder added itself is part of the graph, not captured work of its stream.
	builder = begin_builder(&bench);
	OK(vg_graph_builder_split(builder, 2, split));
	OK(vg_graph_builder_callback(split[1], count, &where, sizeof where));
	vg_graph_builder_destroy(split[1]);
	vg_graph_destroy(finish(&bench, builder));
	CHECK_INT(ran, 1);
	free_words(bench.context, vg_buffer_address(buffer));
	vg_buffer_destroy(buffer);
	bench_close(&bench);
}

TEST(default_streams_cannot_be_captured)
{
	struct bench bench = bench_open();
	struct vg_graph_builder *builder = NULL, *second;

	REFUSED(vg_graph_builder_create_on(NULL, &builder), VG_INVALID, "stream is NULL");
	REFUSED(vg_graph_builder_create(NULL, &builder), VG_INVALID, "context is NULL");
	REFUSED(vg_graph_builder_create(bench.context, NULL), VG_INVALID, "ret_builder is NULL");
	// A stream can have one capture at a time.
	OK(vg_graph_builder_create_on(bench.stream, &builder));
	OK(vg_graph_builder_create_on(bench.stream, &second));
	OK(vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_RELAXED));
	REFUSED(vg_graph_builder_begin(second, VG_GRAPH_CAPTURE_RELAXED), VG_STATE,
		"another graph builder is capturing the stream");
	OK(vg_graph_builder_end(builder));
	OK(vg_graph_builder_begin(second, VG_GRAPH_CAPTURE_RELAXED));
	vg_graph_builder_destroy(builder);
	vg_graph_builder_destroy(second);
	bench_close(&bench);
}

static void *end_elsewhere(void *builder)
{
	REFUSED(vg_graph_builder_end(builder), VG_STATE, "another thread began the capture");
	return NULL;
}

TEST(a_thread_local_capture_is_ended_by_its_thread)
{
	struct bench bench = bench_open();
	struct vg_graph_builder *builder;
	pthread_t thread;

	OK(vg_graph_builder_create_on(bench.stream, &builder));
	OK(vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_THREAD_LOCAL));
	pthread_create(&thread, NULL, end_elsewhere, builder);
	pthread_join(thread, NULL);
	OK(vg_graph_builder_end(builder)); // the capture is still valid
	vg_graph_builder_destroy(builder);
	OK(vg_stream_sync(bench.stream));
	bench_close(&bench);
}

TEST(releasing_objects_invalidates_no_capture)
{
	struct bench bench = bench_open();
	struct vg_device *device = vg_context_device(bench.context);
	struct vg_object_code *code = built_code(VG_CODE_PTX, "graph_kernels.ptx");
	struct vg_memory_resource *pool, *plain;
	struct vg_graph_builder *builder;
	struct vg_buffer *buffers[2];
	struct vg_stream *other;
	struct vg_kernel *kernel;
	struct vg_graph *graph;

	OK(vg_stream_create(bench.context, NULL, &other));
	OK(vg_device_pool_create(device, NULL, &pool));
	OK(vg_synchronous_resource_create(bench.context, &plain));
	OK(vg_buffer_create(pool, 64, other, &buffers[0]));
	OK(vg_buffer_create(plain, 64, other, &buffers[1]));
	OK(vg_object_code_kernel(code, "add_one", &kernel));
	OK(vg_graph_definition_instantiate(bench.definition, NULL, &graph));
	OK(vg_stream_sync(other));
	OK(vg_graph_builder_create_on(bench.stream, &builder));
	OK(vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_THREAD_LOCAL));
	vg_buffer_destroy(buffers[0]);
	vg_buffer_destroy(buffers[1]);
	vg_memory_resource_destroy(pool);
	vg_memory_resource_destroy(plain);
	vg_graph_destroy(graph);
	vg_kernel_destroy(kernel);
	vg_object_code_destroy(code);
	vg_stream_destroy(other);
	OK(vg_device_pool_current(device, &pool)); // the library's own queries do not invalidate the capture
	vg_memory_resource_destroy(pool);
	OK(vg_graph_builder_end(builder));
	vg_graph_builder_destroy(builder);
	bench_close(&bench);
}

TEST(launching_a_changed_graph_invalidates_no_capture)
{
	struct bench bench = bench_open();
	vg_address word = words(bench.context, 16);
	struct vg_graph_builder *builder;
	struct vg_graph_node *set;
	struct vg_stream *other;
	struct vg_graph *graph;

	OK(vg_stream_create(bench.context, NULL, &other));
	OK(vg_graph_add_memset(bench.definition, NULL, 0, MEMSET(.destination = word, .width = 16), &set));
	OK(vg_graph_definition_instantiate(bench.definition, NULL, &graph));
	for (unsigned i = 0; i < 2; i++) {
		struct vg_buffer *buffer;
		OK(vg_buffer_borrow(word, 16, NULL, &buffer));
		OK(vg_graph_set_memset(
			graph, set,
			MEMSET(.destination = word, .value = i, .width = 16, .destination_buffer = buffer)));
		vg_buffer_destroy(buffer);
		OK(vg_graph_launch(graph, other));
	}
	OK(vg_graph_set_memset(graph, set, MEMSET(.destination = word, .width = 16)));
	OK(vg_graph_builder_create_on(bench.stream, &builder));
	OK(vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_THREAD_LOCAL));
	OK(vg_graph_launch(graph, other)); // the launch releases objects of earlier launches
	vg_graph_destroy(graph);
	OK(vg_graph_builder_end(builder));
	vg_graph_builder_destroy(builder);
	vg_stream_destroy(other);
	free_words(bench.context, word);
	bench_close(&bench);
}

static void *destroy_elsewhere(void *builder)
{
	CHECK_INT(vg_stream_sync(NULL), VG_INVALID);
	// this call cannot end the capture, since another thread began it; its error must not replace the last one
	vg_graph_builder_destroy(builder);
	CHECK_CONTAINS(vg_last_error()->text, "stream is NULL");
	return NULL;
}

TEST(destroying_a_capturing_builder_keeps_the_last_error)
{
	struct bench bench = bench_open();
	struct vg_graph_builder *builder;
	pthread_t thread;

	OK(vg_graph_builder_create(bench.context, &builder));
	OK(vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_THREAD_LOCAL));
	pthread_create(&thread, NULL, destroy_elsewhere, builder);
	pthread_join(thread, NULL);
	bench_close(&bench);
}

TEST(a_graph_cannot_be_launched_into_a_capture)
{
	struct bench bench = bench_open();
	int ran = 0, *where = &ran;

	OK(vg_graph_add_callback(bench.definition, NULL, 0, count, &where, sizeof where, NULL));
	struct vg_graph *inner = bench_run(&bench);
	struct vg_graph_builder *builder = begin_builder(&bench);
	REFUSED(vg_graph_launch(inner, vg_graph_builder_stream(builder)), VG_STATE, "embed the graph's definition");
	OK(vg_graph_builder_embed_definition(builder, bench.definition)); // the capture is still valid
	vg_graph_destroy(inner);
	vg_graph_destroy(finish(&bench, builder));
	CHECK_INT(ran, 2);
	bench_close(&bench);
}
