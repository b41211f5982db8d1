// Tests `virgate run` with stand-ins for the daemon and the libraries: exit codes, signals, environment, warnings.
#include <elf.h>
#include <stddef.h>

#include "base/descriptor.h"
#include "ledger/ledger.h"
#include "fixture.h"

static char ledger_path[128];

static void start_with_vgpu(void)
{
	static char answer[512];
	struct vg_ledger *ledger;
	const struct vg_ledger_options options = {
		.name = "train", .limit = 1 << 30, .owner = (uid_t)-1, .group = (gid_t)-1};

	fixture_start();
	snprintf(ledger_path, sizeof ledger_path, "%s/ledger", fixture.directory);
	CHECK_INT(vg_ledger_create(ledger_path, &options, &ledger), 0);
	vg_ledger_close(ledger);
	snprintf(answer, sizeof answer,
		 "{\"ok\":true,\"name\":\"train\",\"ledger\":\"%s\",\"uuid\":\"GPU-1234\",\"memory\":1073741824,"
		 "\"share\":0}",
		 ledger_path);
	serve_answer(answer);
}

#define RUN(...) VIRGATE_RUN("run", "--memory", "1G", "--", __VA_ARGS__)

// Resets all signals to their defaults, since the parent of the tests may ignore or block some, as nohup does.
__attribute__((constructor)) static void begin_with_default_signals(void)
{
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

TEST(exit_code_is_passed_on)
{
	start_with_vgpu();
	CHECK_INT(RUN("true"), 0);
	CHECK_INT(RUN("sh", "-c", "exit 7"), 7);
	CHECK_INT(RUN("sh", "-c", "exit 125"), 125);
	CHECK_INT(RUN("sh", "-c", "kill -TERM $$"), 128 + SIGTERM);
	CHECK_INT(RUN("sh", "-c", "kill -KILL $$"), 128 + SIGKILL);
	CHECK_INT(RUN("sh", "-c", "kill -SEGV $$"), 128 + SIGSEGV);
	CHECK_INT(VIRGATE_RUN("run", "--memory", "1G", "sh", "-c", "exit 9"), 9); // also without --
	CHECK_STR(result.err, "");
}

TEST(start_failures_have_own_codes)
{
	char path[128], script[192];

	start_with_vgpu();
	CHECK_INT(RUN("no-such-program-anywhere"), 127);
	CHECK_CONTAINS(result.err, "there is no program \"no-such-program-anywhere\" in PATH");
	CHECK_INT(RUN("/no/such/program"), 127);
	CHECK_INT(RUN(""), 127);
	CHECK_INT(RUN("/etc/passwd"), 126);
	CHECK_CONTAINS(result.err, "Permission denied");
	CHECK_INT(RUN("/etc"), 126);
	snprintf(path, sizeof path, "%s/script", fixture.directory);
	snprintf(script, sizeof script, "#!/no/such/interpreter\n");
	FILE *file = fopen(path, "w");
	CHECK(file && fputs(script, file) >= 0 && fclose(file) == 0);
	chmod(path, 0700);
	CHECK_INT(RUN(path), 126);
	CHECK_CONTAINS(result.err, "its interpreter is missing");
	file = fopen(path, "w");
	CHECK(file && fputs("no format at all", file) >= 0 && fclose(file) == 0);
	CHECK_INT(RUN(path), 126);
	CHECK_CONTAINS(result.err, "Exec format error");
}

TEST(missing_interposer_is_a_failure)
{
	start_with_vgpu();
	setenv("VIRGATE_LIBDIR", fixture.directory, 1);
	CHECK_INT(RUN("true"), 125);
	CHECK_CONTAINS(result.err, "libvirgate-cuda.so is not in ");
	CHECK_CONTAINS(result.err, fixture.directory);
}

TEST(tenant_gets_environment)
{
	char expected[512];

	start_with_vgpu();
	setenv("LD_PRELOAD", "libm.so.6:/elsewhere/libvirgate-cuda.so", 1);
	CHECK_INT(RUN("sh", "-c",
		      "echo "
		      "\"$LD_PRELOAD|$VIRGATE_LEDGER|$VIRGATE_VGPU|$VIRGATE_SOCKET|$CUDA_VISIBLE_DEVICES|${VIRGATE_SIM-"
		      "unset}|"
		      "${VIRGATE_DRIVER-unset}\""),
		  0);
	unsetenv("LD_PRELOAD");
	snprintf(expected, sizeof expected,
		 "%s/libvirgate-cuda.so:%s/libvirgate-nvml.so:libm.so.6|%s|train|%s|GPU-1234|unset|unset\n",
		 STANDIN_DIR, STANDIN_DIR, ledger_path, fixture.socket);
	CHECK_STR(result.out, expected);
}

TEST(tenant_gets_simulation)
{
	char path[128], expected[512];

	start_with_vgpu();
	snprintf(path, sizeof path, "%s/sim", fixture.directory);
	CHECK_INT(mkdir(path, 0700), 0);
	snprintf(path, sizeof path, "%s/runtime", fixture.directory);
	CHECK_INT(mkdir(path, 0700), 0);
	static const char *const names[] = {"sim/libcuda.so.1", "sim/libnvidia-ml.so.1", "runtime/libcudart.so.13"};
	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof path, "%s/%s", fixture.directory, names[i]);
		close(open(path, O_WRONLY | O_CREAT, 0600));
	}
	static const char *const links[] = {"libvirgate-cuda.so", "libvirgate-nvml.so"};
	for (int i = 0; i < 2; i++) {
		char target[256];
		snprintf(path, sizeof path, "%s/%s", fixture.directory, links[i]);
		snprintf(target, sizeof target, "%s/%s", STANDIN_DIR, links[i]);
		CHECK_INT(symlink(target, path), 0);
	}
	setenv("VIRGATE_LIBDIR", fixture.directory, 1);
	const char *script = "echo \"$VIRGATE_SIM|$VIRGATE_DRIVER|$VIRGATE_NVML\"";
	CHECK_VIRGATE("run", "--sim", "--memory=1G", "sh", "-c", script);
	snprintf(expected, sizeof expected, "1|%s/sim/libcuda.so.1|%s/sim/libnvidia-ml.so.1\n", fixture.directory,
		 fixture.directory);
	CHECK_STR(result.out, expected);
	// In LD_LIBRARY_PATH, the directory of Virgate's runtime library comes before the user's directories.
	const char *libraries = getenv("LD_LIBRARY_PATH");
	char *saved = libraries ? strdup(libraries) : NULL;
	char nested[128];
	snprintf(nested, sizeof nested, "%s/runtime:/x:/y", fixture.directory);
	const char *const before[] = {NULL, "/x:/y", nested};
	for (int i = 0; i < 3; i++) {
		if (before[i])
			setenv("LD_LIBRARY_PATH", before[i], 1);
		else
			unsetenv("LD_LIBRARY_PATH");
		CHECK_VIRGATE("run", "--sim", "--memory=1G", "sh", "-c", "echo \"$LD_LIBRARY_PATH\"");
		snprintf(expected, sizeof expected, "%s/runtime%s\n", fixture.directory, before[i] ? ":/x:/y" : "");
		CHECK_STR(result.out, expected);
	}
	if (saved)
		setenv("LD_LIBRARY_PATH", saved, 1);
	else
		unsetenv("LD_LIBRARY_PATH");
	free(saved);
	setenv("VIRGATE_SIM", "memory=2G", 1); // --sim without a value keeps the value of this variable
	CHECK_VIRGATE("run", "--sim", "--memory=1G", "sh", "-c", script);
	CHECK(strncmp(result.out, "memory=2G|", 10) == 0);
	CHECK_VIRGATE("run", "--sim=sms=4", "--memory=1G", "sh", "-c", script);
	CHECK(strncmp(result.out, "sms=4|", 6) == 0);
	unsetenv("VIRGATE_SIM");
}

static pid_t start_trap_script(const char *script)
{
	char text[64];

	pid_t child = start_program(WORDS("run", "--memory", "1G", "--", "sh", "-c", script));
	for (int i = 0; i < 500; i++) { // waits until the script has set its traps
		read_file("out", text, sizeof text);
		if (strstr(text, "ready"))
			return child;
		usleep(10000);
	}
	FAIL("the program did not start");
}

TEST(signals_are_forwarded)
{
	static const struct {
		int signal;
		const char *name;
	} all[] = {{SIGTERM, "TERM"}, {SIGINT, "INT"},	 {SIGHUP, "HUP"},   {SIGQUIT, "QUIT"},
		   {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"}, {SIGCONT, "CONT"}, {SIGWINCH, "WINCH"},
		   {SIGALRM, "ALRM"}, {SIGABRT, "ABRT"}, {SIGPWR, "PWR"},   {SIGXCPU, "XCPU"}};
	char script[256];

	start_with_vgpu();
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		snprintf(script, sizeof script,
			 "trap 'echo got %s; exit 40' %s; echo ready; while :; do sleep 0.02; done", all[i].name,
			 all[i].name);
		pid_t child = start_trap_script(script);
		kill(child, all[i].signal);
		CHECK_INT(wait_for_program(child), 40);
		CHECK_CONTAINS(result.out, all[i].name);
	}
}

TEST(fatal_signal_is_in_exit_code)
{
	start_with_vgpu();
	pid_t child = start_trap_script("echo ready; exec sleep 30");
	kill(child, SIGTERM);
	CHECK_INT(wait_for_program(child), 128 + SIGTERM);
}

TEST(stopping_launcher_stops_program)
{
	char state[1024], path[64];
	int status, sleeper;
	ssize_t length;

	start_with_vgpu();
	pid_t child = start_trap_script("echo $$; echo ready; exec sleep 30");
	read_file("out", state, sizeof state);
	sleeper = atoi(state);
	CHECK(sleeper > 0);
	kill(child, SIGTSTP);
	CHECK_INT(waitpid(child, &status, WUNTRACED), child);
	CHECK(WIFSTOPPED(status));
	snprintf(path, sizeof path, "/proc/%d/stat", sleeper);
	// SIGTSTP reaches the program at once, but the program stops only when the scheduler runs it
	for (int i = 0;; i++) {
		int fd = open(path, O_RDONLY);
		length = read(fd, state, sizeof state - 1);
		close(fd);
		CHECK(length > 0);
		state[length] = '\0';
		if (strncmp(strrchr(state, ')'), ") T", 3) == 0)
			break;
		CHECK(i < 500);
		usleep(10000);
	}
	kill(child, SIGCONT);
	kill(child, SIGTERM);
	CHECK_INT(wait_for_program(child), 128 + SIGTERM);
}

// Reads the line "SigIgn:\t…" of this process, for comparison. The parent of the tests may ignore signals 32 and 33.
// glibc reserves them, so no program can reset them.
static const char *read_ignored_signals(char line[64])
{
	char text[4096];

	CHECK(vg_file_read("/proc/self/status", text, sizeof text) > 0);
	snprintf(line, 64, "%.*s", (int)strcspn(strstr(text, "SigIgn:"), "\n"), strstr(text, "SigIgn:"));
	return line;
}

TEST(program_inherits_signal_state)
{
	char line[64];

	start_with_vgpu();
	CHECK_INT(RUN("grep", "-E", "SigBlk|SigIgn", "/proc/self/status"), 0);
	CHECK_CONTAINS(result.out, "SigBlk:\t0000000000000000");
	CHECK_CONTAINS(result.out, read_ignored_signals(line));
	signal(SIGCHLD, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	pid_t child = start_program(WORDS("run", "-m", "1G", "grep", "SigIgn", "/proc/self/status"));
	read_ignored_signals(line);
	signal(SIGCHLD, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	CHECK_INT(wait_for_program(child), 0);
	CHECK_CONTAINS(line, "10001"); // both of them
	CHECK_CONTAINS(result.out, line);
}

TEST(program_inherits_no_descriptors)
{
	start_with_vgpu();
	CHECK_INT(RUN("sh", "-c", "ls /proc/self/fd | wc -l"), 0);
	int with = atoi(result.out);
	CHECK_INT(wait_for_program(
			  start_program((const char *const[]){"/bin/sh", "-c", "ls /proc/self/fd | wc -l", NULL})),
		  0);
	CHECK_INT(with, atoi(result.out));
}

TEST(static_program_causes_warning)
{
	start_with_vgpu();
	CHECK_INT(RUN(STATIC_PROGRAM), 0);
	CHECK_CONTAINS(result.err, "warning");
	CHECK_CONTAINS(result.err, "is statically linked");
	CHECK_CONTAINS(result.err, "quota did not hold");
	CHECK_INT(RUN("true"), 0);
	CHECK_STR(result.err, "");
}

static void write_program(const char *name, const void *data, size_t length, char ret_path[128])
{
	snprintf(ret_path, 128, "%s/%s", fixture.directory, name);
	int fd = open(ret_path, O_WRONLY | O_CREAT | O_TRUNC, 0700);
	CHECK_INT(write(fd, data, length), length);
	close(fd);
}

TEST(program_of_other_libc_is_refused)
{
	static const char linker[] = "/lib/ld-musl-x86_64.so.1";
	struct {
		Elf64_Ehdr header;
		Elf64_Phdr segment;
		char linker[sizeof linker];
	} program = {
		.header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			   .e_type = ET_DYN,
			   .e_machine = EM_X86_64,
			   .e_version = EV_CURRENT,
			   .e_phoff = sizeof program.header,
			   .e_ehsize = sizeof program.header,
			   .e_phentsize = sizeof program.segment,
			   .e_phnum = 1},
		.segment = {.p_type = PT_INTERP,
			    .p_offset = offsetof(typeof(program), linker),
			    .p_filesz = sizeof linker},
	};
	char path[128], script[128], text[160], requests[64];

	start_with_vgpu();
	strcpy(program.linker, linker);
	write_program("musl", &program, sizeof program, path);
	CHECK_INT(RUN(path), 126);
	CHECK_CONTAINS(result.err, "its dynamic linker, /lib/ld-musl-x86_64.so.1, does not load Virgate's library");
	CHECK(strchr(result.err, '\n') == strrchr(result.err, '\n')); // one line
	snprintf(text, sizeof text, "#!%s\n", path);
	write_program("script", text, strlen(text), script);
	CHECK_INT(RUN(script), 126);
	CHECK_CONTAINS(result.err, "does not load Virgate's library");
	read_file("requests", requests, sizeof requests); // no request was sent, so no vGPU was created
	CHECK_STR(requests, "");
	// The launcher does not refuse an unknown dynamic linker, because that may be able to load the interposer.
	strcpy(program.linker, "/nowhere/ld-other.so");
	write_program("other", &program, sizeof program, path);
	CHECK_INT(RUN(path), 126);
	CHECK_CONTAINS(result.err, "its interpreter is missing");
}

#ifdef ASAN_PROGRAM
TEST(asan_works_with_interposer)
{
	start_with_vgpu();
	setenv("ASAN_OPTIONS", "detect_leaks=0:exitcode=44", 1);
	CHECK_INT(RUN(ASAN_PROGRAM), 0);
	CHECK_STR(result.out, "detect_leaks=0:exitcode=44:verify_asan_link_order=0\n");
	CHECK_INT(RUN(ASAN_PROGRAM, "overflow"), 44); // the sanitizer works, and keeps the options of the user
	CHECK_CONTAINS(result.err, "heap-buffer-overflow");
	unsetenv("ASAN_OPTIONS");
	CHECK_INT(RUN(ASAN_PROGRAM), 0);
	CHECK_STR(result.out, "verify_asan_link_order=0\n");
	// the launcher does not replace a value that the user has set
	setenv("ASAN_OPTIONS", "verify_asan_link_order=1", 1);
	CHECK(RUN(ASAN_PROGRAM) != 0);
	CHECK_CONTAINS(result.err, "ASan runtime does not come first");
	setenv("ASAN_OPTIONS", "exitcode=44", 1); // programs without the sanitizer get no option
	CHECK_INT(RUN("sh", "-c", "echo $ASAN_OPTIONS"), 0);
	CHECK_STR(result.out, "exitcode=44\n");
	unsetenv("ASAN_OPTIONS");
}
#endif

TEST(driver_without_interposer_causes_warning)
{
	char script[512];

	start_with_vgpu();
	snprintf(script, sizeof script, "env -u LD_PRELOAD LD_LIBRARY_PATH=%s %s; :", DRIVER_DIR, DRIVER_USER);
	CHECK_INT(RUN("sh", "-c", script), 0);
	CHECK_CONTAINS(result.err, "used the GPU without Virgate's library");
	CHECK_CONTAINS(result.err, "driver_user");
}
