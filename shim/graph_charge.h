// Charges the memory that graphs allocate. Any thread.
#pragma once
#include "shim/charge.h"

// True if a graph of this process may have an allocation node. While this is false, no graph is searched for such
// nodes.
extern _Atomic bool shim_may_have_graph_memory;
// Number of executable graphs that have allocation nodes.
extern SHIM_HIDDEN _Atomic unsigned int shim_graph_count;

// Charges what the graph's allocation nodes occupy, and stores the number of bytes in *ret_bytes. Call it before the
// graph is instantiated.
CUresult shim_graph_begin_instantiate(enum vg_entry entry, CUgraph graph, uint64_t *ret_bytes);
// Keeps the charge with the executable graph, or refunds it if the instantiation failed. Returns `result`, or an error
// if the charge cannot be kept.
CUresult shim_graph_end_instantiate(CUresult result, CUgraphExec *executable, uint64_t bytes);
// Refunds the charge of an executable graph, which was destroyed by itself or with its context.
void shim_graph_forget(const struct shim_record *record);

// Sets the charge of all graphs by what the driver reports as reserved.
void shim_graphs_reconcile(void);
// Makes the driver return memory that it keeps reserved for graphs.
void shim_graphs_trim(void);
