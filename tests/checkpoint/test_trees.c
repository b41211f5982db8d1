// Tests trees of processes, threads and what CRIU refuses, with the CRIU of this machine. Also tests images with
// several trees, for which one restore waits.
#include "checkpoint/image/text.h"
#include "checkpoint_test.h"

// Restores a process five times, with all resources that one process can have. The process checks its memory in every
// round.
TEST(a_process_with_threads_and_children_is_restored_five_times)
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
	CHECK_INT(kill(subject.pid, SIGTERM), 0);
	// CRIU was the parent of the process. CRIU has exited, so the test is the parent now, as the subreaper.
	CHECK_CHILD(subject.pid);
	kill(-subject.pid, SIGKILL);
	wait_gone(subject.pid);
	char log[4096];
	CHECK_INT(vg_file_read(path_of("many.log"), log, sizeof log), 0);
	waitpid(subject.guard, NULL, 0);
}

// The middle process of the tree uses no CUDA.
TEST(a_tree_of_three_is_restored)
{
	need_criu();
	struct subject subject = start_subject_with(path_of("three"), "three");

	check_goes_on(path_of("three"));
	check_goes_on(path_of("three.child"));
	CHECK_RUN("dump --pid %d --dir %s --json", (int)subject.pid, path_of("tree"));
	CHECK_CONTAINS(said, "\"processes\": 3");
	CHECK_CONTAINS(said, "\"cuda_processes\": 2");
	wait_gone(subject.pid);
	CHECK_RUN("restore --detach --dir %s", path_of("tree"));
	check_goes_on(path_of("three"));
	check_goes_on(path_of("three.child"));
	end_subject(subject);
}

// The message for a refusal by CRIU says what to do, and the process runs on.
TEST(refusals_of_criu_are_reported)
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

// ---- several roots -----------------------------------------------------------------------------------

// A `virgate restore` in the background. Its output is a pipe, because it prints no messages to a regular file, which
// the restored program might have open.
struct waiting {
	pid_t pid;
	int words;
};

static struct waiting start_restore(const char *image)
{
	struct waiting waiting;
	int ends[2];

	CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
	fflush(stdout);
	waiting.pid = fork();
	if (waiting.pid == 0) {
		dup2(ends[1], 1);
		dup2(ends[1], 2);
		execl(VIRGATE, VIRGATE, "restore", "--dir", image, (char *)NULL);
		_exit(127);
	}
	CHECK(waiting.pid > 0);
	close(ends[1]);
	waiting.words = ends[0];
	return waiting;
}

// Waits for the restore and returns its exit code; `said` has its output.
static int end_of(struct waiting waiting)
{
	int status = 0;

	CHECK_INT(waitpid(waiting.pid, &status, 0), waiting.pid);
	ssize_t length = vg_read_all(waiting.words, said, sizeof said - 1, -1);
	CHECK(length >= 0);
	said[length] = '\0';
	close(waiting.words);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void check_waits(struct waiting waiting)
{
	usleep(300000);
	CHECK_INT(waitpid(waiting.pid, NULL, WNOHANG), 0);
}

static void await_alive(pid_t pid, bool alive)
{
	for (int i = 0; i < 3000 && (kill(pid, 0) == 0) != alive; i++)
		usleep(10000);
	CHECK_INT(kill(pid, 0) == 0, alive);
}

// Reads the pids of both root processes in the order of the image. A dump of a vGPU takes the order of the daemon's
// list of tenants.
static void read_roots(const char *image, pid_t ret_roots[2])
{
	char name[PATH_MAX + 16];

	snprintf(name, sizeof name, "%s/virgate.json", image);
	json_t *description = json_load_file(name, 0, NULL), *roots = json_object_get(description, "roots");
	CHECK_INT(json_array_size(roots), 2);
	for (size_t i = 0; i < 2; i++)
		ret_roots[i] = (pid_t)json_integer_value(json_array_get(roots, i));
	json_decref(description);
}

static void check_both_go_on(void)
{
	check_goes_on(path_of("left"));
	check_goes_on(path_of("right"));
}

static void check_pair(const char *image)
{
	char wanted[80];
	pid_t roots[2];

	read_roots(image, roots);
	// The restore forwards a signal to both roots, and both exit with the expected code.
	struct waiting restore = start_restore(image);
	check_both_go_on();
	CHECK_INT(kill(restore.pid, SIGTERM), 0);
	if (end_of(restore))
		FAIL("not 0: %s", said);
	CHECK(kill(roots[0], 0) < 0 && kill(roots[1], 0) < 0);
	// When one root process ends, the other one goes on. The message names the root process that failed.
	for (int i = 0; i < 2; i++) {
		restore = start_restore(image);
		check_both_go_on();
		kill(roots[i], SIGKILL);
		await_alive(roots[i], false);
		check_waits(restore);
		CHECK_INT(kill(roots[!i], 0), 0);
		CHECK_INT(kill(restore.pid, SIGTERM), 0);
		CHECK_INT(end_of(restore), 128 + SIGKILL);
		snprintf(wanted, sizeof wanted, "process %d was ended by signal 9", (int)roots[i]);
		CHECK_CONTAINS(said, wanted);
		CHECK(kill(roots[!i], 0) < 0);
	}
	// If another command dumps both roots, the restore does not count as failed.
	restore = start_restore(image);
	check_both_go_on();
	CHECK_RUN("dump --vgpu pair --dir %s", path_of("pair.again"));
	CHECK_INT(end_of(restore), 75);
	snprintf(wanted, sizeof wanted, "process %d and 1 more were dumped to ", (int)roots[0]);
	CHECK_CONTAINS(said, wanted);
	CHECK_CONTAINS(said, "pair.again");
}

// Adds the files of the first tree a second time, as those of the second root.
static void add_second_tree(json_t *files, const char *image, const pid_t roots[2])
{
	char command[3 * PATH_MAX], name[64];
	size_t count = json_array_size(files);

	snprintf(command, sizeof command, "cd %s && cp -r tree-0 tree-1 && mv tree-1/core-%d.img tree-1/core-%d.img",
		 image, (int)roots[0], (int)roots[1]);
	CHECK_INT(system(command), 0);
	for (size_t i = 0; i < count; i++) {
		json_t *file = json_deep_copy(json_array_get(files, i));
		const char *of = json_string_value(json_object_get(file, "name")) + strlen("tree-0/");
		snprintf(name, sizeof name, "tree-1/%s", of);
		if (strncmp(of, "core-", 5) == 0)
			snprintf(name, sizeof name, "tree-1/core-%d.img", (int)roots[1]);
		json_object_set_new(file, "name", json_string(name));
		json_array_append_new(files, file);
	}
}

// Changes the image of one idle program so that it lists two root processes. The stand-in makes both, each with its
// pid.
static void make_image_of_two(const char *image, pid_t roots[2])
{
	char name[PATH_MAX + 16];

	for (int i = 0; i < 2; i++) {
		fflush(stdout);
		roots[i] = fork();
		if (roots[i] == 0) {
			setsid();
			dup2(open("/dev/null", O_RDWR), 0);
			dup2(open("/dev/null", O_RDWR), 1);
			for (int fd = 3; fd < 1024; fd++)
				close(fd);
			execl("/bin/sleep", "sleep", "600", (char *)NULL);
			_exit(127);
		}
	}
	// The process has called exec by then.
	usleep(200000);
	CHECK_RUN("dump --cpu-only --pid %d --dir %s", (int)roots[0], image);
	kill(roots[1], SIGKILL);
	for (int i = 0; i < 2; i++)
		CHECK_INT(waitpid(roots[i], NULL, 0), roots[i]);
	snprintf(name, sizeof name, "%s/virgate.json", image);
	json_t *description = json_load_file(name, 0, NULL), *processes = json_object_get(description, "processes");
	json_t *second = json_deep_copy(json_array_get(processes, 0));
	json_object_set_new(second, "pid", json_integer(roots[1]));
	json_object_set_new(second, "threads", json_pack("[i]", (int)roots[1]));
	json_array_append_new(processes, second);
	json_array_append_new(json_object_get(description, "roots"), json_integer(roots[1]));
	add_second_tree(json_object_get(description, "files"), image, roots);
	json_object_del(description, "xxh3");
	char *text = image_text_seal(description);
	json_decref(description);
	FILE *file = fopen(name, "w");
	CHECK(text && file && fputs(text, file) >= 0);
	CHECK_INT(fclose(file), 0);
	free(text);
}

static void make_criu_of_two(void)
{
	char text[2 * PATH_MAX];

	snprintf(text, sizeof text,
		 "#!/bin/sh\ncd $STANDIN\n[ $1 = restore ] || exec %s \"$@\"\nread -r pid <next\n"
		 "sed -i 1d next\nexec %s $pid\n",
		 STANDIN_PROGRAM, AGAIN);
	write_text("criu", text);
	CHECK_INT(chmod(path_of("criu"), 0755), 0);
	setenv("VIRGATE_CRIU", path_of("criu"), 1);
}

TEST(restore_waits_for_all_processes)
{
	char image[PATH_MAX], text[64], wanted[80], kept[PATH_MAX] = "";
	pid_t roots[2];

	if (geteuid() != 0)
		SKIP("this user may not choose pids");
	snprintf(kept, sizeof kept, "%s", getenv("VIRGATE_CRIU") ? getenv("VIRGATE_CRIU") : "");
	snprintf(image, sizeof image, "%s", path_of("two"));
	make_criu_of_two();
	make_image_of_two(image, roots);
	// Root `i` is killed first. The other one exits with 7 on the forwarded signal.
	for (int i = 0; i < 3; i++) {
		snprintf(text, sizeof text, "%d\n%d\n", (int)roots[0], (int)roots[1]);
		write_text("next", text);
		struct waiting restore = start_restore(image);
		await_alive(roots[1], true);
		await_alive(roots[0], true);
		check_waits(restore);
		if (i < 2) {
			kill(roots[i], SIGKILL);
			await_alive(roots[i], false);
			check_waits(restore);
		}
		CHECK_INT(kill(restore.pid, SIGTERM), 0);
		// The exit code is that of the first root, in whatever order the roots end.
		CHECK_INT(end_of(restore), i == 0 ? 128 + SIGKILL : 7);
		snprintf(wanted, sizeof wanted, "process %d %s", (int)roots[0],
			 i == 0 ? "was ended by signal 9" : "ended with exit status 7");
		CHECK_CONTAINS(said, wanted);
		CHECK(kill(roots[0], 0) < 0 && kill(roots[1], 0) < 0);
	}
	unsetenv("VIRGATE_CRIU");
	if (*kept)
		setenv("VIRGATE_CRIU", kept, 1);
}

TEST(restore_waits_for_all_of_a_vgpu)
{
	char image[PATH_MAX];
	pid_t runs[2];

	need_criu();
	with_vgpu("pair");
	pid_t left = start_in_vgpu("pair", path_of("left"), "", &runs[0]),
	      right = start_in_vgpu("pair", path_of("right"), "", &runs[1]);
	snprintf(image, sizeof image, "%s", path_of("pair"));
	CHECK_RUN("dump --vgpu pair --dir %s", image);
	CHECK_INT(end_of_run(runs[0]), 75);
	CHECK_INT(end_of_run(runs[1]), 75);
	CHECK(kill(left, 0) < 0 && kill(right, 0) < 0);
	check_pair(image);
	run("shutdown");
}
