// Tests each step of a migration: the test makes one side fail at that step, and checks which side has the processes
// then. Both sides use the stand-in for CRIU.
#include "checkpoint/move/frame.h"
#include "checkpoint/move/stream.h"
#include "migrate_test.h"
#include "virgate/checkpoint.h"

enum { OTHER_USER = 65534 };

TEST(a_process_migrates)
{
	struct stat info;
	char wanted[64];

	need_pids();
	set_up();
	pid_t far = start_far_side();
	CHECK_INT(stat(path_of("socket"), &info), 0);
	CHECK_INT(info.st_mode & 0777, 0600);
	int r = migrate();
	if (r)
		FAIL("%s", said);
	CHECK_CONTAINS(said, "migrated process");
	CHECK_INT(end_of(far), 0);
	check_made_again();
	CHECK(no_scratch());
	CHECK(access(path_of("socket"), F_OK) < 0);
	snprintf(wanted, sizeof wanted, "dump %d\n", (int)idle.pid);
	CHECK_STR(text_of("said"), wanted);
	CHECK_STR(text_of("far/said"), "restore \n");
	end_idle();
}

TEST(a_process_that_does_not_fit_stays)
{
	set_up();
	write_text("far/version", "3.17.1");
	pid_t far = start_far_side();
	CHECK_INT(migrate(), 1);
	CHECK_CONTAINS(said, "the other side: ");
	CHECK_CONTAINS(said, "3.17.1");
	CHECK_CONTAINS(said, "run on as before");
	CHECK_INT(end_of(far), 125);
	check_untouched();
	CHECK_STR(text_of("far/said"), "");
	end_idle();
}

TEST(a_process_that_fails_on_the_receiver_is_restored_here)
{
	need_pids();
	set_up();
	write_text("far/fail", "restore\n");
	pid_t far = start_far_side();
	CHECK_INT(migrate(), 1);
	CHECK_CONTAINS(said, "told to fail");
	CHECK_CONTAINS(said, "run here again");
	CHECK_INT(end_of(far), 125);
	check_made_again();
	CHECK(no_scratch());
	end_idle();
}

TEST(the_image_stays_if_both_restores_fail)
{
	char *image, command[PATH_MAX + 64];

	set_up();
	write_text("far/fail", "restore\n");
	write_text("fail", "restore\n");
	pid_t far = start_far_side();
	CHECK_INT(migrate(), 1);
	CHECK_CONTAINS(said, "they run nowhere, and their image is ");
	CHECK_INT(end_of(far), 125);
	wait_gone(idle.pid);
	image = strstr(said, "their image is ") + strlen("their image is ");
	image[strcspn(image, ":")] = '\0';
	snprintf(command, sizeof command, "%s image inspect %s >/dev/null", VIRGATE, image);
	CHECK_INT(system(command), 0);
	snprintf(command, sizeof command, "rm -r %.*s", (int)strlen(image) - (int)strlen("/image"), image);
	CHECK_INT(system(command), 0);
	end_idle();
}

TEST(nothing_changes_without_a_receiver)
{
	set_up();
	CHECK_INT(migrate(), 1);
	CHECK_CONTAINS(said, "restore --sim --from unix:");
	CHECK_INT(run("migrate --pid %d --cpu-only --to tcp:1.2.3.4", (int)idle.pid), 1);
	CHECK_CONTAINS(said, "neither unix:PATH nor ssh:");
	CHECK_INT(run("migrate --pid %d --cpu-only --to 'ssh:-oProxyCommand=x'", (int)idle.pid), 1);
	CHECK_CONTAINS(said, "names no [USER@]HOST");
	CHECK_INT(run("migrate --pid %d --cpu-only --to 'ssh:a;b'", (int)idle.pid), 1);
	CHECK_INT(run("migrate --pid %d --cpu-only --to unix:%s --gpu-map 0=1", (int)idle.pid, path_of("socket")), 1);
	CHECK_CONTAINS(said, "give --gpu-map to it");
	CHECK_INT(run("migrate --pid %d", (int)idle.pid), 2);
	CHECK_INT(run("migrate --to unix:x"), 2);
	write_text("socket", "");
	CHECK_INT(run("restore --from unix:%s", path_of("socket")), 125);
	CHECK_CONTAINS(said, "exists: remove it, or name another socket");
	CHECK_INT(run("restore --from tcp:x"), 125);
	CHECK_INT(run("restore --from - --answer --json </dev/null"), 125);
	CHECK_INT(run("restore --from - </dev/null"), 125);
	CHECK_CONTAINS(said, "what comes in stops before its end");
	CHECK_STR(text_of("said"), "");
	check_untouched();
	end_idle();
}

// ---- another user ------------------------------------------------------------------------------------

TEST(another_users_socket_gets_nothing)
{
	if (geteuid() != 0)
		SKIP("only root can be another user");
	set_up();
	CHECK_INT(chmod(directory, 0777), 0);
	struct sockaddr_un where = address();
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK_INT(bind(listener, (struct sockaddr *)&where, sizeof where), 0);
	fflush(stdout);
	pid_t other = fork();
	if (other == 0) {
		// The peer sees the credentials that the listener has at the time of listen().
		if (setresuid(OTHER_USER, OTHER_USER, OTHER_USER) || listen(listener, 1))
			_exit(1);
		close(accept(listener, NULL, NULL));
		_exit(0);
	}
	close(listener);
	usleep(100000);
	CHECK_INT(migrate(), 1);
	CHECK_CONTAINS(said, "user 65534 listens there");
	waitpid(other, NULL, 0);
	check_untouched();
	end_idle();
}

// ---- a receiver that closes after each frame ---------------------------------------------------------

enum last { CLOSES, GREETS, READS, IS_READY, TAKES, REFUSES, LIES, INVENTS, IS_SILENT };

// Plays a receiver that does every step up to `last`, and then closes the connection. If `last` is READS, it closes
// after `count` frames.
static void play_far_side(int fd, enum last last, uint64_t count)
{
	struct frames frames = {.in = fd, .out = fd};
	struct stream_header header;
	enum frame_type type = FRAME_DESCRIPTION;
	uint32_t status = VG_INSUFFICIENT;

	if (last == CLOSES || stream_accept(&frames, &header))
		return;
	frame_write(&frames, FRAME_READY, NULL, 0, NULL, 0);
	if (last == GREETS)
		return;
	while (type != FRAME_END && (last != READS || frames.read < count))
		if (frame_read(&frames, &type))
			return;
	if (last == READS)
		return;
	frame_write(&frames, FRAME_READY, NULL, 0, NULL, 0);
	if (last == IS_READY || frame_read(&frames, &type) || type != FRAME_GO || last == TAKES)
		return;
	if (last == REFUSES)
		frame_write(&frames, FRAME_REFUSED, &status, sizeof status, "no \033room", 8);
	else if (last == LIES)
		frame_write(&frames, FRAME_RUNNING, "?", 1, NULL, 0);
	else if (last == INVENTS)
		frame_write(&frames, FRAME_RUNNING, &(struct frame_running){.pid = -5}, sizeof(struct frame_running),
			    NULL, 0);
	while (frame_read(&frames, &type) == VG_OK)
		;
}

static pid_t start_player(enum last last, uint64_t count)
{
	int listener = start_silent();

	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		int fd = accept(listener, NULL, NULL);
		play_far_side(fd, last, count);
		_exit(0);
	}
	close(listener);
	return pid;
}

TEST(a_cut_connection_leaves_the_process_here)
{
	set_up();
	static const enum last lasts[] = {CLOSES, GREETS};
	for (size_t i = 0; i < sizeof lasts / sizeof *lasts; i++) {
		pid_t player = start_player(lasts[i], 0);
		CHECK_INT(migrate(), 1);
		CHECK_INT(end_of(player), 0);
		CHECK_CONTAINS(said, "closed the connection");
		check_untouched();
	}
	// A small image has few frames.
	for (uint64_t count = 1; count < 9; count++) {
		pid_t player = start_player(READS, count);
		CHECK_INT(migrate(), 1);
		CHECK_INT(end_of(player), 0);
		CHECK_CONTAINS(said, "closed the connection");
		CHECK_CONTAINS(said, "run on as before");
		check_untouched();
	}
	end_idle();
}

TEST(a_process_that_was_handed_over_is_not_made_twice)
{
	static const enum last lasts[] = {TAKES, LIES, INVENTS};
	char command[PATH_MAX + 64];

	for (size_t i = 0; i < sizeof lasts / sizeof *lasts; i++) {
		set_up();
		pid_t player = start_player(lasts[i], 0);
		CHECK_INT(migrate(), 1);
		CHECK_INT(end_of(player), 0);
		CHECK_CONTAINS(said, "only if it does not, restore its image here");
		wait_gone(idle.pid);
		CHECK(!no_scratch());
		CHECK(!strstr(text_of("said"), "restore"));
		snprintf(command, sizeof command, "%s image inspect %s/virgate-*/image >/dev/null", VIRGATE,
			 path_of("tmp"));
		CHECK_INT(system(command), 0);
		snprintf(command, sizeof command, "rm -r %s", path_of("tmp"));
		CHECK_INT(system(command), 0);
		end_idle();
	}
}

// ^C, and a short time limit, end the wait for a receiver that sends nothing.
TEST(the_wait_for_a_silent_receiver_can_be_interrupted)
{
	char command[3 * PATH_MAX];

	set_up();
	pid_t player = start_player(IS_SILENT, 0);
	snprintf(command, sizeof command, "timeout -s INT 2 %s migrate --pid %d --cpu-only --to unix:%s >%s 2>&1",
		 VIRGATE, (int)idle.pid, path_of("socket"), path_of("left"));
	// 124 is the exit code of timeout(1), after the program has ended.
	CHECK_INT(WEXITSTATUS(system(command)), 124);
	CHECK_INT(end_of(player), 0);
	CHECK_CONTAINS(text_of("left"), "the other side does not answer, after the processes had ended here");
	CHECK_CONTAINS(text_of("left"), "only if it does not, restore its image here");
	snprintf(command, sizeof command, "rm -r %s", path_of("tmp"));
	CHECK_INT(system(command), 0);
	end_idle();
}

TEST(a_late_refusal_restores_the_process_here)
{
	need_pids();
	set_up();
	pid_t player = start_player(REFUSES, 0);
	CHECK_INT(migrate(), 1);
	CHECK_INT(end_of(player), 0);
	CHECK_CONTAINS(said, "the other side: no ?room; they run here again");
	check_made_again();
	CHECK(no_scratch());
	end_idle();
}

// ---- a sender that closes ----------------------------------------------------------------------------

// Connects, sends the image of `dir` up to `count` frames, and closes.
static void play_sender(const char *dir, uint64_t count)
{
	struct sockaddr_un where = address();
	int ends[2], fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	enum frame_type type;

	for (int i = 0; i < 100 && connect(fd, (struct sockaddr *)&where, sizeof where) < 0; i++)
		// The receiver binds the socket before it listens.
		usleep(10000);
	struct frames wire = {.in = fd, .out = fd};
	CHECK_INT(stream_begin(&wire, true, false), VG_OK);
	CHECK_INT(frame_read(&wire, &type), VG_OK);
	CHECK_INT(type, FRAME_READY);
	// Save all frames in a file, so that the test can forward only the first ones.
	ends[0] = open(path_of("frames"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct frames file = {.in = ends[0], .out = ends[0]};
	struct image_dir image;
	CHECK_INT(image_open(dir, &image), VG_OK);
	CHECK_INT(stream_send(&file, &image, true), VG_OK);
	image_close(&image);
	CHECK_INT(lseek(ends[0], 0, SEEK_SET), 0);
	while (file.read < count && file.read < file.written) {
		CHECK_INT(frame_read(&file, &type), VG_OK);
		CHECK_INT(frame_write(&wire, type, file.payload, file.payload_bytes, NULL, 0), VG_OK);
	}
	if (file.read == file.written) {
		CHECK_INT(frame_read(&wire, &type), VG_OK);
		CHECK_INT(type, FRAME_READY);
	}
	frames_finish(&file);
	frames_finish(&wire);
	close(ends[0]);
	close(fd);
}

// Starts a receiver that reads the stream from a file.
static pid_t start_from_file(const char *image)
{
	int fd = open(path_of("stream"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	CHECK_INT(vg_checkpoint_send(image, fd), VG_OK);
	CHECK_INT(lseek(fd, 0, SEEK_SET), 0);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		setenv("STANDIN", path_of("far"), 1);
		dup2(fd, 0);
		dup2(open(path_of("far.log"), O_CREAT | O_WRONLY | O_TRUNC, 0600), 1);
		dup2(1, 2);
		execl(VIRGATE, VIRGATE, "restore", "--from", "-", "--detach", (char *)NULL);
		_exit(127);
	}
	close(fd);
	return pid;
}

// The next command removes the image of a killed receiver, and no other image.
TEST(the_image_of_a_killed_receiver_is_removed)
{
	char command[PATH_MAX + 64], image[PATH_MAX];
	glob_t found = {0};

	set_up();
	snprintf(image, sizeof image, "%s", path_of("image-for-two"));
	CHECK_RUN("dump --pid %d --cpu-only --dir %s", (int)idle.pid, image);
	end_idle();
	// The receiver's CRIU begins, and never ends.
	write_text("far/fail", "slow\n");
	pid_t far = start_from_file(image);
	wait_for_file("far/slow");
	CHECK(!no_scratch());
	// The killed receiver's CRIU still runs, so the next command must not remove the image yet.
	CHECK_INT(run("restore --dir %s", path_of("nothing")), 125);
	snprintf(command, sizeof command, "%s/virgate-arrival.*/image/virgate.json", path_of("tmp"));
	CHECK_INT(glob(command, 0, NULL, &found), 0);
	CHECK_INT(found.gl_pathc, 1);
	globfree(&found);
	kill(far, SIGKILL);
	waitpid(far, NULL, 0);
	unlink(path_of("far/again"));
	// The stand-in for CRIU, which the killed receiver has started, waits as long as this file exists. It now ends,
	// and must not make a process.
	unlink(path_of("far/slow"));
	CHECK_INT(mkdir(path_of("tmp/virgate-arrival.abcdef"), 0700), 0);
	write_text("tmp/virgate-arrival.abcdef/notes", "mine");
	CHECK_INT(run("restore --dir %s", path_of("nothing")), 125);
	// This directory is not an image.
	CHECK_INT(access(path_of("tmp/virgate-arrival.abcdef/notes"), F_OK), 0);
	snprintf(command, sizeof command, "rm -r %s/virgate-arrival.abcdef", path_of("tmp"));
	CHECK_INT(system(command), 0);
	CHECK(no_scratch());
}

TEST(a_lost_sender_leaves_nothing_on_the_receiver)
{
	char image[PATH_MAX];

	set_up();
	snprintf(image, sizeof image, "%s", path_of("image"));
	CHECK_RUN("dump --pid %d --cpu-only --dir %s", (int)idle.pid, image);
	end_idle();
	for (uint64_t count = 0; count < 12; count++) {
		pid_t far = start_far_side();
		play_sender(image, count);
		CHECK_INT(end_of(far), 125);
		CHECK_CONTAINS(text_of("far.log"), "closed the connection");
		CHECK(no_scratch());
		CHECK_STR(text_of("far/said"), "");
		CHECK(access(path_of("socket"), F_OK) < 0);
	}
}
