// Tests processes of several pid namespaces on one simulated node. Each namespace has a process 1, and none can see
// processes of another.
#include "region_node.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

static struct board {
	_Atomic pid_t first, second; // pids of two contained processes, as this namespace sees them
	_Atomic bool go, entered;
} * board;

static void nap(void)
{
	usleep(1000);
}

static void start_node(void)
{
	if (geteuid() != 0)
		SKIP("only root can make a pid namespace here");
	if (!board) {
		CHECK_INT(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
		make_node("memory=256M");
		board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		CHECK(board != MAP_FAILED);
	}
	memset(board, 0, sizeof *board);
}

// Starts process 1 of a new pid namespace. Before this function returns, it stores the pid that the process has in this
// namespace in `ret_pid`.
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

static char read_state(pid_t pid)
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

// Kills a contained process, and waits for it with waitpid(). This process can do that, because it is the subreaper.
// Before waitpid() returns, threads of the killed process may still use its resources.
static void end_contained(pid_t pid)
{
	kill(pid, SIGKILL);
	CHECK_INT(waitpid(pid, NULL, 0), pid);
}

static void wait_until_entered(pid_t pid)
{
	while (!atomic_load(&board->entered) && !strchr("XZ", read_state(pid)))
		nap();
	CHECK(atomic_load(&board->entered));
}

// Waits for SIGKILL; ends after a while if the test has failed.
static void wait_for_kill(void)
{
	sleep(30);
}

static void lock_tables(void)
{
	struct region *region = join();

	region_lock(region);
	atomic_store(&board->entered, true);
	for (int naps = 0; !atomic_load(&board->go) && naps < 30000; naps++)
		nap();
	atomic_store(&board->entered, false);
	region_unlock(region);
	wait_for_kill();
}

static void wait_for_tables(void)
{
	(void)join(); // joining waits for the lock
	wait_for_kill();
}

// Kills one of two waiters for the lock. Both have the thread id 1 in their namespaces.
TEST(a_killed_waiter_does_not_release_the_lock)
{
	int status;

	start_node();
	struct region *region = join();
	start_contained(lock_tables, &board->first);
	wait_until_entered(board->first);
	start_contained(wait_for_tables, &board->second);
	for (int asleep = 0; asleep < 50; asleep = read_state(board->second) == 'S' ? asleep + 1 : 0)
		nap();
	end_contained(board->second);
	pid_t next = fork();
	if (next == 0) {
		region_lock(join());
		_exit(atomic_load(&board->entered) ? 3 : 0);
	}
	for (int still = 0; still < 50; still = strchr("SZ", read_state(next)) ? still + 1 : 0)
		nap();
	atomic_store(&board->go, true);
	CHECK_INT(waitpid(next, &status, 0), next);
	end_contained(board->first);
	CHECK(WIFEXITED(status));
	CHECK_INT(WEXITSTATUS(status), 0); // 3 would mean that the process got the lock while another process had it
	region_close(region);
}

TEST(the_lock_of_a_killed_process_is_released)
{
	start_node();
	struct region *region = join();
	start_contained(lock_tables, &board->first);
	wait_until_entered(board->first);
	end_contained(board->first);
	CHECK_INT(region_used(region, 0), 0);
	region_close(region);
}

static void alloc_and_wait(void)
{
	struct region *region = join();
	uint64_t id;

	int status = region_alloc(region, 0, 8 * MIB, &id);
	// closing all descriptors, as some programs do, must not end the process's use of the region
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	if (status == 0)
		atomic_store(&board->entered, true);
	wait_for_kill();
}

static int write_word(void *data, int descriptor, off_t offset, size_t at, size_t size)
{
	return pwrite(descriptor, data, sizeof(int), offset) == sizeof(int) ? 0 : -1;
}

static int read_word(void *data, int descriptor, off_t offset, size_t at, size_t size)
{
	return pread(descriptor, data, sizeof(int), offset) == sizeof(int) ? 0 : -1;
}

TEST(a_process_killed_in_another_namespace_frees_only_its_memory)
{
	int ours = 0xabcd, now;
	uint64_t id;

	start_node();
	struct region *region = join();
	CHECK_INT(region_alloc(region, 0, 4 * MIB, &id), 0);
	CHECK_INT(region_each_run(region, id, write_word, &ours), 0);
	for (int death = 0; death < 20; death++) {
		atomic_store(&board->entered, false);
		start_contained(alloc_and_wait, &board->first);
		wait_until_entered(board->first);
		CHECK_INT(region_used(region, 0), 12 * MIB); // it lives
		end_contained(board->first);
		CHECK_INT(region_used(region, 0), 4 * MIB);
		CHECK_INT(region_each_run(region, id, read_word, &now), 0);
		CHECK_INT(now, ours);
	}
	region_close(region);
}

// Joins from another namespace. That must not reap the first process, although its pid means nothing in this namespace.
static void check_from_outside(void)
{
	struct region *region = join();

	atomic_store(&board->entered, region_used(region, 0) == 4 * MIB);
	region_close(region);
}

TEST(processes_of_other_namespaces_are_not_reaped)
{
	uint64_t id;

	start_node();
	struct region *region = join();
	CHECK_INT(region_alloc(region, 0, 4 * MIB, &id), 0);
	start_contained(check_from_outside, &board->first);
	while (!strchr("XZ", read_state(board->first)))
		nap();
	CHECK(atomic_load(&board->entered));
	CHECK_INT(region_used(region, 0), 4 * MIB);
	region_close(region);
}

// Checks that a forked child which ends frees no memory of its parent. A restored process must not free memory of the
// original process either, if it ends before its own memory is restored. The child stands for such a process.
TEST(a_forked_child_frees_nothing_of_its_parent)
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

TEST(a_checkpointed_process_keeps_its_slot)
{
	uint64_t id;

	start_node();
	struct region *region = join(), *other = join();
	int slot = region->slot;
	region_detach(region);
	region_used(other, 0);	    // reaps
	region_release_all(region); // has no effect, since this process is detached from the region
	CHECK_INT(region_attach(region, &config), 0);
	CHECK_INT(region->slot, slot);
	CHECK_INT(region_alloc(region, 0, 4 * MIB, &id), 0);
	CHECK_INT(region_used(other, 0), 4 * MIB);
	region_close(region);
	CHECK_INT(region_used(other, 0), 0);
	region_close(other);
}
