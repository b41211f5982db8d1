// Helpers that the tests of graphs share.
#pragma once
#include "code_test.h"

#define ADDRESS(pointer) ((vg_address)(uintptr_t)(pointer))

// The objects that most tests need: a context, a stream, an empty graph definition, and kernels that are loaded when
// they are first used.
struct bench {
	struct vg_context *context;
	struct vg_stream *stream;
	struct vg_graph_definition *definition;
	struct vg_object_code *code;
};

static inline struct bench bench_open(void)
{
	struct bench bench = {.context = first_context()};

	OK(vg_stream_create(bench.context, NULL, &bench.stream));
	OK(vg_graph_definition_create(bench.context, &bench.definition));
	return bench;
}

static inline void bench_close(struct bench *bench)
{
	vg_graph_definition_destroy(bench->definition);
	vg_object_code_destroy(bench->code);
	vg_stream_destroy(bench->stream);
	vg_context_destroy(bench->context);
}

static inline struct vg_kernel *kernel_of(struct bench *bench, const char *name)
{
	struct vg_kernel *kernel;

	if (!bench->code)
		bench->code = built_code(VG_CODE_PTX, "graph_kernels.ptx");
	OK(vg_object_code_kernel(bench->code, name, &kernel));
	return kernel;
}

static inline void launch_and_wait(struct bench *bench, struct vg_graph *graph)
{
	OK(vg_graph_launch(graph, bench->stream));
	OK(vg_stream_sync(bench->stream));
}

// Instantiates the definition, launches the graph once, and waits.
static inline struct vg_graph *bench_run(struct bench *bench)
{
	struct vg_graph *graph;

	OK(vg_graph_definition_instantiate(bench->definition, NULL, &graph));
	launch_and_wait(bench, graph);
	return graph;
}

static inline struct vg_graph_builder *begin_builder(struct bench *bench)
{
	struct vg_graph_builder *builder;

	OK(vg_graph_builder_create(bench->context, &builder));
	OK(vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_RELAXED));
	return builder;
}

// Completes a builder whose capture has ended, launches the graph once, and waits.
static inline struct vg_graph *builder_run(struct bench *bench, struct vg_graph_builder *builder)
{
	struct vg_graph *graph;

	OK(vg_graph_builder_complete(builder, NULL, &graph));
	launch_and_wait(bench, graph);
	return graph;
}

// Frees memory that a graph allocated and did not free.
static inline void bench_free(struct bench *bench, vg_address address)
{
	struct vg_graph_definition *definition = bench->definition;

	OK(vg_graph_definition_create(bench->context, &bench->definition));
	OK(vg_graph_add_free(bench->definition, NULL, 0, address, NULL));
	vg_graph_destroy(bench_run(bench));
	vg_graph_definition_destroy(bench->definition);
	bench->definition = definition;
}

#define MEMSET(...)                                                 \
	&(struct vg_graph_memset)                                   \
	{                                                           \
		.size = sizeof(struct vg_graph_memset), __VA_ARGS__ \
	}
#define MEMCPY(...)                                                 \
	&(struct vg_graph_memcpy)                                   \
	{                                                           \
		.size = sizeof(struct vg_graph_memcpy), __VA_ARGS__ \
	}
#define ALLOCATION(...)                                                 \
	&(struct vg_graph_allocation)                                   \
	{                                                               \
		.size = sizeof(struct vg_graph_allocation), __VA_ARGS__ \
	}
#define GRAPH_OPTIONS(...)                                           \
	&(struct vg_graph_options)                                   \
	{                                                            \
		.size = sizeof(struct vg_graph_options), __VA_ARGS__ \
	}
// The description of a kernel launch. The kernel runs with one thread unless `config_` says otherwise.
#define KERNEL(kernel_, config_, ...)                                                                      \
	&(struct vg_graph_kernel)                                                                          \
	{                                                                                                  \
		.size = sizeof(struct vg_graph_kernel), .kernel = (kernel_), .config = (config_),          \
		.arguments = (struct vg_argument[]){__VA_ARGS__},                                          \
		.argument_count = sizeof((struct vg_argument[]){__VA_ARGS__}) / sizeof(struct vg_argument) \
	}
