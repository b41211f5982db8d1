// Who may do what with the broker, the ladder of revocation, and peers that want too much or do too little.
#include "broker_fixture.h"

#include <grp.h>
#include <netinet/in.h>
#include <sys/socket.h>

enum { ALICE = 60001, BOB = 60002, GAMES = 60 }; // GAMES: any group by name will do

static void system_broker(void)
{
	if (geteuid() != 0)
		SKIP("only root can be several users");
	for_all_users = true;
	fresh_node();
	CHECK_INT(chmod(folder, 0755), 0);
	start_broker();
	for_all_users = false;
}

static void become(uid_t uid, gid_t group)
{
	if ((group ? setgroups(1, &group) : setgroups(0, NULL)) < 0 || setgid((gid_t)uid) < 0 || setuid(uid) < 0)
		_exit(99);
}

// A user's process that does something and then stays, until it is killed. What it was answered: "" for yes.
struct player {
	pid_t pid;
	char told[32];
};

static struct player play(uid_t uid, gid_t group, const char *request, unsigned int ranges)
{
	struct player player = {0};
	int told[2], memory = -1, taken[8];

	CHECK_INT(pipe(told), 0);
	if (ranges)
		memory = make_memory(1);
	player.pid = fork();
	if (player.pid == 0) {
		alarm(TEST_CHILD_SECONDS);
		become(uid, group);
		int fd = reach();
		speak(fd, "%s", request);
		json_t *reply = hear(fd, NULL);
		if (agreed(reply) && memory >= 0 && send_ranges(fd, &memory, 1, 1) && agreed(reply = hear(fd, NULL)) &&
		    speak(fd, "{'op':'commit'}") == 0)
			reply = hear(fd, NULL);
		else if (agreed(reply) && memory < 0 && strstr(request, "'open'"))
			take_ranges(fd, taken, 1, strstr(request, "read-write") != NULL);
		const char *code = agreed(reply) ? "yes" : json_string_value(json_object_get(reply, "code"));
		if (write(told[1], code, strlen(code) + 1) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	close(told[1]);
	CHECK(read(told[0], player.told, sizeof player.told) > 0);
	close(told[0]);
	if (memory >= 0)
		close(memory);
	return player;
}

static void end(struct player *player)
{
	kill(player->pid, SIGKILL);
	waitpid(player->pid, NULL, 0);
}

#define CHECK_PLAY(uid, group, request, wanted)                                                                        \
	do {                                                                                                           \
		struct player one_ = play(uid, group, request, 0);                                                     \
		end(&one_);                                                                                            \
		CHECK_STR(one_.told, wanted);                                                                          \
	} while (0)

#define READ "{'op':'open','name':'a','access':'read'}"
#define WRITE "{'op':'open','name':'a','access':'read-write'}"

TEST(owner_group_and_others)
{
	system_broker();
	// One has to be in the group that one opens for.
	struct player none = play(BOB, 0, "{'op':'publish','name':'a','ranges':1,'mode':416,'group':'games'}", 1);
	CHECK_STR(none.told, "denied");
	end(&none);
	struct player alice =
		play(ALICE, GAMES, "{'op':'publish','name':'a','ranges':1,'mode':416,'group':'games'}", 1);
	CHECK_STR(alice.told, "yes"); // 0640
	CHECK_PLAY(ALICE, 0, WRITE, "yes");
	CHECK_PLAY(BOB, GAMES, READ, "yes");
	CHECK_PLAY(BOB, GAMES, WRITE, "denied");
	CHECK_PLAY(BOB, 0, READ, "denied");
	CHECK_PLAY(0, 0, WRITE, "yes");
	CHECK_PLAY(BOB, GAMES, "{'op':'publish','name':'a','ranges':1,'mode':384}", "exists");
	CHECK_PLAY(BOB, GAMES, "{'op':'revoke','name':'a','deadline':0}", "denied");
	CHECK_PLAY(0, 0, "{'op':'publish','name':'a','ranges':1,'mode':384}", "exists"); // a name is its owner's
	CHECK_PLAY(ALICE, 0, "{'op':'revoke','name':'a','deadline':0}", "yes");
	end(&alice);
	await_state("a", 0, "gone");
	alice = play(ALICE, 0, "{'op':'publish','name':'a','ranges':1,'mode':388}", 1); // 0604
	CHECK_PLAY(BOB, GAMES, READ, "yes");
	CHECK_PLAY(BOB, 0, WRITE, "denied");
	end(&alice);
	alice = play(ALICE, 0, "{'op':'publish','name':'a','ranges':1,'mode':4}", 1); // 0004: not even oneself
	CHECK_STR(alice.told, "yes");
	CHECK_PLAY(ALICE, 0, READ, "denied");
	CHECK_PLAY(BOB, 0, READ, "yes");
	end(&alice);
}

// Another user reads a page, and cannot write it by way of its descriptor.
TEST(a_page_is_for_reading)
{
	char path[64];
	int page = -1, status;

	system_broker();
	struct player alice = play(ALICE, 0, "{'op':'publish','name':'a','ranges':1,'mode':420}", 1);
	pid_t bob = fork();
	if (bob == 0) {
		become(BOB, 0);
		int fd = reach();
		speak(fd, READ);
		hear(fd, &page);
		snprintf(path, sizeof path, "/proc/self/fd/%d", page);
		bool bad = page < 0 || open(path, O_RDWR) >= 0 || ftruncate(page, 0) == 0;
		bad |= mmap(NULL, VG_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, page, 0) != MAP_FAILED;
		_exit(bad);
	}
	CHECK_INT(waitpid(bob, &status, 0), bob);
	CHECK_INT(status, 0);
	end(&alice);
}

// ---- the ladder -------------------------------------------------------------------------------------------------

static json_t *ask_back(const char *request, int *ret_fd)
{
	*ret_fd = reach();
	CHECK_INT(speak(*ret_fd, "%s", request), 0);
	return hear(*ret_fd, NULL);
}

static void check_report(json_t *report, const char *step, int holders, size_t left)
{
	CHECK(agreed(report));
	CHECK_STR(json_string_value(json_object_get(report, "step")), step);
	CHECK_INT(json_integer_value(json_object_get(report, "holders")), holders);
	CHECK_INT(json_array_size(json_object_get(report, "left")), left);
}

// Of a signal, within the time.
static bool has_ended(pid_t pid, int ms)
{
	int status;

	for (; waitpid(pid, &status, WNOHANG) == 0; ms -= 5) {
		if (ms <= 0)
			return false;
		poll(NULL, 0, 5);
	}
	return WIFSIGNALED(status);
}

TEST(only_the_owners_readers_are_ended)
{
	int fd;

	system_broker();
	struct player alice = play(ALICE, 0, "{'op':'publish','name':'a','ranges':1,'mode':420}", 1); // 0644
	struct player own = play(ALICE, 0, READ, 0), other = play(BOB, 0, READ, 0), root = play(0, 0, READ, 0);
	json_t *report = ask_back("{'op':'revoke','name':'a','deadline':0.05,'kill':true}", &fd);
	check_report(report, "terminated", 3, 2);
	json_decref(report);
	close(fd);
	CHECK(has_ended(own.pid, 2000));
	CHECK(!has_ended(other.pid, 0));
	CHECK(!has_ended(root.pid, 0));
	CHECK(!has_ended(alice.pid, 0)); // who published is told, not ended
	end(&other);
	end(&root);
	end(&alice);
	await_state("a", 0, "gone");
}

TEST(each_rung_of_the_ladder)
{
	int fd;
	struct vg_wire_event event;

	fresh_broker();
	// Nobody has it.
	struct published published = publish("a", ",'mode':384", 1);
	json_t *report = ask_back("{'op':'revoke','name':'a','deadline':30}", &fd);
	check_report(report, "asked", 0, 0);
	json_decref(report);
	close(fd);
	CHECK_INT(event_within(published.fd, 1000, NULL), VG_WIRE_ASKED_BACK);
	CHECK_INT(event_within(published.fd, 1000, NULL), VG_WIRE_WITHDRAWN);
	close(published.fd);
	// Who is asked and lets go.
	published = publish("a", ",'mode':384", 1);
	struct lease lease = open_lease("a", "read");
	fd = reach();
	CHECK_INT(speak(fd, "{'op':'revoke','name':'a','deadline':30}"), 0);
	CHECK_INT(event_within(lease.fd, 1000, &event), VG_WIRE_ASKED_BACK);
	CHECK(event.deadline_ns > vg_clock_monotonic_ns() + 20000000000);
	CHECK_INT(lease.page->asked, lease.generation);
	CHECK_INT(lease.page->deadline_ns, event.deadline_ns);
	int late;
	CHECK_REFUSED(try_open("a", "read", &late), "busy", "is being revoked");
	close(late);
	CHECK_REFUSED(ask_back("{'op':'revoke','name':'a','deadline':1}", &late), "busy", "is being revoked already");
	close(late);
	CHECK_INT(speak(late = reach(), "{'op':'publish','name':'a','ranges':1,'mode':384}"), 0);
	CHECK_REFUSED(hear(late, NULL), "busy", "is being revoked");
	close(late);
	close_lease(&lease);
	report = hear(fd, NULL);
	check_report(report, "asked", 1, 0);
	json_decref(report);
	close(fd);
	close(published.fd);
	// Who does not: withdrawn; with kill, but of somebody who is at it oneself: no further.
	published = publish("a", ",'mode':384", 1);
	lease = open_lease("a", "read");
	report = ask_back("{'op':'revoke','name':'a','deadline':0.01,'kill':true}", &fd);
	check_report(report, "withdrawn", 1, 1);
	json_decref(report);
	close(fd);
	CHECK_INT(lease.page->current, 0);
	close_lease(&lease);
	close(published.fd);
	await_state("a", 0, "gone");
}

static void terminated_or_killed(bool stubborn, const char *step)
{
	int fd, ready[2];
	char byte;

	fresh_broker();
	struct published published = publish("a", ",'mode':384", 1);
	CHECK_INT(pipe(ready), 0);
	pid_t child = fork();
	if (child == 0) {
		if (stubborn)
			signal(SIGTERM, SIG_IGN);
		alarm(TEST_CHILD_SECONDS);
		open_lease("a", "read");
		if (write(ready[1], "1", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	CHECK_INT(read(ready[0], &byte, 1), 1);
	json_t *report = ask_back("{'op':'revoke','name':'a','deadline':0.01,'kill':true}", &fd);
	check_report(report, step, 1, 0);
	json_decref(report);
	CHECK(has_ended(child, 2000));
	close(fd);
	close(published.fd);
	close(ready[0]);
	close(ready[1]);
}

TEST(a_reader_that_ends_when_told)
{
	terminated_or_killed(false, "terminated");
}

TEST(a_reader_that_does_not)
{
	terminated_or_killed(true, "killed");
}

TEST(whoever_revokes_and_goes_leaves_it_withdrawn)
{
	int fd;

	fresh_broker();
	struct published published = publish("a", ",'mode':384", 1);
	struct lease lease = open_lease("a", "read");
	fd = reach();
	CHECK_INT(speak(fd, "{'op':'revoke','name':'a','deadline':30,'kill':true}"), 0);
	CHECK_INT(event_within(lease.fd, 1000, NULL), VG_WIRE_ASKED_BACK);
	close(fd);
	CHECK_INT(event_within(lease.fd, 1000, NULL), VG_WIRE_WITHDRAWN);
	CHECK_INT(lease.page->current, 0);
	close(published.fd);
	published = publish("a", ",'mode':384", 2); // and may be published anew
	CHECK_INT(published.generation, 2);
	close_lease(&lease);
	close(published.fd);
}

TEST(whoever_revokes_and_says_something_else)
{
	int fd;

	fresh_broker();
	struct published published = publish("a", ",'mode':384", 1);
	struct lease lease = open_lease("a", "read");
	fd = reach();
	CHECK_INT(speak(fd, "{'op':'revoke','name':'a','deadline':30}"), 0);
	CHECK_INT(event_within(lease.fd, 1000, NULL), VG_WIRE_ASKED_BACK);
	CHECK_INT(speak(fd, "{'op':'commit'}"), 0);
	CHECK_REFUSED(hear(fd, NULL), "invalid", "makes no sense here");
	close(fd);
	CHECK_INT(event_within(lease.fd, 1000, NULL), VG_WIRE_WITHDRAWN);
	close_lease(&lease); // nobody waits for that any more
	close(published.fd);
	await_state("a", 0, "gone");
}

// ---- too much, and too little -----------------------------------------------------------------------------------

TEST(one_user_does_not_use_up_the_descriptors)
{
	int memory, fd, leases[128], count = 0;
	json_t *reply;

	descriptor_limit = 128;
	fresh_broker();
	descriptor_limit = 0;
	for (int i = 0; i < 2; i++) { // what was refused is not counted
		fd = reach();
		CHECK_INT(speak(fd, "{'op':'publish','name':'big','ranges':100,'mode':384}"), 0);
		CHECK_REFUSED(hear(fd, NULL), "limit", "64 are the most");
		close(fd);
	}
	memory = make_memory(1);
	struct published published = commit(register_ranges("w", ",'mode':384", &memory, 1, 0));
	for (count = 0; count < 128; count++) {
		reply = try_open("w", "read", &leases[count]);
		if (!agreed(reply))
			break;
		json_decref(reply);
	}
	CHECK(count >= 20 && count < 64);
	CHECK_REFUSED(reply, "limit", "64 are the most");
	CHECK_AGREED(ask("{'op':'ping'}")); // others are served
	for (; count >= 0; count--)
		close(leases[count]);
	await_leases("w", 0);
	struct lease lease = open_lease("w", "read");
	close_lease(&lease);
	close(published.fd);
	close(memory);
}

TEST(a_reader_that_takes_nothing_holds_nobody_up)
{
	enum { MANY = 512 };
	static int memory[MANY];
	int idle[8], taken[MANY];

	fresh_broker();
	for (int i = 0; i < MANY; i++)
		memory[i] = make_memory(i % 8);
	int publisher = register_ranges("w", ",'mode':384", memory, MANY, 0);
	commit(publisher);
	for (int i = 0; i < 8; i++) { // they ask, and never take what comes
		idle[i] = reach();
		CHECK_INT(setsockopt(idle[i], SOL_SOCKET, SO_RCVBUF, &(int){1}, sizeof(int)), 0);
		CHECK_INT(speak(idle[i], "{'op':'open','name':'w','access':'read'}"), 0);
	}
	uint64_t before = vg_clock_monotonic_ns();
	CHECK_AGREED(ask("{'op':'ping'}"));
	int fd;
	CHECK_AGREED(try_open("w", "read", &fd));
	CHECK(take_ranges(fd, taken, MANY, 0));
	CHECK((vg_clock_monotonic_ns() - before) / 1000000000 < 5);
	close(fd);
	for (int i = 0; i < 8; i++)
		close(idle[i]);
	await_leases("w", 0);
	for (int i = 0; i < MANY; i++) {
		close(memory[i]);
		close(taken[i]);
	}
	close(publisher);
}

TEST(a_publisher_that_stops_is_given_up)
{
	int fd, other;
	struct pollfd ended;

	fresh_broker();
	fd = reach();
	CHECK_INT(speak(fd, "{'op':'publish','name':'w','ranges':9,'mode':384}"), 0);
	CHECK_AGREED(hear(fd, NULL));
	CHECK_REFUSED(try_open("w", "read", &other), "not_ready", "is not complete");
	close(other);
	ended = (struct pollfd){.fd = fd, .events = POLLIN};
	CHECK_INT(poll(&ended, 1, 13000), 1); // after 10 s
	CHECK_REFUSED(try_open("w", "read", &other), "not_found", "there is no publication w");
	close(other);
	close(fd);
}

// A socket whose end waits until its peer has taken everything, which it never does: whoever closes it last waits too.
static int lingering_socket(int *ret_other)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof address;
	static char data[1 << 16];

	int listener = socket(AF_INET, SOCK_STREAM, 0), one = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&address, size) < 0 || listen(listener, 1) < 0 ||
	    getsockname(listener, (struct sockaddr *)&address, &size) < 0 ||
	    connect(one, (struct sockaddr *)&address, size) < 0)
		SKIP("no TCP on this machine");
	*ret_other = accept(listener, NULL, NULL);
	close(listener);
	while (send(one, data, sizeof data, MSG_DONTWAIT) > 0)
		;
	CHECK_INT(setsockopt(one, SOL_SOCKET, SO_LINGER, &(struct linger){1, 30}, sizeof(struct linger)), 0);
	return one;
}

static void check_prompt(void)
{
	uint64_t before = vg_clock_monotonic_ns();

	CHECK_AGREED(ask("{'op':'ping'}"));
	CHECK((vg_clock_monotonic_ns() - before) / 1000000000 < 5);
}

TEST(descriptors_that_do_not_close_hold_nobody_up)
{
	struct share_header header = {.magic = SHARE_MAGIC,
				      .version = SHARE_VERSION,
				      .count = 1,
				      .total = 1,
				      .size = sizeof(struct share_entry)};
	struct share_entry entry = {.bytes = MIB, .mapped = 2 * MIB, .granularity = 2 * MIB};
	int other, fd;

	fresh_broker();
	for (int kind = 0; kind < 4; kind++) {
		int slow = lingering_socket(&other);
		fd = reach();
		if (kind == 0) {
			CHECK_INT(speak(fd, "{'op':'publish','name':'w','ranges':1,'mode':384}"), 0);
			CHECK_AGREED(hear(fd, NULL));
		}
		CHECK_INT(kill(daemon_pid, SIGSTOP), 0); // whoever closes `slow` last waits: it must not be this process
		if (kind == 0) { // as a range
			CHECK_INT(vg_wire_send_raw(fd, &header, sizeof header, &entry, sizeof entry, &slow, 1), 0);
		} else if (kind == 1) { // beside a request
			CHECK_INT(vg_wire_send(fd, VG_WIRE_ADMIN, 0, "{}", 2, &slow, 1), 0);
		} else if (kind == 2) { // beside a word
			CHECK_INT(vg_wire_send(fd, VG_WIRE_SHARE, 0, "{}", 2, &slow, 1), 0);
		} else { // beside what is no message
			CHECK_INT(vg_wire_send_raw(fd, "?", 1, NULL, 0, &slow, 1), 0);
		}
		close(slow);
		CHECK_INT(kill(daemon_pid, SIGCONT), 0);
		check_prompt();
		close(fd);
		close(other);
	}
}
