// Interrupts or kills a migration, or makes its other side hang or fail. Afterwards the process must run on, or its
// image must exist.
#include "checkpoint/move/frame.h"
#include "checkpoint/move/stream.h"
#include "migrate_test.h"

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

TEST(a_silent_receiver_can_be_interrupted)
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

TEST(an_existing_path_stays)
{
	set_up();
	mkdir(path_of("mine"), 0700);
	write_text("mine/data", "x");
	_cleanup_close_ int listener = start_silent();
	CHECK_INT(run("migrate --pid %d --cpu-only --to unix:%s --dir %s", (int)idle.pid, path_of("socket"),
		      path_of("mine")),
		  1);
	CHECK_CONTAINS(said, "mine exists: name another directory");
	CHECK_INT(access(path_of("mine/data"), F_OK), 0);
	check_untouched();
	// A directory that is created at the same path later does not belong to the migration, which must not remove
	// it.
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
	struct frames frames = {0};
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
	for (int i = 0; i < 500 && !strstr(text_of("near.log"), "check whether it runs"); i++)
		usleep(10000);
	CHECK_CONTAINS(text_of("near.log"), "check whether it runs");
	snprintf(command, sizeof command, "%s image verify %s/virgate-*/image >/dev/null && rm -r %s", VIRGATE,
		 path_of("tmp"), path_of("tmp"));
	CHECK_INT(system(command), 0);
	frames_finish(&frames);
	end_idle();
}

TEST(a_killed_migration_lets_it_run_on)
{
	set_up();
	// The receiver reads nothing, so the sender waits. The process is stopped after CRIU has dumped it.
	_cleanup_close_ int listener = start_silent();
	pid_t near = start_migration(NULL);
	_cleanup_close_ int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	struct frames frames = {.in = fd, .out = fd};
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
	end_idle();
}

TEST(a_killed_receiver_changes_nothing_here)
{
	set_up();
	// The receiver's CRIU would never end, but is not started.
	write_text("far/fail", "slow\n");
	pid_t far = start_far_side();
	kill(far, SIGKILL);
	waitpid(far, NULL, 0);
	CHECK_INT(migrate(), 1);
	check_untouched();
	end_idle();
}
