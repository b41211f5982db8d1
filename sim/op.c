// Runs operations, and keeps the queues of streams. Each stream runs its operations in order, one at a time, on a
// thread of its own, the worker. The worker ends after a while without work. An operation runs on the calling thread if
// the program cannot notice that. A submitted operation has a list of marks (mark.h), for work in other streams that it
// must wait for.
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "capture.h"
#include "checkpoint.h"
#include "entry.h"
#include "exec.h"
#include "fault.h"
#include "mark.h"
#include "op_time.h"
#include "pool.h"
#include "process.h"

enum { WORKER_IDLE_MS = 500 };

struct sim_op *sim_op_new(const struct sim_op_class *class, struct sim_context *context)
{
	struct sim_op *op = calloc(1, class->size);
	if (!op)
		abort(); // the host is out of memory
	op->class = class;
	op->context = context;
	return op;
}

struct sim_op *sim_op_clone(const struct sim_op *op)
{
	struct sim_op *copy = sim_op_new(op->class, op->context);

	memcpy(copy, op, op->class->size);
	copy->next = NULL;
	copy->stream = NULL;
	copy->mark = NULL;
	copy->waits = NULL;
	copy->wait_count = copy->wait_capacity = 0;
	copy->finished = false;
	copy->time = NULL;
	copy->pieces = 0;
	copy->performed = false;
	if (op->class->clone && op->class->clone(copy) != CUDA_SUCCESS) {
		free(copy);
		return NULL;
	}
	return copy;
}

void sim_op_free(struct sim_op *op)
{
	if (!op)
		return;
	if (op->class->finish && !op->finished)
		op->class->finish(op);
	for (unsigned i = 0; i < op->wait_count; i++)
		sim_mark_unref(op->waits[i]);
	free(op->waits);
	sim_mark_unref(op->mark);
	free(op->time);
	free(op);
}

void sim_op_wait_for(struct sim_op *op, struct sim_mark *mark)
{
	if (!mark || sim_mark_is_done(mark))
		return;
	if (op->wait_count == op->wait_capacity) {
		unsigned capacity = op->wait_capacity ? 2 * op->wait_capacity : 4;
		struct sim_mark **waits = realloc(op->waits, capacity * sizeof *waits);
		if (!waits)
			abort();
		op->waits = waits;
		op->wait_capacity = capacity;
	}
	op->waits[op->wait_count++] = sim_mark_ref(mark);
}

const struct ptx_space *sim_op_space(const struct sim_op *op)
{
	return &op->context->device->space;
}

// Waits for the work that must end before the operation. If contexts share the device's time, tells the device that the
// operation may begin.
static void wait_for_marks(struct sim_op *op)
{
	uint64_t latest = 0;

	for (unsigned i = 0; i < op->wait_count; i++) {
		sim_mark_wait(op->waits[i], &op->context->cancel);
		uint64_t time = atomic_load_explicit(&op->waits[i]->time_ns, memory_order_relaxed);
		if (!sim_mark_is_done(op->waits[i]) || op->waits[i]->foreign)
			time = region_time_now(sim_process.region);
		latest = time > latest ? time : latest;
	}
	if (op->time && op->wait_count)
		sim_time_ready(op, latest);
}

// Returns the sticky error, which keeps an operation from running. Returns success for an operation that must run
// anyway.
static CUresult check_failure(const struct sim_op *op)
{
	struct sim_context *context = op->context;
	int lost = atomic_load_explicit(&context->device->lost, memory_order_relaxed);
	if (lost)
		sim_context_fail(context, (CUresult)lost);
	return op->always ? CUDA_SUCCESS : sim_failure();
}

// Sets a result other than success as the sticky error, and returns that error.
static CUresult check_result(struct sim_context *context, CUresult result)
{
	if (result == CUDA_SUCCESS)
		return result;
	if (result == CUDA_ERROR_CONTEXT_IS_DESTROYED) // the operation was cancelled because of another error
		return sim_failure() ? sim_failure() : result;
	return sim_context_fail(context, result);
}

static CUresult execute_op(struct sim_op *op, struct sim_time_cursor *cursor)
{
	struct sim_context *context = op->context;

	wait_for_marks(op);
	CUresult result = check_failure(op);
	if (result != CUDA_SUCCESS) {
		sim_time_skip(op);
		return result;
	}
	if (op->pieces && !op->class->runs_pieces) {
		result = sim_time_run(op);
	} else if (cursor && op->class->pieces) {
		result = sim_time_run_node(op, cursor);
	} else if (op->instant || op->pieces) {
		result = op->class->run(op);
	} else {
		uint64_t start = sim_clock_ns();
		sim_fault_delay(context->device);
		result = op->class->run(op);
		region_add_busy(sim_process.region, context->device->physical, sim_clock_ns() - start);
	}
	return check_result(context, result);
}

CUresult sim_op_execute(struct sim_op *op, struct sim_time_cursor *cursor)
{
	CUresult result = execute_op(op, cursor);
	if (op->mark)
		sim_mark_finish(op->mark);
	return result;
}

// Runs one operation of the queue. Call it with context->lock held; releases the lock while the operation runs.
static CUresult run_one(struct sim_stream *stream, struct sim_op *op)
{
	pthread_mutex_t *lock = &stream->context->lock;

	stream->running = op;
	pthread_mutex_unlock(lock);
	CUresult result = execute_op(op, NULL);
	if (op->class->finish)
		op->class->finish(op); // frees the operation's resources before other threads can see its end
	op->finished = true;
	pthread_mutex_lock(lock);
	stream->running = NULL;
	if (op->time)
		sim_time_end(stream, op);
	if (stream->last == op)
		stream->last = NULL;
	struct sim_mark *mark = op->mark; // the stream's thread alone reads op->mark from here on
	op->mark = NULL;
	atomic_fetch_sub(&stream->pending, 1);
	if (stream->room_waiters)
		pthread_cond_broadcast(&stream->room);
	if (stream->head && stream->sleeping)
		pthread_cond_signal(&stream->wake);
	if (mark)
		sim_mark_finish_at(mark, op->time ? op->time->ended_ns : sim_device_clock_ns());
	sim_mark_unref(mark);
	sim_stream_retire(stream); // may free the stream, unless the caller has a reference
	return result;
}

// Runs and frees the first operation of the queue. Call it with context->lock held; releases the lock meanwhile.
static void run_first(struct sim_stream *stream)
{
	pthread_mutex_t *lock = &stream->context->lock;
	struct sim_op *op = stream->head;

	stream->head = op->next;
	if (!stream->head)
		stream->tail = NULL;
	run_one(stream, op);
	pthread_mutex_unlock(lock);
	sim_op_free(op); // freeing an operation may run code of the program
	pthread_mutex_lock(lock);
}

static void *run_worker(void *argument)
{
	struct sim_stream *stream = argument;
	pthread_mutex_t *lock = &stream->context->lock;

	pthread_mutex_lock(lock);
	for (;;) {
		bool waited = false;
		while ((!stream->head || stream->running) && !(stream->closing && !stream->head)) {
			struct timespec until;
			if (waited && !stream->head)
				goto idle;
			clock_gettime(CLOCK_MONOTONIC, &until);
			until.tv_nsec += WORKER_IDLE_MS * 1000000L;
			until.tv_sec += until.tv_nsec / 1000000000;
			until.tv_nsec %= 1000000000;
			stream->sleeping = true;
			waited = pthread_cond_timedwait(&stream->wake, lock, &until) == ETIMEDOUT;
			stream->sleeping = false;
		}
		if (!stream->head)
			break;
		run_first(stream);
	}
idle:
	stream->worker = false;
	pthread_mutex_unlock(lock);
	sim_stream_unref(stream);
	return NULL;
}

static void start_worker(struct sim_stream *stream)
{
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all, before;

	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	sigfillset(&all); // the program's own threads handle its signals
	pthread_sigmask(SIG_SETMASK, &all, &before);
	sim_stream_ref(stream);
	stream->worker = pthread_create(&thread, &attributes, run_worker, stream) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	if (!stream->worker)
		sim_stream_unref(stream);
}

// Returns the mark that is done when the stream's latest operation has ended. NULL: the stream is idle. Call it with
// context->lock held.
static struct sim_mark *get_last_mark(struct sim_stream *stream)
{
	if (!stream->last)
		return NULL;
	if (!stream->last->mark)
		stream->last->mark = sim_mark_new();
	return stream->last->mark;
}

// Makes the operation wait for other streams as CUDA's rules for the default stream require. Call it with context->lock
// held.
static void order_with_default(struct sim_stream *stream, struct sim_op *op)
{
	struct sim_context *context = stream->context;

	if (stream->legacy) {
		for (struct sim_stream *other = context->streams; other; other = other->next)
			if (other != stream && other->last && !(other->flags & CU_STREAM_NON_BLOCKING))
				sim_op_wait_for(op, get_last_mark(other));
	} else if (!(stream->flags & CU_STREAM_NON_BLOCKING) && context->legacy->last) {
		sim_op_wait_for(op, get_last_mark(context->legacy));
	}
}

// Runs an operation at once, on a device that shares its time between contexts. The operation counts as ended only when
// the device has had time for it. Call it with context->lock held; releases the lock while the operation runs.
static void perform_ahead(struct sim_stream *stream, struct sim_op *op)
{
	stream->running = op; // operations that are submitted meanwhile must wait in the queue
	pthread_mutex_unlock(&stream->context->lock);
	CUresult result = check_failure(op);
	if (result == CUDA_SUCCESS)
		(void)check_result(op->context, op->class->run(op));
	op->performed = true;
	pthread_mutex_lock(&stream->context->lock);
	stream->running = NULL;
}

// Adds the operation to the head (`first`) or the tail of the queue. Call it with context->lock held.
static void enqueue(struct sim_stream *stream, struct sim_op *op, bool first)
{
	if (first) {
		op->next = stream->head;
		stream->head = op;
	} else {
		if (stream->tail)
			stream->tail->next = op;
		else
			stream->head = op;
	}
	if (!first || !stream->tail)
		stream->tail = op;
}

static bool shares_time(void)
{
	return sim_process.config.slice_ns != 0;
}

static bool has_room(const struct sim_stream *stream, const struct sim_op *op)
{
	if (shares_time())
		return sim_time_has_room(stream, op);
	return atomic_load_explicit(&stream->pending, memory_order_relaxed) < TIME_DEPTH;
}

// Waits until the operation may be added to the queue. Call it with context->lock held; releases the lock meanwhile.
static void wait_until_open(struct sim_stream *stream, const struct sim_op *op)
{
	pthread_mutex_t *lock = &stream->context->lock;

	for (;;) {
		// Another process may have locked this one after the call had passed the checks at its start. Such a
		// call waits here, so that the queues of a locked process stay empty.
		if (atomic_load(&sim_gate) & SIM_GATE_LOCKED) {
			pthread_mutex_unlock(lock);
			(void)sim_checkpoint_enter(VG_ENTRY_cuLaunchKernel);
			pthread_mutex_lock(lock);
		} else if (has_room(stream, op)) {
			return;
		} else {
			stream->room_waiters++;
			stream->context->room_waiters++;
			pthread_cond_wait(&stream->room, lock);
			stream->context->room_waiters--;
			if (--stream->room_waiters == 0)
				pthread_cond_broadcast(&stream->context->no_room_waiters);
		}
	}
}

void sim_context_wait_for_room(struct sim_context *context)
{
	pthread_mutex_lock(&context->lock);
	while (context->room_waiters)
		pthread_cond_wait(&context->no_room_waiters, &context->lock);
	pthread_mutex_unlock(&context->lock);
}

void sim_stream_wait_for_room(struct sim_stream *stream)
{
	pthread_mutex_lock(&stream->context->lock);
	while (stream->room_waiters)
		pthread_cond_wait(&stream->context->no_room_waiters, &stream->context->lock);
	pthread_mutex_unlock(&stream->context->lock);
}

// Runs the queued operations on the calling thread.
static void run_queue(struct sim_stream *stream)
{
	pthread_mutex_t *lock = &stream->context->lock;

	sim_stream_ref(stream);
	pthread_mutex_lock(lock);
	while (stream->head && !stream->running && !stream->worker)
		run_first(stream);
	pthread_mutex_unlock(lock);
	sim_stream_unref(stream);
}

enum submission { SUBMIT_ONLY, SUBMIT_AND_WAIT };

// Submits an operation to a stream, which then owns the operation. On failure, frees the operation.
static CUresult submit_op(struct sim_stream *stream, struct sim_op *op, enum submission submission)
{
	bool wait = submission == SUBMIT_AND_WAIT;
	struct sim_context *context = stream->context;
	CUresult result = CUDA_SUCCESS;
	struct sim_mark *mark = NULL;

	if (atomic_load_explicit(&stream->capture, memory_order_acquire))
		return sim_capture_op(stream, op);
	if (stream->legacy && context->captures) {
		sim_op_free(op);
		result = sim_capture_check_stream(stream);
		return result ? result : CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	op->stream = stream;
	pthread_mutex_lock(&context->lock);
	wait_until_open(stream, op);
	order_with_default(stream, op);
	if (shares_time())
		result = sim_time_append(stream, op);
	if (result != CUDA_SUCCESS) {
		pthread_mutex_unlock(&context->lock);
		sim_op_free(op);
		return result;
	}
	stream->last = op;
	atomic_fetch_add(&stream->pending, 1);
	bool idle = !stream->head && !stream->running;
	if (idle && (wait || (op->instant && op->wait_count == 0 && op->pieces == 0))) {
		result = run_one(stream, op);
		pthread_mutex_unlock(&context->lock);
		sim_op_free(op);
		return wait ? result : CUDA_SUCCESS;
	}
	if (wait) {
		if (!op->mark)
			op->mark = sim_mark_new();
		mark = sim_mark_ref(op->mark);
	}
	bool ahead = idle && op->instant && op->wait_count == 0;
	if (ahead)
		perform_ahead(stream, op);
	enqueue(stream, op, ahead);
	if (!stream->worker)
		start_worker(stream);
	else if (stream->sleeping && !stream->running)
		pthread_cond_signal(&stream->wake);
	// If no worker thread could be created, this thread must run the operation.
	bool stranded = !stream->worker;
	pthread_mutex_unlock(&context->lock);
	if (stranded)
		run_queue(stream);
	if (mark) {
		sim_mark_wait(mark, NULL);
		sim_mark_unref(mark);
		result = sim_failure();
	}
	return result;
}

CUresult sim_submit(struct sim_stream *stream, struct sim_op *op)
{
	return submit_op(stream, op, SUBMIT_ONLY);
}

CUresult sim_submit_wait(struct sim_stream *stream, struct sim_op *op)
{
	CUresult result = submit_op(stream, op, SUBMIT_AND_WAIT);
	if (result == CUDA_SUCCESS)
		sim_pool_apply_thresholds(stream->context);
	sim_exec_flush_output(stream->context);
	return result;
}

static CUresult do_nothing(struct sim_op *op)
{
	return CUDA_SUCCESS;
}

static const struct sim_op_class nothing_class = {.name = "nothing", .size = sizeof(struct sim_op), .run = do_nothing};

// Returns a reference to the mark that is done when the stream's latest operation has ended. NULL: the stream is idle.
static struct sim_mark *ref_last_mark(struct sim_stream *stream)
{
	if (atomic_load_explicit(&stream->pending, memory_order_acquire) == 0)
		return NULL;
	pthread_mutex_lock(&stream->context->lock);
	struct sim_mark *mark = sim_mark_ref(get_last_mark(stream));
	pthread_mutex_unlock(&stream->context->lock);
	return mark;
}

CUresult sim_stream_wait_idle(struct sim_stream *stream)
{
	struct sim_context *context = stream->context;
	struct sim_mark *mark = ref_last_mark(stream);

	if (stream->legacy) { // the legacy stream's work ends after that of the blocking streams
		struct sim_op *probe = sim_op_new(&nothing_class, context);
		probe->instant = probe->always = true;
		(void)sim_submit_wait(stream, probe);
	}
	if (mark) {
		sim_mark_wait(mark, NULL);
		sim_mark_unref(mark);
	}
	sim_pool_apply_thresholds(context);
	sim_exec_flush_output(context);
	return sim_failure();
}
