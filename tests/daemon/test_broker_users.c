// Tests rights at the broker, the steps of a revocation, the limits of a user, and clients that do not respond.
#include "broker_fixture.h"

#include <grp.h>
#include <netinet/in.h>
#include <sys/socket.h>

// GAMES can be any group that has a name.
enum { ALICE = 60001, BOB = 60002, GAMES = 60 };

static void start_system_broker(void)
{
	if (geteuid() != 0)
		SKIP("only root can be several users");
	is_system_wide = true;
	fresh_node();
	CHECK_INT(chmod(directory, 0755), 0);
	start_broker();
	is_system_wide = false;
}

static void switch_user(uid_t uid, gid_t group)
{
	if ((group ? setgroups(1, &group) : setgroups(0, NULL)) < 0 || setgid((gid_t)uid) < 0 || setuid(uid) < 0)
		_exit(99);
}

// A process of a user that sends a request and then waits until it is killed. `outcome` is "yes" if the broker agreed,
// else the code in its answer.
struct player {
	pid_t pid;
	char outcome[32];
};

static struct player start_player(uid_t uid, gid_t group, const char *request, unsigned int ranges)
{
	struct player player = {0};
	int outcome[2], memory = -1, taken[8];

	CHECK_INT(pipe(outcome), 0);
	if (ranges)
		memory = make_memory(1);
	player.pid = fork();
	if (player.pid == 0) {
		alarm(TEST_CHILD_SECONDS);
		switch_user(uid, group);
		int fd = connect_to_broker();
		send_request(fd, "%s", request);
		json_t *reply = receive_answer(fd, NULL);
		if (agreed(reply) && memory >= 0 && send_ranges(fd, &memory, 1, 1) &&
		    agreed(reply = receive_answer(fd, NULL)) && send_request(fd, "{'op':'commit'}") == 0)
			reply = receive_answer(fd, NULL);
		else if (agreed(reply) && memory < 0 && strstr(request, "'open'"))
			receive_ranges(fd, taken, 1, strstr(request, "read-write") != NULL);
		const char *code = agreed(reply) ? "yes" : json_string_value(json_object_get(reply, "code"));
		if (write(outcome[1], code, strlen(code) + 1) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	close(outcome[1]);
	CHECK(read(outcome[0], player.outcome, sizeof player.outcome) > 0);
	close(outcome[0]);
	if (memory >= 0)
		close(memory);
	return player;
}

static void end_player(struct player *player)
{
	kill(player->pid, SIGKILL);
	waitpid(player->pid, NULL, 0);
}

#define CHECK_PLAYER(uid, group, request, wanted)                          \
	do {                                                               \
		struct player one_ = start_player(uid, group, request, 0); \
		end_player(&one_);                                         \
		CHECK_STR(one_.outcome, wanted);                           \
	} while (0)

#define READ "{'op':'open','name':'a','access':'read'}"
#define WRITE "{'op':'open','name':'a','access':'read-write'}"

TEST(mode_applies_to_owner_group_and_others)
{
	start_system_broker();
	// A publisher must be a member of the group that it names.
	struct player none =
		start_player(BOB, 0, "{'op':'publish','name':'a','ranges':1,'mode':416,'group':'games'}", 1);
	CHECK_STR(none.outcome, "denied");
	end_player(&none);
	struct player alice =
		start_player(ALICE, GAMES, "{'op':'publish','name':'a','ranges':1,'mode':416,'group':'games'}", 1);
	CHECK_STR(alice.outcome, "yes"); // mode 0640
	CHECK_PLAYER(ALICE, 0, WRITE, "yes");
	CHECK_PLAYER(BOB, GAMES, READ, "yes");
	CHECK_PLAYER(BOB, GAMES, WRITE, "denied");
	CHECK_PLAYER(BOB, 0, READ, "denied");
	CHECK_PLAYER(0, 0, WRITE, "yes");
	CHECK_PLAYER(BOB, GAMES, "{'op':'publish','name':'a','ranges':1,'mode':384}", "exists");
	CHECK_PLAYER(BOB, GAMES, "{'op':'revoke','name':'a','deadline':0}", "denied");
	CHECK_PLAYER(0, 0, "{'op':'publish','name':'a','ranges':1,'mode':384}",
		     "exists"); // only Alice, who has published the name first, may publish it again
	CHECK_PLAYER(ALICE, 0, "{'op':'revoke','name':'a','deadline':0}", "yes");
	end_player(&alice);
	await_state("a", 0, "gone");
	alice = start_player(ALICE, 0, "{'op':'publish','name':'a','ranges':1,'mode':388}", 1); // mode 0604
	CHECK_PLAYER(BOB, GAMES, READ, "yes");
	CHECK_PLAYER(BOB, 0, WRITE, "denied");
	end_player(&alice);
	alice = start_player(ALICE, 0, "{'op':'publish','name':'a','ranges':1,'mode':4}",
			     1); // mode 0004: not even the owner may open it
	CHECK_STR(alice.outcome, "yes");
	CHECK_PLAYER(ALICE, 0, READ, "denied");
	CHECK_PLAYER(BOB, 0, READ, "yes");
	end_player(&alice);
}

// Opens a page's descriptor for writing. Another user, who may read the page, must not be able to open it for writing.
TEST(page_descriptor_cannot_be_opened_for_writing)
{
	char path[64];
	int page = -1;

	start_system_broker();
	struct player alice = start_player(ALICE, 0, "{'op':'publish','name':'a','ranges':1,'mode':420}", 1);
	pid_t bob = fork();
	if (bob == 0) {
		switch_user(BOB, 0);
		int fd = connect_to_broker();
		send_request(fd, READ);
		receive_answer(fd, &page);
		snprintf(path, sizeof path, "/proc/self/fd/%d", page);
		bool bad = page < 0 || open(path, O_RDWR) >= 0 || ftruncate(page, 0) == 0;
		bad |= mmap(NULL, VG_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, page, 0) != MAP_FAILED;
		_exit(bad);
	}
	CHECK_CHILD(bob);
	end_player(&alice);
}

// ---- the steps of a revocation ------------------------------------------------------------------------------------

static json_t *begin_revocation(const char *request, int *ret_fd)
{
	*ret_fd = connect_to_broker();
	CHECK_INT(send_request(*ret_fd, "%s", request), 0);
	return receive_answer(*ret_fd, NULL);
}

static void check_report(json_t *report, const char *step, int holders, size_t left)
{
	CHECK(agreed(report));
	CHECK_STR(json_string_value(json_object_get(report, "step")), step);
	CHECK_INT(json_integer_value(json_object_get(report, "holders")), holders);
	CHECK_INT(json_array_size(json_object_get(report, "left")), left);
}

// Returns whether a signal has ended the process after at most `ms` milliseconds.
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

TEST(revoke_ends_only_the_owners_readers)
{
	int fd;

	start_system_broker();
	struct player alice = start_player(ALICE, 0, "{'op':'publish','name':'a','ranges':1,'mode':420}", 1); // 0644
	struct player own = start_player(ALICE, 0, READ, 0), other = start_player(BOB, 0, READ, 0),
		      root = start_player(0, 0, READ, 0);
	json_t *report = begin_revocation("{'op':'revoke','name':'a','deadline':0.05,'kill':true}", &fd);
	check_report(report, "terminated", 3, 2);
	json_decref(report);
	close(fd);
	CHECK(has_ended(own.pid, 2000));
	CHECK(!has_ended(other.pid, 0));
	CHECK(!has_ended(root.pid, 0));
	CHECK(!has_ended(alice.pid, 0)); // the publisher is notified, but not ended
	end_player(&other);
	end_player(&root);
	end_player(&alice);
	await_state("a", 0, "gone");
}

TEST(revoke_reports_its_last_step)
{
	int fd;
	struct vg_wire_event event;

	start_fresh_broker();
	// Revokes a publication without readers.
	struct published published = publish("a", ",'mode':384", 1);
	json_t *report = begin_revocation("{'op':'revoke','name':'a','deadline':30}", &fd);
	check_report(report, "asked", 0, 0);
	json_decref(report);
	close(fd);
	CHECK_INT(await_event(published.fd, 1000, NULL), VG_WIRE_ASKED_BACK);
	CHECK_INT(await_event(published.fd, 1000, NULL), VG_WIRE_WITHDRAWN);
	close(published.fd);
	// Revokes a publication whose reader releases the memory when the daemon asks for it.
	published = publish("a", ",'mode':384", 1);
	struct lease lease = open_lease("a", "read");
	fd = connect_to_broker();
	CHECK_INT(send_request(fd, "{'op':'revoke','name':'a','deadline':30}"), 0);
	CHECK_INT(await_event(lease.fd, 1000, &event), VG_WIRE_ASKED_BACK);
	CHECK(event.deadline_ns > vg_clock_monotonic_ns() + 20000000000);
	CHECK_INT(lease.page->asked, lease.generation);
	CHECK_INT(lease.page->deadline_ns, event.deadline_ns);
	int late;
	CHECK_REFUSED(try_open("a", "read", &late), "busy", "is being revoked");
	close(late);
	CHECK_REFUSED(begin_revocation("{'op':'revoke','name':'a','deadline':1}", &late), "busy",
		      "is being revoked already");
	close(late);
	CHECK_INT(send_request(late = connect_to_broker(), "{'op':'publish','name':'a','ranges':1,'mode':384}"), 0);
	CHECK_REFUSED(receive_answer(late, NULL), "busy", "is being revoked");
	close(late);
	close_lease(&lease);
	report = receive_answer(fd, NULL);
	check_report(report, "asked", 1, 0);
	json_decref(report);
	close(fd);
	close(published.fd);
	// Revokes a publication whose reader does not release the memory before the deadline. So the daemon withdraws
	// the publication. The option kill ends no process here, since the only reader is the revoking process.
	published = publish("a", ",'mode':384", 1);
	lease = open_lease("a", "read");
	report = begin_revocation("{'op':'revoke','name':'a','deadline':0.01,'kill':true}", &fd);
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

	start_fresh_broker();
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
	json_t *report = begin_revocation("{'op':'revoke','name':'a','deadline':0.01,'kill':true}", &fd);
	check_report(report, step, 1, 0);
	json_decref(report);
	CHECK(has_ended(child, 2000));
	close(fd);
	close(published.fd);
	close(ready[0]);
	close(ready[1]);
}

TEST(revoke_terminates_reader_with_SIGTERM)
{
	terminated_or_killed(false, "terminated");
}

TEST(revoke_kills_reader_that_ignores_SIGTERM)
{
	terminated_or_killed(true, "killed");
}

TEST(revoke_by_a_client_that_disconnects_withdraws)
{
	int fd;

	start_fresh_broker();
	struct published published = publish("a", ",'mode':384", 1);
	struct lease lease = open_lease("a", "read");
	fd = connect_to_broker();
	CHECK_INT(send_request(fd, "{'op':'revoke','name':'a','deadline':30,'kill':true}"), 0);
	CHECK_INT(await_event(lease.fd, 1000, NULL), VG_WIRE_ASKED_BACK);
	close(fd);
	CHECK_INT(await_event(lease.fd, 1000, NULL), VG_WIRE_WITHDRAWN);
	CHECK_INT(lease.page->current, 0);
	close(published.fd);
	published = publish("a", ",'mode':384", 2); // the name can be published again
	CHECK_INT(published.generation, 2);
	close_lease(&lease);
	close(published.fd);
}

TEST(request_of_a_revoking_client_ends_the_revocation)
{
	int fd;

	start_fresh_broker();
	struct published published = publish("a", ",'mode':384", 1);
	struct lease lease = open_lease("a", "read");
	fd = connect_to_broker();
	CHECK_INT(send_request(fd, "{'op':'revoke','name':'a','deadline':30}"), 0);
	CHECK_INT(await_event(lease.fd, 1000, NULL), VG_WIRE_ASKED_BACK);
	CHECK_INT(send_request(fd, "{'op':'commit'}"), 0);
	CHECK_REFUSED(receive_answer(fd, NULL), "invalid", "is not valid in this state");
	close(fd);
	CHECK_INT(await_event(lease.fd, 1000, NULL), VG_WIRE_WITHDRAWN);
	close_lease(&lease); // no revocation waits for this lease any more
	close(published.fd);
	await_state("a", 0, "gone");
}

// ---- limits and unresponsive peers ------------------------------------------------------------------------------

TEST(descriptors_of_one_user_are_limited)
{
	int memory, fd, leases[128], count = 0;
	json_t *reply;

	descriptor_limit = 128;
	start_fresh_broker();
	descriptor_limit = 0;
	for (int i = 0; i < 2; i++) { // publications that were refused do not count against the limit
		fd = connect_to_broker();
		CHECK_INT(send_request(fd, "{'op':'publish','name':'big','ranges':100,'mode':384}"), 0);
		CHECK_REFUSED(receive_answer(fd, NULL), "limit", "64 are the most");
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
	CHECK_AGREED(ask("{'op':'ping'}")); // the daemon still answers other clients
	for (; count >= 0; count--)
		close(leases[count]);
	await_leases("w", 0);
	struct lease lease = open_lease("w", "read");
	close_lease(&lease);
	close(published.fd);
	close(memory);
}

TEST(unresponsive_reader_delays_no_other_client)
{
	enum { MANY = 512 };
	static int memory[MANY];
	int idle[8], taken[MANY];

	start_fresh_broker();
	for (int i = 0; i < MANY; i++)
		memory[i] = make_memory(i % 8);
	int publisher = register_ranges("w", ",'mode':384", memory, MANY, 0);
	commit(publisher);
	for (int i = 0; i < 8; i++) { // these clients send requests, and never receive the answers
		idle[i] = connect_to_broker();
		CHECK_INT(setsockopt(idle[i], SOL_SOCKET, SO_RCVBUF, &(int){1}, sizeof(int)), 0);
		CHECK_INT(send_request(idle[i], "{'op':'open','name':'w','access':'read'}"), 0);
	}
	uint64_t before = vg_clock_monotonic_ns();
	CHECK_AGREED(ask("{'op':'ping'}"));
	int fd;
	CHECK_AGREED(try_open("w", "read", &fd));
	CHECK(receive_ranges(fd, taken, MANY, 0));
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

TEST(silent_publisher_is_disconnected)
{
	int fd, other;
	struct pollfd ended;

	start_fresh_broker();
	fd = connect_to_broker();
	CHECK_INT(send_request(fd, "{'op':'publish','name':'w','ranges':9,'mode':384}"), 0);
	CHECK_AGREED(receive_answer(fd, NULL));
	CHECK_REFUSED(try_open("w", "read", &other), "not_ready", "is not complete");
	close(other);
	ended = (struct pollfd){.fd = fd, .events = POLLIN};
	CHECK_INT(poll(&ended, 1, 13000), 1); // the daemon closes the connection after 10 s
	CHECK_REFUSED(try_open("w", "read", &other), "not_found", "there is no publication w");
	close(other);
	close(fd);
}

// Returns a socket with SO_LINGER whose peer never receives anything, so the last close() of the socket blocks.
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

TEST(blocking_close_delays_no_other_client)
{
	struct share_header header = valid_header;
	struct share_entry entry = valid_entry;
	int other, fd;

	start_fresh_broker();
	for (int kind = 0; kind < 4; kind++) {
		int slow = lingering_socket(&other);
		fd = connect_to_broker();
		if (kind == 0) {
			CHECK_INT(send_request(fd, "{'op':'publish','name':'w','ranges':1,'mode':384}"), 0);
			CHECK_AGREED(receive_answer(fd, NULL));
		}
		CHECK_INT(kill(daemon_pid, SIGSTOP),
			  // The last close() of `slow` blocks, and the daemon must be the process that makes it. So the
			  // daemon is stopped until this process has closed its own descriptor.
			  0);
		if (kind == 0) { // sends the descriptor `slow` with a range
			CHECK_INT(vg_wire_send_raw(fd, &header, sizeof header, &entry, sizeof entry, &slow, 1), 0);
		} else if (kind == 1) { // sends the descriptor `slow` with a request
			CHECK_INT(vg_wire_send(fd, VG_WIRE_ADMIN, 0, "{}", 2, &slow, 1), 0);
		} else if (kind == 2) { // sends the descriptor `slow` with a message of a session
			CHECK_INT(vg_wire_send(fd, VG_WIRE_SHARE, 0, "{}", 2, &slow, 1), 0);
		} else { // sends the descriptor `slow` with an invalid message
			CHECK_INT(vg_wire_send_raw(fd, "?", 1, NULL, 0, &slow, 1), 0);
		}
		close(slow);
		CHECK_INT(kill(daemon_pid, SIGCONT), 0);
		check_prompt();
		close(fd);
		close(other);
	}
}
