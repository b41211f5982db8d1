// Runs the operations of virtual GPUs (products, convolutions and others) as kernels on a stream of the device's
// primary context. A set holds the loaded kernels of a device, a plan the launches of one operation. Any number of
// threads may use a set or a plan at once. No thread may use a set or a plan while it is destroyed.
#pragma once
#include "virgate/context.h"
#include "virgate/operation.h"
#include "virgate/stream.h"

#include <stdbool.h>

enum operation_provider { OPERATION_CUBLASLT, OPERATION_CUDNN, OPERATION_PORTABLE };

struct operation_set;
struct operation_plan;

struct operation_rules {
	bool no_tensor_cores, no_mixed_precision; // as in include/virgate/operation.h
	bool no_workspace;			  // use only algorithms without workspace
	bool portable;				  // use only this library's own kernels, which need no workspace
};

// The ranges of memory that each run of a plan uses. `name` is the name that the range has in the operation's
// description.
struct operation_ranges {
	struct {
		vg_address address;
		uint64_t bytes;
		bool write;
		const char *name;
	} range[4];
	unsigned count;
};

// Creates a set: loads this library's kernels, and retains the context. NVIDIA's libraries are loaded at their first
// use. Fails with INVALID, CLOSED, NO_MEMORY or DRIVER.
enum vg_status operation_set_create(struct vg_context *context, struct operation_set **ret_set);
// Destroys a set. Accepts NULL. All runs must have ended.
void operation_set_destroy(struct operation_set *set);
// Returns NULL if a provider (cuBLASLt, cuDNN or this library's own kernels) is available. Otherwise returns a text
// that says why not, which is valid as long as the set exists. Loads the provider's library if needed.
const char *operation_set_lacks(struct operation_set *set, enum operation_provider provider);

// Checks a description, and chooses the algorithm. Fails with INVALID (the message names the field), UNSUPPORTED (not
// possible within the rules), NO_MEMORY or DRIVER.
enum vg_status operation_plan_matrix_multiply(struct operation_set *set, const struct vg_matrix_multiply *description,
					      struct operation_rules rules, struct operation_plan **ret_plan);
enum vg_status operation_plan_convolution(struct operation_set *set, const struct vg_convolution *description,
					  struct operation_rules rules, struct operation_plan **ret_plan);
enum vg_status operation_plan_activation(struct operation_set *set, const struct vg_activation *description,
					 struct operation_rules rules, struct operation_plan **ret_plan);
void operation_plan_destroy(struct operation_plan *plan);

void operation_plan_ranges(const struct operation_plan *plan, struct operation_ranges *ret_ranges);
// Returns how many bytes of device memory (workspace) each run needs, aligned to 256; 0: none.
size_t operation_plan_workspace(const struct operation_plan *plan);
enum operation_provider operation_plan_provider(const struct operation_plan *plan);
// Returns a description of the chosen library and its algorithm, such as "cuBLASLt, algorithm 66, tile 128x256".
const char *operation_plan_says(const struct operation_plan *plan);

// Submits the operation to a stream of the context, or of a green context of the same device, also during a capture.
// Does not wait. The plan may be destroyed directly afterwards. Fails with INVALID (another device's stream, no
// workspace), CLOSED or DRIVER.
enum vg_status operation_plan_run(struct operation_plan *plan, struct vg_stream *stream, vg_address workspace);
