// share open: what somebody published, mapped, and its contents if wanted.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"
#include "options.h"
#include "say.h"
#include "share.h"
#include "share_hold.h"

enum { CHUNK = 8 << 20 };

struct opened {
	struct vg_share_lease *lease;
	struct vg_vram *vram;
	struct vg_vram_handle *handles; // one a range
	size_t count;
	uint64_t bytes;
};

static enum vg_status import_all(struct opened *opened, const struct arguments *arguments)
{
	const struct vg_share_import_options import = {.size = sizeof import,
						       .writable = option_value(arguments, "writable") != NULL};
	const struct vg_share_offer *offer = vg_share_lease_offer(opened->lease);
	struct vg_vram_options options = {.size = sizeof options};
	struct vg_share_range range;

	enum vg_status status = share_find_device(option_value(arguments, "device"), &options.device);
	if (status == VG_OK)
		status = vg_vram_open(&options, &opened->vram);
	opened->handles = calloc(vg_share_offer_count(offer) + 1, sizeof *opened->handles);
	if (status == VG_OK && !opened->handles)
		status = VG_NO_MEMORY;
	for (size_t i = 0; i < vg_share_offer_count(offer) && status == VG_OK; i++) {
		status = vg_share_offer_range(offer, i, &range);
		if (status == VG_OK)
			status = vg_share_import(opened->vram, offer, i, &import, &opened->handles[i]);
		opened->count += status == VG_OK;
		opened->bytes += range.bytes;
	}
	return status;
}

static void finish(struct opened *opened)
{
	while (opened->count)
		vg_vram_free(opened->handles[--opened->count]);
	free(opened->handles);
	vg_vram_destroy(opened->vram);
	vg_share_lease_close(opened->lease);
}

// 0, or EXIT_FAILED after words.
static int write_all(int file, const char *path, const char *from, size_t bytes)
{
	while (bytes) {
		ssize_t put = write(file, from, bytes);
		if (put < 0) {
			say_error("%s: %s", path, strerror(errno));
			return EXIT_FAILED;
		}
		from += put;
		bytes -= (size_t)put;
	}
	return 0;
}

static int copy_range(struct vg_vram_handle handle, int file, const char *path, char *chunk)
{
	size_t bytes;
	int r = 0;

	if (vg_vram_size(handle, &bytes)) {
		say_last_error();
		return EXIT_FAILED;
	}
	for (size_t at = 0; at < bytes && r == 0; at += CHUNK) {
		size_t part = bytes - at < CHUNK ? bytes - at : CHUNK;
		if (vg_vram_read_at(handle, at, chunk, part)) {
			say_last_error();
			return EXIT_FAILED;
		}
		r = write_all(file, path, chunk, part);
	}
	return r;
}

static int write_file(const struct opened *opened, const char *path)
{
	int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), r = 0;
	char *chunk = malloc(CHUNK);

	if (file < 0 || !chunk) {
		say_error("%s: %s", path, strerror(errno));
		r = EXIT_FAILED;
	}
	for (size_t i = 0; i < opened->count && r == 0; i++)
		r = copy_range(opened->handles[i], file, path, chunk);
	free(chunk);
	if (file >= 0 && close(file) < 0 && r == 0) {
		say_error("%s: %s", path, strerror(errno));
		r = EXIT_FAILED;
	}
	return r;
}

static enum vg_status look(void *lease, struct vg_publication_view *ret_view)
{
	return vg_share_lease_look(lease, ret_view);
}

// That there is a newer one, or no publisher any more, is told and held through; who is asked lets go.
static int hold(const char *name, struct vg_share_lease *lease)
{
	struct vg_publication_view view = {.state = VG_PUBLICATION_CURRENT};
	int r;

	do {
		r = share_hold(lease, vg_share_lease_descriptor(lease), look, view.state, &view);
		if (r < 0)
			say_last_error();
		else if (r == 1 && view.state == VG_PUBLICATION_ASKED_BACK)
			printf("%s is asked back: let go\n", name);
		else if (r == 1 && view.state == VG_PUBLICATION_SUPERSEDED)
			printf("%s has been published anew, as generation %llu\n", name,
			       (unsigned long long)view.current);
		else if (r == 1)
			printf("%s is withdrawn\n", name);
	} while (r == 1 && view.state != VG_PUBLICATION_ASKED_BACK);
	return r < 0 ? EXIT_FAILED : EXIT_OK;
}

static int run_on(struct vg_node *node, const struct arguments *arguments)
{
	const struct vg_share_open_options how = {.size = sizeof how,
						  .writable = option_value(arguments, "writable") != NULL};
	const char *name = arguments->words[0], *to = option_value(arguments, "to");
	struct opened opened = {0};
	char size[VG_SIZE_TEXT];

	if (vg_share_open(node, name, &how, &opened.lease))
		return share_fail_with_hint();
	int r = import_all(&opened, arguments) ? share_fail_with_hint() : 0;
	if (r == 0)
		printf("%s is open: generation %llu, %s in %zu range%s\n", name,
		       (unsigned long long)vg_share_lease_generation(opened.lease), vg_size_format(opened.bytes, size),
		       opened.count, opened.count == 1 ? "" : "s");
	if (r == 0 && to)
		r = write_file(&opened, to);
	if (r == 0 && option_value(arguments, "hold"))
		r = hold(name, opened.lease);
	finish(&opened);
	return r;
}

static int run(const struct arguments *arguments)
{
	struct session session;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (option_value(arguments, "hold"))
		share_hold_begin();
	int r = session_open(&session, arguments);
	if (r)
		return r;
	r = share_choose_driver(&session, arguments);
	if (r == 0)
		r = run_on(session.node, arguments);
	session_close(&session);
	return r;
}

static const struct option options[] = {
	{"to", 0, "FILE", "write the contents there", 0},
	{"hold", 0, NULL, "keep it open until ^C, or until it is asked back", 0},
	{"writable", 'w', NULL, "map it for writing, too", 0},
	OPTION_DEVICE,
	OPTION_SIM,
	{0},
};

const struct verb verb_share_open = {
	.name = "share open",
	.synopsis = "NAME [--to FILE] [--hold] [--writable] [--device GPU] [--sim]",
	.summary = "Open and map what was published under a name",
	.details = "The memory is mapped, not copied; --to reads it out.",
	.options = options,
	.least = 1,
	.most = 1,
	.complete = COMPLETE_PUBLICATION,
	.run = run,
};
