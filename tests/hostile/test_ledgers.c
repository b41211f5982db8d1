// Users write to their ledgers, whose file system is everybody's.
#include "hostile.h"

static void make_vgpu(void)
{
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':20971520}"));
}

static void remove_vgpu(void)
{
	json_decref(ask("{'op':'rm','name':'a','force':true}"));
}

static int open_ledger(void)
{
	char path[400];

	snprintf(path, sizeof path, "%s/ledgers/a", runtime_dir);
	return open(path, O_RDWR | O_CLOEXEC);
}

static off_t size_of(int fd)
{
	struct stat status;

	CHECK_INT(fstat(fd, &status), 0);
	return status.st_size;
}

static void await_size(int fd, off_t size)
{
	for (int i = 0; i < 1000 && size_of(fd) != size; i++)
		poll(NULL, 0, 5);
	CHECK_INT(size_of(fd), size);
}

TEST(a_ledger_that_grows_is_cut_and_its_vgpu_goes)
{
	fresh_system();
	run_user(alice, make_vgpu);
	int fd = open_ledger();
	off_t size = size_of(fd);
	CHECK_INT(ftruncate(fd, 1 << 30), 0);
	await_size(fd, size);
	for (int i = 0; i < 1000 && figure("a", "memory") >= 0; i++)
		poll(NULL, 0, 5);
	CHECK_INT(figure("a", "memory"), -1);
	// Whoever has it open still cannot keep what it makes of it.
	CHECK_INT(ftruncate(fd, 1 << 30), 0);
	await_size(fd, size);
	close(fd);
}

TEST(a_removed_ledger_that_somebody_has_open_counts)
{
	enum { MANY = 200 };
	int ledgers[MANY], made = 0;

	fresh_system();
	for (; made < MANY; made++) {
		int status;
		pid_t child = fork();
		if (child == 0) {
			become(alice);
			json_t *reply = ask("{'op':'create','name':'a','memory':20971520}");
			_exit(agreed(reply) ? 0 : 7);
		}
		CHECK_INT(waitpid(child, &status, 0), child);
		if (WEXITSTATUS(status) == 7)
			break;
		ledgers[made] = open_ledger();
		CHECK(ledgers[made] >= 0);
		run_user(alice, remove_vgpu);
	}
	CHECK(made > 10 && made <= 65);
	while (made > 0)
		close(ledgers[--made]);
}

static void truncate_ledgers(void)
{
	int fd = open_ledger();
	off_t size = size_of(fd);

	attack_begins();
	for (;;) {
		if (ftruncate(fd, 100) < 0 || ftruncate(fd, size) < 0)
			_exit(1);
	}
}

TEST(a_ledger_that_is_truncated_while_daemons_start)
{
	fresh_system();
	run_user(alice, make_vgpu);
	pid_t attacker = start_attack(truncate_ledgers);
	for (int i = 0; i < attack_ms() / 25; i++) {
		kill_daemon();
		start_system_daemon();
		CHECK_AGREED(ask("{'op':'list'}"));
	}
	end_user(attacker);
}
