// Creates ledgers in a private directory, and reaps tenants as the daemon does.
#pragma once
#include "base/descriptor.h"
#include "ledger/ledger.h"
#include "test.h"

#include <limits.h>

static char ledger_directory[PATH_MAX], ledger_path[PATH_MAX + 32];

static void remove_ledger_directory(void)
{
	char command[PATH_MAX + 16];

	if (getpid() != test_pid)
		return;
	snprintf(command, sizeof command, "rm -rf '%s'", ledger_directory);
	if (system(command) != 0)
		fprintf(stderr, "cannot remove %s\n", ledger_directory);
}

// Creates a ledger in the file ledger_path.
static inline struct vg_ledger *create_ledger(uint64_t limit)
{
	static int count;
	struct vg_ledger_options options = {
		.name = "test", .limit = limit, .owner = (uid_t)-1, .group = (gid_t)-1, .uuid = {1, 2, 3}};
	struct vg_ledger *ledger;

	if (!*ledger_directory) {
		const char *parent = getenv("TMPDIR");
		snprintf(ledger_directory, sizeof ledger_directory, "%s/test-ledger-XXXXXX", parent ? parent : "/tmp");
		if (!mkdtemp(ledger_directory))
			FAIL("cannot create directory %s", ledger_directory);
		atexit(remove_ledger_directory);
	}
	snprintf(ledger_path, sizeof ledger_path, "%s/%d", ledger_directory, count++);
	int r = vg_ledger_create(ledger_path, &options, &ledger);
	if (r < 0)
		FAIL("vg_ledger_create: %s", strerror(-r));
	return ledger;
}

// Returns the next number of a pseudorandom sequence (xorshift).
static inline uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

// Reaps the slots of all dead tenants. Returns the sum of the refunds.
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

// Reaps the slots of programs that living processes have replaced by exec. Returns the sum of the refunds.
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
