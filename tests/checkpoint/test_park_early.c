// Tests that a dump reads device memory from the file of a pager that still unpins it. Driver calls of the simulated
// GPU take time here. All tests use the stand-in for CRIU.
#include <glob.h>
#include <stdatomic.h>

#include "evictable_test.h"
#include "pager/page.h"

static struct vg_ledger *ledger;

// Starts a program with so many MiB. Each driver call that unpins up to 256 MiB takes 2 seconds, or 5 seconds if
// there is a fault: such a program has more memory, which the dump must have read by then, also on a busy machine.
static struct program start_slow(const char *vgpu, const char *hold, const char *fault)
{
	setenv("VIRGATE_SIM", "slice=2ms", 1);
	prepare(false);
	setenv("VIRGATE_SIM_COST", *fault ? "call:cuMemHostUnregister=5s" : "call:cuMemHostUnregister=2s", 1);
	setenv("VIRGATE_SIM_FAULT", fault, 1);
	if (run("create %s --memory 512M --evictable", vgpu))
		FAIL("create %s: %s", vgpu, said);
	struct program program = start(vgpu, vgpu, hold, "32", "512");
	unsetenv("VIRGATE_SIM_COST");
	unsetenv("VIRGATE_SIM_FAULT");
	return program;
}

static struct pager_slot *slot_of(const char *vgpu, pid_t pid)
{
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/run/ledgers/%s", directory, vgpu);
	CHECK_INT(vg_ledger_open(path, &ledger), 0);
	return &vg_ledger_pager_slots(ledger)[place_of(vgpu, pid).slot];
}

static size_t count_paths(const char *format, const char *name)
{
	char pattern[PATH_MAX];
	glob_t found;

	snprintf(pattern, sizeof pattern, format, path_of(name));
	size_t count = glob(pattern, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
	globfree(&found);
	return count;
}

// Starts a dump, and returns when it has written memory that the pager has not unpinned yet.
static pid_t begin_dump(const char *vgpu, const char *name, const struct pager_slot *slot)
{
	fflush(stdout);
	pid_t dump = fork();

	if (dump == 0) {
		dup2(open(path_of("dump.log"), O_CREAT | O_WRONLY | O_TRUNC, 0600), 2);
		execl(VIRGATE, VIRGATE, "dump", "--vgpu", vgpu, "--dir", path_of(name), "--leave-running", NULL);
		_exit(127);
	}
	for (int i = 0; i < 20000 && !count_paths("%s.*/device/pack-0000", name); i++)
		usleep(1000);
	CHECK_INT(atomic_load(&slot->state), PAGER_OUT);
	CHECK(atomic_load(&slot->answered) != atomic_load(&slot->bell));
	CHECK(atomic_load(&slot->file[2]) != 0);
	CHECK_INT(count_paths("%s.*/device/pack-0000", name), 1);
	return dump;
}

static int end_dump(pid_t dump)
{
	int status;

	CHECK_INT(waitpid(dump, &status, 0), dump);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// Checks that the dump has failed and left nothing, that the program goes on, and that another dump succeeds.
static void check_rolled_back(pid_t dump, const struct program *program, const char *vgpu, const char *image)
{
	CHECK(end_dump(dump) != 0);
	CHECK_CONTAINS(text_of("dump.log"), "step evict");
	CHECK_CONTAINS(text_of("dump.log"), "run on as before");
	CHECK_INT(count_paths("%s*", image), 0);
	check_looks_on(program);
	CHECK_RUN("dump --vgpu %s --dir %s --leave-running", vgpu, path_of(image));
	check_looks_on(program);
	end(program);
	vg_ledger_close(ledger);
}

TEST(a_dump_writes_memory_before_it_is_unpinned)
{
	struct program program = start_slow("early", "64", "");
	pid_t dump = begin_dump("early", "early.image", slot_of("early", program.pid));

	CHECK_INT(end_dump(dump), 0);
	CHECK_RUN("image verify %s", path_of("early.image"));
	check_looks_on(&program);
	end(&program);
	vg_ledger_close(ledger);
}

TEST(memory_that_cannot_be_unpinned_fails_the_dump)
{
	struct program program = start_slow("pinned", "300", "cuMemHostUnregister:2=CUDA_ERROR_UNKNOWN");
	pid_t dump = begin_dump("pinned", "pinned.image", slot_of("pinned", program.pid));

	check_rolled_back(dump, &program, "pinned", "pinned.image");
	CHECK_CONTAINS(text_of("dump.log"), "cannot put its host memory away");
	CHECK_CONTAINS(text_of("dump.log"), "Input/output error");
}

TEST(a_dump_stopped_while_it_reads_is_rolled_back)
{
	struct program program = start_slow("stopped", "64", "");
	pid_t dump = begin_dump("stopped", "stopped.image", slot_of("stopped", program.pid));

	CHECK_INT(kill(dump, SIGINT), 0);
	check_rolled_back(dump, &program, "stopped", "stopped.image");
	CHECK_CONTAINS(text_of("dump.log"), "as asked");
}

// The process is parked with another file than the dump reads. Here, that is the same file by another name.
TEST(a_dump_that_reads_another_file_than_the_last_one_fails)
{
	struct program program = start_slow("renamed", "64", "");
	struct pager_slot *slot = slot_of("renamed", program.pid);
	pid_t dump = begin_dump("renamed", "renamed.image", slot);
	struct pager_file file = {slot->file[0], slot->file[1], slot->file[2]};
	char from[PAGER_FILE_NAME], to[PAGER_FILE_NAME];

	pager_file_format(&file, from);
	file.number++;
	pager_file_format(&file, to);
	int shared = open(PAGER_FILE_DIRECTORY, O_PATH | O_DIRECTORY);
	CHECK_INT(linkat(shared, from, shared, to, 0), 0);
	atomic_store(&slot->file[2], file.number);
	check_rolled_back(dump, &program, "renamed", "renamed.image");
	CHECK_CONTAINS(text_of("dump.log"), "moved while it was read");
	unlinkat(shared, from, 0);
	close(shared);
}

// The disk has room for the image, but not twice for the packs, which are written before the room is checked.
TEST(written_packs_need_no_more_room_on_the_disk)
{
	char command[6 * PATH_MAX];

	if (geteuid() != 0)
		SKIP("no rights to mount a file system");
	setenv("TENANT_CHANGES", "1", 1);
	struct program program = start_slow("fits", "300", "");
	unsetenv("TENANT_CHANGES");
	CHECK_INT(mkdir(path_of("disk"), 0700), 0);
	snprintf(command, sizeof command,
		 "unshare -m sh -c 'mount -t tmpfs -o size=500m none %s && exec %s dump --vgpu fits --dir %s/image "
		 "--leave-running' >%s 2>&1",
		 path_of("disk"), VIRGATE, path_of("disk"), path_of("disk.log"));
	if (system(command))
		FAIL("%s", text_of("disk.log"));
	check_looks_on(&program);
	end(&program);
}

// Memory that the program has freed must not be in the image: its pages in the file are free when the dump reads it.
TEST(unused_memory_is_written_as_zeroes)
{
	struct stat info;

	setenv("VIRGATE_SIM", "slice=2ms", 1);
	prepare(false);
	setenv("TENANT_SPARE", "32", 1);
	struct program program = start_evictable("spare", "");
	unsetenv("TENANT_SPARE");
	CHECK_RUN("suspend spare");
	CHECK_RUN("resume spare");
	check_quota(&program); // the program frees its first 32 MiB, which leaves a gap in the host memory
	CHECK_RUN("dump --vgpu spare --dir %s --leave-running", path_of("spare.image"));
	json_t *description = json_load_file(path_of("spare.image/virgate.json"), 0, NULL);
	json_t *device = json_object_get(description, "device");
	CHECK_INT(json_integer_value(json_object_get(device, "bytes")), 96 * (json_int_t)MIB);
	CHECK_INT(json_integer_value(json_object_get(device, "zero")), 32 * (json_int_t)MIB);
	json_decref(description);
	// All other blocks are equal, and stored once.
	CHECK_INT(stat(path_of("spare.image/device/pack-0000"), &info), 0);
	CHECK_INT(info.st_size, 2 * (off_t)MIB);
	CHECK_RUN("image verify %s", path_of("spare.image"));
	check_looks_on(&program);
	end(&program);
}

TEST(zz_shut_down_the_daemon)
{
	prepare(false);
	run("shutdown");
}
