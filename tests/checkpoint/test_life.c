// Tests the whole life of an image, with the CRIU of this machine: dump, end, and restore of a program, which then
// continues.
#include <dirent.h>

#include "checkpoint_test.h"

TEST(a_process_is_restored_again_and_again)
{
	need_criu();
	struct subject subject = start_subject(path_of("rounds"));
	static const char *const methods[] = {"none", "lz4", "zstd:5", "none"};
	uint32_t round = 0;

	check_goes_on(path_of("rounds"));
	for (int i = 0; i < 4; i++) {
		char name[32];
		snprintf(name, sizeof name, "image%d", i);
		CHECK_RUN("dump --pid %d --dir %s --compress %s", (int)subject.pid, path_of(name), methods[i]);
		wait_gone(subject.pid);
		CHECK(round_of(path_of("rounds")) > round);
		round = round_of(path_of("rounds"));
		int r = run("restore --detach --dir %s", path_of(name));
		if (r)
			FAIL("restore %d: %s", i, said);
		check_goes_on(path_of("rounds"));
	}
	// The subject checked its memory in every round, and exits on SIGTERM.
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
	CHECK_RUN("dump --pid %d --dir %s --leave-running", (int)subject.pid, path_of("first"));
	check_goes_on(path_of("rounds2"));
	CHECK_RUN("dump --pid %d --dir %s", (int)subject.pid, path_of("second"));
	wait_gone(subject.pid);
	CHECK_RUN("restore --detach --dir %s", path_of("second"));
	check_goes_on(path_of("rounds2"));
	end_subject(subject);
}

// Counts the names in the subject's directory that begin with `begin` and do not end with `not_end`.
static int count_names(const char *begin, const char *not_end)
{
	struct dirent *entry;
	int count = 0;

	DIR *opened = opendir(directory);
	CHECK(opened != NULL);
	while ((entry = readdir(opened)))
		count += strncmp(entry->d_name, begin, strlen(begin)) == 0 &&
			 !(*not_end && strstr(entry->d_name, not_end));
	closedir(opened);
	return count;
}

// Checks descriptors 3 and 4 of the process: a file with one name left, and a file without any name.
static void check_lost_names(pid_t pid)
{
	struct stat open_one, named;
	char link[64];

	CHECK_INT(stat(path_of("lost.other"), &named), 0);
	snprintf(link, sizeof link, "/proc/%d/fd/3", (int)pid);
	CHECK_INT(stat(link, &open_one), 0);
	CHECK(open_one.st_ino == named.st_ino && open_one.st_dev == named.st_dev);
	snprintf(link, sizeof link, "/proc/%d/fd/4", (int)pid);
	CHECK_INT(stat(link, &open_one), 0);
	CHECK_INT(open_one.st_nlink, 0);
	CHECK(access(path_of("lost.lost"), F_OK) < 0);
}

static void check_lost_names_again(pid_t pid, const char *image)
{
	if (run("restore --detach --dir %s", path_of(image)))
		FAIL("restore %s: %s", image, said);
	check_goes_on(path_of("lost"));
	check_lost_names(pid);
	kill(-pid, SIGKILL);
	wait_gone(pid);
}

static void fail_dump(pid_t pid)
{
	char command[2 * PATH_MAX];

	snprintf(command, sizeof command, "VIRGATE_LIBDIR=%s %s dump %d %s commit stop >/dev/null", BUILD, COORDINATOR,
		 (int)pid, path_of("no.image"));
	CHECK(system(command) != 0);
	CHECK(access(path_of("no.image"), F_OK) < 0);
	check_goes_on(path_of("lost"));
	check_lost_names(pid);
}

// For an open file whose name was removed, CRIU makes a link. Dumps must not disturb each other's links, and every
// image can be restored again and again.
TEST(a_file_that_lost_its_name_is_there_for_every_image)
{
	need_criu();
	struct subject subject = start_subject_with(path_of("lost"), "lost-names");

	check_goes_on(path_of("lost"));
	fail_dump(subject.pid);
	CHECK_INT(count_names("link_remap.", ""), 0);
	for (int i = 0; i < 3; i++) {
		char name[32];
		snprintf(name, sizeof name, "lost%d.image", i);
		if (run("dump --pid %d --dir %s %s", (int)subject.pid, path_of(name), i < 2 ? "--leave-running" : ""))
			FAIL("dump %d: %s", i, said);
		if (i < 2)
			check_goes_on(path_of("lost"));
		if (i == 0)
			// The failed dump must not remove any part of the existing image.
			fail_dump(subject.pid);
		CHECK(count_names("link_remap.", ".virgate") > 0);
	}
	wait_gone(subject.pid);
	waitpid(subject.guard, NULL, 0);
	for (int i = 0; i < 2; i++) {
		check_lost_names_again(subject.pid, "lost0.image");
		check_lost_names_again(subject.pid, "lost1.image");
		check_lost_names_again(subject.pid, "lost2.image");
	}
	CHECK_INT(count_names("link_remap.", ""), count_names("link_remap.", ".virgate"));
	// Without the link that CRIU has made, the restore refuses the image before it makes a process.
	char command[PATH_MAX + 32];
	snprintf(command, sizeof command, "rm %s/link_remap.*", directory);
	CHECK_INT(system(command), 0);
	CHECK_INT(run("restore --detach --dir %s", path_of("lost0.image")), 125);
	CHECK_CONTAINS(said, "refused (file-missing)");
	CHECK_CONTAINS(said, "link_remap.");
}

// Starts virgate restore in the background. end_of() returns its exit code.
static pid_t start_restore(const char *image, const char *more)
{
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		char log[PATH_MAX];
		snprintf(log, sizeof log, "%s.log", image);
		dup2(open(log, O_CREAT | O_WRONLY | O_TRUNC, 0600), 1);
		dup2(1, 2);
		execl(VIRGATE, VIRGATE, "restore", "--dir", image, more, (char *)NULL);
		_exit(127);
	}
	CHECK(pid > 0);
	return pid;
}

static int end_of(pid_t pid)
{
	int status = 0;

	CHECK_INT(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(restore_waits_and_passes_signals_on)
{
	need_criu();
	struct subject subject = start_subject(path_of("rounds3"));

	check_goes_on(path_of("rounds3"));
	CHECK_RUN("dump --pid %d --dir %s --leave-running", (int)subject.pid, path_of("waits2"));
	CHECK_RUN("dump --pid %d --dir %s", (int)subject.pid, path_of("waits"));
	wait_gone(subject.pid);
	waitpid(subject.guard, NULL, 0);
	// The restore forwards SIGTERM to the restored process, which exits with 0 if its memory was right.
	pid_t restore = start_restore(path_of("waits"), NULL);
	check_goes_on(path_of("rounds3"));
	CHECK_INT(kill(restore, SIGTERM), 0);
	CHECK_INT(end_of(restore), 0);
	CHECK_INT(kill(subject.pid, 0), -1);
	// If a signal ends the restored process, the exit code is 128 + the signal, as in a shell.
	restore = start_restore(path_of("waits2"), NULL);
	check_goes_on(path_of("rounds3"));
	CHECK_INT(kill(subject.pid, SIGKILL), 0);
	CHECK_INT(end_of(restore), 128 + SIGKILL);
}

// Restores with a map that exchanges the first two GPUs.
TEST(restore_takes_a_map_of_gpus)
{
	need_criu();
	setenv("VIRGATE_SIM", "devices=2,driver=13000", 1);
	setenv("VIRGATE_SIM_DIR", path_of("node2"), 1);
	struct subject subject = start_subject(path_of("rounds4"));
	check_goes_on(path_of("rounds4"));
	CHECK_RUN("dump --pid %d --dir %s", (int)subject.pid, path_of("map"));
	wait_gone(subject.pid);
	CHECK_INT(run("restore --detach --dir %s --gpu-map 0=1", path_of("map")), 125);
	CHECK_CONTAINS(said, "leaves out GPU 1");
	CHECK_INT(run("restore --detach --dir %s --gpu-map 0=1,1=1", path_of("map")), 125);
	CHECK_CONTAINS(said, "twice");
	CHECK_INT(run("restore --detach --dir %s --gpu-map 0=1,0=0", path_of("map")), 125);
	CHECK_CONTAINS(said, "twice");
	CHECK_INT(run("restore --detach --dir %s --gpu-map 0=1 --gpu-map 1=2", path_of("map")), 125);
	CHECK_CONTAINS(said, "no GPU \"2\" here: there are 2");
	CHECK_INT(run("restore --detach --dir %s --gpu-map 0=1 --gpu-map 7=0", path_of("map")), 125);
	CHECK_CONTAINS(said, "no GPU \"7\": it has 2");
	CHECK_INT(run("restore --detach --dir %s --gpu-map 0", path_of("map")), 125);
	CHECK_CONTAINS(said, "is not OLD=NEW");
	int r = run("restore --detach --dir %s --gpu-map 0=1 --gpu-map 1=0", path_of("map"));
	if (r)
		FAIL("restore: %s", said);
	check_goes_on(path_of("rounds4"));
	end_subject(subject);
	setenv("VIRGATE_SIM", "1", 1);
	setenv("VIRGATE_SIM_DIR", path_of("node"), 1);
}

// Starts a receiver that waits at a socket, here or in a pid namespace of its own.
static pid_t start_far_side(bool apart)
{
	char from[PATH_MAX + 8];

	snprintf(from, sizeof from, "unix:%s", path_of("socket"));
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(open(path_of("far.log"), O_CREAT | O_WRONLY | O_TRUNC, 0600), 1);
		dup2(1, 2);
		if (apart)
			execlp("unshare", "unshare", "--pid", "--fork", "--mount-proc", VIRGATE, "restore", "--from",
			       from, (char *)NULL);
		else
			execl(VIRGATE, VIRGATE, "restore", "--from", from, (char *)NULL);
		_exit(127);
	}
	for (int i = 0; i < 1000 && access(path_of("socket"), F_OK) < 0; i++)
		usleep(10000);
	return pid;
}

// Checks that a process continues on the receiver with all its memory, and that the receiver exits with the process's
// exit code.
static void check_migration(const char *name, bool apart, const char *more)
{
	char rounds[PATH_MAX];

	need_criu();
	snprintf(rounds, sizeof rounds, "%s", path_of(name));
	struct subject subject = start_subject(rounds);
	check_goes_on(rounds);
	uint32_t before = round_of(rounds);
	pid_t far = start_far_side(apart);
	if (run("migrate --pid %d --to unix:%s %s", (int)subject.pid, path_of("socket"), more)) {
		kill(far, SIGKILL);
		FAIL("migrate: %s", said);
	}
	waitpid(subject.guard, NULL, 0);
	check_goes_on(rounds);
	CHECK(round_of(rounds) > before);
	CHECK_INT(kill(subject.pid, 0) == 0, !apart);
	// The program unshare does not forward signals, so the test finds its child, the receiver.
	char path[64], child[32] = "";
	snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)far, (int)far);
	CHECK(!apart || vg_file_read(path, child, sizeof child) > 0);
	CHECK_INT(kill(apart ? atoi(child) : far, SIGTERM), 0);
	CHECK_INT(end_of(far), 0);
}

TEST(a_process_migrates_into_another_pid_namespace)
{
	check_migration("rounds5", true, "");
}

TEST(a_process_migrates_on_this_machine)
{
	check_migration("rounds6", false, "--compress lz4");
}
