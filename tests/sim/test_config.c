// Tests VIRGATE_SIM and CUDA_VISIBLE_DEVICES. Each check runs in its own process.
#include "sim_test.h"

#include <sys/mman.h>
#include <sys/resource.h>

// Runs `check` in a child with this VIRGATE_SIM and CUDA_VISIBLE_DEVICES (NULL: unset). Returns the child's exit
// status, and stores what it writes to standard error in `ret_output`.
static int run_check(const char *spec, const char *visible, int (*check)(void), char *ret_output, size_t capacity)
{
	int pipes[2], status;

	node_start("1");
	CHECK(pipe(pipes) == 0);
	pid_t child = fork();
	if (child == 0) {
		char directory[96];
		dup2(pipes[1], 2);
		close(pipes[0]);
		snprintf(directory, sizeof directory, "%s/%d", node_directory, getpid());
		setenv("VIRGATE_SIM_DIR", directory, 1);
		spec ? setenv("VIRGATE_SIM", spec, 1) : unsetenv("VIRGATE_SIM");
		visible ? setenv("CUDA_VISIBLE_DEVICES", visible, 1) : unsetenv("CUDA_VISIBLE_DEVICES");
		_exit(check());
	}
	close(pipes[1]);
	size_t length = 0;
	for (ssize_t count = 1; count > 0; length += count > 0 ? (size_t)count : 0) // several writes
		count = read(pipes[0], ret_output + length, capacity - 1 - length);
	ret_output[length] = 0;
	close(pipes[0]);
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int init(void)
{
	return cuInit(0);
}

static int count_devices(void)
{
	int count = -1;
	if (cuInit(0) || cuDeviceGetCount(&count))
		return 200;
	return count;
}

static int check_attributes(void)
{
	int sms = 0, major = 0, minor = 0, version = 0;
	size_t memory = 0;
	char name[64];
	if (cuInit(0) || cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 2) ||
	    cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 2) ||
	    cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 2) ||
	    cuDeviceTotalMem_v2(&memory, 2) || cuDriverGetVersion(&version) || cuDeviceGetName(name, sizeof name, 2))
		return 200;
	return sms == 40 && major == 8 && minor == 6 && memory == 1024 * MIB && version == 12080 &&
			       strcmp(name, "Virgate Simulated GPU") == 0
		       ? 0
		       : 1;
}

static void write_uuid(const CUuuid *uuid, char *text)
{
	text += sprintf(text, "GPU-");
	for (int i = 0; i < 16; i++)
		text += sprintf(text, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
				(unsigned char)uuid->bytes[i]);
}

// Executes this program again with CUDA_VISIBLE_DEVICES set to a UUID, which must select that device.
static int check_uuid(void)
{
	CUuuid uuid;
	char text[128];
	if (cuInit(0) || cuDeviceGetUuid_v2(&uuid, 1))
		return 200;
	write_uuid(&uuid, text);
	setenv("CUDA_VISIBLE_DEVICES", text, 1);
	setenv("EXPECTED_UUID", text, 1);
	char *arguments[] = {"test-sim-config", "--one-device", NULL};
	execv("/proc/self/exe", arguments);
	return 201;
}

__attribute__((constructor)) static void run_one_device(int argc, char **argv)
{
	CUuuid uuid;
	char text[128];
	int count;
	if (argc < 2 || strcmp(argv[1], "--one-device") != 0)
		return;
	if (cuInit(0) || cuDeviceGetCount(&count) || count != 1 || cuDeviceGetUuid_v2(&uuid, 0))
		_exit(1);
	write_uuid(&uuid, text);
	_exit(strcmp(text, getenv("EXPECTED_UUID")) == 0 ? 0 : 2);
}

TEST(init_fails_if_the_variable_is_unset)
{
	char output[512];
	CHECK_INT(run_check(NULL, NULL, init, output, sizeof output), CUDA_ERROR_NO_DEVICE);
	CHECK_CONTAINS(output, "VIRGATE_SIM is not set");
}

TEST(invalid_specifications_are_reported)
{
	char output[512];
	CHECK_INT(run_check("devices=0", NULL, init, output, sizeof output), CUDA_ERROR_INVALID_VALUE);
	CHECK_CONTAINS(output, "devices=0 must be a number from 1 to 16");
	CHECK_INT(run_check("memory=lots", NULL, init, output, sizeof output), CUDA_ERROR_INVALID_VALUE);
	CHECK_CONTAINS(output, "memory=lots must be a size");
	CHECK_INT(run_check("memory=-1G", NULL, init, output, sizeof output), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(run_check("colour=red", NULL, init, output, sizeof output), CUDA_ERROR_INVALID_VALUE);
	CHECK_CONTAINS(output, "unknown key \"colour\"");
	CHECK_INT(run_check("cc=9", NULL, init, output, sizeof output), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(run_check("memory=64M,ctx=65M", NULL, init, output, sizeof output), CUDA_ERROR_INVALID_VALUE);
	CHECK_CONTAINS(output, "does not fit");
	CHECK_INT(run_check("memory", NULL, init, output, sizeof output), CUDA_ERROR_INVALID_VALUE);
	CHECK_CONTAINS(output, "not key=value");
}

TEST(devices_have_the_configured_properties)
{
	char output[512];
	CHECK_INT(run_check("devices=3,memory=1G,sms=40,cc=8.6,driver=12080,ctx=8M", NULL, check_attributes, output,
			    sizeof output),
		  0);
	CHECK_INT(run_check("1", NULL, count_devices, output, sizeof output), 1);
}

static int check_names(void)
{
	char names[3][40];

	if (cuInit(0))
		return 200;
	for (int i = 0; i < 3; i++)
		if (cuDeviceGetName(names[i], sizeof names[i], i))
			return 201;
	return strcmp(names[0], "First") == 0 && strcmp(names[1], "Other one") == 0 && strcmp(names[2], names[1]) == 0
		       ? 0
		       : 1;
}

// Creates a context in this process, and meanwhile one in another process. Returns the first result that is a failure;
// 0: both contexts were created.
static int check_two_processes(void)
{
	CUcontext context;
	int status, mode = -1;

	if (cuInit(0) || cuDeviceGetAttribute(&mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 0))
		return 200;
	CUresult first = cuDevicePrimaryCtxRetain(&context, 0);
	if (first)
		return mode == 2 ? (int)first : 201;
	char *arguments[] = {"test-sim-config", "--one-context", NULL};
	pid_t child = fork();
	if (child == 0)
		execv("/proc/self/exe", arguments);
	if (waitpid(child, &status, 0) != child || mode != (WEXITSTATUS(status) ? 3 : 0))
		return 202;
	// The same process may have a second context.
	return cuCtxCreate_v4(&context, NULL, 0, 0) ? 203 : WEXITSTATUS(status);
}

__attribute__((constructor)) static void run_one_context(int argc, char **argv)
{
	CUcontext context;

	if (argc < 2 || strcmp(argv[1], "--one-context") != 0)
		return;
	CUresult result = cuInit(0);
	_exit(result ? 100 : (int)cuDevicePrimaryCtxRetain(&context, 0));
}

// These tests leave the process too few addresses. They are not built with a sanitizer, which needs most of the
// addresses itself.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static int init_with_few_addresses(void)
{
	const struct rlimit few = {(rlim_t)4 << 30, (rlim_t)4 << 30};

	return setrlimit(RLIMIT_AS, &few) ? 200 : (int)cuInit(0);
}

static int init_with_fragmented_addresses(void)
{
	while (mmap(NULL, (size_t)1 << 40, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED)
		;
	return (int)cuInit(0);
}

TEST(missing_address_space_is_reported)
{
	char output[512];
	CHECK_INT(run_check("memory=1G", NULL, init_with_few_addresses, output, sizeof output),
		  CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_CONTAINS(output, "the simulated GPU needs 2.0 TiB of address space, and this process is limited to 4.0 "
			       "GiB: lift the limit (ulimit -v unlimited)\n");
	CHECK_INT(run_check("memory=1G", NULL, init_with_fragmented_addresses, output, sizeof output),
		  CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_CONTAINS(output, "needs 2.0 TiB of address space, which this process does not have in one piece");
	CHECK_CONTAINS(output, "-fsanitize=thread");
}
#endif

TEST(names_and_compute_modes_are_as_configured)
{
	char output[512];
	CHECK_INT(run_check("devices=3,memory=64M,names=First:Other one", NULL, check_names, output, sizeof output), 0);
	CHECK_INT(run_check("names=:", NULL, init, output, sizeof output), CUDA_ERROR_INVALID_VALUE);
	CHECK_CONTAINS(output, "names of at most 31 characters");
	CHECK_INT(run_check("mode=shared", NULL, init, output, sizeof output), CUDA_ERROR_INVALID_VALUE);
	CHECK_CONTAINS(output, "default, exclusive or prohibited");
	CHECK_INT(run_check("memory=1G", NULL, check_two_processes, output, sizeof output), 0);
	CHECK_INT(run_check("memory=1G,mode=exclusive", NULL, check_two_processes, output, sizeof output),
		  CUDA_ERROR_DEVICE_UNAVAILABLE);
	CHECK_INT(run_check("memory=1G,mode=prohibited", NULL, check_two_processes, output, sizeof output),
		  CUDA_ERROR_DEVICE_UNAVAILABLE);
}

static int is_mps_enabled(void)
{
	int enabled = -1;

	return cuInit(0) || cuDeviceGetAttribute(&enabled, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, 0) ? 200 : enabled;
}

TEST(rare_options_are_off_by_default)
{
	char output[512];
	CHECK_INT(run_check("memory=1G", NULL, is_mps_enabled, output, sizeof output), 0);
	CHECK_INT(run_check("memory=1G,mps=1", NULL, is_mps_enabled, output, sizeof output), 1);
	CHECK_INT(run_check("giveup=yes", NULL, init, output, sizeof output), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(run_check("persistence=2", NULL, init, output, sizeof output), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(run_check("mps=2", NULL, init, output, sizeof output), CUDA_ERROR_INVALID_VALUE);
	CHECK_CONTAINS(output, "mps=2 must be 0 or 1");
	CHECK_INT(run_check("mig=", NULL, init, output, sizeof output), CUDA_ERROR_INVALID_VALUE);
	CHECK_CONTAINS(output, "mig= must be 0 or 1");
}

TEST(visible_devices)
{
	char output[512];
	CHECK_INT(run_check("devices=4,memory=64M", "2,0", count_devices, output, sizeof output), 2);
	CHECK_INT(run_check("devices=4,memory=64M", "1,9,2", count_devices, output, sizeof output),
		  1); // the driver ignores what follows an invalid item (9) of CUDA_VISIBLE_DEVICES
	CHECK_INT(run_check("devices=4,memory=64M", "", init, output, sizeof output), CUDA_ERROR_NO_DEVICE);
	CHECK_INT(run_check("devices=4,memory=64M", "-1", init, output, sizeof output), CUDA_ERROR_NO_DEVICE);
	CHECK_INT(run_check("devices=4,memory=64M", NULL, check_uuid, output, sizeof output), 0);
}

TEST(invalid_time_slices_are_refused)
{
	char output[512];
	static const char *const invalid[] = {
		"slice=2",  "slice=99us", "slice=-1ms",	 "slice=",	  "slice=2h",
		"switch=5", "switch=",	  "switch=-1us", "copyengines=0", "copyengines=3"};

	for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++)
		CHECK_INT(run_check(invalid[i], NULL, init, output, sizeof output), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(run_check("slice=99us", NULL, init, output, sizeof output), CUDA_ERROR_INVALID_VALUE);
	CHECK_CONTAINS(output, "slice=99us must be 0 or a duration from 100us to an hour");
	CHECK_INT(run_check("memory=1G,slice=0,switch=0us", NULL, init, output, sizeof output), 0);
	CHECK_INT(run_check("memory=1G,slice=100us,copyengines=1", NULL, init, output, sizeof output), 0);
}
