// Tracks the work in flight of each stream. A mark is an event that this file records in a stream of the program: when
// the stream has reached it, the work launched before it has ended. A thread records marks only in the stream in which
// it launches, because that stream exists and is not being captured.
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/lock.h"
#include "shim/contexts.h"
#include "shim/relaxed.h"
#include "shim/turn.h"
#include "turn/estimate.h"

enum { STREAMS = 64, MARKS = 64, MARK_LAUNCHES = 1024 };
// A mark is recorded in a stream after MARK_LAUNCHES launches at the latest. It is recorded earlier if the estimate of
// the work since the last mark is as large as the caller says. It must also be at least 1 / MARK_PART of the estimate
// of the work before all marks that are not reached yet. So a long queue of work seldom needs more than the MARKS that
// a stream has.
enum { MARK_PART = 16 };
// running work is expected to need at least 1 / LATE_PART of its estimate from now on
enum { LATE_PART = 4 };
// work without a mark behind it counts as ended after twice its estimate plus this time
static const uint64_t lost_ns = 1000000;

struct mark {
	CUevent event; // the CUDA event, created when the mark is first used
	uint64_t ns;   // estimate of the work between the previous mark and this one
};

struct shim_turn_stream {
	_Atomic(uintptr_t) key; // key of the stream; 0: the entry is free
	CUstream handle;
	CUcontext context;
	unsigned int device; // ordinal of the context's device
	struct vg_lock lock;
	struct mark marks[MARKS];
	unsigned int first, count;     // `marks` is a ring buffer: `count` marks from `first` on are not reached yet
	uint64_t marked_ns;	       // sum of the estimates of the work before the marks that are not reached yet
	uint64_t since_ns;	       // the work before marks[first] cannot have begun before this time
	uint64_t open_ns, launched_ns; // of the work after the last mark: its estimate, and the time of its last launch
	unsigned int open_launches;
	struct {
		CUevent before, after;
		uint64_t shape;
		enum { MEASURE_NOTHING, MEASURE_BEGUN, MEASURE_ENDED } state;
	} measure;
};

struct turn_estimates shim_turn_estimates;
static struct shim_turn_stream streams[STREAMS];
static _Atomic unsigned int used;			 // entries of `streams` from this index on were never used
static _Atomic uint64_t reached_ns[SHIM_DEVICES];	 // when a mark of any stream of a device was last seen reached
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // guards the keys of the streams
static __thread SHIM_TLS struct shim_turn_stream *latest;
static __thread SHIM_TLS uintptr_t latest_key;

// Returns the key of a stream. Each context's default stream has a key of its own. So does each thread's own default
// stream.
static uintptr_t make_key(CUstream stream, CUcontext context)
{
	if (stream == CU_STREAM_PER_THREAD)
		return (uintptr_t)context ^ (uintptr_t)&latest_key;
	return stream && stream != CU_STREAM_LEGACY ? (uintptr_t)stream : (uintptr_t)context;
}

static struct shim_turn_stream *find_stream(uintptr_t key)
{
	for (unsigned int i = 0; i < used; i++)
		if (streams[i].key == key)
			return &streams[i];
	return NULL;
}

static struct shim_turn_stream *add_stream(uintptr_t key, CUstream handle, CUcontext context)
{
	struct shim_turn_stream *stream = find_stream(key);

	if (!stream)
		stream = find_stream(0);
	if (!stream && used < STREAMS)
		stream = &streams[used++];
	if (stream && !stream->key) {
		memset(stream, 0, sizeof *stream);
		stream->handle = handle;
		stream->context = context;
		stream->device = shim_device();
		stream->key = key;
	}
	return stream;
}

struct shim_turn_stream *shim_turn_stream(CUstream handle)
{
	bool is_default = !handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
	CUcontext context = is_default ? shim_current_context() : NULL;
	uintptr_t key = make_key(handle, context);
	struct shim_turn_stream *stream = latest;

	if (stream && latest_key == key && stream->key == key)
		return stream;
	if (!key || (!context && !(context = shim_context_of_stream(handle))))
		return NULL;
	stream = find_stream(key);
	if (!stream) {
		pthread_mutex_lock(&lock);
		stream = add_stream(key, handle, context);
		pthread_mutex_unlock(&lock);
	}
	latest = stream;
	latest_key = key;
	return stream;
}

static bool make_event(const struct shim_turn_stream *stream, CUevent *event, unsigned int flags)
{
	CUcontext current;
	bool made;

	if (*event)
		return true;
	if (REAL(cuCtxPushCurrent_v2)(stream->context) != CUDA_SUCCESS)
		return false;
	made = REAL(cuEventCreate)(event, flags) == CUDA_SUCCESS;
	REAL(cuCtxPopCurrent_v2)(&current);
	return made;
}

static bool record_event(struct shim_turn_stream *stream, CUevent *event, unsigned int flags)
{
	return make_event(stream, event, flags) && REAL(cuEventRecord)(*event, stream->handle) == CUDA_SUCCESS;
}

// Returns true unless the event is pending. An event whose query fails counts as reached, because later queries would
// fail, too. During another thread's capture, a query invalidates that capture unless this thread's capture mode is
// relaxed.
static bool is_reached(CUevent event)
{
	if (!atomic_load_explicit(&shim_turns.captures, memory_order_relaxed))
		return SHIM_TURN_BELOW(cuEventQuery)(event) != CUDA_ERROR_NOT_READY;
	SHIM_RELAXED;
	return SHIM_TURN_BELOW(cuEventQuery)(event) != CUDA_ERROR_NOT_READY;
}

// Frees the marks that the stream has reached. Call it with the stream's lock held.
static void reap_marks(struct shim_turn_stream *stream, uint64_t now)
{
	while (stream->count && is_reached(stream->marks[stream->first].event)) {
		stream->since_ns = now;
		atomic_store_explicit(&reached_ns[stream->device], now, memory_order_relaxed);
		stream->marked_ns -= stream->marks[stream->first].ns;
		stream->first = (stream->first + 1) % MARKS;
		stream->count--;
	}
}

// Records a mark in the stream. Call it with the stream's lock held.
static void put_mark(struct shim_turn_stream *stream, uint64_t now)
{
	if (stream->count == MARKS)
		reap_marks(stream, now);
	struct mark *mark = &stream->marks[(stream->first + stream->count) % MARKS];
	if (stream->count == MARKS || !record_event(stream, &mark->event, CU_EVENT_DISABLE_TIMING))
		return; // a later mark will cover the work
	mark->ns = stream->open_ns;
	stream->marked_ns += mark->ns;
	stream->count++;
	stream->open_ns = 0;
	stream->open_launches = 0;
}

// Counts work after the last mark of the stream. Call it with the stream's lock held.
static void add_work(struct shim_turn_stream *stream, unsigned int launches, uint64_t estimate_ns, uint64_t now)
{
	if (!stream->count && !stream->open_launches)
		stream->since_ns = now;
	stream->open_ns += estimate_ns;
	stream->launched_ns = now;
	stream->open_launches += launches;
}

void shim_turn_add(struct shim_turn_stream *stream, unsigned int launches, uint64_t estimate_ns, uint64_t now)
{
	vg_lock_acquire(&stream->lock);
	add_work(stream, launches, estimate_ns, now);
	vg_lock_release(&stream->lock);
}

void shim_turn_mark(struct shim_turn_stream *stream, unsigned int launches, uint64_t estimate_ns, uint64_t every_ns,
		    uint64_t now)
{
	vg_lock_acquire(&stream->lock);
	add_work(stream, launches, estimate_ns, now);
	if (stream->open_launches >= MARK_LAUNCHES ||
	    (stream->open_ns >= every_ns && stream->open_ns >= stream->marked_ns / MARK_PART))
		put_mark(stream, now);
	vg_lock_release(&stream->lock);
}

void shim_turn_mark_rest(struct shim_turn_stream *stream, uint64_t now)
{
	vg_lock_acquire(&stream->lock);
	if (stream->open_launches)
		put_mark(stream, now);
	vg_lock_release(&stream->lock);
}

// Adds a measurement that has ended to the estimates. Call it with the stream's lock held.
static void finish_measure(struct shim_turn_stream *stream)
{
	float ms;

	if (stream->measure.state != MEASURE_ENDED || !is_reached(stream->measure.after))
		return;
	stream->measure.state = MEASURE_NOTHING;
	if (REAL(cuEventElapsedTime)(&ms, stream->measure.before, stream->measure.after) == CUDA_SUCCESS && ms >= 0)
		turn_estimate_learn(&shim_turn_estimates, stream->measure.shape, (uint64_t)(ms * 1e6f));
}

bool shim_turn_measure_begin(struct shim_turn_stream *stream, uint64_t shape)
{
	bool begun = false;

	vg_lock_acquire(&stream->lock);
	finish_measure(stream);
	if (stream->measure.state == MEASURE_NOTHING &&
	    record_event(stream, &stream->measure.before, CU_EVENT_DEFAULT)) {
		stream->measure.shape = shape;
		stream->measure.state = MEASURE_BEGUN;
		begun = true;
	}
	vg_lock_release(&stream->lock);
	return begun;
}

void shim_turn_measure_end(struct shim_turn_stream *stream, bool launched)
{
	vg_lock_acquire(&stream->lock);
	if (launched && record_event(stream, &stream->measure.after, CU_EVENT_DEFAULT))
		stream->measure.state = MEASURE_ENDED;
	else
		stream->measure.state = MEASURE_NOTHING;
	vg_lock_release(&stream->lock);
}

// Estimates the time that the work in flight of the stream still needs. Call it with the stream's lock held.
static uint64_t estimate_left(struct shim_turn_stream *stream, uint64_t now)
{
	finish_measure(stream);
	reap_marks(stream, now);
	if (!stream->count && stream->open_launches && now > stream->launched_ns + 2 * stream->open_ns + lost_ns) {
		stream->open_ns = 0;
		stream->open_launches = 0;
	}
	// The counts of marks and launches are added so that work whose estimate is 0 still counts as work in flight.
	return stream->marked_ns + stream->open_ns + stream->count + stream->open_launches;
}

// Returns how much longer work is expected to run, if its estimate was `ns` and it has run for `ran`. Before the end of
// the estimate, this is the rest of the estimate. Afterwards, it is the time by which the estimate is exceeded. It is
// always at least 1 / LATE_PART of the estimate.
static uint64_t estimate_rest(uint64_t ns, uint64_t ran)
{
	uint64_t rest = ran < ns ? ns - ran : ran - ns, least = ns / LATE_PART;

	return rest > least ? rest : least;
}

// Returns the sum of the estimates of all streams of the device, as if the GPU ran their work one after the other. For
// the work that runs now, estimate_rest() gives the remaining time instead. That is assumed to be the longest work
// before the first unreached mark of a stream. It is assumed to have begun when a mark on the device was last seen
// reached. If no stream can have begun its work by then, the earliest time at which one can have begun it counts
// (since_ns).
uint64_t shim_turn_left(unsigned int device, uint64_t now)
{
	uint64_t left = 0, first = 0, since = UINT64_MAX;

	for (unsigned int i = 0; i < used; i++) {
		struct shim_turn_stream *stream = &streams[i];
		if (!stream->key || stream->device != device)
			continue;
		vg_lock_acquire(&stream->lock);
		left += stream->key ? estimate_left(stream, now) : 0;
		if (stream->key && stream->count) {
			uint64_t ns = stream->marks[stream->first].ns;
			first = ns > first ? ns : first;
			since = stream->since_ns < since ? stream->since_ns : since;
		}
		vg_lock_release(&stream->lock);
	}
	if (!first)
		return left;
	uint64_t reached = atomic_load_explicit(&reached_ns[device], memory_order_relaxed);
	since = reached > since ? reached : since;
	return left - first + estimate_rest(first, now > since ? now - since : 0);
}

// Forgets the work in flight of a stream. Call it with the lock held.
static void forget_flight(struct shim_turn_stream *stream)
{
	stream->count = 0;
	stream->marked_ns = stream->open_ns = 0;
	stream->open_launches = 0;
}

void shim_turn_note_end(CUstream handle, CUcontext context, uint64_t began_ns, uint64_t now)
{
	uintptr_t key;

	if (!context)
		context = shim_current_context();
	key = handle ? make_key(handle, context) : 0;

	for (unsigned int i = 0; i < used; i++) {
		struct shim_turn_stream *stream = &streams[i];
		if (handle ? stream->key != key : stream->context != context)
			continue;
		vg_lock_acquire(&stream->lock);
		if (stream->launched_ns < began_ns) {
			forget_flight(stream);
			atomic_store_explicit(&reached_ns[stream->device], now, memory_order_relaxed);
		}
		vg_lock_release(&stream->lock);
	}
}

void shim_turn_forget_flight(void)
{
	for (unsigned int i = 0; i < used; i++) {
		struct shim_turn_stream *stream = &streams[i];
		vg_lock_acquire(&stream->lock);
		forget_flight(stream);
		vg_lock_release(&stream->lock);
	}
}

void shim_turn_forget_context(CUcontext context)
{
	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < used; i++) {
		vg_lock_acquire(&streams[i].lock);
		if (streams[i].key && streams[i].context == context)
			streams[i].key = 0;
		vg_lock_release(&streams[i].lock);
	}
	pthread_mutex_unlock(&lock);
}
