// Makes calls wait for their vGPU's turn. While the word that the daemon writes for the vGPU (turn/page.h) is not 0,
// the stubs in cuda_exports.S call shim_turn_pass(), which lets most short launches pass, and shim_turn_call() for all
// other calls. The stubs count most launches of an open gate themselves.
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ledger/ledger.h"
#include "shim/copy.h"
#include "shim/turn.h"
#include "turn/estimate.h"
#include "turn/gate.h"

// How a call is handled (turns.def explains the classes). KERNEL, EXTENDED and OBJECT are launches, and must come
// first, because shim_turn_call() compares with OBJECT.
enum class { KERNEL, EXTENDED, OBJECT, BYTES, CALL, COPY, COPY_2D, COPY_3D, WAIT, WAIT_ALL, PASS };
enum { NONE = -1 };

static const uint32_t open_word;
// Without a vGPU, `word` points to 0: an open gate.
struct shim_turns shim_turns = {
	.word = (const _Atomic uint32_t *)&open_word,
	.rows =
		{
#define TURN(abi, class, stream, shape) {NULL, VG_ENTRY_##abi, class, stream, shape, false},
#include "shim/turns.def"
#undef TURN
		},
};

// each element is the distance of a stub from this table
extern const int32_t shim_turn_stubs[SHIM_TURN_COUNT] SHIM_HIDDEN;
void *shim_turn_pass(unsigned int row, const uint64_t *registers, const uint64_t *stack) SHIM_HIDDEN;
CUresult shim_turn_call(unsigned int row, const uint64_t *registers, const uint64_t *stack) SHIM_HIDDEN;

// The gate of a device. The words by which the daemon opens and closes it are in the ledger of this process's vGPU on
// the device.
struct gate {
	const struct vg_ledger *ledger;
	struct turn_process process;
	_Atomic uint32_t restores; // how often the process had been restored when process.slot was read
	unsigned int device;
};
static struct gate gates[SHIM_DEVICES];
// In a process with several devices, the stubs read this word. So they always call shim_turn_call(), which reads the
// word of the device.
static const uint32_t closed_word = TURN_CLOSED << 4;

// While the gate is open, a thread adds 64 to the ledger's counter of launches at every 64th launch, instead of 1 at
// each. Calls that are not launches, such as copies, have a count of their own for this. With a common count, every
// 64th call could be a copy from or to host memory, which is not counted. Then the launches would never be counted.
// The stubs count launches in the same way, and call shim_turn_call() at every 64th. The counts grow in steps of
// OPEN_STEP, so a 64th call lets them overflow to 0, which is quick to notice.
enum { OPEN_LAUNCHES = 64, OPEN_STEP = 1 << 26 };
// While the vGPU has its turn, a thread reports several short launches together, with a later one, because reading
// the clock for each of them costs too much: at most LATER_LAUNCHES, which together take at most 1 / LATER_PART of the
// window (but later_least_ns to later_most_ns). The first launch after the thread has waited for work is reported
// immediately, so that the vGPU does not seem to be idle.
enum { LATER_LAUNCHES = 32, LATER_PART = 16 };
static const uint64_t later_least_ns = 20000, later_most_ns = 100000;

// The counts of a thread, in one cache line.
static __thread SHIM_TLS struct counts {
	_Alignas(64) unsigned int open; // launches while the gate is open, in steps of OPEN_STEP
	unsigned int others;		// the same for calls that are not launches
	// Launches that are not reported yet.
	uint32_t word; // the gate's word (turn/page.h) at the time of these launches; 0: report the next launch
	unsigned int launches;
	struct gate *gate;
	CUstream stream;
	struct shim_turn_stream *tracked; // the stream's work in flight; NULL: it is not tracked
	uint64_t ns, most_ns;		  // the sum of the estimates of these launches, and how large it may become
} counts;
_Static_assert((TURN_OPEN << 4 | TURN_COUNT) == 1, "OPEN_COUNT in cuda_exports.S");
_Static_assert(OPEN_LAUNCHES == (UINT32_MAX >> 26) + 1 && OPEN_STEP == 1 << 26, "OPEN_STEP in cuda_exports.S");
_Static_assert(offsetof(struct shim_turns, counts) == 8 && offsetof(struct shim_turns, rows) == 16 &&
		       sizeof(struct shim_turn_row) == 16 && offsetof(struct counts, open) == 0,
	       "COUNTS, ROWS and ROW in cuda_exports.S");

static const uint64_t unknown_least_ns = 100000; // estimated duration of a kind of work that was never measured
static const uint64_t open_marks_ns = 4000000, marks_least_ns = 50000; // see find_mark_spacing()
static const uint64_t measure_ns = 5000000;			       // see may_measure()
// how long a thread spins at most before it sleeps; to fall asleep and wake up takes about as long
static const uint64_t spin_most_ns = 60000;

// Reads the clock that the daemon also uses for the times in the ledger.
static uint64_t read_clock_ns(void)
{
	return vg_ledger_clock_ns(gates[0].ledger);
}

// Returns the gate of the device on which the calling thread launches.
static struct gate *find_gate(void)
{
	return shim_device_count == 1 ? gates : &gates[shim_device()];
}

static uint32_t read_word(const struct gate *gate, memory_order order)
{
	return atomic_load_explicit(&gate->process.page->word, order);
}

static bool init_gate(struct gate *gate, unsigned int device, const struct vg_ledger *ledger)
{
	struct turn_slot *slot = vg_ledger_turn_slot(ledger);

	gate->ledger = ledger;
	gate->device = device;
	gate->process = (struct turn_process){.page = vg_ledger_turn_page(ledger), .slot = slot};
	gate->restores = vg_ledger_restores(gate->ledger);
	return slot != NULL;
}

void shim_turn_start(struct vg_ledger *const *ledgers, unsigned int count)
{
	if (!shim_driver_loaded())
		return;
	for (unsigned int i = 0; i < count; i++)
		if (!init_gate(&gates[i], i, ledgers[i]))
			return;
	shim_turns.word = count == 1 ? &gates[0].process.page->word : (const _Atomic uint32_t *)&closed_word;
	shim_turns.counts = (int32_t)((char *)&counts - (char *)__builtin_thread_pointer());
	for (unsigned int i = 0; i < SHIM_TURN_COUNT; i++) {
		struct shim_turn_row *row = &shim_turns.rows[i];
		void **slot = &shim_slots[row->entry];
		row->below = *slot;
		row->is_per_thread = shim_entry(row->entry)->stream != 'p';
		if (shim_driver_has(row->entry))
			__atomic_store_n(slot, (char *)shim_turn_stubs + shim_turn_stubs[i], __ATOMIC_RELEASE);
	}
}

void shim_turn_stop(void)
{
	shim_turns.word = (const _Atomic uint32_t *)&open_word;
}

struct call {
	const struct shim_turn_row *row;
	const uint64_t *registers, *stack;
};

static uint64_t read_argument(const struct call *call, int index)
{
	return index < 6 ? call->registers[index] : call->stack[index - 6];
}

// Calls the driver with eleven arguments, all integers or pointers. No function in turns.def has more parameters; a
// function with fewer ignores the rest. For such a function, the last arguments are read from the caller's stack beyond
// its own arguments, which a sanitizer would report.
static __attribute__((no_sanitize_address)) CUresult forward(const struct call *call)
{
	typedef CUresult function(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
				  uint64_t, uint64_t, uint64_t);
	const uint64_t *r = call->registers, *s = call->stack;

	return ((function *)call->row->below)(r[0], r[1], r[2], r[3], r[4], r[5], s[0], s[1], s[2], s[3], s[4]);
}

static CUstream get_default_stream(const struct shim_turn_row *row)
{
	return row->is_per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

static CUstream find_stream(const struct call *call)
{
	CUstream stream = NULL;

	if (call->row->class == EXTENDED) {
		const CUlaunchConfig *config = (const CUlaunchConfig *)(uintptr_t)read_argument(call, 0);
		stream = config ? config->hStream : NULL;
	} else if (call->row->stream != NONE) {
		stream = (CUstream)(uintptr_t)read_argument(call, call->row->stream);
	}
	return stream ? stream : get_default_stream(call->row);
}

static uint64_t hash_kernel(const uint64_t *registers)
{
	return turn_shape((const void *)(uintptr_t)registers[0],
			  (uint64_t)(uint32_t)registers[1] * (uint32_t)registers[2] * (uint32_t)registers[3]);
}

static uint64_t hash_extended(const uint64_t *registers)
{
	const CUlaunchConfig *config = (const CUlaunchConfig *)(uintptr_t)registers[0];

	return turn_shape((const void *)(uintptr_t)registers[1],
			  config ? (uint64_t)config->gridDimX * config->gridDimY * config->gridDimZ : 0);
}

// Returns a hash of a call. Calls with equal hashes should take equally long.
static uint64_t hash_shape(const struct call *call)
{
	uint64_t value;

	switch (call->row->class) {
	case KERNEL:
		return hash_kernel(call->registers);
	case EXTENDED:
		return hash_extended(call->registers);
	case OBJECT:
		return turn_shape((const void *)(uintptr_t)read_argument(call, call->row->shape), 0);
	case BYTES:
	case COPY:
		value = read_argument(call, call->row->shape);
		return turn_shape(call->row, value ? 64 - (unsigned int)__builtin_clzll(value) : 0);
	default:
		return turn_shape(call->row, 0);
	}
}

// Returns true for a copy with host memory on one side. A copy engine does such a copy, which takes no time of the
// multiprocessors.
static bool is_host_copy(const struct call *call)
{
	const CUDA_MEMCPY2D *two = (const CUDA_MEMCPY2D *)(uintptr_t)read_argument(call, 0);
	const CUDA_MEMCPY3D *three = (const CUDA_MEMCPY3D *)(uintptr_t)read_argument(call, 0);

	switch (call->row->class) {
	case COPY:
		return shim_copy_is_host_address(read_argument(call, 0)) ||
		       shim_copy_is_host_address(read_argument(call, 1));
	case COPY_2D:
		return !two || shim_copy_is_host_side(two->srcMemoryType, two->srcDevice) ||
		       shim_copy_is_host_side(two->dstMemoryType, two->dstDevice);
	case COPY_3D:
		return !three || shim_copy_is_host_side(three->srcMemoryType, three->srcDevice) ||
		       shim_copy_is_host_side(three->dstMemoryType, three->dstDevice);
	default:
		return false;
	}
}

// Returns true if a capture records the work of the stream instead of running it. Also true if the driver cannot tell.
static bool is_captured(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	return atomic_load_explicit(&shim_turns.captures, memory_order_relaxed) &&
	       (REAL(cuStreamIsCapturing)(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE);
}

static void wake_arbiter(const struct gate *gate)
{
	struct turn_page *page = gate->process.page;

	atomic_fetch_add(&page->bell, 1);
	syscall(SYS_futex, &page->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void report_flight(struct gate *gate)
{
	uint64_t now = read_clock_ns();

	if (turn_report_flight(&gate->process, shim_turn_left(gate->device, now), now))
		wake_arbiter(gate);
}

static void report_flight_at_gate(struct gate *gate)
{
	uint64_t now = read_clock_ns();

	if (turn_report_flight_at_gate(&gate->process, shim_turn_left(gate->device, now), now))
		wake_arbiter(gate);
}

static void wait_for_change(const struct gate *gate, const struct turn_action *action)
{
	const _Atomic uint32_t *word = &gate->process.page->word;
	uint64_t end = read_clock_ns() + action->ns;

	if (action->step == TURN_STEP_SPIN || action->ns <= spin_most_ns) {
		for (unsigned int i = 0; i < 100 && atomic_load_explicit(word, memory_order_relaxed) == action->word;
		     i++)
			__builtin_ia32_pause();
		while (atomic_load_explicit(word, memory_order_relaxed) == action->word &&
		       action->step != TURN_STEP_SPIN && read_clock_ns() < end)
			__builtin_ia32_pause();
		return;
	}
	struct timespec timeout = {(time_t)(action->ns / 1000000000), (long)(action->ns % 1000000000)};
	syscall(SYS_futex, word, FUTEX_WAIT, action->word, &timeout, NULL, 0);
}

static bool is_restored_since(const struct gate *gate, uint32_t before)
{
	return vg_ledger_restores(gate->ledger) != before;
}

// Finds the process's new slot in the ledger after a restore. The new slot may have the same number as the old one;
// then only the count of restores differs. All work had ended before the checkpoint. Returns false while the process
// has no slot, because it is being dumped or restored.
static bool follow_slot(struct gate *gate)
{
	struct turn_slot *slot = vg_ledger_turn_slot(gate->ledger);
	uint32_t now = vg_ledger_restores(gate->ledger);

	if (slot && gate->process.slot != slot)
		gate->process.slot = slot;
	if (slot && atomic_load_explicit(&gate->restores, memory_order_relaxed) != now &&
	    atomic_exchange(&gate->restores, now) != now) {
		shim_turn_forget_flight();
		atomic_store(&gate->process.open_ns, 0);
		atomic_store(&gate->process.last_ns, 0);
	}
	return slot != NULL;
}

// Waits until the gate opens. Meanwhile, if the launch's stream has work without a mark behind it, records a mark in
// the stream as soon as a mark is free (turn_stream.c). Without a mark, that work would count as ended only after more
// than twice its estimate. `stream` is NULL if the stream is unknown.
static void wait_at_gate(struct gate *gate, struct shim_turn_stream *stream)
{
	struct turn_wait wait;
	uint32_t began = vg_ledger_restores(gate->ledger);
	uint64_t now = read_clock_ns();

	turn_wait_begin(&gate->process, &wait, now);
	for (;; now = read_clock_ns()) {
		if (stream)
			shim_turn_mark_rest(stream, now);
		struct turn_action action = turn_wait_look(&gate->process, &wait, now);
		if (action.ring)
			wake_arbiter(gate);
		if (action.step == TURN_STEP_LAUNCH)
			break;
		wait_for_change(gate, &action);
		if (action.step == TURN_STEP_POLL)
			report_flight_at_gate(gate);
		if (!follow_slot(gate))
			break;
		if (is_restored_since(gate, began)) {
			began = vg_ledger_restores(gate->ledger);
			turn_wait_begin(&gate->process, &wait, read_clock_ns());
		}
	}
	if (!is_restored_since(gate, began))
		turn_wait_end(&gate->process);
}

static uint64_t read_window_ns(const struct gate *gate)
{
	return atomic_load_explicit(&gate->process.page->window_us, memory_order_relaxed) * 1000ull;
}

static uint64_t estimate_unknown(const struct gate *gate)
{
	uint64_t window = read_window_ns(gate);

	return window > unknown_least_ns ? window : unknown_least_ns;
}

// Returns how much work a thread launches between two marks. Recording an event takes about a microsecond, a third of
// the time of a launch. While the gate is open, no other vGPU waits for the end of the work, so there are few marks. A
// thread that waits for the window learns from the marks how much of its work has ended, so a small window needs more.
static uint64_t find_mark_spacing(const struct gate *gate, uint32_t word)
{
	uint64_t ns = read_window_ns(gate) / 8;

	if (turn_word_state(word) == TURN_OPEN)
		return open_marks_ns;
	return ns > marks_least_ns ? ns : marks_least_ns;
}

// Returns whether to measure a launch that is due for it. Measuring takes two events, so the process measures short
// launches at most once in `measure_ns`.
static bool may_measure(uint64_t estimate, uint64_t now)
{
	static _Atomic uint64_t measured_ns;

	if (estimate >= unknown_least_ns)
		return true;
	if (now - atomic_load_explicit(&measured_ns, memory_order_relaxed) < measure_ns)
		return false;
	atomic_store_explicit(&measured_ns, now, memory_order_relaxed);
	return true;
}

// Returns true for a call that need not be counted now. While the gate is open, only every 64th call (OPEN_LAUNCHES) of
// a thread is counted, as 64 calls. *calls is the number of calls that the thread has made so far; this function adds 1
// to it.
static bool passes_uncounted(uint32_t word, unsigned int *calls)
{
	return turn_word_state(word) == TURN_OPEN && !turn_word_is(word, TURN_ANNOUNCE) && (*calls += OPEN_STEP) != 0;
}

// Returns true if the launch is short enough to be reported with a later one, and adds it to the unreported launches.
static bool report_later(const struct gate *gate, uint32_t word, CUstream stream, uint64_t estimate)
{
	if (!word || counts.word != word || counts.gate != gate || counts.stream != stream ||
	    counts.launches >= LATER_LAUNCHES || counts.ns + estimate > counts.most_ns)
		return false;
	counts.launches++;
	counts.ns += estimate;
	return true;
}

// Reports the launches of this thread that are not reported yet.
static void report_rest(uint64_t now)
{
	if (counts.launches && follow_slot(counts.gate)) {
		if (turn_count_launches(&counts.gate->process, counts.launches, counts.ns, now))
			wake_arbiter(counts.gate);
		if (counts.tracked)
			shim_turn_add(counts.tracked, counts.launches, counts.ns, now);
	}
	counts.launches = 0;
	counts.ns = 0;
}

// Returns how many launches were not reported, and adds their estimates to *ns. They count as reported now. The next
// launches in the stream may be reported later, if `word` says that the vGPU has its turn.
static unsigned int take_unreported(struct gate *gate, uint32_t word, CUstream stream, struct shim_turn_stream *tracked,
				    uint64_t *ns)
{
	bool may_wait = turn_word_state(word) == TURN_HELD && !turn_word_is(word, TURN_ANNOUNCE);
	uint64_t part_ns = read_window_ns(gate) / LATER_PART;
	unsigned int launches = counts.launches;

	*ns += counts.ns;
	counts.word = may_wait ? word : 0;
	counts.launches = 0;
	counts.gate = gate;
	counts.stream = stream;
	counts.tracked = tracked;
	counts.ns = 0;
	counts.most_ns = part_ns < later_least_ns ? later_least_ns : part_ns > later_most_ns ? later_most_ns : part_ns;
	return launches;
}

// Returns the driver's function for most launches of a vGPU that has its turn: those that can be reported later. The
// stub then jumps there. Otherwise returns NULL, and the stub calls shim_turn_call(), which would decide the same about
// such a launch. But between two launches, the driver's own code pushes the interposer out of the processor's first
// caches. So this function touches little memory, and is short.
__attribute__((hot, aligned(64))) void *shim_turn_pass(unsigned int row, const uint64_t *registers,
						       const uint64_t *stack)
{
	const struct shim_turn_row *launch = &shim_turns.rows[row];
	struct counts *own = (struct counts *)((char *)__builtin_thread_pointer() + shim_turns.counts);
	uint32_t word = atomic_load_explicit(shim_turns.word, memory_order_relaxed);
	const CUlaunchConfig *config = (const CUlaunchConfig *)(uintptr_t)registers[0];
	CUstream stream;
	uint64_t shape;

	if (!word || own->word != word || launch->class > EXTENDED || own->launches >= LATER_LAUNCHES ||
	    atomic_load_explicit(&shim_turns.captures, memory_order_relaxed))
		return NULL;
	if (__builtin_expect(launch->class == KERNEL, 1)) {
		stream = (CUstream)(uintptr_t)stack[2];
		shape = hash_kernel(registers);
	} else if (config) {
		stream = config->hStream;
		shape = hash_extended(registers);
	} else {
		return NULL;
	}
	if (!stream)
		stream = get_default_stream(launch);
	if (own->stream != stream || !turn_estimate_add(&shim_turn_estimates, shape, own->most_ns - own->ns, &own->ns))
		return NULL;
	own->launches++;
	return launch->below;
}

// Makes the call when the vGPU has its turn. Counts `calls` calls: this one, and the calls before it that passed
// uncounted.
static CUresult call_at_turn(struct gate *gate, const struct call *call, CUstream handle, unsigned int calls)
{
	uint32_t word = read_word(gate, memory_order_acquire);
	uint64_t shape = hash_shape(call), now;
	bool sample;
	uint64_t estimate = turn_estimate(&shim_turn_estimates, shape, estimate_unknown(gate), &sample);
	CUresult result;
	int error;

	if (!sample && report_later(gate, word, handle, estimate))
		return forward(call);
	if (!follow_slot(gate))
		return forward(call);
	error = errno;
	struct shim_turn_stream *stream = shim_turn_stream(handle);
	uint64_t all = estimate * calls;
	now = read_clock_ns();
	if (counts.gate != gate || counts.stream != handle)
		report_rest(now);
	if (!turn_gate_admits(&gate->process, now)) {
		report_rest(now); // otherwise the arbiter would not know that this work must end before the next turn
		wait_at_gate(gate, stream);
		now = read_clock_ns();
		word = read_word(gate, memory_order_relaxed);
	}
	calls += take_unreported(gate, word, handle, stream, &all);
	if (turn_count_launches(&gate->process, calls, all, now))
		wake_arbiter(gate);
	sample = sample && stream && may_measure(estimate, now) && shim_turn_measure_begin(stream, shape);
	result = forward(call);
	if (sample)
		shim_turn_measure_end(stream, result == CUDA_SUCCESS);
	if (stream && result == CUDA_SUCCESS)
		shim_turn_mark(stream, calls, all, find_mark_spacing(gate, word), now);
	errno = error;
	return result;
}

static void note_work_end(const struct call *call, uint64_t began_ns)
{
	int shape = call->row->shape;
	CUcontext context = shape == NONE ? NULL : (CUcontext)(uintptr_t)read_argument(call, shape);

	shim_turn_note_end(call->row->stream == NONE ? NULL : find_stream(call), context, began_ns, read_clock_ns());
}

// Forwards a call that waits for work or queries it. Afterwards reports to the daemon whether work is still in flight.
static CUresult wait_for_work(struct gate *gate, const struct call *call)
{
	CUresult result;
	uint32_t began = vg_ledger_restores(gate->ledger);
	uint64_t began_ns;
	int error = errno;

	if (counts.launches)
		report_rest(read_clock_ns());
	errno = error;
	if (!follow_slot(gate) || !atomic_load_explicit(&gate->process.slot->eta_ns, memory_order_relaxed)) {
		counts.word = 0;
		return forward(call);
	}
	began_ns = read_clock_ns();
	turn_watch_begin(&gate->process);
	result = forward(call);
	if (!is_restored_since(gate, began))
		turn_watch_end(&gate->process);
	if (result == CUDA_SUCCESS) {
		counts.word = 0;
		if (call->row->class == WAIT_ALL)
			note_work_end(call, began_ns);
		report_flight(gate);
	}
	errno = error;
	return result;
}

// While a trace is recorded (`traced` in turn/page.h), counts the call if it is a copy. A copy in a stream that is
// being captured is not counted, because it does not run now.
static void count_copy(struct gate *gate, const struct call *call)
{
	struct shim_copy copy;

	if (turn_counts_copies(&gate->process) && shim_copy_read(call->row->entry, call->registers, &copy) &&
	    (!copy.stream || !is_captured(copy.stream)))
		turn_count_copy(&gate->process, copy.direction, copy.bytes);
}

CUresult shim_turn_call(unsigned int row, const uint64_t *registers, const uint64_t *stack)
{
	struct call call = {&shim_turns.rows[row], registers, stack};
	struct gate *gate = find_gate();
	uint32_t word = read_word(gate, memory_order_relaxed);
	CUstream stream;

	// In a process with several devices, the stubs call this function without reading the word of this device. So
	// the device's gate may be open.
	if (!word)
		return forward(&call);
	if (call.row->class > OBJECT) { // not a launch
		count_copy(gate, &call);
		if (call.row->class == WAIT || call.row->class == WAIT_ALL)
			return wait_for_work(gate, &call);
		if (call.row->class == PASS || passes_uncounted(word, &counts.others))
			return forward(&call);
	} else if (passes_uncounted(word, &counts.open)) {
		return forward(&call);
	}
	stream = find_stream(&call);
	if (is_captured(stream) || is_host_copy(&call))
		return forward(&call);
	return call_at_turn(gate, &call, stream, turn_word_state(word) == TURN_OPEN ? OPEN_LAUNCHES : 1);
}
