#include "cases.h"

static struct vg_context *context;
static struct vg_stream *stream;
static struct vg_graph_definition *definition;
static struct vg_graph_node *node;
static struct vg_graph *graph;
static struct vg_buffer *buffer;
static struct vg_memory_resource *resource;
static struct vg_graph_memset set = {.size = sizeof set, .element_size = 4, .width = 4};
static struct vg_graph_memset got;
static CUgraphExec graph_handle;
static CUgraphNode node_handle;
static CUstream stream_handle;
static CUDA_MEMSET_NODE_PARAMS raw_set = {.elementSize = 4, .width = 4, .height = 1}, raw_got;
static CUcontext context_handle;

static void open_family(void)
{
	bench_begin(&context, &stream);
	LIBRARY(vg_synchronous_resource_create(context, &resource));
	LIBRARY(vg_buffer_create(resource, 64, NULL, &buffer));
	set.destination = raw_set.dst = vg_buffer_address(buffer);
	LIBRARY(vg_graph_definition_create(context, &definition));
	LIBRARY(vg_graph_add_memset(definition, NULL, 0, &set, &node));
	LIBRARY(vg_graph_definition_instantiate(definition, NULL, &graph));
	graph_handle = vg_graph_handle(graph);
	node_handle = vg_graph_node_handle(node);
	stream_handle = vg_stream_handle(stream);
	context_handle = vg_context_handle(context);
}

static void close_family(void)
{
	vg_graph_destroy(graph);
	vg_graph_definition_destroy(definition);
	vg_buffer_destroy(buffer);
	vg_memory_resource_destroy(resource);
	bench_end(context, stream);
}

static void finish_turn(void)
{
	RAW(cuStreamSynchronize(stream_handle));
}

SIDES(launch, LIBRARY(vg_graph_launch(graph, stream)), RAW(cuGraphLaunch(graph_handle, stream_handle)))
SIDES(read, LIBRARY(vg_graph_node_get_memset(node, &got)), RAW(cuGraphMemsetNodeGetParams(node_handle, &raw_got)))
SIDES(change, LIBRARY(vg_graph_set_memset(graph, node, &set)),
      RAW(cuGraphExecMemsetNodeSetParams(graph_handle, node_handle, &raw_set, context_handle)))

static const struct bench_case cases[] = {
	{"graph_launch", 50, 25, launch_library, launch_raw, finish_turn},
	{"graph_node_get_memset", 50, 500, read_library, read_raw, NULL},
	{"graph_set_memset", 0, 200, change_library, change_raw, NULL},
};
const struct bench_family bench_graph = {open_family, cases, sizeof cases / sizeof *cases, close_family};
