// Makes the keys of the compile cache, which contain everything that the result of a compilation depends on.
#include "core/compile_cache.h"
#include "core/error.h"
#include "core/linker.h"
#include "driver/toolchain.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// Adds the size of the data to the key, and then the data. Without the sizes, "ab" and "c" would give the same key as
// "a" and "bc".
static void add_bytes(struct core_cache_key *key, const void *data, size_t size)
{
	unsigned char *grown = key->failed ? NULL : realloc(key->data, key->size + sizeof size + size);

	if (!grown) {
		key->failed = true;
		return;
	}
	memcpy(grown + key->size, &size, sizeof size);
	if (size)
		memcpy(grown + key->size + sizeof size, data, size);
	key->data = grown;
	key->size += sizeof size + size;
}

static void add_text(struct core_cache_key *key, const char *text)
{
	add_bytes(key, text, strlen(text));
}

static void add_number(struct core_cache_key *key, uint64_t number)
{
	add_bytes(key, &number, sizeof number);
}

// Adds the name, size and modification time of a tool's file. These identify the tool better than its version, such as
// 13.0.
static void add_file(struct core_cache_key *key, const char *path)
{
	struct stat status;

	add_text(key, path);
	if (stat(path, &status) == 0) {
		add_number(key, (uint64_t)status.st_size);
		add_number(key, (uint64_t)status.st_mtim.tv_sec * 1000000000 + (uint64_t)status.st_mtim.tv_nsec);
	}
}

static enum vg_status add_tool(struct core_cache_key *key, const struct vg_program *program)
{
	struct vg_toolchain tool;
	const struct vg_nvvm *nvvm;
	char path[4096], problem[1000];

	CORE_TRY(vg_toolchain_find(program->backend, &tool));
	add_number(key, program->backend);
	add_number(key, (uint64_t)tool.major * 1000 + (uint64_t)tool.minor);
	add_file(key, tool.path);
	if (!program->use_libdevice)
		return VG_OK;
	if (vg_nvvm_load(&nvvm, problem, sizeof problem) ||
	    vg_libdevice_find(nvvm, path, sizeof path, problem, sizeof problem))
		return vg_fail(VG_NOT_FOUND, 0, "%s", problem);
	add_file(key, path);
	return VG_OK;
}

// Adds the environment variables from which NVRTC takes further options. Fails if such a variable is set and the
// program gives no digest, because the options may make the compiler read files.
static enum vg_status add_environment(struct core_cache_key *key, const struct vg_program *program,
				      const struct vg_compile_options *options)
{
	static const char *const variables[] = {"NVRTC_PREPEND_FLAGS", "NVRTC_APPEND_FLAGS"};

	for (size_t i = 0; program->type == VG_SOURCE_CXX && i < sizeof variables / sizeof *variables; i++) {
		const char *flags = getenv(variables[i]);
		if (flags && *flags && !options->digest_size)
			return vg_fail(VG_INVALID, 0,
				       "%s adds options to the compiler's, which may have it read files: give a digest "
				       "of them, or no cache",
				       variables[i]);
		add_text(key, flags ? flags : "");
	}
	return VG_OK;
}

static void add_arguments(struct core_cache_key *key, const struct core_arguments *arguments)
{
	add_number(key, arguments->count);
	for (size_t i = 0; i < arguments->count; i++)
		add_text(key, arguments->texts[i]);
	key->failed |= arguments->failed;
}

static void add_linker(struct core_cache_key *key, const struct vg_linker *linker, enum vg_code_type target)
{
	struct core_arguments arguments = {0};

	core_linker_arguments(linker, target, &arguments);
	add_arguments(key, &arguments);
	core_arguments_finish(&arguments);
	add_bytes(key, linker->jit, linker->jit_count * sizeof *linker->jit);
}

// Returns whether a source may include another file. An #include inside a comment counts too.
static bool reads_other_files(const char *source)
{
	static const char *const words[] = {"include", "embed", "import"};

	for (const char *p = source; (p = strpbrk(p, "#%_")); p++) {
		const char *word = p + 1 + (*p == '%' && p[1] == ':'); // "%:" is another way to write '#'
		if (strncmp(p, "__has_include", 13) == 0 || strncmp(p, "_Pragma", 7) == 0)
			return true;
		if (*p == '_' || (*p == '%' && p[1] != ':'))
			continue;
		while (isspace((unsigned char)*word) || (*word == '\\' && word[1] == '\n'))
			word++;
		if (*word == '/') // a comment stands between the # and the word
			return true;
		if (word[strspn(word, "abcdefghijklmnopqrstuvwxyz")] == '\\') // the word continues on the next line
			return true;
		for (size_t i = 0; i < sizeof words / sizeof *words; i++)
			if (strncmp(word, words[i], strlen(words[i])) == 0)
				return true;
	}
	return false;
}

// Returns whether `text` begins with the word. A backslash at the end of a line may split the word.
static bool begins_with(const char *text, const char *word)
{
	while (*word && *text == *word) {
		text++;
		word++;
		while (text[0] == '\\' && text[1] == '\n')
			text += 2;
	}
	return !*word;
}

// Returns whether a text contains a macro for the time of compilation.
static bool contains_time(const char *text)
{
	for (const char *p = text; (p = strchr(p, '_')); p++)
		if (begins_with(p, "__DATE__") || begins_with(p, "__TIME__") || begins_with(p, "__TIMESTAMP__"))
			return true;
	return false;
}

enum vg_status core_cache_key_make(const struct vg_program *program, enum vg_code_type target,
				   const struct core_arguments *arguments, const struct vg_compile_options *options,
				   struct core_cache_key *ret_key)
{
	struct core_cache_key *key = ret_key;

	if (!options->digest_size && program->reads_files)
		return vg_fail(VG_INVALID, 0,
			       "the option %s makes the compiler read or write files, whose contents the cache cannot "
			       "know: give a digest "
			       "of them, or no cache",
			       program->reads_files);
	if (!options->digest_size && program->type == VG_SOURCE_CXX && reads_other_files(program->source))
		return vg_fail(VG_INVALID, 0,
			       "program \"%s\" includes files, whose contents the cache cannot know: give a digest of "
			       "them, or no cache",
			       program->name);
	CORE_TRY(add_environment(key, program, options));
	CORE_TRY(add_tool(key, program));
	key->has_time = program->type == VG_SOURCE_CXX && contains_time(program->source);
	// Also search the options, because an option may define a macro.
	for (size_t i = 0; i < arguments->count && !arguments->failed; i++)
		key->has_time |= contains_time(arguments->texts[i]);
	add_number(key, program->type);
	add_number(key, target);
	add_text(key, program->name);
	add_arguments(key, arguments);
	if (program->linker)
		add_linker(key, program->linker, target);
	add_number(key, options->name_expressions.count);
	for (size_t i = 0; i < options->name_expressions.count; i++)
		add_text(key, options->name_expressions.values[i]);
	add_bytes(key, program->source, program->source_size);
	for (size_t i = 0; i < program->module_count; i++) {
		add_text(key, program->modules[i].name);
		add_bytes(key, program->modules[i].data, program->modules[i].size);
	}
	add_bytes(key, options->digest, options->digest_size);
	return key->failed ? vg_fail(VG_NO_MEMORY, 0, "no memory for a key of %zu bytes", key->size) : VG_OK;
}

void core_cache_key_finish(struct core_cache_key *key)
{
	free(key->data);
	*key = (struct core_cache_key){0};
}
