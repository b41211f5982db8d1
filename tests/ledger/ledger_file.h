// A ledger in a folder of the test's own, and the reaping that the daemon does.
#pragma once
#include "base/descriptor.h"
#include "ledger/ledger.h"
#include "test.h"

#include <limits.h>

static char ledger_folder[PATH_MAX], ledger_path[PATH_MAX + 32];

static void remove_ledger_folder(void)
{
	char command[PATH_MAX + 16];

	if (getpid() != test_pid)
		return;
	snprintf(command, sizeof command, "rm -rf '%s'", ledger_folder);
	if (system(command) != 0)
		fprintf(stderr, "left behind: %s\n", ledger_folder);
}

// At ledger_path.
static inline struct vg_ledger *fresh_ledger(uint64_t limit)
{
	static int count;
	struct vg_ledger_options options = {
		.name = "test", .limit = limit, .owner = (uid_t)-1, .group = (gid_t)-1, .uuid = {1, 2, 3}};
	struct vg_ledger *ledger;

	if (!*ledger_folder) {
		const char *parent = getenv("TMPDIR");
		snprintf(ledger_folder, sizeof ledger_folder, "%s/test-ledger-XXXXXX", parent ? parent : "/tmp");
		if (!mkdtemp(ledger_folder))
			FAIL("no directory %s", ledger_folder);
		atexit(remove_ledger_folder);
	}
	snprintf(ledger_path, sizeof ledger_path, "%s/%d", ledger_folder, count++);
	int r = vg_ledger_create(ledger_path, &options, &ledger);
	if (r < 0)
		FAIL("vg_ledger_create: %s", strerror(-r));
	return ledger;
}

// Refunds every dead tenant; the sum of what they had.
static inline uint64_t reap_all_dead(struct vg_ledger *ledger)
{
	struct vg_ledger_tenant tenant;
	unsigned int cursor = 0;
	uint64_t sum = 0, refunded;

	while (vg_ledger_next_tenant(ledger, &cursor, &tenant)) {
		if (!vg_process_is_dead((pid_t)tenant.owner.pid, tenant.owner.start_time))
			continue;
		int r = vg_ledger_reap(ledger, &tenant, NULL, &refunded);
		if (r == 0)
			sum += refunded;
		else if (r != VG_LEDGER_GONE)
			FAIL("vg_ledger_reap: %d", r);
	}
	return sum;
}

// Refunds what living processes had before exec; the sum of it.
static inline uint64_t reap_all_replaced(struct vg_ledger *ledger)
{
	struct vg_ledger_tenant tenant;
	unsigned int cursor = 0;
	uint64_t sum = 0, refunded;

	while (vg_ledger_next_tenant(ledger, &cursor, &tenant)) {
		uint64_t program = vg_ledger_program_of((pid_t)tenant.owner.pid);
		if (program && tenant.program && program != tenant.program &&
		    vg_ledger_reap_program(ledger, &tenant, NULL, &refunded) == 0)
			sum += refunded;
	}
	return sum;
}
