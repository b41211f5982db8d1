// Memory of graphs: charged for what their allocation nodes occupy from instantiation on, and
// for what the driver keeps reserved for graphs. Any thread.
#pragma once
#include "shim/charge.h"

// A graph of this process may hold an allocation node: nothing is looked for before.
extern _Atomic bool shim_graph_memory;

void shim_graphs_settle(void);
void shim_graphs_trim(void);
// The executable graph of a record went away with its context.
void shim_graph_forget(const struct shim_record *record);
