// Estimates a launch's duration from earlier launches. Only the length of quanta uses the estimate. The table has a
// fixed size, so nothing is allocated. It stores only hashes of kernels, so a kernel can be unregistered. A full bucket
// replaces the entry that was unused for longest.
#include "compute/quantum.h"

enum {
	BUCKET = 8,	     // number of entries in which a hash may be stored
	UNKNOWN_NS = 4000000 // 4 ms, a whole quantum: so a kernel's first launch is measured alone
};
static const double weight = 0.25; // weight of the latest measurement

static struct compute_shape *find_shape(struct vg_compute *compute, uint64_t hash)
{
	struct compute_shape *oldest = NULL;

	for (uint64_t i = 0; i < BUCKET; i++) {
		struct compute_shape *shape = &compute->shapes[((hash ^ hash >> 32) + i) % COMPUTE_SHAPES];
		if (shape->hash == hash) {
			shape->asked = ++compute->asked;
			return shape;
		}
		if (!oldest || shape->asked < oldest->asked)
			oldest = shape;
	}
	*oldest = (struct compute_shape){.hash = hash, .asked = ++compute->asked};
	return oldest;
}

bool compute_estimate_is_checked(struct vg_compute *compute, uint64_t hash)
{
	return find_shape(compute, hash)->checked;
}

void compute_estimate_checked(struct vg_compute *compute, uint64_t hash)
{
	find_shape(compute, hash)->checked = true;
}

bool compute_estimate(struct vg_compute *compute, const struct vg_execution *execution, uint64_t *ret_ns)
{
	const struct compute_shape *shape = find_shape(compute, execution->shape);

	*ret_ns = shape->ns > 0 ? (uint64_t)shape->ns + 1 : UNKNOWN_NS;
	return shape->ns > 0;
}

// Corrects the estimates of all kinds of launches in the quantum. Divides the difference between the estimated and the
// measured time among them, in proportion to their estimates.
void compute_estimate_learn(struct vg_compute *compute, const struct compute_quantum *quantum, uint64_t measured_ns)
{
	if (!quantum->estimate || !quantum->launches)
		return;
	double ratio = (double)measured_ns / (double)quantum->estimate;
	for (unsigned i = 0; i < quantum->kinds; i++) {
		struct compute_shape *shape = find_shape(compute, quantum->kind[i]);
		double old = shape->ns > 0 ? shape->ns : UNKNOWN_NS;
		double seen = quantum->kinds == 1 ? (double)measured_ns / quantum->launches : old * ratio;
		shape->ns = shape->ns > 0 ? old + weight * (seen - old) : seen;
		if (shape->ns < 1)
			shape->ns = 1;
	}
}
