// Makes every step of a dump fail once, in each possible way. The process must run on unchanged or be recoverable, and
// the image must be complete or absent.
#include "checkpoint_test.h"

static const char *const steps[] = {"find", "lock", "device-out", "host-out", "commit", "end"};
enum { STEPS = 6, COMMITTED = 5 };

static void standin(void)
{
	setenv("VIRGATE_CRIU", STANDIN_PROGRAM, 1);
	setenv("VIRGATE_LIBDIR", BUILD, 1);
	unlink(path_of("fail"));
}

// Runs the coordinator. Returns its exit code, or minus the signal that ended it; `said` has its output.
static int coordinate(const char *verb, pid_t pid, const char *dir, const char *phase, const char *what)
{
	return run_command("exec %s %s %d %s %s %s 2>&1", COORDINATOR, verb, (int)pid, dir, phase, what);
}

static bool image_stands(const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/virgate.json", path_of(name));
	return access(path, F_OK) == 0;
}

// Returns whether neither the image nor a draft of it exists.
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

TEST(a_dump_can_be_stopped_before_each_step_up_to_the_commit)
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
	// The image is complete now, so the request to stop comes too late.
	CHECK_INT(coordinate("dump", subject.pid, path_of("late"), "end", "stop"), 0);
	CHECK(image_stands("late"));
	end_subject(subject);
}

TEST(recover_works_after_a_dump_is_killed_at_any_step)
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
		// The process is stopped from step host-out on.
		CHECK_INT(state_of(subject.pid) == 'T', i > 3);
		// The next dump of a process that is left stopped must say what to do.
		if (i > 1) {
			CHECK_INT(run("dump --pid %d --dir %s", (int)subject.pid, path_of("again")), 1);
			CHECK_CONTAINS(said, i > 3 ? "refused (stopped)" : "refused (left-behind)");
			CHECK_CONTAINS(said, "virgate recover --sim --pid");
			CHECK(run("doctor cuda") <= 1);
			CHECK_CONTAINS(said, "virgate recover --sim --pid");
		}
		CHECK_RUN("recover --pid %d", (int)subject.pid);
		CHECK_CONTAINS(said, i > 1 ? "runs again" : "was running already");
		check_goes_on(path_of(rounds));
		CHECK_RUN("recover --pid %d --json", (int)subject.pid);
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
		// After the last step the image is complete, and the processes are not needed any more.
		bool written = strcmp(steps[i], "commit") == 0;
		CHECK_INT(coordinate("dump", subject.pid, path_of("ended"), steps[i], "end"), written ? 0 : 1);
		CHECK(written ? image_stands("ended") : nothing_there("ended"));
		if (!written)
			CHECK_CONTAINS(said, i ? "ended meanwhile" : "there is none");
		waitpid(subject.guard, NULL, 0);
	}
}

// Tests a CRIU that exits with 0 but has not written its files. The dump must not end any process.
TEST(no_process_ends_for_an_image_that_is_not_whole)
{
	static const char *const lacks[][2] = {{"no-core\nno-pstree\nno-inventory\n", "core-"},
					       {"no-core\n", "core-"},
					       {"no-pstree\n", "pstree.img"},
					       {"no-inventory\n", "inventory.img"},
					       {"empty-pstree\n", "pstree.img"}};

	standin();
	struct subject subject = start_subject(path_of("lacking"));
	for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++) {
		check_goes_on(path_of("lacking"));
		write_text("fail", lacks[i][0]);
		CHECK_INT(run("dump --pid %d --dir %s", (int)subject.pid, path_of("hollow")), 1);
		CHECK_CONTAINS(said, lacks[i][1]);
		CHECK_CONTAINS(said, "the processes run on as before");
		CHECK(nothing_there("hollow"));
	}
	check_goes_on(path_of("lacking"));
	end_subject(subject);
}

TEST(another_program_is_not_taken_for_criu)
{
	standin();
	write_text("other", "#!/bin/sh\necho 'true (GNU coreutils) 9.1'\n");
	CHECK_INT(chmod(path_of("other"), 0755), 0);
	setenv("VIRGATE_CRIU", path_of("other"), 1);
	struct subject subject = start_subject(path_of("other.rounds"));

	check_goes_on(path_of("other.rounds"));
	CHECK_INT(run("dump --pid %d --dir %s", (int)subject.pid, path_of("others")), 1);
	CHECK_CONTAINS(said, "is not CRIU");
	CHECK_CONTAINS(said, "VIRGATE_CRIU");
	CHECK(nothing_there("others."));
	check_goes_on(path_of("other.rounds"));
	end_subject(subject);
}

// Kills a dump. Its guard process must then roll back. Here, CRIU kills its parent, the dump.
TEST(the_guard_rolls_back_a_killed_dump)
{
	standin();
	write_text("fail", "kill-starter\n");
	struct subject subject = start_subject(path_of("guarded"));

	check_goes_on(path_of("guarded"));
	CHECK_INT(run("dump --pid %d --dir %s", (int)subject.pid, path_of("shot")), 128 + SIGKILL);
	CHECK_CONTAINS(said, "the dump was killed");
	CHECK_CONTAINS(said, " continues");
	CHECK(!image_stands("shot"));
	check_goes_on(path_of("guarded"));
	end_subject(subject);
}

// ---- the driver's faults -----------------------------------------------------------------------------------

static int run_with(const char *fault, const char *format, int pid, const char *dir)
{
	setenv("VIRGATE_SIM_FAULT", fault, 1);
	char words[PATH_MAX + 64];
	snprintf(words, sizeof words, format, pid, dir);
	int r = run("%s", words);
	unsetenv("VIRGATE_SIM_FAULT");
	return r;
}

TEST(each_call_of_the_driver_fails_once_and_the_process_runs_on)
{
	static const struct {
		const char *fault, *criu, *says, *code;
	} cases[] = {
		{"cuCheckpointProcessGetState:1=CUDA_ERROR_UNKNOWN", "", "is unknown", "CUDA_ERROR_UNKNOWN"},
		{"cuCheckpointProcessLock:1=CUDA_ERROR_UNKNOWN", "", "step lock", "CUDA_ERROR_UNKNOWN"},
		{"cuCheckpointProcessLock:1=CUDA_ERROR_NOT_READY", "", "was still busy after 10000 ms", "step lock"},
		{"cuCheckpointProcessLock:1=CUDA_ERROR_NOT_SUPPORTED", "", "refused (mps)", "CUDA_ERROR_NOT_SUPPORTED"},
		{"cuCheckpointProcessCheckpoint:1=CUDA_ERROR_OUT_OF_MEMORY", "", "step device-out",
		 "CUDA_ERROR_OUT_OF_MEMORY"},
		{"cuCheckpointProcessCheckpoint:1=CUDA_ERROR_ILLEGAL_STATE", "", "step device-out",
		 "is locked, not locked"},
		// In the next cases, CRIU fails, and one driver call of the rollback fails, too. The calls move the
		// memory to the GPU, read the process's state, and unlock the process.
		{"cuCheckpointProcessRestore:1=CUDA_ERROR_OUT_OF_MEMORY", "dump\n", "step host-out", "told to fail"},
		{"cuCheckpointProcessGetState:2-3=CUDA_ERROR_UNKNOWN", "dump\n", "step host-out", "told to fail"},
		{"cuCheckpointProcessUnlock:1=CUDA_ERROR_UNKNOWN", "dump\n", "step host-out", "told to fail"},
	};

	standin();
	struct subject subject = start_subject(path_of("driver"));
	check_goes_on(path_of("driver"));
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		write_text("fail", cases[i].criu);
		if (run_with(cases[i].fault, "dump --pid %d --dir %s", (int)subject.pid, path_of("faulty")) != 1)
			FAIL("%s: %s", cases[i].fault, said);
		CHECK_CONTAINS(said, cases[i].says);
		CHECK_CONTAINS(said, cases[i].code);
		if (strstr(said, "step "))
			CHECK_CONTAINS(said, "run on as before");
		CHECK(nothing_there("faulty"));
		check_goes_on(path_of("driver"));
	}
	end_subject(subject);
}

TEST(a_failed_roll_back_reports_states_and_can_be_repeated)
{
	standin();
	write_text("fail", "dump\n");
	struct subject subject = start_subject(path_of("back"));

	check_goes_on(path_of("back"));
	CHECK_INT(run_with("cuCheckpointProcessRestore=CUDA_ERROR_OUT_OF_MEMORY", "dump --pid %d --dir %s",
			   (int)subject.pid, path_of("stuck")),
		  1);
	CHECK_CONTAINS(said, "told to fail");
	CHECK_CONTAINS(said, "could not be resumed");
	CHECK_CONTAINS(said, "CUDA_ERROR_OUT_OF_MEMORY");
	CHECK_CONTAINS(said, "is checkpointed");
	CHECK_CONTAINS(said, "virgate recover --sim --pid");
	CHECK(nothing_there("stuck"));
	CHECK_RUN("recover --pid %d", (int)subject.pid);
	check_goes_on(path_of("back"));
	end_subject(subject);
}

// Tests the message after the driver has given a process up. It must not advise to try again.
TEST(a_process_that_the_driver_has_given_up_can_only_be_ended)
{
	standin();
	setenv("VIRGATE_SIM", "giveup=1", 1);
	struct subject subject = start_subject(path_of("given-up"));
	setenv("VIRGATE_SIM", "1", 1);

	check_goes_on(path_of("given-up"));
	CHECK_INT(run("dump --pid %d --dir %s", (int)subject.pid, path_of("never")), 1);
	CHECK_CONTAINS(said, "step device-out");
	CHECK_CONTAINS(said, "could not be resumed");
	CHECK(nothing_there("never"));
	CHECK_INT(run("dump --pid %d --dir %s", (int)subject.pid, path_of("never")), 1);
	CHECK_CONTAINS(said, "refused (failed): the driver has given process ");
	CHECK_CONTAINS(said, "it can only be ended");
	CHECK(nothing_there("never"));
	CHECK_INT(run("recover --pid %d", (int)subject.pid), 1);
	CHECK_CONTAINS(said, "is failed, not running: the driver has given it up, and it can only be ended");
	// The doctor names only the first such process on the machine, and that process may belong to another test. So
	// any pid is accepted.
	static const char advice[] = ": failed; end it, for the driver has given it up: kill -9 ";
	for (int i = 0; i < 100 && !strstr(said, advice); i++, usleep(100000))
		CHECK(run("doctor cuda") <= 1);
	CHECK_CONTAINS(said, advice);
	end_subject(subject);
}

// ---- changes of the process meanwhile ----------------------------------------------------------------------

TEST(the_wait_for_endless_work_has_a_timeout)
{
	standin();
	struct subject subject = start_subject_with(path_of("busy"), "endless");

	check_goes_on(path_of("busy"));
	uint64_t begin = vg_clock_monotonic_ns();
	CHECK_INT(run("dump --pid %d --dir %s --timeout 1", (int)subject.pid, path_of("never")), 1);
	CHECK(vg_clock_monotonic_ns() - begin < UINT64_C(20000000000));
	CHECK_CONTAINS(said, "was still busy after 1000 ms");
	CHECK_CONTAINS(said, "run on as before");
	check_goes_on(path_of("busy"));
	write_text("busy.go", "");
	CHECK_RUN("dump --pid %d --dir %s --leave-running", (int)subject.pid, path_of("quiet"));
	check_goes_on(path_of("busy"));
	end_subject(subject);
}

// The driver completes a lock after its caller was killed. Recovery waits for that lock, and unlocks the process.
TEST(a_dump_killed_during_the_lock_leaves_no_process_locked)
{
	char pid[16];

	standin();
	struct subject subject = start_subject_with(path_of("waits"), "endless");
	check_goes_on(path_of("waits"));
	snprintf(pid, sizeof pid, "%d", (int)subject.pid);
	fflush(stdout);
	pid_t dump = fork();
	if (dump == 0) {
		execl(VIRGATE, VIRGATE, "dump", "--pid", pid, "--dir", path_of("never"), "--timeout", "60",
		      (char *)NULL);
		_exit(127);
	}
	// The CUDA calls of the process wait as soon as the process is locked.
	uint32_t round = 0;
	for (int i = 0; i < 3000 && (round == 0 || round_of(path_of("waits")) != round); i++) {
		round = round_of(path_of("waits"));
		usleep(100000);
	}
	kill(dump, SIGKILL);
	waitpid(dump, NULL, 0);
	write_text("waits.go", "");
	check_goes_on(path_of("waits"));
	end_subject(subject);
}

TEST(a_child_that_is_started_meanwhile_is_noticed)
{
	static const char *const when[] = {"device-out", "host-out"};

	standin();
	for (int i = 0; i < 2; i++) {
		struct subject subject = start_subject(path_of(when[i]));
		check_goes_on(path_of(when[i]));
		CHECK_INT(coordinate("dump", subject.pid, path_of("forked"), when[i], "fork"), 1);
		CHECK_CONTAINS(said, "was started meanwhile");
		CHECK(nothing_there("forked"));
		check_goes_on(path_of(when[i]));
		// The driver manages the forked child, too, by now, so the dump includes it.
		CHECK_INT(run("dump --pid %d --dir %s --leave-running --json", (int)subject.pid,
			      path_of(i ? "with1" : "with0")),
			  0);
		CHECK_CONTAINS(said, "\"processes\": 2");
		end_subject(subject);
	}
}

TEST(a_process_that_becomes_another_program_is_noticed)
{
	static const char *const when[] = {"lock", "device-out", "host-out"};

	standin();
	for (int i = 0; i < 3; i++) {
		char rounds[32];
		snprintf(rounds, sizeof rounds, "exec%d", i);
		struct subject subject = start_subject(path_of(rounds));
		check_goes_on(path_of(rounds));
		CHECK_INT(coordinate("dump", subject.pid, path_of("changed"), when[i], "exec"), 1);
		CHECK_CONTAINS(said, "run on as before");
		CHECK(nothing_there("changed"));
		CHECK(state_of(subject.pid) != 'T');
		end_subject(subject);
	}
}

// ---- ^C -----------------------------------------------------------------------------------------------------

// ^C sends SIGINT to the whole foreground group. CRIU and the guard process ignore the signal, and the current step
// ends first.
TEST(an_interrupt_rolls_back_after_the_current_step)
{
	char pid[16];
	int status;

	standin();
	write_text("fail", "slow\n");
	struct subject subject = start_subject(path_of("interrupted"));
	check_goes_on(path_of("interrupted"));
	snprintf(pid, sizeof pid, "%d", (int)subject.pid);
	fflush(stdout);
	pid_t dump = fork();
	if (dump == 0) {
		setpgid(0, 0);
		execl(VIRGATE, VIRGATE, "dump", "--pid", pid, "--dir", path_of("c"), (char *)NULL);
		_exit(127);
	}
	for (int i = 0; i < 3000 && access(path_of("slow"), F_OK) != 0; i++)
		usleep(10000);
	CHECK_INT(kill(-dump, SIGINT), 0);
	usleep(200000);
	CHECK_INT(waitpid(dump, &status, WNOHANG), 0); // the dump still runs, because CRIU has not ended yet
	unlink(path_of("slow"));
	CHECK_INT(waitpid(dump, &status, 0), dump);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	CHECK(nothing_there("c"));
	check_goes_on(path_of("interrupted"));
	end_subject(subject);
}
