// Captures a graph: the work queued on a builder's stream becomes nodes. Two branches run concurrently, and a callback
// runs on the host. The graph is launched three times.
#include "check.h"

#include <string.h>

enum { BYTES = 1 << 20 };

static void report(void *data)
{
	(**(int **)data)++;
}

int main(void)
{
	struct vg_graph_builder *builder, *branches[2];
	struct vg_memory_resource *pool;
	struct vg_buffer *left, *right;
	struct vg_context *context;
	struct vg_stream *stream;
	struct vg_device *device;
	struct vg_graph *graph;
	int finished = 0, *where = &finished;
	unsigned char got[2] = {0};

	check(vg_device_get(0, &device));
	check(vg_context_primary(device, &context));
	check(vg_stream_create(context, NULL, &stream));
	check(vg_device_pool_current(device, &pool));
	check(vg_buffer_create(pool, BYTES, stream, &left));
	check(vg_buffer_create(pool, BYTES, stream, &right));
	check(vg_stream_sync(stream));

	check(vg_graph_builder_create(context, &builder));
	check(vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_RELAXED));
	check(vg_buffer_fill_byte(left, 1, vg_graph_builder_stream(builder)));
	check(vg_graph_builder_split(builder, 2, branches));
	check(vg_buffer_fill_byte(right, 2, vg_graph_builder_stream(branches[0])));
	check(vg_buffer_read(left, BYTES - 1, &got[0], 1, vg_graph_builder_stream(branches[1])));
	check(vg_graph_builder_join(branches, 2, NULL));
	vg_graph_builder_destroy(branches[1]); // branches[0] is the builder itself
	check(vg_buffer_read(right, BYTES - 1, &got[1], 1, vg_graph_builder_stream(builder)));
	check(vg_graph_builder_callback(builder, report, &where, sizeof where)); // the pointer is copied
	check(vg_graph_builder_end(builder));
	check(vg_graph_builder_complete(builder, NULL, &graph));
	vg_graph_builder_destroy(builder);
	printf("before the first launch: %u and %u\n", got[0], got[1]);

	for (int i = 0; i < 3; i++)
		check(vg_graph_launch(graph, stream));
	check(vg_stream_sync(stream));
	vg_graph_destroy(graph);
	vg_buffer_destroy(left);
	vg_buffer_destroy(right);
	vg_memory_resource_destroy(pool);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
	printf("graph_capture: ran %d times, and read %u and %u\n", finished, got[0], got[1]);
	return finished != 3 || memcmp(got, "\1\2", 2) != 0;
}
