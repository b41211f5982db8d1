// Preloaded into a program: new threads begin only when the file that LATE_THREADS names has been removed.
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

struct late {
	void *(*run)(void *);
	void *argument;
};

static void *run_late(void *late_)
{
	struct late late = *(struct late *)late_;

	free(late_);
	while (access(getenv("LATE_THREADS"), F_OK) == 0)
		poll(NULL, 0, 5);
	return late.run(late.argument);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
	int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	struct late *late = malloc(sizeof *late);

	if (!late)
		return EAGAIN;
	*late = (struct late){run, argument};
	*(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
	int r = next(thread, attributes, run_late, late);
	if (r)
		free(late);
	return r;
}
