// Records to which graph definition each condition belongs. The driver accepts any condition in a node of any graph.
// But a graph never sees the values of another graph's condition.
#include "core/graph_condition.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mutex.h"

struct core_condition {
	struct core_condition *next;
	uint64_t handle;
	const struct vg_graph_definition *definition;
};

static struct vg_mutex lock;
static struct core_condition *conditions; // newest first
static _Atomic(size_t) count;

struct core_condition *core_condition_create(void)
{
	return calloc(1, sizeof(struct core_condition));
}

void core_condition_add(struct core_condition *condition, uint64_t handle, const struct vg_graph_definition *definition)
{
	condition->handle = handle;
	condition->definition = definition;
	vg_mutex_lock(&lock);
	condition->next = conditions;
	conditions = condition;
	count++;
	vg_mutex_unlock(&lock);
}

void core_conditions_remove(const struct vg_graph_definition *root)
{
	if (!count)
		return;
	vg_mutex_lock(&lock);
	for (struct core_condition **link = &conditions; *link;) {
		struct core_condition *condition = *link;
		if (condition->definition->root != root) {
			link = &condition->next;
			continue;
		}
		*link = condition->next;
		free(condition);
		count--;
	}
	vg_mutex_unlock(&lock);
}

// Finds the graph definition for which a condition was created. If several conditions have this handle, prefers the one
// of a definition inside `root`. Returns NULL for a condition that this library did not create.
static const struct vg_graph_definition *find_definition(uint64_t handle, const struct vg_graph_definition *root)
{
	const struct vg_graph_definition *definition = NULL;

	vg_mutex_lock(&lock);
	for (const struct core_condition *condition = conditions; condition; condition = condition->next)
		if (condition->handle == handle && (!definition || condition->definition->root == root))
			definition = condition->definition;
	vg_mutex_unlock(&lock);
	return definition;
}

enum vg_status core_condition_check(const struct vg_graph_definition *definition, uint64_t handle, const char *what)
{
	const struct vg_graph_definition *owner = count ? find_definition(handle, definition->root) : NULL;

	if (!owner || owner->root == definition->root)
		return VG_OK;
	return vg_fail(VG_INVALID, 0,
		       "%s is condition 0x%" PRIx64 " of graph definition %p, and the node is of graph definition %p: "
		       "create a condition of that one",
		       what, handle, (const void *)owner, (const void *)definition);
}
