// Conditions of graph definitions. Any thread.
#pragma once
#include "core/graph_definition.h"

struct core_condition;

// An entry for a condition that is about to be made; NULL: no memory. Freed with free() if it is not made.
struct core_condition *core_condition_create(void);
void core_condition_made(struct core_condition *condition, uint64_t handle,
			 const struct vg_graph_definition *definition);
// Forgets all conditions of the definition and what is inside it.
void core_conditions_gone(const struct vg_graph_definition *root);

// INVALID for a condition of another root, which is given as `what` to a node of the definition.
enum vg_status core_condition_check(const struct vg_graph_definition *definition, uint64_t handle, const char *what);
