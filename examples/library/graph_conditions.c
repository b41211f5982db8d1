// Conditions in a captured graph: the Collatz sequence runs on the device alone. A kernel sets the conditions: whether
// there is a next step, and whether the number is odd. The graph's loop and its two branches depend on them.
#include "nvrtc.h"

// Source that is compiled at run time has to declare the function. Its first parameter is the condition.
static const char source[] =
	"extern \"C\" __device__ void cudaGraphSetConditional(unsigned long long condition, unsigned value);\n"
	"\n"
	"struct state { unsigned number, steps, odd; };\n"
	"\n"
	"extern \"C\" __global__ void look(state *s, unsigned long long odd)\n"
	"{\n"
	"	cudaGraphSetConditional(odd, s->number % 2);\n"
	"	s->odd += s->number % 2;\n"
	"	s->steps++;\n"
	"}\n"
	"extern \"C\" __global__ void triple(state *s) { s->number = 3 * s->number + 1; }\n"
	"extern \"C\" __global__ void halve(state *s) { s->number /= 2; }\n"
	"extern \"C\" __global__ void go_on(state *s, unsigned long long again)\n"
	"{\n"
	"	cudaGraphSetConditional(again, s->number != 1);\n"
	"}\n";

struct state {
	unsigned number, steps, odd;
};

static const struct vg_launch_config one = {.size = sizeof one, .grid = {1}, .block = {1}};

// Adds a body with one launch.
static void fill_body(struct vg_graph_builder *body, struct vg_kernel *kernel, vg_address state)
{
	check(vg_graph_builder_begin(body, VG_GRAPH_CAPTURE_RELAXED));
	check(vg_launch(vg_graph_builder_stream(body), &one, kernel, VG_ARGUMENTS(state)));
	check(vg_graph_builder_end(body));
	vg_graph_builder_destroy(body);
}

static struct vg_graph_builder *capture(struct vg_context *context, struct vg_kernel *const kernels[4],
					vg_address state)
{
	struct vg_graph_condition_options yes = {.size = sizeof yes, .assign_default = 1, .default_value = 1};
	struct vg_graph_builder *builder, *loop, *if_odd, *if_even;
	struct vg_graph_condition again, odd;

	check(vg_graph_builder_create(context, &builder));
	check(vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_RELAXED));
	// the condition is 1 at the start of every launch of the graph
	check(vg_graph_builder_create_condition(builder, &yes, &again));
	check(vg_graph_builder_while_loop(builder, again, &loop));

	check(vg_graph_builder_begin(loop, VG_GRAPH_CAPTURE_RELAXED));
	check(vg_graph_builder_create_condition(loop, NULL, &odd));
	check(vg_launch(vg_graph_builder_stream(loop), &one, kernels[0], VG_ARGUMENTS(state, odd)));
	check(vg_graph_builder_if_else(loop, odd, &if_odd, &if_even));
	fill_body(if_odd, kernels[1], state);
	fill_body(if_even, kernels[2], state);
	check(vg_launch(vg_graph_builder_stream(loop), &one, kernels[3], VG_ARGUMENTS(state, again)));
	check(vg_graph_builder_end(loop));

	vg_graph_builder_destroy(loop);
	check(vg_graph_builder_end(builder));
	return builder;
}

int main(void)
{
	static const char *const names[4] = {"look", "triple", "halve", "go_on"};
	struct vg_kernel *kernels[4];
	struct vg_memory_resource *pool;
	struct vg_context *context;
	struct vg_stream *stream;
	struct vg_device *device;
	struct vg_buffer *buffer;
	struct state state = {.number = 27}, expected = {.number = 27};

	check(vg_device_get(0, &device));
	check(vg_context_primary(device, &context));
	check(vg_stream_create(context, NULL, &stream));
	struct vg_object_code *code = compile_code(device, source);
	for (int i = 0; i < 4; i++)
		check(vg_object_code_kernel(code, names[i], &kernels[i]));
	check(vg_device_pool_current(device, &pool));
	check(vg_buffer_create(pool, sizeof state, stream, &buffer));
	check(vg_buffer_write(buffer, 0, &state, sizeof state, stream));

	struct vg_graph_builder *builder = capture(context, kernels, vg_buffer_address(buffer));
	struct vg_graph *graph;
	check(vg_graph_builder_complete(builder, NULL, &graph));
	check(vg_graph_launch(graph, stream)); // one launch; the device runs all steps
	check(vg_buffer_read(buffer, 0, &state, sizeof state, stream));
	check(vg_stream_sync(stream));
	for (; expected.number != 1; expected.steps++) {
		expected.odd += expected.number % 2;
		expected.number = expected.number % 2 ? 3 * expected.number + 1 : expected.number / 2;
	}

	vg_graph_destroy(graph);
	vg_graph_builder_destroy(builder);
	for (int i = 0; i < 4; i++)
		vg_kernel_destroy(kernels[i]);
	vg_object_code_destroy(code);
	vg_buffer_destroy(buffer);
	vg_memory_resource_destroy(pool);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
	printf("graph_conditions: from 27 to %u in %u steps, %u of them odd\n", state.number, state.steps, state.odd);
	return memcmp(&state, &expected, sizeof state) != 0;
}
