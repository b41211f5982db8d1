#include "ledger/guard.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // protects the two variables below
static unsigned guards;
static struct sigaction before; // the program's own SIGBUS handler; valid while a thread is protected

static _Thread_local struct {
	void *address;
	size_t length;
	volatile sig_atomic_t was_truncated;
} guarded;

static void call_other_handler(int signal, siginfo_t *info, void *context)
{
	if (before.sa_flags & SA_SIGINFO)
		before.sa_sigaction(signal, info, context);
	else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
		before.sa_handler(signal);
	else // return from the handler: the access is repeated, and then SIGBUS kills the process
		sigaction(SIGBUS, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
}

static void replace_mapping(int signal, siginfo_t *info, void *context)
{
	const char *at = info->si_addr, *start = guarded.address;

	if (start && at >= start && at < start + guarded.length &&
	    mmap(guarded.address, guarded.length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0) == guarded.address)
		guarded.was_truncated = 1;
	else
		call_other_handler(signal, info, context);
}

void vg_ledger_guard(const struct vg_ledger *ledger)
{
	struct sigaction action = {.sa_sigaction = replace_mapping, .sa_flags = SA_SIGINFO | SA_ONSTACK};

	vg_ledger_range(ledger, &guarded.address, &guarded.length);
	guarded.was_truncated = 0;
	pthread_mutex_lock(&lock);
	if (guards++ == 0)
		sigaction(SIGBUS, &action, &before);
	pthread_mutex_unlock(&lock);
}

bool vg_ledger_unguard(void)
{
	pthread_mutex_lock(&lock);
	if (--guards == 0)
		sigaction(SIGBUS, &before, NULL);
	pthread_mutex_unlock(&lock);
	guarded.address = NULL;
	return guarded.was_truncated;
}
