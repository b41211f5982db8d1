// Tests `virgate drain` with the real daemon, on two simulated GPUs of 4 GiB.
#include "live_node.h"

// A program in a vGPU that runs until its input is closed.
struct program {
	pid_t pid;
	int input;
};

static void wait_for_text(const char *file, const char *words)
{
	char text[4096];

	for (int i = 0; i < 6000; i++) {
		read_file(file, text, sizeof text);
		if (strstr(text, words))
			return;
		usleep(10000);
	}
	FAIL("%s never had \"%s\": %s", file, words, text);
}

static struct program start_program_in(const char *const *words)
{
	int input[2];

	CHECK_INT(pipe2(input, O_CLOEXEC), 0);
	int saved = fcntl(0, F_DUPFD_CLOEXEC, 3);
	dup2(input[0], 0);
	close(input[0]);
	struct program program = {start_program(words), input[1]};
	dup2(saved, 0);
	close(saved);
	wait_for_text("out", "started");
	return program;
}

#define PROGRAM(...) start_program_in(WORDS("run", __VA_ARGS__, "--", "sh", "-c", "echo started; read line; exit 0"))

TEST(drained_gpu_takes_nothing_new)
{
	node_start();
	CHECK_VIRGATE("create", "a", "--memory", "512M", "--device", "0");
	CHECK_VIRGATE("drain", "0");
	CHECK_STR(result.out, "GPU 0: drained, 0 vGPUs are in use\n");
	CHECK_VIRGATE("drain", "0"); // again
	CHECK_REFUSAL(1, "GPU 0 is drained (by ", "create", "b", "--memory", "512M", "--device", "0");
	CHECK_CONTAINS(result.err, "no new vGPUs and programs start on it; choose another GPU, or wait until `virgate "
				   "drain --undo --sim=devices=2,memory=4G 0`");
	CHECK_REFUSAL(125, "GPU 0 is drained", "run", "--vgpu", "a", "true");
	// the daemon chooses GPU 1, because GPU 0 is drained
	CHECK_VIRGATE("create", "b", "--memory", "3G");
	CHECK_REFUSAL(1, "GPU 1: asked for 3.0 GiB", "create", "c", "--memory", "3G"); // GPU 1 is full, but not drained
	CHECK_VIRGATE("devices");
	CHECK_CONTAINS(result.out, "\nGPU 0 is drained: no new vGPUs and programs start on it\n");
	CHECK_VIRGATE("ps");
	CHECK_CONTAINS(result.out, "\nGPU 0 is drained: no new");
	CHECK(!strstr(result.out, "GPU 1 is drained"));
	CHECK_VIRGATE("drain", "1");
	CHECK_REFUSAL(125, "is drained", "run", "--memory", "512M", "true");
	CHECK_VIRGATE("drain", "0", "--undo");
	CHECK_STR(result.out, "GPU 0: not drained\n");
	CHECK_VIRGATE("run", "--vgpu", "a", "true");
	CHECK_VIRGATE("run", "--memory", "512M", "true");
}

TEST(drain_survives_the_daemon)
{
	char uuids[2][48];

	node_start();
	node_read_uuids(uuids);
	CHECK_VIRGATE("drain", uuids[1]);
	CHECK_VIRGATE("shutdown");
	CHECK_REFUSAL(1, "GPU 1 is drained", "create", "b", "--memory", "512M", "--device", "1");
	CHECK_VIRGATE("drain", uuids[1], "--undo");
	CHECK_VIRGATE("shutdown");
	CHECK_VIRGATE("create", "b", "--memory", "512M", "--device", "1");
}

TEST(drain_waits_for_programs)
{
	node_start();
	struct program program = PROGRAM("--name", "a", "--memory", "512M", "--device", "0");
	CHECK_INT(VIRGATE_RUN("drain", "0", "--wait=1"), 1);
	CHECK_CONTAINS(result.out, "GPU 0: drained, 1 vGPU is in use\n");
	CHECK_CONTAINS(result.err, "GPU 0 is drained, but 1 vGPU is still in use: `virgate ps");
	pid_t drain = start_program(WORDS("drain", "0", "--wait"));
	wait_for_text("out", "GPU 0: drained, 1 vGPU is in use");
	CHECK_INT(waitpid(drain, NULL, WNOHANG), 0);
	close(program.input);
	CHECK_INT(wait_for_program(drain), 0);
	CHECK_CONTAINS(result.out, "GPU 0: no program runs on it\n");
	waitpid(program.pid, NULL, 0);
}

// Waits until that many programs have used CUDA.
static void wait_for_tenants(size_t wanted)
{
	size_t count = 0, i;
	json_t *vgpu;

	for (int tries = 0; tries < 3000 && count < wanted; tries++) {
		json_t *json = read_listing(WORDS("ps", "--json"));
		count = 0;
		json_array_foreach(json_object_get(json, "vgpus"), i, vgpu)
			count += json_array_size(json_object_get(vgpu, "tenants"));
		json_decref(json);
		usleep(20000);
	}
	CHECK(count >= wanted);
}

static pid_t start_grow(const char *vgpu)
{
	return start_in_background(
		WORDS("run", "--vgpu", vgpu, "--", GROW, "--exact", "--chunk", "16M", "--hold", "600"));
}

static const char *read_state(const char *vgpu)
{
	static char state[32];
	json_t *json = read_listing(WORDS("inspect", vgpu, "--json"));
	const char *text =
		json_string_value(json_object_get(json_object_get(json_object_get(json, "vgpu"), "eviction"), "state"));

	snprintf(state, sizeof state, "%s", text ? text : "none");
	json_decref(json);
	return state;
}

TEST(drain_suspends_what_is_evictable)
{
	node_start();
	CHECK_VIRGATE("create", "moves", "--memory", "128M", "--device", "0", "--evictable", "--swap", "128M");
	CHECK_VIRGATE("create", "stays", "--memory", "128M", "--device", "0");
	CHECK_VIRGATE("create", "other", "--memory", "128M", "--device", "1", "--evictable", "--swap", "128M");
	const pid_t programs[] = {start_grow("moves"), start_grow("stays"), start_grow("other")};
	wait_for_tenants(3);
	CHECK_INT(VIRGATE_RUN("drain", "0", "--suspend"), 3);
	CHECK_CONTAINS(result.out, "GPU 0: drained, 2 vGPUs are in use");
	CHECK_CONTAINS(result.err, "stays is not evictable, so it stays on the GPU: `virgate suspend --deep");
	CHECK_STR(read_state("moves"), "suspended");
	CHECK_STR(read_state("other"), "running"); // this vGPU is on another GPU
	CHECK_VIRGATE("drain", "0", "--end");
	CHECK_VIRGATE("drain", "1", "--end");
	for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
		CHECK(waitpid(programs[i], NULL, 0) == programs[i]);
}

TEST(drain_ends_programs)
{
	node_start();
	CHECK_VIRGATE("create", "kept", "--memory", "512M", "--device", "0");
	pid_t program = start_grow("kept");

	wait_for_tenants(1);
	CHECK_VIRGATE("drain", "0", "--end");
	CHECK_CONTAINS(result.out, "GPU 0: no program runs on it\n");
	CHECK(waitpid(program, NULL, 0) == program);
	CHECK_VIRGATE("inspect", "kept");
}

TEST(mistakes_are_refused)
{
	node_start();
	CHECK_REFUSAL(1, "there is no GPU 2: this node has 2", "drain", "2");
	CHECK_INT(VIRGATE_RUN("drain"), 2);
	CHECK_REFUSAL(2, "--wait and --end: give one of them", "drain", "0", "--wait", "--end");
	CHECK_REFUSAL(2, "--wait: \"soon\" is not a time", "drain", "0", "--wait=soon");
	json_t *json = read_listing(WORDS("devices", "--json"));
	CHECK(json_is_false(json_object_get(json_array_get(json_object_get(json, "devices"), 0), "drained")));
	json_decref(json);
}
