// Tests a parent that waits for several children. Before they are killed, a notice may tell the parent that they were
// dumped.
#include "checkpoint/notice.h"
#include "child.h"
#include "test.h"
#include "verb.h"

#include <signal.h>
#include <sys/wait.h>

enum { MANY = 40 };

struct siblings {
	pid_t parent, children[MANY];
	int output; // the read end of the parent's standard error
};

__attribute__((noreturn)) static void be_parent(int ready, int said)
{
	struct children children;
	pid_t pids[MANY], not_child;

	dup2(said, 2);
	for (int i = 0; i < MANY; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			signal(SIGTERM, SIG_DFL);
			for (;;)
				pause();
		}
	}
	if (child_adopt(&children, pids, MANY, &not_child) || write(ready, pids, sizeof pids) != sizeof pids)
		_exit(99);
	child_wait(&children, NULL, NULL);
	_exit(child_exit_code(&children));
}

static struct siblings start_parent(void)
{
	struct siblings siblings;
	int ready[2], said[2];

	CHECK_INT(pipe(ready), 0);
	CHECK_INT(pipe(said), 0);
	fflush(stdout);
	siblings.parent = fork();
	if (siblings.parent == 0) {
		close(said[0]);
		be_parent(ready[1], said[1]);
	}
	close(ready[1]);
	close(said[1]);
	siblings.output = said[0];
	CHECK_INT(read(ready[0], siblings.children, sizeof siblings.children), sizeof siblings.children);
	close(ready[0]);
	return siblings;
}

static void kill_children(const struct siblings *siblings, int number)
{
	for (int i = 0; i < MANY; i++)
		kill(siblings->children[i], number);
}

static void check_end(const struct siblings *siblings, int code, const char *says)
{
	char text[8192];
	ssize_t length = 0, got;
	int status;

	CHECK_INT(waitpid(siblings->parent, &status, 0), siblings->parent);
	while ((got = read(siblings->output, text + length, sizeof text - 1 - (size_t)length)) > 0)
		length += got;
	text[length] = '\0';
	close(siblings->output);
	CHECK(WIFEXITED(status));
	CHECK_INT(WEXITSTATUS(status), code);
	CHECK_CONTAINS(text, says);
}

TEST(one_notice_names_all_children)
{
	struct siblings siblings = start_parent();

	notice_send(siblings.parent, siblings.children, MANY, "/images/all");
	kill_children(&siblings, SIGKILL);
	check_end(&siblings, EXIT_DUMPED, "and 39 more were dumped to /images/all");
}

// The socket can queue only a few notices, so the parent must read them while more are sent.
TEST(each_child_gets_a_notice)
{
	struct siblings siblings = start_parent();

	for (int i = 0; i < MANY; i++)
		notice_send(siblings.parent, &siblings.children[i], 1, "/images/each");
	kill_children(&siblings, SIGKILL);
	check_end(&siblings, EXIT_DUMPED, "and 39 more were dumped to /images/each");
}

TEST(notice_is_dropped_unless_killed)
{
	struct siblings siblings = start_parent();

	notice_send(siblings.parent, siblings.children, MANY, "/images/all");
	kill_children(&siblings, SIGTERM);
	check_end(&siblings, EXIT_SIGNAL + SIGTERM, "was ended by signal 15");
}

TEST(notice_without_listener_is_lost)
{
	const pid_t self = getpid();

	notice_send(getppid(), &self, 1, "/images/all");
	notice_send(0, &self, 1, "/images/all");
}
