#include "share_wait.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { RETRY_MS = 250 };

static void fill_ending_signals(sigset_t *ret_set)
{
	sigemptyset(ret_set);
	sigaddset(ret_set, SIGINT);
	sigaddset(ret_set, SIGTERM);
	sigaddset(ret_set, SIGHUP);
}

void share_block_signals(void)
{
	sigset_t set;

	fill_ending_signals(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

void share_unblock_signals(void)
{
	sigset_t set;

	fill_ending_signals(&set);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

int share_wait_for_change(void *object, int descriptor, share_read_state read_state, enum vg_publication_state known,
			  struct vg_publication_view *ret_view)
{
	sigset_t set;
	int result = -1;

	fill_ending_signals(&set);
	int signals = signalfd(-1, &set, SFD_CLOEXEC);
	for (;;) {
		*ret_view = (struct vg_publication_view){.size = sizeof *ret_view};
		if (read_state(object, ret_view))
			break;
		bool is_detached = ret_view->state == VG_PUBLICATION_DETACHED;
		result = ret_view->state != known && !is_detached;
		if (result)
			break;
		// Do not poll a closed connection: poll() would always report it as ready.
		bool is_closed = is_detached || known == VG_PUBLICATION_LOST;
		struct pollfd ready[2] = {{.fd = signals, .events = POLLIN},
					  {.fd = is_closed ? -1 : descriptor, .events = POLLIN}};
		poll(ready, 2, is_detached ? RETRY_MS : -1);
		if (ready[0].revents)
			break;
		result = -1;
	}
	close(signals);
	return result;
}
