// Starts a daemon that uses a script in place of NVIDIA's control daemon of MPS, and programs that enter vGPUs.
#pragma once
#include "daemon_fixture.h"

#include <grp.h>
#include <sys/prctl.h>

static char control[300];

static inline bool file_exists(const char *path)
{
	return access(path, F_OK) == 0;
}

static inline const char *beside_control(const char *name)
{
	static char path[330];

	snprintf(path, sizeof path, "%s/%s", directory, name);
	return path;
}

static inline void create_file(const char *name)
{
	close(open(beside_control(name), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
}

// Starts a daemon that uses the script in place of NVIDIA's control daemon. Files beside the script make it fail.
static inline void set_up_mps_node(void)
{
	char command[900];

	fresh_node();
	snprintf(control, sizeof control, "%s/mps-control-standin", directory);
	snprintf(command, sizeof command, "cp '%s' '%s'", STANDIN, control);
	CHECK_INT(system(command), 0);
	setenv("VIRGATE_MPS_CONTROL", control, 1);
}

// Returns the pid of the control daemon that was started last; `line` gets its pid, uid, GPU and directories.
static inline pid_t last_control(char *ret_line, size_t size)
{
	char text[8192];
	ssize_t length = vg_file_read(beside_control("said"), text, sizeof text);

	if (length <= 0)
		return 0;
	text[length - 1] = '\0';
	const char *line = strrchr(text, '\n');
	snprintf(ret_line, size, "%.900s", line ? line + 1 : text);
	return (pid_t)atoi(ret_line);
}

static inline unsigned int count_starts(void)
{
	char text[8192];
	ssize_t length = vg_file_read(beside_control("said"), text, sizeof text);
	unsigned int count = 0;

	for (ssize_t i = 0; i < length; i++)
		count += text[i] == '\n';
	return count;
}

static inline bool is_alive(pid_t pid)
{
	return pid > 0 && kill(pid, 0) == 0;
}

static inline void await_end(pid_t pid)
{
	for (int i = 0; i < 3000 && is_alive(pid); i++)
		poll(NULL, 0, 10);
	CHECK(!is_alive(pid));
}

// Starts a process of the user that enters a vGPU, writes the daemon's answer into a pipe, and waits. Returns its pid;
// *ret_answer is the pipe.
static inline pid_t start_entering(uid_t uid, const char *fields, int *ret_answer)
{
	int ready[2];

	CHECK_INT(pipe(ready), 0);
	pid_t child = fork();
	if (child == 0) {
		if (uid != geteuid() && (setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid)))
			_exit(1);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		json_t *reply = ask("{'op':'enter',%s}", fields);
		char *text = json_dumps(reply, 0);
		if (!text || write(ready[1], text, strlen(text)) < 0)
			_exit(1);
		close(ready[1]);
		for (;;)
			pause();
	}
	close(ready[1]);
	*ret_answer = ready[0];
	return child;
}

static inline void read_answer(int pipe_fd, char answer[2000])
{
	ssize_t length = read(pipe_fd, answer, 1999);

	close(pipe_fd);
	CHECK(length > 0);
	answer[length] = '\0';
}

// Starts a process of the user that enters a vGPU and waits. Returns its pid; `answer` gets the daemon's answer.
static inline pid_t enter_as(uid_t uid, const char *fields, char answer[2000])
{
	int pipe_fd;
	pid_t child = start_entering(uid, fields, &pipe_fd);

	read_answer(pipe_fd, answer);
	return child;
}

static inline pid_t enter_and_stay(const char *fields, char answer[2000])
{
	return enter_as(geteuid(), fields, answer);
}
