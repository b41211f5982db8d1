// Tests node objects, and edges.
#include "graph_test.h"

TEST(every_node_has_one_object)
{
	struct bench bench = bench_open();
	struct vg_graph_definition *definition = bench.definition;
	struct vg_graph_node *first, *second, *nodes[2];
	struct vg_graph_edge edge;
	size_t found;

	CHECK(vg_graph_definition_context(definition) == bench.context && !vg_graph_definition_context(NULL));
	OK(vg_graph_add_empty(definition, NULL, 0, &first));
	OK(vg_graph_add_empty(definition, &first, 1, &second));
	OK(vg_graph_definition_nodes(definition, NULL, 0, &found));
	CHECK_INT(found, 2);
	OK(vg_graph_definition_nodes(definition, nodes, 2, &found));
	CHECK((nodes[0] == first && nodes[1] == second) || (nodes[0] == second && nodes[1] == first));
	OK(vg_graph_definition_edges(definition, &edge, 1, &found));
	CHECK_INT(found, 1);
	CHECK(edge.from == first && edge.to == second);
	OK(vg_graph_node_predecessors(second, nodes, 2, &found));
	CHECK(found == 1 && nodes[0] == first);
	OK(vg_graph_node_successors(first, nodes, 2, &found));
	CHECK(found == 1 && nodes[0] == second);
	nodes[0] = NULL;
	REFUSED(vg_graph_definition_nodes(definition, nodes, 1, &found), VG_LIMIT, "there are 2 nodes, and room for 1");
	CHECK(nodes[0] == NULL);
	bench_close(&bench);
}

TEST(lists_of_large_graphs_are_complete)
{
	enum { MANY = 1000 };
	struct bench bench = bench_open();
	struct vg_graph_node *root, *join, *middle[MANY], *listed[MANY + 2];
	static struct vg_graph_edge edges[2 * MANY];
	size_t found;

	OK(vg_graph_add_empty(bench.definition, NULL, 0, &root));
	for (int i = 0; i < MANY; i++)
		OK(vg_graph_add_empty(bench.definition, &root, 1, &middle[i]));
	OK(vg_graph_add_empty(bench.definition, middle, MANY, &join));
	OK(vg_graph_definition_nodes(bench.definition, listed, MANY + 2, &found));
	CHECK_INT(found, MANY + 2);
	OK(vg_graph_definition_edges(bench.definition, edges, 2 * MANY, &found));
	CHECK_INT(found, 2 * MANY);
	OK(vg_graph_node_successors(root, listed, MANY, &found));
	CHECK_INT(found, MANY);
	OK(vg_graph_node_predecessors(join, listed, MANY, &found));
	CHECK_INT(found, MANY);
	for (int i = 0; i < MANY; i++)
		CHECK(vg_graph_node_definition(listed[i]) == bench.definition);
	REFUSED(vg_graph_node_predecessors(join, listed, MANY - 1, &found), VG_LIMIT,
		"there are 1000 nodes, and room for 999");
	vg_graph_destroy(bench_run(&bench));
	bench_close(&bench);
}

TEST(edges_are_added_removed_and_assigned)
{
	struct bench bench = bench_open();
	struct vg_graph_node *a, *b, *c, *d, *found[4];
	size_t count;

	OK(vg_graph_add_empty(bench.definition, NULL, 0, &a));
	OK(vg_graph_add_empty(bench.definition, NULL, 0, &b));
	OK(vg_graph_add_empty(bench.definition, NULL, 0, &c));
	OK(vg_graph_add_empty(bench.definition, NULL, 0, &d));
	OK(vg_graph_edge_add(a, d));
	OK(vg_graph_edge_add(a, d)); // adding an edge twice has no effect
	OK(vg_graph_node_predecessors(d, found, 4, &count));
	CHECK(count == 1 && found[0] == a);
	OK(vg_graph_node_set_predecessors(d, (struct vg_graph_node *[]){b, c}, 2));
	OK(vg_graph_node_predecessors(d, found, 4, &count));
	CHECK_INT(count, 2);
	CHECK((found[0] == b && found[1] == c) || (found[0] == c && found[1] == b));
	// one of the edges exists already, and stays
	OK(vg_graph_node_set_predecessors(d, (struct vg_graph_node *[]){a, c}, 2));
	OK(vg_graph_node_predecessors(d, found, 4, &count));
	CHECK_INT(count, 2);
	OK(vg_graph_edge_remove(a, d));
	OK(vg_graph_edge_remove(a, d)); // removing an edge that does not exist succeeds
	OK(vg_graph_node_set_successors(b, (struct vg_graph_node *[]){a, c, d}, 3));
	OK(vg_graph_node_successors(b, found, 4, &count));
	CHECK_INT(count, 3);
	OK(vg_graph_node_set_successors(b, NULL, 0));
	OK(vg_graph_node_successors(b, found, 4, &count));
	CHECK_INT(count, 0);
	OK(vg_graph_node_predecessors(d, found, 4, &count));
	CHECK(count == 1 && found[0] == c);
	bench_close(&bench);
}

TEST(invalid_edges_are_refused)
{
	struct bench bench = bench_open();
	struct vg_graph_definition *other;
	struct vg_graph_node *a, *b, *stranger, *found[2];
	size_t count;

	OK(vg_graph_definition_create(bench.context, &other));
	OK(vg_graph_add_empty(bench.definition, NULL, 0, &a));
	OK(vg_graph_add_empty(bench.definition, &a, 1, &b));
	OK(vg_graph_add_empty(other, NULL, 0, &stranger));
	REFUSED(vg_graph_edge_add(a, a), VG_INVALID, "a node cannot wait for itself");
	REFUSED(vg_graph_edge_add(a, stranger), VG_INVALID, "belong to different graph definitions");
	REFUSED(vg_graph_edge_add(a, NULL), VG_INVALID, "to is NULL");
	REFUSED(vg_graph_node_set_predecessors(b, (struct vg_graph_node *[]){a, stranger}, 2), VG_INVALID,
		"node 1 of the list belongs to another");
	REFUSED(vg_graph_node_set_predecessors(b, (struct vg_graph_node *[]){b}, 1), VG_INVALID, "wait for itself");
	REFUSED(vg_graph_node_set_predecessors(b, NULL, 1), VG_INVALID, "nodes is NULL, and count is 1");
	REFUSED(vg_graph_add_empty(bench.definition, (struct vg_graph_node *[]){a, a}, 2, NULL), VG_INVALID,
		"was named before");
	REFUSED(vg_graph_add_empty(bench.definition, &stranger, 1, NULL), VG_INVALID, "belongs to another");
	REFUSED(vg_graph_add_empty(bench.definition, NULL, 2, NULL), VG_INVALID, "after is NULL, and count is 2");
	REFUSED(vg_graph_add_empty(NULL, NULL, 0, NULL), VG_INVALID, "definition is NULL");
	OK(vg_graph_node_predecessors(b, found, 2, &count));
	CHECK(count == 1 && found[0] == a);
	vg_graph_definition_destroy(other);
	bench_close(&bench);
}

TEST(removing_a_node_removes_its_edges)
{
	struct bench bench = bench_open();
	struct vg_graph_node *a, *b, *found[1];
	size_t count;

	OK(vg_graph_add_empty(bench.definition, NULL, 0, &a));
	OK(vg_graph_add_empty(bench.definition, &a, 1, &b));
	OK(vg_graph_node_remove(a));
	OK(vg_graph_node_remove(a));
	CHECK_INT(vg_graph_node_is_valid(a), 0);
	CHECK(vg_graph_node_handle(a) == NULL);
	CHECK_INT(vg_graph_node_type(a), VG_GRAPH_NODE_EMPTY);
	REFUSED(vg_graph_edge_add(a, b), VG_CLOSED, "the graph node has been removed");
	REFUSED(vg_graph_node_successors(a, found, 1, &count), VG_CLOSED, "the graph node has been removed");
	REFUSED(vg_graph_add_empty(bench.definition, &a, 1, NULL), VG_CLOSED, "the graph node has been removed");
	OK(vg_graph_node_predecessors(b, found, 1, &count));
	CHECK_INT(count, 0);
	OK(vg_graph_definition_close(bench.definition));
	OK(vg_graph_definition_close(bench.definition));
	CHECK_INT(vg_graph_node_is_valid(b), 0);
	REFUSED(vg_graph_node_predecessors(b, found, 1, &count), VG_CLOSED, "the graph definition has been closed");
	REFUSED(vg_graph_add_empty(bench.definition, NULL, 0, NULL), VG_CLOSED, "the graph definition has been closed");
	OK(vg_graph_node_remove(b));
	CHECK(vg_graph_definition_handle(bench.definition) == NULL);
	bench_close(&bench);
}

TEST(a_cycle_fails_the_instantiation)
{
	struct bench bench = bench_open();
	struct vg_graph_node *a, *b;
	struct vg_graph *graph;

	OK(vg_graph_add_empty(bench.definition, NULL, 0, &a));
	OK(vg_graph_add_empty(bench.definition, &a, 1, &b));
	OK(vg_graph_edge_add(b, a));
	REFUSED(vg_graph_definition_instantiate(bench.definition, NULL, &graph), VG_DRIVER,
		"invalid structure, such as cycles");
	bench_close(&bench);
}
