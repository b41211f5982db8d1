// Tests `virgate ps --watch` with a stand-in for the daemon: on a terminal, with output to a file, and while no daemon
// answers.
#include "fixture.h"
#include "terminal.h"

#define VGPU(name)                                                                                                  \
	"{\"name\":\"" name "\",\"uuid\":\"GPU-1\",\"device\":0,\"memory\":1073741824,\"charged\":0,"               \
	"\"overhead\":0,\"physical\":null,\"share\":0,\"share_limit\":false,\"class\":\"batch\",\"owner\":\"ann\"," \
	"\"group\":null,\"ephemeral\":false,\"created\":1,\"refusals\":0,\"tenants\":[],\"shared\":0}"
static const char two[] = "{\"ok\":true,\"vgpus\":[" VGPU("eval") "," VGPU("train") "]}";
static const char many[] = "{\"ok\":true,\"vgpus\":[" VGPU("a") "," VGPU("b") "," VGPU("c") "," VGPU("d") "," VGPU(
	"e") "," VGPU("f") "," VGPU("g") "]}";

static int count_occurrences(const char *text, const char *part)
{
	int count = 0;

	for (; (text = strstr(text, part)); text++)
		count++;
	return count;
}

// Waits until a file contains `part` that many times.
static void wait_for_file(const char *name, const char *part, int count)
{
	for (int waited = 0;; waited += 5) {
		read_file(name, seen, sizeof seen);
		if (count_occurrences(seen, part) >= count)
			return;
		if (waited > PATIENCE_MS)
			FAIL("no %d times \"%s\" in \"%s\"", count, part, seen);
		poll(NULL, 0, 5);
	}
}

static int interrupt_watch(pid_t child)
{
	kill(child, SIGINT);
	return wait_for_program(child);
}

TEST(tables_are_appended_without_terminal)
{
	fixture_start();
	serve_answer(two);
	pid_t child = start_program(WORDS("ps", "--watch", "1", "train"));
	wait_for_file("out", "NAME", 2);
	CHECK_INT(interrupt_watch(child), 0);
	CHECK_INT(count_occurrences(result.out, "\ntrain "), count_occurrences(result.out, "NAME"));
	CHECK(!strstr(result.out, "eval"));
	CHECK(!strchr(result.out, '\033'));
	// Each listing begins with a line with the time: 2026-10-05 14:03:12
	CHECK_INT(strcspn(result.out, "\n"), 19);
	CHECK(result.out[4] == '-' && result.out[13] == ':');
	CHECK_STR(result.err, "");
}

// Accepts and closes connections, like a daemon that crashes. Adds a line to the file `requests` each time.
static void serve_hangup(void)
{
	char path[128];

	int listener = listen_as_daemon();
	fixture.server = fork();
	if (fixture.server == 0) {
		snprintf(path, sizeof path, "%s/requests", fixture.directory);
		int log = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
		for (;;) {
			close(accept(listener, NULL, NULL));
			dprintf(log, "hung up\n");
		}
	}
	close(listener);
}

TEST(absent_daemon_is_reported_once)
{
	fixture_start();
	serve_answer(two);
	pid_t child = start_program(WORDS("list", "-w1"));
	wait_for_file("out", "NAME", 1);
	serve_hangup();
	// The verb connects to the daemon twice in each interval, so five connections take three intervals.
	wait_for_file("requests", "hung up", 5);
	serve_answer(two);
	read_file("out", seen, sizeof seen);
	int tables = count_occurrences(seen, "NAME");
	wait_for_file("out", "NAME", tables + 1);
	CHECK_INT(interrupt_watch(child), 0);
	CHECK_INT(count_occurrences(result.out, "waiting for the daemon: "), 1);
	const char *line = strstr(result.out, "  waiting for the daemon: "); // after the time
	CHECK(line && line - result.out > 20 && line[-20] == '\n' && line[-3] == ':');
	CHECK_STR(result.err, "");
}

// --watch does not restart a daemon after its shutdown.
TEST(watch_starts_no_daemon)
{
	fixture_start();
	serve_answer(two);
	setenv("VIRGATE_DAEMON", "/bin/false", 1);
	setenv("VIRGATE_NVML", "/nowhere", 1);
	pid_t child = start_program(WORDS("ps", "--watch=1"));
	wait_for_file("out", "NAME", 1);
	kill(fixture.server, SIGKILL);
	waitpid(fixture.server, NULL, 0);
	fixture.server = 0;
	unlink(fixture.socket);
	wait_for_file("out", "waiting for the daemon: no daemon listens on", 1);
	unsetenv("VIRGATE_DAEMON");
	unsetenv("VIRGATE_NVML");
	CHECK_INT(interrupt_watch(child), 0);
}

TEST(invalid_answer_ends_watch)
{
	fixture_start();
	serve_answer(two);
	pid_t child = start_program(WORDS("ps", "--watch", "1"));
	wait_for_file("out", "NAME", 1);
	serve_answer("{\"ok\":true,\"vgpus\":[{}]}");
	CHECK_INT(wait_for_program(child), 1);
	CHECK_CONTAINS(result.err, "the daemon's reply has no proper");
}

TEST(invalid_intervals_are_refused)
{
	fixture_start();
	serve_answer(two);
	CHECK_REFUSAL(2, "--watch: \"0\" is not a time", "ps", "--watch=0");
	CHECK_INT(VIRGATE_RUN("ps", "--watch=soon"), 2);
	CHECK_REFUSAL(2, "give one of them", "ps", "--watch", "--json");
	CHECK_INT(VIRGATE_RUN("ps", "--watch", "4090-a"), 1); // "4090-a" is not a number, so it is a name
	CHECK_CONTAINS(result.err, "there is no vGPU \"4090-a\"");
}

// ---- on a terminal --------------------------------------------------------------------------------------

TEST(terminal_is_redrawn_in_place)
{
	int status;

	fixture_start();
	serve_answer(many);
	pid_t child = start_on_terminal(24, 80, WORDS("ps", "--watch", "3600"));
	wait_for_text("\033[J");
	CHECK_CONTAINS(seen, "\033[H");
	CHECK_CONTAINS(seen, ", every 3600 s, end with ^C\r\n\033[K");
	CHECK_CONTAINS(seen, "\r\n\033[Kg     ann");
	resize_terminal(6, 30);
	wait_for_text("\033[J"); // the new size redraws the listing before the interval ends
	const char *line = strstr(seen, "\033[H");
	CHECK(line);
	CHECK_INT(count_occurrences(line, "\r\n"), 5);
	CHECK_CONTAINS(line, "\n\033[K... and 6 more lines\r\n");
	while ((line = strstr(line, "\033[K"))) {
		line += strlen("\033[K");
		CHECK(strcspn(line, "\r") <= 30);
	}
	CHECK_INT(write(terminal, "\003", 1), 1); // ^C
	CHECK_INT(waitpid(child, &status, 0), child);
	fixture.child = 0;
	CHECK(WIFEXITED(status));
	CHECK_INT(WEXITSTATUS(status), 0);
	close(terminal);
}

TEST(terminal_shows_absent_daemon)
{
	int status;

	fixture_start();
	serve_answer(two);
	pid_t child = start_on_terminal(24, 100, WORDS("ps", "--watch", "1"));
	wait_for_text("train");
	serve_hangup();
	wait_for_text("waiting for the daemon: ");
	serve_answer(two);
	wait_for_text("train");
	CHECK_INT(write(terminal, "\003", 1), 1);
	CHECK_INT(waitpid(child, &status, 0), child);
	fixture.child = 0;
	CHECK(WIFEXITED(status));
	close(terminal);
}
