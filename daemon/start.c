#include "daemon/start.h"

#include "base/clock.h"
#include "daemon/admission.h"
#include "daemon/arbiter.h"
#include "daemon/broker/broker.h"
#include "daemon/connection.h"
#include "daemon/journal.h"
#include "daemon/journal_file.h"
#include "daemon/launcher.h"
#include "daemon/load.h"
#include "daemon/mend.h"
#include "daemon/mps.h"
#include "daemon/names.h"
#include "daemon/directory.h"
#include "daemon/registry.h"
#include "daemon/save.h"
#include "daemon/say.h"
#include "daemon/search.h"
#include "daemon/source.h"
#include "daemon/state.h"
#include "daemon/subordinate.h"
#include "daemon/tenant.h"
#include "daemon/work.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { START_PATIENCE_MS = 2000 };

static void handle_signal(struct node *node, struct source *source, uint32_t events)
{
	struct signalfd_siginfo info;

	if (read(source->fd, &info, sizeof info) == sizeof info) {
		node->is_replaced = info.ssi_signo == SIGHUP;
		say(node->is_replaced ? "starts the installed program on signal %u" : "ends on signal %u",
		    info.ssi_signo);
		node->is_leaving = true;
		node->is_interrupted = true;
	}
}

static int watch_signals(struct node *node)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGIO, SIG_IGN); // the kernel sends SIGIO for the leases that leftover.c takes
	node->signals = (struct source){signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), handle_signal};
	return node->signals.fd < 0 ? -1 : source_watch(node, &node->signals, EPOLLIN);
}

// Called when the runtime directory was removed and created again. Scans all vGPUs, which marks those whose ledgers are
// missing.
static void restore_vgpus(struct node *node)
{
	tenant_scan_all(node);
	mend_all(node);
	state_save_runtime(node);
}

static void end_search(struct node *node)
{
	mend_all(node);
}

// Sets the functions by which modules notify modules of higher layers.
static void set_callbacks(struct node *node)
{
	static const struct search_results results = {launcher_adopt, tenant_prove, end_search};

	registry_guard(node, broker_mend_page);
	search_set_results(&results);
	save_set_answer(connection_finish);
}

static int open_gpus(struct node *node)
{
	char problem[512];

	if (vg_system_open(&node->system, problem, sizeof problem) != 0) {
		say("%s", problem);
		return -1;
	}
	node->simulated = vg_system_simulated(node->system);
	return 0;
}

static int open_events(struct node *node)
{
	node->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
	node->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (node->epoll_fd >= 0 && watch_signals(node) == 0 && work_start(node) == 0)
		return 0;
	say("cannot wait for events: %m");
	return -1;
}

// Waits for searches and lookups, but only for a short time: a slow directory of users must not delay the start.
static void wait_for_threads(struct node *node)
{
	for (int i = 0; i < START_PATIENCE_MS / 20; i++) {
		bool is_pending = mend_all(node);
		is_pending |= names_are_pending();
		is_pending |= subordinate_is_pending();
		if (!is_pending)
			return;
		work_collect(node, 20);
	}
}

// Reads the journal of earlier daemons, and adds an event for the start of this one.
static void note_start(struct node *node)
{
	const struct journal_event *last = NULL;

	node->started_ns = vg_clock_realtime_ns();
	journal_load(node);
	for (const struct journal_event *event = journal_next(0); event; event = journal_next(event->number + 1))
		if (event->kind == JOURNAL_STARTED || event->kind == JOURNAL_ENDED)
			last = event;
	journal_add(node, JOURNAL_STARTED, &(struct journal_note){.pid = getpid()}, "version %s%s", VIRGATE_VERSION,
		    last && last->kind == JOURNAL_STARTED ? "; the daemon before it was killed or has crashed" : "");
}

int start_node(struct node *node)
{
	static const struct directory_events events = {connection_accept, restore_vgpus};
	struct vg_ledger_owner self;

	if (directory_prepare(node, &events) < 0)
		return -1;
	if (vg_ledger_self(&self) < 0) {
		say("/proc is not mounted here");
		return -1;
	}
	node->pid_namespace = self.pid_namespace;
	if (open_gpus(node) < 0 || open_events(node) < 0)
		return -1;
	set_callbacks(node);
	note_start(node);
	subordinate_start(node);
	load_state(node);
	mps_adopt(node);
	broker_load_pages(node);
	wait_for_threads(node);
	admission_publish(node);
	return directory_listen(node);
}

void start_finish(struct node *node)
{
	journal_add(node, JOURNAL_ENDED, &(struct journal_note){.pid = getpid()}, "%s",
		    node->is_interrupted  ? "a signal ended it"
		    : node->was_shut_down ? "it was shut down"
					  : "it was not used");
	while (save_is_writing() || journal_file_is_writing()) {
		work_collect(node, -1);
		connection_retry(node);
	}
	journal_file_finish(node);
	arbiter_end_all(node);
	mps_end(node);
	say_left_out(UINT64_MAX, &(uint64_t){0});
	vg_system_close(node->system);
	directory_release(node);
}
