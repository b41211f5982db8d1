// share open: maps a publication, and copies its contents to a file if asked.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

struct opened {
	bool verified;
	struct key key; // key for verifying seals
	struct vg_share_lease *lease;
	struct vg_vram *vram;
	struct vg_vram_handle *handles; // one handle for each range of the publication
	size_t count;
	uint64_t bytes;
};

// Checks that the seal of a range, if valid, was made for the publication `name`. The seal of another publication would
// mean that the contents were replaced.
static enum vg_status check_name(const char *name, const struct vg_share_range *range)
{
	struct vg_seal seal;

	if (!range->seal || vg_seal_decode(range->seal, strlen(range->seal), &seal) || strcmp(seal.id, name) == 0)
		return VG_OK; // an invalid seal is reported later, by the import
	return vg_fail(VG_INTEGRITY, 0, "the seal of %s is of \"%s\": its contents were replaced", name, seal.id);
}

static enum vg_status import_ranges(struct opened *opened, const struct arguments *arguments)
{
	const struct vg_share_import_options import = {.size = sizeof import,
						       .writable = option_value(arguments, "writable") != NULL,
						       .verify = opened->verified};
	const struct vg_share_offer *offer = vg_share_lease_offer(opened->lease);
	struct vg_share_range range;

	enum vg_status status = share_open_vram(arguments, &opened->key, &opened->vram);
	if (status)
		return status;
	size_t count = vg_share_offer_count(offer);
	opened->handles = calloc(count + 1, sizeof *opened->handles);
	if (!opened->handles)
		return vg_fail(VG_NO_MEMORY, 0, "out of memory for %zu ranges", count);
	for (size_t i = 0; i < count; i++) {
		status = vg_share_offer_range(offer, i, &range);
		if (status == VG_OK && opened->verified)
			status = check_name(arguments->words[0], &range);
		if (status == VG_OK)
			status = vg_share_import(opened->vram, offer, i, &import, &opened->handles[i]);
		if (status)
			return status;
		opened->count++;
		opened->bytes += range.bytes;
	}
	return VG_OK;
}

static void free_opened(struct opened *opened)
{
	while (opened->count)
		vg_vram_free(opened->handles[--opened->count]);
	free(opened->handles);
	vg_vram_destroy(opened->vram);
	vg_share_lease_close(opened->lease);
}

// The copy of a publication into a file.
struct copy {
	int file;
	const char *path;
	char *chunk;	// CHUNK bytes
	uint64_t bytes; // copied so far
	uint64_t total;
};

// Copies one range to the file. Returns 0, or EXIT_FAILED after a message.
static int copy_range(struct vg_vram_handle handle, struct copy *copy)
{
	size_t bytes;

	enum vg_status status = vg_vram_size(handle, &bytes);
	for (size_t at = 0; status == VG_OK && at < bytes; at += CHUNK) {
		size_t part = bytes - at < CHUNK ? bytes - at : CHUNK;
		status = vg_vram_read_at(handle, at, copy->chunk, part);
		int r = status ? 0 : vg_write_all(copy->file, copy->chunk, part, -1);
		if (r) {
			progress_hide();
			say_error("%s: %s", copy->path, strerror(-r));
			return EXIT_FAILED;
		}
		copy->bytes += part;
		progress_show("copy", copy->bytes, copy->total);
	}
	progress_hide();
	if (status)
		say_last_error();
	return status ? EXIT_FAILED : 0;
}

// Opens the file to write. Refuses links, devices and FIFOs, which other users may have put into the directory.
static int open_output(const char *path)
{
	int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (file >= 0)
		return file;
	file = errno == EEXIST ? vg_open_regular(path, O_WRONLY | O_NOFOLLOW) : -errno;
	if (file >= 0 && ftruncate(file, 0) == 0)
		return file;
	int error = file >= 0 ? errno : -file;
	if (file >= 0)
		close(file);
	say_error("%s: %s", path,
		  error == EINVAL  ? "it is not a regular file"
		  : error == ELOOP ? "it is a link: name the file that it leads to"
				   : strerror(error));
	return -error;
}

static int write_file(const struct opened *opened, const char *path)
{
	struct copy copy = {.file = open_output(path), .path = path, .total = opened->bytes};
	int r = 0;

	if (copy.file < 0)
		return EXIT_FAILED;
	copy.chunk = malloc(CHUNK);
	if (!copy.chunk) {
		say_error("out of memory while writing %s", path);
		r = EXIT_FAILED;
	}
	for (size_t i = 0; i < opened->count && r == 0; i++)
		r = copy_range(opened->handles[i], &copy);
	free(copy.chunk);
	if (close(copy.file) < 0 && r == 0) {
		say_error("%s: %s", path, strerror(errno));
		r = EXIT_FAILED;
	}
	return r;
}

static enum vg_status read_state(void *lease, struct vg_publication_view *ret_view)
{
	return vg_share_lease_look(lease, ret_view);
}

// Keeps the lease until a signal arrives, or until the publisher asks its readers to close. Reports a newer generation
// and a withdrawal.
static int keep_open(const char *name, struct vg_share_lease *lease)
{
	struct vg_publication_view view = {.state = VG_PUBLICATION_CURRENT};
	int r;

	do {
		r = share_wait_for_change(lease, vg_share_lease_descriptor(lease), read_state, view.state, &view);
		if (r < 0)
			say_last_error();
		else if (r == 1 && view.state == VG_PUBLICATION_ASKED_BACK)
			print_line("%s is asked back: closing it", name);
		else if (r == 1 && view.state == VG_PUBLICATION_SUPERSEDED)
			print_line("%s was published again, as generation %llu", name,
				   (unsigned long long)view.current);
		else if (r == 1)
			print_line("%s is withdrawn", name);
	} while (r == 1 && view.state != VG_PUBLICATION_ASKED_BACK);
	return r < 0 ? EXIT_FAILED : EXIT_OK;
}

static int read_verify(struct opened *opened, const struct session *session, const struct arguments *arguments)
{
	opened->verified = option_value(arguments, "verify") || option_value(arguments, "key") ||
			   option_value(arguments, "key-ring");
	if (!opened->verified)
		return 0;
	return read_key(arguments, &session->config, "the key that it was sealed with", &opened->key);
}

static int open_publication(const struct session *session, const struct arguments *arguments)
{
	const struct vg_share_open_options how = {.size = sizeof how,
						  .writable = option_value(arguments, "writable") != NULL};
	const char *name = arguments->words[0], *to = option_value(arguments, "to");
	struct opened opened = {0};
	char size[VG_SIZE_TEXT];

	int r = read_verify(&opened, session, arguments);
	if (r)
		return r;
	if (vg_share_open(session->node, name, &how, &opened.lease))
		return share_fail_with_hint();
	r = import_ranges(&opened, arguments) ? share_fail_with_hint() : 0;
	if (r == 0)
		print_line("%s is open: generation %llu, %s in %zu range%s", name,
			   (unsigned long long)vg_share_lease_generation(opened.lease),
			   vg_size_format(opened.bytes, size), opened.count, opened.count == 1 ? "" : "s");
	if (r == 0 && opened.verified)
		print_line("%s: contents verified, %s", name, size);
	progress_begin(arguments);
	if (r == 0 && to)
		r = write_file(&opened, to);
	if (r == 0 && option_value(arguments, "hold"))
		r = keep_open(name, opened.lease);
	free_opened(&opened);
	return r;
}

static int run_share_open(const struct arguments *arguments)
{
	struct session session;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (option_value(arguments, "hold"))
		share_block_signals();
	int r = session_open(&session, arguments);
	if (r)
		return r;
	r = share_choose_driver(&session, arguments);
	if (r == 0)
		r = open_publication(&session, arguments);
	session_close(&session);
	return r;
}

static const struct option options[] = {
	{"to", 0, "FILE", "write the contents to FILE", 0},
	{"hold", 0, NULL, "keep it open until ^C, or until it is asked back", 0},
	{"writable", 'w', NULL, "map it for writing as well", 0},
	{"verify", 0, NULL, "refuse contents that differ from their seal; key: VIRGATE_KEY, or one of the next two", 0},
	{"key", 0, "FILE", "verify with this key file", COMPLETE_FILE},
	{"key-ring", 0, "NAME", "verify with the key of that name in the kernel's keyring", 0},
	OPTION_DEVICE,
	OPTION_SIM,
	{0},
};

const struct verb verb_share_open = {
	.name = "share open",
	.synopsis = "NAME [--to FILE] [--hold] [--writable] [--verify] [--key FILE | --key-ring NAME]\n"
		    "           [--device GPU] [--sim]",
	.summary = "Open and map a publication",
	.details = "The memory is mapped, not copied; --to copies it to a file.",
	.options = options,
	.least = 1,
	.most = 1,
	.complete = COMPLETE_PUBLICATION,
	.run = run_share_open,
};
