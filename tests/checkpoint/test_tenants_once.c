// Tests restores of programs from ephemeral vGPUs of `virgate run`, or into another vGPU than before.
#include "tenants_test.h"

static bool vgpu_exists(const char *name)
{
	return run("inspect %s", name) == 0;
}

static void await_no_vgpu(const char *name)
{
	for (int i = 0; i < 500 && vgpu_exists(name); i++)
		usleep(10000);
	if (vgpu_exists(name))
		FAIL("vGPU %s is still there: %s", name, said);
}

// Dumps a program, which then ends, into the image NAME.image.
static struct program write_down_once(const char *name)
{
	struct program program = start_once(name, name);
	char image[64];

	snprintf(image, sizeof image, "%s.image", name);
	CHECK_RUN("dump --pid %d --dir %s", (int)program.pid, path_of(image));
	CHECK_INT(await_run(&program), 75);
	await_no_vgpu(name);
	return program;
}

// Truncates the program's log to the size that it had at the dump. The program has the log open.
static void empty_log(const struct program *program)
{
	char log[PATH_MAX + 8];

	snprintf(log, sizeof log, "%s.log", program->file);
	CHECK_INT(truncate(log, 0), 0);
}

// Sets a key of the only vGPU in the image's description to `value` (NULL: removes the key).
static void edit_image(const char *image, const char *key, json_t *value)
{
	char path[PATH_MAX];
	struct image_dir dir;
	json_t *description;

	snprintf(path, sizeof path, "%s", path_of(image));
	CHECK_INT(image_open(path, &dir), VG_OK);
	CHECK_INT(image_read(&dir, &description), VG_OK);
	image_close(&dir);
	json_t *vgpu = json_array_get(json_object_get(description, "vgpus"), 0);
	CHECK(value || json_object_get(vgpu, key));
	CHECK_INT(value ? json_object_set_new(vgpu, key, value) : json_object_del(vgpu, key), 0);
	json_object_del(description, "xxh3");
	char *text = image_text_seal(description);
	CHECK(text != NULL);
	strcat(path, "/virgate.json");
	CHECK_INT(vg_file_write_atomic(path, text, strlen(text), 0600), 0);
	free(text);
	json_decref(description);
}

TEST(a_vgpu_of_one_run_is_made_again_and_goes_with_a_failure)
{
	prepare(false);
	write_down_once("brief");
	write_text("fail", "restore\n");
	CHECK_INT(run("restore --detach --dir %s", path_of("brief.image")), 125);
	CHECK(criu_was_asked_to_restore());
	CHECK(!vgpu_exists("brief"));
	// The caller of the library continues to run, and the vGPU must be removed nevertheless.
	CHECK_INT(coordinate("restore", 0, path_of("brief.image"), "host-in", "stop"), 1);
	CHECK(!vgpu_exists("brief"));
	// Images of earlier versions have no owner.
	edit_image("brief.image", "owner", NULL);
	edit_image("brief.image", "group", NULL);
	edit_image("brief.image", "share_limit", NULL);
	edit_image("brief.image", "class", NULL);
	unlink(path_of("said"));
	CHECK_INT(run("restore --detach --dir %s", path_of("brief.image")), 125);
	CHECK(criu_was_asked_to_restore());
	// The image says that its vGPU belongs to a group that this machine does not have. The daemon refuses to make
	// it.
	edit_image("brief.image", "group", json_integer(4294967294));
	CHECK_INT(run("restore --detach --dir %s", path_of("brief.image")), 125);
	CHECK_CONTAINS(said, "group 4294967294, which does not exist here");
}

TEST(an_ephemeral_vgpu_is_made_for_its_owner)
{
	prepare(false);
	if (geteuid() != 0)
		SKIP("only root restores for others");
	write_down_once("whose");
	edit_image("whose.image", "owner", json_integer(60001));
	CHECK_INT(run("restore --detach --dir %s", path_of("whose.image")), 125);
	CHECK_CONTAINS(said, "a vGPU for user 60001 needs the system's daemon");
}

TEST(a_vgpu_of_one_run_must_fit)
{
	char left[32];

	prepare(false);
	write_down_once("large");
	CHECK_RUN("devices --json");
	const char *memory = strstr(said, "\"memory\": "), *reserved = strstr(said, "\"reserved\": ");
	CHECK(memory && reserved);
	snprintf(left, sizeof left, "%lldM", ((atoll(memory + 10) - atoll(reserved + 12)) >> 20) - 128);
	create_vgpu("hog", left);
	CHECK_INT(run("restore --detach --dir %s", path_of("large.image")), 125);
	CHECK_CONTAINS(said, "vGPU large, which went with its run, cannot be made again: GPU 0: asked for 256.0 MiB");
	CHECK(!criu_was_asked_to_restore());
	CHECK_RUN("rm hog");
}

TEST(another_vgpu_of_that_name_is_refused)
{
	char path[PATH_MAX];

	prepare(false);
	write_down_once("taken");
	create_vgpu("taken", "256M");
	CHECK_INT(run("restore --detach --dir %s", path_of("taken.image")), 125);
	CHECK_CONTAINS(said, "the vGPU taken that exists now is not the one that the processes ran inside");
	CHECK_CONTAINS(said, "--vgpu");
	CHECK_RUN("rm taken");
	struct program other = start_so((const char *const[]){"--name", "taken", "--memory", "300M", NULL},
					"other-taken", "64", "8", "512");
	CHECK_INT(run("restore --detach --dir %s", path_of("taken.image")), 125);
	CHECK_CONTAINS(said, "it has 300.0 MiB, and theirs was of one run, with 256.0 MiB");
	end(&other);
	await_no_vgpu("taken");
	other = start_so((const char *const[]){"--name", "taken", "--memory", "256M", "--share", "30", "--limit", NULL},
			 // This vGPU differs from that of the image only in its class, which is not "latency".
			 "other-taken", "64", "8", "512");
	CHECK_INT(run("restore --detach --dir %s", path_of("taken.image")), 125);
	CHECK_CONTAINS(said, "the vGPU taken that exists now is not the one that the processes ran inside");
	end(&other);
	await_no_vgpu("taken");
	if (geteuid() != 0)
		return; // only root can have ledgers of other users
	other = start_once("taken", "other-taken");
	snprintf(path, sizeof path, "%s/taken", path_of("run/ledgers"));
	CHECK_INT(chown(path, 60001, (gid_t)-1), 0);
	CHECK_INT(run("restore --detach --dir %s", path_of("taken.image")), 125);
	CHECK_CONTAINS(said, "belongs to user 60001, and the one that the processes ran inside belonged to user 0");
	CHECK(!criu_was_asked_to_restore());
	CHECK_INT(chown(path, 0, (gid_t)-1), 0);
	end(&other);
}

TEST(invalid_choices_of_vgpus_are_refused)
{
	prepare(false);
	write_down_once("odd");
	static const struct {
		const char *options, *says;
	} all[] = {
		{"--vgpu nosuch", "nosuch"},
		{"--vgpu no=odd", "the image is not of a vGPU no, but of odd"},
		{"--vgpu odd=a --vgpu odd=b", "vGPU a and vGPU b are both named to replace odd"},
		{"--vgpu a --vgpu b", "name a replacement for each"},
		{"--vgpu odd=", "--vgpu: \"odd=\" is neither NAME nor OLD=NEW"},
		{"--vgpu a/b", "a/b"},
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		CHECK_INT(run("restore --detach %s --dir %s", all[i].options, path_of("odd.image")), 125);
		CHECK_CONTAINS(said, all[i].says);
	}
	CHECK(!criu_was_asked_to_restore());
	CHECK(!vgpu_exists("odd"));
}

TEST(a_program_of_an_ephemeral_vgpu_keeps_its_quota)
{
	prepare(true);
	struct program program = write_down_once("once");

	for (int i = 0; i < 2; i++) {
		restore_and_wait(&program, "", path_of("once.image"));
		CHECK_RUN("inspect once --json");
		CHECK_CONTAINS(said, "\"ephemeral\": true");
		CHECK_CONTAINS(said, "\"memory\": 268435456");
		CHECK_CONTAINS(said, "\"share\": 30");
		CHECK_CONTAINS(said, "\"share_limit\": true");
		CHECK_CONTAINS(said, "\"class\": \"latency\"");
		check_charged("once", place_of("once", program.pid).used);
		CHECK(charged_now("once") >= 64 * MIB);
		check_quota(&program);
		// The vGPU is removed with the program, as before the dump.
		end(&program);
		await_no_vgpu("once");
		empty_log(&program);
	}
}

// A restore makes an evictable ephemeral vGPU again with its settings. Images of earlier versions have no such
// settings.
TEST(an_evictable_vgpu_of_one_run_is_made_again)
{
	prepare(true);
	struct program program = start_so(
		(const char *const[]){"--name", "moves", "--memory", "256M", "--evictable", "--swap", "96M", NULL},
		"moves", "64", "32", "512");
	CHECK_RUN("dump --pid %d --dir %s", (int)program.pid, path_of("moves.image"));
	CHECK_INT(await_run(&program), 75);
	await_no_vgpu("moves");
	restore_and_wait(&program, "", path_of("moves.image"));
	CHECK_RUN("inspect moves --json");
	CHECK_CONTAINS(said, "\"ephemeral\": true");
	CHECK_CONTAINS(said, "\"evictable\": true");
	CHECK_CONTAINS(said, "\"swap\": 100663296");
	end(&program);
	await_no_vgpu("moves");
	empty_log(&program);
}

// Inspects the vGPU while a restore runs that fails in the end.
static void inspect_in_restore(const char *image, const char *name, char text[4096])
{
	char command[2 * PATH_MAX];

	write_text("fail", "restore\n");
	snprintf(command, sizeof command, "%s inspect %s --json >%s", VIRGATE, name, path_of("inspected"));
	setenv("COORDINATED", command, 1);
	CHECK_INT(coordinate("restore", 0, path_of(image), "host-in", "run"), 1);
	ssize_t length = vg_file_read(path_of("inspected"), text, 4096);
	CHECK(length > 0);
}

// Checks the vGPUs that a restore makes, without a CRIU that could restore the program.
TEST(evictable_vgpus_are_distinguished)
{
	char text[4096];

	prepare(false);
	write_down_once("plain");
	struct program other = start_so((const char *const[]){"--name", "plain", "--memory", "256M", "--share", "30",
							      "--limit", "--class", "latency", "--evictable", NULL},
					"other-plain", "64", "8", "512");
	CHECK_INT(run("restore --detach --dir %s", path_of("plain.image")), 125);
	CHECK_CONTAINS(said, "the vGPU plain that exists now is not the one that the processes ran inside");
	end(&other);
	await_no_vgpu("plain");
	edit_image("plain.image", "evictable", json_true());
	CHECK_INT(run("restore --detach --dir %s", path_of("plain.image")), 125);
	// The description has neither swap nor a fixed part.
	CHECK_CONTAINS(said, "describes vGPUs or tenants by halves");
	edit_image("plain.image", "fixed", json_integer(64 * (json_int_t)MIB));
	edit_image("plain.image", "swap", json_integer(1ll << 50));
	CHECK_INT(run("restore --detach --dir %s", path_of("plain.image")), 125);
	CHECK_CONTAINS(said, "cannot be made again: vGPU plain: asked for a swap of 1.0 PiB");
	edit_image("plain.image", "ephemeral", json_false());
	CHECK_INT(run("restore --detach --dir %s", path_of("plain.image")), 125);
	CHECK_CONTAINS(said, " --class latency --evictable --swap 1073741824M --fixed 64M --device ");
	edit_image("plain.image", "ephemeral", json_true());
	edit_image("plain.image", "swap", json_integer(96 * (json_int_t)MIB));
	inspect_in_restore("plain.image", "plain", text);
	CHECK_CONTAINS(text, "\"evictable\": true");
	CHECK_CONTAINS(text, "\"swap\": 100663296");
	edit_image("plain.image", "evictable", NULL);
	edit_image("plain.image", "swap", NULL);
	inspect_in_restore("plain.image", "plain", text);
	CHECK_CONTAINS(text, "\"evictable\": false");
}

TEST(a_restore_that_fails_late_leaves_no_vgpu)
{
	static const char *const phases[] = {"host-in", "device-in", "unlock"};

	prepare(true);
	struct program program = write_down_once("undone");
	setenv("VIRGATE_SIM_FAULT", "cuCheckpointProcessRestore:1=CUDA_ERROR_UNKNOWN", 1);
	CHECK_INT(run("restore --detach --dir %s", path_of("undone.image")), 125);
	unsetenv("VIRGATE_SIM_FAULT");
	CHECK_CONTAINS(said, "the processes were ended");
	await_end(program.pid);
	CHECK(!vgpu_exists("undone"));
	for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
		CHECK_INT(coordinate("restore", 0, path_of("undone.image"), phases[i], "kill"), -SIGKILL);
		kill(program.pid, SIGKILL); // the process may exist by now
		await_end(program.pid);
		await_no_vgpu("undone");
	}
}

TEST(a_program_goes_into_another_vgpu)
{
	prepare(true);
	struct program program = write_down_once("from");
	create_vgpu("into-another-one", "400M");
	restore_and_wait(&program, "--vgpu into-another-one", path_of("from.image"));
	CHECK(!vgpu_exists("from"));
	CHECK(ps_shows("into-another-one", program.pid));
	uint64_t used = place_of("into-another-one", program.pid).used;
	check_charged("into-another-one", used);
	CHECK(used >= 64 * MIB);
	check_quota(&program);
	// Dump the restored program again. The image records that it is a tenant of the new vGPU.
	CHECK_RUN("dump --vgpu into-another-one --dir %s", path_of("into.image"));
	await_end(program.pid);
	check_charged("into-another-one", 0);
	restore_and_wait(&program, "", path_of("into.image"));
	check_charged("into-another-one", used);
	end(&program);
	check_charged("into-another-one", 0);
	// If the program does not fit into the vGPU, no process is made.
	empty_log(&program);
	CHECK_RUN("set into-another-one --memory 32M");
	CHECK_INT(run("restore --detach --vgpu into-another-one --dir %s", path_of("from.image")), 125);
	CHECK_CONTAINS(said, "vGPU into-another-one has ");
	CHECK_RUN("rm into-another-one");
}

// Starts a shell with two children in different vGPUs.
static pid_t start_two(struct program programs[2])
{
	static const char script[] =
		"for i in a b; do (eval \"$(%s run --vgpu two-$i -- sh -c 'export -p')\"; exec %s %s/two-$i 64 32 "
		"512) & done; wait";
	char command[4 * PATH_MAX];

	snprintf(command, sizeof command, script, VIRGATE, TENANT, directory);
	for (int i = 0; i < 2; i++) {
		snprintf(programs[i].file, sizeof programs[i].file, "%s", path_of(i ? "two-b" : "two-a"));
		unlink(programs[i].file);
	}
	fflush(stdout);
	pid_t shell = fork();
	if (shell == 0) {
		setsid();
		dup2(open("/dev/null", O_RDWR), 0);
		dup2(0, 1);
		dup2(0, 2);
		for (int fd = 3; fd < 1024; fd++)
			close(fd);
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	for (int i = 0; i < 2; i++) {
		await_round(&programs[i], 1);
		programs[i].pid = report_of(&programs[i]).pid;
	}
	return shell;
}

TEST(an_image_of_several_vgpus)
{
	struct program programs[2];

	prepare(true);
	create_vgpu("two-a", "256M");
	create_vgpu("two-b", "300M");
	pid_t shell = start_two(programs);
	uint64_t charged = charged_now("two-a");
	CHECK_RUN("dump --pid %d --dir %s", (int)shell, path_of("two.image"));
	waitpid(shell, NULL, 0);
	for (int i = 0; i < 2; i++)
		await_end(programs[i].pid);
	check_charged("two-a", 0);
	check_charged("two-b", 0);
	CHECK_RUN("rm two-a two-b");
	create_vgpu("two-c", "256M");
	CHECK_INT(run("restore --detach --vgpu two-c --dir %s", path_of("two.image")), 125);
	CHECK_CONTAINS(said, "the image has 2 vGPUs");
	CHECK_INT(run("restore --detach --vgpu two-a=two-c --dir %s", path_of("two.image")), 125);
	CHECK_CONTAINS(said, "vGPU two-b, which does not exist now");
	create_vgpu("two-b", "256M");
	unsigned rounds[2] = {report_of(&programs[0]).round, report_of(&programs[1]).round};
	CHECK_RUN("restore --detach --vgpu two-a=two-c --dir %s", path_of("two.image"));
	for (int i = 0; i < 2; i++)
		await_round(&programs[i], rounds[i] + 2);
	check_charged("two-c", charged);
	check_charged("two-b", charged);
	check_quota(&programs[0]);
	check_quota(&programs[1]);
	for (int i = 0; i < 2; i++) {
		kill(programs[i].pid, SIGKILL);
		await_end(programs[i].pid);
	}
	await_end(shell);
	check_charged("two-c", 0);
	// Both programs are restored into one vGPU.
	CHECK_RUN("set two-c --memory 400M");
	CHECK_RUN("restore --detach --vgpu two-a=two-c --vgpu two-b=two-c --dir %s", path_of("two.image"));
	check_charged("two-c", 2 * charged);
	for (int i = 0; i < 2; i++) {
		kill(programs[i].pid, SIGKILL);
		await_end(programs[i].pid);
	}
	await_end(shell);
	check_charged("two-c", 0);
}

TEST(zz_shut_down_the_daemon)
{
	prepare(false);
	run("shutdown");
}
