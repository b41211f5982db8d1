// Keeps a queue for each virtual GPU, with the work that has not been bound (submitted) to it yet. The balancing
// strategy that the program chose selects the queue for new work. Until the work is bound, it can move to the queue of
// another virtual GPU.
#include "manager/balancer_engine.h"

#include <stdio.h>
#include <stdlib.h>

// ---- lists --------------------------------------------------------------------------------------------------

void balancer_list_init(struct balancer_list *list)
{
	*list = (struct balancer_list){.end = &list->first};
}

void balancer_list_add(struct balancer_list *list, struct vg_balanced *work)
{
	work->next = NULL;
	*list->end = work;
	list->end = &work->next;
	list->count++;
}

struct vg_balanced *balancer_list_pop(struct balancer_list *list)
{
	struct vg_balanced *work = list->first;

	if (work)
		balancer_list_remove(list, work);
	return work;
}

bool balancer_list_remove(struct balancer_list *list, const struct vg_balanced *work)
{
	for (struct vg_balanced **place = &list->first; *place; place = &(*place)->next) {
		if (*place != work)
			continue;
		*place = work->next;
		if (list->end == &work->next)
			list->end = place;
		list->count--;
		return true;
	}
	return false;
}

void balancer_list_move(struct balancer_list *from, struct balancer_list *to, size_t count)
{
	struct vg_balanced **place = &from->first;

	if (!count)
		return;
	for (size_t i = count; i < from->count; i++)
		place = &(*place)->next;
	*to->end = *place;
	to->end = from->end;
	*place = NULL;
	from->end = place;
	from->count -= count;
	to->count += count;
}

// ---- queues -------------------------------------------------------------------------------------------------

struct balancer_queue *balancer_queue_find(const struct vg_balancer *balancer, struct balancer_key key)
{
	struct balancer_queue *queue = balancer->queues;

	while (queue && !balancer_same(queue->key, key))
		queue = queue->next;
	return queue;
}

static struct balancer_queue *create_queue(struct vg_balancer *balancer, const struct balancer_load *load)
{
	struct balancer_queue *queue = calloc(1, sizeof *queue);

	if (!queue)
		return NULL;
	queue->key = load->key;
	queue->window = load->window;
	balancer_list_init(&queue->waiting);
	balancer_list_init(&queue->bound);
	queue->next = balancer->queues;
	balancer->queues = queue;
	return queue;
}

// Frees the queues of closed virtual GPUs that have no work left.
static void free_unused_queues(struct vg_balancer *balancer)
{
	struct balancer_queue **place = &balancer->queues;

	while (*place) {
		struct balancer_queue *queue = *place;
		if (queue->listed || queue->waiting.count || queue->bound.count) {
			place = &queue->next;
			continue;
		}
		*place = queue->next;
		free(queue);
	}
}

// Creates a queue for each virtual GPU in `loads` that has none, and updates the others. Sets the number of queued
// executions in `loads`. Returns false if out of memory.
static bool match_queues(struct vg_balancer *balancer, struct balancer_load *loads, size_t count)
{
	for (struct balancer_queue *queue = balancer->queues; queue; queue = queue->next)
		queue->listed = queue->takes_work = false;
	for (size_t i = 0; i < count; i++) {
		struct balancer_queue *queue = balancer_queue_find(balancer, loads[i].key);
		if (loads[i].status == VG_VIRTUAL_GPU_ERROR) // permanent: treat the virtual GPU as closed
			continue;
		if (!queue)
			queue = create_queue(balancer, &loads[i]);
		if (!queue)
			return false;
		queue->listed = true;
		queue->takes_work = loads[i].takes_work;
		loads[i].unbound = queue->waiting.count;
	}
	free_unused_queues(balancer);
	return true;
}

enum vg_status balancer_take_snapshot(struct vg_balancer *balancer, struct balancer_load **ret_loads, size_t *ret_count)
{
	struct vg_manager *managers[VG_BALANCER_MANAGERS];

	pthread_mutex_lock(&balancer->worker.lock);
	// Copy the list, because the lock is not held during balancer_read(). Managers are added but never removed, so
	// the copied pointers stay valid.
	unsigned manager_count = balancer->manager_count;
	for (unsigned i = 0; i < manager_count; i++)
		managers[i] = balancer->managers[i];
	pthread_mutex_unlock(&balancer->worker.lock);
	enum vg_status status = balancer_read(managers, manager_count, ret_loads, ret_count);
	if (status)
		return status;
	pthread_mutex_lock(&balancer->worker.lock);
	bool matched = match_queues(balancer, *ret_loads, *ret_count);
	balancer->info.virtual_gpus = (unsigned)*ret_count;
	pthread_mutex_unlock(&balancer->worker.lock);
	if (matched)
		return VG_OK;
	free(*ret_loads);
	return vg_fail(VG_NO_MEMORY, 0, "no memory for the queues of %zu virtual GPUs", *ret_count);
}

static enum vg_status fail_without_target(const struct balancer_load *loads, size_t count)
{
	char unusable[400] = "";
	size_t used = 0;

	if (!count)
		return vg_fail(VG_NOT_FOUND, 0,
			       "there is no virtual GPU: the balancer's managers have none, or are closed");
	bool error = false;
	for (size_t i = 0; i < count && used < sizeof unusable - 100; i++) {
		used += (size_t)snprintf(unusable + used, sizeof unusable - used, "%s%s is %s", used ? ", " : "",
					 loads[i].name, vg_virtual_gpu_status_text(loads[i].status));
		error |= loads[i].status == VG_VIRTUAL_GPU_ERROR;
	}
	return vg_fail(VG_STATE, 0, "no virtual GPU accepts work: %s%s", unusable,
		       error ? "; an error has ended all GPU work of this process: restart the process" : "");
}

enum vg_status balancer_enqueue(struct vg_balancer *balancer, struct vg_balanced *work)
{
	struct balancer_load *loads;
	long place = -1;
	size_t count;

	enum vg_status status = balancer_take_snapshot(balancer, &loads, &count);
	if (status)
		return status;
	pthread_mutex_lock(&balancer->worker.lock);
	bool closed = balancer->worker.stopping;
	if (!closed)
		status = balancer_update_marks(&balancer->memory, loads, count);
	// Count the unbound work again, because other threads may have added some since the snapshot.
	for (size_t i = 0; i < count; i++) {
		const struct balancer_queue *queue = balancer_queue_find(balancer, loads[i].key);
		loads[i].takes_work &= queue != NULL;
		loads[i].unbound = queue ? queue->waiting.count : 0;
	}
	if (!closed && status == VG_OK)
		place = balancer_choose(balancer->strategy, loads, count, &balancer->memory);
	if (place >= 0) {
		work->info.manager = loads[place].key.manager;
		work->info.id = loads[place].key.id;
		balancer_list_add(&balancer_queue_find(balancer, loads[place].key)->waiting, work);
		pthread_cond_signal(&balancer->worker.wake);
	}
	pthread_mutex_unlock(&balancer->worker.lock);
	if (closed)
		status = vg_fail(VG_CLOSED, 0, "the balancer has been closed");
	else if (place < 0 && status == VG_OK)
		status = fail_without_target(loads, count);
	free(loads);
	return status;
}
