// Processes of several pid namespaces on one node: each namespace has a pid 1,
// and none can look into another.
#include "region_internal.h"
#include "test.h"

#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define MIB ((size_t)1 << 20)

static struct board {
	_Atomic pid_t first, second; // as this namespace numbers them
	_Atomic bool go, entered;
} * board;
static struct sim_config config;
static char folder[64];

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
	return remove(path);
}

static void remove_node(void)
{
	nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void nap(void)
{
	usleep(1000);
}

static void start_node(void)
{
	char problem[256];

	if (geteuid() != 0)
		SKIP("only root can make a pid namespace here");
	if (!board) {
		CHECK_INT(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
		strcpy(folder, "/tmp/virgate-sim-test-XXXXXX");
		CHECK(mkdtemp(folder));
		atexit(remove_node);
		setenv("VIRGATE_SIM", "memory=256M", 1);
		setenv("VIRGATE_SIM_DIR", folder, 1);
		CHECK_INT(sim_config_read(&config, problem, sizeof problem), 0);
		board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		CHECK(board != MAP_FAILED);
	}
	memset(board, 0, sizeof *board);
}

static struct region *join(void)
{
	struct region *region;
	char problem[400] = "";

	if (region_open(&config, false, &region, problem, sizeof problem) != 0)
		FAIL("%s", problem);
	return region;
}

// Process 1 of a new pid namespace; its number here is in `ret_pid` by the time this returns.
static void start_contained(void (*live)(void), _Atomic pid_t *ret_pid)
{
	int status;
	pid_t outer = fork();

	if (outer == 0) {
		if (unshare(CLONE_NEWPID) != 0)
			_exit(77);
		pid_t inner = fork();
		if (inner == 0) {
			live();
			_exit(0);
		}
		atomic_store(ret_pid, inner);
		_exit(0);
	}
	CHECK_INT(waitpid(outer, &status, 0), outer);
	if (WEXITSTATUS(status) == 77)
		SKIP("no new pid namespaces here");
	CHECK_INT(status, 0);
}

static char state_of(pid_t pid)
{
	char path[32], text[512], state = 'X';
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	FILE *file = fopen(path, "r");

	if (!file)
		return 'X';
	if (!fgets(text, sizeof text, file) || sscanf(strrchr(text, ')') + 1, " %c", &state) != 1)
		state = 'X';
	fclose(file);
	return state;
}

// It came to us when its parent ended. A zombie may have threads that have not ended yet, and with them what it holds.
static void end_contained(pid_t pid)
{
	kill(pid, SIGKILL);
	CHECK_INT(waitpid(pid, NULL, 0), pid);
}

static void await_entered(pid_t pid)
{
	while (!atomic_load(&board->entered) && !strchr("XZ", state_of(pid)))
		nap();
	CHECK(atomic_load(&board->entered));
}

// Until it is killed; not for ever, should the test have failed.
static void stay(void)
{
	sleep(30);
}

static void hold_tables(void)
{
	struct region *region = join();

	region_lock(region);
	atomic_store(&board->entered, true);
	for (int naps = 0; !atomic_load(&board->go) && naps < 30000; naps++)
		nap();
	atomic_store(&board->entered, false);
	region_unlock(region);
	stay();
}

static void wait_for_tables(void)
{
	(void)join(); // which takes the lock
	stay();
}

// Both are thread 1 to themselves.
TEST(the_death_of_one_who_waits_does_not_open_the_tables)
{
	int status;

	start_node();
	struct region *region = join();
	start_contained(hold_tables, &board->first);
	await_entered(board->first);
	start_contained(wait_for_tables, &board->second);
	for (int asleep = 0; asleep < 50; asleep = state_of(board->second) == 'S' ? asleep + 1 : 0)
		nap();
	end_contained(board->second);
	pid_t next = fork();
	if (next == 0) {
		region_lock(join());
		_exit(atomic_load(&board->entered) ? 3 : 0);
	}
	for (int still = 0; still < 50; still = strchr("SZ", state_of(next)) ? still + 1 : 0)
		nap();
	atomic_store(&board->go, true);
	CHECK_INT(waitpid(next, &status, 0), next);
	end_contained(board->first);
	CHECK(WIFEXITED(status));
	CHECK_INT(WEXITSTATUS(status), 0); // 3: while another held them
	region_close(region);
}

TEST(the_death_of_one_who_holds_the_tables_opens_them)
{
	start_node();
	struct region *region = join();
	start_contained(hold_tables, &board->first);
	await_entered(board->first);
	end_contained(board->first);
	CHECK_INT(region_used(region, 0), 0);
	region_close(region);
}

static void take_and_hold(void)
{
	struct region *region = join();
	uint64_t id;

	int took = region_alloc(region, 0, 8 * MIB, &id);
	for (int fd = 3; fd < 1024; fd++) // as a program may, which does not know them
		close(fd);
	if (took == 0)
		atomic_store(&board->entered, true);
	stay();
}

static int fill(void *data, int descriptor, off_t offset, size_t at, size_t size)
{
	return pwrite(descriptor, data, sizeof(int), offset) == sizeof(int) ? 0 : -1;
}

static int read_back(void *data, int descriptor, off_t offset, size_t at, size_t size)
{
	return pread(descriptor, data, sizeof(int), offset) == sizeof(int) ? 0 : -1;
}

TEST(who_dies_in_another_namespace_frees_what_it_held_and_nothing_else)
{
	int ours = 0xabcd, now;
	uint64_t id;

	start_node();
	struct region *region = join();
	CHECK_INT(region_alloc(region, 0, 4 * MIB, &id), 0);
	CHECK_INT(region_each_run(region, id, fill, &ours), 0);
	for (int death = 0; death < 20; death++) {
		atomic_store(&board->entered, false);
		start_contained(take_and_hold, &board->first);
		await_entered(board->first);
		CHECK_INT(region_used(region, 0), 12 * MIB); // it lives
		end_contained(board->first);
		CHECK_INT(region_used(region, 0), 4 * MIB);
		CHECK_INT(region_each_run(region, id, read_back, &now), 0);
		CHECK_INT(now, ours);
	}
	region_close(region);
}

// To those of another namespace it is there, whatever its number means to them.
static void look_and_end(void)
{
	struct region *region = join();

	atomic_store(&board->entered, region_used(region, 0) == 4 * MIB);
	region_close(region);
}

TEST(who_looks_from_another_namespace_takes_nobody_for_dead)
{
	uint64_t id;

	start_node();
	struct region *region = join();
	CHECK_INT(region_alloc(region, 0, 4 * MIB, &id), 0);
	start_contained(look_and_end, &board->first);
	while (!strchr("XZ", state_of(board->first)))
		nap();
	CHECK(atomic_load(&board->entered));
	CHECK_INT(region_used(region, 0), 4 * MIB);
	region_close(region);
}

// As a process that was restored from disk and ends before its device memory is
// back.
TEST(a_copy_gives_up_nothing_of_whom_it_is_a_copy_of)
{
	uint64_t id;
	int status;

	start_node();
	struct region *region = join();
	CHECK_INT(region_alloc(region, 0, 4 * MIB, &id), 0);
	pid_t copy = fork();
	if (copy == 0) {
		region_release_all(region);
		_exit(0);
	}
	CHECK_INT(waitpid(copy, &status, 0), copy);
	CHECK_INT(region_used(region, 0), 4 * MIB);
	region_close(region);
}

TEST(a_slot_is_kept_while_its_process_holds_no_memory)
{
	uint64_t id;

	start_node();
	struct region *region = join(), *other = join();
	int slot = region->slot;
	region_detach(region);
	region_reap(other);
	region_release_all(region); // holds nothing: says nothing
	CHECK_INT(region_attach(region, &config), 0);
	CHECK_INT(region->slot, slot);
	CHECK_INT(region_alloc(region, 0, 4 * MIB, &id), 0);
	CHECK_INT(region_used(other, 0), 4 * MIB);
	region_close(region);
	CHECK_INT(region_used(other, 0), 0);
	region_close(other);
}
