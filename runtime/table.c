// Keeps the table of symbols. It is a hash table with open addressing, and its keys are pointers of the program.
#include "register.h"

#include <stdlib.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct rt_symbol **slots;
static size_t capacity, used; // capacity is a power of two; used includes removed entries
static struct rt_symbol removed;

static size_t first_slot(const void *key, size_t size)
{
	return (((uintptr_t)key >> 3) * 0x9e3779b97f4a7c15u >> 20) & (size - 1);
}

static void insert_symbol(struct rt_symbol **into, size_t size, struct rt_symbol *symbol)
{
	size_t at = first_slot(symbol->key, size);

	while (into[at] && into[at] != &removed && into[at]->key != symbol->key)
		at = (at + 1) & (size - 1);
	into[at] = symbol;
}

static bool grow_table(void)
{
	size_t more = capacity ? 2 * capacity : 64, count = 0;
	struct rt_symbol **grown = calloc(more, sizeof(struct rt_symbol *));

	if (!grown)
		return false;
	for (size_t i = 0; i < capacity; i++)
		if (slots[i] && slots[i] != &removed) {
			insert_symbol(grown, more, slots[i]);
			count++;
		}
	free(slots);
	slots = grown;
	capacity = more;
	used = count;
	return true;
}

cudaError_t rt_table_add(struct rt_symbol *symbol)
{
	cudaError_t error = cudaSuccess;

	pthread_rwlock_wrlock(&lock);
	if (2 * (used + 1) > capacity && !grow_table()) {
		error = cudaErrorMemoryAllocation;
	} else {
		insert_symbol(slots, capacity, symbol);
		used++;
	}
	pthread_rwlock_unlock(&lock);
	return error;
}

struct rt_symbol *rt_table_find(const void *key)
{
	struct rt_symbol *found = NULL;

	pthread_rwlock_rdlock(&lock);
	for (size_t at = capacity ? first_slot(key, capacity) : 0; capacity && slots[at];
	     at = (at + 1) & (capacity - 1))
		if (slots[at]->key == key && slots[at] != &removed) {
			found = slots[at];
			break;
		}
	pthread_rwlock_unlock(&lock);
	return found;
}

void rt_table_remove(const struct rt_symbol *symbol)
{
	pthread_rwlock_wrlock(&lock);
	for (size_t i = 0; i < capacity; i++)
		if (slots[i] == symbol)
			slots[i] = &removed;
	pthread_rwlock_unlock(&lock);
}

void rt_table_remove_library(CUlibrary library)
{
	pthread_rwlock_wrlock(&lock);
	for (size_t i = 0; i < capacity; i++)
		if (slots[i] && slots[i]->kind == RT_KERNEL && slots[i]->library == library) {
			free(slots[i]);
			slots[i] = &removed;
		}
	pthread_rwlock_unlock(&lock);
}

static bool has_kernel(const struct rt_symbol *symbol, CUkernel kernel, CUfunction function)
{
	CUkernel own = atomic_load(&symbol->kernel);
	CUfunction own_function = NULL;

	if (!own || symbol->kind != RT_FUNCTION)
		return false;
	if (own == kernel || (CUfunction)own == function)
		return true;
	return function && rt_driver.cuKernelGetFunction(&own_function, own) == CUDA_SUCCESS &&
	       own_function == function;
}

const void *rt_table_find_kernel(CUkernel kernel, CUfunction function)
{
	const void *key = NULL;

	pthread_rwlock_rdlock(&lock);
	for (size_t i = 0; i < capacity && !key; i++)
		if (slots[i] && slots[i] != &removed && has_kernel(slots[i], kernel, function))
			key = slots[i]->key;
	pthread_rwlock_unlock(&lock);
	return key;
}
