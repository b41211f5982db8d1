// The graph definition and graph node objects. One thread at a time for each definition.
//
// A definition that the program created or captured is the root of a tree: its conditional and child graph nodes have
// definitions of their own, which live as long as the root and have no references of their own.
#pragma once
#include <stddef.h>

#include "core/context.h"
#include "core/error.h"
#include "core/graph_keep.h"
#include "core/object.h"
#include "virgate/graph_definition.h"
#include "virgate/graph_node.h"

struct vg_graph_node {
	struct vg_graph_definition *definition;
	struct vg_graph_node *next; // in its bucket, or in the list of removed nodes
	CUgraphNode handle;	    // NULL: removed
	CUgraphNodeType type;
	uint64_t mark;		      // of the last list of nodes that contained it
	struct core_graph_keep *keep; // owned by the root graph; NULL: the node needs none
	// The definitions inside it: one of a child graph node, the bodies of a conditional node created by this
	// library.
	struct vg_graph_definition **inner;
	unsigned inner_count;
	struct vg_graph_condition condition; // of a conditional node created by this library
	int condition_type;		     // CUgraphConditionalNodeType; -1: unknown
};

struct vg_graph_definition {
	struct core_object object;	  // used in a root only
	struct vg_graph_definition *root; // of the tree; a root points to itself
	struct vg_context *context;	  // the root owns a reference
	CUgraph handle;			  // NULL: its node was removed
	bool capturing;			  // a builder captures into it
	struct vg_graph_node **buckets;	  // by handle
	size_t bucket_count, node_count;
	struct vg_graph_node *removed;

	// The rest is set in a root only.
	unsigned captures; // builders that capture into its tree
	bool lost;	   // the driver destroyed it, or a body of it, with an invalidated capture
	uint64_t mark;	   // the last one given to a list of nodes
	bool copied;	   // an executable has a copy that needs the references of its nodes, removed ones too
};

// INVALID for NULL, CLOSED, or STATE for one that the driver destroyed.
enum vg_status core_graph_check(const struct vg_graph_definition *definition, const char *name);
enum vg_status core_graph_node_check(const struct vg_graph_node *node, const char *name);
// The same, and INVALID for a node of another type.
enum vg_status core_graph_node_check_type(const struct vg_graph_node *node, CUgraphNodeType type);
// Returns the name for messages, such as "event wait".
const char *core_graph_type_name(CUgraphNodeType type);
// Checks the definition, and copies the parameters of a node as vg_options_copy() does. They may not be NULL.
enum vg_status core_graph_options(const struct vg_graph_definition *definition, void *copy, size_t size,
				  const void *options, const char *name);

// Creates the definition inside a node of `outer`, for a graph that the driver owns. NULL: no memory.
struct vg_graph_definition *core_graph_create_inner(struct vg_graph_definition *outer, CUgraph handle);
// Frees the definition with its nodes and the definitions inside them. The driver's handles are left alone.
void core_graph_free(struct vg_graph_definition *definition);
// Notes that the driver destroyed the definition's graph, because a capture into it failed: no driver call may use the
// tree any more.
void core_graph_mark_lost(struct vg_graph_definition *definition);
// Drops the references of a node that the driver has removed, and those of the nodes inside it.
void core_graph_node_drop(struct vg_graph_node *node);

// Enters the object of a node that the driver has just added.
void core_graph_register(struct vg_graph_definition *definition, struct vg_graph_node *node, CUgraphNode handle,
			 CUgraphNodeType type);
// Finds the object of a node of the definition; creates it if it does not exist yet.
enum vg_status core_graph_find_node(struct vg_graph_definition *definition, CUgraphNode handle,
				    struct vg_graph_node **ret_node);
// The same for several handles. On failure nothing is written.
enum vg_status core_graph_find_nodes(struct vg_graph_definition *definition, const CUgraphNode *handles, size_t count,
				     struct vg_graph_node **ret_nodes);
// Checks the program's list of nodes: all of the definition, each once. They have the root's mark afterwards.
enum vg_status core_graph_check_list(struct vg_graph_definition *definition, struct vg_graph_node *const *nodes,
				     size_t count, CUgraphNode *ret_handles);

// The parameters of a node to be added, or new ones of an existing node.
struct core_graph_spec {
	CUgraphNodeParams native;
	struct core_graph_keep *keep; // NULL: the node needs none
	const char *asked;	      // added to the error if the driver refuses; may be NULL
};
void core_graph_spec_finish(struct core_graph_spec *spec);
// Adds the node. Consumes spec->keep, also on failure. `ret_node` may be NULL.
enum vg_status core_graph_add(struct vg_graph_definition *definition, struct vg_graph_node *const *after, size_t count,
			      struct core_graph_spec *spec, struct vg_graph_node **ret_node);
// The same with the driver's handles and the data of their edges. Consumes spec->keep unless it fails before it calls
// the driver.
enum vg_status core_graph_add_native(struct vg_graph_definition *definition, const CUgraphNode *after,
				     const CUgraphEdgeData *data, size_t count, struct core_graph_spec *spec,
				     struct vg_graph_node **ret_node);

// Removes a node that was just added, after a failure whose error is kept.
void core_graph_remove_added(struct vg_graph_node *node);

// Sets new parameters of a node. Consumes spec->keep, also on failure.
enum vg_status core_graph_node_set(struct vg_graph_node *node, struct core_graph_spec *spec);

// ---- nodes that a builder adds as well ----------------------------------------------------------

enum vg_status core_graph_describe_host(void (*callback)(void *data), const void *data, size_t size,
					struct core_graph_spec *ret_spec);
enum vg_status core_graph_describe_child(const struct vg_graph_definition *definition,
					 struct vg_graph_definition *child, struct core_graph_spec *ret_spec);
// Returns the status for a child graph that was not added, with a better error if its nodes are the reason.
enum vg_status core_graph_explain_child(struct vg_graph_definition *child, enum vg_status status);

// A conditional node to be added. init() does everything that can fail in this library. Then add the node with `spec`.
// Call added() on success and finish() on failure.
struct core_graph_conditional {
	struct core_graph_spec spec;
	struct vg_graph_condition condition;
	enum vg_graph_conditional_type type;
	unsigned count;
	struct vg_graph_definition **bodies;
};
enum vg_status core_graph_conditional_init(struct core_graph_conditional *conditional,
					   struct vg_graph_definition *definition, struct vg_graph_condition condition,
					   enum vg_graph_conditional_type type, unsigned count);
void core_graph_conditional_added(struct core_graph_conditional *conditional, struct vg_graph_node *node);
void core_graph_conditional_finish(struct core_graph_conditional *conditional);
