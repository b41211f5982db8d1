// Checks that CUDA_VISIBLE_DEVICES limits the GPUs on which a user creates and enters vGPUs.
#include "live_node.h"

static char uuids[2][48];

static void start_on_two_gpus(void)
{
	node_start();
	node_read_uuids(uuids);
}

static int device_of(const char *name)
{
	json_t *json = read_listing(WORDS("inspect", name, "--json"));
	int device = (int)json_integer_value(json_object_get(json_object_get(json, "vgpu"), "device"));

	json_decref(json);
	return device;
}

TEST(gpu_is_chosen_among_visible_ones)
{
	start_on_two_gpus();
	setenv("CUDA_VISIBLE_DEVICES", "1", 1);
	CHECK_VIRGATE("run", "--memory", "1G", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES");
	CHECK_CONTAINS(result.out, uuids[1]);
	CHECK_VIRGATE("create", "b", "--memory", "3G");
	CHECK_INT(device_of("b"), 1);
	// GPU 0 has free memory, but is not visible.
	CHECK_REFUSAL(1, "GPU 1: asked for 2.0 GiB", "create", "more", "--memory", "2G");
	setenv("CUDA_VISIBLE_DEVICES", "1,0", 1); // of several GPUs, the one with the most free memory is chosen
	CHECK_VIRGATE("create", "a", "--memory", "2G");
	CHECK_INT(device_of("a"), 0);
}

TEST(named_device_must_be_visible)
{
	start_on_two_gpus();
	setenv("CUDA_VISIBLE_DEVICES", "1", 1);
	CHECK_REFUSAL(125, "asked for GPU 0", "run", "--memory", "1G", "--device", "0", "true");
	CHECK_CONTAINS(result.err, uuids[0]);
	CHECK_CONTAINS(result.err, "CUDA_VISIBLE_DEVICES=\"1\" shows this process GPU 1:");
	CHECK_REFUSAL(1, "CUDA_VISIBLE_DEVICES=\"1\"", "create", "a", "--memory", "1G", "--device", uuids[0]);
	CHECK_VIRGATE("run", "--memory", "1G", "--device", "1", "true");
	CHECK_VIRGATE("create", "b", "--memory", "1G", "--device", uuids[1]);
	CHECK_REFUSAL(1, "there is no GPU 7", "create", "c", "--memory", "1G", "--device", "7");
	setenv("VIRGATE_DEVICE", "0", 1);
	CHECK_REFUSAL(125, "asked for GPU 0", "run", "--memory", "1G", "true");
}

TEST(entered_vgpu_must_be_visible)
{
	start_on_two_gpus();
	CHECK_VIRGATE("create", "train", "--memory", "1G", "--device", "0");
	setenv("CUDA_VISIBLE_DEVICES", uuids[1], 1);
	CHECK_REFUSAL(125, "vGPU train is on GPU 0", "run", "--vgpu", "train", "true");
	CHECK_CONTAINS(result.err, "shows this process GPU 1:");
	CHECK_VIRGATE("rm", "train"); // no program has entered the vGPU
	CHECK_VIRGATE("create", "train", "--memory", "1G");
	CHECK_VIRGATE("run", "--vgpu", "train", "true");
	// Runs `virgate run` inside a vGPU, where it sees only the GPU of that vGPU.
	unsetenv("CUDA_VISIBLE_DEVICES");
	CHECK_VIRGATE("create", "other", "--memory", "1G", "--device", "0");
	CHECK_REFUSAL(125, "vGPU other is on GPU 0", "run", "--vgpu", "train", "--", VIRGATE, "run", "--vgpu", "other",
		      "true");
	CHECK_REFUSAL(125, "there is no vGPU nobody", "run", "--vgpu", "nobody", "true");
}

TEST(list_is_parsed_as_in_cuda)
{
	static const struct {
		const char *list;
		bool shows[2];
	} all[] = {
		{"0", {true, false}},	     {"1", {false, true}},     {"0,1", {true, true}},
		{"1,0", {true, true}},	     {" 1 , 0", {true, true}}, {"0,-1,1", {true, false}},
		{"1,7,0", {false, true}},    {"0,,1", {true, false}},  {"0,no,1", {true, false}},
		{"", {false, false}},	     {"-1", {false, false}},   {"NoDevFiles", {false, false}},
		{"2", {false, false}},	     {",0", {false, false}},   {"0,0", {false, false}},
		{"1,0,1", {false, false}},   {"1x", {false, false}},   {"GPU-", {false, false}}, // it is ambiguous
		{"0,MIG-1", {false, false}},
	};

	start_on_two_gpus();
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		setenv("CUDA_VISIBLE_DEVICES", all[i].list, 1);
		for (int device = 0; device < 2; device++) {
			int code = VIRGATE_RUN("run", "--memory", "1G", "--device", device ? "1" : "0", "true");
			if (code != (all[i].shows[device] ? 0 : 125))
				FAIL("\"%s\", GPU %d: %d: %s", all[i].list, device, code, result.err);
		}
	}
	CHECK_CONTAINS(result.err, "\"0,MIG-1\" names a MIG instance");
	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	CHECK_REFUSAL(1, "CUDA_VISIBLE_DEVICES=\"\" shows this process no GPU", "create", "a", "--memory", "1G");
	for (int device = 0; device < 2; device++) { // names each GPU by the shortest unique prefix of its UUID
		char beginning[48];
		size_t length = 5;
		while (strncmp(uuids[0], uuids[1], length) == 0)
			length++;
		snprintf(beginning, sizeof beginning, "%.*s", (int)length, uuids[device]);
		setenv("CUDA_VISIBLE_DEVICES", beginning, 1);
		CHECK_VIRGATE("run", "--memory", "1G", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES");
		CHECK_CONTAINS(result.out, uuids[device]);
	}
}

// The fields "index" and "reserved" of two GPUs of 4 GiB.
#define TWO_GPUS(first, second) "{\"ok\":true,\"devices\":[" ONE_GPU("0", "a", first) "," ONE_GPU("1", "b", second) "]}"
#define ONE_GPU(index, digit, reserved)                                                                      \
	"{\"index\":" index ",\"uuid\":\"GPU-0000000" digit "-0000-0000-0000-000000000000\",\"name\":\"G\"," \
	"\"memory\":4294967296,\"memory_used\":null,\"compute_capability\":\"9.0\",\"driver\":\"1\","        \
	"\"simulated\":true,\"reserved\":" reserved ",\"vgpus\":0}"

TEST(daemon_gets_visible_gpus)
{
	char requests[2048];

	fixture_start();
	setenv("CUDA_VISIBLE_DEVICES",
	       "GPU-0000000b-0000-0000-0000-000000000000,GPU-0000000a-0000-0000-0000-000000000000", 1);
	serve_answers((const char *const[]){TWO_GPUS("0", "1024"),
					    "{\"ok\":false,\"code\":\"limit\",\"message\":\"too much\"}", NULL});
	CHECK_REFUSAL(1, "too much", "create", "a", "--memory", "1G");
	read_file("requests", requests, sizeof requests);
	CHECK_CONTAINS(requests, "\"device\":[\"GPU-0000000a-0000-0000-0000-000000000000\","
				 "\"GPU-0000000b-0000-0000-0000-000000000000\"]");
	fixture_stop();
}

static void set_gpus(const char *lines)
{
	char path[128];

	snprintf(path, sizeof path, "%s/nvml-%d", fixture.directory, *lines);
	FILE *file = fopen(path, "w");
	CHECK(file && fputs(lines, file) >= 0 && fclose(file) == 0);
	setenv("FAKE_NVML", path, 1);
}

// If a batch system hides GPUs with a device cgroup, "0" in CUDA_VISIBLE_DEVICES is the first GPU that the job may use.
TEST(indices_count_accessible_gpus)
{
	char path[128];

	node_start();
	unsetenv("VIRGATE_SIM");
	snprintf(path, sizeof path, "%s/claims", fixture.directory);
	setenv("VIRGATE_CLAIMS_DIR", path, 1);
	setenv("VIRGATE_NVML", FAKE_NVML_LIBRARY, 1);
	set_gpus("gpu 4294967296\ngpu 4294967296\n");
	CHECK_VIRGATE("devices"); // the daemon starts now, while no GPU is hidden, so it can use both GPUs
	set_gpus("hidden 1\ngpu 4294967296\n");
	setenv("CUDA_VISIBLE_DEVICES", "0", 1);
	CHECK_VIRGATE("create", "a", "--memory", "1G");
	CHECK_INT(device_of("a"), 1);
	setenv("CUDA_VISIBLE_DEVICES", "1", 1);
	CHECK_REFUSAL(1, "shows this process no GPU", "create", "b", "--memory", "1G");
	set_gpus(" nothing\n"); // the list has no GPU, so nvmlInitWithFlags() fails
	CHECK_REFUSAL(1, "write whole UUIDs", "create", "b", "--memory", "1G");
	setenv("CUDA_VISIBLE_DEVICES", "GPU-00000000-0000-0000-0000-000000000001", 1);
	CHECK_VIRGATE("create", "b", "--memory", "1G");
	CHECK_INT(device_of("b"), 0);
	CHECK_VIRGATE("shutdown");
	unsetenv("VIRGATE_NVML");
	unsetenv("VIRGATE_CLAIMS_DIR");
}
