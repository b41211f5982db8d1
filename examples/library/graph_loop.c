// Builds a graph from nodes: an allocation, and a loop on the device whose condition a kernel sets. Then one node of
// the executable graph is changed, and the graph runs again.
#include "check.h"

#include "graph_loop_ptx.h"

#include <string.h>

int main(void)
{
	struct vg_graph_definition *definition, *body;
	struct vg_graph_node *memory, *start, *loop, *read;
	struct vg_graph_condition again;
	struct vg_object_code *code;
	struct vg_context *context;
	struct vg_kernel *kernel;
	struct vg_stream *stream;
	struct vg_device *device;
	struct vg_graph *graph;
	vg_address value, steps;
	unsigned got[2], first;

	check(vg_device_get(0, &device));
	check(vg_context_primary(device, &context));
	check(vg_stream_create(context, NULL, &stream));
	check(vg_object_code_create(VG_CODE_PTX, graph_loop_ptx, strlen((const char *)graph_loop_ptx), NULL, &code));
	check(vg_object_code_kernel(code, "halve", &kernel));

	check(vg_graph_definition_create(context, &definition));
	struct vg_graph_allocation two_words = {.size = sizeof two_words, .bytes = sizeof got};
	check(vg_graph_add_allocation(definition, NULL, 0, &two_words, &value, &memory));
	steps = value + sizeof got[0];
	struct vg_graph_memset set = {
		.size = sizeof set, .destination = value, .value = 100, .element_size = 4, .width = 1};
	check(vg_graph_add_memset(definition, &memory, 1, &set, &start));
	struct vg_graph_memset clear = {.size = sizeof clear, .destination = steps, .element_size = 4, .width = 1};
	struct vg_graph_node *both[2] = {start};
	check(vg_graph_add_memset(definition, &memory, 1, &clear, &both[1]));

	struct vg_graph_condition_options go = {.size = sizeof go, .assign_default = 1, .default_value = 1};
	check(vg_graph_definition_create_condition(definition, &go, &again));
	check(vg_graph_add_while_loop(definition, both, 2, again, &loop));
	check(vg_graph_node_get_body(loop, 0, &body));
	struct vg_launch_config one = {.size = sizeof one, .grid = {1}, .block = {1}};
	struct vg_graph_kernel halve = {
		.size = sizeof halve, .kernel = kernel, .config = &one, .arguments = VG_ARGUMENTS(again, value, steps)};
	check(vg_graph_add_kernel(body, NULL, 0, &halve, NULL));

	struct vg_graph_memcpy fetch = {
		.size = sizeof fetch, .destination = (vg_address)(uintptr_t)got, .source = value, .bytes = sizeof got};
	check(vg_graph_add_memcpy(definition, &loop, 1, &fetch, &read));
	check(vg_graph_add_free(definition, &read, 1, value, NULL));
	check(vg_graph_definition_instantiate(definition, NULL, &graph));
	vg_kernel_destroy(kernel); // the graph has a reference
	vg_object_code_destroy(code);

	check(vg_graph_launch(graph, stream));
	check(vg_stream_sync(stream));
	printf("100 is halved to %u in %u steps\n", got[0], first = got[1]);
	set.value = 1000;
	check(vg_graph_set_memset(graph, start, &set));
	check(vg_graph_launch(graph, stream));
	check(vg_stream_sync(stream));
	vg_graph_destroy(graph);
	vg_graph_definition_destroy(definition);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
	printf("graph_loop: 1000 took %u steps, 100 took %u\n", got[1], first);
	return got[0] != 1 || got[1] != 10 || first != 7;
}
