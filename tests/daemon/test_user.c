// Checks when the daemon forgets a user, and closes the user's epoll instance.
#include "base/clock.h"
#include "daemon/user.h"
#include "test.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { ALICE = 60001 };

// Nothing wakes the daemon's loop when the time window of a user ends, so the user's record must set a deadline.
TEST(an_idle_user_is_forgotten_at_the_end_of_the_time_window)
{
	struct node node = {.system_wide = true, .epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
	uint64_t deadline, now;
	int fd;

	do { // repeat if this process was interrupted for so long that the window has ended
		deadline = 0;
		now = vg_clock_monotonic_ns();
		const struct user *user = user_events(&node, ALICE);
		CHECK(user);
		fd = user->events.fd;
		user_begin_time(&node, ALICE);
		user_end_time();
		user_forget_idle(&node, &deadline);
	} while (vg_clock_monotonic_ns() - now >= USER_WINDOW_MS * 1000000ull);
	CHECK(fcntl(fd, F_GETFD) >= 0);
	CHECK(deadline >= now + USER_WINDOW_MS * 1000000ull);
	while (vg_clock_monotonic_ns() < deadline)
		usleep(1000);
	deadline = 0;
	user_forget_idle(&node, &deadline);
	CHECK(fcntl(fd, F_GETFD) < 0);
	CHECK_INT(deadline, 0);
	close(node.epoll_fd);
}
