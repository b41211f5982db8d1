// Replaces src/manager/balancer_source.c, through which the balancer reaches managers, with fake managers and
// executions. So the balancer's thread, queues and rounds are tested without a device. A thread of the fake ends
// `per_ms` executions of each virtual GPU in a millisecond.
#pragma once
#include "core/core_test.h"

#include "manager/balancer_engine.h"

#include <stdatomic.h>
#include <time.h>

enum { FAKES = 4 };

struct vg_execution {
	struct vg_execution *next;
	struct vg_balanced *work;
	_Atomic(enum vg_execution_state) state;
	atomic_uint references;
	atomic_bool stopped;
};

static struct fake {
	struct balancer_load load; // its fields `waiting` and `running` count the executions
	struct vg_execution *first, **end;
	unsigned per_ms; // number of executions that end in a millisecond
	unsigned binds, preempted, migrated;
	bool there;
} fakes[FAKES];
static pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
// If this is not VG_OK, every change of a share or of compute units fails with it.
static enum vg_status fake_refusal;
static atomic_bool fake_ends;
static pthread_t fake_thread;

static struct fake *fake_of(struct balancer_key key)
{
	for (int i = 0; i < FAKES; i++)
		if (fakes[i].there && balancer_same(fakes[i].load.key, key))
			return &fakes[i];
	return NULL;
}

enum vg_status balancer_retain_manager(struct vg_manager *manager)
{
	return manager ? VG_OK : vg_fail(VG_INVALID, 0, "manager is NULL");
}

void balancer_release_manager(struct vg_manager *manager)
{
}

enum vg_status balancer_read(struct vg_manager *const *managers, size_t count, struct balancer_load **ret_loads,
			     size_t *ret_count)
{
	struct balancer_load *loads = calloc(FAKES, sizeof *loads);
	size_t found = 0;

	pthread_mutex_lock(&fake_lock);
	for (int i = 0; i < FAKES; i++)
		if (fakes[i].there && fakes[i].load.key.manager < count)
			loads[found++] = fakes[i].load;
	pthread_mutex_unlock(&fake_lock);
	*ret_loads = loads;
	*ret_count = found;
	return VG_OK;
}

enum balancer_fate balancer_submit(struct vg_manager *manager, struct balancer_key key, struct vg_balanced *work,
				   struct vg_execution **ret_execution, enum vg_status *ret_status)
{
	pthread_mutex_lock(&fake_lock);
	struct fake *fake = fake_of(key);
	bool paused = fake && !fake->load.takes_work;
	if (fake && !paused)
		fake->binds++;
	pthread_mutex_unlock(&fake_lock);
	if (!fake)
		return BALANCER_ELSEWHERE;
	if (paused)
		return BALANCER_LATER;
	if (work->bind)
		*ret_status = work->bind(work->user, (struct vg_virtual_gpu *)fake, work->values, work->argument_count);
	if (*ret_status)
		return BALANCER_FAILED;
	struct vg_execution *execution = calloc(1, sizeof *execution);
	execution->work = work;
	execution->references = 2; // one reference is for the caller, one for the list
	// Once the execution is in the list, the fake's thread may end it. The caller must know the execution before
	// that.
	*ret_execution = execution;
	pthread_mutex_lock(&fake_lock);
	*fake->end = execution;
	fake->end = &execution->next;
	fake->load.waiting++;
	pthread_mutex_unlock(&fake_lock);
	return BALANCER_BOUND;
}

enum vg_execution_state balancer_state(const struct vg_execution *execution)
{
	return execution->state;
}

enum vg_status balancer_failure(struct vg_execution *execution)
{
	return vg_fail(VG_DRIVER, 700, "the kernel fell over");
}

void balancer_stop(struct vg_execution *execution)
{
	execution->stopped = true;
}

void balancer_retain(struct vg_execution *execution)
{
	execution->references++;
}

void balancer_release(struct vg_execution *execution)
{
	if (execution && --execution->references == 0)
		free(execution);
}

enum vg_status balancer_migrate(struct vg_manager *manager, struct balancer_key from, struct balancer_key to,
				size_t count, size_t *ret_moved)
{
	pthread_mutex_lock(&fake_lock);
	struct fake *a = fake_of(from), *b = fake_of(to);
	size_t moved = a && b ? (count < a->load.waiting ? count : a->load.waiting) : 0;
	if (moved) {
		a->load.waiting -= moved;
		b->load.waiting += moved;
		a->migrated += (unsigned)moved;
	}
	pthread_mutex_unlock(&fake_lock);
	*ret_moved = moved;
	return VG_OK;
}

enum vg_status balancer_adjust(struct vg_manager *manager, struct balancer_key from, struct balancer_key to,
			       double share)
{
	pthread_mutex_lock(&fake_lock);
	struct fake *a = fake_of(from), *b = fake_of(to);
	enum vg_status status = fake_refusal;
	if (!a || !b)
		status = VG_NOT_FOUND;
	if (!status) {
		a->load.share -= share;
		b->load.share += share;
	}
	pthread_mutex_unlock(&fake_lock);
	return status ? vg_fail(status, 0, "no such share is to be had") : VG_OK;
}

enum vg_status balancer_scale(struct vg_manager *manager, struct balancer_key key, int units)
{
	pthread_mutex_lock(&fake_lock);
	struct fake *fake = fake_of(key);
	enum vg_status status = fake ? fake_refusal : VG_NOT_FOUND;
	if (!status) {
		fake->load.units = (unsigned)((int)fake->load.units + units);
		fake->load.share += (double)units / fake->load.max_units;
	}
	pthread_mutex_unlock(&fake_lock);
	return status ? vg_fail(status, 0, "no such units are to be had") : VG_OK;
}

enum vg_status balancer_preempt(struct vg_manager *manager, struct balancer_key key, bool *ret_preempted)
{
	pthread_mutex_lock(&fake_lock);
	struct fake *fake = fake_of(key);
	if (fake)
		fake->preempted++;
	pthread_mutex_unlock(&fake_lock);
	*ret_preempted = fake != NULL;
	return VG_OK;
}

// ---- fake devices -------------------------------------------------------------------------------------------

static struct vg_execution *fake_take(struct fake *fake)
{
	struct vg_execution *execution = fake->first;

	if (!execution)
		return NULL;
	fake->first = execution->next;
	if (!fake->first)
		fake->end = &fake->first;
	if (fake->load.waiting)
		fake->load.waiting--;
	return execution;
}

static void *fake_run(void *nothing)
{
	while (!fake_ends) {
		struct vg_execution *ended = NULL;
		pthread_mutex_lock(&fake_lock);
		for (int i = 0; i < FAKES; i++) {
			struct fake *fake = &fakes[i];
			bool first_stopped = fake->first && fake->first->stopped;
			for (unsigned n = 0; n < fake->per_ms || first_stopped; n++) {
				struct vg_execution *execution = fake_take(fake);
				if (!execution)
					break;
				execution->next = ended;
				ended = execution;
				first_stopped = fake->first && fake->first->stopped;
			}
		}
		pthread_mutex_unlock(&fake_lock);
		for (struct vg_execution *next; ended; ended = next) {
			next = ended->next;
			bool fails = ended->work->priority == 666;
			ended->state = ended->stopped ? VG_EXECUTION_CANCELLED
				       : fails	      ? VG_EXECUTION_FAILED
						      : VG_EXECUTION_COMPLETED;
			balancer_notice(ended->work);
			balancer_release(ended);
		}
		pause_ms(1);
	}
	return NULL;
}

// Adds a virtual GPU that ends `per_ms` executions in a millisecond.
static void add_fake(int place, unsigned manager, int id, double share, unsigned per_ms)
{
	static uint64_t serials;

	pthread_mutex_lock(&fake_lock);
	fakes[place] = (struct fake){.per_ms = per_ms, .there = true};
	fakes[place].end = &fakes[place].first;
	fakes[place].load = (struct balancer_load){.key = {manager, id, ++serials},
						   .share = share,
						   .takes_work = true,
						   .window = 4,
						   .status = VG_VIRTUAL_GPU_RUNNING};
	snprintf(fakes[place].load.name, BALANCER_NAME, "vGPU %d", id);
	pthread_mutex_unlock(&fake_lock);
}

// Returns how many executions have been bound to the virtual GPU so far.
static unsigned binds_of(int place)
{
	pthread_mutex_lock(&fake_lock);
	unsigned binds = fakes[place].binds;
	pthread_mutex_unlock(&fake_lock);
	return binds;
}

static size_t waiting_at(int place)
{
	pthread_mutex_lock(&fake_lock);
	size_t waiting = fakes[place].load.waiting;
	pthread_mutex_unlock(&fake_lock);
	return waiting;
}

static void pause_fake(int place, bool paused)
{
	pthread_mutex_lock(&fake_lock);
	fakes[place].load.takes_work = !paused;
	fakes[place].load.status = paused ? VG_VIRTUAL_GPU_PAUSED : VG_VIRTUAL_GPU_RUNNING;
	fakes[place].per_ms = paused ? 0 : 4;
	pthread_mutex_unlock(&fake_lock);
}

static struct vg_balancer *open_balancer(const struct vg_balancer_options *options, unsigned managers)
{
	struct vg_manager *all[FAKES];
	struct vg_balancer *balancer = NULL;

	for (unsigned i = 0; i < FAKES; i++)
		all[i] = (struct vg_manager *)&fakes[i];
	OK(vg_balancer_create(all, managers, options, &balancer));
	return balancer;
}

static void begin_fakes(void)
{
	memset(fakes, 0, sizeof fakes);
	fake_refusal = VG_OK;
	fake_ends = false;
	CHECK_INT(pthread_create(&fake_thread, NULL, fake_run, NULL), 0);
}

static void end_fakes(void)
{
	fake_ends = true;
	pthread_join(fake_thread, NULL);
	for (int i = 0; i < FAKES; i++)
		CHECK(!fakes[i].first);
}
