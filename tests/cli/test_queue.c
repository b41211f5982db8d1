// Tests `virgate run --wait` with the real daemon, on two simulated GPUs of 4 GiB.
#include "live_node.h"

// A file in the test's directory. Each program that starts adds a line to it.
static char order[128];

static void start_node_with_order(void)
{
	node_start();
	snprintf(order, sizeof order, "%s/order", fixture.directory);
}

static int read_waiting(int device)
{
	json_t *json = read_listing(WORDS("devices", "--json"));
	json_t *one = json_array_get(json_object_get(json, "devices"), (size_t)device);
	int waiting = (int)json_integer_value(json_object_get(one, "waiting"));

	json_decref(json);
	return waiting;
}

static void wait_until_waiting(int device, int wanted)
{
	for (int i = 0; i < 3000; i++) {
		if (read_waiting(device) == wanted)
			return;
		usleep(20000);
	}
	FAIL("%d requests wait, not %d", read_waiting(device), wanted);
}

// Starts `virgate run` with a new vGPU on GPU 0. It waits for room; then its program writes its name into the file, and
// ends at once.
static pid_t start_waiting(const char *name, const char *memory, const char *wait)
{
	char script[300];

	snprintf(script, sizeof script, "echo %s >> %s", name, order);
	return start_in_background(
		WORDS("run", "--name", name, "--memory", memory, "--device", "0", wait, "--", "sh", "-c", script));
}

static int wait_for_exit(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void check_order(const char *wanted)
{
	char text[512];

	read_file("order", text, sizeof text);
	CHECK_STR(text, wanted);
}

TEST(requests_come_in_order)
{
	pid_t waiting[4];

	start_node_with_order();
	CHECK_VIRGATE("create", "full", "--memory", "3G", "--device", "0");
	waiting[0] = start_waiting("first", "3G", "--wait"); // no two of these vGPUs fit on the GPU together
	wait_until_waiting(0, 1);
	waiting[1] = start_waiting("second", "2500M", "--wait");
	wait_until_waiting(0, 2);
	waiting[2] = start_waiting("third", "4G", "--wait");
	wait_until_waiting(0, 3);
	waiting[3] = start_waiting("fourth", "2500M", "--wait=600");
	wait_until_waiting(0, 4);
	// A run without --wait does not enter the queue. There is room for it, so it starts at once.
	CHECK_VIRGATE("run", "--memory", "256M", "--device", "0", "true");
	for (size_t i = 0; i < 4; i++)
		CHECK_INT(waitpid(waiting[i], NULL, WNOHANG), 0);
	CHECK_VIRGATE("rm", "full");
	for (size_t i = 0; i < 4; i++)
		CHECK_INT(wait_for_exit(waiting[i]), 0);
	CHECK_INT(read_waiting(0), 0);
	check_order("first\nsecond\nthird\nfourth\n");
}

TEST(large_request_is_not_overtaken)
{
	start_node_with_order();
	CHECK_VIRGATE("create", "one", "--memory", "2G", "--device", "0");
	CHECK_VIRGATE("create", "two", "--memory", "2G", "--device", "0");
	pid_t large = start_waiting("large", "4G", "--wait");
	wait_until_waiting(0, 1);
	pid_t small = start_waiting("small", "1G", "--wait");
	wait_until_waiting(0, 2);
	CHECK_VIRGATE("rm", "one"); // the request for little memory would fit now, but an earlier one waits
	wait_until_waiting(0, 2);
	CHECK_INT(waitpid(small, NULL, WNOHANG), 0);
	CHECK_VIRGATE("rm", "two");
	CHECK_INT(wait_for_exit(large), 0);
	CHECK_INT(wait_for_exit(small), 0);
	check_order("large\nsmall\n");
}

TEST(other_gpu_is_taken)
{
	start_node_with_order();
	CHECK_VIRGATE("create", "one", "--memory", "3G", "--device", "0");
	pid_t blocked = start_waiting("blocked", "2G", "--wait");
	wait_until_waiting(0, 1);
	CHECK_VIRGATE("run", "--memory", "1G", "--wait", "true"); // GPU 1 has room, and no request waits for GPU 1
	CHECK_VIRGATE("rm", "one");
	CHECK_INT(wait_for_exit(blocked), 0);
}

TEST(client_that_ends_leaves_the_queue)
{
	start_node_with_order();
	CHECK_VIRGATE("create", "full", "--memory", "4G", "--device", "0");
	pid_t first = start_waiting("first", "4G", "--wait");
	wait_until_waiting(0, 1);
	pid_t second = start_waiting("second", "1G", "--wait");
	wait_until_waiting(0, 2);
	kill(first, SIGINT);
	CHECK_INT(wait_for_exit(first), 1000 + SIGINT);
	wait_until_waiting(0, 1);
	kill(second, SIGKILL);
	CHECK_INT(wait_for_exit(second), 1000 + SIGKILL);
	wait_until_waiting(0, 0);
	CHECK_VIRGATE("rm", "full");
	CHECK_VIRGATE("run", "--memory", "4G", "--device", "0", "true"); // nothing was left
	check_order("");
}

TEST(wait_ends_with_the_reason)
{
	start_node_with_order();
	CHECK_VIRGATE("create", "full", "--memory", "3G", "--device", "0");
	CHECK_REFUSAL(125, "no room within 1 s: GPU 0: asked for 2.0 GiB, but 1.0 GiB is left", "run", "--memory", "2G",
		      "--device", "0", "--wait=1", "true");
	CHECK_INT(read_waiting(0), 0);
	pid_t first = start_waiting("first", "2G", "--wait");
	wait_until_waiting(0, 1);
	CHECK_REFUSAL(125, "no room within 1 s: GPU 0: ", "run", "--memory", "1G", "--device", "0", "--wait=1", "true");
	CHECK_CONTAINS(result.err, "earlier ones come first");
	kill(first, SIGTERM);
	CHECK_INT(wait_for_exit(first), 1000 + SIGTERM);
}

TEST(impossible_requests_are_refused_at_once)
{
	start_node_with_order();
	CHECK_REFUSAL(125, "asked for 5.0 GiB, larger than GPU ", "run", "--memory", "5G", "--wait", "true");
	CHECK_REFUSAL(125, "a CUDA context alone takes", "run", "--memory", "1M", "--wait", "true");
	CHECK_REFUSAL(125, "there is no GPU 7", "run", "--memory", "1G", "--wait", "--device", "7", "true");
	CHECK_REFUSAL(125, "--wait: \"0\" is not a time: use whole seconds from 1 to 1000000", "run", "--memory", "1G",
		      "--wait=0", "true");
	CHECK_REFUSAL(125, "--wait waits for room for a new vGPU, and --vgpu names one that exists", "run", "--vgpu",
		      "x", "--wait", "true");
}

TEST(drained_gpu_is_waited_for)
{
	start_node_with_order();
	CHECK_VIRGATE("drain", "0");
	pid_t waiting = start_waiting("a", "1G", "--wait");
	wait_until_waiting(0, 1);
	CHECK_VIRGATE("drain", "0", "--undo");
	CHECK_INT(wait_for_exit(waiting), 0);
	check_order("a\n");
}

TEST(queue_survives_the_daemon)
{
	start_node_with_order();
	CHECK_VIRGATE("create", "full", "--memory", "4G", "--device", "0");
	pid_t waiting = start_waiting("a", "1G", "--wait");
	wait_until_waiting(0, 1);
	CHECK_VIRGATE("shutdown");
	wait_until_waiting(0, 1);
	CHECK_VIRGATE("rm", "full");
	CHECK_INT(wait_for_exit(waiting), 0);
	check_order("a\n");
}
