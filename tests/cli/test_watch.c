// `virgate ps --watch` against a stand-in daemon: on a terminal, elsewhere, and while the daemon is away.
#include "served.h"
#include "terminal.h"

#define VGPU(name)                                                                                 \
	"{\"name\":\"" name "\",\"uuid\":\"GPU-1\",\"device\":0,\"memory\":1073741824,\"charged\":0,"   \
	"\"overhead\":0,\"physical\":null,\"share\":0,\"share_limit\":false,\"class\":\"batch\",\"owner\":\"ann\","       \
	"\"group\":null,\"ephemeral\":false,\"created\":1,\"refusals\":0,\"tenants\":[],\"shared\":0}"
static const char two[] = "{\"ok\":true,\"vgpus\":[" VGPU("eval") "," VGPU("train") "]}";
static const char many[] = "{\"ok\":true,\"vgpus\":[" VGPU("a") "," VGPU("b") "," VGPU("c") "," VGPU("d") "," VGPU(
	"e") "," VGPU("f") "," VGPU("g") "]}";

static int occurrences(const char *text, const char *part)
{
	int count = 0;

	for (; (text = strstr(text, part)); text++)
		count++;
	return count;
}

// Waits until the file of that name holds `part` so many times.
static void await_in_file(const char *name, const char *part, int count)
{
	for (int waited = 0;; waited += 5) {
		slurp(name, seen, sizeof seen);
		if (occurrences(seen, part) >= count)
			return;
		if (waited > PATIENCE_MS)
			FAIL("no %d times \"%s\" in \"%s\"", count, part, seen);
		poll(NULL, 0, 5);
	}
}

static int interrupt(pid_t child)
{
	kill(child, SIGINT);
	return finish(child);
}

TEST(outside_a_terminal_tables_follow_each_other)
{
	place_begin();
	serve(two);
	pid_t child = begin(WORDS("ps", "--watch", "1", "train"));
	await_in_file("out", "NAME", 2);
	CHECK_INT(interrupt(child), 0);
	CHECK_INT(occurrences(result.out, "\ntrain "), occurrences(result.out, "NAME"));
	CHECK(!strstr(result.out, "eval"));
	CHECK(!strchr(result.out, '\033'));
	// A line with the time begins each: 2026-10-05 14:03:12
	CHECK_INT(strcspn(result.out, "\n"), 19);
	CHECK(result.out[4] == '-' && result.out[13] == ':');
	CHECK_STR(result.err, "");
}

// Accepts and hangs up, as a daemon that dies over a request. Each time is a line in FOLDER/requests.
static void serve_nobody(void)
{
	struct sockaddr_un address;
	char path[128];

	kill(place.server, SIGKILL);
	waitpid(place.server, NULL, 0);
	unlink(place.socket);
	CHECK_INT(vg_wire_address(place.socket, &address), 0);
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CHECK_INT(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
	CHECK_INT(listen(listener, 64), 0);
	place.server = fork();
	if (place.server == 0) {
		snprintf(path, sizeof path, "%s/requests", place.folder);
		int log = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
		for (;;) {
			close(accept(listener, NULL, NULL));
			dprintf(log, "hung up\n");
		}
	}
	close(listener);
}

TEST(an_absent_daemon_is_reported_once)
{
	place_begin();
	serve(two);
	pid_t child = begin(WORDS("list", "-w1"));
	await_in_file("out", "NAME", 1);
	serve_nobody();
	await_in_file("requests", "hung up", 5); // the verb tries twice each turn: these are three turns
	serve(two);
	slurp("out", seen, sizeof seen);
	int tables = occurrences(seen, "NAME");
	await_in_file("out", "NAME", tables + 1);
	CHECK_INT(interrupt(child), 0);
	CHECK_INT(occurrences(result.out, "waiting for the daemon: "), 1);
	const char *line = strstr(result.out, "  waiting for the daemon: "); // behind the time
	CHECK(line && line - result.out > 20 && line[-20] == '\n' && line[-3] == ':');
	CHECK_STR(result.err, "");
}

// A daemon that was told to end stays ended: watching asks it, and does not start it.
TEST(no_daemon_is_started_while_watching)
{
	place_begin();
	serve(two);
	setenv("VIRGATE_DAEMON", "/bin/false", 1);
	setenv("VIRGATE_NVML", "/nowhere", 1);
	pid_t child = begin(WORDS("ps", "--watch=1"));
	await_in_file("out", "NAME", 1);
	kill(place.server, SIGKILL);
	waitpid(place.server, NULL, 0);
	place.server = 0;
	unlink(place.socket);
	await_in_file("out", "waiting for the daemon: no daemon listens on", 1);
	unsetenv("VIRGATE_DAEMON");
	unsetenv("VIRGATE_NVML");
	CHECK_INT(interrupt(child), 0);
}

TEST(an_invalid_answer_ends_it)
{
	place_begin();
	serve(two);
	pid_t child = begin(WORDS("ps", "--watch", "1"));
	await_in_file("out", "NAME", 1);
	serve("{\"ok\":true,\"vgpus\":[{}]}");
	CHECK_INT(finish(child), 1);
	CHECK_CONTAINS(result.err, "the daemon's reply has no proper");
}

TEST(invalid_intervals_are_refused)
{
	place_begin();
	serve(two);
	CHECK_INT(VIRGATE_RUN("ps", "--watch=0"), 2);
	CHECK_CONTAINS(result.err, "--watch: \"0\" is not a time");
	CHECK_INT(VIRGATE_RUN("ps", "--watch=soon"), 2);
	CHECK_INT(VIRGATE_RUN("ps", "--watch", "--json"), 2);
	CHECK_CONTAINS(result.err, "give one of them");
	CHECK_INT(VIRGATE_RUN("ps", "--watch", "4090-a"), 1); // no number, so a name
	CHECK_CONTAINS(result.err, "there is no vGPU \"4090-a\"");
}

// ---- on a terminal --------------------------------------------------------------------------------------

TEST(a_terminal_is_redrawn_in_place_and_when_its_size_changes)
{
	int status;

	place_begin();
	serve(many);
	pid_t child = begin_on_terminal(24, 80, WORDS("ps", "--watch", "3600"));
	await_on_terminal("\033[J");
	CHECK_CONTAINS(seen, "\033[H");
	CHECK_CONTAINS(seen, ", every 3600 s, end with ^C\r\n\033[K");
	CHECK_CONTAINS(seen, "\r\n\033[Kg     ann");
	resize(6, 30);
	await_on_terminal("\033[J"); // not after an hour, but now
	const char *line = strstr(seen, "\033[H");
	CHECK(line);
	CHECK_INT(occurrences(line, "\r\n"), 5);
	CHECK_CONTAINS(line, "\n\033[K... and 6 more lines\r\n");
	while ((line = strstr(line, "\033[K"))) {
		line += strlen("\033[K");
		CHECK(strcspn(line, "\r") <= 30);
	}
	CHECK_INT(write(terminal, "\003", 1), 1); // ^C
	CHECK_INT(waitpid(child, &status, 0), child);
	place.child = 0;
	CHECK(WIFEXITED(status));
	CHECK_INT(WEXITSTATUS(status), 0);
	close(terminal);
}

TEST(a_terminal_shows_that_the_daemon_is_absent)
{
	int status;

	place_begin();
	serve(two);
	pid_t child = begin_on_terminal(24, 100, WORDS("ps", "--watch", "1"));
	await_on_terminal("train");
	serve_nobody();
	await_on_terminal("waiting for the daemon: ");
	serve(two);
	await_on_terminal("train");
	CHECK_INT(write(terminal, "\003", 1), 1);
	CHECK_INT(waitpid(child, &status, 0), child);
	place.child = 0;
	CHECK(WIFEXITED(status));
	close(terminal);
}
