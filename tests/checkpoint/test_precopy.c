// Tests migrate --precopy. Rounds transfer device memory while the program runs. In the end the receiver must have the
// memory that the program had when it was stopped. Uses the stand-in for CRIU, and a receiver that the test plays.
#include <glob.h>

#include "base/status.h"
#include "checkpoint/precopy.h"
#include "evictable_test.h"
#include "precopy_test.h"
#include "virgate/image.h"

// ---- the sender ------------------------------------------------------------------------------------------

static struct program start_changing(const char *vgpu, const char *changes)
{
	mkdir(path_of("tmp"), 0700);
	setenv("TMPDIR", path_of("tmp"), 1);
	if (run("create %s --memory 256M --evictable", vgpu))
		FAIL("create %s: %s", vgpu, said);
	if (changes)
		setenv("TENANT_CHANGES", changes, 1);
	struct program program = start(vgpu, vgpu, "64", "32", "512");
	unsetenv("TENANT_CHANGES");
	return program;
}

static void check_no_scratch(void)
{
	char pattern[PATH_MAX];

	snprintf(pattern, sizeof pattern, "%s/virgate-*", path_of("tmp"));
	for (int i = 0; i < 500; i++) { // the guard process of a killed command may still use the file
		glob_t found = {0};
		bool none = glob(pattern, 0, NULL, &found) == GLOB_NOMATCH;
		globfree(&found);
		if (none)
			return;
		usleep(10000);
	}
	FAIL("%s: something is left", pattern);
}

static void remove_image(const char *name)
{
	char command[PATH_MAX + 16];

	snprintf(command, sizeof command, "rm -rf %s", path_of(name));
	CHECK_INT(system(command), 0);
}

static int migrate(const char *vgpu, const char *more)
{
	return run("migrate --vgpu %s --precopy --to unix:%s %s", vgpu, path_of("socket"), more);
}

// ---- memory on the receiver ------------------------------------------------------------------------------

// The program changes blocks all the time, from before the first round until it is stopped.
TEST(the_receiver_has_the_memory_of_the_stop)
{
	static const char *const how[] = {"", "--compress lz4"};

	prepare(false);
	struct program program = start_changing("changing", "4");
	struct vg_ledger_tenant before = place_of("changing", program.pid);
	for (int i = 0; i < 2; i++) {
		pid_t far = start_far_side(&program, 4, REFUSES_AFTER_LOOK);
		CHECK_INT(migrate("changing", how[i]), 1);
		check_far_side(far);
		CHECK_CONTAINS(said, "the other side: seen enough");
		CHECK_CONTAINS(said, "run on as before");
		check_looks_on(&program);
		check_no_scratch();
		remove_image("far.image");
	}
	CHECK_INT(place_of("changing", program.pid).used, before.used);
	end(&program);
}

TEST(unchanged_memory_is_sent_once)
{
	prepare(false);
	struct program program = start_changing("constant", NULL);
	pid_t far = start_far_side(&program, 0, REFUSES_AFTER_LOOK);

	CHECK_INT(migrate("constant", ""), 1);
	check_far_side(far);
	check_looks_on(&program);
	check_no_scratch();
	remove_image("far.image");
	end(&program);
}

// Tests the whole migration, if there is a CRIU.
TEST(a_program_migrates_and_continues)
{
	prepare(true);
	struct program program = start_changing("goes", "1");
	unlink(path_of("socket"));
	pid_t far = start_receiver(NULL);
	if (migrate("goes", ""))
		FAIL("%s; there: %s", said, text_of("far.log"));
	CHECK_CONTAINS(said, " while they ran; they stood still for ");
	check_far_side(far);
	await_run(&program);
	check_looks_on(&program);
	check_no_scratch();
	kill(program.pid, SIGKILL);
	await_end(program.pid);
}

// Uses a real receiver with the stand-in for CRIU. The process that the stand-in makes is not a tenant, so the restore
// fails on both sides. By then, the process has the file of host memory that the precopy rounds have filled. The file
// must be removed with the process.
TEST(filled_memory_is_removed_with_a_failed_restore)
{
	char pid[16], *image;

	prepare(false);
	if (geteuid() != 0)
		SKIP("only root may make a process with a certain pid");
	struct program program = start_changing("nowhere", "4");
	mkdir(path_of("far"), 0700);
	setenv("AGAIN", AGAIN, 1);
	snprintf(pid, sizeof pid, "%d", (int)program.pid);
	write_text("again", pid);
	write_text("far/again", pid);
	unlink(path_of("socket"));
	pid_t far = start_receiver(path_of("far"));
	CHECK_INT(migrate("nowhere", ""), 1);
	CHECK_CONTAINS(said, "they run nowhere, and their image is ");
	image = strstr(said, "their image is ") + strlen("their image is ");
	image[strcspn(image, ":")] = '\0';
	char command[PATH_MAX + 64];
	snprintf(command, sizeof command, "%s image verify %s >/dev/null && rm -r %.*s", VIRGATE, image,
		 (int)strlen(image) - (int)strlen("/image"), image);
	CHECK_INT(system(command), 0);
	waitpid(far, NULL, 0);
	CHECK_CONTAINS(text_of("far.log"), "does not have the slot in vGPU nowhere that the image records");
	waitpid(program.run, NULL, 0);
	CHECK_INT(count_files(program.pid), 0);
	check_no_scratch();
	unlink(path_of("again"));
}

// ---- warnings --------------------------------------------------------------------------------------------

// One program changes all its memory all the time, and the other one none. The library returns the warning even though
// the receiver refuses the image.
TEST(a_program_that_changes_too_much_gets_a_warning)
{
	struct vg_checkpoint_result result = {0};
	char to[PATH_MAX + 8];

	prepare(false);
	struct program program = start_changing("restless", "32");
	struct program calm = start_changing("calm", NULL);
	for (int i = 0; i < 2; i++) {
		const struct vg_dump_options dump = {
			.size = sizeof dump, .vgpu = i ? "calm" : "restless", .dir = path_of("near.image")};
		pid_t far = start_far_side(i ? &calm : &program, i ? 0 : 32, REFUSES_AFTER_LOOK);
		snprintf(to, sizeof to, "unix:%s", path_of("socket"));
		const struct vg_migrate_options options = {
			.size = sizeof options, .dump = &dump, .to = to, .precopy = 1};
		CHECK_INT(vg_checkpoint_migrate(&options, &result), VG_POLICY);
		check_far_side(far);
		CHECK_INT(result.rounds, 2);
		CHECK(result.seconds[VG_CHECKPOINT_PRECOPY] > 0);
		if (i) {
			CHECK_STR(result.warning, "");
			// All blocks of 2 MiB are equal, so only one is sent.
			CHECK_INT(result.precopied_bytes, 2 * MIB);
		} else {
			CHECK_CONTAINS(result.warning, "copying ahead did not help: ");
			CHECK(result.precopied_bytes > 0);
		}
		remove_image("far.image");
	}
	end(&program);
	end(&calm);
}

TEST(programs_without_precopy_are_refused_or_warned)
{
	prepare(false);
	create_vgpu("fixed", "256M");
	struct program program = start("fixed", "fixed", "64", "32", "512");
	pid_t far = start_far_side(&program, 0, CLOSES_IN_ROUNDS);
	CHECK_INT(migrate("fixed", ""), 1);
	CHECK_CONTAINS(said, "does not run in an evictable vGPU");
	CHECK_CONTAINS(said, "migrate it without --precopy");
	int status;
	waitpid(far, &status, 0);
	check_looks_on(&program);
	end(&program);
	program = start_changing("deepest", NULL);
	CHECK_RUN("suspend deepest --deep");
	far = start_far_side(&program, 0, CLOSES_IN_ROUNDS);
	CHECK_INT(migrate("deepest", ""), 1);
	CHECK_CONTAINS(said, "refused (suspended)");
	waitpid(far, &status, 0);
	CHECK_RUN("resume deepest");
	check_looks_on(&program);
	check_no_scratch();
	end(&program);
}

// ---- failures and killed commands ------------------------------------------------------------------------

TEST(a_connection_that_is_cut_leaves_the_program_here)
{
	static const enum far fars[] = {CLOSES_IN_ROUNDS, CLOSES_BEHIND_ROUNDS};

	prepare(false);
	struct program program = start_changing("cut", "1");
	for (int i = 0; i < 2; i++) {
		pid_t far = start_far_side(&program, 1, fars[i]);
		CHECK_INT(migrate("cut", ""), 1);
		CHECK_CONTAINS(said, "closed the connection");
		check_far_side(far);
		check_looks_on(&program);
		check_no_scratch();
	}
	end(&program);
}

// The receiver reads nothing, so a round lasts until the test kills the migration.
TEST(a_migration_that_is_killed_in_a_round_leaves_nothing)
{
	char to[PATH_MAX + 8];
	int fd;

	prepare(false);
	struct program program = start_changing("torn", "4");
	int listener = listen_there();
	snprintf(to, sizeof to, "unix:%s", path_of("socket"));
	fflush(stdout);
	pid_t near = fork();
	if (near == 0) {
		dup2(open(path_of("near.log"), O_CREAT | O_WRONLY | O_TRUNC, 0600), 1);
		dup2(1, 2);
		execl(VIRGATE, VIRGATE, "migrate", "--vgpu", "torn", "--precopy", "--to", to, (char *)NULL);
		_exit(127);
	}
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	struct frames frames = {.in = fd, .out = fd};
	struct stream_header header;
	enum frame_type type;
	CHECK_INT(stream_accept(&frames, &header), VG_OK);
	CHECK_INT(frame_write(&frames, FRAME_READY, NULL, 0, NULL, 0), VG_OK);
	CHECK_INT(frame_read(&frames, &type), VG_OK);
	CHECK_INT(type, FRAME_PACK);
	// The program runs while its memory is sent.
	check_looks_on(&program);
	kill(near, SIGKILL);
	waitpid(near, NULL, 0);
	close(fd);
	close(listener);
	frames_finish(&frames);
	check_looks_on(&program);
	check_no_scratch();
	end(&program);
}

// All blocks change, so the second round uses no pack of the first one.
TEST(the_sender_closes_packs_that_the_last_round_does_not_use)
{
	const struct vg_dump_options dump = {.size = sizeof dump, .vgpu = "closing", .dir = path_of("near.image")};
	struct vg_checkpoint_result result = {0};
	struct phase phase = {.result = &result};
	struct sockaddr_un where = {.sun_family = AF_UNIX};
	enum frame_type type;

	prepare(false);
	struct program program = start_changing("closing", "32");
	pid_t far = start_far_side(&program, 32, CLOSES_BEHIND_ROUNDS);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(where.sun_path, sizeof where.sun_path, "%s", path_of("socket"));
	CHECK_INT(connect(fd, (struct sockaddr *)&where, sizeof where), 0);
	struct frames frames = {.in = fd, .out = fd, .phase = &phase};
	CHECK_INT(stream_begin(&frames, true, true), VG_OK);
	CHECK_INT(frame_read(&frames, &type), VG_OK);
	struct precopy precopy = {.dump = &dump, .phase = &phase, .frames = &frames};
	if (precopy_run(&precopy))
		FAIL("%s", vg_last_error()->text);
	CHECK_INT(precopy_end_packs(&precopy, &phase), VG_OK);
	CHECK_INT(precopy.rounds, 2);
	CHECK_INT(precopy.packs.count, 2);
	CHECK_INT(precopy.packs.fds[0], -1);
	CHECK(precopy.packs.fds[1] >= 0);
	check_far_side(far);
	precopy_finish(&precopy);
	frames_finish(&frames);
	close(fd);
	check_looks_on(&program);
	end(&program);
}

// ---- hostile senders -------------------------------------------------------------------------------------

// Writes frames as a hostile sender would, and receives them as packs.
static enum vg_status receive_hostile(void (*play)(struct frames *frames))
{
	struct image_draft store = {0};
	struct packs packs = {.store = &store};
	struct prefill prefill = {.packs = &packs};
	int ends[2];

	packs.round = prefill_round;
	packs.user = &prefill;

	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		struct frames out = {.in = -1, .out = ends[1]};
		close(ends[0]);
		play(&out);
		_exit(0);
	}
	close(ends[1]);
	struct frames in = {.in = ends[0], .out = -1, .packs = &packs};
	CHECK_INT(image_begin(path_of("hostile.precopy"), &store), VG_OK);
	enum vg_status status = stream_receive_packs(&in, &packs);
	prefill_finish(&prefill);
	packs_finish(&packs);
	image_finish(&store);
	frames_finish(&in);
	close(ends[0]);
	waitpid(pid, NULL, 0);
	return status;
}

static void send_pack(struct frames *frames, uint32_t number)
{
	frame_write(frames, FRAME_PACK, &number, sizeof number, NULL, 0);
}

static void send_data(struct frames *frames, uint64_t offset)
{
	frame_write(frames, FRAME_DATA, &offset, sizeof offset, "data", 4);
}

static void play_sound(struct frames *frames)
{
	send_pack(frames, 0);
	send_data(frames, 0);
	send_pack(frames, 1);
	stream_end_packs(frames);
}

static void play_bad_index(struct frames *frames)
{
	send_pack(frames, 0);
	stream_send_index(frames, "no index, but long enough for the header of one, which is not so long", 70);
}

static void play_empty_index(struct frames *frames)
{
	stream_send_index(frames, NULL, 0);
}

// Sends an index that names a pack which was not sent.
static void play_index_without_pack(struct frames *frames)
{
	struct device_memory memory = {.pid = 1, .bytes = DEVICE_BLOCK};
	struct device_block block = {.codec = DEVICE_RAW, .length = DEVICE_BLOCK, .pack = 0};
	const struct device_index index = {&memory, 1, &block, 1, 1};
	size_t length;
	void *data = device_index_encode(&index, &length);

	stream_send_index(frames, data, length);
	free(data);
}

// Sends an index that needs a longer pack than the one that was sent.
static void play_index_of_short_pack(struct frames *frames)
{
	send_pack(frames, 0);
	send_data(frames, 0);
	play_index_without_pack(frames);
}

// Sends a pack that is long enough, but has other bytes than the index says.
static void play_index_of_other_bytes(struct frames *frames)
{
	send_pack(frames, 0);
	send_data(frames, DEVICE_BLOCK - 4);
	play_index_without_pack(frames);
}

static void play_gap(struct frames *frames)
{
	send_pack(frames, 1);
}

static void play_twice(struct frames *frames)
{
	send_pack(frames, 0);
	send_pack(frames, 0);
}

static void play_short_number(struct frames *frames)
{
	frame_write(frames, FRAME_PACK, "x", 1, NULL, 0);
}

static void play_data_of_nothing(struct frames *frames)
{
	send_data(frames, 0);
}

static void play_beyond(struct frames *frames)
{
	send_pack(frames, 0);
	send_data(frames, DEVICE_PACK - 3);
}

static void play_far_beyond(struct frames *frames)
{
	send_pack(frames, 0);
	send_data(frames, UINT64_MAX - 2);
}

static void play_file(struct frames *frames)
{
	frame_write(frames, FRAME_FILE, "tree-0/core-1.img", 17, NULL, 0);
}

static void play_silence(struct frames *frames)
{
	send_pack(frames, 0);
}

TEST(invalid_packs_are_refused)
{
	static void (*const plays[])(struct frames * frames) = {play_gap,
								play_twice,
								play_short_number,
								play_data_of_nothing,
								play_beyond,
								play_far_beyond,
								play_file,
								play_bad_index,
								play_empty_index,
								play_index_without_pack,
								play_index_of_short_pack,
								play_index_of_other_bytes};

	CHECK_INT(receive_hostile(play_sound), VG_OK);
	for (size_t i = 0; i < sizeof plays / sizeof *plays; i++)
		if (receive_hostile(plays[i]) != VG_INTEGRITY)
			FAIL("case %zu: %s", i, vg_last_error()->text);
	CHECK_INT(receive_hostile(play_silence), VG_SYSTEM);
	CHECK_CONTAINS(vg_last_error()->text, "stops before its end");
}

TEST(zz_shut_down_the_daemon)
{
	prepare(false);
	run("shutdown");
}
