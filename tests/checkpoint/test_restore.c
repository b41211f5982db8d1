// Makes a restore fail once at every step, in each possible way, with the CRIU of this machine. No process may be left
// unless it can be recovered, and the image must be unchanged.
#include "virgate/checkpoint.h"

#include <dirent.h>
#include <jansson.h>

#include "checkpoint_test.h"

static void setup(void)
{
	need_criu();
	setenv("VIRGATE_LIBDIR", BUILD, 1);
	unsetenv("VIRGATE_SIM_FAULT");
}

// Dumps a subject, which then ends.
static struct subject dumped(const char *rounds, const char *image, const char *kinds)
{
	struct subject subject = start_subject_with(path_of(rounds), kinds);

	check_goes_on(path_of(rounds));
	CHECK_RUN("dump --pid %d --dir %s", (int)subject.pid, path_of(image));
	wait_gone(subject.pid);
	return subject;
}

static int coordinate(pid_t pid, const char *image, const char *phase, const char *what)
{
	return run_command("exec %s restore %d %s %s %s 2>&1", COORDINATOR, (int)pid, path_of(image), phase, what);
}

// Checks that the image is unharmed: the subject continues from it.
static void check_image(struct subject subject, const char *rounds, const char *image)
{
	CHECK_RUN("restore --detach --dir %s", path_of(image));
	check_goes_on(path_of(rounds));
	kill(-subject.pid, SIGKILL);
	wait_gone(subject.pid);
}

TEST(a_restore_can_be_stopped_until_processes_exist)
{
	static const char *const steps[] = {"verify", "host-in"};

	setup();
	struct subject subject = dumped("stop", "stopped", "");
	for (int i = 0; i < 2; i++) {
		CHECK_INT(coordinate(subject.pid, "stopped", steps[i], "stop"), 1);
		CHECK_CONTAINS(said, steps[i]);
		CHECK(is_gone(subject.pid));
		check_image(subject, "stop", "stopped");
	}
	// A restore cannot be stopped at a later step.
	CHECK_INT(coordinate(subject.pid, "stopped", "device-in", "stop"), 0);
	check_goes_on(path_of("stop"));
	end_subject(subject);
}

TEST(a_killed_restore_leaves_no_process_or_recovers)
{
	static const char *const steps[] = {"verify", "host-in", "device-in", "unlock"};

	setup();
	struct subject subject = dumped("kill", "killed", "cuda-child");
	for (int i = 0; i < 4; i++) {
		if (coordinate(subject.pid, "killed", steps[i], "kill") != -SIGKILL)
			FAIL("%s: %s", steps[i], said);
		CHECK_INT(is_gone(subject.pid), i < 2);
		if (i >= 2) {
			CHECK_RUN("recover --pid %d", (int)subject.pid);
			CHECK_CONTAINS(said, "and 1 more run again");
			check_goes_on(path_of("kill"));
			check_goes_on(path_of("kill.child"));
			kill(-subject.pid, SIGKILL);
			wait_gone(subject.pid);
		}
		check_image(subject, "kill", "killed");
	}
	waitpid(subject.guard, NULL, 0);
}

TEST(each_driver_call_fails_once_and_no_process_is_left)
{
	static const struct {
		const char *fault, *step, *text;
	} cases[] = {
		{"cuCheckpointProcessGetRestoreThreadId=CUDA_ERROR_NOT_INITIALIZED", "step host-in",
		 "the driver does not know process "},
		{"cuCheckpointProcessRestore=CUDA_ERROR_OUT_OF_MEMORY", "step device-in", "CUDA_ERROR_OUT_OF_MEMORY"},
		{"cuCheckpointProcessRestore=CUDA_ERROR_INVALID_VALUE", "step device-in", "CUDA_ERROR_INVALID_VALUE"},
		{"cuCheckpointProcessUnlock=CUDA_ERROR_UNKNOWN", "step unlock", "CUDA_ERROR_UNKNOWN"},
	};

	setup();
	struct subject subject = dumped("driver", "faulty", "");
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		setenv("VIRGATE_SIM_FAULT", cases[i].fault, 1);
		int r = run("restore --detach --dir %s", path_of("faulty"));
		unsetenv("VIRGATE_SIM_FAULT");
		if (r != 125)
			FAIL("%s: %d: %s", cases[i].fault, r, said);
		CHECK_CONTAINS(said, cases[i].step);
		CHECK_CONTAINS(said, cases[i].text);
		CHECK_CONTAINS(said, "the processes were ended, and the image is as it was");
		CHECK(is_gone(subject.pid));
	}
	check_image(subject, "driver", "faulty");
	waitpid(subject.guard, NULL, 0);
}

TEST(a_process_that_ends_meanwhile_fails_the_restore)
{
	setup();
	struct subject subject = dumped("ends", "ended", "child");
	CHECK_INT(coordinate(subject.pid, "ended", "device-in", "end"), 1);
	CHECK_CONTAINS(said, "the processes were ended");
	CHECK(is_gone(subject.pid));
	check_image(subject, "ends", "ended");
	waitpid(subject.guard, NULL, 0);
}

// Makes a CRIU that does its work, and then runs `after`.
static void wrap_criu(const char *after)
{
	const char *criu = getenv("VIRGATE_CRIU");
	char text[2 * PATH_MAX];

	snprintf(text, sizeof text, "#!/bin/sh\n%s \"$@\"\nr=$?\ncase $1 in restore) %s;; esac\nexit $r\n",
		 criu && *criu ? criu : "criu", after);
	write_text("criu", text);
	CHECK_INT(chmod(path_of("criu"), 0755), 0);
	setenv("VIRGATE_CRIU", path_of("criu"), 1);
}

TEST(a_failing_criu_leaves_no_process)
{
	setup();
	const char *before = getenv("VIRGATE_CRIU");
	char *kept = before ? strdup(before) : NULL;
	struct subject subject = dumped("criu-fails", "unmade", "");

	wrap_criu("kill -9 $(cat $STANDIN/pid); exit 1");
	char pid[16];
	snprintf(pid, sizeof pid, "%d", (int)subject.pid);
	write_text("pid", pid);
	CHECK_INT(run("restore --detach --dir %s", path_of("unmade")), 125);
	CHECK_CONTAINS(said, "step host-in");
	CHECK_CONTAINS(said, "CRIU restore");
	usleep(200000);
	CHECK(is_gone(subject.pid));
	unsetenv("VIRGATE_CRIU");
	if (kept)
		setenv("VIRGATE_CRIU", kept, 1);
	check_image(subject, "criu-fails", "unmade");
	// The coordinator dies while CRIU runs, which ends CRIU. The processes are stopped, and can be recovered.
	wrap_criu("kill -9 $PPID");
	CHECK_INT(run("restore --detach --dir %s", path_of("unmade")), 128 + SIGKILL);
	CHECK_INT(kill(subject.pid, 0), 0);
	CHECK_RUN("recover --pid %d", (int)subject.pid);
	CHECK_CONTAINS(said, "runs again");
	check_goes_on(path_of("criu-fails"));
	kill(-subject.pid, SIGKILL);
	wait_gone(subject.pid);
	unsetenv("VIRGATE_CRIU");
	if (kept)
		setenv("VIRGATE_CRIU", kept, 1);
	free(kept);
	waitpid(subject.guard, NULL, 0);
}

// The children of a hanging CRIU may have left its session. They must end, too.
TEST(a_criu_that_hangs_is_ended_when_asked_to_stop)
{
	setup();
	const char *before = getenv("VIRGATE_CRIU");
	char *kept = before ? strdup(before) : NULL;
	struct subject subject = dumped("criu-hangs", "hung", "");
	char command[2 * PATH_MAX];

	write_text("criu", "#!/bin/sh\ncase $1 in --version) echo Version: 4.2; exit;; esac\n"
			   "setsid sleep 300 & echo $! >$STANDIN/straggler\nsleep 300\n");
	CHECK_INT(chmod(path_of("criu"), 0755), 0);
	setenv("VIRGATE_CRIU", path_of("criu"), 1);
	uint64_t start = vg_clock_monotonic_ns();
	snprintf(command, sizeof command, "timeout -s INT 1 %s restore --detach --dir %s >%s 2>&1", VIRGATE,
		 path_of("hung"), path_of("hung.log"));
	// 124 is the exit code of timeout(1), after the program has ended.
	CHECK_INT(WEXITSTATUS(system(command)), 124);
	CHECK(vg_clock_monotonic_ns() - start < UINT64_C(60000000000));
	CHECK_CONTAINS(text_of("hung.log"), "step host-in: stopped while CRIU was at work, as asked");
	CHECK(is_gone(atoi(text_of("straggler"))));
	CHECK(is_gone(subject.pid));
	unsetenv("VIRGATE_CRIU");
	if (kept)
		setenv("VIRGATE_CRIU", kept, 1);
	free(kept);
	check_image(subject, "criu-hangs", "hung");
	waitpid(subject.guard, NULL, 0);
}

// Restores a process on another GPU by --gpu-map. The driver refuses that if the process sees only some of the GPUs. It
// refuses after CRIU has made the process, but no process may be left.
TEST(a_process_that_sees_a_part_of_the_gpus_is_not_moved)
{
	setup();
	setenv("VIRGATE_SIM", "devices=2,driver=13000", 1);
	setenv("VIRGATE_SIM_DIR", path_of("node2"), 1);
	setenv("CUDA_VISIBLE_DEVICES", "0", 1);
	struct subject subject = start_subject(path_of("masked"));
	unsetenv("CUDA_VISIBLE_DEVICES");
	check_goes_on(path_of("masked"));
	CHECK_RUN("dump --pid %d --dir %s", (int)subject.pid, path_of("mask"));
	wait_gone(subject.pid);
	CHECK_INT(run("restore --detach --dir %s --gpu-map 0=1 --gpu-map 1=0", path_of("mask")), 125);
	CHECK_CONTAINS(said, "CUDA_ERROR_INVALID_VALUE");
	CHECK_CONTAINS(said, "the image is as it was");
	CHECK(is_gone(subject.pid));
	check_image(subject, "masked", "mask");
	waitpid(subject.guard, NULL, 0);
	setenv("VIRGATE_SIM", "1", 1);
	setenv("VIRGATE_SIM_DIR", path_of("node"), 1);
}

// ---- an image that is damaged --------------------------------------------------------------------------

// The byte that a test damages. It is in the last chunk with data, in the last file of an image that has chunks.
struct place {
	// `words`: what the message about the refused restore must contain.
	char file[PATH_MAX], words[160];
	uint64_t byte;
};

static json_t *last_pages(const json_t *description)
{
	json_t *file, *last = NULL;
	long highest = -1;
	size_t i;

	json_array_foreach(json_object_get(description, "files"), i, file) {
		const char *name = json_string_value(json_object_get(file, "name"));
		const char *number = name ? strstr(name, "/pages-") : NULL;
		if (number && atol(number + strlen("/pages-")) > highest) {
			highest = atol(number + strlen("/pages-"));
			last = file;
		}
	}
	CHECK(last != NULL);
	return last;
}

static unsigned char byte_at(const char *file, uint64_t at)
{
	_cleanup_close_ int fd = open(file, O_RDONLY | O_CLOEXEC);
	unsigned char value = 0;

	CHECK_INT(pread(fd, &value, 1, (off_t)at), 1);
	return value;
}

static struct place last_place(const char *image)
{
	char name[PATH_MAX + 16];
	struct place place;

	snprintf(name, sizeof name, "%s/virgate.json", image);
	json_t *description = json_load_file(name, 0, NULL), *file = last_pages(description);
	json_t *chunks = json_object_get(file, "chunks");
	size_t count = json_array_size(chunks), last = count;
	uint64_t bytes = (uint64_t)json_integer_value(json_object_get(file, "bytes")), end = bytes;
	uint64_t chunk = (uint64_t)json_integer_value(json_object_get(file, "chunk_bytes"));
	bool plain = strcmp(json_string_value(json_object_get(file, "compression")), "none") == 0;
	const char *leaf = json_string_value(json_object_get(file, "name"));

	// With one chunk only, CRIU would get nothing before the damaged one.
	CHECK(count > 1);
	while (last > 0 && strcmp(strchr(json_string_value(json_array_get(chunks, last - 1)), ' '), " 0") == 0)
		last--;
	CHECK(last > 1);
	snprintf(place.file, sizeof place.file, "%.2000s/%.200s", image, leaf);
	if (plain && last * chunk < end)
		end = last * chunk;
	// In an uncompressed file, zeros may be a hole, which a restore does not read. So choose a byte that is not
	// zero.
	for (place.byte = end - 1; plain && byte_at(place.file, place.byte) == 0; place.byte--)
		CHECK(place.byte > (last - 1) * chunk);
	snprintf(place.words, sizeof place.words, "%.80s is damaged: chunk %zu of %zu", leaf, last - 1, count);
	json_decref(description);
	return place;
}

// The state before a refused restore. It must be the same afterwards.
struct world {
	uint32_t round[2];
	struct timespec written[2];
	long long device, charged;
};

static long long number_behind(const char *key)
{
	const char *at = strstr(said, key);

	CHECK(at != NULL);
	return atoll(at + strlen(key));
}

static struct world look_around(const char *rounds)
{
	struct world world;
	char name[PATH_MAX + 16];
	struct stat info;

	for (int i = 0; i < 2; i++) {
		snprintf(name, sizeof name, "%s%s", rounds, i ? ".child" : "");
		CHECK_INT(stat(name, &info), 0);
		world.round[i] = round_of(name);
		world.written[i] = info.st_mtim;
	}
	CHECK_RUN("devices --json");
	world.device = number_behind("\"memory_used\": ");
	CHECK_RUN("inspect flip --json");
	world.charged = number_behind("\"charged\": ");
	return world;
}

// Checks that no restored process exists or has run. Checks also that no device memory is allocated or charged for one.
static void check_nothing_happened(const char *rounds, const struct world *before, pid_t pid)
{
	struct world now = look_around(rounds);

	// CRIU has killed the processes, which end after a moment.
	wait_gone(pid);
	for (int i = 0; i < 2; i++) {
		CHECK_INT(now.round[i], before->round[i]);
		CHECK_INT(now.written[i].tv_sec, before->written[i].tv_sec);
		CHECK_INT(now.written[i].tv_nsec, before->written[i].tv_nsec);
	}
	CHECK_INT(now.device, 0);
	CHECK_INT(now.charged, 0);
	CHECK_INT(before->device, 0);
	CHECK_INT(before->charged, 0);
}

static void check_comes_back(const char *rounds, const char *how, const char *image, pid_t pid)
{
	char child[PATH_MAX + 16];

	CHECK_RUN("restore --detach %s %s", how, image);
	snprintf(child, sizeof child, "%s.child", rounds);
	check_goes_on(rounds);
	check_goes_on(child);
	struct world now = look_around(rounds);
	CHECK(now.device > 0 && now.charged > 0);
	kill(-pid, SIGKILL);
	kill(pid, SIGKILL);
	wait_gone(pid);
	// The daemon refunds a dead process after a moment.
	for (int i = 0; i < 500 && (now.charged || now.device); i++) {
		usleep(10000);
		now = look_around(rounds);
	}
	CHECK(!now.charged && !now.device);
}

// Checks that a restore is refused, and that nothing has changed. `how` is the option of `virgate restore` that takes
// `image`, an image or a stream.
static void check_refused(const char *rounds, const char *how, const char *image, pid_t pid, const char *step,
			  const char *words)
{
	struct world before = look_around(rounds);

	int r = run("restore --detach %s %s", how, image);
	if (r != 125)
		FAIL("%s %s: %d: %s", how, image, r, said);
	CHECK_CONTAINS(said, step);
	CHECK_CONTAINS(said, words);
	check_nothing_happened(rounds, &before, pid);
}

// Dumps a subject, and removes all else that belongs to it.
static pid_t put_away(const char *rounds, const char *image, const char *method)
{
	pid_t runs, pid = start_in_vgpu("flip", rounds, "cuda-child", &runs);

	CHECK_RUN("dump --pid %d --dir %s --compress %s", (int)pid, image, method);
	CHECK_INT(end_of_run(runs), 75);
	wait_gone(pid);
	return pid;
}

// CRIU has made the processes, which are still stopped, and has read all pages but the last when the damage is found.
TEST(a_flipped_bit_in_the_last_chunk_lets_no_process_run)
{
	static const char *const methods[] = {"none", "lz4", "zstd"};

	setup();
	// setup() has set this variable for the coordinator. `virgate` must find the interposer itself, in another
	// directory.
	unsetenv("VIRGATE_LIBDIR");
	with_vgpu("flip");
	for (int i = 0; i < 3; i++) {
		char rounds[PATH_MAX], image[PATH_MAX], name[32];
		snprintf(name, sizeof name, "flip-%s", methods[i]);
		snprintf(rounds, sizeof rounds, "%s", path_of(name));
		snprintf(name, sizeof name, "flipped-%s", methods[i]);
		snprintf(image, sizeof image, "%s", path_of(name));
		pid_t pid = put_away(rounds, image, methods[i]);
		struct place place = last_place(image);
		flip_bit(place.file, place.byte, 0);
		// The restore fails in step host-in, before the first call to the driver.
		check_refused(rounds, "--dir", image, pid, "step host-in", place.words);
		flip_bit(place.file, place.byte, 0);
		check_comes_back(rounds, "--dir", image, pid);
	}
	CHECK_RUN("rm flip");
	run("shutdown");
}

static bool is_empty(const char *path)
{
	DIR *opened = opendir(path);
	int count = 0;

	CHECK(opened != NULL);
	while (readdir(opened))
		count++;
	closedir(opened);
	return count == 2;
}

static void send_to_file(const char *image, const char *file)
{
	_cleanup_close_ int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	if (vg_checkpoint_send(image, fd))
		FAIL("%s", vg_last_error()->text);
}

// Of an incomplete stream, no process may be made.
TEST(a_cut_or_damaged_stream_lets_no_process_run)
{
	char rounds[PATH_MAX], image[PATH_MAX], stream[PATH_MAX];
	struct stat info;

	setup();
	// setup() has set this variable for the coordinator. `virgate` must find the interposer itself, in another
	// directory.
	unsetenv("VIRGATE_LIBDIR");
	with_vgpu("flip");
	CHECK_INT(mkdir(path_of("tmp"), 0700), 0);
	setenv("TMPDIR", path_of("tmp"), 1);
	snprintf(rounds, sizeof rounds, "%s", path_of("streamed"));
	snprintf(image, sizeof image, "%s", path_of("sent"));
	snprintf(stream, sizeof stream, "%s", path_of("stream"));
	pid_t pid = put_away(rounds, image, "lz4");
	send_to_file(image, stream);
	CHECK_INT(stat(stream, &info), 0);
	struct place place = {.byte = (uint64_t)info.st_size / 2};
	snprintf(place.file, sizeof place.file, "%s", stream);
	flip_bit(place.file, place.byte, 0);
	check_refused(rounds, "--from - <", stream, pid, "", "is damaged: its checksum is another");
	CHECK(is_empty(path_of("tmp")));
	CHECK_INT(truncate(stream, info.st_size / 2), 0);
	check_refused(rounds, "--from - <", stream, pid, "", "stops before its end");
	CHECK(is_empty(path_of("tmp")));
	send_to_file(image, stream);
	check_comes_back(rounds, "--from - <", stream, pid);
	CHECK(is_empty(path_of("tmp")));
	unsetenv("TMPDIR");
	CHECK_RUN("rm flip");
	run("shutdown");
}

// A restore does not need root, only the capabilities that the doctor names. In a container, CAP_SETPCAP may be one of
// them.
TEST(the_named_capabilities_suffice)
{
	static const char script[] =
		"cd $1 && umask 077 && mkdir run state node\n"
		"export HOME=$1 TMPDIR=$1 VIRGATE_SIM_DIR=$1/node VIRGATE_RUNTIME_DIR=$1/run "
		"VIRGATE_STATE_DIR=$1/state\n"
		"[ -x $2 ] && [ -x $3 ] && [ -x ${VIRGATE_CRIU:-/} ] || { echo not to be run by others; exit 77; }\n"
		"setsid $3 $1/rounds </dev/null >/dev/null 2>&1 & pid=$!\n"
		"sleep 1; $2 dump --pid $pid --dir $1/image && $2 restore --dir $1/image --detach </dev/null || exit "
		"1\n"
		"before=$(od -An -tu4 rounds); sleep 1; after=$(od -An -tu4 rounds); kill -9 $pid\n"
		"[ $after -gt $before ] && echo it goes on, as user $(id -u)\n";
	char other[] = "/tmp/virgate-rights.XXXXXX", command[64];

	setup();
	CHECK(mkdtemp(other) != NULL);
	CHECK_INT(chown(other, 65534, 65534), 0);
	write_text("rights.sh", script);
	int status = run_command(
		"caps=+checkpoint_restore,+sys_ptrace,+setpcap; setpriv --reuid 65534 --regid 65534 --clear-groups "
		"--inh-caps $caps --ambient-caps $caps sh -s %s %s %s <%s 2>&1",
		other, VIRGATE, SUBJECT, path_of("rights.sh"));
	snprintf(command, sizeof command, "rm -rf %s", other);
	CHECK_INT(system(command), 0);
	if (status == 77 || strstr(said, "setpriv: "))
		SKIP("%s", said);
	CHECK_CONTAINS(said, "it goes on, as user 65534");
	CHECK_INT(status, 0);
}
