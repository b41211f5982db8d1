// Helpers for the tests of memory spaces (the memory of one virtual GPU inside a program).
#pragma once
#include "core/core_test.h"

#include <stdbool.h>
#include <stdint.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define PAGE (2 * MIB)

static inline struct vg_memory_space *open_space_with(const struct vg_memory_space_options *given)
{
	struct vg_memory_space_options options = *given;
	struct vg_context *context = first_context();
	struct vg_memory_space *space = NULL;

	options.size = sizeof options;
	OK(vg_memory_space_create(context, &options, &space));
	vg_context_destroy(context);
	return space;
}

static inline struct vg_memory_space *open_space(uint64_t limit)
{
	return open_space_with(&(struct vg_memory_space_options){.limit = limit, .manual_defragmentation = 1});
}

static inline vg_address allocate(struct vg_memory_space *space, size_t size)
{
	vg_address address = 0;

	OK(vg_memory_space_allocate(space, size, 0, &address));
	return address;
}

static inline struct vg_memory_space_info info_of(struct vg_memory_space *space)
{
	struct vg_memory_space_info info;

	OK(vg_memory_space_info(space, &info));
	return info;
}

// Checks the figures of a space while no call is running. The charged bytes must be the sum of allocated, padding and
// free bytes.
static inline void check_figures(struct vg_memory_space *space)
{
	struct vg_memory_space_info info = info_of(space);

	CHECK_INT(info.held, info.allocated + info.padding + info.free);
	CHECK_INT(info.held, info.pages * info.page_size);
	CHECK(info.largest_free <= info.free);
	CHECK(info.held <= info.limit);
	CHECK(info.fragmentation >= 0 && info.fragmentation <= 1);
	CHECK(info.padding_waste >= 0 && info.padding_waste <= 1);
}

// Checks that every byte is `value`.
static inline void check_bytes(struct vg_memory_space *space, vg_address address, size_t size, int value)
{
	unsigned char *copy = malloc(size);

	memset(copy, ~value, size);
	OK(vg_memory_space_read(space, copy, address, size));
	for (size_t i = 0; i < size; i++)
		if (copy[i] != (unsigned char)value)
			FAIL("byte %zu of %zu is %d, not %d", i, size, copy[i], value);
	free(copy);
}

// Fills the buffer with bytes that depend on their position and on `seed`, which differs from block to block.
static inline void fill_pattern(unsigned char *data, size_t size, uint64_t seed)
{
	for (size_t i = 0; i < size; i++)
		data[i] = (unsigned char)((seed * 0x9e3779b97f4a7c15u + i * 0x2545f4914f6cdd1du) >> 56);
}

static inline void write_pattern(struct vg_memory_space *space, vg_address address, size_t size, uint64_t seed)
{
	unsigned char *data = malloc(size);

	fill_pattern(data, size, seed);
	OK(vg_memory_space_write(space, address, data, size));
	free(data);
}

static inline void check_pattern(struct vg_memory_space *space, vg_address address, size_t size, uint64_t seed)
{
	unsigned char *want = malloc(size), *have = malloc(size);

	fill_pattern(want, size, seed);
	OK(vg_memory_space_read(space, have, address, size));
	for (size_t i = 0; i < size; i++)
		if (have[i] != want[i])
			FAIL("block %llu: byte %zu of %zu is %d, not %d", (unsigned long long)seed, i, size, have[i],
			     want[i]);
	free(want);
	free(have);
}
