// Creates, closes and destroys balancers, and accepts work for them.
#include "manager/balancer_engine.h"

#include "base/log.h"

#include <stdlib.h>

enum { DEFAULT_INTERVAL_MS = 100 };
static const double default_threshold = 0.2;

static void free_balancer(struct core_object *object)
{
	struct vg_balancer *balancer = (struct vg_balancer *)object;

	for (struct balancer_queue *queue = balancer->queues, *next; queue; queue = next) {
		next = queue->next;
		free(queue);
	}
	for (unsigned i = 0; i < balancer->manager_count; i++)
		balancer_release_manager(balancer->managers[i]);
	balancer_memory_finish(&balancer->memory);
	free(balancer->log);
	free(balancer);
}

static const struct core_class balancer_class = {"balancer", NULL, free_balancer};

static enum vg_status check_options(const struct vg_balancer_options *options)
{
	if ((unsigned)options->strategy > VG_BALANCE_WEIGHTED)
		return vg_fail(VG_INVALID, 0, "strategy %d: there are 0 to %d", options->strategy, VG_BALANCE_WEIGHTED);
	if (!(options->threshold >= 0 && options->threshold <= 1))
		return vg_fail(VG_INVALID, 0, "a threshold of %g: it is 0 to 1, 0 being %g", options->threshold,
			       default_threshold);
	if (options->interval_ms > VG_BALANCER_MAX_INTERVAL_MS)
		return vg_fail(VG_LIMIT, 0, "an interval of %u ms: at most %d", options->interval_ms,
			       VG_BALANCER_MAX_INTERVAL_MS);
	if (options->forbidden & ~(unsigned)VG_ACTION_ALL)
		return vg_fail(VG_INVALID, 0, "forbidden is 0x%x: the actions are the bits of 0x%x", options->forbidden,
			       VG_ACTION_ALL);
	if ((unsigned)options->log_level > VG_LOG_DEBUG)
		return vg_fail(VG_INVALID, 0, "log level %d: there are 0 to %d", options->log_level, VG_LOG_DEBUG);
	return VG_OK;
}

static enum vg_status append_manager(struct vg_balancer *balancer, struct vg_manager *manager)
{
	for (unsigned i = 0; i < balancer->manager_count; i++)
		if (balancer->managers[i] == manager)
			return vg_fail(VG_EXISTS, 0, "the balancer has that manager, as number %u", i);
	if (balancer->manager_count == VG_BALANCER_MANAGERS)
		return vg_fail(VG_LIMIT, 0, "the balancer has %d managers: there may be no more", VG_BALANCER_MANAGERS);
	if (balancer->worker.stopping)
		return vg_fail(VG_CLOSED, 0, "the balancer has been closed");
	balancer->managers[balancer->manager_count++] = manager;
	return VG_OK;
}

static enum vg_status add_manager(struct vg_balancer *balancer, struct vg_manager *manager)
{
	enum vg_status status = balancer_retain_manager(manager);

	if (status)
		return status;
	pthread_mutex_lock(&balancer->worker.lock);
	status = append_manager(balancer, manager);
	pthread_mutex_unlock(&balancer->worker.lock);
	if (status)
		balancer_release_manager(manager);
	return status;
}

static struct vg_balancer *create_balancer(const struct vg_balancer_options *options)
{
	struct vg_balancer *balancer = calloc(1, sizeof *balancer);

	if (!balancer)
		return NULL;
	core_object_init(&balancer->object, &balancer_class);
	pthread_mutex_init(&balancer->rounds, NULL);
	manager_worker_init(&balancer->worker);
	balancer_list_init(&balancer->ended);
	balancer->strategy = options->strategy;
	balancer->rules.threshold = options->threshold > 0 ? options->threshold : default_threshold;
	balancer->rules.forbidden = options->forbidden;
	balancer->interval_ms = options->interval_ms ? options->interval_ms : DEFAULT_INTERVAL_MS;
	balancer->manual = options->manual;
	balancer->log_level = options->log_level;
	balancer->log = calloc(VG_BALANCER_LOG, sizeof *balancer->log);
	if (balancer->log)
		return balancer;
	core_object_release(&balancer->object);
	return NULL;
}

enum vg_status vg_balancer_create(struct vg_manager *const *managers, size_t count,
				  const struct vg_balancer_options *options, struct vg_balancer **ret_balancer)
{
	VG_ENTRY();
	struct vg_balancer_options asked;

	CORE_NEEDED(managers);
	CORE_NEEDED(ret_balancer);
	CORE_OPTIONS(asked, options);
	enum vg_status status = check_options(&asked);
	if (status)
		return status;
	if (!count || count > VG_BALANCER_MANAGERS)
		return vg_fail(count ? VG_LIMIT : VG_INVALID, 0, "%zu managers: 1 to %d", count, VG_BALANCER_MANAGERS);
	struct vg_balancer *balancer = create_balancer(&asked);
	if (!balancer)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a balancer");
	for (size_t i = 0; i < count && !status; i++)
		status = add_manager(balancer, managers[i]);
	if (!status)
		status = manager_worker_start(&balancer->worker, balancer_run, balancer, "balancer");
	if (status) {
		core_object_release(&balancer->object);
		return status;
	}
	*ret_balancer = balancer;
	return VG_OK;
}

enum vg_status vg_balancer_add(struct vg_balancer *balancer, struct vg_manager *manager)
{
	VG_ENTRY();
	BALANCER_USABLE(balancer);
	return add_manager(balancer, manager);
}

enum vg_status vg_balancer_close(struct vg_balancer *balancer)
{
	VG_ENTRY();
	BALANCER_USABLE(balancer);
	return manager_worker_stop(&balancer->worker, "balancer");
}

void vg_balancer_destroy(struct vg_balancer *balancer)
{
	if (!balancer)
		return;
	if (!core_forked && vg_balancer_close(balancer)) {
		vg_log(VG_LOG_ERROR, "destroying a balancer: %s", vg_last_error()->text);
		return;
	}
	core_object_release(&balancer->object);
}

enum vg_status vg_balancer_execute(struct vg_balancer *balancer, const struct vg_balanced_work *work,
				   struct vg_balanced **ret_balanced)
{
	VG_ENTRY();
	struct vg_balanced_work asked;
	struct vg_balanced *balanced;

	BALANCER_USABLE(balancer);
	CORE_NEEDED(work);
	CORE_OPTIONS(asked, work);
	enum vg_status status = balancer_work_create(balancer, &asked, &balanced);
	if (status)
		return status;
	// The caller gets a reference of its own, because the queue may release the queue's reference at any time.
	core_object_retain(&balanced->object);
	status = balancer_enqueue(balancer, balanced);
	if (status) {
		core_object_release(&balanced->object);
		core_object_release(&balanced->object);
		return status;
	}
	pthread_mutex_lock(&balancer->worker.lock);
	balancer->info.submitted++;
	pthread_mutex_unlock(&balancer->worker.lock);
	if (ret_balanced)
		*ret_balanced = balanced;
	else
		core_object_release(&balanced->object);
	return VG_OK;
}

enum vg_status vg_balancer_info(struct vg_balancer *balancer, struct vg_balancer_info *ret_info)
{
	VG_ENTRY();
	BALANCER_USABLE(balancer);
	CORE_NEEDED(ret_info);
	pthread_mutex_lock(&balancer->worker.lock);
	struct vg_balancer_info info = balancer->info;
	info.strategy = balancer->strategy;
	info.threshold = balancer->rules.threshold;
	info.interval_ms = balancer->interval_ms;
	info.forbidden = balancer->rules.forbidden;
	info.managers = balancer->manager_count;
	for (const struct balancer_queue *queue = balancer->queues; queue; queue = queue->next) {
		info.unbound += queue->waiting.count;
		info.bound += queue->bound.count;
	}
	pthread_mutex_unlock(&balancer->worker.lock);
	*ret_info = info;
	return VG_OK;
}
