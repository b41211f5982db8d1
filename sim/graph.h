// Declares graphs and executable graphs (graph*.c). The driver's opaque handles are pointers to these structs, which
// have the names that cuda.h gives them. Only one thread at a time may use a graph, as with the driver. But several
// threads may capture into one graph: sim_capture_lock serializes them.
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

// A condition of conditional nodes. Its value is a word in device memory, which kernels set and conditional nodes read.
// The handle is the address of the word. The executable graphs that are made from a graph share its conditions, because
// they may exist longer than the graph.
struct sim_condition {
	_Atomic int references;
	CUgraphConditionalHandle handle;
	struct sim_context *context;
	unsigned long long context_id; // id of the context, because a new context may get the handle of an ended one
	unsigned initial;
	bool reset; // CU_GRAPH_COND_ASSIGN_DEFAULT: every launch resets the value
	bool used;
	struct sim_condition *next; // next condition of the graph
};
struct sim_condition *sim_condition_ref(struct sim_condition *condition);
void sim_condition_unref(struct sim_condition *condition); // Drops a reference. NULL: does nothing

// Checks that a graph may free the memory at an address. CUDA_ERROR_INVALID_VALUE: no memory of a graph starts there,
// or the graph frees it already.
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
	void **pointers;		     // the array that cuGraphKernelNodeGetParams has returned as kernelParams
	CUkernel kernel;		     // the CUkernel with which the program made the node; or NULL
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
// Returns whether the graph, or a graph nested in it, contains a node of the type.
bool sim_graph_contains(const struct CUgraph_st *graph, CUgraphNodeType type);

// Fills in the parameters of a node of any type. `given` is the struct for that type, in its newest or an older
// version. All versions begin with the same fields.
CUresult sim_params_fill(CUgraphNodeType type, const void *given, size_t size, CUgraphNodeParams *ret_params);
// Creates the operation of a node, or of an executable node, from its parameters (graph_params.c).
CUresult sim_node_op(const CUgraphNodeParams *params, struct sim_op **ret_op);

// ---- executable graphs (graph_program.c, graph_exec.c) ---------------------------------

// A node of an executable graph.
struct sim_step {
	// The node of the graph. The pointer is only compared, because the node may not exist any more.
	const struct CUgraphNode_st *source;
	CUgraphNodeType type;
	bool enabled;
	// A hash of the indices of the steps on which this step depends. An update compares it with the hash in the new
	// program.
	uint64_t dependencies;
	struct sim_op *op;
	struct sim_graph_memory *memory;
	CUdeviceptr freed;
	CUgraphConditionalNodeType conditional;
	struct sim_condition *condition;
	struct sim_program **bodies; // for a conditional node: its bodies; for a child graph node: its graph
	unsigned body_count;
};

// A program: the nodes of an executable graph, sorted in the order in which a launch runs them. Each node is a step. If
// the executable graph is changed while a launch uses the program, the change is made in a copy.
struct sim_program {
	_Atomic int references;
	size_t count;
	struct sim_step *steps; // sorted: each step comes after the steps on which it depends
	unsigned condition_count;
	struct sim_condition **conditions;
	// The user objects to which the graph had references when this program was made. Those of child graphs are not
	// among them.
	struct sim_user_reference *objects;
};
CUresult sim_program_new(const struct CUgraph_st *graph, struct sim_program **ret_program);
CUresult sim_program_copy(const struct sim_program *program, struct sim_program **ret_copy);
void sim_program_unref(struct sim_program *program); // NULL: does nothing
// Runs the steps of a program, which an executable graph consists of, one after the other on this thread. `marks` has,
// for each step that records an event, the mark (mark.h) of the record. If `marks` is NULL, each record creates its
// mark. `cursor` says which piece of device time the next step uses. It is NULL unless contexts share the device's time
// (op_time.h).
CUresult sim_program_run(struct sim_program *program, struct sim_mark *const *marks, struct sim_time_cursor *cursor);
// Lists the pieces of work (region_time.h) of the program's steps in the order in which they run. Writes at most
// `capacity` of them. Returns how many there are in all.
unsigned sim_program_pieces(const struct sim_program *program, struct region_piece *ret_pieces, unsigned capacity);
CUresult sim_program_upload(struct sim_program *program);
void sim_program_each_memory(struct sim_program *program, void (*each)(struct sim_graph_memory *, void *), void *data);
struct sim_step *sim_program_find_step(struct sim_program *program, const struct CUgraphNode_st *source);

struct CUgraphExec_st {
	uint32_t magic;
	_Atomic int references; // references of the handle and of running launches
	pthread_mutex_t lock;
	struct sim_program *program;
	struct sim_mark *last;		// done when the latest launch has ended; the next launch waits for it
	unsigned long long last_stream; // id of the stream of the latest launch
	unsigned long long flags;
	CUgraph source; // the graph that was instantiated; the pointer is only compared, never read
};
CUresult sim_graph_exec_get(CUgraphExec handle);
void sim_graph_exec_unref(CUgraphExec exec);
// Returns exec->program, so that the caller can change it. If a launch uses the program, replaces it by a copy first.
// Call it with exec->lock held.
CUresult sim_graph_exec_unshare(CUgraphExec exec, struct sim_program **ret_program);

CUresult sim_user_references_copy(const struct sim_user_reference *from, struct sim_user_reference **ret_to);
void sim_user_references_free(struct sim_user_reference *first);
