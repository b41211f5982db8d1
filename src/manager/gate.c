#include "manager/manager.h"

void manager_gate_init(struct manager_gate *gate)
{
	pthread_mutex_init(&gate->lock, NULL);
	pthread_cond_init(&gate->empty, NULL);
}

void manager_gate_finish(struct manager_gate *gate)
{
	if (!core_forked) // in a forked child, the call would wait for threads that exist only in the parent
		pthread_cond_destroy(&gate->empty);
	pthread_mutex_destroy(&gate->lock);
}

bool manager_gate_enter(struct manager_gate *gate)
{
	atomic_fetch_add(&gate->inside, 1);
	if (!atomic_load(&gate->shut))
		return true;
	manager_gate_leave(gate);
	return false;
}

void manager_gate_leave(struct manager_gate *gate)
{
	if (atomic_fetch_sub(&gate->inside, 1) != 1 || !atomic_load(&gate->shut))
		return;
	pthread_mutex_lock(&gate->lock);
	pthread_cond_broadcast(&gate->empty);
	pthread_mutex_unlock(&gate->lock);
}

void manager_gate_shut(struct manager_gate *gate)
{
	atomic_store(&gate->shut, true);
}

void manager_gate_wait(struct manager_gate *gate)
{
	pthread_mutex_lock(&gate->lock);
	while (atomic_load(&gate->inside))
		pthread_cond_wait(&gate->empty, &gate->lock);
	pthread_mutex_unlock(&gate->lock);
}
