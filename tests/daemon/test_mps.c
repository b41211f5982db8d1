// Tests vGPUs of the mode mps, for which the daemon starts, watches and ends a control daemon of MPS. A script replaces
// NVIDIA's control daemon.
#include "mps_fixture.h"

static const char *mode_of(const char *name)
{
	static char text[16];
	json_t *reply = ask("{'op':'inspect','name':'%s'}", name);

	snprintf(text, sizeof text, "%s", json_string_value(json_object_get(json_object_get(reply, "vgpu"), "mode")));
	json_decref(reply);
	return text;
}

TEST(modes_are_stored_and_listed)
{
	set_up_mps_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'mode':'mps'}", GIB));
	CHECK_AGREED(ask("{'op':'create','name':'b','memory':%llu,'mode':'time'}", GIB));
	CHECK_AGREED(ask("{'op':'create','name':'c','memory':%llu}", GIB));
	CHECK_STR(mode_of("a"), "mps");
	CHECK_STR(mode_of("b"), "time");
	CHECK_STR(mode_of("c"), "time");
	CHECK_AGREED(ask("{'op':'set','name':'a','share':20}"));
	kill_daemon();
	start_daemon();
	CHECK_STR(mode_of("a"), "mps");
	CHECK_STR(mode_of("c"), "time");
	CHECK_INT(count_starts(), 0); // no program runs
	CHECK_REFUSED(ask("{'op':'create','name':'d','memory':%llu,'mode':'fast'}", GIB), "invalid",
		      "\"mode\" must be \"time\" or \"mps\"");
	CHECK_REFUSED(ask("{'op':'create','name':'d','memory':%llu,'mode':1}", GIB), "invalid", "\"mode\" must be");
}

TEST(mode_mps_is_refused_without_mps)
{
	fresh_node();
	setenv("VIRGATE_MPS_CONTROL", "/nonexistent/mps-control", 1);
	start_daemon();
	CHECK_REFUSED(ask("{'op':'create','name':'a','memory':%llu,'mode':'mps'}", GIB), "unsupported",
		      "/nonexistent/mps-control, which the daemon's VIRGATE_MPS_CONTROL names: it is missing");
	CHECK_REFUSED(ask("{'op':'enter','memory':%llu,'mode':'mps'}", GIB), "unsupported", "VIRGATE_MPS_CONTROL");
	CHECK_INT(figure("a", "memory"), -1);
	kill_daemon();
	setenv("VIRGATE_MPS_CONTROL", "", 1);
	if (!file_exists("/usr/bin/nvidia-cuda-mps-control") &&
	    !file_exists("/usr/local/bin/nvidia-cuda-mps-control") &&
	    !file_exists("/usr/local/nvidia/bin/nvidia-cuda-mps-control")) {
		start_daemon();
		CHECK_REFUSED(ask("{'op':'create','name':'a','memory':%llu,'mode':'mps'}", GIB), "unsupported",
			      "this machine has no nvidia-cuda-mps-control");
	}
}

TEST(programs_get_the_directory_of_a_listening_control_daemon)
{
	char answer[2000], line[1000], wanted[700];
	struct stat status;

	set_up_mps_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'mode':'mps','device':1}", GIB));
	pid_t launcher = enter_and_stay("'vgpu':'a'", answer);
	snprintf(wanted, sizeof wanted, "\"mps_pipe\": \"%s/mps/1-%u/pipe\"", runtime_dir, (unsigned int)getuid());
	CHECK_CONTAINS(answer, wanted);
	snprintf(wanted, sizeof wanted, "%s/mps/1-%u/pipe/control", runtime_dir, (unsigned int)getuid());
	CHECK(file_exists(wanted)); // the file exists when the answer arrives
	pid_t pid = last_control(line, sizeof line);
	CHECK(is_alive(pid));
	snprintf(wanted, sizeof wanted, " %u GPU-", (unsigned int)getuid());
	CHECK_CONTAINS(line, wanted);
	snprintf(wanted, sizeof wanted, " %s/mps/1-%u/pipe %s/mps/1-%u/log none", runtime_dir, (unsigned int)getuid(),
		 runtime_dir, (unsigned int)getuid());
	CHECK_CONTAINS(line, wanted);
	snprintf(wanted, sizeof wanted, "%s/mps/1-%u/pipe", runtime_dir, (unsigned int)getuid());
	CHECK_INT(stat(wanted, &status), 0);
	CHECK_INT(status.st_mode & 0777, 0700);
	CHECK_INT(status.st_uid, getuid());
	// Further programs use the same control daemon.
	pid_t second = enter_and_stay("'memory':1073741824,'mode':'mps','device':1", answer);
	CHECK_CONTAINS(answer, "mps_pipe");
	CHECK_INT(count_starts(), 1);
	kill_tenant(launcher);
	kill_tenant(second);
	await_end(pid); // the control daemon ends some seconds after the last program
	CHECK_INT(count_starts(), 1);
}

TEST(gpu_has_one_mode_at_a_time)
{
	char answer[2000];

	set_up_mps_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'mode':'mps','device':0}", GIB));
	CHECK_AGREED(ask("{'op':'create','name':'b','memory':%llu,'device':0}", GIB));
	CHECK_AGREED(ask("{'op':'create','name':'c','memory':%llu,'device':1}", GIB));
	pid_t launcher = enter_and_stay("'vgpu':'a'", answer);
	CHECK_REFUSED(ask("{'op':'enter','vgpu':'b'}"), "busy",
		      "GPU 0: the vGPU b has the mode time, but programs of the mode mps run there (vGPU a)");
	CHECK_REFUSED(ask("{'op':'enter','memory':%llu,'device':0}", GIB), "busy", "a GPU has one mode at a time");
	CHECK_AGREED(ask("{'op':'enter','vgpu':'c'}"));
	kill_tenant(launcher);
	launcher = enter_and_stay("'vgpu':'b'", answer);
	CHECK_CONTAINS(answer, "\"ok\": true");
	CHECK(!strstr(answer, "mps_pipe"));
	CHECK_REFUSED(ask("{'op':'enter','vgpu':'a'}"), "busy", "programs of the mode time run there (vGPU b)");
	kill_tenant(launcher);
}

static int device_of(const char *name)
{
	return (int)figure(name, "device");
}

TEST(choice_of_gpu_considers_the_mode)
{
	char answer[2000];

	set_up_mps_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'mode':'mps','device':0}", GIB));
	CHECK_AGREED(ask("{'op':'create','name':'b','memory':%llu,'device':1}", 4 * GIB));
	pid_t launcher = enter_and_stay("'vgpu':'a'", answer);
	// GPU 0 has more memory left, but programs of the mode mps run there. The next vGPU has the mode time, so the
	// daemon must choose GPU 1.
	pid_t second = enter_and_stay("'name':'c','memory':1073741824", answer);
	CHECK_INT(device_of("c"), 1);
	// The daemon creates vGPU d on the GPU where its programs can enter now.
	CHECK_AGREED(ask("{'op':'create','name':'d','memory':%llu}", GIB));
	CHECK_INT(device_of("d"), 1);
	CHECK_REFUSED(ask("{'op':'enter','memory':%llu}", 4 * GIB), "busy", "GPU 0: ");
	pid_t third = enter_and_stay("'name':'e','memory':1073741824,'mode':'mps'", answer);
	CHECK_INT(device_of("e"), 0);
	// If no GPU with enough memory admits programs now, a vGPU is created where its programs can enter later.
	CHECK_AGREED(ask("{'op':'create','name':'f','memory':%llu}", 4 * GIB));
	CHECK_INT(device_of("f"), 0);
	kill_tenant(launcher);
	kill_tenant(second);
	kill_tenant(third);
}

TEST(choice_of_gpu_is_limited_to_a_list)
{
	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'device':0}", GIB));
	CHECK_AGREED(ask("{'op':'create','name':'b','memory':%llu,'device':[0]}", GIB));
	CHECK_INT(device_of("b"), 0);
	CHECK_AGREED(ask("{'op':'create','name':'c','memory':%llu,'device':[0,'1']}", GIB));
	CHECK_INT(device_of("c"), 1);
	CHECK_REFUSED(ask("{'op':'create','name':'d','memory':%llu,'device':[0]}", 7 * GIB), "limit",
		      "GPU 0: asked for 7.0 GiB, but 6.0 GiB is left");
	CHECK_REFUSED(ask("{'op':'create','name':'d','memory':%llu,'device':[]}", GIB), "invalid", "or a list of them");
	CHECK_REFUSED(ask("{'op':'create','name':'d','memory':%llu,'device':[true]}", GIB), "invalid", "\"device\"");
	CHECK_REFUSED(ask("{'op':'create','name':'d','memory':%llu,'device':[1,2]}", GIB), "not_found",
		      "there is no GPU 2: this node has 2");
	CHECK_INT(device_of("d"), -1);
}

TEST(device_modes_override_the_mode)
{
	char answer[2000];

	set_up_mps_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'device':0,'device_modes':{'1':'mps'}}", GIB));
	CHECK_AGREED(ask("{'op':'create','name':'b','memory':%llu,'device':1,'device_modes':{'1':'mps'}}", GIB));
	CHECK_AGREED(ask("{'op':'create','name':'c','memory':%llu,'mode':'mps','device':0,'device_modes':{'0':'time'}}",
			 GIB));
	CHECK_STR(mode_of("a"), "time");
	CHECK_STR(mode_of("b"), "mps");
	CHECK_STR(mode_of("c"), "time");
	// A new vGPU gets the mode that `device_modes` names for its GPU.
	pid_t launcher = enter_and_stay("'name':'d','memory':1073741824,'device_modes':{'1':'mps'}", answer);
	CHECK_INT(device_of("d"), 1);
	CHECK_STR(mode_of("d"), "mps");
	pid_t second = enter_and_stay("'name':'e','memory':1073741824,'device_modes':{'1':'time'}", answer);
	CHECK_INT(device_of("e"), 0); // GPU 1 is in the mode mps now, so the daemon chooses GPU 0
	CHECK_REFUSED(ask("{'op':'enter','memory':%llu,'device_modes':{'2':'mps'}}", GIB), "not_found",
		      "there is no GPU 2");
	CHECK_REFUSED(ask("{'op':'enter','memory':%llu,'device_modes':{'0':'fast'}}", GIB), "invalid",
		      "every value of \"device_modes\"");
	CHECK_REFUSED(ask("{'op':'enter','memory':%llu,'device_modes':'mps'}", GIB), "invalid", "must be an object");
	char many[2048] = "";
	for (int i = 0; i < 129; i++)
		snprintf(many + strlen(many), sizeof many - strlen(many), "%s'%04d':'mps'", i ? "," : "", i);
	CHECK_REFUSED(ask("{'op':'enter','memory':%llu,'device_modes':{%s}}", GIB, many), "invalid",
		      "has 129 GPUs, and 128 are the most");
	kill_tenant(launcher);
	kill_tenant(second);
}

TEST(ended_control_daemon_is_started_again)
{
	char answer[2000], line[1000];

	set_up_mps_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'share':30,'mode':'mps'}", GIB));
	pid_t launcher = enter_and_stay("'vgpu':'a'", answer);
	pid_t first = last_control(line, sizeof line);
	kill(first, SIGKILL);
	for (int i = 0; i < 1000 && count_starts() < 2; i++)
		poll(NULL, 0, 10);
	pid_t second = last_control(line, sizeof line);
	CHECK(second != first && is_alive(second));
	pid_t other = enter_and_stay("'vgpu':'a'", answer);
	CHECK_CONTAINS(answer, "mps_pipe");
	CHECK_INT(count_starts(), 2);
	kill_tenant(other);
	kill_tenant(launcher);
}

TEST(failing_control_daemon_is_started_with_growing_pauses)
{
	set_up_mps_node();
	create_file("fails");
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'mode':'mps'}", GIB));
	CHECK_REFUSED(ask("{'op':'enter','vgpu':'a'}"), "busy", "its MPS control daemon has ended 1 time in a row");
	unsigned int starts = count_starts();
	CHECK_INT(starts, 1);
	for (int i = 0; i < 20; i++)
		CHECK_REFUSED(ask("{'op':'enter','vgpu':'a'}"), "busy", "the next start is in ");
	CHECK(count_starts() <= 2);
	unlink(beside_control("fails"));
	json_t *reply = NULL;
	for (int i = 0; i < 1000; i++) {
		json_decref(reply);
		reply = ask("{'op':'enter','vgpu':'a'}");
		if (agreed(reply))
			break;
		poll(NULL, 0, 10);
	}
	CHECK(agreed(reply));
	json_decref(reply);
}

TEST(control_daemon_that_does_not_listen_is_killed)
{
	char line[1000];

	set_up_mps_node();
	create_file("deaf");
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'mode':'mps'}", GIB));
	CHECK_REFUSED(ask("{'op':'enter','vgpu':'a'}"), "busy", "its MPS control daemon has ended");
	await_end(last_control(line, sizeof line));
}

TEST(no_program_enters_a_server_that_has_just_ended)
{
	static const char request[] = "{\"op\":\"enter\",\"vgpu\":\"a\"}";
	static struct vg_wire_message message;
	char answer[2000], line[1000];
	uint64_t start_time;

	set_up_mps_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'mode':'mps','device':0}", GIB));
	pid_t launcher = enter_and_stay("'vgpu':'a'", answer);
	pid_t pid = last_control(line, sizeof line);
	CHECK_INT(vg_process_start_time(pid, &start_time), 0);
	int fd = vg_wire_connect(socket_path, 20000);
	CHECK(fd >= 0);
	CHECK_STR(mode_of("a"), "mps"); // the daemon has accepted the connection
	// The stopped daemon gets the request first, and then the news that the control daemon has ended.
	kill(daemon_pid, SIGSTOP);
	CHECK_INT(waitpid(daemon_pid, NULL, WUNTRACED), daemon_pid);
	CHECK_INT(vg_wire_send(fd, VG_WIRE_ADMIN, 0, request, strlen(request), NULL, 0), 0);
	kill(pid, SIGKILL);
	for (int i = 0; i < 3000 && !vg_process_is_dead(pid, start_time); i++)
		poll(NULL, 0, 10);
	CHECK(vg_process_is_dead(pid, start_time));
	kill(daemon_pid, SIGCONT);
	CHECK_INT(vg_wire_receive(fd, &message), 0);
	CHECK_CONTAINS(message.text, "its MPS control daemon has ended 1 time in a row");
	close(fd);
	kill_tenant(launcher);
}

TEST(file_of_a_killed_control_daemon_does_not_count_as_listening)
{
	char answer[2000], line[1000];
	int pipe_fd;

	set_up_mps_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'mode':'mps','device':0}", GIB));
	pid_t launcher = enter_and_stay("'vgpu':'a'", answer);
	CHECK_CONTAINS(answer, "mps_pipe");
	create_file("slow"); // the next control daemon starts, but does not listen yet
	pid_t first = last_control(line, sizeof line);
	kill(first, SIGKILL);
	await_end(first);
	for (int i = 0; i < 3000 && count_starts() < 2; i++)
		poll(NULL, 0, 10);
	CHECK_INT(count_starts(), 2);
	pid_t second = start_entering(geteuid(), "'vgpu':'a'", &pipe_fd);
	struct pollfd answered = {.fd = pipe_fd, .events = POLLIN};
	CHECK_INT(poll(&answered, 1, 500), 0);
	unlink(beside_control("slow"));
	read_answer(pipe_fd, answer);
	CHECK_CONTAINS(answer, "mps_pipe");
	kill_tenant(second);
	kill_tenant(launcher);
}

TEST(next_daemon_takes_over_the_control_daemon)
{
	char answer[2000], line[1000];

	set_up_mps_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'mode':'mps'}", GIB));
	pid_t launcher = enter_and_stay("'vgpu':'a'", answer);
	pid_t pid = last_control(line, sizeof line);
	kill_daemon();
	CHECK(is_alive(pid)); // the control daemon survives, so its clients continue to run
	start_daemon();
	pid_t other = enter_and_stay("'vgpu':'a'", answer);
	CHECK_CONTAINS(answer, "mps_pipe");
	CHECK_INT(count_starts(), 1);
	kill_tenant(launcher);
	kill_tenant(other);
	await_end(pid);
}

TEST(number_of_clients_is_limited)
{
	char answer[2000];
	pid_t launchers[44];

	set_up_mps_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'mode':'mps'}", GIB));
	for (int i = 0; i < 44; i++) {
		launchers[i] = enter_and_stay("'vgpu':'a'", answer);
		CHECK_CONTAINS(answer, "mps_pipe");
	}
	CHECK_REFUSED(ask("{'op':'enter','vgpu':'a'}"), "limit",
		      "44 programs run there in the mode mps, and a server has at most 48 clients on a GPU, of which 4 "
		      "are kept");
	for (int i = 0; i < 44; i++)
		kill_tenant(launchers[i]);
}

// ---- the system's daemon -------------------------------------------------------------------------------

enum { FIRST = 65534, SECOND = 1 }; // the users "nobody" and "daemon", which exist on every machine

static void start_system_daemon(void)
{
	int ready[2];
	char number[12], state[300], byte;

	CHECK_INT(pipe(ready), 0);
	snprintf(state, sizeof state, "%s/state", directory);
	daemon_pid = fork();
	if (daemon_pid == 0) {
		close(ready[0]);
		dup2(open(beside_control("log"), O_WRONLY | O_CREAT | O_APPEND, 0600), 2);
		setenv("VIRGATE_RUNTIME_DIR", runtime_dir, 1);
		setenv("VIRGATE_STATE_DIR", state, 1);
		setenv("VIRGATE_CLAIMS_DIR", beside_control("claims"), 1);
		setenv("VIRGATE_NVML", FAKE_NVML_LIBRARY, 1);
		setenv("FAKE_NVML", nvml_world, 1);
		setenv("LD_PRELOAD", "", 1);
		unsetenv("VIRGATE_SIM");
		snprintf(number, sizeof number, "%d", ready[1]);
		execl(VIRGATED, "virgated", "--system", "--ready-fd", number, NULL);
		_exit(127);
	}
	close(ready[1]);
	CHECK(read(ready[0], &byte, 1) == 1);
	close(ready[0]);
}

TEST(control_daemon_runs_as_its_user)
{
	char answer[2000], line[1000], path[700], wanted[64];
	struct stat status;

	if (geteuid() != 0)
		SKIP("only root's daemon starts programs for others");
	set_up_mps_node();
	// The stand-in for the control daemon runs as the user, and appends to the file `said` in this directory.
	CHECK_INT(chmod(directory, 0777), 0);
	CHECK_INT(chmod(control, 0755), 0);
	create_file("said");
	CHECK_INT(chmod(beside_control("said"), 0666), 0);
	start_system_daemon();
	pid_t first = enter_as(FIRST, "'memory':1073741824,'mode':'mps','device':0", answer);
	CHECK_CONTAINS(answer, "mps_pipe");
	pid_t pid = last_control(line, sizeof line);
	snprintf(wanted, sizeof wanted, " %d GPU-", FIRST);
	CHECK_CONTAINS(line, wanted);
	snprintf(path, sizeof path, "/proc/%d", (int)pid);
	CHECK_INT(stat(path, &status), 0);
	CHECK_INT(status.st_uid, FIRST);
	static const char *const own[] = {"pipe", "log"};
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "%s/mps/0-%d/%s", runtime_dir, FIRST, own[i]);
		CHECK_INT(lstat(path, &status), 0);
		CHECK_INT(status.st_uid, FIRST);
		CHECK_INT(status.st_mode & 07777, 0700); // other users cannot connect to the control daemon
	}
	static const char *const above[] = {"mps", "mps/0-65534"};
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "%s/%s", runtime_dir, above[i]);
		CHECK_INT(lstat(path, &status), 0);
		CHECK_INT(status.st_uid, 0);
		CHECK_INT(status.st_mode & 07777, 0711);
	}
	// Clients of the MPS servers of two users would share the GPU without turns, so a second user is refused.
	pid_t second = enter_as(SECOND, "'memory':1073741824,'mode':'mps','device':0", answer);
	CHECK_CONTAINS(answer, "serves one user at a time");
	kill_tenant(second);
	second = enter_as(SECOND, "'memory':1073741824,'mode':'mps','device':1", answer);
	CHECK_CONTAINS(answer, "mps_pipe");
	last_control(line, sizeof line);
	snprintf(wanted, sizeof wanted, " %d GPU-", SECOND);
	CHECK_CONTAINS(line, wanted);
	CHECK_INT(count_starts(), 2);
	kill_tenant(first);
	kill_tenant(second);
}
