// Graph builders, as this room sees them. One thread at a time for a builder with all that were split off.
#pragma once
#include <pthread.h>

#include "core/graph_definition.h"
#include "core/object.h"
#include "virgate/graph_builder.h"

enum core_builder_state {
	CORE_BUILDER_NEW,
	CORE_BUILDER_BUILDING,
	CORE_BUILDER_ENDED,
	CORE_BUILDER_FAILED, // the capture was spoilt: there is no graph
};

struct vg_graph_builder {
	struct core_object object;
	struct vg_stream *stream;		// held
	struct vg_graph_builder *origin;	// that began the capture: itself, or held by one split off
	enum core_builder_state state;		// of an origin
	enum vg_graph_capture_mode mode;	// likewise, as the next
	pthread_t thread;			// that began the capture
	struct vg_graph_definition *definition; // of an origin: its root is held; NULL: not begun
	bool body;				// fills the body of a conditional node
	bool joined;				// of one split off
	unsigned unjoined;			// of an origin: split off and not joined
	struct vg_graph_builder *forks; // of an origin: held until the capture ends, for their streams take part in it
	struct vg_graph_builder *next_fork;
	const struct core_object *kept; // of an origin: what was kept last
};

// A builder on the stream, which it retains.
struct vg_graph_builder *core_builder_new(struct vg_stream *stream, enum vg_status *ret_status);
// VG_OK while the builder is building; else INVALID, CLOSED or STATE, with `needed` as the end of the sentence.
enum vg_status core_builder_building(const struct vg_graph_builder *builder, const char *needed);
// Adds a node behind what the stream captured so far; what is captured next comes behind it. Takes spec->keep.
enum vg_status core_builder_append(struct vg_graph_builder *builder, struct core_graph_spec *spec,
				   struct vg_graph_node **ret_node);
// Keeps the object as long as the graph that is being captured and its executables. What is queued on a builder's
// stream calls it for what the driver does not keep itself.
enum vg_status core_builder_keep(struct vg_graph_builder *builder, struct core_object *object);
