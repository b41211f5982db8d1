// Graph definitions and their nodes, as this room sees them. One thread at a time per definition.
//
// A definition that the program made or captured is the root of a tree: its conditional and child graph nodes
// have definitions of their own, which live as long as the root and share its references.
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
	struct vg_graph_node *next; // in its bucket, or among the removed
	CUgraphNode handle;	    // NULL: removed
	CUgraphNodeType type;
	uint64_t mark;		      // of the last list it was named in
	struct core_graph_keep *keep; // the root graph's; NULL: needs nothing
	// Definitions inside it: of a child graph, one; of a conditional that we made, its bodies.
	struct vg_graph_definition **inner;
	unsigned inner_count;
	struct vg_graph_condition condition; // of a conditional node that we made
	int condition_type;		     // CUgraphConditionalNodeType; -1: not known
};

struct vg_graph_definition {
	struct core_object object;	  // of a root; others have no references of their own
	struct vg_graph_definition *root; // itself, or the tree's
	struct vg_context *context;	  // held by the root
	CUgraph handle;			  // NULL: gone with its node
	bool capturing;			  // a builder is at work on it
	unsigned captures;		  // of a root: builders at work in its tree
	bool lost;			  // of a root: the driver destroyed it, or a body of it, with a spoilt capture
	uint64_t mark;			  // of a root: the last one given out
	bool copied;			  // of a root: an executable's copy relies on what nodes need, removed ones too
	struct vg_graph_node **buckets;	  // by handle
	size_t bucket_count, node_count;
	struct vg_graph_node *removed;
};

// VG_OK, or INVALID for NULL, or CLOSED.
enum vg_status core_graph_check(const struct vg_graph_definition *definition, const char *name);
enum vg_status core_graph_node_check(const struct vg_graph_node *node, const char *name);
// Likewise, and INVALID for a node of another kind.
enum vg_status core_graph_node_check_type(const struct vg_graph_node *node, CUgraphNodeType type);
// As messages say it: "event wait".
const char *core_graph_type_name(CUgraphNodeType type);
// CORE_OPTIONS for what a node of `definition` shall be, which must be there.
enum vg_status core_graph_options(const struct vg_graph_definition *definition, void *copy, size_t size,
				  const void *options, const char *name);

// A definition inside a node of `outer`, for a graph that the driver owns. NULL: no memory.
struct vg_graph_definition *core_graph_inner(struct vg_graph_definition *outer, CUgraph handle);
// It and everything in it, as objects: the driver's handles are left alone.
void core_graph_free(struct vg_graph_definition *definition);
// The definition's graph went with a capture into it that failed, which the driver destroys: no call may touch the
// tree any more.
void core_graph_lost(struct vg_graph_definition *definition);
// The node went, and with it what is inside.
void core_graph_node_gone(struct vg_graph_node *node);

// `node` is the object of a node that was just made.
void core_graph_register(struct vg_graph_definition *definition, struct vg_graph_node *node, CUgraphNode handle,
			 CUgraphNodeType type);
// The object of a node of the definition, which gets one if it has none yet.
enum vg_status core_graph_node_of(struct vg_graph_definition *definition, CUgraphNode handle,
				  struct vg_graph_node **ret_node);
// Objects for handles: all of them, or none is written.
enum vg_status core_graph_nodes_of(struct vg_graph_definition *definition, const CUgraphNode *handles, size_t count,
				   struct vg_graph_node **ret_nodes);
// The program's list of nodes, checked: all of the definition, each once. They then have the root's mark.
enum vg_status core_graph_list(struct vg_graph_definition *definition, struct vg_graph_node *const *nodes, size_t count,
			       CUgraphNode *ret_handles);

// A node to be made, or new parameters of one.
struct core_graph_spec {
	CUgraphNodeParams native;
	struct core_graph_keep *keep; // NULL: needs nothing
	const char *asked;	      // what to say if the driver refuses; NULL: nothing
};
void core_graph_spec_finish(struct core_graph_spec *spec);
// Adds the node and takes spec->keep, also on failure. `ret_node` may be NULL.
enum vg_status core_graph_add(struct vg_graph_definition *definition, struct vg_graph_node *const *after, size_t count,
			      struct core_graph_spec *spec, struct vg_graph_node **ret_node);
// The same for a capture's own list, edges' data included, which takes spec->keep only when it comes to the driver.
enum vg_status core_graph_add_native(struct vg_graph_definition *definition, const CUgraphNode *after,
				     const CUgraphEdgeData *data, size_t count, struct core_graph_spec *spec,
				     struct vg_graph_node **ret_node);

// Removes what was just added, after a failure, whose error stays.
void core_graph_undo(struct vg_graph_node *node);

// New parameters for a node of that kind. Takes spec->keep, also on failure.
enum vg_status core_graph_node_set(struct vg_graph_node *node, struct core_graph_spec *spec);

// ---- what a builder adds as well -------------------------------------------------------------

enum vg_status core_graph_host_spec(void (*callback)(void *data), const void *data, size_t size,
				    struct core_graph_spec *ret_spec);
enum vg_status core_graph_child_spec(const struct vg_graph_definition *definition, struct vg_graph_definition *child,
				     struct core_graph_spec *ret_spec);
// What to answer when a child graph was not added: why, if it is the child's nodes.
enum vg_status core_graph_child_failed(struct vg_graph_definition *child, enum vg_status status);

// A conditional node to be made: first everything that can fail here, then the node, then
// core_graph_conditional_added().
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
