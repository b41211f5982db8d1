// Tests a migration through ssh, with a script in place of ssh. Checks the arguments of the script, and what the
// migration does about the script's messages.
#include "migrate_test.h"

static void write_ssh(const char *body)
{
	char text[2048];

	snprintf(text, sizeof text, "#!/bin/sh\necho \"$*\" >%s/ssh\n%s\n", directory, body);
	write_text("ssh.sh", text);
	CHECK_INT(chmod(path_of("ssh.sh"), 0700), 0);
	setenv("VIRGATE_SSH", path_of("ssh.sh"), 1);
}

TEST(a_process_migrates_through_ssh)
{
	char body[PATH_MAX];

	need_pids();
	set_up();
	snprintf(body, sizeof body,
		 "export STANDIN=%s/far PATH=%s/cli:$PATH\nfor last; do :; done\nexec sh -c \"$last\"", directory,
		 BUILD_ROOT);
	write_ssh(body);
	int r = run("migrate --pid %d --cpu-only --to ssh:me@there", (int)idle.pid);
	if (r)
		FAIL("%s", said);
	CHECK_CONTAINS(text_of("ssh"), "BatchMode=yes");
	CHECK_CONTAINS(text_of("ssh"), "-- me@there virgate restore --from - --answer --detach --sim='1'");
	check_made_again();
	CHECK_STR(text_of("far/said"), "restore \n");
	CHECK(no_scratch());
	end_idle();
}

TEST(errors_of_ssh_are_reported)
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
	CHECK_CONTAINS(text_of("ssh"), "--gpu-map 0=GPU-12 --gpu-map 1=0 --sim='1'");
	check_untouched();
	unsetenv("VIRGATE_SIM");
	CHECK_INT(run("migrate --pid %d --cpu-only --to ssh:there --timeout 1", (int)idle.pid), 1);
	CHECK(!strstr(text_of("ssh"), "--sim"));
	check_untouched();
	setenv("VIRGATE_SSH", "/nonexistent", 1);
	CHECK_INT(run("migrate --pid %d --cpu-only --to ssh:there", (int)idle.pid), 1);
	CHECK_CONTAINS(said, "VIRGATE_SSH");
	check_untouched();
	end_idle();
}
