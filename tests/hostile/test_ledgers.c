// Lets users enlarge and overwrite their ledgers. All ledgers are in one file system, which must not become full.
#include "victim.h"

#include "ledger/layout.h"

static void make_vgpu(void)
{
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':20971520}"));
}

static void remove_vgpu(void)
{
	json_decref(ask("{'op':'rm','name':'a','force':true}"));
}

static int open_ledger_of(const char *name)
{
	char path[400];

	snprintf(path, sizeof path, "%s/ledgers/%s", runtime_dir, name);
	return open(path, O_RDWR | O_CLOEXEC);
}

static int open_ledger(void)
{
	return open_ledger_of("a");
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

TEST(growing_ledgers_are_truncated_and_their_vgpus_removed)
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
	// After the vGPU is removed, a process that still has the ledger open must not be able to enlarge it.
	CHECK_INT(ftruncate(fd, 1 << 30), 0);
	await_size(fd, size);
	close(fd);
}

TEST(removed_ledgers_count_while_open)
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

TEST(ledgers_truncated_while_daemons_start)
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

// ---- the contents of a ledger affect only its own vGPU -----------------------------------------------------------

static pid_t named; // a process of root whose pid the attacker writes into slots

static struct ledger_file *map_ledger(const char *name)
{
	int fd = open_ledger_of(name);
	void *file = mmap(NULL, sizeof(struct ledger_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (file == MAP_FAILED)
		_exit(1);
	close(fd);
	return file;
}

// Overwrites the whole ledger of vGPU a. In the ledger of vGPU c, overwrites only the slots: they name a process of
// root.
static void scribble(void)
{
	struct ledger_file *file = map_ledger("c");
	uint64_t *words = (uint64_t *)map_ledger("a");
	const size_t count = sizeof(struct ledger_file) / sizeof *words;
	struct vg_ledger_owner root;
	unsigned int seed = 1;

	if (vg_ledger_self(&root) < 0 || vg_process_start_time(named, &root.start_time) < 0)
		_exit(1);
	root.pid = (uint32_t)named;
	for (unsigned int slot = 0; slot < 64; slot++)
		file->slots[slot].owner = ledger_owner_word(&root);
	file->header.slots_touched = 64;
	attack_begins();
	for (uint64_t i = 0;; i++) {
		static const uint64_t values[] = {0, 1, UINT64_MAX, 1ull << 63, 7ull << 30, 4096};
		unsigned int at = (unsigned int)rand_r(&seed);
		words[at % count] = at % 7 < 6 ? values[at % 7] : (uint64_t)at << 32 | at;
		if (i % 1000 == 0)
			poll(NULL, 0, 1);
	}
}

static void kill_and_remove(void)
{
	static const char *const names[] = {"a", "c"};

	for (int i = 0; i < 2; i++) {
		json_decref(ask("{'op':'kill','name':'%s','signal':9}", names[i]));
		json_decref(ask("{'op':'rm','name':'%s','force':true}", names[i]));
	}
}

static void make_both(void)
{
	make_vgpu();
	CHECK_AGREED(ask("{'op':'create','name':'c','memory':20971520}"));
}

static void await_removal(const char *name)
{
	for (int i = 0; i < 2000 && figure(name, "memory") >= 0; i++)
		poll(NULL, 0, 5);
	CHECK_INT(figure(name, "memory"), -1);
}

static void make_of_bob(void)
{
	CHECK_AGREED(ask("{'op':'create','name':'bobs','memory':134217728}"));
}

TEST(ledger_contents_affect_no_other_user)
{
	fresh_system();
	run_user(bob, make_of_bob);
	named = fork();
	if (named == 0)
		for (prctl(PR_SET_PDEATHSIG, SIGKILL);;)
			pause();
	for (uint64_t begun = vg_clock_monotonic_ns();
	     vg_clock_monotonic_ns() - begun < (uint64_t)storm_ms() * 1000000;) {
		run_user(alice, make_both);
		pid_t attacker = start_attack(scribble);
		check_victim("a ledger that is overwritten all the time");
		if (figure("bobs", "memory") != 134217728)
			FAIL("another user's vGPU has changed");
		if (figure("a", "memory") != 20971520)
			FAIL("the ledger has changed the vGPU's limit");
		kill_daemon();
		start_system_daemon();
		CHECK_INT(figure("bobs", "memory"), 134217728);
		CHECK_INT(figure("a", "memory"), 20971520);
		run_user(alice, kill_and_remove);
		CHECK_INT(waitpid(named, NULL, WNOHANG), 0);
		end_user(attacker);
		await_removal("a");
		await_removal("c");
	}
	kill(named, SIGKILL);
	CHECK_INT(waitpid(named, NULL, 0), named);
}
