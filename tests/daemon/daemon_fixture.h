// Starts a daemon of the test's own with a fake NVML, and tenants that are children of the test.
#pragma once
#include "base/clock.h"
#include "base/descriptor.h"
#include "ledger/ledger.h"
#include "test.h"
#include "wire/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define GIB (1ull << 30)
#define MIB (1ull << 20)

static char directory[256], socket_path[300], runtime_dir[280], nvml_world[300];
static pid_t daemon_pid;

static void clean_up(void)
{
	char command[512], text[32];

	if (getpid() != test_pid || !*directory)
		return;
	if (daemon_pid > 0) {
		kill(daemon_pid, SIGKILL);
		waitpid(daemon_pid, NULL, 0);
		daemon_pid = 0;
	}
	// Reads the pid of a daemon that `virgate` started, from the lock file.
	snprintf(command, sizeof command, "%s/lock", runtime_dir);
	if (vg_file_read(command, text, sizeof text) > 0 && atoi(text) > 1 && access(socket_path, F_OK) == 0)
		kill(atoi(text), SIGKILL);
	snprintf(command, sizeof command, "rm -rf '%s'", directory);
	if (system(command) != 0)
		fprintf(stderr, "left behind: %s\n", directory);
	*directory = '\0';
}

__attribute__((format(printf, 1, 2))) static inline void set_world(const char *format, ...)
{
	char text[4096];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	if (vg_file_write_atomic(nvml_world, text, strlen(text), 0600) < 0)
		FAIL("cannot write %s", nvml_world);
}

// Creates a new directory, and a fake NVML with two GPUs of 8 GiB and no processes.
static inline void fresh_node(void)
{
	static bool registered;

	clean_up();
	if (!registered)
		atexit(clean_up);
	registered = true;
	snprintf(directory, sizeof directory, "/tmp/test-virgated-XXXXXX");
	if (!mkdtemp(directory))
		FAIL("no directory %s", directory);
	snprintf(runtime_dir, sizeof runtime_dir, "%s/run", directory);
	snprintf(socket_path, sizeof socket_path, "%s/virgated.sock", runtime_dir);
	snprintf(nvml_world, sizeof nvml_world, "%s/world", directory);
	set_world("gpu %llu\ngpu %llu\n", 8 * GIB, 8 * GIB);
}

// Starts a daemon in the runtime directory `at`, and waits until it listens or has ended. Returns its pid. `value`
// belongs to the option, and can be NULL.
static inline pid_t launch_daemon(const char *at, const char *state, const char *option, const char *value,
				  bool *ret_ready)
{
	int ready[2];
	char number[12], claims[300], log[300], byte;

	if (pipe(ready) < 0)
		FAIL("pipe");
	snprintf(claims, sizeof claims, "%s/claims", directory);
	snprintf(log, sizeof log, "%s/log", directory);
	pid_t child = fork();
	if (child == 0) {
		int log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
		dup2(log_fd, 2);
		close(ready[0]);
		setenv("VIRGATE_RUNTIME_DIR", at, 1);
		setenv("VIRGATE_STATE_DIR", state, 1);
		setenv("VIRGATE_CLAIMS_DIR", claims, 1);
		setenv("VIRGATE_NVML", FAKE_NVML_LIBRARY, 1);
		setenv("FAKE_NVML", nvml_world, 1);
		unsetenv("VIRGATE_SIM");
		snprintf(number, sizeof number, "%d", ready[1]);
		execl(VIRGATED, "virgated", "--ready-fd", number, option, value, NULL);
		_exit(127);
	}
	close(ready[1]);
	*ret_ready = read(ready[0], &byte, 1) == 1;
	close(ready[0]);
	return child;
}

// Starts a user's own daemon, which ends after it was idle for so many seconds; "0": never.
static inline pid_t start_daemon_at(const char *at, const char *idle_seconds, bool *ret_ready)
{
	char state[300];

	snprintf(state, sizeof state, "%s/state", at);
	return launch_daemon(at, state, "--idle-seconds", idle_seconds, ret_ready);
}

// Starts a second daemon, which shares the GPUs with the first one.
static inline pid_t start_other_daemon(char ret_socket[330])
{
	char other_dir[300];
	bool ready;

	snprintf(other_dir, sizeof other_dir, "%s/other", directory);
	snprintf(ret_socket, 330, "%s/virgated.sock", other_dir);
	pid_t other = start_daemon_at(other_dir, "0", &ready);
	CHECK(ready);
	return other;
}

static inline void start_daemon(void)
{
	bool ready;

	daemon_pid = start_daemon_at(runtime_dir, "0", &ready);
	if (!ready)
		FAIL("the daemon does not start: see %s/log", directory);
}

static inline void kill_daemon(void)
{
	kill(daemon_pid, SIGKILL);
	waitpid(daemon_pid, NULL, 0);
	daemon_pid = 0;
}

static inline json_t *ask_at(const char *path, const char *format, ...)
{
	char text[4096], *answer;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	for (char *at = text; *at; at++) // the callers write single quotes, which need no backslash in C
		if (*at == '\'')
			*at = '"';
	int r = vg_wire_request(path, text, 20000, &answer);
	if (r < 0)
		FAIL("no answer to %s: %s", text, strerror(-r));
	json_t *reply = json_loads(answer, 0, NULL);
	free(answer);
	if (!reply)
		FAIL("the answer to %s is not JSON", text);
	return reply;
}
#define ask(...) ask_at(socket_path, __VA_ARGS__)

static inline bool agreed(json_t *reply)
{
	return json_is_true(json_object_get(reply, "ok"));
}

#define CHECK_AGREED(reply_)                                                                                           \
	do {                                                                                                           \
		json_t *agreed_ = (reply_);                                                                            \
		if (!agreed(agreed_))                                                                                  \
			FAIL("%s:%d: %s", __FILE__, __LINE__, json_string_value(json_object_get(agreed_, "message"))); \
		json_decref(agreed_);                                                                                  \
	} while (0)
#define CHECK_REFUSED(reply_, code_, part_)                                                     \
	do {                                                                                    \
		json_t *refused_ = (reply_);                                                    \
		CHECK(!agreed(refused_));                                                       \
		CHECK_STR(json_string_value(json_object_get(refused_, "code")), code_);         \
		CHECK_CONTAINS(json_string_value(json_object_get(refused_, "message")), part_); \
		json_decref(refused_);                                                          \
	} while (0)

static inline json_int_t figure(const char *name, const char *key)
{
	json_t *reply = ask("{'op':'inspect','name':'%s'}", name);
	const json_t *value = json_object_get(json_object_get(reply, "vgpu"), key);
	json_int_t result = json_is_array(value) ? (json_int_t)json_array_size(value) : json_integer_value(value);

	if (!agreed(reply))
		result = -1;
	json_decref(reply);
	return result;
}

// Waits at most `ms` milliseconds until the daemon lists the value `wanted` under `key` for the vGPU. Returns how many
// milliseconds that took; -1: another value was listed until the end.
static inline int await_figure(const char *name, const char *key, json_int_t wanted, int ms)
{
	uint64_t start = vg_clock_monotonic_ns();

	for (;;) {
		int waited = (int)((vg_clock_monotonic_ns() - start) / 1000000);
		if (figure(name, key) == wanted)
			return waited;
		if (waited > ms)
			return -1;
		poll(NULL, 0, 5);
	}
}

// Starts a child in the vGPU that charges `bytes` and sleeps.
static inline pid_t start_tenant(const char *name, uint64_t bytes)
{
	char path[400], byte = 0;
	int ready[2];

	snprintf(path, sizeof path, "%s/ledgers/%s", runtime_dir, name);
	if (pipe(ready) < 0)
		FAIL("pipe");
	pid_t child = fork();
	if (child == 0) {
		struct vg_ledger *ledger;
		struct vg_wire_registration registration = {0};
		struct vg_ledger_owner self;
		byte = vg_ledger_open(path, &ledger) == 0 && vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, bytes) == 0 &&
		       vg_ledger_self(&self) == 0;
		registration.pid = self.pid, registration.pid_namespace = self.pid_namespace,
		registration.start_time = self.start_time;
		snprintf(registration.ledger, sizeof registration.ledger, "%s", name);
		vg_wire_register(socket_path, &registration, -1);
		if (write(ready[1], &byte, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1 || !byte)
		FAIL("no tenant in %s", name);
	close(ready[0]);
	return child;
}

// Starts a launcher that enters a vGPU with these fields, and keeps it until it is killed. Returns its pid and the name
// of the vGPU.
static inline pid_t start_launcher(const char *path, const char *fields, char ret_name[64])
{
	int ready[2];

	CHECK_INT(pipe(ready), 0);
	pid_t child = fork();
	if (child == 0) {
		json_t *reply = ask_at(path, "{'op':'enter',%s}", fields);
		const char *got = json_string_value(json_object_get(reply, "name"));
		if (!got || write(ready[1], got, strlen(got)) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	ssize_t length = read(ready[0], ret_name, 63);
	close(ready[0]);
	CHECK(length > 0);
	ret_name[length] = '\0';
	return child;
}

static inline void kill_tenant(pid_t tenant)
{
	kill(tenant, SIGKILL);
	waitpid(tenant, NULL, 0);
}

// Sends the signal to the vGPU's programs. Fails unless the signal reaches `count` processes.
#define CHECK_SIGNALLED(name, signal, count)                                                 \
	do {                                                                                 \
		json_t *reply_ = ask("{'op':'kill','name':'%s','signal':%d}", name, signal); \
		CHECK_INT(json_integer_value(json_object_get(reply_, "signalled")), count);  \
		CHECK_AGREED(reply_);                                                        \
	} while (0)
