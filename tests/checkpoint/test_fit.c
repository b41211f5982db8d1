// Checks that an image that does not fit this machine is refused, with the name of the refusal, before anything
// changes. The test makes such an image by changing its description and renewing the checksum. The stand-in for CRIU is
// never started.
#include "checkpoint/image/text.h"
#include "checkpoint/machine/build_id.h"
#include "checkpoint/process/refusal.h"

#include <ctype.h>
#include <jansson.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/utsname.h>

#include "checkpoint_test.h"

// Returns an image of a subject that has ended.
static const char *image(void)
{
	static char path[PATH_MAX];

	if (!*path) {
		setenv("VIRGATE_CRIU", STANDIN_PROGRAM, 1);
		setenv("VIRGATE_SIM", "devices=2,names=Sim A:Sim B", 1);
		snprintf(path, sizeof path, "%s", path_of("image"));
		struct subject subject = start_subject(path_of("rounds"));
		check_goes_on(path_of("rounds"));
		CHECK_RUN("dump --pid %d --dir %s", (int)subject.pid, path);
		end_subject(subject);
	}
	unlink(path_of("said"));
	return path;
}

static json_t *description(void)
{
	char name[PATH_MAX + 32];

	snprintf(name, sizeof name, "%s/virgate.json.kept", image());
	if (access(name, F_OK) < 0)
		snprintf(name, sizeof name, "%s/virgate.json", image());
	json_t *loaded = json_load_file(name, 0, NULL);
	CHECK(loaded != NULL);
	json_object_del(loaded, "xxh3");
	return loaded;
}

static void put(const json_t *changed)
{
	char *text = image_text_seal(changed);

	CHECK(text != NULL);
	write_text("image/virgate.json", text);
	free(text);
}

// Replaces the value at a path in the description, such as "gpus/0/name".
static void set(json_t *group, const char *path, json_t *value)
{
	char step[64];

	CHECK(value != NULL);
	while (strchr(path, '/')) {
		snprintf(step, sizeof step, "%.*s", (int)strcspn(path, "/"), path);
		path += strlen(step) + 1;
		group = isdigit((unsigned char)step[0]) ? json_array_get(group, (size_t)atoi(step))
							: json_object_get(group, step);
		CHECK(group != NULL);
	}
	CHECK_INT(isdigit((unsigned char)*path) ? json_array_set_new(group, (size_t)atoi(path), value)
						: json_object_set_new(group, path, value),
		  0);
}

static void check_refused(const char *name)
{
	char wanted[64];

	int r = run("restore --dir %s --detach", image());
	if (r == 0)
		FAIL("it is restored: %s was to be refused", name);
	snprintf(wanted, sizeof wanted, "refused (%s): ", name);
	CHECK_CONTAINS(said, wanted);
	CHECK(access(path_of("said"), F_OK) < 0); // CRIU was not started
}

static void with(const char *path, json_t *value, const char *name, const char *words)
{
	json_t *original = description(), *changed = json_deep_copy(original);

	set(changed, path, value);
	put(changed);
	check_refused(name);
	CHECK_CONTAINS(said, words);
	put(original);
	json_decref(changed);
	json_decref(original);
}

// A restore of an unchanged image starts CRIU.
TEST(a_fitting_image_is_restored)
{
	CHECK_INT(run("restore --dir %s --detach", image()), 125);
	CHECK(access(path_of("said"), F_OK) == 0);
	CHECK(strstr(said, "refused") == NULL);
}

static const char *part(const char *name)
{
	static char path[PATH_MAX + 32];

	snprintf(path, sizeof path, "%s%s", image(), name);
	return path;
}

// Makes a file of the image writable for others, and checks that a restore refuses it. Leaves the file with the mode
// `after`.
static void check_written_to(const char *name, mode_t after, mode_t before)
{
	char wanted[64];

	CHECK_INT(chmod(part(name), before), 0);
	check_refused("other-owner");
	snprintf(wanted, sizeof wanted, "%s can be written to by others (mode %03o)", name, (unsigned)before);
	CHECK_CONTAINS(said, wanted);
	CHECK_INT(chmod(part(name), after), 0);
}

TEST(an_image_that_others_can_write_is_refused)
{
	CHECK_INT(chmod(image(), 0770), 0);
	check_refused("other-owner");
	CHECK_CONTAINS(said, "mode 770");
	CHECK_INT(symlink(image(), path_of("link")), 0); // the mode of a link's target counts
	CHECK_INT(run("restore --dir %s --detach", path_of("link")), 125);
	CHECK_CONTAINS(said, "mode 770");
	CHECK_INT(unlink(path_of("link")), 0);
	CHECK_INT(chmod(image(), 0755), 0); // others may read the image
	check_written_to("", 0755, 0757);
	check_written_to("/virgate.json", 0644, 0664);
	check_written_to("/tree-0", 0755, 0777);
	check_written_to("/tree-0/pages-1.img", 0644, 0666);
	CHECK_INT(run("restore --dir %s --detach", image()), 125);
	CHECK(strstr(said, "refused") == NULL);
	CHECK_INT(chmod(image(), 0700), 0);
	if (geteuid() != 0)
		SKIP("only root can give an image to somebody else");
	static const char *const parts[] = {"", "/virgate.json", "/tree-0", "/tree-0/pages-1.img"};
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		CHECK_INT(chown(part(parts[i]), 12345, (gid_t)-1), 0);
		check_refused("other-owner");
		CHECK_CONTAINS(said, part(parts[i]));
		CHECK_CONTAINS(said, " is user 12345's");
		CHECK_INT(chown(part(parts[i]), 0, (gid_t)-1), 0);
	}
}

static void under_kernel(const char *release, bool warned)
{
	json_t *original = description(), *changed = json_deep_copy(original);
	char words[128];

	set(changed, "kernel/release", json_string(release));
	put(changed);
	// CRIU is started, but the stand-in creates no process.
	CHECK_INT(run("restore --dir %s --detach", image()), 125);
	CHECK(access(path_of("said"), F_OK) == 0);
	CHECK(strstr(said, "refused") == NULL);
	snprintf(words, sizeof words, "the image is of Linux %s, and here is the older ", release);
	CHECK_INT(strstr(said, words) != NULL, warned);
	CHECK_INT(strstr(said, "Linux") != NULL, warned);
	put(original);
	json_decref(changed);
	json_decref(original);
}

TEST(an_older_kernel_gets_a_warning)
{
	struct utsname here;
	char release[64];
	int major, minor;

	CHECK_INT(uname(&here), 0);
	CHECK_INT(sscanf(here.release, "%d.%d", &major, &minor), 2);
	under_kernel(here.release, false);
	snprintf(release, sizeof release, "%d.%d.99-updated", major, minor);
	under_kernel(release, false);
	under_kernel("2.6.32", false);
	under_kernel("unheard of", false);
	snprintf(release, sizeof release, "%d.%d.0-next", major, minor + 1);
	under_kernel(release, true);
	snprintf(release, sizeof release, "%d.0.0", major + 1);
	under_kernel(release, true);
}

TEST(another_machine_is_refused)
{
	struct utsname here;

	CHECK_INT(uname(&here), 0);
	with("kernel/machine", json_string("sparc64"), "machine", here.machine);
	with("driver/version", json_string("1.02.03"), "driver", "1.02.03");
	with("criu", json_string("99.1"), "criu", "99.1");
	with("cpu/features", json_string("fpu avx9000 sse2 time_travel"), "processor", "lacks avx9000, time_travel");
}

static void *wait_here(void *user)
{
	pid_t *id = user;

	__atomic_store_n(id, gettid(), __ATOMIC_RELEASE);
	while (__atomic_load_n(id, __ATOMIC_ACQUIRE))
		usleep(1000);
	return NULL;
}

TEST(a_pid_that_is_taken_is_refused)
{
	json_t *original = description(), *changed = json_deep_copy(original);

	json_t *processes = json_object_get(changed, "processes");
	json_array_append_new(processes, json_deep_copy(json_array_get(processes, 0)));
	set(changed, "processes/1/pid", json_integer(getpid()));
	put(changed);
	check_refused("pid-taken");
	CHECK_CONTAINS(said, "is taken, by test-");
	put(original);
	json_decref(changed);
	json_decref(original);
	with("processes/0/threads/1", json_integer(getpid()), "pid-taken", "a thread of subject");
	pthread_t thread;
	pid_t id = 0;
	CHECK_INT(pthread_create(&thread, NULL, wait_here, &id), 0);
	while (!__atomic_load_n(&id, __ATOMIC_ACQUIRE))
		usleep(1000);
	with("processes/0/threads/1", json_integer(id), "pid-taken", "by a thread of process");
	__atomic_store_n(&id, 0, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
}

TEST(files_must_be_there_and_the_same)
{
	with("processes/0/folder", json_string("/nonexistent/folder"), "file-missing", "/nonexistent/folder");
	with("mapped_files/0/path", json_string("/nonexistent/program"), "file-missing", "/nonexistent/program");
	with("mapped_files/0/build_id", json_string("00112233445566778899"), "other-build", "not 0011223344556677");
	with("open_files/0/path", json_string("/nonexistent/data"), "file-missing", "put it back");
	with("open_files/0/bytes", json_integer(123456), "file-changed", "had 123456");
	// Reading the build id of a pipe without a writer must not block.
	char build[BUILD_ID_TEXT];
	CHECK_INT(mkfifo(path_of("pipe"), 0600), 0);
	alarm(60);
	CHECK_INT(build_id_read(path_of("pipe"), build), 0);
	alarm(0);
	CHECK_STR(build, "");
	with("mapped_files/0/path", json_string(path_of("pipe")), "other-build", "(none)");
	// An open file has grown since the dump.
	image();
	FILE *rounds = fopen(path_of("rounds"), "a");
	CHECK(rounds && fputs("more", rounds) >= 0 && fclose(rounds) == 0);
	check_refused("file-changed");
	CHECK_CONTAINS(said, "has 8 bytes here, and had 4");
	CHECK_CONTAINS(said, "truncate");
	CHECK_INT(truncate(path_of("rounds"), 4), 0);
	CHECK_INT(rename(path_of("rounds"), path_of("elsewhere")), 0);
	check_refused("file-missing");
	CHECK_INT(mkdir(path_of("rounds"), 0700), 0);
	check_refused("file-changed");
	CHECK_INT(rmdir(path_of("rounds")), 0);
	CHECK_INT(rename(path_of("elsewhere"), path_of("rounds")), 0);
}

TEST(another_gpu_is_refused)
{
	static const char gone[] = "GPU-00000000-0000-0000-0000-000000000000";
	json_t *original = description(), *changed = json_deep_copy(original);

	set(changed, "gpus/0/uuid", json_string(gone));
	set(changed, "processes/0/gpus/0/uuid", json_string(gone));
	put(changed);
	check_refused("gpu-missing");
	CHECK_CONTAINS(said, gone);
	put(original);
	json_decref(changed);
	json_decref(original);
	with("gpus/0/name", json_string("Other GPU"), "gpu-model", "is a Sim A, and the image is of a Other GPU");
	with("gpus/0/compute_capability", json_string("10.3"), "gpu-model", "10.3");
	with("gpus/0/ecc", json_false(), "gpu-setting", "has error correction (ECC) on, and had it off");
	with("gpus/0/mig", json_true(), "gpu-setting", "nvidia-smi -mig 1");
	with("gpus/0/held", json_integer((json_int_t)1 << 44), "device-memory",
	     "8.0 GiB free, and the image takes 16.0 TiB");
}

TEST(the_mode_of_the_gpu_counts)
{
	image();
	setenv("VIRGATE_SIM", "devices=2,names=Sim A:Sim B,mode=prohibited", 1);
	check_refused("gpu-setting");
	CHECK_CONTAINS(said, "prohibited");
	// In the exclusive mode, an image fits if no other process uses the GPU.
	setenv("VIRGATE_SIM", "devices=2,names=Sim A:Sim B,mode=exclusive", 1);
	CHECK_INT(run("restore --dir %s --detach", image()), 125);
	CHECK(strstr(said, "refused") == NULL);
	struct subject subject = start_subject(path_of("others"));
	check_goes_on(path_of("others"));
	check_refused("gpu-setting");
	CHECK_CONTAINS(said, "exclusive-process, for one process: 1 of the image's use it, and 1 here do");
	end_subject(subject);
	setenv("VIRGATE_SIM", "devices=2,names=Sim A:Sim B", 1);
}

TEST(host_memory_must_be_available)
{
	json_t *original = description(), *changed = json_deep_copy(original);

	set(changed, "processes/0/host_memory", json_integer((json_int_t)1 << 50));
	json_t *file;
	size_t i;
	json_array_foreach(json_object_get(changed, "files"), i, file)
		// Change the size of a file that is not divided into chunks. Otherwise the lengths of the chunks would
		// have to add up to the new size.
		if (json_object_get(file, "xxh3")) {
			json_object_set_new(file, "bytes", json_integer((json_int_t)1 << 40));
			break;
		}
	put(changed);
	check_refused("host-memory");
	CHECK_CONTAINS(said, "1.0 TiB of host memory");
	put(original);
	json_decref(changed);
	json_decref(original);
}

// A GPU that no process of the image used need not exist.
TEST(an_unused_gpu_may_be_missing)
{
	json_t *original = description(), *changed = json_deep_copy(original);

	set(changed, "gpus/1/uuid", json_string("GPU-00000000-0000-0000-0000-000000000000"));
	put(changed);
	CHECK_INT(run("restore --dir %s --detach", image()), 125);
	CHECK(strstr(said, "refused") == NULL);
	put(original);
	json_decref(changed);
	json_decref(original);
}

// ---- before a dump ------------------------------------------------------------------------------------

// Starts a program that holds device memory and does nothing.
static pid_t start_weights(const char *file, const char *size)
{
	pid_t pid = fork();

	if (pid == 0) {
		setenv("LD_LIBRARY_PATH", SIM, 1);
		execl(WEIGHTS, WEIGHTS, file, size, (char *)NULL);
		_exit(127);
	}
	for (int i = 0; i < 6000; i++) {
		char text[64] = "";
		if (vg_file_read(file, text, sizeof text) > 0 && strstr(text, "ready"))
			return pid;
		CHECK_INT(waitpid(pid, NULL, WNOHANG), 0);
		usleep(10000);
	}
	FAIL("%s is not ready", WEIGHTS);
}

// Checks that the program still runs, and ends it. Does not verify all of its memory, which would take long.
static void end_weights(pid_t pid)
{
	char path[64], text[8192];

	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	CHECK(vg_file_read(path, text, sizeof text) > 0);
	CHECK(strstr(text, "\nState:\tT") == NULL);
	kill(pid, SIGKILL);
	CHECK_INT(waitpid(pid, NULL, 0), pid);
}

TEST(device_memory_must_fit_host_memory)
{
#ifdef __SANITIZE_THREAD__
	SKIP("the thread sanitizer leaves no addresses for a device of 1 TiB");
#endif
	setenv("VIRGATE_CRIU", STANDIN_PROGRAM, 1);
	setenv("VIRGATE_SIM", "memory=1T,overcommit=1", 1);
	setenv("VIRGATE_SIM_DIR", path_of("large"), 1);
	pid_t pid = start_weights(path_of("ready"), "1+1000000");
	CHECK_INT(run("dump --pid %d --dir %s", (int)pid, path_of("too-large")), 1);
	CHECK_CONTAINS(said, "refused (host-memory): the device memory goes to host memory and takes 976.6 GiB");
	CHECK_CONTAINS(said, "the machine has");
	CHECK(access(path_of("too-large"), F_OK) < 0);
	end_weights(pid);
}

// Runs in a mount namespace of its own, so that no mount is left on the machine.
TEST(an_image_must_fit_the_disk)
{
	char image_path[PATH_MAX];

	setenv("VIRGATE_CRIU", STANDIN_PROGRAM, 1);
	CHECK_INT(mkdir(path_of("small"), 0700), 0);
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", path_of("small"), "tmpfs", 0, "size=8M") < 0)
		SKIP("this user may not mount a small disk");
	snprintf(image_path, sizeof image_path, "%s/image", path_of("small"));
	pid_t pid = start_weights(path_of("ready2"), "64");
	int r = run("dump --pid %d --dir %s", (int)pid, image_path);
	CHECK_INT(umount2(path_of("small"), MNT_DETACH), 0);
	CHECK_INT(r, 1);
	CHECK_CONTAINS(said, "refused (disk): the image takes up to ");
	CHECK_CONTAINS(said, "has 8.0 MiB free");
	end_weights(pid);
}
