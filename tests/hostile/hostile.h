// Starts a system daemon on a simulated GPU, users who attack it, and a victim. They run in a new PID and mount
// namespace that root makes, so that no process survives the test, and the test can choose process ids. Include this
// header in one file of a program.
#pragma once
#include "broker_fixture.h"

#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>

static uid_t alice, bob; // the attacker and the victim; other test programs use other users

// Returns the duration of an attack: HOSTILE_MS, or half a second.
static inline int attack_ms(void)
{
	const char *text = getenv("HOSTILE_MS");

	return text ? atoi(text) : 500;
}

// Returns for how long all attacks of one kind run together: HOSTILE_STORM_MS, or three seconds.
static inline int storm_ms(void)
{
	const char *text = getenv("HOSTILE_STORM_MS");

	return text ? atoi(text) : 3000;
}

static int namespace_error = -1; // 0: this process runs in new namespaces

// Runs before main(). Executes the tests in a child that is process 1 of a new PID namespace, so that all their
// processes end with that child.
__attribute__((constructor)) static void enter_namespaces(void)
{
	int status;

	alice = 0x20000000u + 64u * (uid_t)getpid();
	bob = alice + 63;
	if (geteuid() != 0)
		return;
	namespace_error = unshare(CLONE_NEWPID | CLONE_NEWNS) < 0 ? errno : 0;
	if (namespace_error)
		return;
	pid_t child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		    mount("proc", "/proc", "proc", 0, NULL) < 0)
			namespace_error = errno;
		return;
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		_exit(1);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static inline void start_system_daemon(void)
{
	if (!start_broker_program(VIRGATED, -1))
		FAIL("the daemon does not start: see %s/log", directory);
}

// ---- users ------------------------------------------------------------------------------------------------------

static pid_t leaders[64]; // leaders of the users' process groups

static inline void become(uid_t uid)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (setgroups(0, NULL) < 0 || setgid(uid) < 0 || setuid(uid) < 0)
		_exit(99);
	prctl(PR_SET_DUMPABLE, 1);
	prctl(PR_SET_PDEATHSIG, SIGKILL); // setuid() has cleared the signal, so set it again
}

// Starts a process of the user that runs `body` and exits. The process leads a process group, which end_user() kills.
static inline pid_t start_user(uid_t uid, void (*body)(void))
{
	pid_t child = fork();

	if (child == 0) {
		setpgid(0, 0);
		// attackers have the lowest priority, because the test measures the daemon and not the scheduler
		if (uid != bob)
			setpriority(PRIO_PROCESS, 0, 19);
		become(uid);
		body();
		fflush(NULL);
		_exit(0);
	}
	CHECK(child > 0);
	setpgid(child, child);
	for (size_t i = 0; i < sizeof leaders / sizeof *leaders; i++)
		if (!leaders[i]) {
			leaders[i] = child;
			return child;
		}
	FAIL("too many users at a time");
}

static inline void forget_user(pid_t leader)
{
	for (size_t i = 0; i < sizeof leaders / sizeof *leaders; i++)
		if (leaders[i] == leader)
			leaders[i] = 0;
}

static inline void end_user(pid_t leader)
{
	kill(-leader, SIGKILL);
	forget_user(leader);
	CHECK_INT(waitpid(leader, NULL, 0), leader);
}

// Ends all processes of users, also those of a failed test.
static inline void end_all_users(void)
{
	for (size_t i = 0; i < sizeof leaders / sizeof *leaders; i++)
		if (leaders[i])
			end_user(leaders[i]);
}

// Runs `body` as the user and returns its exit status.
static inline int try_user(uid_t uid, void (*body)(void))
{
	pid_t child = start_user(uid, body);
	int status;

	CHECK_INT(waitpid(child, &status, 0), child);
	forget_user(child);
	if (!WIFEXITED(status))
		FAIL("a program of user %u was killed: %d", (unsigned int)uid, status);
	return WEXITSTATUS(status);
}

// Runs `body` as the user until it ends; it must succeed.
static inline void run_user(uid_t uid, void (*body)(void))
{
	int status = try_user(uid, body);

	if (status != 0)
		FAIL("a program of user %u failed: %d", (unsigned int)uid, status);
}

static volatile bool *attack_is_ready;

// An attacker calls this function when its preparations are done. It tells the test that the attack begins.
static inline void attack_begins(void)
{
	*attack_is_ready = true;
}

static inline pid_t start_attack_of(uid_t uid, void (*body)(void))
{
	if (!attack_is_ready)
		attack_is_ready = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	*attack_is_ready = false;
	pid_t attacker = start_user(uid, body);
	while (!*attack_is_ready) {
		CHECK_INT(waitpid(attacker, NULL, WNOHANG), 0);
		poll(NULL, 0, 5);
	}
	return attacker;
}

static inline pid_t start_attack(void (*body)(void))
{
	return start_attack_of(alice, body);
}

// ---- the daemon ---------------------------------------------------------------------------------------------

static inline void leave_memory(void)
{
	if (getpid() == test_pid && *directory)
		umount2(directory, MNT_DETACH);
}

static inline void mount_memory(void)
{
	char claims[300];

	CHECK_INT(mount("tmpfs", directory, "tmpfs", MS_NOSUID | MS_NODEV, "size=2g"), 0);
	snprintf(claims, sizeof claims, "%s/claims", directory);
	setenv("VIRGATE_CLAIMS_DIR", claims, 1);
	CHECK_INT(chmod(directory, 0755), 0);
}

// Prepares the directories of a daemon in memory (tmpfs), so that the test does not measure a disk.
static inline void prepare_system(void)
{
	static bool registered;

	if (geteuid() != 0)
		SKIP("only root can be several users");
	if (namespace_error)
		SKIP("no namespaces can be made here: %s", strerror(namespace_error));
	is_system_wide = true;
	end_all_users();
	leave_memory();
	fresh_node();
	if (!registered)
		// Exit handlers run in reverse order, so this one runs after the one of fresh_node().
		atexit(leave_memory);
	registered = true;
	mount_memory();
}

static inline void fresh_system(void)
{
	prepare_system();
	start_system_daemon();
}

static inline size_t count_descriptors(pid_t pid)
{
	char path[64];
	size_t count = 0;

	snprintf(path, sizeof path, "ls /proc/%d/fd | wc -l", (int)pid);
	FILE *lines = popen(path, "r");
	CHECK(lines && fscanf(lines, "%zu", &count) == 1);
	pclose(lines);
	return count;
}

static inline long resident_mib(pid_t pid)
{
	char path[64], text[256];
	long pages = 0;

	snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
	CHECK(vg_file_read(path, text, sizeof text) > 0 && sscanf(text, "%*d %ld", &pages) == 1);
	return pages * sysconf(_SC_PAGESIZE) >> 20;
}

// Checks that SIGTERM ends the daemon soon, even under attack.
static inline void end_daemon_at_once(void)
{
	int status = -1;

	kill(daemon_pid, SIGTERM);
	for (int i = 0; i < 400 && waitpid(daemon_pid, &status, WNOHANG) == 0; i++)
		poll(NULL, 0, 5);
	CHECK_INT(status, 0);
	daemon_pid = 0;
}
