// Checks that a daemon that `virgate` starts does not keep the resource limits of the shell. If it cannot raise a
// limit, it prints a warning.
#include "simulated.h"

#include <sys/resource.h>

// The standard error of the last call of virgate_after(). That function runs `virgate WORDS` after the shell commands
// `before`, and returns its exit status.
static char standard_error[4096];

static int virgate_after(const char *before, const char *words)
{
	char command[900], path[300];

	snprintf(path, sizeof path, "%s/standard_error", directory);
	snprintf(command, sizeof command, "%s; exec " VIRGATE " %s >/dev/null 2>%s", before, words, path);
	int status = system(command);
	*standard_error = '\0';
	vg_file_read(path, standard_error, sizeof standard_error);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Returns a field of a file in /proc/PID of the daemon.
static const char *daemon_field(const char *file, const char *field)
{
	static char text[8192];
	char path[64];

	json_t *reply = ask("{'op':'ping'}");
	snprintf(path, sizeof path, "/proc/%d/%s", (int)json_integer_value(json_object_get(reply, "pid")), file);
	json_decref(reply);
	if (vg_file_read(path, text, sizeof text) < 0)
		FAIL("no %s", path);
	char *at = strstr(text, field);
	if (!at)
		FAIL("%s has no %s", path, field);
	at[strcspn(at, "\n")] = '\0';
	return at + strlen(field);
}

TEST(low_hard_limits_are_reported)
{
	static const struct {
		const char *before, *words;
	} cases[] = {{"ulimit -f 10", "(ulimit -f), and the daemon needs 16.0 MiB"},
		     {"ulimit -n 24", "hard limit of open files is 24 (ulimit -n), and the daemon needs 64"}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		set_up_simulated_node();
		CHECK_INT(virgate_after(cases[i].before, "ps --sim"), 1);
		CHECK_CONTAINS(standard_error, cases[i].words);
		CHECK(strchr(standard_error, '\n') == standard_error + strlen(standard_error) - 1);
		CHECK_INT(virgate_after(cases[i].before, "run --sim --memory 512M -- " LOADER " modules"), 125);
		CHECK_CONTAINS(standard_error, cases[i].words);
		CHECK_INT(virgate_after("true", "ps --sim"),
			  // This command has no low limits, and starts a daemon. That daemon must also serve the next
			  // command, which has the low limits.
			  0);
		CHECK_INT(virgate_after(cases[i].before, "run --sim --memory 512M -- true"), 0);
		end_daemon();
	}
}

TEST(soft_limits_are_not_inherited)
{
	char number[32];

	set_up_simulated_node();
	CHECK_INT(virgate_after("ulimit -S -f 10; ulimit -S -n 24; umask 0; cd /tmp; echo 500 >/proc/$$/oom_score_adj",
				"run --sim --memory 512M -- " LOADER " modules"),
		  0);
	CHECK_STR(standard_error, "");
	CHECK_INT(virgate_after("true", "ps --sim"), 0);
	struct rlimit files;
	CHECK_INT(getrlimit(RLIMIT_NOFILE, &files), 0);
	const char *field = daemon_field("limits", "Max open files");
	snprintf(number, sizeof number, "%llu", (unsigned long long)files.rlim_max);
	CHECK_CONTAINS(field, number);
	CHECK_CONTAINS(daemon_field("limits", "Max file size"), "unlimited            unlimited");
	CHECK_INT(strtol(daemon_field("status", "Umask:"), NULL, 8), 077);
	CHECK_INT(strtoull(daemon_field("status", "SigBlk:"), NULL, 16) &
			  ~(1ull << (SIGTERM - 1) | 1ull << (SIGINT - 1) | 1ull << (SIGHUP - 1)),
		  0);
	if (geteuid() == 0)
		CHECK_INT(atoi(daemon_field("oom_score_adj", "")), 0);
	end_daemon();
}

// Starts a daemon with a low limit of descriptors. It must refuse requests for which it has too few descriptors. It
// must create no vGPU whose launcher it cannot watch.
TEST(program_that_cannot_be_watched_is_refused)
{
	enum { MOST = 64 };
	pid_t children[MOST];
	int gate[2], words[2], count = 0;
	char word = 0;

	fresh_node();
	start_daemon();
	CHECK_INT(prlimit(daemon_pid, RLIMIT_NOFILE, &(struct rlimit){MOST, MOST}, NULL), 0);
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu}", GIB));
	CHECK_INT(pipe(gate), 0);
	CHECK_INT(pipe(words), 0);
	for (; count < MOST && word != 'n'; count++) {
		children[count] = fork();
		if (children[count] == 0) {
			close(gate[1]);
			json_t *reply = ask("{'op':'enter','vgpu':'a'}");
			const char *message = json_string_value(json_object_get(reply, "message"));
			word = agreed(reply) ? 'y' : message && strstr(message, "cannot watch process") ? 'n' : '?';
			if (write(words[1], &word, 1) != 1 || read(gate[0], &word, 1) < 0)
				_exit(1);
			_exit(0);
		}
		CHECK_INT(read(words[0], &word, 1), 1);
		CHECK(word != '?');
	}
	CHECK_INT(word, 'n');
	CHECK(count > 16);
	CHECK_AGREED(ask("{'op':'ping'}")); // other requests are still answered
	CHECK_INT(figure("a", "memory"), GIB);
	close(gate[1]);
	for (int i = 0; i < count; i++)
		waitpid(children[i], NULL, 0);
}
