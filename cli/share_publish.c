// share publish: publishes device memory under a name while this program runs.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/size.h"
#include "base/status.h"
#include "options.h"
#include "progress.h"
#include "say.h"
#include "share.h"
#include "share_wait.h"
#include "virgate/seal.h"

enum { CHUNK = 8 << 20 };

struct wanted {
	uint64_t bytes;
	int file; // file with the contents of the memory; -1: the memory is zeroed
	const char *path;
	struct vg_publish_options options;
	int writable;
	bool sealed;
	struct key key; // key for the seal; if neither member is set: no seal
};

static int refuse_value(const struct arguments *arguments, const char *option, const char *text, const char *wrong)
{
	return say_usage(arguments->verb, "--%s: \"%s\" %s", option, text, wrong);
}

static int read_mode(const struct arguments *arguments, unsigned *ret_mode)
{
	const char *text = option_value(arguments, "mode");
	char *end;

	*ret_mode = 0;
	if (!text)
		return 0;
	unsigned long mode = strtoul(text, &end, 8);
	if (!*text || *end || strspn(text, "01234567") != strlen(text) || mode == 0 || (mode & ~0666ul))
		return refuse_value(
			arguments, "mode", text,
			"is not a mode: 4 to read and 2 to write, for owner, group and others, such as 640");
	*ret_mode = (unsigned)mode;
	return 0;
}

// Opens the file with the contents. Without --size, the memory gets the size of the file.
static int read_file(const struct arguments *arguments, struct wanted *wanted)
{
	struct stat status;

	wanted->path = option_value(arguments, "from");
	wanted->file = wanted->path ? vg_open_regular(wanted->path, O_RDONLY) : -1;
	if (wanted->path && wanted->file == -EINVAL) {
		say_error("%s is not a regular file", wanted->path);
		return EXIT_FAILED;
	}
	if (wanted->path && (wanted->file < 0 || fstat(wanted->file, &status) < 0)) {
		say_error("%s: %s", wanted->path, strerror(wanted->file < 0 ? -wanted->file : errno));
		return EXIT_FAILED;
	}
	if (wanted->path && !wanted->bytes)
		wanted->bytes = (uint64_t)status.st_size;
	if (wanted->path && (uint64_t)status.st_size > wanted->bytes) {
		char size[VG_SIZE_TEXT], room[VG_SIZE_TEXT];
		say_error("%s has %s, which is more than --size %s", wanted->path,
			  vg_size_format((uint64_t)status.st_size, size), vg_size_format(wanted->bytes, room));
		return EXIT_FAILED;
	}
	return 0;
}

static int read_seal(const struct arguments *arguments, struct wanted *wanted)
{
	const char *name = arguments->words[0];

	wanted->sealed = option_value(arguments, "seal") || option_value(arguments, "key") ||
			 option_value(arguments, "key-ring");
	if (!wanted->sealed)
		return 0;
	if (wanted->writable)
		say_usage(arguments->verb, "--writable and a seal exclude each other: sealed contents must not change");
	else if (strchr(name, '.'))
		say_usage(arguments->verb, "\"%s\" has a dot: the name of a seal has only A-Z a-z 0-9 - _", name);
	else
		return 0;
	return verb_usage_code(arguments->verb);
}

static int read_wanted(const struct arguments *arguments, struct wanted *wanted)
{
	const char *size = option_value(arguments, "size");
	const char *wrong = size ? config_check(KIND_SIZE, size) : NULL;

	*wanted = (struct wanted){.options.size = sizeof wanted->options, .file = -1};
	if (wrong)
		return refuse_value(arguments, "size", size, wrong);
	if (size)
		vg_size_parse(size, &wanted->bytes);
	wanted->writable = option_value(arguments, "writable") != NULL;
	int r = read_seal(arguments, wanted);
	if (r == 0)
		r = read_mode(arguments, &wanted->options.mode);
	if (r == 0)
		r = read_file(arguments, wanted);
	if (r)
		return r;
	if (!wanted->bytes)
		return say_usage(arguments->verb,
				 "how much memory? give --size SIZE, or --from FILE that is not empty");
	wanted->options.group = option_value(arguments, "group");
	return 0;
}

// Copies the file into the memory. Returns 0, or EXIT_FAILED after a message.
static int copy_file(struct vg_vram_handle handle, const struct wanted *wanted)
{
	char *chunk = wanted->file < 0 ? NULL : malloc(CHUNK);
	uint64_t done = 0;
	ssize_t got = 0;

	if (wanted->file >= 0 && !chunk) {
		say_error("out of memory while reading %s", wanted->path);
		return EXIT_FAILED;
	}
	while (chunk && done < wanted->bytes) {
		size_t most = wanted->bytes - done < CHUNK ? (size_t)(wanted->bytes - done) : CHUNK;
		got = read(wanted->file, chunk, most);
		if (got <= 0)
			break;
		if (vg_vram_write_at(handle, done, chunk, (size_t)got)) {
			progress_hide();
			free(chunk);
			say_last_error();
			return EXIT_FAILED;
		}
		done += (uint64_t)got;
		progress_show("copy", done, wanted->bytes);
	}
	progress_hide();
	free(chunk);
	if (got >= 0)
		return 0;
	say_error("%s: %s", wanted->path, strerror(errno));
	return EXIT_FAILED;
}

static enum vg_status allocate_memory(const struct arguments *arguments, const struct wanted *wanted,
				      struct vg_vram_handle *ret_handle)
{
	const struct vg_vram_allocate_options shareable = {.size = sizeof shareable, .shareable = 1};
	struct vg_vram *vram;

	enum vg_status status = share_open_vram(arguments, &wanted->key, &vram);
	return status ? status : vg_vram_allocate(vram, wanted->bytes, &shareable, ret_handle);
}

static enum vg_status seal_memory(struct vg_vram_handle handle, const char *name, char ret_text[VG_SEAL_TEXT_MAX])
{
	const struct vg_seal_options options = {.size = sizeof options, .id = name};
	struct vg_seal record;

	enum vg_status status = vg_vram_seal(handle, &options, &record);
	return status ? status : vg_seal_encode(&record, ret_text, VG_SEAL_TEXT_MAX, NULL);
}

static enum vg_status publish_memory(struct vg_node *node, const char *name, const struct wanted *wanted,
				     struct vg_vram_handle handle, struct vg_publication **ret_publication)
{
	struct vg_share_range_options range = {.size = sizeof range, .writable = wanted->writable};
	struct vg_share_offer *offer;
	char text[VG_SEAL_TEXT_MAX];

	enum vg_status status = vg_share_offer_create(&offer);
	if (status)
		return status;
	if (wanted->sealed) {
		range.seal = text;
		status = seal_memory(handle, name, text);
	}
	if (status == VG_OK)
		status = vg_share_offer_add(offer, handle, &range);
	if (status == VG_OK)
		status = vg_share_publish(node, name, offer, &wanted->options, ret_publication);
	vg_share_offer_destroy(offer);
	return status;
}

static enum vg_status read_state(void *publication, struct vg_publication_view *ret_view)
{
	return vg_publication_look(publication, ret_view);
}

static int keep_published(const char *name, struct vg_publication *publication)
{
	struct vg_publication_view view;

	int r = share_wait_for_change(publication, vg_publication_descriptor(publication), read_state,
				      VG_PUBLICATION_CURRENT, &view);
	if (r < 0) {
		say_last_error();
	} else if (r == 0) {
		print_line("%s is withdrawn", name);
	} else if (view.state == VG_PUBLICATION_SUPERSEDED) {
		print_line("%s was published again, as generation %llu", name, (unsigned long long)view.current);
	} else if (view.state == VG_PUBLICATION_LOST) {
		say_error("the daemon was restarted and does not take %s back: publish it again", name);
		r = -1;
	} else {
		print_line("%s has been revoked", name);
	}
	return r < 0 ? EXIT_FAILED : EXIT_OK;
}

// Publishes the memory and waits for a signal. Does not free the memory: that would zero it while readers use it. The
// driver frees the memory when the last process closes it.
static int publish_and_wait(struct vg_node *node, const struct arguments *arguments, const struct wanted *wanted)
{
	const char *name = arguments->words[0];
	struct vg_publication *publication;
	struct vg_vram_handle handle;
	char size[VG_SIZE_TEXT];

	share_block_signals(); // block the signals before the driver starts threads, which could receive them
	if (allocate_memory(arguments, wanted, &handle))
		return share_fail_with_hint();
	share_unblock_signals();
	progress_begin(arguments);
	int r = copy_file(handle, wanted);
	if (r)
		return r;
	share_block_signals();
	if (publish_memory(node, name, wanted, handle, &publication))
		return fail_with_last_error(arguments);
	print_line("%s is published: generation %llu, %s%s", name,
		   (unsigned long long)vg_publication_generation(publication), vg_size_format(wanted->bytes, size),
		   wanted->sealed ? ", sealed" : "");
	r = keep_published(name, publication);
	vg_publication_destroy(publication);
	return r;
}

static int run_share_publish(const struct arguments *arguments)
{
	struct session session;
	struct wanted wanted;

	setvbuf(stdout, NULL, _IOLBF, 0);
	int r = read_wanted(arguments, &wanted);
	if (r)
		return r;
	r = session_open(&session, arguments);
	if (r == 0) {
		if (wanted.sealed)
			r = read_key(arguments, &session.config, "the key to seal it with", &wanted.key);
		if (r == 0)
			r = share_choose_driver(&session, arguments);
		if (r == 0)
			r = publish_and_wait(session.node, arguments, &wanted);
		session_close(&session);
	}
	if (wanted.file >= 0)
		close(wanted.file);
	return r;
}

static const struct option options[] = {
	{"size", 0, "SIZE", "how much memory, such as 64M; default: the size of the file", 0},
	{"from", 0, "FILE", "the contents; default: zeros", 0},
	{"mode", 0, "MODE", "who may read (4) and write (2), such as 640; default: 600", 0},
	{"group", 0, "GROUP", "the group of the mode's second digit", 0},
	{"writable", 'w', NULL, "readers may map it for writing as well", 0},
	{"seal", 0, NULL, "seal the contents; key: VIRGATE_KEY, or one of the next two", 0},
	{"key", 0, "FILE", "seal with this key file", COMPLETE_FILE},
	{"key-ring", 0, "NAME", "seal with the key of that name in the kernel's keyring", 0},
	OPTION_DEVICE,
	OPTION_SIM,
	{0},
};

const struct verb verb_share_publish = {
	.name = "share publish",
	.synopsis = "NAME [--size SIZE] [--from FILE] [--mode MODE] [--group GROUP]\n"
		    "           [--writable | --seal] [--key FILE | --key-ring NAME] [--device GPU] [--sim]",
	.summary = "Publish device memory under a name while this runs",
	.details = "Ends on ^C, or when it is revoked or published again. Readers that have it open keep the memory.",
	.options = options,
	.least = 1,
	.most = 1,
	.run = run_share_publish,
};
