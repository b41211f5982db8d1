// Tests graph definitions: what each kind of node does, and its parameters as read back.
#include "graph_test.h"

TEST(memory_is_allocated_set_copied_and_freed_by_nodes)
{
	struct bench bench = bench_open();
	unsigned host[8] = {0};
	struct vg_graph_node *allocated, *set, *copied;
	vg_address address, freed;

	OK(vg_graph_add_allocation(bench.definition, NULL, 0, ALLOCATION(.bytes = sizeof host), &address, &allocated));
	OK(vg_graph_add_memset(bench.definition, &allocated, 1,
			       MEMSET(.destination = address, .value = 0xabcd1234, .element_size = 4, .width = 8),
			       &set));
	OK(vg_graph_add_memcpy(bench.definition, &set, 1,
			       MEMCPY(.destination = ADDRESS(host), .source = address, .bytes = sizeof host), &copied));
	struct vg_graph_node *after;
	OK(vg_graph_add_free(bench.definition, &copied, 1, address, &after));
	OK(vg_graph_node_get_free(after, &freed));
	CHECK(freed == address);
	vg_graph_destroy(bench_run(&bench));
	for (int i = 0; i < 8; i++)
		CHECK_INT(host[i], 0xabcd1234);
	bench_close(&bench);
}

TEST(memset_parameters_are_read_back)
{
	struct bench bench = bench_open();
	vg_address address = words(bench.context, 256);
	struct vg_graph_memset read;
	struct vg_graph_node *node;

	OK(vg_graph_add_memset(bench.definition, NULL, 0,
			       MEMSET(.destination = address, .value = 0x1122, .element_size = 2, .width = 5,
				      .height = 3, .pitch = 16),
			       &node));
	CHECK_INT(vg_graph_node_type(node), VG_GRAPH_NODE_MEMSET);
	OK(vg_graph_node_get_memset(node, &read));
	CHECK(read.destination == address);
	CHECK_INT(read.value, 0x1122);
	CHECK_INT(read.element_size, 2);
	CHECK_INT(read.width, 5);
	CHECK_INT(read.height, 3);
	CHECK_INT(read.pitch, 16);
	CHECK(read.destination_buffer == NULL);
	vg_graph_destroy(bench_run(&bench));
	unsigned short seen[24];
	read_words(bench.context, seen, address, sizeof seen);
	for (int i = 0; i < 24; i++)
		CHECK_INT(seen[i], i % 8 < 5 ? 0x1122 : 0);
	OK(vg_graph_node_set_memset(node, MEMSET(.destination = address, .value = 7, .width = 48)));
	OK(vg_graph_node_get_memset(node, &read));
	CHECK_INT(read.element_size, 1);
	CHECK_INT(read.height, 1);
	vg_graph_destroy(bench_run(&bench));
	read_words(bench.context, seen, address, sizeof seen);
	CHECK_INT(seen[23], 0x0707);
	free_words(bench.context, address);
	bench_close(&bench);
}

TEST(invalid_memset_patterns_are_refused)
{
	struct bench bench = bench_open();
	struct vg_graph_definition *d = bench.definition;
	struct vg_graph_node *node = NULL;
	size_t count;

	REFUSED(vg_graph_add_memset(d, NULL, 0, MEMSET(.destination = 4096, .element_size = 3, .width = 1), &node),
		VG_INVALID, "elements of 3 bytes: they may have 1, 2 or 4");
	REFUSED(vg_graph_add_memset(d, NULL, 0, MEMSET(.destination = 4096, .value = 256, .width = 1), &node),
		VG_INVALID, "value 0x100 does not fit in an element of 1 byte");
	REFUSED(vg_graph_add_memset(d, NULL, 0,
				    MEMSET(.destination = 4096, .value = 0x10000, .element_size = 2, .width = 1),
				    &node),
		VG_INVALID, "does not fit in an element of 2 bytes");
	REFUSED(vg_graph_add_memset(d, NULL, 0, MEMSET(.destination = 4096), &node), VG_INVALID, "rows of 0 elements");
	REFUSED(vg_graph_add_memset(
			d, NULL, 0,
			MEMSET(.destination = 4096, .element_size = 4, .width = 4, .height = 2, .pitch = 15), &node),
		VG_INVALID, "a pitch of 15 bytes is less than a row: 4 elements of 4 bytes");
	REFUSED(vg_graph_add_memset(d, NULL, 0,
				    MEMSET(.destination = 4096, .element_size = 4, .width = SIZE_MAX / 2, .height = 2,
					   .pitch = SIZE_MAX),
				    &node),
		VG_INVALID, "is less than a row");
	REFUSED(vg_graph_add_memset(d, NULL, 0, NULL, &node), VG_INVALID, "memset is NULL");
	CHECK(node == NULL);
	OK(vg_graph_definition_nodes(d, NULL, 0, &count));
	CHECK_INT(count, 0);
	bench_close(&bench);
}

TEST(memcpy_nodes_detect_memory_types)
{
	struct bench bench = bench_open();
	vg_address device = words(bench.context, 64);
	int in[4] = {1, 2, 3, 4}, out[4] = {0};
	struct vg_graph_memcpy read;
	struct vg_graph_node *up, *down;

	OK(vg_graph_add_memcpy(bench.definition, NULL, 0,
			       MEMCPY(.destination = device, .source = ADDRESS(in), .bytes = sizeof in), &up));
	OK(vg_graph_add_memcpy(bench.definition, &up, 1,
			       MEMCPY(.destination = ADDRESS(out), .source = device, .bytes = sizeof in), &down));
	OK(vg_graph_node_get_memcpy(up, &read));
	CHECK(read.destination == device && read.source == ADDRESS(in));
	CHECK_INT(read.bytes, sizeof in);
	vg_graph_destroy(bench_run(&bench));
	CHECK_INT(out[3], 4);
	int other[4] = {5, 6, 7, 8};
	OK(vg_graph_node_set_memcpy(up,
				    MEMCPY(.destination = device, .source = ADDRESS(other), .bytes = sizeof other)));
	vg_graph_destroy(bench_run(&bench));
	CHECK_INT(out[3], 8);
	REFUSED(vg_graph_add_memcpy(bench.definition, NULL, 0, MEMCPY(.destination = device, .source = ADDRESS(in)),
				    NULL),
		VG_INVALID, "a copy of 0 bytes");
	REFUSED(vg_graph_add_memcpy(bench.definition, NULL, 0,
				    MEMCPY(.destination = device, .source = device, .bytes = SIZE_MAX), NULL),
		VG_DRIVER, "cuGraphAddNode");
	REFUSED(vg_graph_add_memcpy(bench.definition, NULL, 0, MEMCPY(.source = device, .bytes = 4), NULL), VG_INVALID,
		"destination is address 0");
	REFUSED(vg_graph_node_set_memset(up, MEMSET(.destination = device, .width = 1)), VG_INVALID,
		"the graph node is of kind memcpy: this is for memset nodes");
	free_words(bench.context, device);
	bench_close(&bench);
}

TEST(allocation_parameters_are_read_back)
{
	struct bench bench = bench_open();
	struct vg_graph_definition *d = bench.definition;
	struct vg_graph_allocation read;
	struct vg_graph_node *node;
	vg_address address, again;
	size_t count;

	OK(vg_graph_add_allocation(d, NULL, 0, ALLOCATION(.bytes = 1000), &address, &node));
	CHECK_INT(vg_graph_node_type(node), VG_GRAPH_NODE_ALLOCATION);
	OK(vg_graph_node_get_allocation(node, &read, &again));
	CHECK(again == address);
	CHECK_INT(read.bytes, 1000);
	CHECK_INT(read.type, VG_GRAPH_MEMORY_DEVICE);
	CHECK_INT(vg_device_ordinal(read.device), 0);
	CHECK_INT(read.peer_count, 0);
	OK(vg_graph_node_get_peers(node, NULL, 0, &count));
	CHECK_INT(count, 0);
	REFUSED(vg_graph_add_allocation(d, NULL, 0, ALLOCATION(.bytes = 0), &address, NULL), VG_INVALID,
		"an allocation of 0 bytes");
	REFUSED(vg_graph_add_allocation(d, NULL, 0, ALLOCATION(.bytes = 1, .type = 3), &address, NULL), VG_INVALID,
		"memory type 3");
	REFUSED(vg_graph_add_allocation(d, NULL, 0, ALLOCATION(.bytes = 1, .peer_count = 1), &address, NULL),
		VG_INVALID, "peers is NULL");
	REFUSED(vg_graph_add_allocation(
			d, NULL, 0,
			ALLOCATION(.bytes = 1, .peers = (struct vg_device *[]){NULL}, .peer_count = SIZE_MAX), &address,
			NULL),
		VG_INVALID, "peer_count is");
	REFUSED(vg_graph_add_free(d, NULL, 0, 0, NULL), VG_INVALID, "address 0 cannot be freed");
	REFUSED(vg_graph_add_free(d, NULL, 0, 4096, NULL), VG_DRIVER, "cuGraphAddNode");
	REFUSED(vg_graph_node_remove(node), VG_DRIVER, "cuGraphDestroyNode");
	CHECK_CONTAINS(vg_last_error()->text, "the graph has allocation or free nodes");
	CHECK_INT(vg_graph_node_is_valid(node), 1);
	bench_close(&bench);
}

TEST(graphs_allocate_managed_but_no_host_memory)
{
	struct bench bench = bench_open();
	struct vg_graph_node *node, *set;
	struct vg_graph_allocation read;
	vg_address address = 0;
	size_t count;

	REFUSED(vg_graph_add_allocation(bench.definition, NULL, 0,
					ALLOCATION(.bytes = 64, .type = VG_GRAPH_MEMORY_HOST), &address, &node),
		VG_UNSUPPORTED, "this driver's graphs allocate no memory of the host");
	CHECK_INT(address, 0);
	OK(vg_graph_definition_nodes(bench.definition, NULL, 0, &count));
	CHECK_INT(count, 0);
	OK(vg_graph_add_allocation(bench.definition, NULL, 0, ALLOCATION(.bytes = 64, .type = VG_GRAPH_MEMORY_MANAGED),
				   &address, &node));
	OK(vg_graph_node_get_allocation(node, &read, NULL));
	CHECK_INT(read.type, VG_GRAPH_MEMORY_MANAGED);
	CHECK_INT(vg_device_ordinal(read.device), 0);
	OK(vg_graph_add_memset(bench.definition, &node, 1, MEMSET(.destination = address, .value = 10, .width = 64),
			       &set));
	struct vg_graph *graph = bench_run(&bench);
	// The driver copies this byte, since on an H200 the host cannot access managed memory of graphs.
	unsigned char last = 0;
	read_words(bench.context, &last, address + 63, 1);
	CHECK_INT(last, 10);
	bench_free(&bench, address);
	vg_graph_destroy(graph);
	bench_close(&bench);
}

static void count(void *data)
{
	++**(int **)data;
}

TEST(callbacks_get_a_copy_or_the_pointer)
{
	struct bench bench = bench_open();
	int ran = 0, *where = &ran;
	struct vg_graph_node *copied, *plain;
	void (*function)(void *data);
	void *data;

	OK(vg_graph_add_callback(bench.definition, NULL, 0, count, &where, sizeof where, &copied));
	OK(vg_graph_add_callback(bench.definition, &copied, 1, count, &where, 0, &plain));
	OK(vg_graph_node_get_callback(plain, &function, &data));
	CHECK(function == count && data == &where);
	OK(vg_graph_node_get_callback(copied, &function, &data));
	CHECK(function == count && data != &where && *(int **)data == &ran);
	vg_graph_destroy(bench_run(&bench));
	CHECK_INT(ran, 2);
	OK(vg_graph_node_set_callback(plain, count, &where, sizeof where));
	where = NULL;
	vg_graph_destroy(bench_run(&bench));
	CHECK_INT(ran, 4);
	REFUSED(vg_graph_add_callback(bench.definition, NULL, 0, NULL, NULL, 0, NULL), VG_INVALID,
		"the callback is NULL");
	REFUSED(vg_graph_add_callback(bench.definition, NULL, 0, count, NULL, 8, NULL), VG_INVALID,
		"data is NULL, and its size is 8");
	bench_close(&bench);
}

TEST(event_nodes_record_and_wait_and_keep_the_event)
{
	struct bench bench = bench_open();
	struct vg_event *first, *second, *read;
	struct vg_graph_node *record, *wait;
	struct CUevent_st *handle;
	int done;

	OK(vg_event_create(bench.context, NULL, &first));
	OK(vg_event_create(bench.context, NULL, &second));
	OK(vg_graph_add_event_record(bench.definition, NULL, 0, first, &record));
	OK(vg_graph_add_event_wait(bench.definition, &record, 1, first, &wait));
	CHECK_INT(vg_graph_node_type(record), VG_GRAPH_NODE_EVENT_RECORD);
	CHECK_INT(vg_graph_node_type(wait), VG_GRAPH_NODE_EVENT_WAIT);
	OK(vg_graph_node_get_event(wait, &read, &handle));
	CHECK(read == first && handle == vg_event_handle(first));
	OK(vg_graph_node_set_event(record, second));
	OK(vg_graph_node_get_event(record, &read, &handle));
	CHECK(read == second && handle == vg_event_handle(second));
	vg_event_destroy(first); // the wait node keeps the event
	struct vg_graph *graph = bench_run(&bench);
	OK(vg_event_query(second, &done));
	CHECK_INT(done, 1);
	REFUSED(vg_graph_add_event_wait(bench.definition, NULL, 0, NULL, NULL), VG_INVALID, "event is NULL");
	OK(vg_event_close(second));
	REFUSED(vg_graph_node_set_event(wait, second), VG_CLOSED, "the event has been closed");
	vg_event_destroy(second);
	launch_and_wait(&bench, graph); // the executable graph keeps the event, too
	vg_graph_destroy(graph);
	bench_close(&bench);
}

TEST(a_child_graph_is_a_readable_copy)
{
	struct bench bench = bench_open();
	int ran = 0, *where = &ran;
	struct vg_graph_definition *child, *copy, *again;
	struct vg_graph_node *node, *inner;
	size_t found;

	OK(vg_graph_definition_create(bench.context, &child));
	OK(vg_graph_add_callback(child, NULL, 0, count, &where, sizeof where, NULL));
	OK(vg_graph_add_child(bench.definition, NULL, 0, child, &node));
	OK(vg_graph_add_callback(child, NULL, 0, count, &where, sizeof where, NULL)); // the node has its copy already
	vg_graph_definition_destroy(child);
	OK(vg_graph_node_get_child(node, &copy));
	OK(vg_graph_node_get_child(node, &again));
	CHECK(copy == again);
	OK(vg_graph_definition_nodes(copy, &inner, 1, &found));
	CHECK_INT(found, 1);
	CHECK_INT(vg_graph_node_type(inner), VG_GRAPH_NODE_HOST);
	CHECK(vg_graph_node_definition(inner) == copy);
	vg_graph_destroy(bench_run(&bench));
	CHECK_INT(ran, 1);
	REFUSED(vg_graph_definition_close(copy), VG_INVALID, "belongs to its node");
	REFUSED(vg_graph_add_child(bench.definition, NULL, 0, bench.definition, NULL), VG_INVALID, "its own child");
	OK(vg_graph_node_remove(node));
	REFUSED(vg_graph_add_empty(copy, NULL, 0, NULL), VG_CLOSED, "went with its node");
	REFUSED(vg_graph_node_get_callback(inner, NULL, NULL), VG_CLOSED, "has been removed");
	bench_close(&bench);
}

TEST(graphs_with_allocations_or_conditions_cannot_be_embedded)
{
	struct bench bench = bench_open();
	struct vg_graph_definition *child;
	struct vg_graph_condition condition;
	vg_address address;

	OK(vg_graph_definition_create(bench.context, &child));
	OK(vg_graph_add_allocation(child, NULL, 0, ALLOCATION(.bytes = 64), &address, NULL));
	REFUSED(vg_graph_add_child(bench.definition, NULL, 0, child, NULL), VG_UNSUPPORTED,
		"a node of kind allocation");
	vg_graph_definition_destroy(child);
	OK(vg_graph_definition_create(bench.context, &child));
	OK(vg_graph_definition_create_condition(child, NULL, &condition));
	OK(vg_graph_add_if_then(child, NULL, 0, condition, NULL));
	REFUSED(vg_graph_add_child(bench.definition, NULL, 0, child, NULL), VG_UNSUPPORTED,
		"a node of kind conditional");
	vg_graph_definition_destroy(child);
	bench_close(&bench);
}

TEST(graphs_inside_nodes_cannot_be_embedded)
{
	struct bench bench = bench_open();
	struct vg_graph_definition *child, *other, *own[2];
	struct vg_graph_condition condition;
	struct vg_graph_builder *builder;
	struct vg_graph_node *nodes[2];
	size_t count;

	OK(vg_graph_definition_create(bench.context, &child));
	OK(vg_graph_definition_create(bench.context, &other));
	OK(vg_graph_add_child(bench.definition, NULL, 0, child, &nodes[0]));
	OK(vg_graph_node_get_child(nodes[0], &own[0]));
	OK(vg_graph_definition_create_condition(bench.definition, NULL, &condition));
	OK(vg_graph_add_if_then(bench.definition, NULL, 0, condition, &nodes[1]));
	OK(vg_graph_node_get_body(nodes[1], 0, &own[1]));
	OK(vg_graph_builder_create_on(bench.stream, &builder));
	OK(vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_RELAXED));
	for (int i = 0; i < 2; i++) {
		REFUSED(vg_graph_add_child(other, NULL, 0, own[i], NULL), VG_UNSUPPORTED, "is a node's own");
		REFUSED(vg_graph_add_child(bench.definition, nodes, 2, own[i], NULL), VG_UNSUPPORTED,
			"is a node's own");
		REFUSED(vg_graph_add_child(own[i], NULL, 0, own[i], NULL), VG_INVALID, "its own child");
		REFUSED(vg_graph_builder_embed_definition(builder, own[i]), VG_UNSUPPORTED, "is a node's own");
		REFUSED(vg_graph_add_child(own[i], NULL, 0, bench.definition, NULL), VG_INVALID, "its own child, nor");
		OK(vg_graph_add_child(own[i], NULL, 0, child, NULL)); // graphs in nodes can contain other graphs
	}
	OK(vg_graph_builder_end(builder)); // still valid
	OK(vg_graph_definition_nodes(other, NULL, 0, &count));
	CHECK_INT(count, 0);
	vg_graph_destroy(bench_run(&bench));
	vg_graph_builder_destroy(builder);
	vg_graph_definition_destroy(child);
	vg_graph_definition_destroy(other);
	bench_close(&bench);
}
