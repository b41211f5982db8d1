// Tests completion: the candidates that the program prints, and completion in real shells.
#include "fixture.h"
#include "terminal.h"
#include "verb.h"

static const char vgpus[] =
	"{\"ok\":true,\"vgpus\":[{\"name\":\"train\",\"uuid\":\"GPU-1\",\"device\":0,\"memory\":8589934592,"
	"\"charged\":0,\"overhead\":0,\"physical\":null,\"share\":0,\"share_limit\":false,\"class\":\"batch\","
	"\"owner\":\"ann\","
	"\"group\":null,\"ephemeral\":false,\"created\":1,\"refusals\":0,\"tenants\":[],\"shared\":0}]}";
static const char devices[] =
	"{\"ok\":true,\"devices\":[{\"index\":0,\"uuid\":\"GPU-1\",\"name\":\"NVIDIA Something: new\",\"memory\":1,"
	"\"memory_used\":null,\"compute_capability\":\"9.0\",\"driver\":\"580.1\",\"simulated\":false,\"reserved\":0,"
	"\"vgpus\":0}]}";

// ---- the program ----------------------------------------------------------------------------------------

// Runs `virgate complete` with these words, of which the last is incomplete. The value is its output.
#define OFFERS(...) (VIRGATE_RUN("complete", "--", __VA_ARGS__) == 0 ? result.out : "it failed")

// Returns whether `text` has the line `candidate`, with or without a description.
static bool has_line(const char *text, const char *candidate)
{
	size_t length = strlen(candidate);

	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
		if (strncmp(line, candidate, length) == 0 && strchr("\t\n", line[length]))
			return true;
	return false;
}

TEST(every_verb_and_option_is_offered)
{
	char text[128];

	fixture_start();
	OFFERS("");
	for (int i = 0; verbs[i]; i++) {
		if (!verb_family(verbs[i]))
			CHECK(has_line(result.out, verbs[i]->name) == !verbs[i]->hidden);
		if (verbs[i]->alias)
			CHECK(has_line(result.out, verbs[i]->alias));
	}
	for (const struct family *family = families; family->name; family++)
		CHECK(has_line(result.out, family->name));
	for (int i = 0; verbs[i]; i++) {
		if (verbs[i]->hidden)
			continue;
		snprintf(text, sizeof text, "%s", verbs[i]->name);
		char *second = strchr(text, ' ');
		if (second)
			*second++ = '\0';
		if (second)
			OFFERS(text, second, "-");
		else
			OFFERS(text, "-");
		for (const struct option *option = verbs[i]->options; option && option->name; option++) {
			snprintf(text, sizeof text, "--%s", option->name);
			if (!has_line(result.out, text))
				FAIL("%s: %s is not among %s", verbs[i]->name, text, result.out);
		}
	}
}

TEST(line_is_parsed_like_the_verb)
{
	fixture_start();
	serve_answer(vgpus);
	CHECK_CONTAINS(OFFERS("cre"), "create\tCreate a vGPU that stays");
	CHECK_STR(OFFERS("inspect", ""), "train\n");
	CHECK_STR(OFFERS("list", ""), "train\n");
	CHECK_STR(OFFERS("inspect", "train", ""), ""); // the verb takes only one name, so a second one is not completed
	CHECK_STR(OFFERS("rm", "other", ""), "train\n");
	CHECK_STR(OFFERS("inspect", "--", "-"), "");
	CHECK_STR(OFFERS("create", "--memory", ""), "");
	CHECK_STR(OFFERS("kill", "train", "--signal", "TER"), "TERM\n");
	CHECK_STR(OFFERS("kill", "train", "-s", "TER"), "TERM\n");
	CHECK_STR(OFFERS("run", "--vgpu", "t"), "train\n");
	CHECK_STR(OFFERS("run", "--vgpu=t"), "--vgpu=train\n");
	CHECK_STR(OFFERS("run", "--vgpu", "=", "t"), "train\n"); // bash passes `--vgpu=t` as three words
	CHECK_STR(OFFERS("run", "--vgpu", "="), "train\n");
	CHECK_STR(OFFERS("completion", ""), "bash\nfish\nzsh\n");
	CHECK_STR(OFFERS("audit", "verify", "/tm"), ":files\n");
	CHECK_STR(OFFERS("help", "sha"), "share\tShare device memory between processes\n");
	CHECK_CONTAINS(OFFERS("help", "share", "sel"), "selftest\t");
	CHECK_CONTAINS(OFFERS("share", "sel"), "selftest\t");
	CHECK_CONTAINS(OFFERS("share", "--he"), "--help\t");
	CHECK_STR(OFFERS("help", "run", ""), "");
	CHECK_STR(OFFERS("zebra", ""), "");
	CHECK_STR(OFFERS("share", "zebra", ""), "");
	serve_answer(devices);
	CHECK_STR(OFFERS("run", "--device", ""), "0\tNVIDIA Something: new\nGPU-1\tNVIDIA Something: new\n");
}

TEST(program_arguments_are_left_to_the_shell)
{
	fixture_start();
	CHECK_STR(OFFERS("run", "-m", "1G", "--", "pyth"), ":commands\n");
	CHECK_STR(OFFERS("run", "-m", "1G", "--", "python", "--"), ":arguments 4\n");
	CHECK_STR(OFFERS("run", "-m", "1G", "python", "-"), ":arguments 3\n");
	CHECK_CONTAINS(OFFERS("run", "-m", "1G", "--na"), "--name\t");
	// bash passes `=` as a word of its own. The number after ":arguments" is the position of the program's name
	// among the words that bash passed.
	CHECK_CONTAINS(OFFERS("run", "--memory", "=", "1G", "--sim", "=", "devices", "=", "2", "--na"), "--name\t");
	CHECK_STR(OFFERS("run", "--memory", "=", "1G", "--", "python", "--x", "=", "y"), ":arguments 5\n");
}

TEST(completion_starts_no_daemon)
{
	fixture_start();
	setenv("VIRGATE_DAEMON", "/bin/false", 1);
	setenv("VIRGATE_NVML", "/nowhere", 1);
	CHECK_STR(OFFERS("inspect", ""), "");
	CHECK_STR(result.err, "");
	unsetenv("VIRGATE_DAEMON");
	unsetenv("VIRGATE_NVML");
}

TEST(each_shell_has_a_script)
{
	fixture_start();
	CHECK_REFUSAL(2, "for which shell? give bash, zsh or fish", "completion");
	CHECK_REFUSAL(2, "there is no completion for \"tcsh\"", "completion", "tcsh");
}

// ---- the shells -----------------------------------------------------------------------------------------

static void require_program(const char *shell)
{
	char command[64];

	snprintf(command, sizeof command, "command -v %s >/dev/null", shell);
	if (system(command) != 0)
		SKIP("%s is not installed", shell);
}

// Puts the directory of the program `virgate` at the start of PATH.
static void set_path(void)
{
	char path[2048];

	snprintf(path, sizeof path, "%.*s:%s", (int)(strrchr(VIRGATE, '/') - VIRGATE), VIRGATE, getenv("PATH"));
	setenv("PATH", path, 1);
}

// The next functions complete a line as a key press does, and store the candidates in `seen`.
static void complete_in_bash(const char *line)
{
	static const char script[] = "source <(virgate completion bash)\n"
				     "read -ra COMP_WORDS <<<\"${1//=/ = }\"\n" // splits words as readline does
				     "[[ $1 != *' ' ]] || COMP_WORDS+=('')\n"
				     "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
				     "_virgate\n"
				     "printf '%s\\n' \"${COMPREPLY[@]}\"\n";
	pid_t child = start_program((const char *const[]){"/bin/bash", "-c", script, "bash", line, NULL});

	CHECK_INT(wait_for_program(child), 0);
	snprintf(seen, sizeof seen, "%s", result.out);
}

static void complete_in_fish(const char *line)
{
	static const char script[] = "virgate completion fish | source; complete -C \"$argv[1]\"";
	char path[128];

	snprintf(path, sizeof path, "%s/home", fixture.directory);
	mkdir(path, 0700);
	setenv("HOME", path, 1); // fish writes there
	pid_t child =
		start_program((const char *const[]){"/usr/bin/env", "fish", "--no-config", "-c", script, line, NULL});
	CHECK_INT(wait_for_program(child), 0);
	snprintf(seen, sizeof seen, "%s", result.out);
}

// Starts zsh on a terminal, since zsh completes only there. In its settings, ^T inserts all candidates into the line,
// and ^X writes the line to a file.
static void start_zsh(void)
{
	static const char settings[] =
		"PROMPT='ready> '\n"
		"mkdir ~/functions && virgate completion zsh >~/functions/_virgate\n"
		"fpath=(~/functions $fpath)\n"
		"autoload -Uz compinit && compinit -D -u\n"
		"insert_all() { _main_complete; compstate[insert]=all compstate[list]= }\n"
		"zle -C insert-all complete-word insert_all\n"
		"write_line() { print -r -- \"$BUFFER\" >~/line.new; mv ~/line.new ~/line; BUFFER= }\n"
		"zle -N write-line write_line\n"
		"bindkey '^T' insert-all '^X' write-line\n";
	char path[128];

	setenv("HOME", fixture.directory, 1);
	setenv("ZDOTDIR", fixture.directory, 1);
	snprintf(path, sizeof path, "%s/.zshrc", fixture.directory);
	FILE *file = fopen(path, "w");
	CHECK(file && fputs(settings, file) >= 0 && fclose(file) == 0);
	start_on_terminal(24, 200, (const char *const[]){"zsh", "-d", "-i", NULL});
	wait_for_text("ready> ");
}

static void complete_in_zsh(const char *line)
{
	char path[128], keys[256];

	snprintf(keys, sizeof keys, "%s\024\030", line);
	CHECK_INT(write(terminal, keys, strlen(keys)), strlen(keys));
	snprintf(path, sizeof path, "%s/line", fixture.directory);
	for (int waited = 0; access(path, F_OK) != 0; waited += 5) {
		struct pollfd readable = {.fd = terminal, .events = POLLIN};
		if (waited > PATIENCE_MS)
			FAIL("zsh does not answer: %s", seen);
		if (poll(&readable, 1, 5) == 1) // unread output would block zsh
			CHECK(read(terminal, seen, sizeof seen - 1) > 0);
	}
	read_file("line", seen, sizeof seen);
	unlink(path);
}

static bool offers(const char *candidate)
{
	// Shells put different characters after a candidate.
	size_t length = strlen(candidate);

	for (const char *at = strstr(seen, candidate); at; at = strstr(at + 1, candidate))
		if ((at == seen || strchr(" \n", at[-1])) && strchr(" \t\n", at[length]))
			return true;
	return false;
}

#define CHECK_OFFERED(shell, line, candidate)                                                                     \
	do {                                                                                                      \
		(shell)(line);                                                                                    \
		if (!offers(candidate))                                                                           \
			FAIL("%s:%d: for \"%s\" no \"%s\" in \"%s\"", __FILE__, __LINE__, line, candidate, seen); \
	} while (0)

// Checks completion in a shell. Some shells complete `--vgpu=tr` as `train`, and others as `--vgpu=train`; `value` is
// the text before the name.
static void check_shell(void (*shell)(const char *line), const char *value)
{
	char text[64];

	CHECK_OFFERED(shell, "virgate insp", "inspect");
	CHECK_OFFERED(shell, "virgate lis", "list");
	CHECK_OFFERED(shell, "virgate s", "set");
	CHECK(offers("share") && offers("shutdown") && !offers("inspect"));
	CHECK_OFFERED(shell, "virgate share sel", "selftest");
	CHECK_OFFERED(shell, "virgate help share sel", "selftest");
	CHECK_OFFERED(shell, "virgate run --na", "--name");
	CHECK_OFFERED(shell, "virgate run -m 1G --na", "--name");
	CHECK_OFFERED(shell, "virgate completion z", "zsh");
	CHECK_OFFERED(shell, "virgate kill x --signal TER", "TERM");
	CHECK_OFFERED(shell, "virgate audit verify /etc/passw", "/etc/passwd");
	CHECK_OFFERED(shell, "virgate run --memory=1G -- cat /etc/passw", "/etc/passwd");
	CHECK_OFFERED(shell, "virgate run --memory 1G -- /bin/mkd", "/bin/mkdir");
	CHECK_OFFERED(shell, "virgate run -m 1G -- mkdi", "mkdir");
	serve_answer(vgpus);
	CHECK_OFFERED(shell, "virgate inspect ", "train");
	snprintf(text, sizeof text, "%strain", value);
	CHECK_OFFERED(shell, "virgate run --vgpu=tr", text);
	serve_answer(devices);
	CHECK_OFFERED(shell, "virgate run --device ", "GPU-1");
	CHECK(offers("0"));
	shell("virgate zebra x");
	CHECK(!offers("train"));
}

TEST(bash_completes)
{
	require_program("bash");
	fixture_start();
	set_path();
	check_shell(complete_in_bash, "");
	complete_in_bash("virgate run -m 1G -- python --");
	CHECK_STR(seen, "\n"); // bash offers no options of virgate for another program's line
}

TEST(fish_completes)
{
	require_program("fish");
	fixture_start();
	set_path();
	check_shell(complete_in_fish, "--vgpu=");
	complete_in_fish("virgate s");
	CHECK_CONTAINS(seen, "set\tChange a vGPU's limit"); // fish shows descriptions
	complete_in_fish("virgate run --device ");
	CHECK_CONTAINS(seen, "0\tNVIDIA Something: new\n");
}

TEST(zsh_completes)
{
	require_program("zsh");
	fixture_start();
	set_path();
	start_zsh();
	check_shell(complete_in_zsh, "--vgpu=");
}
