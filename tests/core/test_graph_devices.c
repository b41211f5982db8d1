// Tests graphs on a machine with two devices.
#include "graph_test.h"

static struct bench second_bench(void)
{
	struct vg_device *device;
	struct bench bench = {0};
	int count;

	OK(vg_device_count(&count));
	if (count < 2)
		SKIP("needs 2 devices, there is %d", count);
	OK(vg_device_get(1, &device));
	OK(vg_context_primary(device, &bench.context));
	OK(vg_stream_create(bench.context, NULL, &bench.stream));
	OK(vg_graph_definition_create(bench.context, &bench.definition));
	return bench;
}

TEST(a_definition_has_its_own_device)
{
	struct bench bench = second_bench();
	struct vg_graph_allocation read;
	struct vg_graph_node *node;
	struct CUctx_st *before;
	vg_address address;
	size_t peers;

	// Makes the context of device 0 current. The definition must still allocate on its own device, device 1.
	struct vg_context *first = first_context();
	OK(vg_context_set_current(first, NULL));
	OK(vg_graph_add_allocation(bench.definition, NULL, 0, ALLOCATION(.bytes = 64), &address, &node));
	OK(vg_graph_node_get_allocation(node, &read, NULL));
	CHECK_INT(vg_device_ordinal(read.device), 1);
	OK(vg_graph_add_free(bench.definition, &node, 1, address, NULL));
	vg_graph_destroy(bench_run(&bench));
	OK(vg_context_set_current(NULL, &before));
	CHECK(before == vg_context_handle(first));

	// Makes a definition on device 0, which allocates memory on device 1, and memory that both devices can access.
	OK(vg_graph_definition_close(bench.definition));
	vg_graph_definition_destroy(bench.definition);
	OK(vg_graph_definition_create(first, &bench.definition));
	struct vg_device *devices[2] = {vg_context_device(first), vg_context_device(bench.context)}, *found[2];
	OK(vg_graph_add_allocation(bench.definition, NULL, 0, ALLOCATION(.bytes = 64, .device = devices[1]), &address,
				   &node));
	OK(vg_graph_node_get_allocation(node, &read, NULL));
	CHECK(read.device == devices[1]);
	int can;
	OK(vg_device_can_access_peer(devices[1], devices[0], &can));
	if (can) {
		OK(vg_graph_add_allocation(bench.definition, NULL, 0,
					   ALLOCATION(.bytes = 64, .peers = &devices[1], .peer_count = 1), &address,
					   &node));
		OK(vg_graph_node_get_peers(node, found, 2, &peers));
		CHECK_INT(peers, 1);
		CHECK(found[0] == devices[1]);
	}
	REFUSED(vg_graph_add_allocation(bench.definition, NULL, 0,
					ALLOCATION(.bytes = 64, .peers = (struct vg_device *[]){NULL}, .peer_count = 1),
					&address, NULL),
		VG_INVALID, "peer 0 is NULL");
	vg_context_destroy(first);
	bench_close(&bench);
}

TEST(kernels_of_a_captured_graph_run_on_the_builder_s_device)
{
	struct bench bench = second_bench();
	vg_address word = words(bench.context, sizeof(int));
	struct vg_kernel *kernel = kernel_of(&bench, "add_one");
	struct vg_graph_builder *builder = begin_builder(&bench);
	int value;

	OK(vg_launch(vg_graph_builder_stream(builder), CONFIG(1, 2), kernel, VG_ARGUMENTS(word)));
	OK(vg_graph_builder_end(builder));
	struct vg_graph *graph = builder_run(&bench, builder);
	vg_graph_builder_destroy(builder);
	read_words(bench.context, &value, word, sizeof value);
	CHECK_INT(value, 2);
	vg_graph_destroy(graph);
	vg_kernel_destroy(kernel);
	free_words(bench.context, word);
	bench_close(&bench);
}
