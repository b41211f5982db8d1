// Reduces the fragmentation of two memory spaces: defragmentation returns empty pages to the device and keeps every
// address; compaction moves the blocks of movable handles. The contents do not change.
#include "check.h"

#include <string.h>

enum { MIB = 1 << 20, BLOCKS = 10, MOVABLE = 12, MOVABLE_SIZE = 640 << 10 };

static char bytes[MIB];

// Checks that a block contains only its own letter.
static int check_contents(struct vg_memory_space *space, vg_address address, size_t size, char letter)
{
	check(vg_memory_space_read(space, bytes, address, size));
	for (size_t i = 0; i < size; i++)
		if (bytes[i] != letter)
			return 0;
	return 1;
}

static void print_space(struct vg_memory_space *space, const char *when)
{
	struct vg_memory_space_info info;

	check(vg_memory_space_info(space, &info));
	printf("%-22s %5.1f %% fragmentation, %4.1f %% padding, %2zu blocks in %2zu pages\n", when,
	       100 * info.fragmentation, 100 * info.padding_waste, info.blocks, info.pages);
}

static void allocate_blocks(struct vg_memory_space *space, vg_address *blocks, int count, size_t size)
{
	for (int i = 0; i < count; i++) {
		check(vg_memory_space_allocate(space, size, 4096, &blocks[i]));
		check(vg_memory_space_set(space, blocks[i], 'a' + i, size));
	}
}

static void free_block(struct vg_memory_space *space, vg_address *block)
{
	check(vg_memory_space_free(space, *block));
	*block = 0;
}

// Frees every second of the first five, and two adjacent ones of many blocks, which empties a page.
static void make_holes(struct vg_memory_space *space, vg_address *blocks, int count)
{
	for (int i = 0; i < 5; i += 2)
		free_block(space, &blocks[i]);
	for (int i = 6; i < 8 && i < count; i++)
		free_block(space, &blocks[i]);
}

// Returned pages are no longer free memory of the space: there is less of it, and the rest may be more fragmented.
static void defragment(struct vg_memory_space *space)
{
	struct vg_defragment_result result;

	check(vg_memory_space_defragment(space, &result));
	printf("defragmented: %zu pages back, %zu ranges joined\n", result.pages_returned, result.ranges_joined);
}

// Checks the contents of the remaining blocks, and frees them.
static int check_and_free(struct vg_memory_space *space, vg_address *blocks, int count, size_t size)
{
	int wrong = 0;

	for (int i = 0; i < count; i++) {
		if (!blocks[i])
			continue;
		wrong += !check_contents(space, blocks[i], size, (char)('a' + i));
		check(vg_memory_space_free(space, blocks[i]));
	}
	return wrong;
}

static int compact(struct vg_memory_space *space)
{
	struct vg_movable_block *blocks[MOVABLE];
	struct vg_compact_result result;
	vg_address address;
	int wrong = 0;

	for (int i = 0; i < MOVABLE; i++) {
		check(vg_movable_block_create(space, MOVABLE_SIZE, &blocks[i]));
		check(vg_movable_block_pin(blocks[i], &address)); // the address is valid until the block is unpinned
		check(vg_memory_space_set(space, address, 'A' + i, MOVABLE_SIZE));
		check(vg_movable_block_unpin(blocks[i]));
	}
	for (int i = 0; i < MOVABLE; i++)
		if (i % 3)
			vg_movable_block_destroy(blocks[i]);
	print_space(space, "before compaction:");
	check(vg_memory_space_compact(space, NULL, &result));
	printf("compacted: %zu blocks moved, %llu bytes copied, %llu given back\n", result.blocks_moved,
	       (unsigned long long)result.bytes_moved, (unsigned long long)result.bytes_returned);
	print_space(space, "after compaction:");
	for (int i = 0; i < MOVABLE; i += 3) {
		check(vg_movable_block_pin(blocks[i], &address));
		wrong += !check_contents(space, address, MOVABLE_SIZE, (char)('A' + i));
		check(vg_movable_block_unpin(blocks[i]));
		vg_movable_block_destroy(blocks[i]);
	}
	return wrong;
}

int main(void)
{
	// This program calls the defragmentation itself. Without `manual_defragmentation`, a call that frees a block
	// does it when the threshold is passed.
	struct vg_memory_space_options options = {.size = sizeof options,
						  .limit = 4ull << 30,
						  .defragmentation_threshold = 0.3,
						  .manual_defragmentation = 1};
	vg_address first_blocks[BLOCKS], second_blocks[BLOCKS / 2];
	struct vg_memory_space *first, *second;
	struct vg_context *context;
	struct vg_device *device;

	check(vg_device_get(0, &device));
	check(vg_context_primary(device, &context));
	check(vg_memory_space_create(context, &options, &first));
	options.limit = 2ull << 30;
	check(vg_memory_space_create(context, &options, &second));

	allocate_blocks(first, first_blocks, BLOCKS, MIB);
	allocate_blocks(second, second_blocks, BLOCKS / 2, MIB / 2);
	print_space(first, "space 1, full:");
	print_space(second, "space 2, full:");
	make_holes(first, first_blocks, BLOCKS);
	make_holes(second, second_blocks, BLOCKS / 2);
	print_space(first, "space 1, with holes:");
	print_space(second, "space 2, with holes:");
	defragment(first);
	defragment(second);
	print_space(first, "space 1, defragmented:");
	print_space(second, "space 2, defragmented:");
	int wrong = check_and_free(first, first_blocks, BLOCKS, MIB);
	wrong += check_and_free(second, second_blocks, BLOCKS / 2, MIB / 2);
	wrong += compact(first);

	vg_memory_space_destroy(first);
	vg_memory_space_destroy(second);
	vg_context_destroy(context);
	printf("manager_memory: %d blocks do not hold what was put there\n", wrong);
	return wrong != 0;
}
