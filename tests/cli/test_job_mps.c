// Checks jobs with several GPUs in the mode mps. The simulated GPUs have MPS, and a script replaces its control daemon.
#include "live_node.h"

// Starts the node with two GPUs whose programs are clients of MPS.
static void start_mps_node(void)
{
	char command[700], control[300];

	node_start();
	snprintf(control, sizeof control, "%s/mps-control-standin", fixture.directory);
	snprintf(command, sizeof command, "cp '%s' '%s'", STANDIN, control);
	CHECK_INT(system(command), 0);
	setenv("VIRGATE_MPS_CONTROL", control, 1);
	setenv("VIRGATE_SIM", "devices=2,memory=4G,slice=2150us,sms=2,mps=1", 1);
	unsetenv("VIRGATE_SIM_COST");
}

// Returns how many control daemons were started.
static int count_starts(void)
{
	char text[4096];
	int count = 0;

	read_file("said", text, sizeof text);
	for (const char *at = text; (at = strchr(at, '\n')); at++)
		count++;
	return count;
}

// Waits until the vGPU is listed with this many bytes charged.
static void await_charge(const char *name, long long bytes)
{
	long long charged = -1;

	for (int tries = 0; tries < 600; tries++) {
		json_t *listing = read_listing(WORDS("ps", "--json"));
		json_t *one = find_listed(listing, name);
		charged = one ? (long long)json_integer_value(json_object_get(one, "charged")) : -1;
		bool is_mps = one && strcmp(json_string_value(json_object_get(one, "mode")), "mps") == 0;
		json_decref(listing);
		if (charged == bytes && is_mps)
			return;
		usleep(50000);
	}
	FAIL("vGPU %s: %lld bytes are charged, not %lld, or its mode is not mps", name, charged, bytes);
}

enum { CONTEXT_MIB = 16, BLOCK_MIB = 64 };

TEST(each_gpu_has_its_own_quota)
{
	start_mps_node();
	CHECK_VIRGATE("run", "--gpus", "2", "--memory", "1G", "--mode", "mps", "--name", "train", JOB_USER);
	CHECK_CONTAINS(result.out, "device 0: total 1024 MiB, got 15 blocks, free 1008 MiB\n");
	CHECK_CONTAINS(result.out, "device 1: total 1024 MiB, got 15 blocks, free 1008 MiB\n");
	CHECK_CONTAINS(result.err, "vGPU train.0: asked 64.0 MiB");
	CHECK_INT(count_starts(), 1);
}

TEST(programs_of_a_job_know_one_directory)
{
	char uuids[2][48], wanted[300], directory[300];

	start_mps_node();
	node_read_uuids(uuids);
	CHECK_VIRGATE("run", "--gpus", "2", "--memory", "1G", "--mode", "mps", "sh", "-c",
		      "echo $CUDA_MPS_PIPE_DIRECTORY $CUDA_VISIBLE_DEVICES; "
		      "test -e $CUDA_MPS_PIPE_DIRECTORY/control && echo listens");
	snprintf(wanted, sizeof wanted, "/mps/0+1-%u/pipe %s,%s\nlistens\n", (unsigned int)getuid(), uuids[0],
		 uuids[1]);
	CHECK_CONTAINS(result.out, wanted);
	// The MPS control daemon was started for the same two GPUs as the job. Its stand-in writes them into "said".
	read_file("said", directory, sizeof directory);
	snprintf(wanted, sizeof wanted, " %s,%s ", uuids[0], uuids[1]);
	CHECK_CONTAINS(directory, wanted);
}

TEST(two_jobs_and_a_program_share_a_server)
{
	const long long charge = (CONTEXT_MIB + 15ll * BLOCK_MIB) << 20;

	start_mps_node();
	start_in_background(
		WORDS("run", "--gpus", "2", "--memory", "1G", "--mode", "mps", "--name", "a", JOB_USER, "hold"));
	await_charge("a.0", charge);
	await_charge("a.1", charge);
	start_in_background(
		WORDS("run", "--gpus", "2", "--memory", "1G", "--mode", "mps", "--name", "b", JOB_USER, "hold"));
	await_charge("b.0", charge);
	await_charge("b.1", charge);
	// A program on one of the GPUs, in a vGPU of its own.
	CHECK_VIRGATE("run", "--device", "1", "--memory", "512M", "--mode", "mps", "--name", "c", JOB_USER);
	CHECK_CONTAINS(result.out, "devices: 1\ndevice 0: total 512 MiB, got 7 blocks, free 496 MiB\n");
	await_charge("a.1", charge);
	CHECK_INT(count_starts(), 1);
	CHECK_REFUSAL(125, "a GPU has one mode at a time", "run", "--device", "1", "--memory", "512M", "true");
}

TEST(jobs_have_their_turns_on_all_gpus_together)
{
	start_mps_node();
	setenv("VIRGATE_SIM_COST", "kernel=500us", 1);
	for (int i = 0; i < 2; i++)
		start_in_background(WORDS("run", "--gpus", "2", "--memory", "1G", "--share", "50", "--mode", "mps",
					  "--name", i ? "b" : "a", JOB_USER, "train", "60"));
	for (int tries = 0; tries < 600; tries++) {
		json_t *listing = read_listing(WORDS("ps", "--json"));
		long long a = read_turns(listing, "a.0"), b = read_turns(listing, "b.0");
		bool both = read_turns(listing, "a.1") > 20 && read_turns(listing, "b.1") > 20;
		json_decref(listing);
		if (a > 20 && b > 20 && both)
			return;
		usleep(50000);
	}
	FAIL("the jobs did not have 20 turns each on both GPUs");
}

TEST(gpu_of_the_mode_time_is_refused)
{
	char path[300];

	start_mps_node();
	start_in_background(WORDS("run", "--device", "1", "--memory", "1G", "--name", "t", JOB_USER, "hold"));
	for (int tries = 0; tries < 600; tries++) {
		json_t *listing = read_listing(WORDS("ps", "--json"));
		bool runs = find_listed(listing, "t") != NULL;
		json_decref(listing);
		if (runs)
			break;
		usleep(50000);
	}
	CHECK_REFUSAL(125, "has the mode mps, but programs of the mode time run there (vGPU t)", "run", "--gpus", "2",
		      "--memory", "1G", "--mode", "mps", "true");
	// The settings of two GPUs disagree.
	snprintf(path, sizeof path, "%s/virgate", fixture.directory);
	mkdir(path, 0700);
	snprintf(path, sizeof path, "%s/virgate/virgate.conf", fixture.directory);
	FILE *file = fopen(path, "w");
	CHECK(file != NULL);
	fputs("[device 1]\nsharing = mps\n", file);
	fclose(file);
	CHECK_REFUSAL(125, "the settings give the mode time to 1 and the mode mps to 1", "run", "--gpus", "2",
		      "--memory", "1G", "true");
	CHECK_INT(count_starts(), 0);
}

// Waits until the output of `virgate ps` has the text.
static void await_listed(const char *text)
{
	for (int tries = 0; tries < 600; tries++) {
		CHECK_VIRGATE("ps");
		if (strstr(result.out, text))
			return;
		usleep(50000);
	}
	FAIL("`virgate ps` does not print \"%s\": %s", text, result.out);
}

TEST(killed_server_is_reported_and_started_again)
{
	char text[4096], path[300];

	start_mps_node();
	start_in_background(
		WORDS("run", "--gpus", "2", "--memory", "1G", "--mode", "mps", "--name", "a", JOB_USER, "hold"));
	await_charge("a.1", (CONTEXT_MIB + 15ll * BLOCK_MIB) << 20);
	snprintf(path, sizeof path, "%s/fails", fixture.directory);
	close(open(path, O_WRONLY | O_CREAT, 0600)); // the next control daemon ends at once
	read_file("said", text, sizeof text);
	CHECK(atoi(text) > 1 && kill(atoi(text), SIGKILL) == 0);
	await_listed("a.0: its MPS server has ended: start its programs again");
	await_listed("a.1: its MPS server has ended: start its programs again");
	CHECK_REFUSAL(125, "GPUs 0, 1: its MPS control daemon has ended", "run", "--gpus", "2", "--memory", "1G",
		      "--mode", "mps", "true");
	unlink(path);
	// `run` is refused until the daemon has started a new MPS control daemon.
	for (int tries = 0; tries < 100; tries++) {
		if (VIRGATE_RUN("run", "--gpus", "2", "--memory", "1G", "--mode", "mps", "--name", "b", JOB_USER) == 0)
			break;
		CHECK_CONTAINS(result.err, "its MPS control daemon has ended");
		usleep(200000);
	}
	CHECK_CONTAINS(result.out, "device 1: total 1024 MiB, got 15 blocks");
}

TEST(inspect_tells_what_a_fault_ends)
{
	start_mps_node();
	CHECK_VIRGATE("run", "--gpus", "2", "--memory", "1G", "--mode", "mps", "--name", "a", VIRGATE, "inspect",
		      "a.0");
	CHECK_CONTAINS(result.out,
		       "a fault in one program ends all programs of this mode on all GPUs of its MPS server;");
	CHECK_VIRGATE("run", "--memory", "1G", "--mode", "mps", "--name", "c", VIRGATE, "inspect", "c");
	CHECK_CONTAINS(result.out,
		       "a fault in one program ends all programs of this mode on all GPUs of its MPS server;");
}
