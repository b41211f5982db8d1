#include "daemon/work.h"

#include "base/descriptor.h"
#include "daemon/source.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

enum { IDLE_SECONDS = 1, NICE = 5, MOST_WORK = 2 * USER_JOBS, TIMER_MS = 50, STACK_SIZE = 1 << 20 };

struct worker {
	struct worker *next;
	uid_t uid;
	enum work_lane lane;
	struct work *first, **last;
	pthread_cond_t more;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // guards everything below
static struct worker *workers;
static struct work *finished;
static struct source finished_source = {.fd = -1};
static timer_t loop_timer; // set by work_start_timer()

// Creates a timer that sends signals to this thread. A signal interrupts a close() that takes too long.
static bool make_timer(timer_t *ret_timer)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};

	event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
	return timer_create(CLOCK_MONOTONIC, &event, ret_timer) == 0;
}

static void start_timer(timer_t timer)
{
	const struct timespec step = {.tv_nsec = TIMER_MS * 1000000};

	timer_settime(timer, 0, &(struct itimerspec){step, step}, NULL);
}

void work_start_timer(void)
{
	start_timer(loop_timer);
}

void work_stop_timer(void)
{
	timer_settime(loop_timer, 0, &(struct itimerspec){0}, NULL);
}

static void ignore_signal(int signal)
{
}

// Waits for work and returns it, or NULL after IDLE_SECONDS without work. The caller must hold the lock.
static struct work *next_work(struct worker *worker)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += IDLE_SECONDS;
	while (!worker->first)
		if (pthread_cond_timedwait(&worker->more, &lock, &until) == ETIMEDOUT && !worker->first)
			return NULL;
	struct work *work = worker->first;
	worker->first = work->next;
	if (!worker->first)
		worker->last = &worker->first;
	return work;
}

static void free_worker(struct worker *worker)
{
	struct worker **link = &workers;

	while (*link != worker)
		link = &(*link)->next;
	*link = worker->next;
	pthread_cond_destroy(&worker->more);
	free(worker);
}

static void *run_worker(void *worker_)
{
	// The names of the threads, which `ps -L` shows.
	static const char *const names[WORK_LANES] = {[WORK_ANY] = "virgated-user",
						      [WORK_UNREAD] = "virgated-unread",
						      [WORK_NAMES] = "virgated-names",
						      [WORK_DISK] = "virgated-disk",
						      [WORK_MEMORY] = "virgated-memory"};
	struct worker *worker = worker_;
	struct work *work;
	timer_t timer;
	bool timed = worker->lane != WORK_DISK && make_timer(&timer);

	prctl(PR_SET_NAME, names[worker->lane]);
	if (worker->lane != WORK_DISK)
		setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE); // lower priority than the loop
	if (timed)
		start_timer(timer);
	pthread_mutex_lock(&lock);
	while ((work = next_work(worker))) {
		pthread_mutex_unlock(&lock);
		work->run(work);
		pthread_mutex_lock(&lock);
		work->next = finished;
		finished = work;
		eventfd_write(finished_source.fd, 1);
	}
	free_worker(worker);
	pthread_mutex_unlock(&lock);
	if (timed)
		timer_delete(timer);
	return NULL;
}

// Starts a thread. The caller must hold the lock.
static struct worker *start_worker(uid_t uid, enum work_lane lane)
{
	struct worker *worker = calloc(1, sizeof *worker);
	pthread_attr_t attributes;
	pthread_t thread;

	if (!worker)
		return NULL;
	worker->uid = uid;
	worker->lane = lane;
	worker->last = &worker->first;
	pthread_cond_init(&worker->more, NULL);
	worker->next = workers;
	workers = worker;
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_SIZE);
	int error = pthread_create(&thread, &attributes, run_worker, worker);
	pthread_attr_destroy(&attributes);
	if (!error)
		return worker;
	free_worker(worker);
	return NULL;
}

bool work_is_full(uid_t uid, enum work_lane lane)
{
	return user_total(uid).jobs[lane] >= USER_JOBS;
}

bool work_post(uid_t uid, struct work *work)
{
	uid_t owner = user_owner(uid);
	struct worker *worker;

	if (user_total(uid).jobs[work->lane] >= MOST_WORK)
		return false;
	struct user *user = user_of(uid);
	pthread_mutex_lock(&lock);
	for (worker = workers; worker && (worker->uid != owner || worker->lane != work->lane);)
		worker = worker->next;
	if (!worker)
		worker = start_worker(owner, work->lane);
	if (worker) {
		user->jobs[work->lane]++;
		work->uid = uid;
		work->next = NULL;
		*worker->last = work;
		worker->last = &work->next;
		pthread_cond_signal(&worker->more);
	}
	pthread_mutex_unlock(&lock);
	return worker;
}

static void finish_work(struct node *node, struct source *source, uint32_t events)
{
	eventfd_t count;

	eventfd_read(source->fd, &count);
	pthread_mutex_lock(&lock);
	struct work *work = finished, *next;
	finished = NULL;
	pthread_mutex_unlock(&lock);
	for (; work; work = next) {
		next = work->next;
		user_of(work->uid)->jobs[work->lane]--;
		work->done(node, work);
	}
}

void work_collect(struct node *node, int timeout_ms)
{
	struct pollfd ready = {.fd = finished_source.fd, .events = POLLIN};

	if (poll(&ready, 1, timeout_ms) == 1)
		finish_work(node, &finished_source, EPOLLIN);
}

int work_start(struct node *node)
{
	sigaction(SIGUSR1, &(struct sigaction){.sa_handler = ignore_signal, .sa_flags = SA_RESTART}, NULL);
	if (!make_timer(&loop_timer))
		return -errno;
	finished_source = (struct source){eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), finish_work};
	return finished_source.fd < 0 ? -errno : source_watch(node, &finished_source, EPOLLIN);
}
