// A case compares calls of the library with the driver's own calls that do the same. One thread.
#pragma once
#include <stddef.h>
#include <virgate/virgate.h>

#include "raw.h"

struct bench_case {
	const char *id;
	double limit;	// ns that the library may add to a call; 0: no limit
	unsigned calls; // in a turn
	void (*library)(unsigned calls);
	void (*raw)(unsigned calls);
	void (*finish_turn)(void); // waits for the turn's work, and is not timed; NULL: nothing to wait for
};

// Cases that use the same objects, which `open` creates.
struct bench_family {
	void (*open)(void);
	const struct bench_case *cases;
	size_t count;
	void (*close)(void);
};

extern const struct bench_family bench_context, bench_device, bench_event, bench_graph, bench_launch, bench_memory,
	bench_stream;

__attribute__((noreturn)) void bench_give_up(const char *call, const char *why);

// Makes the primary context of the first device current, and creates a stream in it.
void bench_begin(struct vg_context **ret_context, struct vg_stream **ret_stream);
void bench_end(struct vg_context *context, struct vg_stream *stream);

#define LIBRARY(call)                                                \
	do {                                                         \
		if (__builtin_expect((call) != VG_OK, 0))            \
			bench_give_up(#call, vg_last_error()->text); \
	} while (0)
#define RAW(call)                                                      \
	do {                                                           \
		if (__builtin_expect(raw.call != CUDA_SUCCESS, 0))     \
			bench_give_up(#call, "the driver refuses it"); \
	} while (0)
// Defines the two sides of a case, id_library and id_raw. Several calls go in braces.
#define SIDES(id, library_calls, raw_calls)      \
	static void id##_library(unsigned calls) \
	{                                        \
		while (calls--)                  \
			library_calls;           \
	}                                        \
	static void id##_raw(unsigned calls)     \
	{                                        \
		while (calls--)                  \
			raw_calls;               \
	}
