// Captures the work of streams: while a stream captures, operations that are submitted to it become nodes of a graph.

#include <stdlib.h>

#include "capture.h"
#include "capture_state.h"
#include "copy.h"
#include "event.h"
#include "launch.h"
#include "process.h"
#include "stream.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
struct sim_capture *sim_captures;
_Atomic unsigned sim_capture_count;
static unsigned long long next_id = 1;

void sim_capture_lock(void)
{
	pthread_mutex_lock(&lock);
}

void sim_capture_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

// ---- streams and their capture ----------------------------------------------------------------

static CUresult join_capture(struct sim_capture *capture, struct sim_stream *stream, struct sim_captured **ret_captured)
{
	struct sim_captured *captured = calloc(1, sizeof *captured);

	if (!captured)
		return CUDA_ERROR_OUT_OF_MEMORY;
	captured->capture = capture;
	captured->stream = stream;
	captured->next = capture->streams;
	capture->streams = captured;
	if (!(stream->flags & CU_STREAM_NON_BLOCKING)) {
		pthread_mutex_lock(&stream->context->lock);
		stream->context->captures++;
		pthread_mutex_unlock(&stream->context->lock);
	}
	atomic_store(&stream->capture, captured);
	*ret_captured = captured;
	return CUDA_SUCCESS;
}

static void detach_stream(struct sim_captured *captured)
{
	struct sim_stream *stream = captured->stream;

	atomic_store(&stream->capture, NULL);
	if (!(stream->flags & CU_STREAM_NON_BLOCKING)) {
		pthread_mutex_lock(&stream->context->lock);
		stream->context->captures--;
		pthread_mutex_unlock(&stream->context->lock);
	}
	captured->stream = NULL;
}

static void free_captured(struct sim_captured *captured)
{
	if (captured->stream)
		detach_stream(captured);
	sim_edges_finish(&captured->tips);
	free(captured->listed);
	free(captured->listed_data);
	free(captured);
}

static CUresult merge_tips(struct sim_edges *tips, const struct sim_edges *more)
{
	for (size_t i = 0; i < more->count; i++)
		if (!sim_edges_find(tips, more->items[i].node))
			SIM_TRY(sim_edges_add(tips, more->items[i].node, &more->items[i].data));
	return CUDA_SUCCESS;
}

static CUresult set_tip(struct sim_captured *captured, CUgraphNode node)
{
	captured->tips.count = 0;
	return sim_edges_add(&captured->tips, node, NULL);
}

// Frees the graph of a failed capture, even if the program passed that graph to the capture. If the graph is a child or
// a body of a node, the node loses it. A later use of that node crashes, as in the driver. Call it without the lock of
// the captures, because freeing calls functions of the program.
static void free_failed_graph(struct CUgraph_st *graph)
{
	struct CUgraphNode_st *owner = graph ? graph->owner : NULL;

	if (owner && owner->child == graph)
		owner->child = NULL;
	for (unsigned i = 0; owner && i < owner->body_count; i++)
		if (owner->bodies[i] == graph)
			owner->bodies[i] = NULL;
	sim_graph_free(graph);
}

// Ends the capture and returns its graph. Call it with the lock of the captures held.
static struct CUgraph_st *end_capture(struct sim_capture *capture)
{
	struct CUgraph_st *graph = capture->graph;

	for (struct sim_capture **link = &sim_captures; *link; link = &(*link)->next) {
		if (*link == capture) {
			*link = capture->next;
			break;
		}
	}
	atomic_fetch_sub(&sim_capture_count, 1);
	for (struct sim_captured *one = capture->streams, *next; one; one = next) {
		next = one->next;
		free_captured(one);
	}
	for (struct sim_recorded *one = capture->records, *next; one; one = next) {
		next = one->next;
		// Leave the event alone if it was recorded again, or if its struct was reused for another event.
		if (one->event->capture == one)
			one->event->capture = NULL;
		sim_edges_finish(&one->tips);
		free(one);
	}
	free(capture);
	return graph;
}

// Initializes a capture that is in the list already. Call it with the lock held.
static CUresult start_capture(struct sim_capture *capture, struct sim_stream *stream, const CUgraphNode *dependencies,
			      const CUgraphEdgeData *data, size_t count)
{
	struct sim_captured *captured;

	if (!capture->graph)
		SIM_TRY(sim_graph_new(&capture->graph));
	SIM_TRY(join_capture(capture, stream, &captured));
	for (size_t i = 0; i < count; i++)
		SIM_TRY(sim_edges_add(&captured->tips, dependencies[i], data ? &data[i] : NULL));
	capture->origin = captured;
	return CUDA_SUCCESS;
}

CUresult sim_capture_begin(struct sim_stream *stream, CUstreamCaptureMode mode, struct CUgraph_st *graph,
			   const CUgraphNode *dependencies, const CUgraphEdgeData *data, size_t count)
{
	struct CUgraph_st *unused = NULL;

	if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->legacy)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	struct sim_capture *capture = calloc(1, sizeof *capture);
	if (!capture)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_capture_lock();
	if (stream->capture) {
		sim_capture_unlock();
		free(capture);
		return CUDA_ERROR_ILLEGAL_STATE;
	}
	*capture = (struct sim_capture){.id = next_id++,
					.mode = mode,
					.thread = pthread_self(),
					.graph = graph,
					.into_given = graph != NULL,
					.next = sim_captures};
	sim_captures = capture;
	atomic_fetch_add(&sim_capture_count, 1);
	CUresult result = start_capture(capture, stream, dependencies, data, count);
	if (result != CUDA_SUCCESS)
		unused = end_capture(capture);
	sim_capture_unlock();
	if (unused != graph)
		sim_graph_free(unused);
	return result;
}

// Stores `mark`, a number, in a graph node and in all nodes on which it depends.
static void mark_dependencies(CUgraphNode node, size_t mark)
{
	// Uses a list instead of recursion, because captured graphs may be long chains.
	size_t capacity = 64, count = 0;
	CUgraphNode *stack = malloc(capacity * sizeof *stack);
	if (!stack)
		abort(); // the host is out of memory
	stack[count++] = node;
	while (count) {
		CUgraphNode one = stack[--count];
		if (one->mark == mark)
			continue;
		one->mark = mark;
		for (size_t i = 0; i < one->dependencies.count; i++) {
			if (count == capacity) {
				capacity *= 2;
				CUgraphNode *larger = realloc(stack, capacity * sizeof *stack);
				if (!larger)
					abort();
				stack = larger;
			}
			stack[count++] = one->dependencies.items[i].node;
		}
	}
	free(stack);
}

// Returns whether the capture has work that was not joined to the stream that began the capture.
static bool has_unjoined_work(const struct sim_capture *capture)
{
	for (struct CUgraphNode_st *node = capture->graph->first; node; node = node->next)
		node->mark = 0;
	for (size_t i = 0; i < capture->origin->tips.count; i++)
		mark_dependencies(capture->origin->tips.items[i].node, 1);
	for (const struct sim_captured *one = capture->streams; one; one = one->next)
		for (size_t i = 0; i < one->tips.count && !one->placed; i++)
			if (one->tips.items[i].node->mark != 1)
				return true;
	return false;
}

CUresult sim_capture_end(struct sim_stream *stream, CUgraph *ret_graph)
{
	CUresult result = CUDA_SUCCESS;
	struct CUgraph_st *failed = NULL;

	sim_capture_lock();
	struct sim_captured *captured = stream->capture;
	struct sim_capture *capture = captured ? captured->capture : NULL;
	if (!capture) {
		result = CUDA_ERROR_ILLEGAL_STATE;
	} else if (!ret_graph && !capture->into_given) {
		result = CUDA_ERROR_INVALID_VALUE;
	} else if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(capture->thread, pthread_self())) {
		result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
		failed = end_capture(capture);
	} else if (captured != capture->origin) {
		capture->invalidated = true;
		result = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	} else {
		if (capture->invalidated)
			result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
		else if (has_unjoined_work(capture))
			result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
		struct CUgraph_st *graph = end_capture(capture);
		if (result)
			failed = graph;
		else if (ret_graph)
			*ret_graph = graph;
	}
	sim_capture_unlock();
	free_failed_graph(failed);
	return result;
}

// ---- operations that become nodes --------------------------------------------------------------

// Creates the graph node of a captured operation. The node then owns the operation, which is freed on failure.
static CUresult new_captured_node(struct CUgraph_st *graph, struct sim_op *op, CUgraphNode *ret_node)
{
	static const struct {
		const struct sim_op_class *class;
		CUgraphNodeType type;
	} types[] = {
		{&sim_launch_class, CU_GRAPH_NODE_TYPE_KERNEL},
		{&sim_copy_class, CU_GRAPH_NODE_TYPE_MEMCPY},
		{&sim_set_class, CU_GRAPH_NODE_TYPE_MEMSET},
		{&sim_host_class, CU_GRAPH_NODE_TYPE_HOST},
		{&sim_memop_class, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP},
		{&sim_event_record_class, CU_GRAPH_NODE_TYPE_EVENT_RECORD},
		{&sim_event_wait_class, CU_GRAPH_NODE_TYPE_WAIT_EVENT},
	};

	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		if (op->class != types[i].class)
			continue;
		CUresult result = sim_node_new(graph, types[i].type, ret_node);
		if (result == CUDA_SUCCESS)
			(*ret_node)->op = op;
		else
			sim_op_free(op);
		return result;
	}
	sim_op_free(op);
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

// Adds the node after the latest nodes of the stream (its tips). The node is then the stream's only tip. Call it with
// the lock of the captures held.
static CUresult append_node(struct sim_captured *captured, CUgraphNode node)
{
	for (size_t i = 0; i < captured->tips.count; i++)
		SIM_TRY(sim_graph_connect(captured->tips.items[i].node, node, &captured->tips.items[i].data));
	captured->placed = false;
	return set_tip(captured, node);
}

static CUresult record_event(struct sim_captured *captured, struct sim_event *event)
{
	struct sim_recorded *recorded = calloc(1, sizeof *recorded);

	if (!recorded)
		return CUDA_ERROR_OUT_OF_MEMORY;
	recorded->capture = captured->capture;
	recorded->event = event;
	CUresult result = merge_tips(&recorded->tips, &captured->tips);
	if (result != CUDA_SUCCESS) {
		free(recorded);
		return result;
	}
	recorded->next = captured->capture->records;
	captured->capture->records = recorded;
	event->capture = recorded;
	return CUDA_SUCCESS;
}

static CUresult capture_op_locked(struct sim_captured *captured, struct sim_op *op)
{
	struct sim_capture *capture = captured->capture;
	CUgraphNode node;

	if (capture->invalidated) {
		sim_op_free(op);
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	}
	if (op->class == &sim_event_record_class && !(((struct sim_event_op *)op)->flags & CU_EVENT_RECORD_EXTERNAL)) {
		CUresult result = record_event(captured, ((struct sim_event_op *)op)->event);
		sim_op_free(op);
		return result;
	}
	if (op->class == &sim_event_wait_class && !(((struct sim_event_op *)op)->flags & CU_EVENT_WAIT_EXTERNAL)) {
		// The wait is for an event that was recorded outside of the capture. A captured graph must not depend
		// on such an event.
		sim_op_free(op);
		capture->invalidated = true;
		return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	}
	SIM_TRY(new_captured_node(capture->graph, op, &node));
	return append_node(captured, node);
}

CUresult sim_capture_op(struct sim_stream *stream, struct sim_op *op)
{
	sim_capture_lock();
	struct sim_captured *captured = stream->capture;
	CUresult result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED; // the capture has ended since the caller checked
	if (captured)
		result = capture_op_locked(captured, op);
	else
		sim_op_free(op);
	sim_capture_unlock();
	return result;
}

CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event, unsigned flags)
{
	CUresult result = CUDA_SUCCESS;

	sim_capture_lock();
	struct sim_recorded *recorded = event->capture;
	struct sim_captured *captured = stream->capture;
	if (!recorded) {
		// The event was recorded outside of the capture. A captured graph must not depend on such an event.
		if (captured && !(flags & CU_EVENT_WAIT_EXTERNAL)) {
			captured->capture->invalidated = true;
			result = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
		}
		goto out;
	}
	struct sim_capture *capture = recorded->capture;
	if (capture->invalidated) {
		result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	} else if (stream->legacy) {
		capture->invalidated = true;
		result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	} else if (captured && captured->capture != capture) {
		capture->invalidated = captured->capture->invalidated = true;
		result = CUDA_ERROR_STREAM_CAPTURE_MERGE;
	} else {
		if (!captured)
			result = join_capture(capture, stream, &captured);
		if (result == CUDA_SUCCESS)
			result = merge_tips(&captured->tips, &recorded->tips);
	}
out:
	sim_capture_unlock();
	return result;
}

// Returns an error if the capture was ended or invalidated since the caller checked.
static CUresult check_active(const struct sim_captured *captured)
{
	return captured && !captured->capture->invalidated ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

void sim_capture_abandon(struct sim_stream *stream)
{
	struct CUgraph_st *failed = NULL;

	sim_capture_lock();
	struct sim_captured *captured = stream->capture;
	struct sim_capture *capture = captured ? captured->capture : NULL;
	if (capture && capture->origin == captured) {
		// The stream that began the capture is destroyed. No other stream can end the capture, so end it here.
		failed = end_capture(capture);
	} else if (capture) {
		// The capture continues without the stream. The work of the stream must still be joined.
		detach_stream(captured);
	}
	sim_capture_unlock();
	free_failed_graph(failed);
}

static CUresult add_alloc_locked(struct sim_captured *captured, struct sim_graph_memory *memory)
{
	CUgraphNode node;

	SIM_TRY(check_active(captured));
	SIM_TRY(sim_node_new(captured->capture->graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC, &node));
	node->memory = sim_graph_memory_ref(memory);
	return append_node(captured, node);
}

CUresult sim_capture_alloc(struct sim_stream *stream, size_t size, const CUmemPoolProps *props,
			   CUdeviceptr *ret_address)
{
	CUDA_MEM_ALLOC_NODE_PARAMS_v2 params = {
		.bytesize = size,
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			      .location = {CU_MEM_LOCATION_TYPE_DEVICE, stream->context->device->ordinal}}};
	struct sim_graph_memory *memory;

	if (props)
		params.poolProps = *props;
	params.poolProps.handleTypes = CU_MEM_HANDLE_TYPE_NONE; // memory of a graph cannot be exported
	SIM_TRY(sim_graph_memory_new(stream->context, &params, &memory));
	sim_capture_lock();
	CUresult result = add_alloc_locked(stream->capture, memory);
	if (result == CUDA_SUCCESS)
		*ret_address = memory->address;
	sim_capture_unlock();
	sim_graph_memory_unref(memory);
	return result;
}

static CUresult add_free_locked(struct sim_captured *captured, CUdeviceptr address)
{
	CUgraphNode node;

	SIM_TRY(check_active(captured));
	SIM_TRY(sim_graph_check_free(captured->capture->graph, address));
	SIM_TRY(sim_node_new(captured->capture->graph, CU_GRAPH_NODE_TYPE_MEM_FREE, &node));
	node->freed = address;
	return append_node(captured, node);
}

CUresult sim_capture_free(struct sim_stream *stream, CUdeviceptr address)
{
	sim_capture_lock();
	CUresult result = add_free_locked(stream->capture, address);
	sim_capture_unlock();
	return result;
}
