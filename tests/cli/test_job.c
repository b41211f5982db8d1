// Checks jobs: programs with a vGPU on each of several GPUs.
#include "live_node.h"

TEST(each_gpu_has_its_own_quota)
{
	node_start();
	CHECK_VIRGATE("run", "--gpus", "2", "--memory", "1G", "--name", "train", JOB_USER);
	CHECK_CONTAINS(result.out, "devices: 2\n");
	// A context takes 16 MiB of 1 GiB, so 15 blocks fit. At the end, all memory but the context is free again.
	CHECK_CONTAINS(result.out, "device 0: total 1024 MiB, got 15 blocks, free 1008 MiB\n");
	CHECK_CONTAINS(result.out, "device 1: total 1024 MiB, got 15 blocks, free 1008 MiB\n");
	CHECK_CONTAINS(result.err, "vGPU train.0: asked 64.0 MiB");
}

TEST(job_is_listed_on_each_gpu)
{
	node_start();
	start_in_background(WORDS("run", "--gpus", "2", "--memory", "1G", "--name", "train", JOB_USER, "hold"));
	for (int tries = 0; tries < 600; tries++) {
		json_t *listing = read_listing(WORDS("ps", "--json"));
		int devices = 0, full = 0;
		for (int i = 0; i < 2; i++) {
			json_t *one = find_listed(listing, i ? "train.1" : "train.0");
			if (!one)
				continue;
			CHECK_STR(json_string_value(json_object_get(one, "job")), "train");
			devices += 1 + (int)json_integer_value(json_object_get(one, "device"));
			full += json_integer_value(json_object_get(one, "charged")) == (16 + 15 * 64) << 20;
		}
		json_decref(listing);
		if (devices == 3 && full == 2)
			return;
		usleep(50000);
	}
	FAIL("the job's vGPUs were not listed with their charges");
}

TEST(launchers_choose_gpus_of_the_job)
{
	static const struct {
		const char *visible, *devices, *first;
	} all[] = {
		{"0", "devices: 1\n", "vGPU train.0: asked"},
		{"1", "devices: 1\n", "vGPU train.1: asked"},
		{"1,0", "devices: 2\n", "vGPU train.1: asked"},
		{"0,7,1", "devices: 1\n", "vGPU train.0: asked"},
		{"${CUDA_VISIBLE_DEVICES#*,}", "devices: 1\n", "vGPU train.1: asked"},
	};
	char script[256];

	node_start();
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		snprintf(script, sizeof script, "CUDA_VISIBLE_DEVICES=%s exec %s", all[i].visible, JOB_USER);
		CHECK_VIRGATE("run", "--gpus", "2", "--memory", "1G", "--name", "train", "sh", "-c", script);
		CHECK_CONTAINS(result.out, all[i].devices);
		CHECK_CONTAINS(result.err, all[i].first);
	}
	// As in the driver, a list that names one GPU twice hides all GPUs.
	snprintf(script, sizeof script, "CUDA_VISIBLE_DEVICES=1,1 exec %s", JOB_USER);
	CHECK_REFUSAL(1, "cuInit)(0): 100", "run", "--gpus", "2", "--memory", "1G", "sh", "-c", script);
}

// Without a device cgroup, the numbers that Slurm sets for a task of srun count the GPUs of the node.
TEST(tasks_of_slurm_choose_gpus_of_the_job)
{
	static const struct {
		const char *visible, *step, *job, *devices, *first;
	} all[] = {
		{"5", "5", "2,5", "devices: 1\n", "vGPU train.1: asked"},
		{"2,5", "2,5", "2,5", "devices: 2\n", "vGPU train.0: asked"},
		{"2", "2", "1,2", "devices: 1\n", "vGPU train.1: asked"},
		{"1", "1", "1,2", "devices: 1\n", "vGPU train.0: asked"},
		{"10", "10", "1,10", "devices: 1\n", "vGPU train.1: asked"},
		// with a device cgroup, or after a script has changed the numbers, they count the GPUs of the job
		{"1", "2,5", "2,5", "devices: 1\n", "vGPU train.1: asked"},
		{"0", "5", "2,5", "devices: 1\n", "vGPU train.0: asked"},
		// the vGPUs are not on all GPUs of Slurm's job
		{"1", "1", "1,2,3", "devices: 1\n", "vGPU train.1: asked"},
		{"1", "1", "2,5", "devices: 1\n", "vGPU train.1: asked"},
		{"1", "1", "", "devices: 1\n", "vGPU train.1: asked"},
	};
	char script[256];

	node_start();
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		snprintf(script, sizeof script, "CUDA_VISIBLE_DEVICES=%s SLURM_STEP_GPUS=%s SLURM_JOB_GPUS=%s exec %s",
			 all[i].visible, all[i].step, all[i].job, JOB_USER);
		CHECK_VIRGATE("run", "--gpus", "2", "--memory", "1G", "--name", "train", "sh", "-c", script);
		CHECK_CONTAINS(result.out, all[i].devices);
		CHECK_CONTAINS(result.err, all[i].first);
	}
}

TEST(job_takes_named_or_visible_gpus_only)
{
	char uuids[2][48], both[100];

	node_start();
	node_read_uuids(uuids);
	snprintf(both, sizeof both, "%s,%s\n", uuids[0], uuids[1]);
	CHECK_VIRGATE("run", "--gpus", "2", "--memory", "1G", "--device", "1,0", "sh", "-c",
		      "echo $CUDA_VISIBLE_DEVICES");
	CHECK_STR(result.out, both);
	CHECK_REFUSAL(125, "it has a vGPU on 2 GPUs, and may use no other", "run", "--gpus", "3", "--memory", "1G",
		      "true");
	CHECK_REFUSAL(125, "it has a vGPU on 1 GPU, and may use no other", "run", "--gpus", "2", "--memory", "1G",
		      "--device", "1", "true");
	setenv("CUDA_VISIBLE_DEVICES", "1", 1);
	CHECK_REFUSAL(125, "it has a vGPU on 1 GPU, and may use no other", "run", "--gpus", "2", "--memory", "1G",
		      "true");
	unsetenv("CUDA_VISIBLE_DEVICES");
	// The refused jobs left no vGPUs that occupy memory.
	CHECK_VIRGATE("run", "--gpus", "2", "--memory", "4G", "true");
}

TEST(job_without_room_is_refused)
{
	node_start();
	CHECK_VIRGATE("create", "other", "--memory", "3G", "--device", "1");
	CHECK_REFUSAL(125, "GPU 1: asked", "run", "--gpus", "2", "--memory", "2G", "true");
	CHECK_VIRGATE("run", "--gpus", "2", "--memory", "1G", "true");
}

TEST(terms_that_jobs_cannot_have_are_refused)
{
	node_start();
	CHECK_REFUSAL(125, "--evictable and --gpus do not go together", "run", "--gpus", "2", "--memory", "1G",
		      "--evictable", "true");
	CHECK_REFUSAL(125, "--wait and --gpus do not go together", "run", "--gpus", "2", "--memory", "1G", "--wait",
		      "true");
	CHECK_REFUSAL(125, "--class latency and --gpus do not go together", "run", "--gpus", "2", "--memory", "1G",
		      "--class=latency", "true");
	CHECK_REFUSAL(125, "simulated GPUs have no MPS", "run", "--gpus", "2", "--memory", "1G", "--mode", "mps",
		      "true");
	CHECK_REFUSAL(125, "--gpus: \"0\" is not a number of GPUs", "run", "--gpus", "0", "--memory", "1G", "true");
	CHECK_REFUSAL(125, "--gpus: \"two\" is not a number of GPUs", "run", "--gpus", "two", "--memory", "1G", "true");
	CHECK_REFUSAL(125, "use 1 to 16", "run", "--gpus", "17", "--memory", "1G", "true");
	CHECK_VIRGATE("create", "other", "--memory", "1G");
	CHECK_REFUSAL(125, "--gpus", "run", "--vgpu", "other", "--gpus", "2", "true");
}

// A process that has not used CUDA yet when `virgate run` ends keeps all vGPUs of the job.
TEST(job_outlives_its_launcher)
{
	char script[512], path[128], text[256];

	node_start();
	snprintf(script, sizeof script,
		 "(while [ ! -e %s/go ]; do [ -d %s ] || exit; sleep 0.05; done; exec %s >%s/late 2>&1) >/dev/null "
		 "2>&1 &",
		 fixture.directory, fixture.directory, JOB_USER, fixture.directory);
	CHECK_VIRGATE("run", "--gpus", "2", "--memory", "1G", "--name", "a", "sh", "-c", script);
	for (int i = 0; i < 20; i++) {
		json_t *listing = read_listing(WORDS("ps", "--json"));
		CHECK(find_listed(listing, "a.0"));
		CHECK(find_listed(listing, "a.1"));
		json_decref(listing);
		usleep(50000);
	}
	snprintf(path, sizeof path, "%s/go", fixture.directory);
	close(open(path, O_WRONLY | O_CREAT, 0600));
	for (int tries = 0; tries < 600; tries++) {
		read_file("late", text, sizeof text);
		if (strstr(text, "devices: 2"))
			return;
		usleep(50000);
	}
	FAIL("the program did not end well: %s", text);
}

TEST(memory_of_a_job_stays_on_its_gpus)
{
	node_start();
	start_in_background(WORDS("run", "--gpus", "2", "--memory", "1G", "--name", "a", JOB_USER, "hold"));
	for (int tries = 0; tries < 600; tries++) {
		json_t *listing = read_listing(WORDS("ps", "--json"));
		json_t *tenants = json_object_get(find_listed(listing, "a.0"), "tenants");
		size_t count = json_array_size(tenants);
		json_decref(listing);
		if (count)
			break;
		usleep(50000);
	}
	CHECK_REFUSAL(1, "vGPU a.0 is not evictable", "suspend", "a.0");
	CHECK_REFUSAL(1, "is one of a job with several GPUs", "suspend", "--deep", "a.1");
}

TEST(jobs_have_their_turns_on_all_gpus_together)
{
	node_start();
	setenv("VIRGATE_SIM", "devices=2,memory=4G,slice=2150us,sms=2", 1);
	setenv("VIRGATE_SIM_COST", "kernel=500us", 1);
	start_in_background(
		WORDS("run", "--gpus", "2", "--memory", "1G", "--share", "50", "--name", "a", JOB_USER, "train", "60"));
	start_in_background(
		WORDS("run", "--gpus", "2", "--memory", "1G", "--share", "50", "--name", "b", JOB_USER, "train", "60"));
	for (int tries = 0; tries < 600; tries++) {
		json_t *listing = read_listing(WORDS("ps", "--json"));
		long long a = read_turns(listing, "a.0"), b = read_turns(listing, "b.0");
		if (a > 0 && b > 0) { // both vGPUs of a job get their turns at the same time
			// The daemon reads the two counts one after the other, and a few turns may pass in between.
			CHECK(llabs(read_turns(listing, "a.1") - a) < 20);
			CHECK(llabs(read_turns(listing, "b.1") - b) < 20);
		}
		json_decref(listing);
		if (a > 50 && b > 50)
			return;
		usleep(50000);
	}
	FAIL("the jobs did not have 50 turns each");
}

TEST(shares_of_tied_gpus_are_admitted_together)
{
	node_start();
	CHECK_VIRGATE("run", "--gpus", "2", "--memory", "1G", "--share", "60", "--name", "a", VIRGATE, "run", "--gpus",
		      "2", "--memory", "1G", "--share", "40", "true");
	CHECK_REFUSAL(125, "asked for a share of 50 %, but others have 60 %: jobs tie this GPU to 1 more", "run",
		      "--gpus", "2", "--memory", "1G", "--share", "60", "--name", "a", VIRGATE, "run", "--gpus", "2",
		      "--memory", "1G", "--share", "50", "true");
	// Each of these two vGPUs fits on its own GPU. A job that has its turns on both GPUs at once needs room for the
	// sum of both shares.
	CHECK_VIRGATE("create", "one", "--memory", "1G", "--share", "70", "--device", "0");
	CHECK_VIRGATE("create", "two", "--memory", "1G", "--share", "70", "--device", "1");
	CHECK_REFUSAL(125, "others have 140 %", "run", "--gpus", "2", "--memory", "1G", "true");
	CHECK_VIRGATE("set", "two", "--share", "30");
	CHECK_INT(VIRGATE_RUN("run", "--gpus", "2", "--memory", "1G", "--name", "c", VIRGATE, "set", "two", "--share",
			      "40"),
		  1);
	CHECK_REFUSAL(1, "vGPU c.1 is one of job c", "run", "--gpus", "2", "--memory", "1G", "--name", "c", VIRGATE,
		      "set", "c.1", "--share", "40");
	CHECK_VIRGATE("run", "--gpus", "2", "--memory", "1G", "--name", "c", VIRGATE, "set", "c.1", "--memory", "2G");
}
