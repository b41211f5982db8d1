// Tests dumps of programs in evictable vGPUs. Their device memory leaves the GPU first, and Virgate itself writes it.
// Tests that need a real CRIU say so; the others use the stand-in.
#include <stdatomic.h>

#include "evictable_test.h"
#include "pager/page.h"

enum { HELD = 64 };

static void await_no_file(pid_t pid)
{
	for (int i = 0; i < 1000 && count_files(pid); i++)
		usleep(10000);
	CHECK_INT(count_files(pid), 0);
}

static json_t *description_of(const char *path)
{
	char name[PATH_MAX + 32];

	snprintf(name, sizeof name, "%s/virgate.json", path);
	json_t *loaded = json_load_file(name, 0, NULL);
	if (!loaded)
		FAIL("%s: no description", path);
	return loaded;
}

// Returns how many bytes of device memory the packs of the image have.
static json_int_t packed_bytes(const char *path)
{
	json_t *text = description_of(path);
	json_int_t bytes = json_integer_value(json_object_get(json_object_get(text, "device"), "bytes"));

	json_decref(text);
	return bytes;
}

static void dump_to(const char *vgpu, const char *name, const char *more)
{
	if (run("dump --vgpu %s --dir %s %s", vgpu, path_of(name), more))
		FAIL("dump to %s: %s", name, said);
}

// ---- contents of images --------------------------------------------------------------------------------

TEST(the_memory_is_in_packs_and_the_program_goes_on)
{
	char names[2][PAGER_FILE_NAME];

	prepare(false);
	struct program program = start_evictable("goes", "");
	struct vg_ledger_tenant before = place_of("goes", program.pid);

	for (int i = 0; i < 3; i++) {
		char name[32];
		snprintf(name, sizeof name, "goes%d", i);
		dump_to("goes", name, "--leave-running --json");
		CHECK_CONTAINS(said, "\"device_bytes\": 67108864");
		CHECK_CONTAINS(said, "\"evict\":");
		CHECK_INT(packed_bytes(path_of(name)), HELD * (json_int_t)MIB);
		CHECK_RUN("image verify %s", path_of(name));
		check_looks_on(&program);
		CHECK_INT(place_of("goes", program.pid).used, before.used);
		wait_for_field("goes", program.pid, "state", "running");
		// The host memory is kept, as after `resume`. The next dump uses the same file.
		CHECK_INT(find_file(program.pid, names[i > 0]), 1);
	}
	CHECK_STR(names[0], names[1]);
	check_quota(&program);
	dump_to("goes", "goes-end", "");
	CHECK_INT(await_run(&program), 75);
	CHECK_INT(count_files(program.pid), 0);
	check_charged("goes", 0);
}

// Tests that the driver copies none of the program's device memory, since Virgate writes it itself.
TEST(the_driver_saves_none_of_it)
{
	prepare(false);
	setenv("VIRGATE_SIM_LOG", "1", 1);
	must("create quiet --memory 256M --evictable");
	struct program program = start("quiet", "quiet", "64", "32", "512");
	unsetenv("VIRGATE_SIM_LOG");
	dump_to("quiet", "quiet.image", "--leave-running");
	char log[PATH_MAX + 8], *text = malloc(1 << 20);
	snprintf(log, sizeof log, "%s.log", program.file);
	CHECK(vg_file_read(log, text, 1 << 20) > 0);
	CHECK_CONTAINS(text, "checkpoint: copied 0 bytes of device memory");
	free(text);
	end(&program);
}

TEST(a_suspended_program_is_dumped_and_stays_suspended)
{
	char pid[32];

	prepare(false);
	struct program program = start_evictable("away", "");
	snprintf(pid, sizeof pid, "--pid %d", (int)program.pid);
	for (int i = 0; i < 2; i++) {
		const char *what = i ? pid : "away";
		CHECK_RUN("suspend %s", what);
		unsigned round = report_of(&program).round;
		for (int k = 0; k < 2; k++) {
			char name[32];
			snprintf(name, sizeof name, "away%d%d", i, k);
			dump_to("away", name, "--leave-running");
			CHECK_INT(packed_bytes(path_of(name)), HELD * (json_int_t)MIB);
			wait_for_field("away", program.pid, "state", "suspended");
		}
		CHECK(report_of(&program).round <= round + 1);
		CHECK_RUN("resume %s", what);
		check_looks_on(&program);
		CHECK_INT(count_files(program.pid), 1);
	}
	CHECK_RUN("suspend away");
	dump_to("away", "away-end", "");
	CHECK_INT(await_run(&program), 75);
	CHECK_INT(count_files(program.pid), 0);
}

// If the host has too little room, the driver moves the memory, as it does for programs that are not evictable.
TEST(the_driver_moves_memory_without_room_in_the_host)
{
	prepare(false);
	struct program program = start_evictable("narrow", "--swap 32M");

	dump_to("narrow", "narrow.image", "--leave-running");
	CHECK_INT(packed_bytes(path_of("narrow.image")), 0);
	check_looks_on(&program);
	dump_to("narrow", "narrow.again", "");
	CHECK_INT(await_run(&program), 75);
}

TEST(compressed_images_have_compressed_packs)
{
	struct stat info;

	prepare(false);
	struct program program = start_evictable("packed", "");
	dump_to("packed", "packed.image", "--compress lz4");
	CHECK_INT(await_run(&program), 75);
	CHECK_INT(stat(path_of("packed.image/device/pack-0000"), &info), 0);
	CHECK(info.st_size < 1 << 20);
	CHECK_RUN("image verify %s", path_of("packed.image"));
}

// ---- bases ---------------------------------------------------------------------------------------------

TEST(unchanged_memory_is_not_written_again)
{
	char base[PATH_MAX], command[2 * PATH_MAX];
	struct stat first, second;

	prepare(false);
	struct program program = start_evictable("chain", "");
	dump_to("chain", "chain0", "--leave-running");
	snprintf(base, sizeof base, "--base %s", path_of("chain0"));
	snprintf(command, sizeof command, "%s --leave-running", base);
	dump_to("chain", "chain1", command);
	// Equal blocks are stored once.
	CHECK_CONTAINS(said, "2.0 MiB of device memory in common with the base images");
	CHECK_INT(stat(path_of("chain0/device/pack-0000"), &first), 0);
	CHECK_INT(stat(path_of("chain1/device/pack-0000"), &second), 0);
	CHECK_INT(first.st_ino, second.st_ino);
	CHECK(access(path_of("chain1/device/pack-0001"), F_OK) < 0);
	// Each image is complete on its own: remove the first one.
	snprintf(command, sizeof command, "rm -r %s", path_of("chain0"));
	CHECK_INT(system(command), 0);
	CHECK_RUN("image verify %s", path_of("chain1"));
	// The dump refuses an invalid base before it changes anything.
	CHECK_INT(run("dump --vgpu chain --dir %s %s", path_of("chain2"), base), 1);
	CHECK_CONTAINS(said, "base image");
	CHECK_CONTAINS(said, "is no image");
	CHECK(access(path_of("chain2"), F_OK) < 0);
	wait_for_field("chain", program.pid, "state", "running");
	end(&program);
}

// Tests two programs of different vGPUs with the same contents, such as servers of one model.
TEST(equal_memory_of_another_program_is_not_written_again)
{
	char command[2 * PATH_MAX];

	prepare(false);
	struct program one = start_evictable("server1", ""), other = start_evictable("server2", "");
	dump_to("server1", "server1.image", "--leave-running");
	snprintf(command, sizeof command, "--leave-running --base %s", path_of("server1.image"));
	dump_to("server2", "server2.image", command);
	CHECK_CONTAINS(said, "2.0 MiB of device memory in common with the base"); // equal blocks are stored once
	CHECK_INT(run("image verify %s", path_of("server2.image")), 0);
	end(&one);
	end(&other);
}

// ---- failures and killed commands ----------------------------------------------------------------------

static const char *const steps[] = {"find", "evict", "lock", "device-out", "host-out", "commit"};
enum { STEPS = sizeof steps / sizeof *steps };

static void check_is_whole(const struct program *program, const char *vgpu, const struct vg_ledger_tenant *before,
			   bool is_suspended)
{
	if (is_suspended) {
		wait_for_field(vgpu, program->pid, "state", "suspended");
		CHECK_RUN("resume %s", vgpu);
	}
	check_looks_on(program);
	wait_for_field(vgpu, program->pid, "state", "running");
	CHECK(count_files(program->pid) <= 1);
	CHECK_INT(place_of(vgpu, program->pid).used, before->used);
	if (is_suspended)
		CHECK_RUN("suspend %s", vgpu);
}

// Tests the rollback of a dump that was stopped or killed at each step. The memory must be unchanged, and in the place
// where it was before.
TEST(a_stopped_or_killed_dump_is_rolled_back)
{
	prepare(false);
	struct program program = start_evictable("back", "");
	struct vg_ledger_tenant before = place_of("back", program.pid);

	for (int suspended = 0; suspended < 2; suspended++) {
		if (suspended)
			CHECK_RUN("suspend back");
		for (int i = 0; i < STEPS; i++) {
			CHECK_INT(coordinate("dump", program.pid, path_of("stopped"), steps[i], "stop"), 1);
			check_is_whole(&program, "back", &before, suspended);
			CHECK_INT(coordinate("dump", program.pid, path_of("killed"), steps[i], "kill"), -SIGKILL);
			if (run("recover --pid %d", (int)program.pid))
				FAIL("recover from %s: %s", steps[i], said);
			check_is_whole(&program, "back", &before, suspended);
			CHECK(access(path_of("killed"), F_OK) < 0 && access(path_of("stopped"), F_OK) < 0);
		}
	}
	CHECK_RUN("resume back");
	write_text("fail", "dump\n");
	CHECK_INT(run("dump --vgpu back --dir %s", path_of("failed")), 1);
	CHECK_CONTAINS(said, "run on as before");
	unlink(path_of("fail"));
	check_is_whole(&program, "back", &before, false);
	end(&program);
}

static struct pager_slot *slot_of(const char *vgpu, pid_t pid, struct vg_ledger **ret_ledger)
{
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/run/ledgers/%s", directory, vgpu);
	CHECK_INT(vg_ledger_open(path, ret_ledger), 0);
	return &vg_ledger_pager_slots(*ret_ledger)[place_of(vgpu, pid).slot];
}

// Kills a dump without a guard as soon as the pager of the program has reached that state.
static void kill_dump_at(const struct program *program, const struct pager_slot *slot, enum pager_state state)
{
	char pid[16];

	snprintf(pid, sizeof pid, "%d", (int)program->pid);
	fflush(stdout);
	pid_t dump = fork();
	if (dump == 0) {
		setenv("VIRGATE_LIBDIR", BUILD, 1);
		execl(COORDINATOR, COORDINATOR, "dump", pid, path_of("torn.image"), "commit", "stop", (char *)NULL);
		_exit(127);
	}
	int i, status;
	for (i = 0; i < 100000 && atomic_load(&slot->state) != state; i++)
		usleep(20);
	CHECK_INT(kill(dump, SIGKILL), 0);
	CHECK(i < 100000);
	CHECK_INT(waitpid(dump, &status, 0), dump);
	CHECK(WIFSIGNALED(status));
}

TEST(a_dump_killed_while_memory_moves_is_rolled_back)
{
	static const enum pager_state states[] = {PAGER_PREPARING, PAGER_LEAVING, PAGER_PARKED};
	struct vg_ledger *ledger;

	prepare(false);
	must("create moving --memory 1G --evictable");
	// The program's memory is large, so that the dump is killed while it moves.
	struct program program = start("moving", "moving", "512", "32", "1024");
	struct vg_ledger_tenant before = place_of("moving", program.pid);
	const struct pager_slot *slot = slot_of("moving", program.pid, &ledger);
	for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
		kill_dump_at(&program, slot, states[i]);
		if (run("recover --pid %d", (int)program.pid))
			FAIL("recover from state %d: %s", (int)states[i], said);
		check_is_whole(&program, "moving", &before, false);
	}
	// Without recovery the parked program waits. The next dump lets it continue, or names the command that does, if
	// the killed dump had already locked the program.
	kill_dump_at(&program, slot, PAGER_PARKED);
	unsigned round = report_of(&program).round;
	usleep(200000);
	CHECK(report_of(&program).round <= round + 1);
	vg_ledger_close(ledger);
	if (run("dump --vgpu moving --dir %s --leave-running", path_of("moving.image")))
		CHECK_CONTAINS(said, "is already locked, probably by a dump that was killed: virgate recover");
	CHECK_RUN("recover --pid %d", (int)program.pid);
	check_is_whole(&program, "moving", &before, false);
	end(&program);
}

// An endless kernel keeps the memory on the GPU.
TEST(work_that_does_not_end_fails_the_dump)
{
	pid_t program, launcher;

	prepare(false);
	must("create endless --memory 256M --evictable");
	program = start_in_vgpu("endless", path_of("endless"), "endless", &launcher);
	CHECK_INT(run("dump --pid %d --dir %s --timeout 1", (int)program, path_of("endless.image")), 1);
	CHECK_CONTAINS(said, "step evict");
	CHECK_CONTAINS(said, "did not leave the GPU within 1.0 s: the GPU has not finished its work");
	CHECK_CONTAINS(said, "allow more time with --timeout");
	CHECK_CONTAINS(said, "run on as before");
	check_goes_on(path_of("endless"));
	write_text("endless.go", "");
	check_goes_on(path_of("endless"));
	kill(program, SIGKILL);
	waitpid(launcher, NULL, 0);
}

// The disk becomes full while CRIU runs.
TEST(a_full_disk_fails_the_dump)
{
	char command[6 * PATH_MAX];

	prepare(false);
	if (geteuid() != 0)
		SKIP("no rights to mount a file system");
	struct program program = start_evictable("fills", "");
	struct vg_ledger_tenant before = place_of("fills", program.pid);
	CHECK_INT(mkdir(path_of("disk"), 0700), 0);
	snprintf(command, sizeof command,
		 "#!/bin/sh\n[ $1 = dump ] && cat /dev/zero >%s/hog 2>/dev/null\nexec %s \"$@\"\n", path_of("disk"),
		 STANDIN_PROGRAM);
	write_text("hog", command);
	CHECK_INT(chmod(path_of("hog"), 0755), 0);
	snprintf(command, sizeof command,
		 "unshare -m sh -c 'mount -t tmpfs -o size=100m none %s && VIRGATE_CRIU=%s exec %s dump --vgpu fills "
		 "--dir "
		 "%s/image' >%s 2>&1",
		 path_of("disk"), path_of("hog"), VIRGATE, path_of("disk"), path_of("disk.log"));
	CHECK_INT(WEXITSTATUS(system(command)), 1);
	CHECK_CONTAINS(text_of("disk.log"), "No space left on device");
	CHECK_CONTAINS(text_of("disk.log"), "run on as before");
	check_is_whole(&program, "fills", &before, false);
	end(&program);
}

TEST(a_disk_that_is_too_small_is_refused_before_memory_moves)
{
	char command[6 * PATH_MAX];

	prepare(false);
	if (geteuid() != 0)
		SKIP("no rights to mount a file system");
	struct program program = start_evictable("large", "");
	struct vg_ledger_tenant before = place_of("large", program.pid);
	CHECK_INT(mkdir(path_of("small"), 0700), 0);
	snprintf(command, sizeof command,
		 "unshare -m sh -c 'mount -t tmpfs -o size=2m none %s && exec %s dump --vgpu large --dir %s/image' "
		 ">%s 2>&1",
		 path_of("small"), VIRGATE, path_of("small"), path_of("small.log"));
	CHECK_INT(WEXITSTATUS(system(command)), 1);
	CHECK_CONTAINS(text_of("small.log"), "refused (disk): the image takes up to ");
	// no process was changed, so the message does not speak of a rollback
	CHECK(!strstr(text_of("small.log"), "run on as before"));
	check_is_whole(&program, "large", &before, false);
	end(&program);
}

// Kills a dump. Its guard process must then do what `virgate recover` does. The stand-in for CRIU kills the dump when
// it starts.
TEST(the_guard_rolls_back_a_killed_dump)
{
	prepare(false);
	struct program program = start_evictable("guarded", "");
	struct vg_ledger_tenant before = place_of("guarded", program.pid);

	write_text("fail", "kill-starter\n");
	CHECK(run("dump --vgpu guarded --dir %s", path_of("guarded.image")) != 0);
	unlink(path_of("fail"));
	check_is_whole(&program, "guarded", &before, false);
	CHECK_RUN("suspend guarded");
	write_text("fail", "kill-starter\n");
	CHECK(run("dump --vgpu guarded --dir %s", path_of("guarded.image")) != 0);
	unlink(path_of("fail"));
	check_is_whole(&program, "guarded", &before, true);
	CHECK_RUN("resume guarded");
	end(&program);
}

// A program that is killed leaves no file of host memory.
TEST(a_program_that_is_killed_meanwhile_leaves_nothing)
{
	prepare(false);
	for (int i = 1; i < STEPS; i++) {
		char name[32];
		snprintf(name, sizeof name, "dies%d", i);
		struct program program = start_evictable(name, "");
		coordinate("dump", program.pid, path_of("dead"), steps[i], "end");
		await_end(program.pid);
		waitpid(program.run, NULL, 0);
		await_no_file(program.pid);
		check_charged(name, 0);
		char command[PATH_MAX];
		snprintf(command, sizeof command, "rm -rf %s", path_of("dead"));
		CHECK_INT(system(command), 0);
	}
}

// The program and its second dump are both killed. The next command, or the daemon, removes the file of host memory,
// which the program has kept since its first dump.
TEST(the_file_of_a_program_that_died_with_its_dump_is_removed)
{
	prepare(false);
	struct program program = start_evictable("both", "");

	dump_to("both", "first.image", "--leave-running");
	check_looks_on(&program);
	wait_for_field("both", program.pid, "state", "running");
	CHECK_INT(count_files(program.pid), 1);
	CHECK_INT(coordinate("dump", program.pid, path_of("both.image"), "host-out", "kill"), -SIGKILL);
	CHECK_INT(count_files(program.pid), 1);
	kill(program.pid, SIGKILL);
	await_end(program.pid);
	waitpid(program.run, NULL, 0);
	await_no_file(program.pid);
	check_charged("both", 0);
}

// Kills the daemon at each step of a dump: no step needs the daemon.
TEST(a_daemon_that_is_killed_meanwhile_does_no_harm)
{
	prepare(false);
	struct program program = start_evictable("alone", "");
	struct vg_ledger_tenant before = place_of("alone", program.pid);

	for (int i = 1; i < STEPS; i++) {
		char name[32];
		snprintf(name, sizeof name, "alone%d", i);
		setenv("COORDINATED", "kill -9 $(cat \"$VIRGATE_RUNTIME_DIR\"/lock)", 1);
		CHECK_INT(coordinate("dump", program.pid, path_of(name), steps[i], "run"), 0);
		// The dump has ended the program; the next iteration starts it again.
		CHECK_RUN("image verify %s", path_of(name));
		await_end(program.pid);
		waitpid(program.run, NULL, 0);
		CHECK_RUN("ps"); // this command starts another daemon
		check_charged("alone", 0);
		program = start("alone", "alone", "64", "32", "512");
		CHECK_INT(place_of("alone", program.pid).used, before.used);
	}
	end(&program);
}

// ---- the whole life, with a real CRIU ------------------------------------------------------------------

static void check_comes_back(struct program *program, const char *vgpu, const char *image, uint64_t used,
			     bool is_suspended)
{
	unsigned round = report_of(program).round;

	if (run("restore --detach --dir %s", path_of(image)))
		FAIL("restore %s: %s", image, said);
	CHECK_INT(place_of(vgpu, program->pid).used, used);
	if (is_suspended) {
		wait_for_field(vgpu, program->pid, "state", "suspended");
		CHECK(report_of(program).round <= round + 1);
		CHECK_RUN("resume %s", vgpu);
	}
	await_round(program, round + 2);
	wait_for_field(vgpu, program->pid, "state", "running");
	CHECK(count_files(program->pid) <= 1);
	check_quota(program);
}

TEST(a_program_is_restored_with_its_memory)
{
	prepare(true);
	struct program program = start_evictable("life", "");
	uint64_t used = place_of("life", program.pid).used;

	for (int i = 0; i < 3; i++) {
		char name[32];
		snprintf(name, sizeof name, "life%d", i);
		if (i == 2)
			CHECK_RUN("suspend life");
		dump_to("life", name, "");
		if (i == 0)
			CHECK_INT(await_run(&program), 75);
		await_end(program.pid);
		check_charged("life", 0);
		check_comes_back(&program, "life", name, used, i == 2);
		// The restored program can be suspended and resumed as before.
		CHECK_RUN("suspend life");
		CHECK_RUN("resume life");
		check_looks_on(&program);
	}
	kill(program.pid, SIGKILL);
	await_end(program.pid);
	check_charged("life", 0);
}

TEST(a_suspended_image_returns_to_the_gpu_in_a_running_vgpu)
{
	prepare(true);
	struct program program = start_evictable("wakes", "");
	uint64_t used = place_of("wakes", program.pid).used;

	CHECK_RUN("suspend wakes");
	dump_to("wakes", "wakes.image", "");
	CHECK_INT(await_run(&program), 75);
	await_end(program.pid);
	CHECK_RUN("resume wakes");
	check_comes_back(&program, "wakes", "wakes.image", used, false);
	kill(program.pid, SIGKILL);
	await_end(program.pid);
}

// Tests a process of a build that does not know the window: its memory comes in a file, which it keeps. After a restore
// through a window, it has no file.
TEST(memory_of_an_older_process_comes_in_a_file)
{
	struct vg_ledger *ledger;
	char name[16];

	prepare(true);
	struct program program = start_evictable("older", "");
	uint64_t used = place_of("older", program.pid).used;
	for (int knows = 0; knows < 2; knows++) {
		CHECK_INT(atomic_exchange(&slot_of("older", program.pid, &ledger)->knows_window, knows), 1);
		vg_ledger_close(ledger);
		snprintf(name, sizeof name, "older%d", knows);
		dump_to("older", name, "");
		json_t *text = description_of(path_of(name)), *device = json_object_get(text, "device");
		CHECK_INT(json_typeof(json_object_get(device, "window")), knows ? JSON_TRUE : JSON_FALSE);
		json_decref(text);
		await_end(program.pid);
		check_comes_back(&program, "older", name, used, false);
		CHECK_INT(count_files(program.pid), !knows);
	}
	end(&program);
}

TEST(a_damaged_pack_restores_nothing)
{
	prepare(true);
	struct program program = start_evictable("damaged", "");
	char pack[PATH_MAX], byte = 'x';

	dump_to("damaged", "damaged.image", "");
	CHECK_INT(await_run(&program), 75);
	snprintf(pack, sizeof pack, "%s", path_of("damaged.image/device/pack-0000"));
	int fd = open(pack, O_WRONLY);
	CHECK_INT(pwrite(fd, &byte, 1, 4711), 1);
	close(fd);
	CHECK_INT(run("restore --detach --dir %s", path_of("damaged.image")), 125);
	CHECK_CONTAINS(said, "device/pack-0000 is damaged");
	await_end(program.pid);
	CHECK_INT(count_files(program.pid), 0);
	check_charged("damaged", 0);
}

// Kills a restore. The process that it has made must end when the driver lets it, since its memory is lost. It must
// have no slot then, and its window must be removed.
TEST(a_restore_that_is_killed_leaves_nothing_behind)
{
	static const char *const phases[] = {"host-in", "device-in", "unlock"};

	prepare(true);
	struct program program = start_evictable("torn", "");
	uint64_t used = place_of("torn", program.pid).used;
	dump_to("torn", "torn.image", "");
	CHECK_INT(await_run(&program), 75);
	for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
		CHECK_INT(coordinate("restore", 0, path_of("torn.image"), phases[i], "kill"), -SIGKILL);
		if (kill(program.pid, 0) < 0 || run("recover --pid %d", (int)program.pid) != 0)
			kill(program.pid, SIGKILL); // the restore has not handed the process over yet
		await_end(program.pid);
		check_charged("torn", 0);
		await_no_file(program.pid);
	}
	check_comes_back(&program, "torn", "torn.image", used, false);
	kill(program.pid, SIGKILL);
	await_end(program.pid);
}

TEST(zz_shut_down_the_daemon)
{
	prepare(false);
	run("shutdown");
}
