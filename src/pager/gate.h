// The pager's gate: a thread waits here before a driver call that uses device memory, while the memory is not on the
// device. Threads enter and leave the gate. The pager closes the gate and waits until no thread is inside. Entering
// takes no locked instruction: a thread notes in its own mark that it is inside, and then reads the gate. The pager
// closes the gate, makes all threads pass a memory barrier (membarrier), and then reads the marks. Any thread.
// shim/evict_stubs.S has the code for entering in assembler, too.
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct pager_slot;

// The mark of a thread says whether the thread is inside the gate. It is never freed: after the thread has ended,
// another thread reuses its mark.
struct pager_mark {
	_Atomic uint32_t inside; // number of nested driver calls that the thread is in
	_Atomic uint32_t row;	 // the thread's last driver call, as a row of enum vg_entry
	_Atomic pid_t thread;
	struct pager_mark *next;
};

// The library is loaded when the program starts, so the compiler can use a model in which access to a thread-local
// variable needs no function call.
#define PAGER_TLS __attribute__((tls_model("initial-exec"), visibility("hidden")))
// This thread's mark; NULL: the thread has not entered the gate yet.
extern __thread PAGER_TLS struct pager_mark *pager_mark;
extern _Atomic uint32_t pager_gate __attribute__((visibility("hidden"))); // futex
enum {
	PAGER_GATE_OPEN,
	PAGER_GATE_CLOSED,
	// The gate is open, and the pager wants to know whether a thread enters. The next thread that enters changes
	// the value to PAGER_GATE_OPEN.
	PAGER_GATE_ASKS,
};

// Prepares the gate. Call it once, before any other function. `report`: called by a thread that has waited for some
// seconds. Returns 0, or -errno if the kernel has no membarrier().
int pager_gate_start(void (*report)(uint64_t waited_ns));
// Closes the gate without waiting for the threads that are inside: no thread enters until pager_gate_open().
void pager_gate_bar(void);
// Sets the slot in which waiting threads are counted; NULL: they are not counted.
void pager_gate_count_in(struct pager_slot *slot);
// Enters the gate in all cases that the fast path does not handle: gives the thread a mark if it has none, changes
// PAGER_GATE_ASKS to PAGER_GATE_OPEN, and waits while the gate is closed.
void pager_gate_wait(void);
// Closes the gate and waits until no thread is inside, at most until `deadline_ns` of CLOCK_MONOTONIC. If it returns
// false, the gate is open again, and *ret_row is the call in which a thread still is.
bool pager_gate_close(uint64_t deadline_ns, uint32_t *ret_row);
void pager_gate_open(void);
// Returns whether a thread has entered since the last call of this function, or is inside. The gate must be open. For
// the pager.
bool pager_gate_was_used(void);
// Resets the gate in a forked child, which may not use CUDA. Forgets the marks of other threads and opens the gate.
void pager_gate_reset(void);

static inline void pager_enter(uint32_t row)
{
	for (;; pager_gate_wait()) {
		struct pager_mark *mark = pager_mark;
		if (!mark)
			continue;
		uint32_t before = atomic_load_explicit(&mark->inside, memory_order_relaxed);
		atomic_store_explicit(&mark->row, row, memory_order_relaxed);
		atomic_store_explicit(&mark->inside, before + 1, memory_order_relaxed);
		atomic_signal_fence(memory_order_seq_cst); // membarrier() makes this a barrier between threads
		if (atomic_load_explicit(&pager_gate, memory_order_acquire) == PAGER_GATE_OPEN || before > 0)
			return;
		atomic_store_explicit(&mark->inside, before, memory_order_release);
	}
}

static inline void pager_leave(void)
{
	struct pager_mark *mark = pager_mark;
	uint32_t inside = atomic_load_explicit(&mark->inside, memory_order_relaxed);

	atomic_store_explicit(&mark->inside, inside - 1, memory_order_release);
}
