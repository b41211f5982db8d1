#include "share_hold.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { RETRY_MS = 250 };

static void ending_signals(sigset_t *ret_set)
{
	sigemptyset(ret_set);
	sigaddset(ret_set, SIGINT);
	sigaddset(ret_set, SIGTERM);
	sigaddset(ret_set, SIGHUP);
}

void share_hold_begin(void)
{
	sigset_t set;

	ending_signals(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

void share_hold_pause(void)
{
	sigset_t set;

	ending_signals(&set);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

int share_hold(void *held, int descriptor, share_look look, enum vg_publication_state known,
	       struct vg_publication_view *ret_view)
{
	sigset_t set;
	int result = -1;

	ending_signals(&set);
	int signals = signalfd(-1, &set, SFD_CLOEXEC);
	for (;;) {
		*ret_view = (struct vg_publication_view){.size = sizeof *ret_view};
		if (look(held, ret_view))
			break;
		bool away = ret_view->state == VG_PUBLICATION_DETACHED;
		result = ret_view->state != known && !away;
		if (result)
			break;
		// A connection that has ended stays ready: then it is time that is waited for.
		bool ended = away || known == VG_PUBLICATION_LOST;
		struct pollfd ready[2] = {{.fd = signals, .events = POLLIN},
					  {.fd = ended ? -1 : descriptor, .events = POLLIN}};
		poll(ready, 2, away ? RETRY_MS : -1);
		if (ready[0].revents)
			break;
		result = -1;
	}
	close(signals);
	return result;
}
