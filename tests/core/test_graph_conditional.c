// Tests conditional nodes, captured and added. Their bodies run only if kernels can run.
#include "graph_test.h"

#define CONDITION(...)                                                         \
	&(struct vg_graph_condition_options)                                   \
	{                                                                      \
		.size = sizeof(struct vg_graph_condition_options), __VA_ARGS__ \
	}

struct words {
	vg_address address;
	int values[4];
};

static void read_all(struct bench *bench, struct words *words)
{
	read_words(bench->context, words->values, words->address, sizeof words->values);
}

static void launch_and_read(struct bench *bench, struct vg_graph *graph, struct words *words)
{
	launch_and_wait(bench, graph);
	read_all(bench, words);
}

static void add_to(struct bench *bench, struct vg_graph_definition *body, struct vg_kernel *kernel, vg_address word)
{
	OK(vg_graph_add_kernel(body, NULL, 0, KERNEL(kernel, CONFIG(1, 1), VG_ARGUMENT(word)), NULL));
}

static void add_set_condition(struct vg_graph_definition *definition, struct vg_kernel *kernel,
			      struct vg_graph_condition condition, unsigned value, struct vg_graph_node **ret_node)
{
	OK(vg_graph_add_kernel(definition, NULL, 0,
			       KERNEL(kernel, CONFIG(1, 1), VG_ARGUMENT(condition), VG_ARGUMENT(value)), ret_node));
}

TEST(if_runs_one_body_or_the_other)
{
	struct bench bench = bench_open();
	struct words w = {words(bench.context, sizeof w.values), {0}};
	struct vg_kernel *set = kernel_of(&bench, "set_condition"), *add = kernel_of(&bench, "add_one");
	struct vg_graph_definition *body;
	struct vg_graph_condition condition, read;
	enum vg_graph_conditional_type type;
	struct vg_graph_node *first, *node;
	unsigned branches;

	OK(vg_graph_definition_create_condition(bench.definition, NULL, &condition));
	add_set_condition(bench.definition, set, condition, 1, &first);
	OK(vg_graph_add_if_else(bench.definition, &first, 1, condition, &node));
	CHECK_INT(vg_graph_node_type(node), VG_GRAPH_NODE_CONDITIONAL);
	OK(vg_graph_node_get_conditional(node, &read, &type, &branches));
	CHECK(read.handle == condition.handle);
	CHECK_INT(type, VG_GRAPH_IF);
	CHECK_INT(branches, 2);
	for (unsigned i = 0; i < 2; i++) {
		OK(vg_graph_node_get_body(node, i, &body));
		add_to(&bench, body, add, w.address + 4 * i);
	}
	REFUSED(vg_graph_node_get_body(node, 2, &body), VG_INVALID, "branch 2: the if node has 2");
	vg_graph_destroy(bench_run(&bench));
	read_all(&bench, &w);
	CHECK(w.values[0] == 1 && w.values[1] == 0);
	unsigned zero = 0;
	OK(vg_graph_node_set_kernel(first, KERNEL(set, CONFIG(1, 1), VG_ARGUMENT(condition), VG_ARGUMENT(zero))));
	vg_graph_destroy(bench_run(&bench));
	read_all(&bench, &w);
	CHECK(w.values[0] == 1 && w.values[1] == 1);
	vg_kernel_destroy(set);
	vg_kernel_destroy(add);
	free_words(bench.context, w.address);
	bench_close(&bench);
}

TEST(while_runs_its_body_until_the_condition_is_0)
{
	struct bench bench = bench_open();
	struct words w = {words(bench.context, sizeof w.values), {0}};
	struct vg_kernel *down = kernel_of(&bench, "count_down"), *affine = kernel_of(&bench, "affine");
	struct vg_graph_definition *body;
	struct vg_graph_condition condition;
	struct vg_graph_node *start, *loop;
	int m = 0, b = 5;

	OK(vg_graph_definition_create_condition(bench.definition, CONDITION(.assign_default = 1, .default_value = 1),
						&condition));
	OK(vg_graph_add_kernel(bench.definition, NULL, 0,
			       KERNEL(affine, CONFIG(1, 1), VG_ARGUMENT(w.address), VG_ARGUMENT(m), VG_ARGUMENT(b)),
			       &start));
	OK(vg_graph_add_while_loop(bench.definition, &start, 1, condition, &loop));
	OK(vg_graph_node_get_body(loop, 0, &body));
	vg_address other = w.address + 4;
	struct vg_graph_node *step;
	m = 1, b = 1;
	OK(vg_graph_add_kernel(body, NULL, 0,
			       KERNEL(affine, CONFIG(1, 1), VG_ARGUMENT(other), VG_ARGUMENT(m), VG_ARGUMENT(b)),
			       &step));
	OK(vg_graph_add_kernel(body, &step, 1,
			       KERNEL(down, CONFIG(1, 1), VG_ARGUMENT(condition), VG_ARGUMENT(w.address)), NULL));
	struct vg_graph *graph = bench_run(&bench);
	read_all(&bench, &w);
	CHECK(w.values[0] == 0 && w.values[1] == 5);
	launch_and_wait(&bench, graph); // the condition has its default again
	read_all(&bench, &w);
	CHECK_INT(w.values[1], 10);
	vg_graph_destroy(graph);
	vg_kernel_destroy(down);
	vg_kernel_destroy(affine);
	free_words(bench.context, w.address);
	bench_close(&bench);
}

TEST(switch_runs_the_branch_of_that_number_or_none)
{
	struct bench bench = bench_open();
	struct words w = {words(bench.context, sizeof w.values), {0}};
	struct vg_kernel *set = kernel_of(&bench, "set_condition"), *add = kernel_of(&bench, "add_one");
	struct vg_graph_definition *body;
	struct vg_graph_condition condition;
	struct vg_graph_node *first, *node;

	OK(vg_graph_definition_create_condition(bench.definition, NULL, &condition));
	add_set_condition(bench.definition, set, condition, 2, &first);
	REFUSED(vg_graph_add_switch(bench.definition, &first, 1, condition, 0, &node), VG_INVALID,
		"a switch of 0 branches");
	REFUSED(vg_graph_add_switch(bench.definition, &first, 1, condition, 65537, &node), VG_INVALID,
		"a switch of 65537 branches: this library makes up to 65536");
	OK(vg_graph_add_switch(bench.definition, &first, 1, condition, 3, &node));
	for (unsigned i = 0; i < 3; i++) {
		OK(vg_graph_node_get_body(node, i, &body));
		add_to(&bench, body, add, w.address + 4 * i);
	}
	struct vg_graph *graph = bench_run(&bench);
	read_all(&bench, &w);
	CHECK(w.values[0] == 0 && w.values[1] == 0 && w.values[2] == 1);
	unsigned value = 9;
	OK(vg_graph_set_kernel(graph, first, KERNEL(set, CONFIG(1, 1), VG_ARGUMENT(condition), VG_ARGUMENT(value))));
	launch_and_wait(&bench, graph);
	read_all(&bench, &w);
	CHECK(w.values[0] == 0 && w.values[1] == 0 && w.values[2] == 1);
	vg_graph_destroy(graph);
	vg_kernel_destroy(set);
	vg_kernel_destroy(add);
	free_words(bench.context, w.address);
	bench_close(&bench);
}

TEST(a_condition_is_for_one_node_of_its_definition)
{
	struct bench bench = bench_open();
	struct vg_graph_condition condition, none = {0};
	struct vg_graph_definition *other;
	struct vg_graph_node *node = NULL;
	struct vg_graph *graph;
	char both[128];

	OK(vg_graph_definition_create(bench.context, &other));
	OK(vg_graph_definition_create_condition(bench.definition, NULL, &condition));
	snprintf(both, sizeof both, "of graph definition %p, and the node is of graph definition %p",
		 (void *)bench.definition, (void *)other);
	REFUSED(vg_graph_add_if_then(other, NULL, 0, condition, &node), VG_INVALID, both);
	REFUSED(vg_graph_add_if_then(bench.definition, NULL, 0, none, &node), VG_INVALID, "the condition is empty");
	CHECK(node == NULL);
	REFUSED(vg_graph_definition_instantiate(bench.definition, NULL, &graph), VG_DRIVER,
		"one or more conditions have no conditional node");
	OK(vg_graph_add_if_then(bench.definition, NULL, 0, condition, &node));
	REFUSED(vg_graph_add_while_loop(bench.definition, NULL, 0, condition, NULL), VG_DRIVER,
		"each condition is for one conditional node");
	OK(vg_graph_definition_instantiate(bench.definition, NULL, &graph));
	vg_graph_destroy(graph);
	struct vg_graph_definition *body;
	OK(vg_graph_node_get_body(node, 0, &body));
	REFUSED(vg_graph_definition_instantiate(body, NULL, &graph), VG_INVALID, "part of another");
	vg_graph_definition_destroy(other);
	OK(vg_graph_node_remove(node));
	REFUSED(vg_graph_add_empty(body, NULL, 0, NULL), VG_CLOSED, "went with its node");
	REFUSED(vg_graph_node_get_body(node, 0, &body), VG_CLOSED, "has been removed");
	bench_close(&bench);
}

// ---- captured bodies ----------------------------------------------------------------------

static void launch_on(struct vg_graph_builder *builder, struct vg_kernel *kernel, const struct vg_argument *arguments,
		      size_t count)
{
	OK(vg_launch(vg_graph_builder_stream(builder), CONFIG(1, 1), kernel, arguments, count));
}

TEST(builders_capture_bodies)
{
	struct bench bench = bench_open();
	struct words w = {words(bench.context, sizeof w.values), {0}};
	struct vg_kernel *set = kernel_of(&bench, "set_condition"), *add = kernel_of(&bench, "add_one");
	struct vg_graph_builder *builder, *then, *otherwise;
	struct vg_graph_definition *definition, *body, *same;
	struct vg_graph_condition condition;
	unsigned one = 1;
	vg_address second = w.address + 4, third = w.address + 8;
	struct vg_graph *graph;

	builder = begin_builder(&bench);
	OK(vg_graph_builder_create_condition(builder, NULL, &condition));
	launch_on(builder, set, VG_ARGUMENTS(condition, one));
	OK(vg_graph_builder_if_else(builder, condition, &then, &otherwise));
	// gets the definition of the body before the capture of the body begins
	OK(vg_graph_builder_definition(then, &body));
	OK(vg_graph_builder_begin(then, VG_GRAPH_CAPTURE_RELAXED));
	REFUSED(vg_graph_builder_definition(then, &same), VG_STATE, "is still building");
	launch_on(then, add, VG_ARGUMENTS(w.address));
	OK(vg_graph_builder_end(then));
	OK(vg_graph_builder_definition(then, &same));
	CHECK(same == body);
	REFUSED(vg_graph_builder_complete(then, NULL, &graph), VG_STATE, "fills a part of a graph");
	OK(vg_graph_builder_begin(otherwise, VG_GRAPH_CAPTURE_RELAXED));
	launch_on(otherwise, add, VG_ARGUMENTS(second));
	launch_on(builder, add, VG_ARGUMENTS(third)); // the kernel depends on the conditional node
	OK(vg_graph_builder_end(builder));
	REFUSED(vg_graph_builder_complete(builder, NULL, &graph), VG_STATE,
		"still being captured by 1 builder: end it first");
	OK(vg_graph_builder_end(otherwise));
	OK(vg_graph_builder_complete(builder, NULL, &graph));
	OK(vg_graph_builder_definition(builder, &definition));

	// The conditional node is one of the definition's nodes.
	struct vg_graph_node *nodes[3], *conditional = NULL;
	size_t found;
	OK(vg_graph_definition_nodes(definition, nodes, 3, &found));
	CHECK_INT(found, 3);
	for (int i = 0; i < 3; i++)
		if (vg_graph_node_type(nodes[i]) == VG_GRAPH_NODE_CONDITIONAL)
			conditional = nodes[i];
	OK(vg_graph_node_get_body(conditional, 0, &same));
	CHECK(same == body);
	vg_graph_builder_destroy(then);
	vg_graph_builder_destroy(otherwise);
	vg_graph_builder_destroy(builder);
	for (int i = 0; i < 3; i++) // the test has one reference to `definition`, and two to `body`
		vg_graph_definition_destroy(i ? body : definition);

	launch_and_read(&bench, graph, &w);
	CHECK(w.values[0] == 1 && w.values[1] == 0 && w.values[2] == 1);
	vg_graph_destroy(graph);
	vg_kernel_destroy(set);
	vg_kernel_destroy(add);
	free_words(bench.context, w.address);
	bench_close(&bench);
}

TEST(builders_capture_nested_loops_and_switches)
{
	struct bench bench = bench_open();
	struct words w = {words(bench.context, sizeof w.values), {0}};
	struct vg_kernel *set = kernel_of(&bench, "set_condition"), *add = kernel_of(&bench, "add_one"),
			 *down = kernel_of(&bench, "count_down"), *affine = kernel_of(&bench, "affine");
	struct vg_graph_builder *builder, *loop, *branches[3];
	struct vg_graph_condition again, which;
	vg_address first = w.address + 4, second = w.address + 8;
	int m = 0, b = 4;
	unsigned two = 2;
	struct vg_graph *graph;

	builder = begin_builder(&bench);
	launch_on(builder, affine, VG_ARGUMENTS(w.address, m, b));
	OK(vg_graph_builder_create_condition(builder, CONDITION(.assign_default = 1, .default_value = 1), &again));
	OK(vg_graph_builder_while_loop(builder, again, &loop));
	OK(vg_graph_builder_begin(loop, VG_GRAPH_CAPTURE_RELAXED));
	launch_on(loop, add, VG_ARGUMENTS(first));
	launch_on(loop, down, VG_ARGUMENTS(again, w.address));
	OK(vg_graph_builder_create_condition(loop, NULL, &which));
	launch_on(loop, set, VG_ARGUMENTS(which, two));
	OK(vg_graph_builder_switch(loop, which, 3, branches));
	OK(vg_graph_builder_begin(branches[2], VG_GRAPH_CAPTURE_RELAXED));
	launch_on(branches[2], add, VG_ARGUMENTS(second));
	OK(vg_graph_builder_end(branches[2]));
	OK(vg_graph_builder_end(loop));
	OK(vg_graph_builder_end(builder));
	OK(vg_graph_builder_complete(builder, NULL, &graph));
	vg_graph_builder_destroy(builder); // destroys the builder before its body, an unusual order
	for (int i = 0; i < 3; i++)
		vg_graph_builder_destroy(branches[i]);
	vg_graph_builder_destroy(loop);
	launch_and_read(&bench, graph, &w);
	CHECK(w.values[0] == 0 && w.values[1] == 4 && w.values[2] == 4);
	vg_graph_destroy(graph);
	vg_kernel_destroy(set);
	vg_kernel_destroy(add);
	vg_kernel_destroy(down);
	vg_kernel_destroy(affine);
	free_words(bench.context, w.address);
	bench_close(&bench);
}

// A forbidden call invalidates the capture of a body. The driver then destroys the body, which makes the whole graph
// invalid.
TEST(an_invalidated_body_destroys_the_whole_graph)
{
	struct bench bench = bench_open();
	struct vg_graph_builder *builder, *then, *otherwise;
	struct vg_graph_definition *definition;
	struct vg_graph_condition condition;
	struct vg_graph *graph;

	builder = begin_builder(&bench);
	OK(vg_graph_builder_create_condition(builder, NULL, &condition));
	OK(vg_graph_builder_if_else(builder, condition, &then, &otherwise));
	OK(vg_graph_builder_begin(then, VG_GRAPH_CAPTURE_RELAXED));
	CHECK_INT(vg_stream_sync(vg_graph_builder_stream(then)), VG_DRIVER);
	CHECK_INT(vg_graph_builder_end(then), VG_DRIVER);
	REFUSED(vg_graph_builder_begin(otherwise, VG_GRAPH_CAPTURE_RELAXED), VG_STATE, "build it again");
	REFUSED(vg_graph_builder_end(builder), VG_STATE, "build it again");
	REFUSED(vg_graph_builder_complete(builder, NULL, &graph), VG_STATE, "invalidated");
	REFUSED(vg_graph_builder_definition(builder, &definition), VG_STATE, "invalidated");
	OK(vg_graph_builder_close(then));
	OK(vg_graph_builder_close(otherwise));
	OK(vg_graph_builder_close(builder));
	vg_graph_builder_destroy(otherwise);
	vg_graph_builder_destroy(then);
	vg_graph_builder_destroy(builder);
	OK(vg_stream_sync(bench.stream));
	bench_close(&bench);
}

TEST(a_node_cannot_be_removed_during_a_capture_inside)
{
	struct bench bench = bench_open();
	struct vg_graph_definition *definition;
	struct vg_graph_builder *builder, *body;
	struct vg_graph_condition condition;
	struct vg_graph_node *node;
	size_t count;

	builder = begin_builder(&bench);
	OK(vg_graph_builder_create_condition(builder, NULL, &condition));
	OK(vg_graph_builder_if_then(builder, condition, &body));
	OK(vg_graph_builder_end(builder));
	OK(vg_graph_builder_definition(builder, &definition));
	OK(vg_graph_definition_nodes(definition, &node, 1, &count));
	OK(vg_graph_builder_begin(body, VG_GRAPH_CAPTURE_RELAXED));
	REFUSED(vg_graph_node_remove(node), VG_STATE, "a graph builder captures into a graph");
	OK(vg_graph_builder_end(body));
	OK(vg_graph_node_remove(node));
	vg_graph_definition_destroy(definition);
	vg_graph_builder_destroy(body);
	vg_graph_builder_destroy(builder);
	bench_close(&bench);
}

TEST(a_discarded_body_is_empty)
{
	struct bench bench = bench_open();
	struct words w = {words(bench.context, sizeof w.values), {0}};
	struct vg_kernel *add = kernel_of(&bench, "add_one");
	struct vg_graph_builder *builder, *body;
	struct vg_graph_condition condition;
	struct vg_graph *graph;

	builder = begin_builder(&bench);
	OK(vg_graph_builder_create_condition(builder, CONDITION(.assign_default = 1, .default_value = 1), &condition));
	OK(vg_graph_builder_if_then(builder, condition, &body));
	OK(vg_graph_builder_begin(body, VG_GRAPH_CAPTURE_RELAXED));
	launch_on(body, add, VG_ARGUMENTS(w.address));
	launch_on(body, add, VG_ARGUMENTS(w.address));
	OK(vg_graph_builder_close(body));
	OK(vg_graph_builder_end(builder));
	OK(vg_graph_builder_complete(builder, NULL, &graph));
	launch_and_read(&bench, graph, &w);
	CHECK_INT(w.values[0], 0);
	vg_graph_destroy(graph);
	vg_graph_builder_destroy(body);
	vg_graph_builder_destroy(builder);
	// Discards the whole graph while a body is being captured.
	builder = begin_builder(&bench);
	OK(vg_graph_builder_create_condition(builder, NULL, &condition));
	OK(vg_graph_builder_if_then(builder, condition, &body));
	OK(vg_graph_builder_begin(body, VG_GRAPH_CAPTURE_RELAXED));
	vg_graph_builder_destroy(builder);
	launch_on(body, add, VG_ARGUMENTS(w.address));
	OK(vg_graph_builder_end(body));
	vg_graph_builder_destroy(body);
	vg_kernel_destroy(add);
	free_words(bench.context, w.address);
	bench_close(&bench);
}
