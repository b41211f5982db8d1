// Counts the heap allocations of the library. The program replaces malloc and related functions, which check whether
// the caller is libvirgate. Allocations of the driver are not counted. Include in one file per program.
#pragma once
#include "core_test.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

static uintptr_t heap_library_begin, heap_library_end;
static atomic_size_t heap_calls; // allocations
static atomic_long heap_live;	 // allocations that were not freed

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HEAP_IS_TAKEN 1
#else
#define HEAP_IS_TAKEN 0
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void __libc_free(void *memory);

// A hash table of the addresses that the library allocated; 1 marks a removed entry. Frees are recognized by their
// address and not by the caller, because a tail call of free() hides its caller.
enum { HEAP_SLOTS = 1 << 14 };
static atomic_uintptr_t heap_held[HEAP_SLOTS];

static inline bool heap_swap(uintptr_t from, bool from_free, uintptr_t to, uintptr_t address)
{
	for (size_t i = 0, slot = address >> 4; i < HEAP_SLOTS; i++, slot++) {
		uintptr_t here = atomic_load(&heap_held[slot % HEAP_SLOTS]);
		if ((here == from || (from_free && here <= 1)) &&
		    atomic_compare_exchange_strong(&heap_held[slot % HEAP_SLOTS], &here, to))
			return true;
		if (here == 0)
			return false;
	}
	return false;
}

static inline void *heap_take(void *memory, void *caller)
{
	uintptr_t from = (uintptr_t)caller;

	if (memory && from >= heap_library_begin && from < heap_library_end) {
		atomic_fetch_add(&heap_calls, 1);
		if (heap_swap(1, true, (uintptr_t)memory, (uintptr_t)memory))
			atomic_fetch_add(&heap_live, 1);
	}
	return memory;
}

static inline void heap_drop(void *memory)
{
	if (memory && heap_swap((uintptr_t)memory, false, 1, (uintptr_t)memory))
		atomic_fetch_sub(&heap_live, 1);
}

#define HEAP_PUBLIC __attribute__((visibility("default"), noinline))

HEAP_PUBLIC void *malloc(size_t size)
{
	return heap_take(__libc_malloc(size), __builtin_return_address(0));
}

HEAP_PUBLIC void *calloc(size_t count, size_t size)
{
	return heap_take(__libc_calloc(count, size), __builtin_return_address(0));
}

HEAP_PUBLIC void *realloc(void *old, size_t size)
{
	heap_drop(old);
	return heap_take(__libc_realloc(old, size), __builtin_return_address(0));
}

HEAP_PUBLIC void *aligned_alloc(size_t alignment, size_t size)
{
	return heap_take(__libc_memalign(alignment, size), __builtin_return_address(0));
}

HEAP_PUBLIC int posix_memalign(void **ret_memory, size_t alignment, size_t size)
{
	void *memory = heap_take(__libc_memalign(alignment, size), __builtin_return_address(0));

	if (!memory)
		return ENOMEM;
	*ret_memory = memory;
	return 0;
}

HEAP_PUBLIC void free(void *memory)
{
	heap_drop(memory);
	__libc_free(memory);
}
#endif

#ifdef __SANITIZE_THREAD__
// The C library frees the thread-local memory of an ended thread when a new thread takes its stack. The sanitizer does
// not see the lock between the two threads.
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);

const char *__tsan_default_suppressions(void)
{
	return "race:_dl_deallocate_tls\n";
}
#endif

static inline int heap_find(struct dl_phdr_info *object, size_t size, void *address_)
{
	uintptr_t address = (uintptr_t)address_;

	for (int i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];
		uintptr_t begin = object->dlpi_addr + part->p_vaddr;
		if (part->p_type == PT_LOAD && address >= begin && address < begin + part->p_memsz) {
			heap_library_begin = begin;
			heap_library_end = begin + part->p_memsz;
			return 1;
		}
	}
	return 0;
}

// Starts counting; each test that counts calls this first.
static inline void heap_open(void)
{
	if (HEAP_IS_TAKEN)
		return; // the sanitizer replaces malloc itself, and finds leaks
	// Find the segment that contains all code of the library. Calls from there are counted.
	CHECK(dl_iterate_phdr(heap_find, dlsym(RTLD_DEFAULT, "vg_last_error")) == 1);
	atomic_store(&heap_calls, 0);
	atomic_store(&heap_live, 0);
}

// Checks that a repeated call allocates nothing. The first call may allocate.
#define HEAP_FREE(call)                                                                                     \
	do {                                                                                                \
		OK(call);                                                                                   \
		size_t before_ = atomic_load(&heap_calls);                                                  \
		for (int i_ = 0; i_ < 1000; i_++)                                                           \
			OK(call);                                                                           \
		size_t made_ = atomic_load(&heap_calls) - before_;                                          \
		if (made_)                                                                                  \
			FAIL("%s:%d: %s: %zu allocations in 1000 calls", __FILE__, __LINE__, #call, made_); \
	} while (0)

// Returns the number of repetitions: 10^3, or 10^5 in the slow suite; fewer with a sanitizer, which finds single leaks.
static inline int heap_times(void)
{
	return getenv("VIRGATE_TEST_FULL") ? 100000 : HEAP_IS_TAKEN ? 100 : 1000;
}

// Checks that repeating the statements increases neither the library's heap memory nor device memory. Memory of the
// simulated driver itself is not counted.
#define HEAP_STEADY(...)                                                                        \
	do {                                                                                    \
		struct vg_device *device_;                                                      \
		OK(vg_device_get(0, &device_));                                                 \
		for (int i_ = 0; i_ < 100; i_++) {                                              \
			__VA_ARGS__                                                             \
		}                                                                               \
		long live_ = atomic_load(&heap_live);                                           \
		MEMORY_STEADY(device_, for (int i_ = heap_times(); i_ > 0; i_--){__VA_ARGS__}); \
		CHECK_INT(atomic_load(&heap_live), live_);                                      \
	} while (0)
