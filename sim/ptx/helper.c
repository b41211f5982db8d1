// Manages helpers: host threads that run workers of launches (launch.c). A helper belongs to no launch. An idle helper
// takes a worker that no thread runs yet, of any launch. A helper ends after IDLE_MS without work. A launch waits only
// for helpers that have begun one of its workers.
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
	bool is_busy;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct ptx_run *open_runs; // launches with workers that no thread runs yet
static uint32_t vacant;		  // number of workers, of all launches, that no thread runs yet
static uint32_t idle;		  // number of helpers without a launch; at least `vacant`
static struct helper *helpers;
static pid_t process;  // process that created the helpers
static bool is_ending; // the process is exiting

// Removes a launch from the list of those that helpers may join.
static void close_run(struct ptx_run *run)
{
	struct ptx_run **at = &open_runs;

	while (*at && *at != run)
		at = &(*at)->next_open;
	if (*at)
		*at = run->next_open;
	vacant -= run->vacant;
	run->vacant = 0;
}

// Takes a worker of the first launch in the list.
static struct ptx_worker *begin_worker(void)
{
	struct ptx_run *run = open_runs;
	struct ptx_worker *worker = &run->workers[run->begun++];

	run->helping++;
	run->vacant--;
	vacant--;
	if (!run->vacant)
		close_run(run);
	return worker;
}

// Waits for a launch that helpers may join. Returns false after IDLE_MS, or when the process exits.
static bool wait_for_run(void)
{
	struct timespec until;
	int r = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += IDLE_MS * 1000000L;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	while (!is_ending && !open_runs && r != ETIMEDOUT)
		r = pthread_cond_timedwait(&changed, &lock, &until);
	return !is_ending && open_runs;
}

static void remove_helper(struct helper *helper)
{
	struct helper **at = &helpers;

	while (*at != helper)
		at = &(*at)->next;
	*at = helper->next;
	free(helper);
}

static void *run_helper(void *argument)
{
	struct helper *helper = argument;

	pthread_mutex_lock(&lock);
	while (wait_for_run()) {
		struct ptx_worker *worker = begin_worker();
		struct ptx_run *run = worker->run;
		helper->is_busy = true;
		idle--;
		pthread_mutex_unlock(&lock);
		ptx_worker_main(worker);
		pthread_mutex_lock(&lock);
		helper->is_busy = false;
		idle++;
		if (--run->helping == 0)
			pthread_cond_signal(&run->helped);
	}
	idle--;
	// If the process is exiting, end_helpers() joins this thread.
	if (!is_ending) {
		pthread_detach(pthread_self());
		remove_helper(helper);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

// Joins the idle helpers when the process exits. Otherwise leak checkers report their thread-local storage. A busy
// helper is not joined, because its kernel may run for ever.
__attribute__((destructor)) static void end_helpers(void)
{
	if (process != getpid()) // a forked child has no helpers
		return;
	pthread_mutex_lock(&lock);
	is_ending = true;
	pthread_cond_broadcast(&changed);
	for (struct helper *helper = helpers; helper;) {
		struct helper *next = helper->next;
		pthread_t thread = helper->thread;
		if (!helper->is_busy) {
			remove_helper(helper);
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
	sigfillset(&all); // the program handles its signals in its own threads
	pthread_sigmask(SIG_SETMASK, &all, &before);
	bool started = pthread_create(&helper->thread, NULL, run_helper, helper) == 0;
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
	run->vacant = count;
	vacant += count;
	while (idle < vacant && start_thread())
		idle++;
	// If helpers are still missing, no more threads could be created.
	if (idle < vacant) {
		run->vacant -= vacant - idle;
		vacant = idle;
	}
	uint32_t offered = run->vacant;
	if (offered) {
		run->next_open = open_runs;
		open_runs = run;
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&lock);
	return offered;
}

void ptx_helpers_dismiss(struct ptx_run *run, bool all_needed)
{
	pthread_mutex_lock(&lock);
	if (!all_needed)
		close_run(run);
	while (run->vacant || run->helping)
		pthread_cond_wait(&run->helped, &lock);
	pthread_mutex_unlock(&lock);
}
