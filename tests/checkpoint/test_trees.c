// Trees, threads and what CRIU refuses: with the CRIU of this machine.
#include "checkpoint_test.h"

// Five times, with all that one process can have; it looks at its memory in every round.
TEST(a_process_with_threads_and_children_comes_back_five_times)
{
	need_criu();
	struct subject subject = start_subject_with(path_of("many"), "threads child zombie cuda-child");

	check_goes_on(path_of("many"));
	check_goes_on(path_of("many.child"));
	for (int i = 0; i < 5; i++) {
		char name[32];
		snprintf(name, sizeof name, "many%d", i);
		if (run("dump --pid %d --dir %s --json", (int)subject.pid, path_of(name)))
			FAIL("dump %d: %s", i, said);
		CHECK_CONTAINS(said, "\"cuda_processes\": 2");
		wait_gone(subject.pid);
		if (run("restore --detach --dir %s", path_of(name)))
			FAIL("restore %d: %s", i, said);
		check_goes_on(path_of("many"));
		check_goes_on(path_of("many.child"));
	}
	int status;
	CHECK_INT(kill(subject.pid, SIGTERM), 0);
	CHECK_INT(waitpid(subject.pid, &status, 0), subject.pid); // whose parent CRIU was
	CHECK_INT(status, 0);
	kill(-subject.pid, SIGKILL);
	wait_gone(subject.pid);
	char log[4096];
	CHECK_INT(vg_file_read(path_of("many.log"), log, sizeof log), 0);
	waitpid(subject.guard, NULL, 0);
}

// The one between uses no CUDA.
TEST(a_tree_of_three_comes_back)
{
	need_criu();
	struct subject subject = start_subject_with(path_of("three"), "three");

	check_goes_on(path_of("three"));
	check_goes_on(path_of("three.child"));
	CHECK_INT(run("dump --pid %d --dir %s --json", (int)subject.pid, path_of("tree")), 0);
	CHECK_CONTAINS(said, "\"processes\": 3");
	CHECK_CONTAINS(said, "\"cuda_processes\": 2");
	wait_gone(subject.pid);
	if (run("restore --detach --dir %s", path_of("tree")))
		FAIL("restore: %s", said);
	check_goes_on(path_of("three"));
	check_goes_on(path_of("three.child"));
	end_subject(subject);
}

// In words, with what to do; and the process runs on.
TEST(what_criu_refuses_is_said)
{
	need_criu();
	struct subject subject = start_subject_with(path_of("socket"), "socket");

	check_goes_on(path_of("socket"));
	CHECK_INT(run("dump --pid %d --dir %s", (int)subject.pid, path_of("socketed")), 1);
	CHECK_CONTAINS(said, "step host-out");
	CHECK_CONTAINS(said, "a unix socket is connected to a process outside of what is dumped");
	CHECK_CONTAINS(said, "run on as before");
	check_goes_on(path_of("socket"));
	end_subject(subject);
}
