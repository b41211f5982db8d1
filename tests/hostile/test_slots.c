// Writes arbitrary processes into the slots of a user's own ledgers.
#include "victim.h"

#include "ledger/layout.h"

enum { VGPUS = 20, ENVIRONMENT_MIB = 256 };

// Returns the name of one of the user's vGPUs. Each user has other vGPUs.
static const char *name_of(uid_t uid, int number)
{
	static char name[40];

	snprintf(name, sizeof name, "a%u-%d", (unsigned int)uid, number);
	return name;
}

static struct ledger_file *map_ledger(int number)
{
	char path[400];

	snprintf(path, sizeof path, "%s/ledgers/%s", runtime_dir, name_of(getuid(), number));
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct ledger_file *file =
		fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *file, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED)
		_exit(2);
	close(fd);
	return file;
}

static void make_vgpus(void)
{
	for (int i = 0; i < VGPUS; i++)
		CHECK_AGREED(ask("{'op':'create','name':'%s','memory':16777216}", name_of(getuid(), i)));
}

static ledger_word owner_of(pid_t pid)
{
	struct vg_ledger_owner self;

	CHECK_INT(vg_ledger_self(&self), 0);
	self.pid = (uint32_t)pid;
	CHECK_INT(vg_process_start_time(pid, &self.start_time), 0);
	return ledger_owner_word(&self);
}

static pid_t named;

static void name_a_process(void)
{
	ledger_word owner = owner_of(named);

	for (int i = 0; i < VGPUS; i++) {
		struct ledger_file *file = map_ledger(i);
		for (unsigned int slot = 0; slot < VG_LEDGER_SLOTS; slot++)
			file->slots[slot].owner = owner;
		file->header.slots_touched = VG_LEDGER_SLOTS;
	}
	attack_begins();
	for (;;)
		pause();
}

static void await_scan(void)
{
	for (int i = 0; i < VGPUS; i++)
		figure(name_of(alice, i), "tenants");
}

TEST(slots_that_name_another_users_process)
{
	fresh_system();
	run_user(alice, make_vgpus);
	named = 1;
	size_t before = count_descriptors(daemon_pid);
	pid_t attacker = start_attack(name_a_process);
	check_victim("slots that name process 1");
	await_scan();
	CHECK(count_descriptors(daemon_pid) < before + 50);
	end_user(attacker);
	kill_daemon();
	start_system_daemon();
	CHECK(count_descriptors(daemon_pid) < before + 50);
}

static void name_oneself(void)
{
	named = getpid();
	name_a_process();
}

TEST(slots_that_name_the_users_own_process)
{
	fresh_system();
	run_user(alice, make_vgpus);
	pid_t attacker = start_attack(name_oneself);
	check_victim("slots that name one process");
	await_scan();
	CHECK(count_descriptors(daemon_pid) < 200 + (size_t)sysconf(_SC_OPEN_MAX) / 8);
	end_user(attacker);
}

static void change_slots(void)
{
	enum { PROCESSES = 200 };
	struct ledger_file *files[VGPUS];

	for (int i = 0; i < VGPUS; i++) {
		files[i] = map_ledger(i);
		files[i]->header.slots_touched = VG_LEDGER_SLOTS;
	}
	for (int i = 0; i < PROCESSES; i++)
		if (fork() == 0)
			for (prctl(PR_SET_PDEATHSIG, SIGKILL);;)
				pause();
	attack_begins();
	for (uint64_t i = 0;; i++) {
		for (unsigned int slot = 0; slot < VGPUS * VG_LEDGER_SLOTS; slot++)
			files[slot % VGPUS]->slots[slot / VGPUS].owner =
				(ledger_word)(i + slot) << 64 | (ledger_word)4711 << 32 | 2;
		poll(NULL, 0, 1);
	}
}

// Returns the processor time of a process in clock ticks.
static unsigned long time_of(pid_t pid)
{
	unsigned long user = 0, system = 0;
	char path[64], text[1024];

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	CHECK(vg_file_read(path, text, sizeof text) > 0);
	CHECK_INT(
		sscanf(strrchr(text, ')') + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system),
		2);
	return user + system;
}

TEST(slots_of_another_pid_namespace_that_keep_changing)
{
	enum { SECONDS = 1 };

	fresh_system();
	run_user(alice, make_vgpus);
	pid_t attacker = start_attack(change_slots);
	check_victim("slots of another pid namespace that keep changing");
	unsigned long before = time_of(daemon_pid);
	poll(NULL, 0, SECONDS * 1000);
	unsigned long percent = (time_of(daemon_pid) - before) * 100 / (SECONDS * (unsigned long)sysconf(_SC_CLK_TCK));
	printf("the daemon takes %lu %% of a processor\n", percent);
	// The daemon's search for processes may use a quarter of a core, and its loop may use 10 ms in 250 ms.
	// That is 29 %; the rest is slack.
	CHECK(percent <= 45);
	end_user(attacker);
}

static void have_a_long_environment(void)
{
	const size_t size = ENVIRONMENT_MIB << 20;
	struct prctl_mm_map map = {0};
	char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned long fields[64] = {0};
	char text[2048];

	CHECK(at != MAP_FAILED);
	memset(at, 'x', size);
	CHECK(vg_file_read("/proc/self/stat", text, sizeof text) > 0);
	int count = 0;
	for (char *word = strtok(strrchr(text, ')') + 2, " "); word && count < 60; word = strtok(NULL, " "))
		fields[count++] = strtoul(word, NULL, 10); // `word` begins at field 3 of /proc/PID/stat, see proc(5)
	map = (struct prctl_mm_map){.start_code = fields[23],
				    .end_code = fields[24],
				    .start_stack = fields[25],
				    .start_data = fields[42],
				    .end_data = fields[43],
				    .start_brk = fields[44],
				    .brk = (uintptr_t)sbrk(0),
				    .arg_start = fields[45],
				    .arg_end = fields[46],
				    .env_start = (uintptr_t)at,
				    .env_end = (uintptr_t)at + size,
				    .exe_fd = (uint32_t)-1};
	CHECK_INT(prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0), 0);
}

static const char *left_name(uid_t uid, int number)
{
	static char name[40];

	snprintf(name, sizeof name, "e%u-%d", (unsigned int)uid, number);
	return name;
}

static void leave_vgpus_behind(void)
{
	have_a_long_environment();
	attack_begins();
	for (int i = 0;; i++) {
		pid_t child = fork();
		if (child == 0) {
			json_decref(ask("{'op':'enter','name':'%s','memory':16777216}", left_name(getuid(), i)));
			_exit(0);
		}
		waitpid(child, NULL, 0);
		poll(NULL, 0, 10);
	}
}

// Returns how many MiB the daemon has read from files in all.
static long read_mib(void)
{
	char path[64], text[512];
	unsigned long long bytes;

	snprintf(path, sizeof path, "/proc/%d/io", (int)daemon_pid);
	CHECK(vg_file_read(path, text, sizeof text) > 0);
	CHECK_INT(sscanf(text, "rchar: %llu", &bytes), 1);
	return (long)(bytes >> 20);
}

TEST(endless_environments)
{
	fresh_system();
	pid_t attacker = start_attack(leave_vgpus_behind);
	check_victim("an environment without an end");
	// Waits until the daemon removes the vGPU. It does so after its search, which must end in spite of the large
	// environment.
	for (int i = 0; i < 2000 && figure(left_name(alice, 0), "memory") >= 0; i++)
		poll(NULL, 0, 5);
	CHECK_INT(figure(left_name(alice, 0), "memory"), -1);
	CHECK(resident_mib(daemon_pid) < 150 * SANITIZED);
	// The daemon must not have read the environment to its end.
	CHECK(read_mib() < ENVIRONMENT_MIB);
	end_user(attacker);
}

// Writes very many guests into the ledgers, which makes a listing slow: the daemon must look up a name for each of
// them.
static void be_guests(void)
{
	ledger_word owner = owner_of(getpid());

	for (int i = 0; i < 4; i++) {
		struct ledger_file *file = map_ledger(i);
		for (unsigned int slot = 0; slot < VG_LEDGER_SLOTS; slot++) {
			file->slots[slot].role = LEDGER_GUEST;
			file->slots[slot].owner = owner;
		}
		file->header.slots_touched = VG_LEDGER_SLOTS;
	}
	for (int i = 0; i < 16; i++)
		if (fork() == 0)
			for (prctl(PR_SET_PDEATHSIG, SIGKILL);;)
				json_decref(ask("{'op':'list'}"));
	attack_begins();
	for (;;)
		pause();
}

TEST(many_requests_that_take_long)
{
	fresh_system();
	run_user(alice, make_vgpus);
	pid_t attacker = start_attack(be_guests);
	check_victim("many requests that take long");
	end_user(attacker);
}

TEST(all_slots_and_environments_at_once)
{
	static void (*const attacks[])(void) = {name_a_process, change_slots, be_guests, leave_vgpus_behind};

	simulated_gpu = "memory=8G,ctx=16M";
	fresh_system();
	named = 1;
	for (unsigned int i = 0; i < sizeof attacks / sizeof *attacks; i++) {
		run_user(alice + i, make_vgpus);
		start_attack_of(alice + i, attacks[i]);
	}
	most_ms = ONE_USERS_MS + 3 * MORE_USERS_MS;
	check_victim_for(storm_ms(), "all of these at once");
	CHECK(resident_mib(daemon_pid) < 400 * SANITIZED);
	end_all_users();
	end_daemon_at_once();
}
