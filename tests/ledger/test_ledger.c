// Tests charges, refusals, limits, fork, exec and the file, in one process.
#include "base/descriptor.h"
#include "ledger/layout.h"
#include "ledger/ledger.h"
#include "ledger_file.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

static const uint64_t MIB = 1 << 20;

TEST(reserve_and_refund)
{
	struct vg_ledger *ledger = create_ledger(8 * MIB);

	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, 5 * MIB), 0);
	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_CONTEXT, 3 * MIB), 0);
	CHECK_INT(vg_ledger_charged(ledger), 8 * MIB);
	CHECK_INT(vg_ledger_overhead(ledger), 3 * MIB);
	CHECK_INT(vg_ledger_used_here(ledger), 8 * MIB);
	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_VMM, 1), VG_LEDGER_REFUSED);
	CHECK_INT(vg_ledger_charged(ledger), 8 * MIB);
	vg_ledger_refund(ledger, VG_LEDGER_DEVICE, 2 * MIB);
	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_VMM, 2 * MIB), 0);
	CHECK_INT(vg_ledger_charged(ledger), 8 * MIB);
	vg_ledger_leave(ledger);
	CHECK_INT(vg_ledger_charged(ledger), 0);
	vg_ledger_close(ledger);
}

// Checks that the whole file is allocated at its creation. Otherwise, on a full file system, the first write to a page
// would kill the process.
TEST(whole_file_is_allocated_at_creation)
{
	struct vg_ledger *ledger = create_ledger(1000);
	struct stat status;

	CHECK_INT(stat(ledger_path, &status), 0);
	CHECK(status.st_blocks * 512 >= status.st_size);
	vg_ledger_close(ledger);
}

// Refunds an impossible figure, as another tenant may write one into the ledger. The refund must be limited.
TEST(refund_of_impossible_figure_is_bounded)
{
	struct vg_ledger *ledger = create_ledger(UINT64_MAX);

	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, 4096), 0);
	ledger_file_of(ledger)->slots[0].by_kind[VG_LEDGER_DEVICE] = 1ull << 63;
	vg_ledger_refund(ledger, VG_LEDGER_DEVICE, UINT64_MAX); // UBSan: -INT64_MIN overflows
	CHECK_INT(vg_ledger_charged(ledger), 0);
	vg_ledger_close(ledger);
}

// Charges and refunds the same bytes. A measurement must notice these changes, although the sum is the same.
TEST(changes_are_counted_even_if_they_cancel_out)
{
	struct vg_ledger *ledger = create_ledger(8 * MIB);
	struct vg_ledger_tenant before, after;
	unsigned int cursor = 0;

	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, MIB), 0);
	CHECK(vg_ledger_next_tenant(ledger, &cursor, &before));
	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, 5 * MIB), 0);
	vg_ledger_refund(ledger, VG_LEDGER_DEVICE, 5 * MIB);
	cursor = 0;
	CHECK(vg_ledger_next_tenant(ledger, &cursor, &after));
	CHECK_INT(after.used, before.used);
	CHECK(after.changes > before.changes);
	vg_ledger_close(ledger);
}

TEST(impossible_sizes_are_refused)
{
	struct vg_ledger *ledger = create_ledger(8 * MIB);

	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, UINT64_MAX), VG_LEDGER_REFUSED);
	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, INT64_MAX), VG_LEDGER_REFUSED);
	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, MIB), 0);
	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, UINT64_MAX - MIB + 1), VG_LEDGER_REFUSED);
	vg_ledger_refund(ledger, VG_LEDGER_DEVICE, 100 * MIB); // more than is charged
	CHECK_INT(vg_ledger_charged(ledger), 0);
	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, 0), 0);
	vg_ledger_close(ledger);
}

TEST(limit_changes_take_effect_at_once)
{
	struct vg_ledger *ledger = create_ledger(8 * MIB);
	uint64_t charged = 0;

	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, 6 * MIB), 0);
	CHECK_INT(vg_ledger_set_limit(ledger, 5 * MIB, &charged), VG_LEDGER_REFUSED);
	CHECK_INT(charged, 6 * MIB);
	CHECK_INT(vg_ledger_limit(ledger), 8 * MIB);
	CHECK_INT(vg_ledger_set_limit(ledger, 6 * MIB, &charged), 0);
	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, 1), VG_LEDGER_REFUSED);
	// more changes than the ledger's 7-bit generation number of the limit can count, so it wraps
	for (int i = 0; i < 300; i++)
		CHECK_INT(vg_ledger_set_limit(ledger, (uint64_t)(7 + i) * MIB, &charged), 0);
	CHECK_INT(vg_ledger_limit(ledger), 306 * MIB);
	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, 300 * MIB), 0);
	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, 1), VG_LEDGER_REFUSED);
	vg_ledger_close(ledger);
}

TEST(forked_child_gets_its_own_slot)
{
	struct vg_ledger *ledger = create_ledger(8 * MIB);

	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, MIB), 0);
	pid_t child = fork();
	if (child == 0) {
		vg_ledger_refund(ledger, VG_LEDGER_DEVICE, MIB); // the child has charged nothing, so it refunds nothing
		CHECK_INT(vg_ledger_charged(ledger), MIB);
		CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, 2 * MIB), 0);
		CHECK_INT(vg_ledger_used_here(ledger), 2 * MIB);
		_exit(0);
	}
	CHECK_CHILD(child);
	CHECK_INT(vg_ledger_charged(ledger), 3 * MIB);
	CHECK_INT(reap_all_dead(ledger), 2 * MIB);
	CHECK_INT(vg_ledger_charged(ledger), MIB);
	vg_ledger_close(ledger);
}

static bool is_ending;

static void *charge_and_refund(void *argument)
{
	struct vg_ledger *ledger = argument;

	while (!__atomic_load_n(&is_ending, __ATOMIC_RELAXED)) {
		if (vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, 4096) == 0)
			vg_ledger_refund(ledger, VG_LEDGER_DEVICE, 4096);
	}
	return NULL;
}

// Forks while threads of the parent charge. In the child the lock must be free, even if another thread of the parent
// held it.
TEST(child_of_fork_can_charge_while_threads_of_the_parent_charge)
{
	struct vg_ledger *ledger = create_ledger(8 * MIB);
	pthread_t threads[3];

	for (int i = 0; i < 3; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, charge_and_refund, ledger), 0);
	for (int i = 0; i < 60; i++) {
		pid_t child = fork();
		if (child == 0) {
			alarm(10);
			CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, MIB), 0);
			_exit(0);
		}
		CHECK_CHILD(child);
		CHECK_INT(reap_all_dead(ledger), MIB);
	}
	__atomic_store_n(&is_ending, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	CHECK_INT(vg_ledger_charged(ledger), 0);
	vg_ledger_close(ledger);
}

// When the child has executed this program again, does the child's work for the tests below.
__attribute__((constructor)) static void program_after_exec(void)
{
	const char *path = getenv("TEST_LEDGER_AFTER_EXEC");
	struct vg_ledger *ledger;

	if (!path)
		return;
	if (vg_ledger_open(path, &ledger) != 0)
		_exit(2);
	// The earlier charges may be refunded by this process or by the reaper, but only once.
	if (getenv("TEST_LEDGER_RACE"))
		_exit(vg_ledger_enter(ledger) != 0 || vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, 3 * MIB) != 0 ||
		      vg_ledger_used_here(ledger) != 3 * MIB);
	if (vg_ledger_charged(ledger) != 5 * MIB)
		_exit(2);
	if (vg_ledger_enter(ledger) != 0 || vg_ledger_charged(ledger) != 0)
		_exit(3);
	_exit(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, 6 * MIB) == 0 ? 0 : 4);
}

TEST(entering_after_exec_refunds_earlier_program)
{
	struct vg_ledger *ledger = create_ledger(8 * MIB);
	pid_t child = fork();

	if (child == 0) {
		CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, 5 * MIB), 0);
		setenv("TEST_LEDGER_AFTER_EXEC", ledger_path, 1);
		execl("/proc/self/exe", "test-ledger", NULL);
		_exit(9);
	}
	CHECK_CHILD(child);
	CHECK_INT(vg_ledger_charged(ledger), 6 * MIB);
	CHECK_INT(reap_all_dead(ledger), 6 * MIB);
	vg_ledger_close(ledger);
}

TEST(reap_refunds_program_that_was_replaced_by_exec)
{
	struct vg_ledger *ledger = create_ledger(8 * MIB);
	uint64_t sum = 0;
	pid_t child = fork();

	if (child == 0) {
		CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, 5 * MIB), 0);
		execl("/bin/sleep", "sleep", "100", NULL);
		_exit(9);
	}
	for (int i = 0; i < 1000 && !sum; i++) {
		usleep(5000);
		sum = reap_all_replaced(ledger);
	}
	CHECK_INT(sum, 5 * MIB);
	CHECK_INT(vg_ledger_charged(ledger), 0);
	kill(child, SIGKILL);
	CHECK_INT(waitpid(child, NULL, 0), child);
	CHECK_INT(reap_all_dead(ledger), 0);
	vg_ledger_close(ledger);
}

// Refunds the charges of the program before exec in two processes at the same time: in the program after exec, and in a
// reaper.
TEST(exec_and_reaper_refund_only_once)
{
	struct vg_ledger *ledger = create_ledger(8 * MIB);

	for (int i = 0; i < 100; i++) {
		int status;
		pid_t child = fork();
		if (child == 0) {
			CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, 5 * MIB), 0);
			setenv("TEST_LEDGER_AFTER_EXEC", ledger_path, 1);
			setenv("TEST_LEDGER_RACE", "1", 1);
			execl("/proc/self/exe", "test-ledger", NULL);
			_exit(9);
		}
		while (waitpid(child, &status, WNOHANG) == 0)
			reap_all_replaced(ledger);
		CHECK_INT(status, 0);
		reap_all_dead(ledger);
		CHECK_INT(vg_ledger_charged(ledger), 0);
	}
	vg_ledger_close(ledger);
}

TEST(charge_fails_if_all_slots_are_used)
{
	struct vg_ledger *ledger = create_ledger(8 * MIB);
	int gate[2], ready[2], count = 0;
	char byte;
	static pid_t children[VG_LEDGER_SLOTS];

	CHECK_INT(pipe(gate), 0);
	CHECK_INT(pipe(ready), 0);
	for (; count < VG_LEDGER_SLOTS; count++) {
		children[count] = fork();
		if (children[count] < 0)
			break;
		if (children[count] == 0) {
			close(gate[1]);
			byte = (char)vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, 4096);
			if (write(ready[1], &byte, 1) != 1 || read(gate[0], &byte, 1) < 0)
				_exit(1);
			_exit(0);
		}
	}
	int full = count == VG_LEDGER_SLOTS, bad = 0;
	for (int i = 0; i < count; i++)
		bad += read(ready[0], &byte, 1) != 1 || byte != 0;
	int r = vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, 4096);
	close(gate[1]);
	for (int i = 0; i < count; i++)
		waitpid(children[i], NULL, 0);
	close(gate[0]), close(ready[0]), close(ready[1]);
	CHECK_INT(bad, 0);
	if (!full)
		SKIP("only %d processes may be started", count);
	CHECK_INT(r, VG_LEDGER_FULL);
	CHECK_INT(vg_ledger_charged(ledger), VG_LEDGER_SLOTS * 4096);
	CHECK_INT(reap_all_dead(ledger), VG_LEDGER_SLOTS * 4096);
	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, 4096), 0);
	vg_ledger_close(ledger);
}

TEST(other_files_are_refused)
{
	struct vg_ledger *ledger = create_ledger(MIB), *other;
	const char *path = ledger_path;
	char wrong[sizeof ledger_path + 8];
	struct stat status;

	CHECK_INT(stat(path, &status), 0);
	CHECK_INT(status.st_mode & 07777, 0600);
	snprintf(wrong, sizeof wrong, "%s.none", path);
	CHECK_INT(vg_ledger_open(wrong, &other), -ENOENT);
	int fd = open(wrong, O_RDWR | O_CREAT, 0600);
	CHECK(fd >= 0);
	CHECK_INT(vg_ledger_open(wrong, &other), -EPROTO);
	// A file of the right size is not yet a ledger.
	CHECK_INT(ftruncate(fd, status.st_size), 0);
	CHECK_INT(vg_ledger_open(wrong, &other), -EPROTO);
	close(fd);
	struct vg_ledger_options options = {.name = "again", .limit = MIB, .owner = (uid_t)-1, .group = (gid_t)-1};
	CHECK_INT(vg_ledger_create(path, &options, &other), -EEXIST);
	unlink(wrong);
	CHECK_INT(symlink(path, wrong), 0);
	CHECK_INT(vg_ledger_open(wrong, &other), -ELOOP);
	unlink(wrong);
	vg_ledger_close(ledger);
}

TEST(refusals_are_read_in_order)
{
	struct vg_ledger *ledger = create_ledger(MIB);
	struct vg_ledger_refusal got[VG_LEDGER_REFUSALS], one = {.limit = MIB, .entry = "cuMemAlloc_v2"};

	CHECK_INT(vg_ledger_refusals(ledger, got), 0);
	for (uint64_t i = 1; i <= 100; i++) {
		one.asked = i;
		vg_ledger_refusal(ledger, &one);
	}
	CHECK_INT(vg_ledger_refusal_count(ledger), 100);
	CHECK_INT(vg_ledger_refusals(ledger, got), VG_LEDGER_REFUSALS);
	for (uint64_t i = 0; i < VG_LEDGER_REFUSALS; i++)
		CHECK_INT(got[i].asked, 37 + i);
	CHECK_INT(got[63].pid, getpid());
	CHECK_STR(got[63].entry, "cuMemAlloc_v2");
	CHECK(got[63].time_ns > 0);
	vg_ledger_close(ledger);
}

TEST(reading_refusals_is_bounded)
{
	struct vg_ledger *ledger = create_ledger(MIB);
	struct vg_ledger_refusal got[VG_LEDGER_REFUSALS];
	void *address;
	size_t length;

	vg_ledger_range(ledger, &address, &length);
	((struct ledger_file *)address)->header.refusals = UINT64_MAX;
	alarm(20);
	CHECK_INT(vg_ledger_refusals(ledger, got), 0);
	alarm(0);
	vg_ledger_close(ledger);
}

TEST(tenant_is_listed)
{
	struct vg_ledger *ledger = create_ledger(8 * MIB);
	struct vg_ledger_tenant tenant;
	struct vg_ledger_owner self;
	unsigned int cursor = 0;

	CHECK(!vg_ledger_next_tenant(ledger, &cursor, &tenant));
	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_ARRAY, MIB), 0);
	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_MODULE, 2 * MIB), 0);
	cursor = 0;
	CHECK(vg_ledger_next_tenant(ledger, &cursor, &tenant));
	CHECK_INT(vg_ledger_self(&self), 0);
	CHECK_INT(tenant.owner.pid, getpid());
	CHECK_INT(tenant.owner.start_time, self.start_time);
	CHECK_INT(tenant.used, 3 * MIB);
	CHECK_INT(tenant.by_kind[VG_LEDGER_ARRAY], MIB);
	CHECK_INT(tenant.overhead, 2 * MIB);
	CHECK_STR(tenant.command, "test-ledger");
	CHECK(!vg_ledger_next_tenant(ledger, &cursor, &tenant));
	CHECK_INT(vg_ledger_enters(ledger), 1);
	vg_ledger_close(ledger);
}

// Tests exported memory of an ended process: it must stay charged while a descriptor of it is open.
TEST(dead_tenant_keeps_charge_of_exported_memory)
{
	struct vg_ledger *ledger = create_ledger(64 * MIB);
	struct vg_ledger_tenant tenant;
	unsigned int cursor = 0;
	uint64_t refunded = 0;
	pid_t child = fork();

	if (child == 0) {
		vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, 5 * MIB);
		vg_ledger_reserve(ledger, VG_LEDGER_VMM, 3 * MIB);
		vg_ledger_set_exported(ledger, 3 * MIB, MIB);
		_exit(0);
	}
	CHECK_INT(waitpid(child, NULL, 0), child);
	CHECK(vg_ledger_next_tenant(ledger, &cursor, &tenant));
	CHECK_INT(tenant.exported, 3 * MIB);
	CHECK_INT(tenant.adrift, MIB);
	CHECK_INT(vg_ledger_reap(ledger, &tenant, &(struct vg_ledger_keep){3 * MIB}, &refunded), 0);
	CHECK_INT(refunded, 5 * MIB);
	CHECK_INT(vg_ledger_charged(ledger), 3 * MIB);
	cursor = 0;
	CHECK(vg_ledger_next_tenant(ledger, &cursor, &tenant));
	CHECK_INT(tenant.by_kind[VG_LEDGER_VMM], 3 * MIB);
	CHECK_INT(tenant.by_kind[VG_LEDGER_DEVICE], 0);
	CHECK_INT(vg_ledger_reap(ledger, &tenant, &(struct vg_ledger_keep){MIB}, &refunded), 0);
	CHECK_INT(vg_ledger_charged(ledger), MIB);
	CHECK_INT(vg_ledger_reap(ledger, &tenant, NULL, &refunded), 0);
	CHECK_INT(refunded, MIB);
	CHECK_INT(vg_ledger_charged(ledger), 0);
	cursor = 0;
	CHECK(!vg_ledger_next_tenant(ledger, &cursor, &tenant));
	vg_ledger_close(ledger);
}

// Tests the peak: the most that the process has declared since the peak was last cleared.
TEST(peak_of_declared_memory_is_kept)
{
	struct vg_ledger *ledger = create_ledger(64 * MIB);
	struct vg_ledger_tenant tenant;
	unsigned int cursor = 0;

	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, 2 * MIB), 0);
	CHECK(vg_ledger_next_tenant(ledger, &cursor, &tenant));
	vg_ledger_clear_peak(ledger, &tenant);
	// NVML does not report managed memory.
	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_MANAGED, 16 * MIB), 0);
	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_VMM, 8 * MIB), 0);
	vg_ledger_refund(ledger, VG_LEDGER_VMM, 8 * MIB);
	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_VMM, MIB), 0);
	cursor = 0;
	CHECK(vg_ledger_next_tenant(ledger, &cursor, &tenant));
	CHECK_INT(tenant.declared, 3 * MIB);
	CHECK_INT(tenant.peak, 10 * MIB);
	vg_ledger_leave(ledger);
	vg_ledger_close(ledger);
}
