// Operations on a stream of a device's primary context, for virtual GPUs. A set is used from any thread, a plan too,
// and by several at once; whoever destroys either has nobody in it any more.
#pragma once
#include "virgate/context.h"
#include "virgate/operation.h"
#include "virgate/stream.h"

#include <stdbool.h>

enum operation_provider { OPERATION_CUBLASLT, OPERATION_CUDNN, OPERATION_PORTABLE };

struct operation_set;
struct operation_plan;

struct operation_rules {
	bool no_tensor_cores, no_mixed_precision; // as include/virgate/operation.h has them
	bool no_workspace;			  // only what needs none
	bool portable;				  // this library's own kernels and no other, which need none either
};

// The memory that each run of a plan touches; `name` as the description has it.
struct operation_ranges {
	struct {
		vg_address address;
		uint64_t bytes;
		bool write;
		const char *name;
	} range[4];
	unsigned count;
};

// Loads this library's kernels into the context, which is held; NVIDIA's libraries when they are first wanted. INVALID,
// CLOSED, NO_MEMORY, DRIVER.
enum vg_status operation_set_create(struct vg_context *context, struct operation_set **ret_set);
// NULL is fine. What runs has ended before.
void operation_set_destroy(struct operation_set *set);
// Why no plan will be a provider's, in a sentence that lasts as long as the set; NULL if some may. Loads it if it was
// not.
const char *operation_set_lacks(struct operation_set *set, enum operation_provider provider);

// Checks a description and decides how it will be done. INVALID (a sentence says which field), UNSUPPORTED (the rules
// leave nothing), NO_MEMORY, DRIVER.
enum vg_status operation_plan_matrix_multiply(struct operation_set *set, const struct vg_matrix_multiply *description,
					      struct operation_rules rules, struct operation_plan **ret_plan);
enum vg_status operation_plan_convolution(struct operation_set *set, const struct vg_convolution *description,
					  struct operation_rules rules, struct operation_plan **ret_plan);
enum vg_status operation_plan_activation(struct operation_set *set, const struct vg_activation *description,
					 struct operation_rules rules, struct operation_plan **ret_plan);
void operation_plan_destroy(struct operation_plan *plan);

void operation_plan_ranges(const struct operation_plan *plan, struct operation_ranges *ret_ranges);
// Bytes of device memory that each run needs, at an address that is a multiple of 256; 0: none.
size_t operation_plan_workspace(const struct operation_plan *plan);
enum operation_provider operation_plan_provider(const struct operation_plan *plan);
// The provider and what of it was chosen, such as "cuBLASLt, algorithm 66, tile 128x256".
const char *operation_plan_says(const struct operation_plan *plan);

// Queues it on a stream of the context or of a green one of its device, also one that is captured, and does not wait.
// The plan may go as soon as this returns. INVALID (another device's stream, no workspace), CLOSED, DRIVER.
enum vg_status operation_plan_run(struct operation_plan *plan, struct vg_stream *stream, vg_address workspace);
