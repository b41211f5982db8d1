// Kills the daemon (kill -9) at every step of publishing, opening, withdrawing and revoking. No client may hang,
// and no files or descriptors may be left. The next daemon must accept a publication with the same name.
#include "broker_fixture.h"

#define OWN ",'mode':384"

// Sends a request. Returns false if the daemon has ended, which is allowed at every message.
static bool was_agreed(int fd, const char *request, int *ret_page)
{
	json_t *reply = send_request(fd, "%s", request) == 0 ? receive_answer(fd, ret_page) : NULL;
	bool fine = agreed(reply);

	json_decref(reply);
	return fine;
}

static int try_publish(const int *memory, unsigned int count)
{
	int fd = vg_wire_connect(socket_path, 10000);
	char request[128];

	snprintf(request, sizeof request, "{'op':'publish','name':'w','ranges':%u" OWN "}", count);
	if (fd < 0 || !was_agreed(fd, request, NULL) || !send_ranges(fd, memory, count, 1))
		return fd;
	json_t *reply = receive_answer(fd, NULL);
	if (agreed(reply))
		was_agreed(fd, "{'op':'commit'}", NULL);
	json_decref(reply);
	return fd;
}

static int try_lease(unsigned int count)
{
	int fd = vg_wire_connect(socket_path, 10000), taken[16];

	if (fd >= 0 && was_agreed(fd, "{'op':'open','name':'w','access':'read'}", NULL))
		receive_ranges(fd, taken, count, 0);
	return fd;
}

// Starts a reader whose lease the revocation ends.
static pid_t start_reader(void)
{
	int ready[2];
	char byte;

	CHECK_INT(pipe(ready), 0);
	pid_t child = fork();
	if (child == 0) {
		alarm(TEST_CHILD_SECONDS);
		int fd = try_lease(1);
		if (write(ready[1], "1", 1) != 1)
			_exit(1);
		for (;;)
			pause(); // keeps `fd` open
		close(fd);
	}
	close(ready[1]);
	CHECK_INT(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return child;
}

static void run_scenario(void)
{
	int memory[9];

	for (int i = 0; i < 9; i++)
		memory[i] = make_memory(i);
	int first = try_publish(memory, 9), reader = try_lease(9);
	int second = try_publish(memory, 1);
	pid_t child = start_reader();
	if (first >= 0 && send_request(first, "{'op':'withdraw'}") == 0)
		json_decref(receive_answer(first, NULL));
	close(first);
	close(reader);
	int revoker = vg_wire_connect(socket_path, 10000);
	if (revoker >= 0)
		was_agreed(revoker, "{'op':'revoke','name':'w','deadline':0.01,'kill':true}", NULL);
	close(revoker);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(second);
}

static int count_pages(void)
{
	char path[400];
	int count = 0;

	for (int i = 0; i < 400; i++) {
		snprintf(path, sizeof path, "ls -A %s/publications 2>/dev/null | wc -l", runtime_dir);
		FILE *pipe = popen(path, "re");
		CHECK(pipe && fscanf(pipe, "%d", &count) == 1);
		pclose(pipe);
		if (count == 0)
			break;
		poll(NULL, 0, 5);
	}
	return count;
}

// Starts the next daemon, and checks that it can use the files that the killed daemon left.
static void check_next(void)
{
	start_broker();
	struct published published = publish("w", OWN, 77);
	struct lease lease = open_lease("w", "read");
	CHECK_INT(lease.page->current, published.generation);
	CHECK_INT(count_daemon_descriptors(77), 1);
	close(published.fd);
	close_lease(&lease);
	await_state("w", 0, "gone");
	await_released(77);
	CHECK_INT(count_pages(), 0);
	kill_daemon();
}

// Runs the scenario in a child process, so that the next daemon inherits none of the scenario's descriptors. An alarm
// kills a child that hangs.
static void run_in_child(void)
{
	pid_t child = fork();

	if (child == 0) {
		alarm(TEST_CHILD_SECONDS);
		run_scenario();
		_exit(0);
	}
	CHECK_CHILD(child);
}

static bool is_killed(void)
{
	int status;
	uint64_t start = vg_clock_monotonic_ns();

	while (waitpid(daemon_pid, &status, WNOHANG) == 0) {
		if (vg_clock_monotonic_ns() - start > 300000000)
			return false;
		poll(NULL, 0, 2);
	}
	daemon_pid = 0;
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

TEST(daemon_killed_at_every_step_leaves_nothing)
{
	int step = 0;

	fresh_node();
	for (bool killed = true; killed; step++) {
		if (start_broker_program(VIRGATED_STEPS, step))
			run_in_child();
		killed = is_killed();
		if (!killed)
			kill_daemon();
		check_next();
	}
	static const char *const met[] = {"named",
					  "a packet is kept",
					  "the page's file is empty",
					  "the page has no magic",
					  "there is a ticket",
					  "the generation is given out",
					  "visible",
					  "a lease is given",
					  "a packet went to a reader",
					  "withdrawn",
					  "about to ask back",
					  "asked back",
					  "withdrawn from its readers",
					  "a signal was sent",
					  "about to report",
					  "a session is about to end",
					  "the page is about to go"};
	char path[300], log[65536], words[80];
	snprintf(path, sizeof path, "%s/log", directory);
	CHECK(vg_file_read(path, log, sizeof log) > 0);
	for (size_t i = 0; i < sizeof met / sizeof *met; i++) { // each step must have been reached in at least one run
		snprintf(words, sizeof words, "killed: %s\n", met[i]);
		CHECK_CONTAINS(log, words);
	}
	printf("%d steps\n", step - 1);
}
