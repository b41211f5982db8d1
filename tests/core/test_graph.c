#include "core_test.h"

static void count(void *data)
{
	++**(int **)data;
}

TEST(a_captured_callback_runs_at_each_launch)
{
	struct vg_context *context = first_context();
	struct vg_graph_builder *builder;
	struct vg_stream *stream;
	struct vg_graph *graph;
	int ran = 0, *where = &ran, building = -1;

	OK(vg_graph_builder_create(context, &builder));
	OK(vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_RELAXED));
	OK(vg_graph_builder_is_building(builder, &building));
	CHECK_INT(building, 1);
	OK(vg_graph_builder_callback(builder, count, &where, sizeof where));
	where = NULL; // it was copied
	OK(vg_graph_builder_end(builder));
	OK(vg_graph_builder_is_building(builder, &building));
	CHECK_INT(building, 0);
	OK(vg_graph_builder_complete(builder, NULL, &graph));
	vg_graph_builder_destroy(builder);
	OK(vg_stream_create(context, NULL, &stream));
	for (int i = 0; i < 3; i++)
		OK(vg_graph_launch(graph, stream));
	OK(vg_stream_sync(stream));
	CHECK_INT(ran, 3);
	vg_graph_destroy(graph);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
}

TEST(nodes_are_the_same_objects_however_found)
{
	struct vg_context *context = first_context();
	struct vg_graph_definition *definition;
	struct vg_graph_node *first, *second, *nodes[2];
	struct vg_graph_edge edge;
	size_t found;

	OK(vg_graph_definition_create(context, &definition));
	OK(vg_graph_add_empty(definition, NULL, 0, &first));
	OK(vg_graph_add_empty(definition, &first, 1, &second));
	OK(vg_graph_definition_nodes(definition, NULL, 0, &found));
	CHECK_INT(found, 2);
	OK(vg_graph_definition_nodes(definition, nodes, 2, &found));
	CHECK((nodes[0] == first && nodes[1] == second) || (nodes[0] == second && nodes[1] == first));
	OK(vg_graph_definition_edges(definition, &edge, 1, &found));
	CHECK_INT(found, 1);
	CHECK(edge.from == first && edge.to == second);
	REFUSED(vg_graph_definition_nodes(definition, nodes, 1, &found), VG_LIMIT, "there are 2 nodes, and room for 1");
	vg_graph_definition_destroy(definition);
	vg_context_destroy(context);
}
