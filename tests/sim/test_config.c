// VIRGATE_SIM, CUDA_VISIBLE_DEVICES, and loading without being asked. Each in a process of its own.
#include "sim_test.h"

#include <sys/mman.h>
#include <sys/resource.h>

// Runs `check` in a child with this VIRGATE_SIM (NULL: unset) and CUDA_VISIBLE_DEVICES; its
// exit status, and what it said on stderr.
static int run(const char *spec, const char *visible, int (*check)(void), char *ret_words, size_t capacity)
{
	int pipes[2], status;

	node_start("1");
	CHECK(pipe(pipes) == 0);
	pid_t child = fork();
	if (child == 0) {
		char folder[96];
		dup2(pipes[1], 2);
		close(pipes[0]);
		snprintf(folder, sizeof folder, "%s/%d", node_folder, getpid());
		setenv("VIRGATE_SIM_DIR", folder, 1);
		spec ? setenv("VIRGATE_SIM", spec, 1) : unsetenv("VIRGATE_SIM");
		visible ? setenv("CUDA_VISIBLE_DEVICES", visible, 1) : unsetenv("CUDA_VISIBLE_DEVICES");
		_exit(check());
	}
	close(pipes[1]);
	size_t length = 0;
	for (ssize_t got = 1; got > 0; length += got > 0 ? (size_t)got : 0) // a line may come in pieces
		got = read(pipes[0], ret_words + length, capacity - 1 - length);
	ret_words[length] = 0;
	close(pipes[0]);
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int init_result(void)
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
	       strcmp(name, "Virgate Simulated GPU") == 0 ? 0 : 1;
}

// The same devices by UUID, in the order asked for.
static int by_uuid(void)
{
	CUuuid uuid;
	char text[128], *out = text;
	if (cuInit(0) || cuDeviceGetUuid_v2(&uuid, 1))
		return 200;
	out += sprintf(out, "GPU-");
	for (int i = 0; i < 16; i++)
		out += sprintf(out, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			       (unsigned char)uuid.bytes[i]);
	setenv("CUDA_VISIBLE_DEVICES", text, 1);
	setenv("EXPECTED_UUID", text, 1);
	char *arguments[] = {"test-sim-config", "--one-device", NULL};
	execv("/proc/self/exe", arguments);
	return 201;
}

__attribute__((constructor)) static void one_device(int argc, char **argv)
{
	CUuuid uuid;
	char text[128], *out = text;
	int count;
	if (argc < 2 || strcmp(argv[1], "--one-device") != 0)
		return;
	if (cuInit(0) || cuDeviceGetCount(&count) || count != 1 || cuDeviceGetUuid_v2(&uuid, 0))
		_exit(1);
	out += sprintf(out, "GPU-");
	for (int i = 0; i < 16; i++)
		out += sprintf(out, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			       (unsigned char)uuid.bytes[i]);
	_exit(strcmp(text, getenv("EXPECTED_UUID")) == 0 ? 0 : 2);
}

TEST(never_used_without_being_asked)
{
	char words[512];
	CHECK_INT(run(NULL, NULL, init_result, words, sizeof words), CUDA_ERROR_NO_DEVICE);
	CHECK_CONTAINS(words, "VIRGATE_SIM is not set");
}

TEST(bad_specifications_say_what_is_wrong)
{
	char words[512];
	CHECK_INT(run("devices=0", NULL, init_result, words, sizeof words), CUDA_ERROR_INVALID_VALUE);
	CHECK_CONTAINS(words, "devices=0 must be a number from 1 to 16");
	CHECK_INT(run("memory=lots", NULL, init_result, words, sizeof words), CUDA_ERROR_INVALID_VALUE);
	CHECK_CONTAINS(words, "memory=lots must be a size");
	CHECK_INT(run("memory=-1G", NULL, init_result, words, sizeof words), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(run("colour=red", NULL, init_result, words, sizeof words), CUDA_ERROR_INVALID_VALUE);
	CHECK_CONTAINS(words, "unknown key \"colour\"");
	CHECK_INT(run("cc=9", NULL, init_result, words, sizeof words), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(run("memory=64M,ctx=65M", NULL, init_result, words, sizeof words), CUDA_ERROR_INVALID_VALUE);
	CHECK_CONTAINS(words, "does not fit");
	CHECK_INT(run("memory", NULL, init_result, words, sizeof words), CUDA_ERROR_INVALID_VALUE);
	CHECK_CONTAINS(words, "not key=value");
}

TEST(the_configuration_is_what_is_seen)
{
	char words[512];
	CHECK_INT(run("devices=3,memory=1G,sms=40,cc=8.6,driver=12080,ctx=8M", NULL, check_attributes, words,
		      sizeof words),
		  0);
	CHECK_INT(run("1", NULL, count_devices, words, sizeof words), 1);
}

static int names_of_all(void)
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

// What a context answers here, and what it answers in another process beside it.
static int two_processes(void)
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
	// A second one of the same process is let in.
	return cuCtxCreate_v4(&context, NULL, 0, 0) ? 203 : WEXITSTATUS(status);
}

__attribute__((constructor)) static void one_context(int argc, char **argv)
{
	CUcontext context;

	if (argc < 2 || strcmp(argv[1], "--one-context") != 0)
		return;
	CUresult result = cuInit(0);
	_exit(result ? 100 : (int)cuDevicePrimaryCtxRetain(&context, 0));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // which take most of the addresses themselves
static int with_few_addresses(void)
{
	const struct rlimit few = {(rlim_t)4 << 30, (rlim_t)4 << 30};

	return setrlimit(RLIMIT_AS, &few) ? 200 : (int)cuInit(0);
}

static int with_addresses_in_pieces(void)
{
	while (mmap(NULL, (size_t)1 << 40, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED)
		;
	return (int)cuInit(0);
}

TEST(too_few_addresses_are_told)
{
	char words[512];
	CHECK_INT(run("memory=1G", NULL, with_few_addresses, words, sizeof words), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_CONTAINS(words, "the simulated GPU needs 2.0 TiB of address space, and this process is limited to 4.0 "
			      "GiB: lift the limit (ulimit -v unlimited)\n");
	CHECK_INT(run("memory=1G", NULL, with_addresses_in_pieces, words, sizeof words), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_CONTAINS(words, "needs 2.0 TiB of address space, which this process does not have in one piece");
	CHECK_CONTAINS(words, "-fsanitize=thread");
}
#endif

TEST(names_and_modes_are_as_asked)
{
	char words[512];
	CHECK_INT(run("devices=3,memory=64M,names=First:Other one", NULL, names_of_all, words, sizeof words), 0);
	CHECK_INT(run("names=:", NULL, init_result, words, sizeof words), CUDA_ERROR_INVALID_VALUE);
	CHECK_CONTAINS(words, "names of at most 31 characters");
	CHECK_INT(run("mode=shared", NULL, init_result, words, sizeof words), CUDA_ERROR_INVALID_VALUE);
	CHECK_CONTAINS(words, "default, exclusive or prohibited");
	CHECK_INT(run("memory=1G", NULL, two_processes, words, sizeof words), 0);
	CHECK_INT(run("memory=1G,mode=exclusive", NULL, two_processes, words, sizeof words),
		  CUDA_ERROR_DEVICE_UNAVAILABLE);
	CHECK_INT(run("memory=1G,mode=prohibited", NULL, two_processes, words, sizeof words),
		  CUDA_ERROR_DEVICE_UNAVAILABLE);
}

static int mps_enabled(void)
{
	int enabled = -1;

	return cuInit(0) || cuDeviceGetAttribute(&enabled, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, 0) ? 200 : enabled;
}

TEST(what_a_machine_seldom_has_is_off_until_asked_for)
{
	char words[512];
	CHECK_INT(run("memory=1G", NULL, mps_enabled, words, sizeof words), 0);
	CHECK_INT(run("memory=1G,mps=1", NULL, mps_enabled, words, sizeof words), 1);
	CHECK_INT(run("giveup=yes", NULL, init_result, words, sizeof words), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(run("persistence=2", NULL, init_result, words, sizeof words), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(run("mps=2", NULL, init_result, words, sizeof words), CUDA_ERROR_INVALID_VALUE);
	CHECK_CONTAINS(words, "mps=2 must be 0 or 1");
	CHECK_INT(run("mig=", NULL, init_result, words, sizeof words), CUDA_ERROR_INVALID_VALUE);
	CHECK_CONTAINS(words, "mig= must be 0 or 1");
}

TEST(visible_devices)
{
	char words[512];
	CHECK_INT(run("devices=4,memory=64M", "2,0", count_devices, words, sizeof words), 2);
	CHECK_INT(run("devices=4,memory=64M", "1,9,2", count_devices, words, sizeof words), 1); // ends at what is none
	CHECK_INT(run("devices=4,memory=64M", "", init_result, words, sizeof words), CUDA_ERROR_NO_DEVICE);
	CHECK_INT(run("devices=4,memory=64M", "-1", init_result, words, sizeof words), CUDA_ERROR_NO_DEVICE);
	CHECK_INT(run("devices=4,memory=64M", NULL, by_uuid, words, sizeof words), 0);
}

TEST(invalid_time_slices_are_refused)
{
	char words[512];
	static const char *const invalid[] = {"slice=2", "slice=99us", "slice=-1ms", "slice=", "slice=2h", "switch=5",
					      "switch=", "switch=-1us", "copyengines=0", "copyengines=3"};

	for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++)
		CHECK_INT(run(invalid[i], NULL, init_result, words, sizeof words), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(run("slice=99us", NULL, init_result, words, sizeof words), CUDA_ERROR_INVALID_VALUE);
	CHECK_CONTAINS(words, "slice=99us must be 0 or a duration from 100us to an hour");
	CHECK_INT(run("memory=1G,slice=0,switch=0us", NULL, init_result, words, sizeof words), 0);
	CHECK_INT(run("memory=1G,slice=100us,copyengines=1", NULL, init_result, words, sizeof words), 0);
}
