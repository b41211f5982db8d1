// The whole life of an image, with the CRIU of this machine: out, gone, back, and nobody noticed.
#include "checkpoint_test.h"

static void need_criu(void)
{
	CHECK(run("doctor cuda --json") <= 1);
	const char *criu = strstr(said, "\"name\": \"CRIU\"");
	CHECK(criu != NULL);
	const char *status = strstr(criu, "\"status\": ");
	CHECK(status != NULL);
	if (strncmp(status, "\"status\": \"ok\"", 14) != 0)
		SKIP("no CRIU that is new enough for this kernel: install one, or name it in VIRGATE_CRIU");
	if (geteuid() != 0)
		SKIP("CRIU needs rights that this user has not");
}

TEST(a_process_comes_back_again_and_again)
{
	need_criu();
	struct subject subject = start_subject(path_of("rounds"));
	uint32_t round = 0;

	check_goes_on(path_of("rounds"));
	for (int i = 0; i < 3; i++) {
		char name[32];
		snprintf(name, sizeof name, "image%d", i);
		CHECK_INT(run("dump --pid %d --dir %s", (int)subject.pid, path_of(name)), 0);
		wait_gone(subject.pid);
		CHECK(round_of(path_of("rounds")) > round);
		round = round_of(path_of("rounds"));
		int r = run("restore --dir %s", path_of(name));
		if (r)
			FAIL("restore %d: %s", i, said);
		check_goes_on(path_of("rounds"));
	}
	// It looked at its memory in every round, and ends as it is told to.
	CHECK_INT(kill(subject.pid, SIGTERM), 0);
	wait_gone(subject.pid);
	char log[4096];
	CHECK_INT(vg_file_read(path_of("rounds.log"), log, sizeof log), 0);
	waitpid(subject.guard, NULL, 0);
}

TEST(a_process_that_ran_on_can_be_dumped_again)
{
	need_criu();
	struct subject subject = start_subject(path_of("rounds2"));

	check_goes_on(path_of("rounds2"));
	CHECK_INT(run("dump --pid %d --dir %s --leave-running", (int)subject.pid, path_of("first")), 0);
	check_goes_on(path_of("rounds2"));
	CHECK_INT(run("dump --pid %d --dir %s", (int)subject.pid, path_of("second")), 0);
	wait_gone(subject.pid);
	CHECK_INT(run("restore --dir %s", path_of("second")), 0);
	check_goes_on(path_of("rounds2"));
	end_subject(subject);
}
