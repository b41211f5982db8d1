// Graphs and executable graphs (graph*.c). The driver's opaque handles are pointers to these structs, which have the
// tags of cuda.h. As with the driver, only one thread at a time may use a graph. sim_capture_lock serializes captures,
// to which several threads may add.
#pragma once

#include "graph_memory.h"
#include "op.h"

enum { SIM_GRAPH_MAGIC = 0x47524132, SIM_NODE_MAGIC = 0x4e4f4432, SIM_GRAPH_EXEC_MAGIC = 0x47455832 };

struct sim_edge {
	struct CUgraphNode_st *node;
	CUgraphEdgeData data;
};

struct sim_edges {
	struct sim_edge *items;
	size_t count, capacity;
};
CUresult sim_edges_add(struct sim_edges *edges, struct CUgraphNode_st *node, const CUgraphEdgeData *data);
void sim_edges_remove(struct sim_edges *edges, const struct CUgraphNode_st *node);
const struct sim_edge *sim_edges_find(const struct sim_edges *edges, const struct CUgraphNode_st *node);
void sim_edges_finish(struct sim_edges *edges);

// The value of a condition, a word in device memory: kernels set it, conditional nodes read it. The handle is the
// word's address. The graph shares the condition with the programs made from the graph, which may outlive it.
struct sim_condition {
	_Atomic int references;
	CUgraphConditionalHandle handle;
	struct sim_context *context;
	unsigned long long context_id; // id of the context: a primary context may end, and another one get its handle
	unsigned initial;
	bool reset; // CU_GRAPH_COND_ASSIGN_DEFAULT: every launch resets the value
	bool used;
	struct sim_condition *next; // next condition of the graph
};
struct sim_condition *sim_condition_ref(struct sim_condition *condition);
void sim_condition_unref(struct sim_condition *condition); // Drops a reference. NULL: does nothing

// Returns CUDA_ERROR_INVALID_VALUE if no memory of graphs starts there, or the graph frees it already.
CUresult sim_graph_check_free(const struct CUgraph_st *graph, CUdeviceptr address);

struct CUgraphNode_st {
	uint32_t magic;
	CUgraphNodeType type;
	struct CUgraph_st *graph;
	struct CUgraphNode_st *previous, *next;
	struct sim_edges dependencies, dependents;
	struct sim_op *op;	    // operation of a kernel, memcpy, memset, host, event or memory operation node
	struct CUgraph_st *child;   // graph of a child graph node; owned
	struct CUgraph_st **bodies; // graphs of a conditional node; owned
	unsigned body_count;
	CUgraphConditionalNodeType conditional;
	struct sim_condition *condition;
	CUDA_CONDITIONAL_NODE_PARAMS conditional_params;
	struct sim_graph_memory *memory;     // allocation nodes
	CUdeviceptr freed;		     // free nodes
	void **pointers;		     // the kernelParams that GetParams has returned
	CUkernel kernel;		     // kernel of a node that was made from a CUkernel
	const struct CUgraphNode_st *origin; // the node that this one was cloned from; or NULL
	unsigned long long id;
	size_t mark; // temporary value for algorithms on the graph
};

struct sim_user_reference {
	struct CUuserObject_st *object;
	unsigned count;
	struct sim_user_reference *next;
};

struct CUgraph_st {
	uint32_t magic;
	struct CUgraphNode_st *first, *last, *owner; // owner: the node that has this graph as a body or a child
	size_t count;
	const struct CUgraph_st *origin;
	struct sim_condition *conditions;
	struct sim_user_reference *objects;
	unsigned long long id;
};

CUresult sim_graph_new(struct CUgraph_st **ret_graph);
void sim_graph_free(struct CUgraph_st *graph); // NULL: does nothing
CUresult sim_graph_get(CUgraph handle);
CUresult sim_node_get(CUgraphNode handle);
// Creates a node without edges.
CUresult sim_node_new(struct CUgraph_st *graph, CUgraphNodeType type, struct CUgraphNode_st **ret_node);
void sim_node_free(struct CUgraphNode_st *node);
CUresult sim_graph_connect(struct CUgraphNode_st *from, struct CUgraphNode_st *to, const CUgraphEdgeData *data);
CUresult sim_graph_clone(const struct CUgraph_st *graph, struct CUgraph_st **ret_clone);
// Returns all nodes in an array from malloc; each node follows its dependencies. CUDA_ERROR_INVALID_VALUE: a cycle.
CUresult sim_graph_sort(const struct CUgraph_st *graph, struct CUgraphNode_st ***ret_nodes);
struct sim_condition *sim_graph_find_condition(struct CUgraph_st *graph, CUgraphConditionalHandle handle);
// Whether the graph, or a graph nested in it, contains a node of the type.
bool sim_graph_contains(const struct CUgraph_st *graph, CUgraphNodeType type);

// Fills in parameters from an older or equal struct for that type, which the members of the union begin with.
CUresult sim_params_fill(CUgraphNodeType type, const void *given, size_t size, CUgraphNodeParams *ret_params);
// Creates the operation of a node, or of an executable node, from its parameters (graph_params.c).
CUresult sim_node_op(const CUgraphNodeParams *params, struct sim_op **ret_op);

// ---- executable graphs (graph_program.c, graph_exec.c) ---------------------------------

// A node as a launch runs it.
struct sim_step {
	const struct CUgraphNode_st *source; // only compared as a pointer: the node may not exist any more
	CUgraphNodeType type;
	bool enabled;
	uint64_t dependencies; // a hash of the dependencies' indices in the program
	struct sim_op *op;
	struct sim_graph_memory *memory;
	CUdeviceptr freed;
	CUgraphConditionalNodeType conditional;
	struct sim_condition *condition;
	struct sim_program **bodies; // the bodies; a child graph has one
	unsigned body_count;
};

// An executable graph as a launch runs it. A running launch keeps its program: an update then changes a copy.
struct sim_program {
	_Atomic int references;
	size_t count;
	struct sim_step *steps; // steps in an order that keeps all dependencies
	unsigned condition_count;
	struct sim_condition **conditions;
	struct sim_user_reference *objects; // user objects of the graph at its instantiation; not of its child graphs
};
CUresult sim_program_new(const struct CUgraph_st *graph, struct sim_program **ret_program);
CUresult sim_program_copy(const struct sim_program *program, struct sim_program **ret_copy);
void sim_program_unref(struct sim_program *program); // NULL: does nothing
// Runs the program. `marks`: for each step the mark of the event it records; NULL: recorded when it runs. `cursor`: its
// pieces of work; NULL: the device does not share its time.
CUresult sim_program_run(struct sim_program *program, struct sim_mark *const *marks, struct sim_time_cursor *cursor);
// Writes at most `capacity` pieces of work of the program's steps, in the order in which they run. Returns their
// number.
unsigned sim_program_pieces(const struct sim_program *program, struct region_piece *ret_pieces, unsigned capacity);
CUresult sim_program_upload(struct sim_program *program);
void sim_program_each_memory(struct sim_program *program, void (*each)(struct sim_graph_memory *, void *), void *data);
struct sim_step *sim_program_find_step(struct sim_program *program, const struct CUgraphNode_st *source);

struct CUgraphExec_st {
	uint32_t magic;
	_Atomic int references; // references of the handle and of running launches
	pthread_mutex_t lock;
	struct sim_program *program;
	struct sim_mark *last;		// mark of the latest launch: launches of one executable graph do not overlap
	unsigned long long last_stream; // id of the stream of that launch
	unsigned long long flags;
	CUgraph source; // only compared, never read
};
CUresult sim_graph_exec_get(CUgraphExec handle);
void sim_graph_exec_unref(CUgraphExec exec);
// Returns the program, or a copy if a launch uses it. With exec->lock held.
CUresult sim_graph_exec_unshare(CUgraphExec exec, struct sim_program **ret_program);

CUresult sim_user_references_copy(const struct sim_user_reference *from, struct sim_user_reference **ret_to);
void sim_user_references_free(struct sim_user_reference *first);
