// Tests jobs with several GPUs in the mode mps: the daemon keeps one control daemon of MPS for all GPUs of a job. A
// script replaces NVIDIA's control daemon.
#include "mps_fixture.h"

#define JOB(name_) "'memory':1073741824,'mode':'mps','job':'" name_ "','job_gpus':2"

// Starts a process that enters a vGPU on each of two GPUs, and waits. `fields`, which may be empty, follow the request.
// Returns its pid; the pipes get the answers.
static pid_t start_job(const char *name, const char *fields, int ret_answers[2])
{
	int ready[2][2];

	CHECK_INT(pipe(ready[0]), 0);
	CHECK_INT(pipe(ready[1]), 0);
	pid_t child = fork();
	for (int i = 0; child == 0 && i < 2; i++) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		json_t *reply =
			ask("{'op':'enter','name':'%s.%d','memory':%llu,'mode':'mps','job':'%s','job_gpus':2%s}", name,
			    i, GIB, name, fields);
		char *text = json_dumps(reply, 0);
		if (!text || write(ready[i][1], text, strlen(text)) < 0)
			_exit(1);
		close(ready[i][1]);
	}
	while (child == 0)
		pause();
	for (int i = 0; i < 2; i++) {
		close(ready[i][1]);
		ret_answers[i] = ready[i][0];
	}
	return child;
}

// Calls start_job(), and waits for both answers.
static pid_t enter_job(const char *name, char answers[2][2000])
{
	int pipes[2];
	pid_t child = start_job(name, "", pipes);

	read_answer(pipes[0], answers[0]);
	read_answer(pipes[1], answers[1]);
	return child;
}

// Waits until the control daemon that was started last has a directory with this name. Returns its pid.
static pid_t await_control(const char *name)
{
	char line[1000] = "";
	pid_t pid = 0;

	for (int i = 0; i < 3000 && !strstr(line, name); i++) {
		poll(NULL, 0, 10);
		pid = last_control(line, sizeof line);
	}
	CHECK_CONTAINS(line, name);
	return pid;
}

// Checks that the last control daemon serves both GPUs of the node, and that the answer names its directory.
static pid_t check_server_of_both(const char *answer)
{
	char line[1000], wanted[700];

	snprintf(wanted, sizeof wanted, "\"mps_pipe\": \"%s/mps/0+1-%u/pipe\"", runtime_dir, (unsigned int)getuid());
	CHECK_CONTAINS(answer, wanted);
	pid_t pid = last_control(line, sizeof line);
	CHECK(is_alive(pid));
	const char *first = strstr(line, "GPU-"), *second = first ? strstr(first, ",GPU-") : NULL;
	CHECK(second && !strstr(second + 1, ",GPU-"));
	return pid;
}

TEST(job_gets_one_server_for_its_gpus)
{
	char answers[2][2000], other[2][2000], single[2000];

	set_up_mps_node();
	start_daemon();
	pid_t job = enter_job("a", answers);
	CHECK_CONTAINS(answers[0], "\"ok\": true");
	// The first answer names no server, because the job has not entered its second GPU yet.
	CHECK(!strstr(answers[0], "mps_pipe"));
	pid_t pid = check_server_of_both(answers[1]);
	// A second job, and a program on one of the GPUs, use the same server.
	pid_t second = enter_job("b", other);
	CHECK_INT(check_server_of_both(other[1]), pid);
	pid_t beside = enter_and_stay("'memory':1073741824,'mode':'mps','device':1", single);
	CHECK_INT(check_server_of_both(single), pid);
	CHECK_INT(count_starts(), 1);
	// The jobs end, but the program `beside` still uses the server for both GPUs. A new program gets it, too.
	kill_tenant(job);
	kill_tenant(second);
	pid_t third = enter_and_stay("'memory':1073741824,'mode':'mps','device':0", single);
	CHECK_INT(check_server_of_both(single), pid);
	kill_tenant(third);
	kill_tenant(beside);
	await_end(pid);
	// The server for both GPUs has ended. A new program gets a server for its own GPU only.
	third = enter_and_stay("'memory':1073741824,'mode':'mps','device':0", single);
	CHECK_CONTAINS(single, "/mps/0-");
	CHECK_INT(count_starts(), 2);
	kill_tenant(third);
}

TEST(job_waits_for_the_end_of_an_unused_server)
{
	char answers[2][2000], single[2000], line[1000];

	set_up_mps_node();
	start_daemon();
	pid_t alone = enter_and_stay("'memory':1073741824,'mode':'mps','device':0", single);
	CHECK_CONTAINS(single, "/mps/0-");
	pid_t first = last_control(line, sizeof line);
	kill_tenant(alone); // its server stays for some seconds
	pid_t job = enter_job("a", answers);
	check_server_of_both(answers[1]);
	CHECK(!is_alive(first));
	CHECK_INT(count_starts(), 2);
	kill_tenant(job);
}

TEST(server_that_ignores_sigterm_is_killed)
{
	char answers[2][2000], single[2000], line[1000];

	set_up_mps_node();
	create_file("stubborn");
	start_daemon();
	pid_t alone = enter_and_stay("'memory':1073741824,'mode':'mps','device':0", single);
	CHECK_CONTAINS(single, "/mps/0-");
	pid_t first = last_control(line, sizeof line);
	unlink(beside_control("stubborn"));
	kill_tenant(alone);
	pid_t job = enter_job("a", answers);
	check_server_of_both(answers[1]);
	CHECK(!is_alive(first));
	CHECK_INT(count_starts(), 2);
	kill_tenant(job);
}

TEST(program_that_waits_for_a_server_joins_that_of_a_job)
{
	char answers[2][2000], single[2000];
	int of_single, of_job[2];

	set_up_mps_node();
	create_file("slow");
	start_daemon();
	pid_t alone = start_entering(geteuid(), "'memory':1073741824,'mode':'mps','device':0", &of_single);
	pid_t first = await_control("/mps/0-");
	pid_t job = start_job("a", "", of_job); // comes while the first server does not listen yet
	pid_t pid = await_control("/mps/0+1-");
	CHECK(!is_alive(first));
	unlink(beside_control("slow"));
	read_answer(of_single, single);
	read_answer(of_job[0], answers[0]);
	read_answer(of_job[1], answers[1]);
	CHECK_INT(check_server_of_both(single), pid);
	CHECK_INT(check_server_of_both(answers[1]), pid);
	CHECK_INT(count_starts(), 2);
	kill_tenant(alone);
	kill_tenant(job);
}

TEST(job_leaves_a_server_alone_that_another_job_waits_for)
{
	char answers[2][2000], other[2][2000];
	int pipes[2], other_pipes[2];

	set_up_mps_node();
	set_world("gpu %llu\ngpu %llu\ngpu %llu\n", 8 * GIB, 8 * GIB, 8 * GIB);
	create_file("slow");
	start_daemon();
	pid_t job = start_job("a", ",'device':[0,1]", pipes);
	pid_t pid = await_control("/mps/0+1-");
	pid_t second = start_job("b", ",'device':[1,2]", other_pipes);
	read_answer(other_pipes[0], other[0]);
	// Meanwhile the daemon gets the last request of the second job, and that request waits.
	for (int i = 0; i < 50; i++) {
		CHECK(is_alive(pid));
		poll(NULL, 0, 10);
	}
	unlink(beside_control("slow"));
	read_answer(pipes[0], answers[0]);
	read_answer(pipes[1], answers[1]);
	CHECK_INT(check_server_of_both(answers[1]), pid);
	read_answer(other_pipes[1], other[1]);
	CHECK_CONTAINS(other[1], "use a server for GPUs 0, 1 only");
	CHECK_INT(count_starts(), 1);
	kill_tenant(job);
	kill_tenant(second);
}

TEST(job_is_refused_beside_a_used_server_of_one_gpu)
{
	char single[2000];

	set_up_mps_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'s','memory':%llu,'mode':'mps','device':0}", GIB));
	pid_t alone = enter_and_stay("'vgpu':'s'", single);
	CHECK_CONTAINS(single, "/mps/0-");
	CHECK_REFUSED(ask("{'op':'enter','name':'a.0','device':0," JOB("a") "}"), "busy",
		      "vGPU a.0 is one of a job with 2 GPUs, which needs an MPS server for all of them, but programs "
		      "(vGPU s) use a server for GPU 0 only");
	CHECK_REFUSED(ask("{'op':'enter','name':'a.0','device':0," JOB("a") "}"), "busy", "start the job before them");
	// If the request names no GPU, the daemon chooses GPU 1, which has no programs, for the first vGPU. The second
	// vGPU then needs GPU 0, and is refused.
	char first[2000];
	pid_t job = enter_and_stay("'name':'a.0'," JOB("a"), first);
	CHECK_CONTAINS(first, "\"device\": 1");
	CHECK_REFUSED(ask("{'op':'enter','name':'a.1'," JOB("a") "}"), "busy", "use a server for GPU 0 only");
	CHECK_REFUSED(ask("{'op':'enter','vgpu':'a.0'}"), "busy",
		      "vGPU a.0 is one of job a, which has not entered all of its GPUs yet");
	CHECK(is_alive(alone));
	CHECK_INT(count_starts(), 1);
	kill_tenant(job);
	kill_tenant(alone);
}

TEST(job_is_refused_on_a_gpu_of_the_mode_time)
{
	char answer[2000], first[2000];

	set_up_mps_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'t','memory':%llu,'device':1}", GIB));
	pid_t program = enter_and_stay("'vgpu':'t'", answer);
	pid_t job = enter_and_stay("'name':'a.0'," JOB("a"), first);
	CHECK_CONTAINS(first, "\"device\": 0");
	CHECK_REFUSED(ask("{'op':'enter','name':'a.1'," JOB("a") "}"), "busy",
		      "GPU 1: the vGPU a.1 has the mode mps, but programs of the mode time run there (vGPU t)");
	CHECK_INT(count_starts(), 0);
	kill_tenant(job);
	kill_tenant(program);
}

TEST(gpus_of_a_job_have_one_mode)
{
	char first[2000];

	set_up_mps_node();
	start_daemon();
	CHECK_REFUSED(
		ask("{'op':'enter','name':'a.0','memory':%llu,'job':'a','job_gpus':2,'device_modes':{'1':'mps'}}", GIB),
		"invalid", "the settings give the mode time to 1 and the mode mps to 1, and all 2 GPUs of a job");
	CHECK_REFUSED(ask("{'op':'enter','name':'a.0','memory':%llu,'job':'a','mode':'mps'}", GIB), "invalid",
		      "in the mode mps, \"job_gpus\" must be the number of its GPUs");
	for (int i = 0; i < 4; i++)
		CHECK_REFUSED(ask("{'op':'enter','name':'a.0','memory':%llu,'job':'a','job_gpus':%s}", GIB,
				  (const char *[]){"1", "17", "-2", "'two'"}[i]),
			      "invalid", "\"job_gpus\" must be the number of GPUs of the job, from 2 to 16");
	pid_t job = enter_and_stay("'name':'a.0','device':0," JOB("a"), first);
	CHECK_REFUSED(ask("{'op':'enter','name':'a.1','memory':%llu,'job':'a','job_gpus':2}", GIB), "invalid",
		      "its vGPU on GPU 0 has the mode mps, and the settings give the mode time to all other GPUs");
	kill_tenant(job);
	CHECK_INT(count_starts(), 0);
}

TEST(ended_server_of_a_job_is_started_again)
{
	char answers[2][2000], single[2000];

	set_up_mps_node();
	start_daemon();
	pid_t job = enter_job("a", answers);
	pid_t pid = check_server_of_both(answers[1]);
	kill(pid, SIGKILL);
	await_end(pid);
	// Until the daemon has started the server again, no program may enter, not even on only one of the GPUs.
	json_t *reply = ask("{'op':'enter','memory':%llu,'mode':'mps','device':1}", GIB);
	if (!agreed(reply)) // the daemon agrees if it has started the server again before its answer
		CHECK_REFUSED(reply, "busy", "GPUs 0, 1: its MPS control daemon has ended 1 time in a row");
	else
		json_decref(reply);
	for (int i = 0; i < 3000 && count_starts() < 2; i++)
		poll(NULL, 0, 10);
	pid_t beside = enter_and_stay("'memory':1073741824,'mode':'mps','device':1", single);
	CHECK(check_server_of_both(single) != pid);
	CHECK_INT(count_starts(), 2);
	kill_tenant(beside);
	kill_tenant(job);
}

TEST(next_daemon_takes_over_the_server_of_a_job)
{
	char answers[2][2000], single[2000];

	set_up_mps_node();
	start_daemon();
	pid_t job = enter_job("a", answers);
	pid_t pid = check_server_of_both(answers[1]);
	// A program on one of the GPUs keeps the server after the job has ended.
	CHECK_AGREED(ask("{'op':'create','name':'s','memory':%llu,'mode':'mps','device':1}", GIB));
	pid_t beside = enter_and_stay("'vgpu':'s'", single);
	kill_tenant(job);
	kill_daemon();
	CHECK(is_alive(pid));
	start_daemon();
	pid_t other = enter_and_stay("'memory':1073741824,'mode':'mps','device':0", single);
	CHECK_INT(check_server_of_both(single), pid);
	CHECK_INT(count_starts(), 1);
	kill_tenant(other);
	kill_tenant(beside);
	await_end(pid);
}

TEST(server_that_ended_without_a_daemon_is_started_for_the_job)
{
	char answers[2][2000], line[1000];

	set_up_mps_node();
	start_daemon();
	pid_t job = enter_job("a", answers);
	pid_t pid = check_server_of_both(answers[1]);
	kill_daemon();
	kill(pid, SIGKILL);
	await_end(pid);
	start_daemon();
	for (int i = 0; i < 3000 && count_starts() < 2; i++)
		poll(NULL, 0, 10);
	CHECK_INT(count_starts(), 2);
	pid = last_control(line, sizeof line);
	CHECK_CONTAINS(line, "/mps/0+1-");
	kill_tenant(job);
	await_end(pid);
}

TEST(next_daemon_starts_one_server_for_a_job_and_a_program_beside_it)
{
	char answers[2][2000], single[2000];

	set_up_mps_node();
	start_daemon();
	pid_t first = enter_job("a", answers);
	pid_t beside = enter_and_stay("'memory':1073741824,'mode':'mps','device':1", single);
	// Job b enters after the program. So after the end of job a, the next daemon finds the program first.
	pid_t second = enter_job("b", answers);
	pid_t pid = check_server_of_both(answers[1]);
	kill_tenant(first);
	kill_daemon();
	kill(pid, SIGKILL);
	await_end(pid);
	start_daemon();
	for (int i = 0; i < 3000 && count_starts() < 2; i++)
		poll(NULL, 0, 10);
	await_control("/mps/0+1-");
	pid_t other = enter_and_stay("'memory':1073741824,'mode':'mps','device':0", single);
	CHECK(check_server_of_both(single) != pid);
	CHECK_INT(count_starts(), 2);
	kill_tenant(other);
	kill_tenant(beside);
	kill_tenant(second);
}

TEST(job_continues_if_the_daemon_is_replaced_between_its_requests)
{
	char wanted[700];

	set_up_mps_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'enter','name':'a.0'," JOB("a") "}"));
	kill_daemon();
	start_daemon();
	CHECK_REFUSED(ask("{'op':'enter','vgpu':'a.0'}"), "busy", "which has not entered all of its GPUs yet");
	CHECK_INT(count_starts(), 0);
	json_t *reply = ask("{'op':'enter','name':'a.1'," JOB("a") "}");
	snprintf(wanted, sizeof wanted, "%s/mps/0+1-%u/pipe", runtime_dir, (unsigned int)getuid());
	CHECK_STR(json_string_value(json_object_get(reply, "mps_pipe")), wanted);
	json_decref(reply);
	// The job has now entered all of its GPUs. The next daemon must know that.
	kill_daemon();
	start_daemon();
	CHECK_AGREED(ask("{'op':'enter','vgpu':'a.0'}"));
	CHECK_INT(count_starts(), 1);
}
