// Tests the progress line of a dump, a migration and a verification, which appears on a terminal only, not with --json,
// and is erased at the end.
#include <poll.h>

#include "migrate_test.h"

#define ERASED "\r\033[J"
#define REDRAWN "\033[J\r" // the end of a line that was drawn

static char shown[1 << 16];
static size_t length;

static void collect(int terminal, unsigned milliseconds)
{
	uint64_t end = vg_clock_monotonic_ns() + milliseconds * UINT64_C(1000000);

	while (vg_clock_monotonic_ns() < end) {
		struct pollfd wanted = {.fd = terminal, .events = POLLIN};
		if (poll(&wanted, 1, 20) <= 0)
			continue;
		ssize_t count = read(terminal, shown + length, sizeof shown - 1 - length);
		if (count <= 0)
			break;
		length += (size_t)count;
	}
	shown[length] = '\0';
}

static unsigned count_of(const char *text)
{
	unsigned count = 0;

	for (const char *at = shown; (at = strstr(at, text)); at += strlen(text))
		count++;
	return count;
}

// Starts `virgate` on a terminal.
static pid_t start_on_terminal(char *const arguments[], int *ret_terminal)
{
	int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	CHECK(terminal >= 0);
	CHECK_INT(grantpt(terminal), 0);
	CHECK_INT(unlockpt(terminal), 0);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		setenv("TERM", "xterm", 1);
		dup2(open(ptsname(terminal), O_RDWR | O_NOCTTY), 2);
		dup2(2, 1);
		execv(VIRGATE, arguments);
		_exit(127);
	}
	*ret_terminal = terminal;
	length = 0;
	return pid;
}

// Starts a slow dump on a terminal. `option`: a last option, or NULL.
static pid_t start_dump(pid_t subject, const char *option, int *ret_terminal)
{
	char pid[16];
	char *const arguments[] = {
		VIRGATE,	   "dump",	   "--pid", pid, "--dir", (char *)path_of(option ? "image3" : "image"),
		"--leave-running", (char *)option, NULL};

	snprintf(pid, sizeof pid, "%d", (int)subject);
	return start_on_terminal(arguments, ret_terminal);
}

// Waits until the dump has started CRIU, which waits until the file "slow" is removed.
static void wait_for_criu(int terminal)
{
	for (int i = 0; i < 1000 && access(path_of("slow"), F_OK) < 0; i++)
		collect(terminal, 10);
	CHECK_INT(access(path_of("slow"), F_OK), 0);
}

static void collect_until(int terminal, const char *text)
{
	for (int i = 0; i < 300 && !strstr(shown, text); i++)
		collect(terminal, 100);
	CHECK_CONTAINS(shown, text);
}

// Checks that the line is erased before the result of the command, and that nothing is drawn after that.
static void check_erased_before(const char *text)
{
	const char *result = strstr(shown, text);

	CHECK(result && result - shown > 4 && strncmp(result - 4, ERASED, 4) == 0);
	CHECK(!strstr(result, "\033"));
}

TEST(a_terminal_shows_the_progress)
{
	int terminal;

	setenv("VIRGATE_CRIU", STANDIN_PROGRAM, 1);
	struct subject subject = start_subject(path_of("rounds"));
	check_goes_on(path_of("rounds"));
	write_text("fail", "slow\n");
	pid_t dump = start_dump(subject.pid, NULL, &terminal);
	wait_for_criu(terminal);
	collect_until(terminal, "\rhost-out  [");
	CHECK_CONTAINS(shown, "   0 %   0 B of ");
	length = 0;
	collect(terminal, 2000);
	unsigned redraws = count_of(REDRAWN);
	if (redraws < 2 || redraws > 20)
		FAIL("%u redraws in two seconds", redraws);
	unlink(path_of("slow"));
	collect_until(terminal, "dumped process ");
	CHECK_CHILD(dump);
	check_erased_before("dumped process ");
	close(terminal);
	end_subject(subject);
}

TEST(json_has_no_progress)
{
	int terminal, status;

	setenv("VIRGATE_CRIU", STANDIN_PROGRAM, 1);
	struct subject subject = start_subject(path_of("rounds3"));
	check_goes_on(path_of("rounds3"));
	pid_t dump = start_dump(subject.pid, "--json", &terminal);
	wait_for_criu(terminal);
	length = 0;
	collect(terminal, 1500); // in the first second of a dump, no progress is shown in any case, so wait longer
	unlink(path_of("slow"));
	collect_until(terminal, "\"raw_bytes\"");
	CHECK_INT(waitpid(dump, &status, 0), dump);
	CHECK(!strstr(shown, "\033"));
	close(terminal);
	end_subject(subject);
}

TEST(no_progress_without_a_terminal)
{
	unlink(path_of("fail"));
	setenv("VIRGATE_CRIU", STANDIN_PROGRAM, 1);
	struct subject subject = start_subject(path_of("rounds2"));
	check_goes_on(path_of("rounds2"));
	CHECK_RUN("dump --pid %d --dir %s --leave-running", (int)subject.pid, path_of("image2"));
	CHECK(!strchr(said, '\r') && !strchr(said, '\033'));
	CHECK_CONTAINS(said, "dumped process");
	end_subject(subject);
}

TEST(a_migration_shows_its_progress)
{
	char pid[16], to[PATH_MAX + 8];
	int terminal;

	need_pids();
	set_up();
	pid_t far = start_far_side();
	write_text("fail", "slow\n");
	snprintf(pid, sizeof pid, "%d", (int)idle.pid);
	snprintf(to, sizeof to, "unix:%s", path_of("socket"));
	pid_t migration = start_on_terminal(
		(char *[]){VIRGATE, "migrate", "--pid", pid, "--cpu-only", "--to", to, NULL}, &terminal);
	wait_for_criu(terminal);
	collect_until(terminal, "\rhost-out  [");
	CHECK_CONTAINS(shown, "    0 % ");
	unlink(path_of("slow"));
	collect_until(terminal, "migrated process ");
	CHECK_INT(end_of(migration), 0);
	CHECK_INT(end_of(far), 0);
	check_erased_before("migrated process ");
	close(terminal);
	end_idle();
}

// Verifies an image by threads that begin when the file "late" is removed.
static pid_t start_verification(const char *image, int *ret_terminal)
{
	write_text("late", "");
	setenv("LATE_THREADS", path_of("late"), 1);
	setenv("LD_PRELOAD", LATE_THREADS_LIBRARY, 1);
	pid_t pid = start_on_terminal((char *[]){VIRGATE, "image", "verify", (char *)image, NULL}, ret_terminal);
	unsetenv("LD_PRELOAD");
	return pid;
}

TEST(a_verification_shows_its_progress)
{
	int terminal;

	unlink(path_of("fail"));
	setenv("VIRGATE_CRIU", STANDIN_PROGRAM, 1);
	struct subject subject = start_subject(path_of("rounds4"));
	check_goes_on(path_of("rounds4"));
	CHECK_RUN("dump --pid %d --dir %s --leave-running", (int)subject.pid, path_of("image4"));
	pid_t verification = start_verification(path_of("image4"), &terminal);
	collect_until(terminal, "\rverify  [");
	CHECK_CONTAINS(shown, "    0 % ");
	unlink(path_of("late"));
	collect_until(terminal, "whole, all checksums agree");
	CHECK_INT(end_of(verification), 0);
	check_erased_before(path_of("image4"));
	close(terminal);
	end_subject(subject);
}
