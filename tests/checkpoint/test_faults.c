// Every step fails once, in each of the ways it can: whatever it was, the process runs on with what it had, or can be
// brought back to, and there is a whole image or none.
#include "checkpoint_test.h"

static const char *const steps[] = {"find", "lock", "device-out", "host-out", "commit", "end"};
enum { STEPS = 6, COMMITTED = 5 };

static void standin(void)
{
	setenv("VIRGATE_CRIU", STANDIN_PROGRAM, 1);
	setenv("VIRGATE_LIBDIR", BUILD, 1);
	unlink(path_of("fail"));
}

// The coordinator's exit code, or minus the signal that ended it; what it said in `said`.
static int coordinate(const char *verb, pid_t pid, const char *dir, const char *phase, const char *what)
{
	char command[PATH_MAX + 256];

	snprintf(command, sizeof command, "exec %s %s %d %s %s %s 2>&1", COORDINATOR, verb, (int)pid, dir, phase, what);
	FILE *output = popen(command, "re");
	CHECK(output != NULL);
	said[fread(said, 1, sizeof said - 1, output)] = '\0';
	int status = pclose(output);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static bool image_stands(const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/virgate.json", path_of(name));
	return access(path, F_OK) == 0;
}

// No name of it, and no part.
static bool nothing_there(const char *name)
{
	char command[PATH_MAX + 64];

	snprintf(command, sizeof command, "! ls -d %s* >/dev/null 2>&1", path_of(name));
	return system(command) == 0;
}

static char state_of(pid_t pid)
{
	char path[64], text[4096];

	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	CHECK(vg_file_read(path, text, sizeof text) > 0);
	return strstr(text, "\nState:\t")[8];
}

TEST(a_wish_to_stop_is_heeded_before_every_step_up_to_the_commit)
{
	standin();
	struct subject subject = start_subject(path_of("stop"));

	check_goes_on(path_of("stop"));
	for (int i = 0; i < COMMITTED; i++) {
		CHECK_INT(coordinate("dump", subject.pid, path_of("stopped"), steps[i], "stop"), 1);
		CHECK_CONTAINS(said, "not possible in this state: ");
		CHECK_CONTAINS(said, steps[i]);
		CHECK(nothing_there("stopped"));
		check_goes_on(path_of("stop"));
	}
	// The image stands: too late to stop.
	CHECK_INT(coordinate("dump", subject.pid, path_of("late"), "end", "stop"), 0);
	CHECK(image_stands("late"));
	end_subject(subject);
}

TEST(after_kill_9_at_any_step_there_is_a_way_back)
{
	standin();
	for (int i = 0; i < STEPS; i++) {
		char image[32], rounds[32];
		snprintf(image, sizeof image, "killed-%s", steps[i]);
		snprintf(rounds, sizeof rounds, "kill%d", i);
		struct subject subject = start_subject(path_of(rounds));
		check_goes_on(path_of(rounds));
		CHECK_INT(coordinate("dump", subject.pid, path_of(image), steps[i], "kill"), -SIGKILL);
		CHECK_INT(image_stands(image), i >= COMMITTED);
		CHECK_INT(state_of(subject.pid) == 'T', i > 3); // since host-out
		if (i > 1) {					// a dump of what was left so says what to do
			CHECK_INT(run("dump --pid %d --dir %s", (int)subject.pid, path_of("again")), 1);
			CHECK_CONTAINS(said, i > 3 ? "refused (stopped)" : "refused (left-behind)");
			CHECK_CONTAINS(said, "virgate recover --pid");
		}
		CHECK_INT(run("recover --pid %d", (int)subject.pid), 0);
		CHECK_CONTAINS(said, i > 1 ? "runs again" : "ran already");
		check_goes_on(path_of(rounds));
		CHECK_INT(run("recover --pid %d --json", (int)subject.pid), 0);
		CHECK_CONTAINS(said, "\"held_back\": 0");
		end_subject(subject);
	}
}

TEST(a_process_that_ends_in_the_midst_leaves_no_image)
{
	standin();
	for (int i = 0; i < COMMITTED; i++) {
		char rounds[32];
		snprintf(rounds, sizeof rounds, "end%d", i);
		struct subject subject = start_subject(path_of(rounds));
		check_goes_on(path_of(rounds));
		// What was written down already needs nobody any more.
		bool written = strcmp(steps[i], "commit") == 0;
		CHECK_INT(coordinate("dump", subject.pid, path_of("ended"), steps[i], "end"), written ? 0 : 1);
		CHECK(written ? image_stands("ended") : nothing_there("ended"));
		if (!written)
			CHECK_CONTAINS(said, i ? "ended meanwhile" : "there is none");
		waitpid(subject.guard, NULL, 0);
	}
}

// What is left of a dump is taken back by the process that watches over it, here with the CRIU that kills its starter.
TEST(a_dump_that_is_killed_is_taken_back_by_its_guard)
{
	standin();
	write_text("fail", "kill-starter\n");
	struct subject subject = start_subject(path_of("guarded"));

	check_goes_on(path_of("guarded"));
	CHECK_INT(run("dump --pid %d --dir %s", (int)subject.pid, path_of("shot")), 128 + SIGKILL);
	CHECK_CONTAINS(said, "the dump was killed");
	CHECK_CONTAINS(said, "runs on, as before");
	CHECK(!image_stands("shot"));
	check_goes_on(path_of("guarded"));
	end_subject(subject);
}
