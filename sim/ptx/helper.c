// Host threads that help launches with their blocks. They belong to no launch: one that has nothing to do takes part in
// any that wants help, and ends after a while. A launch waits only for those that have begun to help it.
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "sim/ptx/engine.h"

enum { IDLE_MS = 500 };

struct helper {
	struct helper *next;
	pthread_t thread;
	bool works;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wanted = PTHREAD_COND_INITIALIZER;
static struct ptx_run *open_runs; // that want help
static uint32_t places;		  // that they offer
static uint32_t idle;		  // threads without a launch, at least as many as places
static struct helper *helpers;
static pid_t process; // whose threads they are
static bool ending;   // the process exits

static void close_run(struct ptx_run *run)
{
	struct ptx_run **at = &open_runs;

	while (*at && *at != run)
		at = &(*at)->next_open;
	if (*at)
		*at = run->next_open;
	places -= run->places;
	run->places = 0;
}

// Takes a place at the first open run. With the lock.
static struct ptx_worker *take_place(void)
{
	struct ptx_run *run = open_runs;
	struct ptx_worker *worker = &run->workers[run->started++];

	run->helping++;
	run->places--;
	places--;
	if (!run->places)
		close_run(run);
	return worker;
}

static bool wait_for_run(void) // false: none came
{
	struct timespec until;
	int r = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += IDLE_MS * 1000000L;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	while (!ending && !open_runs && r != ETIMEDOUT)
		r = pthread_cond_timedwait(&wanted, &lock, &until);
	return !ending && open_runs;
}

static void forget(struct helper *helper)
{
	struct helper **at = &helpers;

	while (*at != helper)
		at = &(*at)->next;
	*at = helper->next;
	free(helper);
}

static void *help(void *argument)
{
	struct helper *helper = argument;

	pthread_mutex_lock(&lock);
	while (wait_for_run()) {
		struct ptx_worker *worker = take_place();
		struct ptx_run *run = worker->run;
		helper->works = true;
		idle--;
		pthread_mutex_unlock(&lock);
		ptx_worker_main(worker);
		pthread_mutex_lock(&lock);
		helper->works = false;
		idle++;
		if (--run->helping == 0)
			pthread_cond_signal(&run->helped);
	}
	idle--;
	if (!ending) { // nobody joins it
		pthread_detach(pthread_self());
		forget(helper);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

// At exit no thread is left behind that only waits: a leak checker would look at its half-used thread-local storage. One
// that works may do so for as long as its kernel likes, so nobody waits for it.
__attribute__((destructor)) static void end_helpers(void)
{
	if (process != getpid()) // a forked child has none
		return;
	pthread_mutex_lock(&lock);
	ending = true;
	pthread_cond_broadcast(&wanted);
	for (struct helper *helper = helpers; helper;) {
		struct helper *next = helper->next;
		pthread_t thread = helper->thread;
		if (!helper->works) {
			forget(helper);
			pthread_mutex_unlock(&lock);
			pthread_join(thread, NULL);
			pthread_mutex_lock(&lock);
		}
		helper = next;
	}
	pthread_mutex_unlock(&lock);
}

static bool start_thread(void)
{
	struct helper *helper = calloc(1, sizeof *helper);
	sigset_t all, before;

	if (!helper)
		return false;
	sigfillset(&all); // the program's signals are for its own threads
	pthread_sigmask(SIG_SETMASK, &all, &before);
	bool started = pthread_create(&helper->thread, NULL, help, helper) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!started) {
		free(helper);
		return false;
	}
	helper->next = helpers;
	helpers = helper;
	process = getpid();
	return true;
}

uint32_t ptx_helpers_call(struct ptx_run *run, uint32_t count)
{
	pthread_mutex_lock(&lock);
	run->places = count;
	places += count;
	while (idle < places && start_thread())
		idle++;
	if (idle < places) { // no more threads to be had
		run->places -= places - idle;
		places = idle;
	}
	uint32_t offered = run->places;
	if (offered) {
		run->next_open = open_runs;
		open_runs = run;
		pthread_cond_broadcast(&wanted);
	}
	pthread_mutex_unlock(&lock);
	return offered;
}

void ptx_helpers_dismiss(struct ptx_run *run, bool all_needed)
{
	pthread_mutex_lock(&lock);
	if (!all_needed)
		close_run(run);
	while (run->places || run->helping)
		pthread_cond_wait(&run->helped, &lock);
	pthread_mutex_unlock(&lock);
}
