// Tests modes and compute shares on two simulated GPUs: the choice of a GPU, settings of one GPU, and refused commands,
// which must change nothing. A script stands in for the control daemon of MPS.
#include "live_node.h"

static char uuids[2][48];
static char control[160];

// Starts the daemon on two GPUs. If `has_mps`, the daemon finds a control daemon of MPS.
static void start_on_two_gpus(bool has_mps)
{
	char command[700];

	unsetenv("VIRGATE_MPS_CONTROL");
	node_start();
	snprintf(control, sizeof control, "%s/mps-control-standin", fixture.directory);
	snprintf(command, sizeof command, "cp '%s' '%s'", STANDIN, control);
	CHECK_INT(system(command), 0);
	if (has_mps)
		setenv("VIRGATE_MPS_CONTROL", control, 1);
	node_read_uuids(uuids);
}

__attribute__((format(printf, 2, 3))) static void write_file(const char *name, const char *format, ...)
{
	char path[200];
	va_list arguments;

	snprintf(path, sizeof path, "%s/%s", fixture.directory, name);
	FILE *file = fopen(path, "w");
	CHECK(file);
	va_start(arguments, format);
	vfprintf(file, format, arguments);
	va_end(arguments);
	CHECK_INT(fclose(file), 0);
}

// Returns the GPU and the mode of a vGPU, such as "0 time".
static const char *device_and_mode_of(const char *name)
{
	static char text[32];
	json_t *json = read_listing(WORDS("inspect", name, "--json")), *vgpu = json_object_get(json, "vgpu");

	snprintf(text, sizeof text, "%d %s", (int)json_integer_value(json_object_get(vgpu, "device")),
		 json_string_value(json_object_get(vgpu, "mode")));
	json_decref(json);
	return text;
}

// A program in a new vGPU that runs until its input is closed.
struct program {
	pid_t pid;
	int input;
};

static struct program start_and_wait(const char *const *words)
{
	char text[64] = "";
	int input[2];

	CHECK_INT(pipe(input), 0);
	fcntl(input[1], F_SETFD, FD_CLOEXEC);
	int saved = dup(0);
	dup2(input[0], 0);
	close(input[0]);
	struct program program = {start_program(words), input[1]};
	dup2(saved, 0);
	close(saved);
	for (int i = 0; i < 1000 && !strchr(text, '\n') && waitpid(program.pid, NULL, WNOHANG) == 0; i++) {
		usleep(10000);
		read_file("out", text, sizeof text);
	}
	read_file("err", result.err, sizeof result.err);
	if (!strchr(text, '\n'))
		FAIL("%s: %s", words[1], result.err);
	return program;
}

#define PROGRAM(...) start_and_wait(WORDS("run", __VA_ARGS__, "--", "sh", "-c", "echo started; read line; exit 0"))

static void stop_program(struct program program)
{
	close(program.input);
	CHECK_INT(wait_for_program(program.pid), 0);
}

TEST(gpu_with_matching_mode_is_chosen)
{
	start_on_two_gpus(true);
	CHECK_VIRGATE("create", "filler", "--memory", "2G", "--device", "1");
	struct program first = PROGRAM("--name", "first", "--memory", "256M", "--mode", "mps");
	CHECK_STR(device_and_mode_of("first"), "0 mps"); // GPU 0 has the most free memory
	struct program second = PROGRAM("--name", "second", "--memory", "256M");
	CHECK_STR(device_and_mode_of("second"), "1 time");
	struct program third = PROGRAM("--name", "third", "--memory", "256M", "--mode", "mps");
	CHECK_STR(device_and_mode_of("third"), "0 mps");
	setenv("CUDA_VISIBLE_DEVICES", uuids[0], 1);
	CHECK_REFUSAL(125, "a GPU has one mode at a time", "run", "--memory", "256M", "true");
	unsetenv("CUDA_VISIBLE_DEVICES");
	// GPU 1 has the default mode, time, but not enough memory.
	CHECK_REFUSAL(125, "GPU 0: ", "run", "--memory", "2G", "true");
	CHECK_CONTAINS(result.err, "a GPU has one mode at a time");
	stop_program(first);
	stop_program(second);
	stop_program(third);
}

TEST(settings_choose_mode_of_gpu)
{
	start_on_two_gpus(true);
	write_file("system.conf", "[device 1]\nsharing = mps\n");
	CHECK_VIRGATE("create", "a", "--memory", "256M", "--device", "1");
	CHECK_CONTAINS(result.out, "mode mps: a fault in one program ends all");
	CHECK_STR(device_and_mode_of("a"), "1 mps");
	CHECK_VIRGATE("create", "b", "--memory", "256M", "--device", "0");
	CHECK(!strstr(result.out, "mps"));
	CHECK_STR(device_and_mode_of("b"), "0 time");
	CHECK_VIRGATE("create", "c", "--memory", "256M", "--device", uuids[1], "--mode", "time");
	CHECK_STR(device_and_mode_of("c"), "1 time");
	setenv("VIRGATE_SHARING", "time", 1);
	CHECK_VIRGATE("create", "d", "--memory", "256M", "--device", "1");
	CHECK_STR(device_and_mode_of("d"), "1 time");
	unsetenv("VIRGATE_SHARING");
	// GPU 0 has a mode of its own in the settings. The other GPU has the mode of the section [run].
	write_file("system.conf", "[run]\nsharing = mps\n[device %s]\nsharing = time\n", uuids[0]);
	CHECK_VIRGATE("create", "e", "--memory", "256M", "--device", "0");
	CHECK_STR(device_and_mode_of("e"), "0 time");
	CHECK_VIRGATE("create", "f", "--memory", "256M", "--device", "1");
	CHECK_STR(device_and_mode_of("f"), "1 mps");
	// If the daemon chooses the GPU, the new vGPU gets the mode of the chosen GPU.
	struct program program = PROGRAM("--name", "g", "--memory", "1G");
	CHECK_STR(device_and_mode_of("g"), "0 time");
	stop_program(program);
	CHECK_VIRGATE("create", "filler", "--memory", "3G", "--device", "0");
	program = PROGRAM("--name", "h", "--memory", "1G");
	CHECK_STR(device_and_mode_of("h"), "1 mps");
	stop_program(program);
}

TEST(doctor_checks_mps_if_configured)
{
	start_on_two_gpus(true);
	CHECK_VIRGATE("doctor", "quota");
	CHECK(!strstr(result.out, "mode mps  "));
	write_file("system.conf", "[device 1]\nsharing = mps\n");
	CHECK_VIRGATE("doctor", "quota");
	CHECK_CONTAINS(result.out, "asked for by ");
	setenv("VIRGATE_MPS_CONTROL", "/nonexistent/control", 1);
	CHECK_INT(VIRGATE_RUN("doctor", "quota"), 1);
	CHECK_CONTAINS(result.out, "/system.conf:2 asks for it, but there is no nvidia-cuda-mps-control; install");
	unsetenv("VIRGATE_MPS_CONTROL");
}

// Stores the output of `ps --json`, and returns whether it is the same as at the last call.
static bool is_unchanged(void)
{
	static char before[sizeof result.out];

	CHECK_VIRGATE("ps", "--json");
	bool unchanged = strcmp(before, result.out) == 0;
	strcpy(before, result.out);
	return unchanged;
}

static void check_that_refusal_changes_nothing(const char *const *words, int code, const char *says)
{
	check_refusal(words, code, says);
	if (!is_unchanged())
		FAIL("%s %s was refused, but changed the listing: %s", words[0], words[1], result.out);
}

#define REFUSED(code, says, ...) \
	check_that_refusal_changes_nothing((const char *const[]){__VA_ARGS__, NULL}, code, says)

TEST(settings_for_missing_gpu_are_refused)
{
	char says[200];

	start_on_two_gpus(true);
	is_unchanged();
	write_file("system.conf", "[run]\nmemory = 256M\n[device 2]\nsharing = mps\n");
	snprintf(says, sizeof says, "/system.conf:4: [device 2]: there is no such GPU: this node has 0 (%s), 1 (%s)",
		 uuids[0], uuids[1]);
	REFUSED(125, says, "run", "true");
	REFUSED(1, says, "create", "a", "--memory", "256M", "--device", "0");
	write_file("system.conf", "[device GPU-00000000-0000-0000-0000-000000000000]\nsharing = time\n");
	REFUSED(1, "there is no such GPU: this node has 0 (GPU-", "create", "a", "--memory", "256M");
	write_file("system.conf", "[device 0]\nsharing = mp\n");
	CHECK_INT(VIRGATE_RUN("run", "--memory", "256M", "true"), 125); // every verb refuses invalid settings
	CHECK_CONTAINS(result.err, "/system.conf:2: sharing: \"mp\" is not a mode: use time or mps");
	write_file("system.conf", "%s", "");
	CHECK(is_unchanged());
}

TEST(refused_commands_change_nothing)
{
	start_on_two_gpus(false);
	CHECK_VIRGATE("create", "a", "--memory", "256M", "--share", "60", "--device", "0");
	CHECK_VIRGATE("create", "b", "--memory", "256M", "--share", "90", "--device", "1");
	is_unchanged();
	REFUSED(2, "\"0\" is not a share: use a whole number from 1 to 100", "create", "c", "--share", "0");
	REFUSED(2, "\"101\" is not a share", "create", "c", "--share", "101");
	REFUSED(2, "\"many\" is not a share", "create", "c", "--share", "many");
	REFUSED(125, "\"0\" is not a share", "run", "--share", "0", "true");
	REFUSED(2, "\"101\" is not a share", "set", "a", "--share", "101");
	REFUSED(1, "GPU 0: asked for a share of 41 %, but 40 % is left: other vGPUs have 60 %", "create", "c",
		"--share", "41", "--device", "0");
	REFUSED(1, "a share of 41 %", "create", "c", "--share", "41"); // on neither GPU
	REFUSED(125, "asked for a share of 11 %, but 10 % is left", "run", "--share", "11", "--memory", "256M",
		"--device", "1", "true");
	CHECK_VIRGATE("create", "c", "--memory", "256M", "--share", "40", "--device", "0");
	is_unchanged();
	REFUSED(1, "asked for a share of 61 %, but 60 % is left", "set", "a", "--share", "61");
	REFUSED(2, "\"latenz\" is not a class: did you mean latency?", "create", "d", "--share", "1", "--class",
		"latenz");
	REFUSED(2, "\"mpss\" is not a mode: did you mean mps?", "create", "d", "--share", "1", "--mode", "mpss");
	REFUSED(2, "unknown option --mode", "set", "a", "--mode", "mps");
	REFUSED(1, "simulated GPUs have no MPS", "create", "d", "--memory", "256M", "--mode", "mps");
	REFUSED(125, "simulated GPUs have no MPS", "run", "--memory", "256M", "--mode", "mps", "true");
	setenv("VIRGATE_SHARING", "mps", 1);
	REFUSED(125, "simulated GPUs have no MPS", "run", "--memory", "256M", "true");
	unsetenv("VIRGATE_SHARING");
}

TEST(unavailable_mode_is_refused)
{
	start_on_two_gpus(true);
	CHECK_VIRGATE("create", "a", "--memory", "256M", "--share", "30", "--device", "0", "--mode", "mps");
	CHECK_VIRGATE("create", "b", "--memory", "256M", "--share", "30", "--device", "0");
	struct program program = PROGRAM("--vgpu", "b");
	is_unchanged();
	REFUSED(125, "GPU 0: the vGPU a has the mode mps, but programs of the mode time run there (vGPU b)", "run",
		"--vgpu", "a", "true");
	REFUSED(125, "a GPU has one mode at a time: wait until they have ended, or choose the mode time or another GPU",
		"run", "--memory", "256M", "--mode", "mps", "--device", "0", "true");
	stop_program(program);
	write_file("fails", "%s", "");
	is_unchanged();
	REFUSED(125, "its MPS control daemon has ended 1 time in a row; the next start is in", "run", "--vgpu", "a",
		"true");
	CHECK_VIRGATE("run", "--vgpu", "b", "true");
}

// A second daemon with the same simulated GPUs stands in for the daemon of another user.
TEST(share_conflicting_with_other_daemon_is_refused)
{
	char path[200], first[80];

	start_on_two_gpus(false);
	CHECK_VIRGATE("shutdown");
	snprintf(path, sizeof path, "%s/claims", fixture.directory);
	setenv("VIRGATE_CLAIMS_DIR", path, 1);
	struct program program = PROGRAM("--name", "a", "--memory", "256M", "--share", "30", "--device", "0");
	strcpy(first, fixture.runtime);
	snprintf(path, sizeof path, "%s/other", fixture.directory);
	setenv("VIRGATE_RUNTIME_DIR", path, 1);
	snprintf(path, sizeof path, "%s/other-state", fixture.directory);
	setenv("VIRGATE_STATE_DIR", path, 1);
	CHECK_VIRGATE("create", "b", "--memory", "256M", "--device", "0");
	is_unchanged();
	REFUSED(125, "GPU 0: another daemon, of user", "run", "--memory", "256M", "--share", "30", "--device", "0",
		"true");
	REFUSED(1, "holds compute shares there, and two daemons cannot", "set", "b", "--share", "10");
	CHECK_VIRGATE("create", "filler", "--memory", "3G", "--device", "1");
	CHECK_VIRGATE("create", "c", "--memory", "256M", "--share", "30");
	CHECK_STR(device_and_mode_of("c"), "1 time");
	CHECK_VIRGATE("shutdown");
	setenv("VIRGATE_RUNTIME_DIR", first, 1);
	stop_program(program);
	unsetenv("VIRGATE_CLAIMS_DIR");
}
