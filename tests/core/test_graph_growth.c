// Checks that graphs that are created, launched and destroyed many times, in any order and by several threads, do not
// leak.
#include "core_heap.h"
#include "graph_test.h"

#include <pthread.h>

static void do_nothing(void *data)
{
}

TEST(definitions_nodes_and_executables)
{
	struct vg_graph_definition *definition;
	struct vg_graph_node *node, *other;
	struct vg_graph *graph;
	char text[100] = "text";

	heap_open();
	struct bench bench = bench_open();
	HEAP_STEADY(OK(vg_graph_definition_create(bench.context, &definition));
		    vg_graph_definition_destroy(definition););
	HEAP_STEADY(OK(vg_graph_definition_create(bench.context, &definition));
		    OK(vg_graph_add_callback(definition, NULL, 0, do_nothing, text, sizeof text, &node));
		    OK(vg_graph_add_empty(definition, &node, 1, &other));
		    OK(vg_graph_node_set_callback(node, do_nothing, text, 50)); OK(vg_graph_node_remove(node));
		    vg_graph_definition_destroy(definition););
	OK(vg_graph_add_callback(bench.definition, NULL, 0, do_nothing, text, sizeof text, &node));
	HEAP_STEADY(OK(vg_graph_definition_instantiate(bench.definition, NULL, &graph)); vg_graph_destroy(graph););
	OK(vg_graph_definition_instantiate(bench.definition, NULL, &graph));
	// Each change of a node must release the objects that the node had before.
	HEAP_STEADY(OK(vg_graph_set_callback(graph, node, do_nothing, text, sizeof text)););
	HEAP_STEADY(OK(vg_graph_set_callback(graph, node, do_nothing, text, sizeof text));
		    OK(vg_graph_launch(graph, bench.stream)); OK(vg_stream_sync(bench.stream)););
	HEAP_STEADY(OK(vg_graph_update(graph, bench.definition)););
	vg_graph_destroy(graph);
	bench_close(&bench);
}

TEST(children_and_bodies)
{
	struct vg_graph_definition *definition, *child, *inner;
	struct vg_graph_condition condition;
	struct vg_graph_node *node;

	heap_open();
	struct bench bench = bench_open();
	OK(vg_graph_definition_create(bench.context, &child));
	OK(vg_graph_add_callback(child, NULL, 0, do_nothing, &child, sizeof child, NULL));
	HEAP_STEADY(OK(vg_graph_definition_create(bench.context, &definition));
		    OK(vg_graph_add_child(definition, NULL, 0, child, &node));
		    OK(vg_graph_node_get_child(node, &inner)); vg_graph_definition_destroy(definition););
	HEAP_STEADY(OK(vg_graph_definition_create(bench.context, &definition));
		    OK(vg_graph_definition_create_condition(definition, NULL, &condition));
		    OK(vg_graph_add_switch(definition, NULL, 0, condition, 3, &node));
		    OK(vg_graph_node_get_body(node, 1, &inner)); OK(vg_graph_add_empty(inner, NULL, 0, NULL));
		    vg_graph_definition_destroy(definition););
	vg_graph_definition_destroy(child);
	bench_close(&bench);
}

TEST(builders)
{
	struct vg_graph_builder *builder, *split[3], *body;
	struct vg_graph_condition condition;
	struct vg_graph *graph;

	heap_open();
	struct bench bench = bench_open();
	HEAP_STEADY(OK(vg_graph_builder_create_on(bench.stream, &builder));
		    OK(vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_RELAXED));
		    OK(vg_graph_builder_callback(builder, do_nothing, &bench, sizeof bench));
		    OK(vg_graph_builder_end(builder)); OK(vg_graph_builder_complete(builder, NULL, &graph));
		    vg_graph_builder_destroy(builder); vg_graph_destroy(graph););
	// Destroys builders during their captures, in a different order in each round.
	int round = 0;
	HEAP_STEADY(OK(vg_graph_builder_create_on(bench.stream, &builder));
		    OK(vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_RELAXED));
		    OK(vg_graph_builder_split(builder, 3, split));
		    OK(vg_graph_builder_create_condition(builder, NULL, &condition));
		    OK(vg_graph_builder_if_then(builder, condition, &body));
		    OK(vg_graph_builder_begin(body, VG_GRAPH_CAPTURE_RELAXED));
		    for (int i = 0; i < 4; i++) vg_graph_builder_destroy(
			    (struct vg_graph_builder *[]){builder, split[1], body, split[2]}[(i + round) % 4]);
		    round++;);
	bench_close(&bench);
}

TEST(launches_and_uploads_allocate_nothing)
{
	heap_open();
	struct bench bench = bench_open();
	struct vg_graph_node *node;
	struct vg_graph_memset read;
	struct vg_graph *graph;
	vg_address word = words(bench.context, 4);

	OK(vg_graph_add_memset(bench.definition, NULL, 0, MEMSET(.destination = word, .width = 4), &node));
	OK(vg_graph_definition_instantiate(bench.definition, NULL, &graph));
	HEAP_FREE(vg_graph_launch(graph, bench.stream));
	HEAP_FREE(vg_graph_upload(graph, bench.stream));
	HEAP_FREE(vg_graph_node_get_memset(node, &read));
	HEAP_FREE(vg_graph_set_enabled(graph, node, 1));
	OK(vg_stream_sync(bench.stream));
	vg_graph_destroy(graph);
	free_words(bench.context, word);
	bench_close(&bench);
}

// Destroys dependent objects in each possible order; a number encodes the order.
TEST(any_order_of_destruction)
{
	enum { OBJECTS = 6 };
	// Keeps the context on a real GPU, where creating one takes a tenth of a second.
	struct vg_context *kept = getenv("VIRGATE_SIM") ? NULL : first_context();

	for (unsigned order = 0; order < 720; order++) {
		struct vg_context *context = first_context();
		struct vg_stream *stream;
		struct vg_graph_builder *builder;
		struct vg_graph_definition *definition;
		struct vg_event *event;
		struct vg_graph *graph;

		OK(vg_stream_create(context, NULL, &stream));
		OK(vg_event_create(context, NULL, &event));
		OK(vg_graph_builder_create_on(stream, &builder));
		OK(vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_RELAXED));
		OK(vg_graph_builder_callback(builder, do_nothing, &order, sizeof order));
		OK(vg_graph_builder_end(builder));
		OK(vg_graph_builder_definition(builder, &definition));
		OK(vg_graph_add_event_record(definition, NULL, 0, event, NULL));
		OK(vg_graph_builder_complete(builder, NULL, &graph));
		OK(vg_graph_launch(graph, stream));
		int left[OBJECTS] = {0, 1, 2, 3, 4, 5};
		for (unsigned count = OBJECTS, number = order; count; number /= count--) {
			unsigned at = number % count;
			int which = left[at];
			left[at] = left[count - 1];
			switch (which) {
			case 0:
				vg_context_destroy(context);
				break;
			case 1:
				vg_stream_destroy(stream);
				break;
			case 2:
				vg_event_destroy(event);
				break;
			case 3:
				vg_graph_builder_destroy(builder);
				break;
			case 4:
				vg_graph_definition_destroy(definition);
				break;
			case 5:
				vg_graph_destroy(graph);
				break;
			}
		}
	}
	vg_context_destroy(kept);
}

enum { THREADS = 4 };

// Each thread has its own graphs. The driver drops references on its own threads; any of these threads then releases
// them.
static void *launch_graphs(void *context)
{
	for (int i = 0; i < 100; i++) {
		struct vg_graph_definition *definition;
		struct vg_graph_node *node;
		struct vg_stream *stream;
		struct vg_event *event;
		struct vg_graph *graph;

		if (vg_stream_create(context, NULL, &stream) || vg_event_create(context, NULL, &event) ||
		    vg_graph_definition_create(context, &definition) ||
		    vg_graph_add_event_record(definition, NULL, 0, event, &node) ||
		    vg_graph_add_callback(definition, &node, 1, do_nothing, &i, sizeof i, &node) ||
		    vg_graph_definition_instantiate(definition, NULL, &graph) || vg_graph_launch(graph, stream) ||
		    vg_graph_set_callback(graph, node, do_nothing, &i, sizeof i) || vg_graph_launch(graph, stream))
			return (void *)vg_last_error()->text;
		vg_event_destroy(event);
		vg_graph_definition_destroy(definition);
		if (i % 2)
			vg_graph_destroy(graph); // still running
		vg_stream_destroy(stream);
		if (i % 2 == 0)
			vg_graph_destroy(graph);
	}
	return NULL;
}

TEST(threads_with_graphs_of_their_own)
{
	pthread_t threads[THREADS];
	void *problem;

	struct vg_context *context = first_context();
	for (int i = 0; i < THREADS; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, launch_graphs, context), 0);
	for (int i = 0; i < THREADS; i++) {
		CHECK_INT(pthread_join(threads[i], &problem), 0);
		if (problem)
			FAIL("%s", (char *)problem);
	}
	vg_context_destroy(context);
}
