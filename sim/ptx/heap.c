// Implements the heap for malloc and free in kernels. Its lists are in host memory, not in the heap. So a kernel that
// writes beyond its allocation cannot damage them. Any thread.
#include <pthread.h>
#include <stdlib.h>

#include "sim/ptx/engine.h"

enum { UNIT = 16 };

struct piece {
	uint64_t address, size;
	bool is_used;
	struct piece *next, *before;
};

struct ptx_heap {
	pthread_mutex_t lock;
	struct piece *first;
	struct piece **table; // used pieces, hashed by address
	size_t table_size, used_count;
};

struct ptx_heap *ptx_heap_create(uint64_t device, size_t size)
{
	struct ptx_heap *heap = calloc(1, sizeof *heap);
	struct piece *piece = calloc(1, sizeof *piece);
	uint64_t first = (device + UNIT - 1) & ~(uint64_t)(UNIT - 1);

	if (!heap || !piece || pthread_mutex_init(&heap->lock, NULL)) {
		free(heap);
		free(piece);
		return NULL;
	}
	piece->address = first;
	piece->size = size > first - device ? (size - (first - device)) & ~(size_t)(UNIT - 1) : 0;
	heap->first = piece;
	return heap;
}

void ptx_heap_destroy(struct ptx_heap *heap)
{
	if (!heap)
		return;
	for (struct piece *piece = heap->first, *next; piece; piece = next) {
		next = piece->next;
		free(piece);
	}
	free(heap->table);
	pthread_mutex_destroy(&heap->lock);
	free(heap);
}

static struct piece **find_slot(struct piece **table, size_t size, uint64_t address)
{
	for (size_t i = address / UNIT * 0x9E3779B97F4A7C15ull >> 20;; i++)
		if (!table[i & (size - 1)] || table[i & (size - 1)]->address == address)
			return &table[i & (size - 1)];
}

// Enlarges the table. Returns false if host memory ran out.
static bool grow_table(struct ptx_heap *heap, size_t size)
{
	struct piece **table = calloc(size, sizeof *table);

	if (!table)
		return false;
	for (struct piece *piece = heap->first; piece; piece = piece->next)
		if (piece->is_used)
			*find_slot(table, size, piece->address) = piece;
	free(heap->table);
	heap->table = table;
	heap->table_size = size;
	return true;
}

static struct piece *find_free(struct ptx_heap *heap, uint64_t size)
{
	struct piece *piece = heap->first;

	while (piece && (piece->is_used || piece->size < size))
		piece = piece->next;
	return piece;
}

// Cuts a piece after `size` bytes. The rest becomes a free piece. Returns false if host memory ran out.
static bool split_piece(struct piece *piece, uint64_t size)
{
	struct piece *rest;

	if (piece->size == size)
		return true;
	rest = calloc(1, sizeof *rest);
	if (!rest)
		return false;
	*rest = (struct piece){
		.address = piece->address + size, .size = piece->size - size, .next = piece->next, .before = piece};
	if (rest->next)
		rest->next->before = rest;
	piece->next = rest;
	piece->size = size;
	return true;
}

uint64_t ptx_heap_allocate(struct ptx_heap *heap, uint64_t size)
{
	uint64_t address = 0;

	if (!heap || size > UINT64_MAX / 2)
		return 0;
	size = size ? (size + UNIT - 1) & ~(uint64_t)(UNIT - 1) : UNIT;
	pthread_mutex_lock(&heap->lock);
	struct piece *piece = find_free(heap, size);
	if (piece &&
	    ((heap->used_count + 1) * 2 < heap->table_size ||
	     grow_table(heap, heap->table_size ? heap->table_size * 2 : 64)) &&
	    split_piece(piece, size)) {
		piece->is_used = true;
		heap->used_count++;
		*find_slot(heap->table, heap->table_size, piece->address) = piece;
		address = piece->address;
	}
	pthread_mutex_unlock(&heap->lock);
	return address;
}

// Merges a free piece with the piece after it, if that is free, too.
static void merge_with_next(struct piece *piece)
{
	struct piece *next = piece->next;

	if (!next || next->is_used)
		return;
	piece->size += next->size;
	piece->next = next->next;
	if (next->next)
		next->next->before = piece;
	free(next);
}

// Removes an entry from the hash table. Inserts the entries after it again, because linear probing must not find a gap
// before them.
static void empty_slot(struct ptx_heap *heap, struct piece **slot)
{
	size_t mask = heap->table_size - 1, at = (size_t)(slot - heap->table);

	*slot = NULL;
	for (size_t i = (at + 1) & mask; heap->table[i]; i = (i + 1) & mask) {
		struct piece *moved = heap->table[i];
		heap->table[i] = NULL;
		*find_slot(heap->table, heap->table_size, moved->address) = moved;
	}
}

bool ptx_heap_free(struct ptx_heap *heap, uint64_t address)
{
	bool is_allocated = false;

	if (!heap)
		return false;
	pthread_mutex_lock(&heap->lock);
	struct piece **slot = heap->table_size ? find_slot(heap->table, heap->table_size, address) : NULL;
	if (slot && *slot) {
		struct piece *piece = *slot;
		is_allocated = true;
		piece->is_used = false;
		heap->used_count--;
		empty_slot(heap, slot);
		merge_with_next(piece);
		if (piece->before && !piece->before->is_used)
			merge_with_next(piece->before);
	}
	pthread_mutex_unlock(&heap->lock);
	return is_allocated;
}
