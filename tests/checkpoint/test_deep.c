// Tests suspend --deep. After a program's memory has moved, the driver takes the program off the GPU, and resume
// returns it. That must work whichever process is killed meanwhile.
#include <stdatomic.h>

#include "evictable_test.h"
#include "pager/page.h"

static void check_stands_still(const struct program *program)
{
	unsigned round = report_of(program).round;

	usleep(100000);
	CHECK(report_of(program).round <= round + 1);
}

// Runs the coordinator, which suspends or resumes, and does `what` when the phase begins.
static int move_at(const char *verb, const char *vgpu, const char *phase, const char *what)
{
	return run_command("VIRGATE_LIBDIR=%s exec %s %s 0 %s %s %s 2>&1", BUILD, COORDINATOR, verb, vgpu, phase, what);
}

// ---- suspend and resume ----------------------------------------------------------------------------------

TEST(deep_suspension_and_resume_keep_a_program)
{
	prepare(false);
	struct program program = start_evictable("deep", "");
	struct vg_ledger_tenant before = place_of("deep", program.pid);

	for (int i = 0; i < 3; i++) {
		if (i == 1)
			// Suspend the vGPU without --deep first, so that its memory is in the host already.
			must("suspend deep");
		must("suspend deep --deep");
		CHECK_CONTAINS(said, i == 1 ? "64.0 MiB, in the host already; taken off the GPU by the driver in "
					    : "64.0 MiB to the host in 0.");
		CHECK_CONTAINS(said, "; taken off the GPU by the driver in ");
		CHECK_STR(field_of("deep", program.pid, "deep"), "done");
		wait_for_field("deep", program.pid, "physical",
			       // The daemon caches what NVML reports, so it may list memory on the GPU for a moment.
			       "0");
		CHECK_STR(field_of("deep", program.pid, "state"), "suspended");
		must("ps deep");
		CHECK_CONTAINS(said, "suspended, deep");
		check_stands_still(&program);
		// All memory stays charged.
		CHECK_INT(place_of("deep", program.pid).used, before.used);
		must("resume deep");
		CHECK_CONTAINS(said, "64.0 MiB to the GPU in 0.");
		CHECK_CONTAINS(said, "; brought back by the driver\n");
		CHECK_STR(field_of("deep", program.pid, "deep"), "null");
		check_looks_on(&program);
		CHECK_INT(place_of("deep", program.pid).used, before.used);
	}
	check_quota(&program);
	end(&program);
}

TEST(one_process_is_suspended_deep)
{
	prepare(false);
	struct program first = start_evictable("pair", ""), second = start("pair", "pair.second", "32", "16", "512");

	CHECK_RUN("suspend --pid %d --deep", (int)first.pid);
	CHECK_STR(field_of("pair", first.pid, "deep"), "done");
	CHECK_STR(field_of("pair", second.pid, "deep"), "null");
	check_stands_still(&first);
	check_looks_on(&second);
	// One process is suspended already; this command suspends the other process of the vGPU, too.
	must("suspend pair --deep");
	CHECK_STR(field_of("pair", second.pid, "deep"), "done");
	CHECK_INT(run("resume --pid %d", (int)first.pid), 1);
	CHECK_CONTAINS(said, "cannot be resumed alone");
	CHECK_STR(field_of("pair", first.pid, "deep"), "done");
	must("resume pair");
	check_looks_on(&first);
	check_looks_on(&second);
	CHECK_RUN("suspend --pid %d --deep", (int)second.pid);
	CHECK_RUN("resume --pid %d", (int)second.pid);
	check_looks_on(&second);
	end(&first);
	end(&second);
}

TEST(the_driver_moves_memory_that_is_not_evictable)
{
	prepare(false);
	create_vgpu("plain", "256M");
	struct program program = start("plain", "plain", "64", "32", "512");
	struct vg_ledger_tenant before = place_of("plain", program.pid);

	CHECK_INT(run("suspend plain"), 1);
	CHECK_CONTAINS(said, "is not evictable");
	CHECK_CONTAINS(said, "--deep");
	must("suspend plain --deep");
	CHECK_CONTAINS(said, "vGPU plain is not evictable: the driver moves all of its memory, which is slower");
	CHECK_CONTAINS(said, "; taken off the GPU by the driver in ");
	CHECK_STR(field_of("plain", program.pid, "deep"), "done");
	wait_for_field("plain", program.pid, "physical", "0");
	must("ps plain");
	CHECK_CONTAINS(said, "suspended, deep");
	check_stands_still(&program);
	CHECK_INT(place_of("plain", program.pid).used, before.used);
	CHECK_INT(run("suspend plain --deep"), 1);
	CHECK_CONTAINS(said, "vGPU plain is suspended with --deep already");
	CHECK_RUN("resume --pid %d", (int)program.pid);
	check_looks_on(&program);
	CHECK_STR(field_of("plain", program.pid, "deep"), "null");
	CHECK_INT(run("resume plain"), 1);
	end(&program);
	CHECK_INT(run("suspend plain --deep"), 1);
	CHECK_CONTAINS(said, "no process runs in vGPU plain");
}

// The driver must not copy the memory that the pager has already moved.
TEST(the_driver_moves_nothing_twice)
{
	char log[PATH_MAX + 8], *text = malloc(1 << 20);

	prepare(false);
	setenv("VIRGATE_SIM_LOG", "1", 1);
	must("create once --memory 256M --evictable");
	struct program program = start("once", "once", "64", "32", "512");
	unsetenv("VIRGATE_SIM_LOG");
	must("suspend once --deep");
	snprintf(log, sizeof log, "%s.log", program.file);
	CHECK(vg_file_read(log, text, 1 << 20) > 0);
	CHECK_CONTAINS(text, "checkpoint: copied 0 bytes of device memory");
	free(text);
	must("resume once");
	check_looks_on(&program);
	end(&program);
}

// Lists the mappings of the process's host memory, and the files behind them.
static void read_host_memory(pid_t pid, char text[4096])
{
	char path[64], line[512];
	size_t length = 0;

	snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
	FILE *maps = fopen(path, "re");
	CHECK(maps != NULL);
	*text = '\0';
	while (fgets(line, sizeof line, maps))
		if (strstr(line, PAGER_FILE_DIRECTORY "/") && length + strlen(line) < 4096)
			length += (size_t)sprintf(text + length, "%s", line);
	fclose(maps);
}

// The host memory stays mapped and pinned, so only changed blocks are copied the next time.
TEST(the_host_memory_stays_in_place)
{
	char before[4096], now[4096];

	prepare(false);
	must("create place --memory 256M --evictable");
	setenv("VIRGATE_SIM_HASH", "1", 1);
	struct program program = start("place", "place", "8", "4", "512");
	unsetenv("VIRGATE_SIM_HASH");
	must("suspend place");
	read_host_memory(program.pid, before);
	CHECK_CONTAINS(before, "(deleted)"); // the kernel shows "(deleted)", because the file has no name
	for (int i = 0; i < 3; i++) {
		must("resume place");
		check_looks_on(&program);
		must("suspend place --deep");
		CHECK_STR(field_of("place", program.pid, "deep"), "done");
		CHECK_STR(field_of("place", program.pid, "unchanged"), "8388608");
		read_host_memory(program.pid, now);
		CHECK_STR(now, before);
	}
	must("resume place");
	check_looks_on(&program);
	read_host_memory(program.pid, now);
	CHECK_STR(now, before);
	end(&program);
}

// ---- refusals --------------------------------------------------------------------------------------------

TEST(a_suspended_program_is_neither_suspended_again_nor_dumped)
{
	prepare(false);
	struct program program = start_evictable("twice", "");

	must("suspend twice --deep");
	CHECK_INT(run("suspend twice --deep"), 1);
	CHECK_CONTAINS(said, "vGPU twice is suspended with --deep already");
	CHECK_INT(run("suspend twice"), 1);
	CHECK_CONTAINS(said, "suspended already");
	CHECK_INT(run("dump --vgpu twice --dir %s", path_of("twice.image")), 1);
	CHECK_CONTAINS(said, "refused (suspended): process");
	CHECK_CONTAINS(said, "suspended with --deep");
	CHECK_CONTAINS(said, "virgate resume");
	CHECK_STR(field_of("twice", program.pid, "deep"), "done");
	must("resume twice");
	CHECK_INT(run("resume twice"), 1);
	CHECK_CONTAINS(said, "is not suspended");
	check_looks_on(&program);
	end(&program);
}

// The doctor reports processes that a command has left suspended. One that the user has suspended is not reported.
// Other tests may leave processes meanwhile.
TEST(doctor_does_not_report_suspended_programs)
{
	char pid[32];

	prepare(false);
	struct program program = start_evictable("healthy", "");
	snprintf(pid, sizeof pid, "is %d:", (int)program.pid);
	must("suspend healthy --deep");
	CHECK(run("doctor cuda") <= 1);
	CHECK(!strstr(said, pid));
	end(&program);
}

TEST(a_program_that_is_dumped_is_not_suspended_deep)
{
	prepare(false);
	struct program program = start_evictable("busy", "");

	setenv("COORDINATED", VIRGATE " suspend busy --deep >\"$STANDIN/busy.said\" 2>&1", 1);
	CHECK_INT(coordinate("dump", program.pid, path_of("busy.image"), "lock", "run"), 0);
	CHECK_CONTAINS(text_of("busy.said"), "refused (in-use): process");
	await_end(program.pid);
	waitpid(program.run, NULL, 0);
}

TEST(a_stopped_program_is_refused)
{
	prepare(false);
	struct program program = start_evictable("halt", "");

	kill(program.pid, SIGSTOP);
	await_stopped(program.pid);
	CHECK_INT(run("suspend halt --deep"), 1);
	CHECK_CONTAINS(said, "refused (stopped): process");
	CHECK_STR(field_of("halt", program.pid, "deep"), "null");
	// The process has not received the request to suspend.
	CHECK_STR(field_of("halt", program.pid, "state"), "running");
	kill(program.pid, SIGCONT);
	check_looks_on(&program);
	end(&program);
}

TEST(a_full_gpu_is_reported_before_the_driver_is_called)
{
	prepare(false);
	struct program program = start_evictable("room", "");
	must("suspend room --deep");
	struct program other = fill_device();
	CHECK_INT(run("resume room"), 1);
	CHECK_CONTAINS(said, "refused (device-memory): GPU-");
	CHECK_CONTAINS(said, " free, and the processes of vGPU room need ");
	CHECK_STR(field_of("room", program.pid, "deep"), "done");
	kill(other.run, SIGKILL);
	waitpid(other.run, NULL, 0);
	must("resume room");
	check_looks_on(&program);
	end(&program);
}

// ---- failures and killed commands --------------------------------------------------------------------------

static const char *const phases[] = {"find", "evict", "lock", "device-out"};
enum { PHASES = sizeof phases / sizeof *phases };

TEST(a_suspension_that_is_stopped_or_killed_leaves_the_program_whole)
{
	prepare(false);
	struct program program = start_evictable("torn", "");

	for (int i = 0; i < PHASES; i++) {
		CHECK_INT(move_at("deep", "torn", phases[i], "stop"), 1);
		CHECK_STR(field_of("torn", program.pid, "deep"), "null");
		if (i > 1)
			// The failed command did not withdraw the request to suspend.
			must("resume torn");
		check_looks_on(&program);
		CHECK_INT(move_at("deep", "torn", phases[i], "kill"), -SIGKILL);
		if (i > 1)
			CHECK_STR(field_of("torn", program.pid, "deep"), "begun");
		if (i > 1)
			must("resume torn");
		check_looks_on(&program);
		CHECK_STR(field_of("torn", program.pid, "deep"), "null");
	}
	end(&program);
}

TEST(recover_restores_the_state_of_a_program)
{
	prepare(false);
	struct program program = start_evictable("saved", "");

	CHECK_INT(move_at("deep", "saved", "device-out", "kill"), -SIGKILL);
	CHECK_RUN("recover --pid %d", (int)program.pid);
	CHECK_STR(field_of("saved", program.pid, "deep"), "null");
	wait_for_field("saved", program.pid, "state", "suspended");
	must("resume saved");
	check_looks_on(&program);
	must("suspend saved --deep");
	CHECK_RUN("recover --pid %d", (int)program.pid);
	wait_for_field("saved", program.pid, "state", "suspended");
	must("resume saved");
	check_looks_on(&program);
	end(&program);
}

TEST(a_resumption_that_is_killed_is_repeated)
{
	prepare(false);
	struct program program = start_evictable("again", "");

	for (int i = 0; i < 2; i++) {
		must("suspend again --deep");
		CHECK_INT(move_at("resume", "again", i ? "device-in" : "find", "kill"), -SIGKILL);
		must("resume again");
		check_looks_on(&program);
	}
	end(&program);
}

// Kills a command. Its guard process must then roll back, as `resume` and `recover` do.
TEST(the_guard_rolls_back_a_killed_suspension)
{
	struct program program;

	prepare(false);
	// The driver's lock waits for an endless kernel, which leaves time to kill the command.
	create_vgpu("guarded", "256M");
	pid_t launcher, pid = start_in_vgpu("guarded", path_of("guarded"), "endless", &launcher);
	program = (struct program){.pid = pid};
	fflush(stdout);
	pid_t verb = fork();
	if (verb == 0) {
		dup2(open(path_of("guarded.said"), O_CREAT | O_WRONLY | O_TRUNC, 0600), 2);
		execl("/bin/sh", "sh", "-c", "exec \"$0\" suspend guarded --deep --drain 60", VIRGATE, (char *)NULL);
		_exit(127);
	}
	wait_for_field("guarded", program.pid, "deep", "begun");
	usleep(200000);
	kill(verb, SIGKILL);
	waitpid(verb, NULL, 0);
	write_text("guarded.go", "");
	wait_for_field("guarded", program.pid, "deep", "null");
	check_goes_on(path_of("guarded"));
	kill(pid, SIGKILL);
	waitpid(launcher, NULL, 0);
}

TEST(a_program_that_is_killed_leaves_nothing)
{
	prepare(false);
	for (int i = 0; i < 2; i++) {
		struct program program = start_evictable(i ? "dies1" : "dies0", "");
		if (i)
			must("suspend dies1 --deep");
		else
			must("suspend dies0");
		end(&program);
		check_charged(i ? "dies1" : "dies0", 0);
		must(i ? "resume dies1" : "resume dies0");
	}
}

// Runs a command that kills the program or the daemon when a step begins.
static int run_at(const char *verb, const char *vgpu, const char *phase, const char *command)
{
	setenv("COORDINATED", command, 1);
	int result = move_at(verb, vgpu, phase, "run");
	unsetenv("COORDINATED");
	if (result != 0 && result != 1)
		FAIL("%s at %s: %d: %s", verb, phase, result, said);
	return result;
}

TEST(a_program_that_is_killed_at_any_step_leaves_nothing)
{
	static const char *const returning[] = {"find", "device-in"};
	char name[32], command[64];

	prepare(false);
	for (int i = 0; i < PHASES + 2; i++) {
		snprintf(name, sizeof name, "dying%d", i);
		struct program program = start_evictable(name, "");
		snprintf(command, sizeof command, "kill -9 %d", (int)program.pid);
		if (i < PHASES) {
			run_at("deep", name, phases[i], command);
		} else {
			CHECK_RUN("suspend %s --deep", name);
			run_at("resume", name, returning[i - PHASES], command);
		}
		await_end(program.pid);
		waitpid(program.run, NULL, 0);
		check_charged(name, 0);
		CHECK_INT(count_files(program.pid), 0);
	}
}

TEST(a_daemon_that_is_killed_at_any_step_does_no_harm)
{
	static const char kill_daemon[] = "kill -9 $(cat \"$VIRGATE_RUNTIME_DIR\"/lock)";

	prepare(false);
	struct program program = start_evictable("orphan", "");
	for (int i = 0; i < PHASES; i++) {
		bool is_done = run_at("deep", "orphan", phases[i], kill_daemon) == 0;
		must("ps"); // starts another daemon
		if (is_done)
			CHECK_STR(field_of("orphan", program.pid, "deep"), "done");
		// The failed command may have left the process unsuspended. Then there is nothing to resume.
		run("resume orphan");
		CHECK_STR(field_of("orphan", program.pid, "deep"), "null");
		check_looks_on(&program);
	}
	for (int i = 0; i < 2; i++) {
		must("suspend orphan --deep");
		run_at("resume", "orphan", i ? "device-in" : "find", kill_daemon);
		must("ps");
		run("resume orphan");
		CHECK_STR(field_of("orphan", program.pid, "deep"), "null");
		check_looks_on(&program);
	}
	end(&program);
}

TEST(a_daemon_that_is_killed_meanwhile_does_no_harm)
{
	char command[PATH_MAX + 64];

	prepare(false);
	struct program program = start_evictable("alone", "");
	must("suspend alone --deep");
	snprintf(command, sizeof command, "kill -9 $(cat %s/run/lock)", directory);
	CHECK_INT(system(command), 0);
	CHECK_STR(field_of("alone", program.pid, "deep"), "done"); // starts another daemon
	must("resume alone");
	check_looks_on(&program);
	end(&program);
}

// ---- several at once -------------------------------------------------------------------------------------------

TEST(many_cycles_lose_nothing)
{
	prepare(false);
	struct program program = start_evictable("cycles", "");
	uint64_t used = place_of("cycles", program.pid).used;

	for (int i = 0; i < 20; i++) {
		must("suspend cycles --deep");
		must("resume cycles");
	}
	check_looks_on(&program);
	CHECK_INT(place_of("cycles", program.pid).used, used);
	end(&program);
}

// ---- ranks of NCCL jobs --------------------------------------------------------------------------------------

TEST(suspending_one_rank_of_a_job_warns)
{
	prepare(false);
	must("create rank --memory 256M --evictable");
	setenv("WORLD_SIZE", "2", 1);
	setenv("TENANT_MAPS", path_of("libnccl.so.2"), 1);
	write_text("libnccl.so.2", "not a library");
	struct program program = start("rank", "rank", "64", "32", "512");
	unsetenv("WORLD_SIZE");
	must("suspend rank");
	CHECK_CONTAINS(said, "is a rank of a NCCL job: it has 2 ranks, and 1 of them is suspended");
	must("resume rank");
	CHECK(!strstr(said, "NCCL"));
	setenv("WORLD_SIZE", "2", 1);
	struct program second = start("rank", "rank.second", "32", "16", "512");
	unsetenv("WORLD_SIZE");
	// Both processes are suspended.
	must("suspend rank");
	CHECK(!strstr(said, "NCCL"));
	must("resume rank");
	CHECK_RUN("suspend --pid %d --deep", (int)second.pid);
	CHECK_CONTAINS(said, "is a rank of a NCCL job: it has 2 ranks, and 1 of them is suspended");
	must("resume rank");
	end(&second);
	end(&program);
	// The NCCL library alone causes no warning, since every PyTorch program has it.
	program = start("rank", "rank", "64", "32", "512");
	must("suspend rank");
	CHECK(!strstr(said, "NCCL"));
	must("resume rank");
	unsetenv("TENANT_MAPS");
	end(&program);
}

TEST(ranks_with_common_memory_warn)
{
	char shared[64], text[64];

	prepare(false);
	must("create first --memory 128M --evictable");
	must("create second --memory 128M --evictable");
	snprintf(shared, sizeof shared, "/dev/shm/nccl-test%d", (int)getpid());
	int fd = open(shared, O_CREAT | O_WRONLY | O_TRUNC, 0600);
	CHECK_INT(write(fd, "x", 1), 1);
	close(fd);
	setenv("TENANT_MAPS", shared, 1);
	struct program one = start("first", "first", "32", "16", "512"),
		       two = start("second", "second", "32", "16", "512");
	unsetenv("TENANT_MAPS");
	unlink(shared);
	must("suspend first");
	snprintf(text, sizeof text, "is a rank of a NCCL job: process %d is another one", (int)two.pid);
	CHECK_CONTAINS(said, text);
	must("resume first");
	// Suspension is refused, since the memory that the processes share would be lost.
	CHECK_INT(run("suspend first --deep"), 1);
	CHECK_CONTAINS(said, "refused (cuda-ipc)");
	end(&one);
	end(&two);
}

TEST(zz_shut_down_the_daemon)
{
	prepare(false);
	run("shutdown");
}
