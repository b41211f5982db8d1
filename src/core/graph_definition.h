// Declares the graph definition and graph node objects. Only one thread at a time may use a definition.
//
// A definition that the program created or captured is the root of a tree. Its conditional and child graph nodes have
// definitions of their own. These live as long as the root and are not reference-counted.
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
	struct vg_graph_node *next; // next node in the hash bucket, or in the list of removed nodes
	CUgraphNode handle;	    // NULL: the node was removed
	CUgraphNodeType type;
	uint64_t mark;		      // number of the last list that contained this node; see core_graph_check_list()
	struct core_graph_keep *keep; // references of the node; the root graph owns them; NULL: the node needs none
	// The definitions inside the node: one for a child graph node. For a conditional node that this library
	// created, one for each body.
	struct vg_graph_definition **inner;
	unsigned inner_count;
	struct vg_graph_condition condition; // set for a conditional node that this library created
	int condition_type;		     // CUgraphConditionalNodeType; -1: unknown
};

struct vg_graph_definition {
	struct core_object object;	  // counts the references; used in a root definition only
	struct vg_graph_definition *root; // root of the tree; a root points to itself
	struct vg_context *context;	  // the root owns a reference
	CUgraph handle;			  // NULL: the graph's node was removed
	bool capturing;			  // true: a builder captures into this definition
	struct vg_graph_node **buckets;	  // hash table of the nodes by handle
	size_t bucket_count, node_count;
	struct vg_graph_node *removed;

	// The members below are set in a root only.
	unsigned captures; // number of graph builders that capture work into this root or into definitions inside it
	bool lost;	   // true: a capture failed, and the driver destroyed this graph or the body of a node in it
	uint64_t mark;	   // number of the last list of nodes that the program passed
	bool copied;	   // true: an executable graph needs the references of all nodes, even of removed ones
};

// Returns VG_OK if the definition can be used. Otherwise returns INVALID (it is NULL), CLOSED (it was closed, or its
// node was removed) or STATE (the driver destroyed a graph of its tree).
enum vg_status core_graph_check(const struct vg_graph_definition *definition, const char *name);
enum vg_status core_graph_node_check(const struct vg_graph_node *node, const char *name);
// Checks a node like core_graph_node_check(), and also returns INVALID for a node of another type.
enum vg_status core_graph_node_check_type(const struct vg_graph_node *node, CUgraphNodeType type);
// Returns the name of a node type for messages, such as "event wait".
const char *core_graph_type_name(CUgraphNodeType type);
// Checks the definition, and copies the parameters of a node with vg_options_copy(). The parameters must not be NULL.
enum vg_status core_graph_options(const struct vg_graph_definition *definition, void *copy, size_t size,
				  const void *options, const char *name);

// Creates the definition of a graph that is inside a node of `outer` and that the driver owns. NULL: out of memory.
struct vg_graph_definition *core_graph_create_inner(struct vg_graph_definition *outer, CUgraph handle);
// Frees the definition with its nodes and all definitions inside. Does not destroy the driver's handles.
void core_graph_free(struct vg_graph_definition *definition);
// Records that the driver destroyed the definition's graph, because a capture into it failed. After that, no driver
// call may use any graph of the same root.
void core_graph_mark_lost(struct vg_graph_definition *definition);
// Releases the references of a node that the driver has removed, and those of all nodes inside that node.
void core_graph_node_drop(struct vg_graph_node *node);

// Creates the object of a node that the driver has just added.
void core_graph_register(struct vg_graph_definition *definition, struct vg_graph_node *node, CUgraphNode handle,
			 CUgraphNodeType type);
// Finds the object of a node of the definition, or creates the object.
enum vg_status core_graph_find_node(struct vg_graph_definition *definition, CUgraphNode handle,
				    struct vg_graph_node **ret_node);
// Finds or creates the objects of several nodes. On failure writes nothing.
enum vg_status core_graph_find_nodes(struct vg_graph_definition *definition, const CUgraphNode *handles, size_t count,
				     struct vg_graph_node **ret_nodes);
// Checks the program's list of nodes: each must be in the definition, and none may occur twice. Numbers the list:
// `mark` of the root and of all nodes in the list becomes the next number.
enum vg_status core_graph_check_list(struct vg_graph_definition *definition, struct vg_graph_node *const *nodes,
				     size_t count, CUgraphNode *ret_handles);

// The parameters of a node to be added, or new ones of an existing node.
struct core_graph_spec {
	CUgraphNodeParams native;
	struct core_graph_keep *keep; // references that the node needs; NULL: none
	const char *asked;	      // added to the error if the driver fails; may be NULL
};
void core_graph_spec_finish(struct core_graph_spec *spec);
// Adds a node to the graph. Consumes spec->keep, also on failure. `ret_node` may be NULL.
enum vg_status core_graph_add(struct vg_graph_definition *definition, struct vg_graph_node *const *after, size_t count,
			      struct core_graph_spec *spec, struct vg_graph_node **ret_node);
// Adds a node, with dependencies given as the driver's handles and the data of the edges. Consumes spec->keep unless it
// fails before the driver call.
enum vg_status core_graph_add_native(struct vg_graph_definition *definition, const CUgraphNode *after,
				     const CUgraphEdgeData *data, size_t count, struct core_graph_spec *spec,
				     struct vg_graph_node **ret_node);

// Removes a node that was just added, after a later step failed. Keeps the last error.
void core_graph_remove_added(struct vg_graph_node *node);

// Sets new parameters of a node. Consumes spec->keep, also on failure.
enum vg_status core_graph_node_set(struct vg_graph_node *node, struct core_graph_spec *spec);

// ---- nodes that a builder adds as well ----------------------------------------------------------

enum vg_status core_graph_describe_host(void (*callback)(void *data), const void *data, size_t size,
					struct core_graph_spec *ret_spec);
enum vg_status core_graph_describe_child(const struct vg_graph_definition *definition,
					 struct vg_graph_definition *child, struct core_graph_spec *ret_spec);
// Returns the status for a child graph that could not be added. Sets a better error if the nodes of that graph are the
// reason.
enum vg_status core_graph_explain_child(struct vg_graph_definition *child, enum vg_status status);

// A conditional node to be added. Call core_graph_conditional_init() first, which does everything that can fail in this
// library. Then add the node with `spec`. Then call added() on success, and finish() on failure.
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
