// A system daemon on a simulated GPU, an attacking user, and a victim whose requests are timed meanwhile. Root plays all
// of them. Include once.
#pragma once
#include "broker_fixture.h"

#include <grp.h>
#include <sys/mount.h>
#include <sys/prctl.h>

enum { ALICE = 60001, BOB = 60002 }; // the attacker, and the victim

// How long each attack lasts: HOSTILE_MS, or half a second.
static inline int attack_ms(void)
{
	const char *text = getenv("HOSTILE_MS");

	return text ? atoi(text) : 500;
}

static inline void start_system_daemon(void)
{
	if (!start_broker_of(VIRGATED, -1))
		FAIL("the daemon does not start: see %s/log", folder);
}

static inline void leave_memory(void)
{
	if (getpid() == test_pid && *folder)
		umount2(folder, MNT_DETACH);
}

// In a directory in memory: how long a disk takes to sync is not what is measured.
static inline void fresh_system(void)
{
	static bool registered;
	char claims[300];

	if (geteuid() != 0)
		SKIP("only root can be several users");
	for_all_users = true;
	leave_memory();
	fresh_node();
	if (!registered)
		atexit(leave_memory); // before fresh_node()'s own
	registered = true;
	CHECK_INT(mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV, "size=2g"), 0);
	snprintf(claims, sizeof claims, "%s/claims", folder);
	setenv("VIRGATE_CLAIMS_DIR", claims, 1);
	CHECK_INT(chmod(folder, 0755), 0);
	start_system_daemon();
}

static inline void become(uid_t uid)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (setgroups(0, NULL) < 0 || setgid(uid) < 0 || setuid(uid) < 0)
		_exit(99);
	prctl(PR_SET_DUMPABLE, 1);
	prctl(PR_SET_PDEATHSIG, SIGKILL); // setuid() took it back
}

// A process of the user's that runs `body` and exits. It leads a process group, which end_user() kills.
static inline pid_t start_user(uid_t uid, void (*body)(void))
{
	pid_t child = fork();

	if (child == 0) {
		setpgid(0, 0);
		if (uid == ALICE) // what is measured is the daemon, not how processors are shared
			setpriority(PRIO_PROCESS, 0, 19);
		become(uid);
		body();
		fflush(NULL);
		_exit(0);
	}
	CHECK(child > 0);
	setpgid(child, child);
	return child;
}

static volatile bool *attack_is_ready;

// An attacker that prepares something says when it is under way.
static inline void attack_begins(void)
{
	*attack_is_ready = true;
}

static inline pid_t start_attack(void (*body)(void))
{
	if (!attack_is_ready)
		attack_is_ready = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	*attack_is_ready = false;
	pid_t attacker = start_user(ALICE, body);
	while (!*attack_is_ready) {
		CHECK_INT(waitpid(attacker, NULL, WNOHANG), 0);
		poll(NULL, 0, 5);
	}
	return attacker;
}

static inline void end_user(pid_t leader)
{
	kill(-leader, SIGKILL);
	CHECK_INT(waitpid(leader, NULL, 0), leader);
}

// Runs `body` as the user, to its end.
static inline void run_user(uid_t uid, void (*body)(void))
{
	pid_t child = start_user(uid, body);
	int status;

	CHECK_INT(waitpid(child, &status, 0), child);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		FAIL("a program of user %u failed: %d", (unsigned int)uid, status);
}

struct latency {
	unsigned int trips, slow, refused; // slow: took longer than the daemon may
	double worst_ms;
};

enum { MOST_MS = 50 }; // of an answer under attack

static inline void one_trip(struct latency *latency, const char *request)
{
	uint64_t start = vg_clock_monotonic_ns();
	json_t *reply = ask("%s", request);
	double ms = (double)(vg_clock_monotonic_ns() - start) / 1e6;

	latency->trips++;
	latency->slow += ms > MOST_MS;
	latency->refused += !agreed(reply);
	if (!agreed(reply))
		fprintf(stderr, "%s: %s\n", request, json_string_value(json_object_get(reply, "message")));
	latency->worst_ms = ms > latency->worst_ms ? ms : latency->worst_ms;
	json_decref(reply);
}

static int latency_pipe[2];

static inline void be_victim(void)
{
	struct latency latency = {0};
	uint64_t end = vg_clock_monotonic_ns() + (uint64_t)attack_ms() * 1000000;

	do {
		one_trip(&latency, "{'op':'create','name':'b','memory':67108864}");
		one_trip(&latency, "{'op':'list'}");
		one_trip(&latency, "{'op':'rm','name':'b'}");
		poll(NULL, 0, 5);
	} while (vg_clock_monotonic_ns() < end);
	if (write(latency_pipe[1], &latency, sizeof latency) != sizeof latency)
		_exit(1);
}

// The victim's requests all succeed, and no more than one in ten takes longer than the daemon may: the machine may be
// busy with something else, too.
static inline void check_victim(const char *when)
{
	struct latency latency;

	CHECK_INT(pipe(latency_pipe), 0);
	run_user(BOB, be_victim);
	CHECK_INT(read(latency_pipe[0], &latency, sizeof latency), sizeof latency);
	close(latency_pipe[0]);
	close(latency_pipe[1]);
	printf("%s: %u round trips, %u over %d ms, the longest %.1f ms\n", when, latency.trips, latency.slow, MOST_MS,
	       latency.worst_ms);
	if (latency.refused)
		FAIL("%s: %u of %u requests of another user were refused", when, latency.refused, latency.trips);
	if (latency.slow * 10 > latency.trips || latency.worst_ms > 10 * MOST_MS)
		FAIL("%s: %u of %u answers took longer than %d ms, the longest %.0f ms", when, latency.slow,
		     latency.trips, MOST_MS, latency.worst_ms);
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

// SIGTERM ends the daemon soon, whatever was done to it.
static inline void end_daemon_at_once(void)
{
	int status = -1;

	kill(daemon_pid, SIGTERM);
	for (int i = 0; i < 400 && waitpid(daemon_pid, &status, WNOHANG) == 0; i++)
		poll(NULL, 0, 5);
	CHECK_INT(status, 0);
	daemon_pid = 0;
}
