// Who has the processes when: a migration against another side that fails at each of its steps, with the stand-in for
// CRIU on both sides.
#include <glob.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "checkpoint/frame.h"
#include "checkpoint/stream.h"
#include "checkpoint_test.h"

enum { NOBODY = 65534 };

// ---- a process that does nothing ---------------------------------------------------------------------

static struct subject idle;
static uint64_t idle_since;

static void start_idle(void)
{
	int ends[2];

	CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
	fflush(stdout);
	idle.guard = fork();
	if (idle.guard == 0) {
		int null = open("/dev/null", O_RDWR);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (int fd = 0; fd < 3; fd++) // whoever reads what the test says must see its end
			dup2(null, fd);
		pid_t pid = fork();
		if (pid == 0) {
			setsid();
			for (int fd = 0; fd < 1024; fd++)
				close(fd);
			for (;;)
				pause();
		}
		if (write(ends[1], &pid, sizeof pid) != sizeof pid)
			_exit(1);
		waitpid(pid, NULL, 0);
		_exit(0);
	}
	CHECK_INT(read(ends[0], &idle.pid, sizeof idle.pid), sizeof idle.pid);
	close(ends[0]);
	close(ends[1]);
	CHECK_INT(vg_process_start_time(idle.pid, &idle_since), 0);
}

static char state_of(pid_t pid)
{
	char path[64], text[4096];

	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	if (vg_file_read(path, text, sizeof text) < 0)
		return '-';
	const char *state = strstr(text, "\nState:\t");
	return state ? state[8] : '?';
}

static bool is_first_one(void)
{
	uint64_t since;

	return vg_process_start_time(idle.pid, &since) == 0 && since == idle_since;
}

static bool no_scratch(void)
{
	glob_t found = {0};
	char pattern[PATH_MAX];

	snprintf(pattern, sizeof pattern, "%s/virgate-*", path_of("tmp"));
	bool none = glob(pattern, 0, NULL, &found) == GLOB_NOMATCH;
	globfree(&found);
	return none;
}

// It is the one it was, and nothing of a migration is left.
static void check_untouched(void)
{
	CHECK(is_first_one());
	CHECK(state_of(idle.pid) == 'S');
	CHECK(no_scratch());
}

// It ended, and was made again.
static void check_made_again(void)
{
	CHECK(!is_first_one());
	for (int i = 0; i < 1000 && state_of(idle.pid) != 'S'; i++) // it has just been woken
		usleep(10000);
	CHECK(state_of(idle.pid) == 'S');
}

static void end_idle(void)
{
	kill(idle.pid, SIGKILL);
	waitpid(idle.guard, NULL, 0);
	wait_gone(idle.pid);
}

// ---- two sides ---------------------------------------------------------------------------------------

static void set_up(void)
{
	char pid[16];

	mkdir(path_of("tmp"), 0700);
	mkdir(path_of("far"), 0700);
	setenv("TMPDIR", path_of("tmp"), 1);
	setenv("VIRGATE_CRIU", STANDIN_PROGRAM, 1);
	setenv("AGAIN", AGAIN, 1);
	static const char *const files[] = {"fail", "said", "version", "far/fail", "far/said", "far/version", "socket"};
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		unlink(path_of(files[i]));
	start_idle();
	snprintf(pid, sizeof pid, "%d", (int)idle.pid);
	write_text("again", pid);
	write_text("far/again", pid);
}

static void need_pids(void)
{
	if (geteuid() != 0)
		SKIP("only root may make a process with a certain pid");
}

static void wait_for_file(const char *name)
{
	for (int i = 0; i < 1000 && access(path_of(name), F_OK) < 0; i++)
		usleep(10000);
	CHECK_INT(access(path_of(name), F_OK), 0);
}

// The far side's stand-in has a folder of its own.
static pid_t start_far_side(void)
{
	char from[PATH_MAX + 8];

	snprintf(from, sizeof from, "unix:%s", path_of("socket"));
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		setenv("STANDIN", path_of("far"), 1);
		dup2(open(path_of("far.log"), O_CREAT | O_WRONLY | O_TRUNC, 0600), 1);
		dup2(1, 2);
		execl(VIRGATE, VIRGATE, "restore", "--from", from, "--detach", (char *)NULL);
		_exit(127);
	}
	wait_for_file("socket");
	return pid;
}

static int end_of(pid_t pid)
{
	int status = 0;

	CHECK_INT(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static const char *text_of(const char *name)
{
	static char text[8192];

	if (vg_file_read(path_of(name), text, sizeof text) < 0)
		text[0] = '\0';
	return text;
}

static int migrate(void)
{
	return run("migrate --pid %d --cpu-only --to unix:%s", (int)idle.pid, path_of("socket"));
}

TEST(a_process_goes_over)
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

TEST(who_fits_not_over_there_stays)
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

TEST(who_cannot_be_made_over_there_comes_back)
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

TEST(who_can_be_made_nowhere_is_kept)
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

TEST(nothing_is_touched_without_another_side)
{
	set_up();
	CHECK_INT(migrate(), 1);
	CHECK_CONTAINS(said, "restore --from unix:");
	CHECK_INT(run("migrate --pid %d --cpu-only --to tcp:1.2.3.4", (int)idle.pid), 1);
	CHECK_CONTAINS(said, "neither unix:PATH nor ssh:");
	CHECK_INT(run("migrate --pid %d --cpu-only --to 'ssh:-oProxyCommand=x'", (int)idle.pid), 1);
	CHECK_CONTAINS(said, "names no [USER@]HOST");
	CHECK_INT(run("migrate --pid %d --cpu-only --to 'ssh:a;b'", (int)idle.pid), 1);
	CHECK_INT(run("migrate --pid %d --cpu-only --to unix:%s --gpu-map 0=1", (int)idle.pid, path_of("socket")), 1);
	CHECK_CONTAINS(said, "his own map");
	CHECK_INT(run("migrate --pid %d", (int)idle.pid), 2);
	CHECK_INT(run("migrate --to unix:x"), 2);
	write_text("socket", "");
	CHECK_INT(run("restore --from unix:%s", path_of("socket")), 125);
	CHECK_CONTAINS(said, "there is something at");
	CHECK_INT(run("restore --from tcp:x"), 125);
	CHECK_INT(run("restore --from - --answer --json </dev/null"), 125);
	CHECK_INT(run("restore --from - </dev/null"), 125);
	CHECK_CONTAINS(said, "closed the connection");
	CHECK_STR(text_of("said"), "");
	check_untouched();
	end_idle();
}

// ---- a far side that is cut off, at every frame ------------------------------------------------------

enum last { CLOSES, GREETS, READS, IS_READY, TAKES, REFUSES, LIES };

static struct sockaddr_un address(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof address.sun_path, "%s", path_of("socket"));
	return address;
}

// Does everything up to `last` rightly, and closes then; READS: after so many frames.
static void play_far_side(int fd, enum last last, uint64_t count)
{
	struct frames frames = {.in = fd, .out = fd, .function = "far side"};
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
	else
		frame_write(&frames, FRAME_RUNNING, "?", 1, NULL, 0);
	while (frame_read(&frames, &type) == VG_OK)
		;
}

static pid_t start_player(enum last last, uint64_t count)
{
	struct sockaddr_un where = address();
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	unlink(path_of("socket"));
	CHECK_INT(bind(listener, (struct sockaddr *)&where, sizeof where), 0);
	CHECK_INT(listen(listener, 1), 0);
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

TEST(a_connection_that_is_cut_leaves_it_here)
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
	// Of a small image there are few frames.
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

TEST(who_was_handed_over_is_not_made_twice)
{
	static const enum last lasts[] = {TAKES, LIES};
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

TEST(who_is_refused_after_all_comes_back)
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

// ---- a sender that is cut off ------------------------------------------------------------------------

// Connects, sends the image of `dir` up to `count` frames, and closes.
static void play_sender(const char *dir, uint64_t count)
{
	struct sockaddr_un where = address();
	int ends[2], fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	enum frame_type type;

	for (int i = 0; i < 100 && connect(fd, (struct sockaddr *)&where, sizeof where) < 0; i++)
		usleep(10000); // it is bound before somebody listens
	struct frames wire = {.in = fd, .out = fd, .function = "sender"};
	CHECK_INT(stream_begin(&wire, true), VG_OK);
	CHECK_INT(frame_read(&wire, &type), VG_OK);
	CHECK_INT(type, FRAME_READY);
	// All of it through a file, of which the first frames go on.
	ends[0] = open(path_of("frames"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct frames file = {.in = ends[0], .out = ends[0], .function = "sender"};
	CHECK_INT(stream_send(&file, dir, true), VG_OK);
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

TEST(a_sender_that_goes_leaves_nothing_there)
{
	char image[PATH_MAX];

	set_up();
	snprintf(image, sizeof image, "%s", path_of("image"));
	CHECK_INT(run("dump --pid %d --cpu-only --dir %s", (int)idle.pid, image), 0);
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

// ---- kill -9 -----------------------------------------------------------------------------------------

// Somebody who listens and never says a word.
static int start_silent(void)
{
	struct sockaddr_un where = address();
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	unlink(path_of("socket"));
	CHECK_INT(bind(listener, (struct sockaddr *)&where, sizeof where), 0);
	CHECK_INT(listen(listener, 1), 0);
	return listener;
}

static pid_t start_migration(const char *dir)
{
	char pid[16], to[PATH_MAX + 8];

	snprintf(pid, sizeof pid, "%d", (int)idle.pid);
	snprintf(to, sizeof to, "unix:%s", path_of("socket"));
	fflush(stdout);
	pid_t near = fork();
	if (near == 0) {
		dup2(open(path_of("near.log"), O_CREAT | O_WRONLY | O_TRUNC, 0600), 1);
		dup2(1, 2);
		execl(VIRGATE, VIRGATE, "migrate", "--cpu-only", "--pid", pid, "--to", to, dir ? "--dir" : NULL, dir,
		      (char *)NULL);
		_exit(127);
	}
	return near;
}

TEST(who_does_not_answer_is_not_waited_for_by_force)
{
	set_up();
	_cleanup_close_ int listener = start_silent();
	pid_t near = start_migration(NULL);
	_cleanup_close_ int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	usleep(300000);
	CHECK_INT(kill(near, SIGINT), 0);
	CHECK_INT(end_of(near), 1);
	CHECK_CONTAINS(text_of("near.log"), "stopped");
	check_untouched();
	end_idle();
}

TEST(what_lies_where_the_image_shall_lie_stays)
{
	set_up();
	mkdir(path_of("mine"), 0700);
	write_text("mine/data", "x");
	_cleanup_close_ int listener = start_silent();
	CHECK_INT(run("migrate --pid %d --cpu-only --to unix:%s --dir %s", (int)idle.pid, path_of("socket"),
		      path_of("mine")),
		  1);
	CHECK_CONTAINS(said, "there is something at");
	CHECK_INT(access(path_of("mine/data"), F_OK), 0);
	check_untouched();
	// One that comes to lie there later is not the migration's either.
	pid_t near = start_migration(path_of("later"));
	_cleanup_close_ int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	usleep(300000);
	mkdir(path_of("later"), 0700);
	write_text("later/data", "x");
	kill(near, SIGKILL);
	waitpid(near, NULL, 0);
	usleep(500000);
	CHECK_INT(access(path_of("later/data"), F_OK), 0);
	check_untouched();
	end_idle();
}

TEST(a_migration_that_is_killed_while_they_end_keeps_the_image)
{
	char command[PATH_MAX + 64];
	struct frames frames = {.function = "far side"};
	struct stream_header header;
	enum frame_type type = FRAME_DESCRIPTION;

	set_up();
	_cleanup_close_ int listener = start_silent();
	pid_t near = start_migration(NULL);
	_cleanup_close_ int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	frames.in = frames.out = fd;
	CHECK_INT(stream_accept(&frames, &header), VG_OK);
	CHECK_INT(frame_write(&frames, FRAME_READY, NULL, 0, NULL, 0), VG_OK);
	while (type != FRAME_END)
		CHECK_INT(frame_read(&frames, &type), VG_OK);
	CHECK_INT(frame_write(&frames, FRAME_READY, NULL, 0, NULL, 0), VG_OK);
	CHECK_INT(frame_read(&frames, &type), VG_OK);
	CHECK_INT(type, FRAME_GO);
	kill(near, SIGKILL);
	waitpid(near, NULL, 0);
	for (int i = 0; i < 500 && !strstr(text_of("near.log"), "look whether it runs"); i++)
		usleep(10000);
	CHECK_CONTAINS(text_of("near.log"), "look whether it runs");
	snprintf(command, sizeof command, "%s image verify %s/virgate-*/image >/dev/null && rm -r %s", VIRGATE,
		 path_of("tmp"), path_of("tmp"));
	CHECK_INT(system(command), 0);
	frames_finish(&frames);
	end_idle();
}

TEST(a_killed_migration_lets_it_run_on)
{
	char pid[16], to[PATH_MAX + 8];

	set_up();
	// Nobody reads what is sent; the process stands still when CRIU has written it down.
	struct sockaddr_un where = address();
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK_INT(bind(listener, (struct sockaddr *)&where, sizeof where), 0);
	CHECK_INT(listen(listener, 1), 0);
	snprintf(pid, sizeof pid, "%d", (int)idle.pid);
	snprintf(to, sizeof to, "unix:%s", path_of("socket"));
	fflush(stdout);
	pid_t near = fork();
	if (near == 0) {
		execl(VIRGATE, VIRGATE, "migrate", "--cpu-only", "--pid", pid, "--to", to, (char *)NULL);
		_exit(127);
	}
	_cleanup_close_ int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	struct frames frames = {.in = fd, .out = fd, .function = "far side"};
	struct stream_header header;
	enum frame_type type;
	CHECK_INT(stream_accept(&frames, &header), VG_OK);
	CHECK(header.answers && header.same_processes);
	CHECK_INT(frame_write(&frames, FRAME_READY, NULL, 0, NULL, 0), VG_OK);
	CHECK_INT(frame_read(&frames, &type), VG_OK);
	CHECK(state_of(idle.pid) == 'T');
	CHECK(!no_scratch());
	kill(near, SIGKILL);
	waitpid(near, NULL, 0);
	for (int i = 0; i < 1000 && (state_of(idle.pid) != 'S' || !no_scratch()); i++)
		usleep(10000);
	CHECK(is_first_one());
	CHECK(state_of(idle.pid) == 'S');
	frames_finish(&frames);
	close(listener);
	end_idle();
}

TEST(a_killed_far_side_changes_nothing_here)
{
	set_up();
	write_text("far/fail", "slow\n"); // its CRIU would take for ever, but is not come to
	pid_t far = start_far_side();
	kill(far, SIGKILL);
	waitpid(far, NULL, 0);
	CHECK_INT(migrate(), 1);
	check_untouched();
	end_idle();
}

// ---- ssh ---------------------------------------------------------------------------------------------

static void write_ssh(const char *body)
{
	char text[2048];

	snprintf(text, sizeof text, "#!/bin/sh\necho \"$*\" >%s/ssh\n%s\n", folder, body);
	write_text("ssh.sh", text);
	CHECK_INT(chmod(path_of("ssh.sh"), 0700), 0);
	setenv("VIRGATE_SSH", path_of("ssh.sh"), 1);
}

TEST(a_process_goes_through_ssh)
{
	char body[PATH_MAX];

	need_pids();
	set_up();
	snprintf(body, sizeof body,
		 "export STANDIN=%s/far PATH=%s/cli:$PATH\nfor last; do :; done\nexec sh -c \"$last\"", folder,
		 BUILD_ROOT);
	write_ssh(body);
	int r = run("migrate --pid %d --cpu-only --to ssh:me@there", (int)idle.pid);
	if (r)
		FAIL("%s", said);
	CHECK_CONTAINS(text_of("ssh"), "BatchMode=yes");
	CHECK_CONTAINS(text_of("ssh"), "-- me@there virgate restore --from - --answer --detach");
	check_made_again();
	CHECK_STR(text_of("far/said"), "restore \n");
	CHECK(no_scratch());
	end_idle();
}

TEST(what_ssh_complains_of_is_said)
{
	set_up();
	write_ssh("echo 'Warning: x' >&2; echo 'there: Permission denied (publickey).' >&2; exit 255");
	CHECK_INT(run("migrate --pid %d --cpu-only --to ssh:there", (int)idle.pid), 1);
	CHECK_CONTAINS(said, "ssh says: there: Permission denied (publickey).");
	check_untouched();
	write_ssh("echo Welcome to a shell that is no Virgate; cat >/dev/null");
	CHECK_INT(run("migrate --pid %d --cpu-only --to ssh:there --gpu-map 0=GPU-12,1=0 --timeout 1", (int)idle.pid),
		  1);
	CHECK_CONTAINS(said, "is damaged");
	CHECK_CONTAINS(text_of("ssh"), "--gpu-map 0=GPU-12 --gpu-map 1=0");
	check_untouched();
	setenv("VIRGATE_SSH", "/nonexistent", 1);
	CHECK_INT(run("migrate --pid %d --cpu-only --to ssh:there", (int)idle.pid), 1);
	CHECK_CONTAINS(said, "VIRGATE_SSH");
	check_untouched();
	end_idle();
}

TEST(another_users_socket_gets_nothing)
{
	if (geteuid() != 0)
		SKIP("only root can be another user");
	set_up();
	CHECK_INT(chmod(folder, 0777), 0);
	struct sockaddr_un where = address();
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK_INT(bind(listener, (struct sockaddr *)&where, sizeof where), 0);
	fflush(stdout);
	pid_t other = fork();
	if (other == 0) {
		// Who listens is who is seen.
		if (setresuid(NOBODY, NOBODY, NOBODY) || listen(listener, 1))
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
