// Declares the shared words of one vGPU, by which the arbiter of a device (a thread of the daemon) and the processes of
// the vGPU communicate. There is one page for the vGPU, and one cache line for each slot of its ledger. vGPUs share no
// words. Any thread.
//
// To ring is to add 1 to `bell` and wake the arbiter, which waits on it as a futex. A beat is the time in `beat_ns`, by
// which the arbiter shows that it runs.
//
// Writers: the arbiter writes the first cache line of the page. The daemon's main thread writes `traced`. Every process
// of the vGPU writes `bell` and `copies`. The threads of the process that owns a slot in the ledger write the slot. The
// daemon zeroes the slot when it reaps the process, before the slot has a new owner. The words exist as long as the
// ledger. In a new ledger all words are zero: the gate is open, and nothing is in flight. A restored process claims a
// zeroed slot. All times are nanoseconds of the kernel's own CLOCK_MONOTONIC, which a time namespace does not shift
// (vg_ledger_clock_ns).
//
// Memory order: the arbiter writes `word` last, with release. A gate reads `word` first, with acquire, so it sees the
// other words that the arbiter wrote together with this `word`, or later ones. A process writes its slot with release
// and then rings. The arbiter reads the bells before the slots. A process writes eta_ns before it reads `word`
// (sequentially consistent). The arbiter writes `word` before it reads the slots a second time (a fence in
// turn_page_write). So at least one of the two sees what the other wrote.
//
// Hostile values: a tenant may write anything into the page and the slots of its own vGPU. The arbiter reads each word
// once and bounds it (turn_page_read), and keeps its own state elsewhere. A gate treats unknown states as open.
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct turn_facts;
struct turn_gate;

enum {
	TURN_PAGE_SIZE = 4096,
	TURN_NUMBERS = 1 << 24, // turn numbers are taken modulo this value
};
// A thread that waits at the gate for this long without a beat concludes that no arbiter runs. It rings the bell after
// each third of this time. The arbiter answers with a beat, and writes one at least every half of this time while a
// thread waits.
#define TURN_BEAT_NS 210000000ull
// A request (a burst of work of a vGPU of the latency class) ends after this time without work and launches.
#define TURN_QUIET_NS 200000ull

enum turn_state {
	TURN_OPEN,   // launch at will
	TURN_HELD,   // the vGPU has the turn: launch within the window, until the end of the turn
	TURN_CLOSED, // wait
};
enum turn_flag {
	TURN_COUNT = 1, // TURN_OPEN: although it need not wait, the process counts launches and reports work in flight
	// TURN_CLOSED: the turn of this vGPU is paused for a request of another vGPU. A process that has work in
	// flight contends for the device, and still does so when this work has ended, if a thread waits at the gate
	// by then. So the process rings neither when the thread comes to the gate nor when the work ends. When the
	// flag changes, the arbiter looks at the slots again (TURN_WRITTEN_LOOK): the process may have launched, come
	// to the gate or become idle after the arbiter read the slots.
	TURN_PAUSED = 1,
	TURN_WANTED = 2,   // another vGPU waits: launch only until `until_ns`, and ring when nothing is in flight
	TURN_SPIN = 4,	   // the gate opens soon: spin instead of sleeping
	TURN_ANNOUNCE = 8, // the process reports when a request (see TURN_QUIET_NS) begins and ends
};

// Makes the word of a gate: 24 bits for the number of the turn, 4 for the state, and 4 for the flags. The word 0 means
// open, without flags.
static inline uint32_t turn_word(uint32_t number, enum turn_state state, unsigned int flags)
{
	return (number % TURN_NUMBERS) << 8 | (uint32_t)state << 4 | (flags & 15);
}
static inline unsigned int turn_word_state(uint32_t word)
{
	return word >> 4 & 15;
}
static inline uint32_t turn_word_number(uint32_t word)
{
	return word >> 8;
}
static inline bool turn_word_is(uint32_t word, enum turn_flag flag)
{
	return word & (uint32_t)flag;
}

// The direction of a copy.
enum turn_copy {
	TURN_COPY_IN,	  // from host memory to the device
	TURN_COPY_OUT,	  // from the device to host memory
	TURN_COPY_WITHIN, // from device memory to device memory
	TURN_COPIES,
};

struct turn_page {
	_Alignas(64) _Atomic uint32_t word; // state of the gate; threads that wait at the gate sleep on this futex
	_Atomic uint32_t window_us;	    // how much estimated work may be in flight
	_Atomic uint64_t until_ns;	    // TURN_HELD: the end of the turn; UINT64_MAX: no other vGPU waits for it
	_Atomic uint64_t turn_ns;	    // when the last turn of the device began
	// Time at which the arbiter last wrote to the page, which shows that it runs.
	_Atomic uint64_t beat_ns;
	_Atomic uint32_t patience_us; // the longest time that a launch waits for the window
	_Atomic uint32_t reason;      // enum turn_reason: why the vGPU does not get its share
	// TURN_HELD: work for half of the time until `ahead_ns` may be in flight, if that is more than the window. 0:
	// only the window counts.
	_Atomic uint64_t ahead_ns;
	_Alignas(64) _Atomic uint32_t bell; // the arbiter sleeps on this futex: add 1 and wake
	// 1: a trace is being recorded, so the processes count their copies, and their gates count launches. For that,
	// the word has TURN_COUNT even if no share is enforced.
	_Alignas(64) _Atomic uint32_t traced;
	_Alignas(64) struct turn_copy_count {
		_Atomic uint64_t count, bytes;
	} copies[TURN_COPIES];
	_Alignas(64) unsigned char reserved[TURN_PAGE_SIZE - 256];
};
_Static_assert(sizeof(struct turn_page) == TURN_PAGE_SIZE, "one page");

struct turn_slot {
	_Alignas(64) _Atomic uint32_t waiting; // number of threads at the gate
	_Atomic uint32_t watching;	       // number of threads that will report when the work in flight has ended
	_Atomic uint32_t urgent;	       // latency class: a request is in progress
	_Atomic uint32_t turn;		       // number of the turn in which the process last launched
	_Atomic uint64_t eta_ns;	       // when the work in flight ends, by estimate; 0: nothing is in flight
	_Atomic uint64_t began_ns;	       // time of the process's first launch in the turn with the number `turn`
	_Atomic uint64_t idle_ns;	       // when the process last saw that nothing was in flight any more
	_Atomic uint64_t alive_ns;	       // when a thread at the gate last read the word
	_Atomic uint64_t launches;	       // number of launches; a thread may add several at once
	_Atomic uint64_t gpu_ns;	       // sum of the estimated GPU times of all launches
};
_Static_assert(sizeof(struct turn_slot) == 64, "one cache line");

// Reads the `count` slots of one vGPU. The words of a slot without a process are zero. `stopped` has a bit for each
// slot, which is 1 if the process is stopped; NULL: no process is stopped. A stopped process reports nothing, so its
// work counts as ended when its estimated time is over. `margin_ns` is added to the estimates of work that no thread
// watches. The words may change during the call.
void turn_page_read(const struct turn_page *page, const struct turn_slot *slots, unsigned int count,
		    const uint64_t *stopped, uint64_t margin_ns, uint64_t now, struct turn_facts *ret_facts);
// Says what the caller must do after turn_page_write().
enum turn_written {
	TURN_WRITTEN_WAKE = 1, // FUTEX_WAKE all threads on `word`
	// Read the slots again, because the process may have become idle, launched or come to the gate without ringing
	// the bell.
	TURN_WRITTEN_LOOK = 2,
};
// Writes the orders for one vGPU, and a beat. Returns bits of enum turn_written.
unsigned int turn_page_write(struct turn_page *page, const struct turn_gate *gate, uint64_t now);
