// Tests executable graphs: instantiation, launches, changes, and references.
#include "graph_test.h"

#include <pthread.h>

static void count(void *data)
{
	++**(int **)data;
}

TEST(executable_options)
{
	struct bench bench = bench_open();
	struct vg_graph_node *node;
	struct vg_graph *graph;
	vg_address address;

	OK(vg_graph_add_allocation(bench.definition, NULL, 0, ALLOCATION(.bytes = 64), &address, &node));
	OK(vg_graph_definition_instantiate(bench.definition, NULL, &graph));
	OK(vg_graph_upload(graph, bench.stream));
	launch_and_wait(&bench, graph);
	REFUSED(vg_graph_launch(graph, bench.stream), VG_DRIVER,
		"cuGraphLaunch"); // the memory of the last launch is still allocated
	bench_free(&bench, address);
	launch_and_wait(&bench, graph);
	bench_free(&bench, address);
	vg_graph_destroy(graph);
	bench_close(&bench);

	bench = bench_open();
	OK(vg_graph_add_allocation(bench.definition, NULL, 0, ALLOCATION(.bytes = 64), &address, &node));
	OK(vg_graph_definition_instantiate(
		bench.definition,
		GRAPH_OPTIONS(.auto_free_on_launch = 1, .use_node_priority = 1, .upload_stream = bench.stream),
		&graph));
	launch_and_wait(&bench, graph);
	launch_and_wait(&bench, graph);
	bench_free(&bench, address);
	vg_graph_destroy(graph);
	bench_close(&bench);
}

TEST(launches_from_the_device_need_suitable_nodes)
{
	struct bench bench = bench_open();
	struct vg_graph *graph = NULL;
	int unused = 0, *where = &unused;

	OK(vg_graph_add_callback(bench.definition, NULL, 0, count, &where, sizeof where, NULL));
	REFUSED(vg_graph_definition_instantiate(bench.definition, GRAPH_OPTIONS(.device_launch = 1), &graph), VG_DRIVER,
		"unsupported operation");
	CHECK(graph == NULL);
	bench_close(&bench);
}

TEST(closed_and_missing_graphs_are_refused)
{
	struct bench bench = bench_open();
	struct vg_graph *graph;
	struct vg_graph_node *node;
	struct vg_stream *closed;
	int enabled;

	vg_address word = words(bench.context, 1);
	OK(vg_graph_add_memset(bench.definition, NULL, 0, MEMSET(.destination = word, .width = 1), &node));
	OK(vg_graph_definition_instantiate(bench.definition, NULL, &graph));
	OK(vg_stream_create(bench.context, NULL, &closed));
	OK(vg_stream_close(closed));
	REFUSED(vg_graph_launch(graph, closed), VG_CLOSED, "the stream has been closed");
	REFUSED(vg_graph_launch(graph, NULL), VG_INVALID, "stream is NULL");
	REFUSED(vg_graph_definition_instantiate(bench.definition, GRAPH_OPTIONS(.upload_stream = closed), &graph),
		VG_CLOSED, "the stream has been closed");
	vg_stream_destroy(closed);
	CHECK(vg_graph_handle(graph) != NULL);
	OK(vg_graph_close(graph));
	OK(vg_graph_close(graph));
	CHECK(vg_graph_handle(graph) == NULL);
	REFUSED(vg_graph_launch(graph, bench.stream), VG_CLOSED, "the graph has been closed");
	REFUSED(vg_graph_upload(graph, bench.stream), VG_CLOSED, "the graph has been closed");
	REFUSED(vg_graph_update(graph, bench.definition), VG_CLOSED, "the graph has been closed");
	REFUSED(vg_graph_set_enabled(graph, node, 0), VG_CLOSED, "the graph has been closed");
	REFUSED(vg_graph_is_enabled(NULL, node, &enabled), VG_INVALID, "graph is NULL");
	REFUSED(vg_graph_close(NULL), VG_INVALID, "graph is NULL");
	vg_graph_destroy(graph);
	vg_graph_destroy(NULL);
	REFUSED(vg_graph_definition_instantiate(NULL, NULL, &graph), VG_INVALID, "definition is NULL");
	free_words(bench.context, word);
	bench_close(&bench);
}

TEST(an_update_succeeds_or_changes_nothing)
{
	struct bench bench = bench_open();
	vg_address word = words(bench.context, 8);
	struct vg_graph_definition *other;
	struct vg_graph_builder *builder;
	struct vg_graph_node *node;
	unsigned char seen;

	OK(vg_graph_add_memset(bench.definition, NULL, 0, MEMSET(.destination = word, .value = 1, .width = 1), &node));
	struct vg_graph *graph = bench_run(&bench);
	OK(vg_graph_definition_create(bench.context, &other));
	OK(vg_graph_add_memset(other, NULL, 0, MEMSET(.destination = word, .value = 2, .width = 1), &node));
	OK(vg_graph_update(graph, other));
	launch_and_wait(&bench, graph);
	read_words(bench.context, &seen, word, 1);
	CHECK_INT(seen, 2);
	OK(vg_graph_add_empty(other, &node, 1, NULL));
	OK(vg_graph_node_set_memset(node, MEMSET(.destination = word, .value = 3, .width = 1)));
	REFUSED(vg_graph_update(graph, other), VG_DRIVER,
		"the topology changed (CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED)");
	CHECK_CONTAINS(vg_last_error()->text, "graph update failed");
	launch_and_wait(&bench, graph);
	read_words(bench.context, &seen, word, 1);
	CHECK_INT(seen, 2);
	vg_graph_definition_destroy(other);

	OK(vg_graph_builder_create(bench.context, &builder));
	REFUSED(vg_graph_update_from_builder(graph, builder), VG_STATE, "has not finished building");
	OK(vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_RELAXED));
	REFUSED(vg_graph_update_from_builder(graph, builder), VG_STATE, "has not finished building");
	struct vg_graph_definition *captured;
	OK(vg_graph_builder_end(builder));
	OK(vg_graph_builder_definition(builder, &captured));
	OK(vg_graph_add_memset(captured, NULL, 0, MEMSET(.destination = word, .value = 4, .width = 1), NULL));
	OK(vg_graph_update_from_builder(graph, builder));
	OK(vg_graph_builder_close(builder));
	REFUSED(vg_graph_update_from_builder(graph, builder), VG_CLOSED, "the source graph builder has been closed");
	REFUSED(vg_graph_update_from_builder(graph, NULL), VG_INVALID, "builder is NULL");
	REFUSED(vg_graph_update(graph, NULL), VG_INVALID, "source is NULL");
	vg_graph_builder_destroy(builder);
	vg_graph_definition_destroy(captured);
	launch_and_wait(&bench, graph);
	read_words(bench.context, &seen, word, 1);
	CHECK_INT(seen, 4);
	vg_graph_destroy(graph);
	free_words(bench.context, word);
	bench_close(&bench);
}

TEST(an_update_keeps_objects_of_the_new_nodes)
{
	struct bench bench = bench_open();
	struct vg_graph_definition *other;
	int first = 0, second = 0, *where = &first;

	OK(vg_graph_add_callback(bench.definition, NULL, 0, count, &where, sizeof where, NULL));
	struct vg_graph *graph = bench_run(&bench);
	where = &second;
	OK(vg_graph_definition_create(bench.context, &other));
	OK(vg_graph_add_callback(other, NULL, 0, count, &where, sizeof where, NULL));
	OK(vg_graph_update(graph, other));
	vg_graph_definition_destroy(other);
	launch_and_wait(&bench, graph);
	CHECK(first == 1 && second == 1);
	vg_graph_destroy(graph);
	bench_close(&bench);
}

TEST(nodes_of_an_executable_are_changed_and_disabled)
{
	struct bench bench = bench_open();
	vg_address word = words(bench.context, 16);
	int in = 5, other = 6, out = 0, ran = 0, *where = &ran;
	struct vg_graph_node *set, *copy, *call;
	struct vg_graph_memset read;
	unsigned seen[4];
	int enabled;

	OK(vg_graph_add_memset(bench.definition, NULL, 0,
			       MEMSET(.destination = word, .value = 1, .element_size = 4, .width = 1), &set));
	OK(vg_graph_add_memcpy(bench.definition, &set, 1,
			       MEMCPY(.destination = word + 4, .source = ADDRESS(&in), .bytes = 4), &copy));
	OK(vg_graph_add_callback(bench.definition, &copy, 1, count, &where, sizeof where, &call));
	struct vg_graph *graph = bench_run(&bench);
	OK(vg_graph_set_memset(graph, set, MEMSET(.destination = word, .value = 2, .element_size = 4, .width = 1)));
	OK(vg_graph_set_memcpy(graph, copy, MEMCPY(.destination = word + 4, .source = ADDRESS(&other), .bytes = 4)));
	where = &out;
	OK(vg_graph_set_callback(graph, call, count, &where, sizeof where));
	OK(vg_graph_set_callback(graph, call, count, &where, sizeof where));
	launch_and_wait(&bench, graph);
	read_words(bench.context, seen, word, 8);
	CHECK(seen[0] == 2 && seen[1] == 6);
	CHECK(ran == 1 && out == 1);
	OK(vg_graph_node_get_memset(set, &read));
	CHECK_INT(read.value, 1); // the definition is unchanged
	OK(vg_graph_is_enabled(graph, set, &enabled));
	CHECK_INT(enabled, 1);
	OK(vg_graph_set_enabled(graph, set, 0));
	OK(vg_graph_is_enabled(graph, set, &enabled));
	CHECK_INT(enabled, 0);
	OK(vg_graph_set_memset(graph, set, MEMSET(.destination = word, .value = 3, .element_size = 4, .width = 1)));
	launch_and_wait(&bench, graph);
	read_words(bench.context, seen, word, 8);
	CHECK_INT(seen[0], 2);
	REFUSED(vg_graph_set_enabled(graph, call, 0), VG_DRIVER, "a host node: kernel, memset and memcpy nodes");
	REFUSED(vg_graph_set_memset(graph, copy, MEMSET(.destination = word, .width = 1)), VG_INVALID,
		"is of kind memcpy");
	struct vg_graph_definition *elsewhere;
	struct vg_graph_node *stranger;
	OK(vg_graph_definition_create(bench.context, &elsewhere));
	OK(vg_graph_add_callback(elsewhere, NULL, 0, count, &where, sizeof where, &stranger));
	REFUSED(vg_graph_set_callback(graph, stranger, count, &where, sizeof where), VG_DRIVER,
		"the node must be of the definition that the graph was made from");
	vg_graph_definition_destroy(elsewhere);
	vg_graph_destroy(graph);
	free_words(bench.context, word);
	bench_close(&bench);
}

TEST(child_graphs_of_an_executable_are_replaced)
{
	struct bench bench = bench_open();
	struct vg_graph_definition *child, *larger;
	int first = 0, second = 0, *where = &first;
	struct vg_graph_node *node;

	OK(vg_graph_definition_create(bench.context, &child));
	OK(vg_graph_add_callback(child, NULL, 0, count, &where, 0, NULL));
	OK(vg_graph_add_child(bench.definition, NULL, 0, child, &node));
	vg_graph_definition_destroy(child);
	struct vg_graph *graph = bench_run(&bench);
	int *other = &second;
	OK(vg_graph_definition_create(bench.context, &child));
	OK(vg_graph_add_callback(child, NULL, 0, count, &other, 0, NULL));
	OK(vg_graph_set_child(graph, node, child));
	vg_graph_definition_destroy(child);
	launch_and_wait(&bench, graph);
	CHECK(first == 1 && second == 1);
	OK(vg_graph_definition_create(bench.context, &larger));
	REFUSED(vg_graph_set_child(graph, node, larger), VG_DRIVER, "must have the same nodes and edges");
	vg_graph_definition_destroy(larger);
	vg_graph_destroy(graph);
	bench_close(&bench);
}

// ---- kernels --------------------------------------------------------------------------------

TEST(kernel_nodes_run_and_return_their_kernel)
{
	struct bench bench = bench_open();
	vg_address word = words(bench.context, sizeof(int));
	struct vg_kernel *affine = kernel_of(&bench, "affine"), *add = kernel_of(&bench, "add_one"), *read;
	struct vg_launch_config config;
	struct vg_graph_node *node;
	struct CUkern_st *handle;
	int m = 2, b = 3, value;

	OK(vg_graph_add_kernel(
		bench.definition, NULL, 0,
		KERNEL(affine, CONFIG(2, 4, .shared_memory = 64), VG_ARGUMENT(word), VG_ARGUMENT(m), VG_ARGUMENT(b)),
		&node));
	OK(vg_graph_node_get_kernel(node, &read, &handle));
	CHECK(read == affine && handle == vg_kernel_handle(affine));
	OK(vg_graph_node_get_launch_config(node, &config));
	CHECK(config.grid[0] == 2 && config.grid[1] == 1 && config.block[0] == 4 && config.shared_memory == 64);
	CHECK(config.cluster[0] == 0 && !config.cooperative);
	m = 0; // copied
	OK(vg_graph_node_set_kernel(node,
				    KERNEL(affine, CONFIG(1, 1), VG_ARGUMENT(word), VG_ARGUMENT(m), VG_ARGUMENT(b))));
	struct vg_graph *graph = bench_run(&bench);
	read_words(bench.context, &value, word, sizeof value);
	CHECK_INT(value, 3);
	OK(vg_graph_set_kernel(graph, node, KERNEL(add, CONFIG(1, 5), VG_ARGUMENT(word))));
	vg_kernel_destroy(add); // the executable graph keeps the kernel
	launch_and_wait(&bench, graph);
	read_words(bench.context, &value, word, sizeof value);
	CHECK_INT(value, 8);
	OK(vg_graph_node_get_kernel(node, &read, NULL));
	CHECK(read == affine);
	vg_kernel_destroy(affine);
	vg_object_code_destroy(bench.code);
	bench.code = NULL;
	launch_and_wait(&bench, graph);
	vg_graph_destroy(graph);
	graph = bench_run(&bench); // the definition keeps the kernel, too
	read_words(bench.context, &value, word, sizeof value);
	CHECK_INT(value, 3);
	vg_graph_destroy(graph);
	free_words(bench.context, word);
	bench_close(&bench);
}

TEST(kernel_nodes_are_checked_before_they_are_added)
{
	struct bench bench = bench_open();
	struct vg_graph_definition *d = bench.definition;
	vg_address word = words(bench.context, sizeof(int));
	struct vg_kernel *add = kernel_of(&bench, "add_one");
	short narrow = 0;
	size_t found;

	REFUSED(vg_graph_add_kernel(d, NULL, 0, KERNEL(add, CONFIG(1, 1), VG_ARGUMENT(narrow)), NULL), VG_INVALID,
		"has 2 bytes: the kernel takes 8");
	REFUSED(vg_graph_add_kernel(d, NULL, 0, KERNEL(add, CONFIG(1, 1), VG_ARGUMENT(word), VG_ARGUMENT(word)), NULL),
		VG_INVALID, "2 arguments for kernel");
	REFUSED(vg_graph_add_kernel(d, NULL, 0, KERNEL(add, CONFIG(0, 1), VG_ARGUMENT(word)), NULL), VG_INVALID,
		"grid is 0");
	REFUSED(vg_graph_add_kernel(d, NULL, 0, KERNEL(add, NULL, VG_ARGUMENT(word)), NULL), VG_INVALID,
		"config is NULL");
	REFUSED(vg_graph_add_kernel(d, NULL, 0, KERNEL(NULL, CONFIG(1, 1), VG_ARGUMENT(word)), NULL), VG_INVALID,
		"kernel is NULL");
	REFUSED(vg_graph_add_kernel(d, NULL, 0, NULL, NULL), VG_INVALID, "kernel is NULL");
	REFUSED(vg_graph_add_kernel(d, NULL, 0, KERNEL(add, CONFIG(1 << 30, 1, .cooperative = 1), VG_ARGUMENT(word)),
				    NULL),
		VG_LIMIT, "a cooperative grid");
	REFUSED(vg_graph_add_kernel(
			d, NULL, 0,
			KERNEL(add, CONFIG(1, 1, .programmatic_stream_serialization = 1), VG_ARGUMENT(word)), NULL),
		VG_UNSUPPORTED, "a graph's nodes have edges");
	REFUSED(vg_graph_add_kernel(d, NULL, 0, KERNEL(add, CONFIG(1, 5000), VG_ARGUMENT(word)), NULL), VG_INVALID,
		"a block of 5000");
	OK(vg_graph_definition_nodes(d, NULL, 0, &found));
	CHECK_INT(found, 0);
	OK(vg_kernel_close(add));
	REFUSED(vg_graph_add_kernel(d, NULL, 0, KERNEL(add, CONFIG(1, 1), VG_ARGUMENT(word)), NULL), VG_CLOSED,
		"the kernel has been closed");
	vg_kernel_destroy(add);
	free_words(bench.context, word);
	bench_close(&bench);
}

TEST(kernel_nodes_have_cluster_and_cooperative_attributes)
{
	struct bench bench = bench_open();
	vg_address word = words(bench.context, sizeof(int));
	struct vg_kernel *add = kernel_of(&bench, "add_one");
	struct vg_launch_config config;
	struct vg_graph_node *node;
	int value;

	OK(vg_graph_add_kernel(bench.definition, NULL, 0,
			       KERNEL(add, CONFIG(3, 2, .cooperative = 1), VG_ARGUMENT(word)), &node));
	OK(vg_graph_node_get_launch_config(node, &config));
	CHECK_INT(config.cooperative, 1);
	REFUSED(vg_graph_node_set_kernel(node, KERNEL(add, CONFIG(3, 2), VG_ARGUMENT(word))), VG_UNSUPPORTED,
		"is cooperative, which stay");
	struct vg_graph *graph = bench_run(&bench);
	REFUSED(vg_graph_set_kernel(graph, node, KERNEL(add, CONFIG(3, 2), VG_ARGUMENT(word))), VG_UNSUPPORTED,
		"is cooperative");
	read_words(bench.context, &value, word, sizeof value);
	CHECK_INT(value, 6);
	vg_graph_destroy(graph);
	vg_kernel_destroy(add);
	free_words(bench.context, word);
	bench_close(&bench);
}

TEST(a_grid_of_clusters_counts_clusters)
{
	struct bench bench = bench_open();
	vg_address word = words(bench.context, sizeof(int));
	struct vg_kernel *add = kernel_of(&bench, "add_one");
	struct vg_launch_config config;
	struct vg_graph_node *node;
	int value;

	// A cluster of one block works on every device.
	OK(vg_graph_add_kernel(bench.definition, NULL, 0, KERNEL(add, CONFIG(3, 1, .cluster = {1}), VG_ARGUMENT(word)),
			       &node));
	OK(vg_graph_node_get_launch_config(node, &config));
	CHECK_INT(config.grid[0], 3);
	vg_graph_destroy(bench_run(&bench));
	enum vg_status status = vg_graph_add_kernel(
		bench.definition, NULL, 0, KERNEL(add, CONFIG(3, 1, .cluster = {2}), VG_ARGUMENT(word)), &node);
	if (status == VG_OK) {
		OK(vg_graph_node_get_launch_config(node, &config));
		CHECK(config.grid[0] == 3 && config.cluster[0] == 2);
		struct vg_graph *graph;
		status = vg_graph_definition_instantiate(bench.definition, NULL, &graph);
		if (status == VG_OK) {
			launch_and_wait(&bench, graph);
			read_words(bench.context, &value, word, sizeof value);
			CHECK_INT(value, 3 + 3 + 6);
			vg_graph_destroy(graph);
		}
	}
	char why[512];
	snprintf(why, sizeof why, "clusters of 2 blocks do not run here: %s", vg_last_error()->text);
	vg_kernel_destroy(add);
	free_words(bench.context, word);
	bench_close(&bench);
	if (status)
		SKIP("%s", why);
}

TEST(dot_files_with_every_flag)
{
	struct bench bench = bench_open();
	char path[64], line[256];
	int lines[2] = {0};

	snprintf(path, sizeof path, "/tmp/graph-%d.dot", getpid());
	vg_address word = words(bench.context, 1);
	OK(vg_graph_add_memset(bench.definition, NULL, 0, MEMSET(.destination = word, .width = 1), NULL));
	for (unsigned flag = 0; flag <= 16; flag++) {
		struct vg_graph_dot_options options = {.size = sizeof options};
		int *fields = &options.verbose;
		if (flag < 16)
			fields[flag] = 1;
		OK(vg_graph_definition_dot(bench.definition, path, flag < 16 ? &options : NULL));
		FILE *file = fopen(path, "r");
		CHECK(file != NULL);
		CHECK(fgets(line, sizeof line, file) != NULL);
		CHECK_CONTAINS(line, "digraph");
		size_t length = strlen(line);
		while (fgets(line, sizeof line, file))
			length += strlen(line);
		fclose(file);
		if (flag == 0 || flag == 16)
			lines[flag == 16] = (int)length;
	}
	CHECK(lines[0] > lines[1]); // a verbose drawing has more lines
	remove(path);
	free_words(bench.context, word);
	REFUSED(vg_graph_definition_dot(bench.definition, NULL, NULL), VG_INVALID, "path is NULL");
	REFUSED(vg_graph_definition_dot(bench.definition, "/nowhere/graph.dot", NULL), VG_DRIVER,
		"to /nowhere/graph.dot");
	bench_close(&bench);
}
