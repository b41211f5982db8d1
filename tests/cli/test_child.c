// Several children at once, and what their parent is told of them before they end.
#include "checkpoint/notice.h"
#include "child.h"
#include "test.h"
#include "verb.h"

#include <signal.h>
#include <sys/wait.h>

enum { MANY = 40 };

struct siblings {
	pid_t parent, children[MANY];
	int said; // what the parent says
};

__attribute__((noreturn)) static void be_parent(int ready, int said)
{
	struct children children;
	pid_t pids[MANY], unlimited;

	dup2(said, 2);
	for (int i = 0; i < MANY; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			signal(SIGTERM, SIG_DFL);
			for (;;)
				pause();
		}
	}
	if (child_adopt(&children, pids, MANY, &unlimited) || write(ready, pids, sizeof pids) != sizeof pids)
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
	siblings.said = said[0];
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
	while ((got = read(siblings->said, text + length, sizeof text - 1 - (size_t)length)) > 0)
		length += got;
	text[length] = '\0';
	close(siblings->said);
	CHECK(WIFEXITED(status));
	CHECK_INT(WEXITSTATUS(status), code);
	CHECK_CONTAINS(text, says);
}

TEST(one_message_tells_of_all_of_them)
{
	struct siblings siblings = start_parent();

	notice_send(siblings.parent, siblings.children, MANY, "/images/all");
	kill_children(&siblings, SIGKILL);
	check_end(&siblings, EXIT_DUMPED, "and 39 more were dumped to /images/all");
}

// Only a few messages wait at a time, unless somebody takes them.
TEST(a_message_for_each_of_them_arrives)
{
	struct siblings siblings = start_parent();

	for (int i = 0; i < MANY; i++)
		notice_send(siblings.parent, &siblings.children[i], 1, "/images/each");
	kill_children(&siblings, SIGKILL);
	check_end(&siblings, EXIT_DUMPED, "and 39 more were dumped to /images/each");
}

TEST(whoever_ends_in_another_way_was_not_written_down)
{
	struct siblings siblings = start_parent();

	notice_send(siblings.parent, siblings.children, MANY, "/images/all");
	kill_children(&siblings, SIGTERM);
	check_end(&siblings, EXIT_SIGNAL + SIGTERM, "was ended by signal 15");
}

TEST(somebody_who_does_not_listen_is_told_nothing)
{
	const pid_t self = getpid();

	notice_send(getppid(), &self, 1, "/images/all");
	notice_send(0, &self, 1, "/images/all");
}
