// Starts a victim, and measures how long its requests take during an attack. The time in which the victim or the daemon
// waited for a processor does not count, because others use the machine, too. A slow answer also does not count if a
// second daemon, which is not attacked, was slow at the same time.
#pragma once
#include "hostile.h"

#include <dirent.h>

enum {
	ONE_USERS_MS = 50,
	MORE_USERS_MS = 15,
	FAR_TOO_LONG_MS = 500,
	ROUND_MS = 500,
	MOST_TRIPS = 2000,
};
#if defined(__SANITIZE_ADDRESS__)
enum { SANITIZED = 4 }; // with sanitizers, answers may take this many times as long
#else
enum { SANITIZED = 1 };
#endif

// The most milliseconds that an answer may take. The limit is higher if several users attack, because each may use a
// part of the time of the daemon's loop.
static int most_ms = ONE_USERS_MS;

struct trip {
	uint64_t begun_ns, ended_ns;
	uint64_t waited_ns; // for how long the victim and the daemon waited for a processor meanwhile
};

struct trips {
	volatile unsigned int count, refused;
	struct trip trips[MOST_TRIPS];
};

static struct trips *attacked, *control; // the victim's requests to the two daemons, in memory that its processes share
static char control_directory[sizeof directory], control_socket[sizeof socket_path];
static pid_t control_pid;

static inline void end_control(void)
{
	if (getpid() != test_pid)
		return;
	kill(control_pid, SIGKILL);
	umount2(control_directory, MNT_DETACH);
	rmdir(control_directory);
}

// Starts the second daemon, which is not attacked, in another directory. All tests of the program use that daemon.
static inline void start_control(void)
{
	char old_directory[sizeof directory], old_run[sizeof runtime_dir], old_socket[sizeof socket_path],
		old_claims[300];
	pid_t old_daemon = daemon_pid;

	attacked = mmap(NULL, 2 * sizeof *attacked, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	control = attacked + 1;
	memcpy(old_directory, directory, sizeof directory);
	memcpy(old_run, runtime_dir, sizeof runtime_dir);
	memcpy(old_socket, socket_path, sizeof socket_path);
	snprintf(old_claims, sizeof old_claims, "%s", getenv("VIRGATE_CLAIMS_DIR"));
	snprintf(directory, sizeof directory, "/tmp/test-control-XXXXXX");
	CHECK(mkdtemp(directory));
	mount_memory();
	snprintf(runtime_dir, sizeof runtime_dir, "%s/run", directory);
	snprintf(socket_path, sizeof socket_path, "%s/virgated.sock", runtime_dir);
	memcpy(control_directory, directory, sizeof directory);
	memcpy(control_socket, socket_path, sizeof socket_path);
	start_system_daemon();
	control_pid = daemon_pid;
	atexit(end_control);
	daemon_pid = old_daemon;
	memcpy(directory, old_directory, sizeof directory);
	memcpy(runtime_dir, old_run, sizeof runtime_dir);
	memcpy(socket_path, old_socket, sizeof socket_path);
	setenv("VIRGATE_CLAIMS_DIR", old_claims, 1);
}

// Returns how long a thread was ready but did not run. 0: this kernel does not count that time.
static inline uint64_t read_waited_ns(const char *task)
{
	char path[400], text[128];
	unsigned long long waited = 0;

	snprintf(path, sizeof path, "%s/schedstat", task);
	if (vg_file_read(path, text, sizeof text) > 0)
		sscanf(text, "%*u %llu", &waited);
	return waited;
}

// Returns how long the daemon waited for a processor: its loop, and the thread that writes the state, since some
// answers wait for that thread.
static inline uint64_t read_daemon_waited_ns(pid_t pid)
{
	char path[64], task[340], comm[400], name[32];
	uint64_t sum = 0;

	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	DIR *tasks = opendir(path);
	for (const struct dirent *entry; tasks && (entry = readdir(tasks));) {
		snprintf(task, sizeof task, "%s/%s", path, entry->d_name);
		snprintf(comm, sizeof comm, "%s/comm", task);
		bool is_counted = atoi(entry->d_name) == pid;
		if (!is_counted && vg_file_read(comm, name, sizeof name) > 0)
			is_counted = strcmp(name, "virgated-disk\n") == 0;
		if (is_counted)
			sum += read_waited_ns(task);
	}
	if (tasks)
		closedir(tasks);
	return sum;
}

static inline void make_trip(struct trips *trips, pid_t daemon, const char *path, const char *request)
{
	uint64_t waited = read_daemon_waited_ns(daemon) + read_waited_ns("/proc/self");
	struct trip trip = {.begun_ns = vg_clock_monotonic_ns()};
	json_t *reply = ask_at(path, "%s", request);

	trip.ended_ns = vg_clock_monotonic_ns();
	trip.waited_ns = read_daemon_waited_ns(daemon) + read_waited_ns("/proc/self") - waited;
	if (!agreed(reply)) {
		trips->refused++;
		fprintf(stderr, "%s: %s\n", request, json_string_value(json_object_get(reply, "message")));
	}
	json_decref(reply);
	if (trips->count < MOST_TRIPS)
		trips->trips[trips->count++] = trip;
}

static inline void make_trips(struct trips *trips, pid_t daemon, const char *path)
{
	uint64_t end = vg_clock_monotonic_ns() + ROUND_MS * 1000000ull;

	do {
		make_trip(trips, daemon, path, "{'op':'create','name':'b','memory':67108864}");
		make_trip(trips, daemon, path, "{'op':'list'}");
		make_trip(trips, daemon, path, "{'op':'rm','name':'b'}");
		poll(NULL, 0, 5);
	} while (vg_clock_monotonic_ns() < end);
}

static inline void be_victim(void)
{
	make_trips(attacked, daemon_pid, socket_path);
}

static inline void be_control(void)
{
	make_trips(control, control_pid, control_socket);
}

static inline double milliseconds(const struct trip *trip)
{
	uint64_t taken = trip->ended_ns - trip->begun_ns;

	return taken > trip->waited_ns ? (double)(taken - trip->waited_ns) / 1e6 / SANITIZED : 0;
}

// Two requests count as simultaneous if no more than this time is between them.
static const uint64_t MARGIN_NS = 100000000;

static inline bool is_beside(const struct trip *trip, const struct trip *other)
{
	return other->ended_ns + MARGIN_NS > trip->begun_ns && other->begun_ns < trip->ended_ns + MARGIN_NS;
}

// Returns true if the daemon that is not attacked was slow at about the time of this request.
static inline bool is_excused(const struct trip *trip)
{
	for (unsigned int i = 0; i < control->count; i++)
		if (is_beside(trip, &control->trips[i]) && 4 * milliseconds(&control->trips[i]) > milliseconds(trip))
			return true;
	return false;
}

// Counts the requests that took longer than allowed, and stores the longest duration.
static inline unsigned int count_slow(double *ret_worst_ms)
{
	unsigned int slow = 0;

	*ret_worst_ms = 0;
	for (unsigned int i = 0; i < attacked->count; i++) {
		const struct trip *trip = &attacked->trips[i];
		if (milliseconds(trip) <= most_ms || is_excused(trip))
			continue;
		slow++;
		*ret_worst_ms = milliseconds(trip) > *ret_worst_ms ? milliseconds(trip) : *ret_worst_ms;
	}
	return slow;
}

// Checks that all requests of the victim succeed during the attack, and that in most rounds none takes longer than
// allowed. A pause of the machine makes a few rounds slow, but an attack that works makes each round slow.
static inline void check_victim_for(int milliseconds_long, const char *when)
{
	double worst_ms = 0, longest_ms = 0;
	int bad = 0, rounds = 0;

	if (!control_pid)
		start_control();
	for (; rounds * ROUND_MS < milliseconds_long || (bad && rounds < 7); rounds++) {
		int status;
		attacked->count = attacked->refused = control->count = control->refused = 0;
		pid_t other = start_user(bob, be_control);
		run_user(bob, be_victim);
		CHECK_INT(waitpid(other, &status, 0), other);
		forget_user(other);
		CHECK_INT(status, 0);
		unsigned int slow = count_slow(&worst_ms);
		bad += slow > 0;
		longest_ms = worst_ms > longest_ms ? worst_ms : longest_ms;
		if (slow)
			printf("%s: %u of %u answers took longer than %d ms\n", when, slow, attacked->count, most_ms);
		if (attacked->refused)
			FAIL("%s: %u of %u requests of another user were refused", when, attacked->refused,
			     attacked->count);
	}
	printf("%s: %d of %d rounds without a slow answer, the longest %.0f ms\n", when, rounds - bad, rounds,
	       longest_ms);
	if (2 * bad > rounds || longest_ms > FAR_TOO_LONG_MS)
		FAIL("%s: in %d of %d rounds an answer took longer than %d ms, the longest %.0f ms", when, bad, rounds,
		     most_ms, longest_ms);
}

static inline void check_victim(const char *when)
{
	check_victim_for(attack_ms(), when);
}
