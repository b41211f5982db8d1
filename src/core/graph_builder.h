// The graph builder object. One thread at a time for a builder together with all that were split off from it.
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
	// The builder that began the capture: this one itself, or one that it was split off from (owns a reference).
	struct vg_graph_builder *origin;
	bool body;   // fills the body of a conditional node
	bool joined; // was split off, and joined again
	struct vg_graph_builder *next_fork;

	// The rest is set for an origin only.
	enum core_builder_state state;
	enum vg_graph_capture_mode mode;
	pthread_t thread;			// that began the capture
	struct vg_graph_definition *definition; // owns a reference to its root; NULL: not begun
	unsigned unjoined;			// builders that were split off and not joined
	struct vg_graph_builder *forks; // owns references until the capture ends, since their streams take part in it
	const struct core_object *kept; // by the last core_builder_keep()
};

// Creates a builder on the stream, with a reference of its own. NULL: no memory, and *ret_status is set.
struct vg_graph_builder *core_builder_new(struct vg_stream *stream, enum vg_status *ret_status);
// VG_OK while the builder is building; else INVALID, CLOSED or STATE, with "the graph builder " and `needed` as text.
enum vg_status core_builder_check(const struct vg_graph_builder *builder, const char *needed);
// Adds a node that depends on what the stream has captured so far; what is captured next depends on the node. Consumes
// spec->keep, also on failure. `ret_node` may be NULL.
enum vg_status core_builder_append(struct vg_graph_builder *builder, struct core_graph_spec *spec,
				   struct vg_graph_node **ret_node);
// Keeps the object alive as long as the graph that is being captured and its executables. Functions that queue work on
// a builder's stream call this for objects that the driver does not keep itself.
enum vg_status core_builder_keep(struct vg_graph_builder *builder, struct core_object *object);
