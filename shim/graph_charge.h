// Charges of memory that graphs allocate. Any thread.
#pragma once
#include "shim/charge.h"

// A graph of this process may have an allocation node. While it is false, no graph is searched for them.
extern _Atomic bool shim_may_have_graph_memory;
// Number of executable graphs with memory.
extern SHIM_HIDDEN _Atomic unsigned int shim_graph_count;

// Before an instantiation: charges what the graph's allocation nodes occupy, and stores that.
CUresult shim_graph_begin_instantiate(enum vg_entry entry, CUgraph graph, uint64_t *ret_bytes);
// After it: keeps the charge with the executable graph, or refunds it. Returns `result`, or why the charge cannot be
// kept.
CUresult shim_graph_end_instantiate(CUresult result, CUgraphExec *executable, uint64_t bytes);
// Refunds the charge of an executable graph that was destroyed, by itself or with its context.
void shim_graph_forget(const struct shim_record *record);

// Sets the charge of all graphs to what the driver reports.
void shim_graphs_reconcile(void);
// Makes the driver return memory that it keeps for graphs.
void shim_graphs_trim(void);
