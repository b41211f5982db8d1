// How long a launch may take, from how long ones like it took. Only what is put into a quantum goes by it.
//
// A table in which each kernel with its grid has one place, that others may take: nothing is allocated, and nothing is
// kept of what was unregistered but a number.
#include "compute/quantum.h"

enum { UNKNOWN_NS = 500000 };
static const double weight = 0.25; // of the last measurement

uint64_t compute_hash(const void *bytes, size_t size, uint64_t from)
{
	const unsigned char *at = bytes;
	uint64_t hash = from ? from : 14695981039346656037u;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ at[i]) * 1099511628211u;
	return hash ? hash : 1;
}

static struct compute_shape *shape_of(const struct vg_compute *compute, uint32_t index, uint64_t hash)
{
	const struct compute_shape *shape = &compute->shapes[index];

	return shape->hash == hash ? (struct compute_shape *)shape : NULL;
}

bool compute_estimate_find(struct vg_compute *compute, struct vg_execution *execution, uint64_t hash)
{
	execution->shape = (uint32_t)((hash ^ hash >> 32) % COMPUTE_SHAPES);
	execution->shape_hash = hash;
	const struct compute_shape *shape = shape_of(compute, execution->shape, hash);
	return shape && shape->checked;
}

static struct compute_shape *claim(struct vg_compute *compute, uint32_t index, uint64_t hash)
{
	struct compute_shape *shape = &compute->shapes[index];

	if (shape->hash != hash)
		*shape = (struct compute_shape){.hash = hash};
	return shape;
}

void compute_estimate_checked(struct vg_compute *compute, const struct vg_execution *execution)
{
	claim(compute, execution->shape, execution->shape_hash)->checked = true;
}

uint64_t compute_estimate(const struct vg_compute *compute, const struct vg_execution *execution)
{
	const struct compute_shape *shape = shape_of(compute, execution->shape, execution->shape_hash);

	return shape && shape->ns > 0 ? (uint64_t)shape->ns + 1 : UNKNOWN_NS;
}

// Several kinds in one quantum share the error among them, each according to its part.
void compute_estimate_learn(struct vg_compute *compute, const struct compute_quantum *quantum, uint64_t measured_ns)
{
	if (!quantum->estimate || !quantum->launches)
		return;
	double ratio = (double)measured_ns / (double)quantum->estimate;
	for (unsigned i = 0; i < quantum->kinds; i++) {
		struct compute_shape *shape = claim(compute, quantum->kind[i].shape, quantum->kind[i].hash);
		double old = shape->ns > 0 ? shape->ns : UNKNOWN_NS;
		double seen = quantum->kinds == 1 ? (double)measured_ns / quantum->launches : old * ratio;
		shape->ns = shape->ns > 0 ? old + weight * (seen - old) : seen;
		if (shape->ns < 1)
			shape->ns = 1;
	}
}
