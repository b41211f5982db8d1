// share selftest: runs a producer and a consumer as processes, and prints the output of both.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "options.h"
#include "say.h"
#include "share.h"

struct side {
	const char *name, *verb;
	pid_t pid;
	int output; // read end of the pipe to which the process writes its output; -1: closed
	char line[512];
	size_t length;
	int code;
};

static void relay_line(struct side *side)
{
	print_line("%s: %.*s", side->name, (int)side->length, side->line);
	side->length = 0;
}

// Prints the complete lines of a process's output. Returns false at the end of the output.
static bool relay_output(struct side *side)
{
	char text[1024];
	ssize_t got;

	do
		got = read(side->output, text, sizeof text);
	while (got < 0 && errno == EINTR);
	for (ssize_t i = 0; i < got; i++) {
		if (text[i] != '\n')
			side->line[side->length++] = text[i];
		if (text[i] == '\n' || side->length == sizeof side->line)
			relay_line(side);
	}
	if (got <= 0 && side->length)
		relay_line(side);
	return got > 0;
}

// Starts this program as a producer or consumer, with the same options and the given socket.
static int start_side(struct side *side, const struct arguments *arguments, const char *socket_option)
{
	posix_spawn_file_actions_t actions;
	char device[300], seconds[64], sim[1100];
	const char *values[] = {option_value(arguments, "device"), option_value(arguments, "timeout"),
				option_value(arguments, "sim")};
	char *words[8] = {"virgate", "share", (char *)side->verb, (char *)socket_option};
	int ends[2], count = 4;

	if (values[0] && snprintf(device, sizeof device, "--device=%s", values[0]) > 0)
		words[count++] = device;
	if (values[1] && snprintf(seconds, sizeof seconds, "--timeout=%s", values[1]) > 0)
		words[count++] = seconds;
	if (values[2] && snprintf(sim, sizeof sim, *values[2] ? "--sim=%s" : "--sim", values[2]) > 0)
		words[count++] = sim;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	int r = posix_spawn_file_actions_init(&actions);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
	if (r == 0)
		r = posix_spawn(&side->pid, "/proc/self/exe", &actions, NULL, words, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	side->output = ends[0];
	return -r;
}

// Reaps `side`, which is the producer or the consumer. If it failed, kills `other`, which would otherwise wait until
// its timeout.
static void reap_side(struct side *side, struct side *other)
{
	int status;

	close(side->output);
	side->output = -1;
	while (waitpid(side->pid, &status, 0) < 0 && errno == EINTR)
		;
	side->code = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_SIGNAL + WTERMSIG(status);
	if (side->code != EXIT_OK && other->output >= 0)
		kill(other->pid, SIGTERM);
}

static void relay_both(struct side sides[2])
{
	while (sides[0].output >= 0 || sides[1].output >= 0) {
		struct pollfd ready[2] = {{.fd = sides[0].output, .events = POLLIN},
					  {.fd = sides[1].output, .events = POLLIN}};
		if (poll(ready, 2, -1) < 0 && errno != EINTR)
			return;
		for (int i = 0; i < 2; i++)
			if (ready[i].revents && !relay_output(&sides[i]))
				reap_side(&sides[i], &sides[!i]);
	}
}

static int run_pair(const struct arguments *arguments, const char *socket_option)
{
	struct side sides[2] = {{.name = "producer", .verb = "produce", .output = -1, .code = EXIT_FAILED},
				{.name = "consumer", .verb = "consume", .output = -1, .code = EXIT_FAILED}};

	setvbuf(stdout, NULL, _IOLBF, 0);
	int r = start_side(&sides[0], arguments, socket_option);
	if (r == 0) {
		r = start_side(&sides[1], arguments, socket_option);
		if (r < 0)
			kill(sides[0].pid, SIGTERM);
	}
	if (r < 0)
		say_error("cannot start a process: %s", strerror(-r));
	relay_both(sides);
	bool good = r == 0 && sides[0].code == EXIT_OK && sides[1].code == EXIT_OK;
	printf("selftest %s: the producer ended with %d, the consumer with %d\n", good ? "PASSED" : "FAILED",
	       sides[0].code, sides[1].code);
	return good ? EXIT_OK : EXIT_FAILED;
}

static int run_share_selftest(const struct arguments *arguments)
{
	const char *given = option_value(arguments, "socket");
	char directory[] = "/tmp/virgate-selftest.XXXXXX", socket_option[PATH_MAX + 16];
	struct share_pair pair; // read here so that mistakes in the options are reported once, not by both processes

	int r = share_pair_read(arguments, &pair);
	if (r)
		return r;
	if (given) {
		snprintf(socket_option, sizeof socket_option, "--socket=%s", pair.socket);
		return run_pair(arguments, socket_option);
	}
	if (!mkdtemp(directory)) {
		say_error("cannot create a directory in /tmp: %m");
		return EXIT_FAILED;
	}
	snprintf(socket_option, sizeof socket_option, "--socket=%s/share.sock", directory);
	r = run_pair(arguments, socket_option);
	unlink(socket_option + strlen("--socket=")); // the socket still exists if the producer was killed
	strcat(socket_option, ".lock");
	unlink(socket_option + strlen("--socket="));
	rmdir(directory);
	return r;
}

static const struct option options[] = {SHARE_OPTIONS, {0}};

const struct verb verb_share_selftest = {
	.name = "share selftest",
	.synopsis = "[--socket PATH] [--device GPU] [--timeout SECONDS] [--sim]",
	.summary = "Run a producer and a consumer and print their output",
	.details = "Exit status: 0 if the consumer read what the producer wrote, 1 if not.",
	.options = options,
	.run = run_share_selftest,
};
