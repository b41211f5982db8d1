// Helpers for the tests of operations: tensors of every type on the host and the device, and checks that results
// deviate from the reference no more than they may.
#pragma once
#include "../core/memory_test.h"
#include "operation/operation.h"

#include <math.h>
#include <stdint.h>

struct traits {
	const char *name;
	size_t bytes;
	// the bits of the mantissa with the implicit one, and the least exponent of a normal number
	int mantissa, least;
	double greatest;
	// relative errors that are allowed for each term of a sum, for each factor, and for storing the result
	long double sum, product, half;
};

static inline const struct traits *traits_of(enum vg_element_type type)
{
	static const struct traits all[] = {
		[VG_F32] = {"f32", 4, 24, -126, 0x1.fffffep127, 0x1p-23L, 0, 0x1p-24L},
		[VG_TF32] = {"tf32", 4, 24, -126, 0x1.fffffep127, 0x1p-23L, 0x1p-9L, 0x1p-24L},
		[VG_F16] = {"f16", 2, 11, -14, 65504, 0x1p-23L, 0, 0x1p-11L},
		[VG_BF16] = {"bf16", 2, 8, -126, 0x1.fep127, 0x1p-23L, 0, 0x1p-8L},
		[VG_F64] = {"f64", 8, 53, -1022, 0x1.fffffffffffffp1023, 0x1p-52L, 0, 0x1p-53L},
	};
	return &all[type];
}

static const enum vg_element_type all_types[] = {VG_F32, VG_TF32, VG_F16, VG_BF16, VG_F64};
enum { TYPES = sizeof all_types / sizeof *all_types };

static inline double get(enum vg_element_type type, const void *data, size_t i)
{
	uint16_t bits;
	uint32_t wide;
	float f;

	if (type == VG_F64)
		return ((const double *)data)[i];
	if (type == VG_F32 || type == VG_TF32)
		return ((const float *)data)[i];
	memcpy(&bits, (const char *)data + 2 * i, 2);
	if (type == VG_BF16) {
		wide = (uint32_t)bits << 16;
		memcpy(&f, &wide, 4);
		return f;
	}
	int exponent = bits >> 10 & 31, fraction = bits & 1023;
	double value = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
				      : ldexp(exponent ? fraction + 1024 : fraction, (exponent ? exponent : 1) - 25);
	return bits >> 15 ? -value : value;
}

// Rounds to the nearest number of the type, ties to even.
static inline double rounded(enum vg_element_type type, double value)
{
	const struct traits *t = traits_of(type);
	int exponent;

	if (value == 0 || !isfinite(value) || type == VG_F64)
		return value;
	frexp(value, &exponent);
	exponent = (exponent - 1 < t->least ? t->least : exponent - 1) - t->mantissa + 1;
	double near = ldexp(nearbyint(ldexp(value, -exponent)), exponent);
	return fabs(near) > t->greatest ? copysign(INFINITY, near) : near;
}

static inline void put(enum vg_element_type type, void *data, size_t i, double value)
{
	double near = rounded(type, value);
	float f = (float)near;
	uint32_t wide;
	uint16_t bits;
	int exponent;

	if (type == VG_F64) {
		((double *)data)[i] = near;
		return;
	}
	if (type == VG_F32 || type == VG_TF32) {
		((float *)data)[i] = f;
		return;
	}
	memcpy(&wide, &f, 4);
	bits = (uint16_t)(wide >> 16);
	if (type == VG_F16) {
		double size = fabs(near);
		bits = (uint16_t)(signbit(near) ? 0x8000 : 0);
		if (isnan(near)) {
			bits |= 0x7e00;
		} else if (isinf(near)) {
			bits |= 0x7c00;
		} else if (size < 0x1p-14) {
			bits |= (uint16_t)ldexp(size, 24);
		} else {
			double fraction = frexp(size, &exponent);
			bits |= (uint16_t)((exponent + 14) << 10 | ((int)ldexp(fraction, 11) & 1023));
		}
	}
	memcpy((char *)data + 2 * i, &bits, 2);
}

// The state of noise(), which returns numbers from -1 to 1. The sequence is the same in each run.
static uint64_t noise_state = 88172645463325252u;
static inline double noise(void)
{
	noise_state ^= noise_state << 13;
	noise_state ^= noise_state >> 7;
	noise_state ^= noise_state << 17;
	return (double)(noise_state >> 11) * 0x1p-52 - 1;
}

// A tensor on the host and on the device. On the device, GUARD bytes of GUARD_BYTE stand before and after it.
enum { GUARD = 512, GUARD_BYTE = 0xa5 };
struct tensor {
	enum vg_element_type type;
	size_t count;
	void *host;
	struct vg_buffer *buffer;
	vg_address address;
};

// What a test uses: a device, a set of operations, and allocations on the device.
struct subject {
	struct bench bench;
	struct operation_set *set;
};

static inline struct subject open_subject(void)
{
	struct subject s = {.bench = open_bench()};

	OK(operation_set_create(s.bench.context, &s.set));
	return s;
}

static inline void close_subject(struct subject *s)
{
	operation_set_destroy(s->set);
	close_bench(&s->bench);
}

static inline void upload(struct subject *s, struct tensor *t)
{
	size_t bytes = t->count * traits_of(t->type)->bytes;

	OK(vg_buffer_fill_byte(t->buffer, GUARD_BYTE, s->bench.stream));
	OK(vg_buffer_write(t->buffer, GUARD, t->host, bytes, s->bench.stream));
	OK(vg_stream_sync(s->bench.stream));
}

static inline struct tensor make_tensor(struct subject *s, enum vg_element_type type, size_t count)
{
	struct tensor t = {.type = type, .count = count, .host = malloc(count * traits_of(type)->bytes)};

	for (size_t i = 0; i < count; i++)
		put(type, t.host, i, noise());
	OK(vg_buffer_create(s->bench.pool, count * traits_of(type)->bytes + 2 * GUARD, s->bench.stream, &t.buffer));
	t.address = vg_buffer_address(t.buffer) + GUARD;
	upload(s, &t);
	return t;
}

// Reads a tensor from the device. Fails the test if the bytes around it have changed.
static inline void *download(struct subject *s, const struct tensor *t)
{
	size_t bytes = t->count * traits_of(t->type)->bytes;
	uint8_t *all = malloc(bytes + 2 * GUARD);

	OK(vg_buffer_read(t->buffer, 0, all, bytes + 2 * GUARD, s->bench.stream));
	OK(vg_stream_sync(s->bench.stream));
	for (size_t i = 0; i < GUARD; i++)
		if (all[i] != GUARD_BYTE || all[GUARD + bytes + i] != GUARD_BYTE)
			FAIL("byte %zu %s the tensor has been written", i, all[i] != GUARD_BYTE ? "before" : "behind");
	memmove(all, all + GUARD, bytes);
	return all;
}

static inline void drop_tensor(struct tensor *t)
{
	vg_buffer_destroy(t->buffer);
	free(t->host);
}

// Runs the plan with its workspace, waits for its end, and destroys it.
static inline void run_plan(struct subject *s, struct operation_plan *plan)
{
	size_t size = operation_plan_workspace(plan);
	struct vg_buffer *workspace = NULL;

	if (size)
		OK(vg_buffer_create(s->bench.pool, size, s->bench.stream, &workspace));
	OK(operation_plan_run(plan, s->bench.stream, workspace ? vg_buffer_address(workspace) : 0));
	operation_plan_destroy(plan);
	OK(vg_stream_sync(s->bench.stream));
	vg_buffer_destroy(workspace);
}

// Fails unless `got` is near the reference `want`. It may deviate by `tolerance` and by rounding. If `want` is a NaN or
// infinity, `got` must be the same. Where `want` is near the type's greatest number, `got` may be infinity.
static inline void check_near(enum vg_element_type type, double got, long double want, long double tolerance,
			      const char *what, size_t at)
{
	const struct traits *t = traits_of(type);
	long double allowed = tolerance + fabsl(want) * t->half + ldexpl(1, t->least - t->mantissa);

	if (isnan(want) ? isnan(got) : isinf(want) ? got == (double)want : fabsl(got - want) <= allowed)
		return;
	if (isinf(got) && fabsl(want) + allowed > t->greatest * (1 - t->half) && (got > 0) == (want > 0))
		return;
	FAIL("%s, %s, element %zu: %.17g, not %.17Lg +- %.3Lg", what, t->name, at, got, want, allowed);
}
