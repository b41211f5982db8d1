// Declares the graph builder object. Only one thread at a time may use a builder and all builders split off from it.
#pragma once
#include <pthread.h>

#include "core/graph_definition.h"
#include "core/object.h"
#include "virgate/graph_builder.h"

enum core_builder_state {
	CORE_BUILDER_NEW,
	CORE_BUILDER_BUILDING,
	CORE_BUILDER_ENDED,
	CORE_BUILDER_FAILED, // the capture was invalidated: there is no graph
};

struct vg_graph_builder {
	struct core_object object;
	struct vg_stream *stream; // owns a reference
	// The origin, which began the capture: this builder itself, or the one it was split off from (owns a
	// reference).
	struct vg_graph_builder *origin;
	bool body;   // true: this builder fills the body of a conditional node
	bool joined; // true: this builder was split off and then joined, so another builder waits for its work
	struct vg_graph_builder *next_fork;

	// The members below are used only in an origin: a builder that began a capture.
	enum core_builder_state state;
	enum vg_graph_capture_mode mode;
	pthread_t thread; // the thread that began the capture
	// The graph that is being captured. The origin owns a reference to its root. NULL: no capture was begun.
	struct vg_graph_definition *definition;
	unsigned unjoined;		// number of builders that were split off and not joined
	struct vg_graph_builder *forks; // builders split off; owns references until the capture ends
	const struct core_object *kept; // the last object given to core_builder_keep(), which is not kept twice
};

// Creates a builder on the stream, and retains the stream. Returns NULL and sets *ret_status if out of memory.
struct vg_graph_builder *core_builder_new(struct vg_stream *stream, enum vg_status *ret_status);
// Returns VG_OK while the builder is capturing a graph. Otherwise returns INVALID, CLOSED or STATE. The text of a STATE
// error is "the graph builder " followed by `needed`.
enum vg_status core_builder_check(const struct vg_graph_builder *builder, const char *needed);
// Adds a node that depends on all work that the stream has captured so far. Work captured later depends on the node.
// Consumes spec->keep, also on failure. `ret_node` may be NULL.
enum vg_status core_builder_append(struct vg_graph_builder *builder, struct core_graph_spec *spec,
				   struct vg_graph_node **ret_node);
// Keeps the object alive until the captured graph and all executable graphs made from it are destroyed. Functions that
// queue work on a builder's stream call this for objects that the driver does not keep itself.
enum vg_status core_builder_keep(struct vg_graph_builder *builder, struct core_object *object);
