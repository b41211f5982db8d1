// Records to which graph definition each condition belongs. Any thread.
#pragma once
#include "core/graph_definition.h"

struct core_condition;

// Allocates an entry before the driver creates the condition. NULL: out of memory. If the driver fails, call free().
struct core_condition *core_condition_create(void);
// Adds the entry of a condition that the driver has created.
void core_condition_add(struct core_condition *condition, uint64_t handle,
			const struct vg_graph_definition *definition);
// Removes the conditions of a root definition and of the definitions inside it.
void core_conditions_remove(const struct vg_graph_definition *root);

// Returns INVALID if the condition belongs to another root definition. `what` names the condition in the message.
enum vg_status core_condition_check(const struct vg_graph_definition *definition, uint64_t handle, const char *what);
