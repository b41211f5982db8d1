// How long a launch may take, from how long ones like it took. Only what is put into a quantum goes by it.
//
// A table of fixed size: nothing is allocated, and nothing is kept of what was unregistered but a number. Where it is
// full the one goes that was not asked for for longest.
#include "compute/quantum.h"

enum {
	PLACES = 8,	     // in which a kernel with its grid may stand
	UNKNOWN_NS = 4000000 // a whole quantum's: the first one is measured by itself
};
static const double weight = 0.25; // of the last measurement

static struct compute_shape *claim(struct vg_compute *compute, uint64_t hash)
{
	struct compute_shape *oldest = NULL;

	for (uint64_t i = 0; i < PLACES; i++) {
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
	return claim(compute, hash)->checked;
}

void compute_estimate_checked(struct vg_compute *compute, uint64_t hash)
{
	claim(compute, hash)->checked = true;
}

bool compute_estimate(struct vg_compute *compute, const struct vg_execution *execution, uint64_t *ret_ns)
{
	const struct compute_shape *shape = claim(compute, execution->shape);

	*ret_ns = shape->ns > 0 ? (uint64_t)shape->ns + 1 : UNKNOWN_NS;
	return shape->ns > 0;
}

// Several kinds in one quantum share the error among them, each according to its part.
void compute_estimate_learn(struct vg_compute *compute, const struct compute_quantum *quantum, uint64_t measured_ns)
{
	if (!quantum->estimate || !quantum->launches)
		return;
	double ratio = (double)measured_ns / (double)quantum->estimate;
	for (unsigned i = 0; i < quantum->kinds; i++) {
		struct compute_shape *shape = claim(compute, quantum->kind[i]);
		double old = shape->ns > 0 ? shape->ns : UNKNOWN_NS;
		double seen = quantum->kinds == 1 ? (double)measured_ns / quantum->launches : old * ratio;
		shape->ns = shape->ns > 0 ? old + weight * (seen - old) : seen;
		if (shape->ns < 1)
			shape->ns = 1;
	}
}
