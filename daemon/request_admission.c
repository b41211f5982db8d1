// Checks whether a limit fits on a GPU, and refuses it with the figures.
#include "daemon/admission.h"
#include "daemon/overhead.h"
#include "daemon/request_parts.h"

#include <stdio.h>
#include <string.h>

const char *write_figure(uint64_t bytes, uint64_t beside, char text[FIGURE])
{
	char other[VG_SIZE_TEXT];
	size_t length = strlen(vg_size_format(bytes, text));

	if (bytes != beside && strcmp(text, vg_size_format(beside, other)) == 0)
		snprintf(text + length, FIGURE - length, " (%llu bytes)", (unsigned long long)bytes);
	return text;
}

static json_t *refuse_second_arbiter(size_t device, const struct admission *figures)
{
	return refuse(
		"limit",
		"GPU %zu: another daemon, of user %u, holds compute shares there, and two daemons cannot: ask for "
		"memory without a share and class, wait until its programs have ended, or have root start the "
		"system's daemon for all users (virgated --system)",
		device, (unsigned int)figures->user);
}

static json_t *refuse_size(const struct request *request, size_t device, uint64_t asked,
			   const struct admission *figures)
{
	char text[4][FIGURE];
	uint64_t reserved = figures->own + figures->others < figures->own ? UINT64_MAX : figures->own + figures->others;
	uint64_t left = reserved < figures->total ? figures->total - reserved : 0;

	if (asked > figures->total)
		return refuse("limit", "asked for %s, larger than GPU %zu (%s)%s%s%s",
			      write_figure(asked, figures->total, text[0]), device,
			      write_figure(figures->total, asked, text[1]), reserved ? ", of which " : "",
			      !reserved ? ""
			      : left	? vg_size_format(left, text[2])
					: "nothing",
			      reserved ? " is left" : "");
	if (!left)
		return refuse("limit",
			      "GPU %zu: asked for %s, but nothing is left: other vGPUs reserve all of its %s; shrink "
			      "or remove one of them%s",
			      device, vg_size_format(asked, text[0]), vg_size_format(figures->total, text[1]),
			      vg_system_device_count(request->node->system) > 1 ? ", or choose another GPU" : "");
	return refuse(
		"limit",
		"GPU %zu: asked for %s, but %s is left: other vGPUs reserve %s of its %s; ask for less, or shrink "
		"or remove one of them",
		device, write_figure(asked, left, text[0]), write_figure(left, asked, text[1]),
		vg_size_format(reserved, text[2]), vg_size_format(figures->total, text[3]));
}

static json_t *refuse_evictable(size_t device, const struct admission_wish *wish, const struct admission *figures)
{
	char text[5][FIGURE];
	uint64_t reserved = figures->own + figures->others < figures->own ? UINT64_MAX : figures->own + figures->others;
	uint64_t left = reserved < figures->total ? figures->total - reserved : 0;

	return refuse(
		"limit",
		"GPU %zu: an evictable vGPU of %s, of which %s stay on the GPU (--fixed), needs %s besides what others "
		"have, but %s of %s is left: ask for less, or shrink or remove another vGPU",
		device, vg_size_format(wish->memory, text[0]), vg_size_format(wish->fixed, text[1]),
		write_figure(figures->needed, left, text[2]), write_figure(left, figures->needed, text[3]),
		vg_size_format(figures->total, text[4]));
}

static json_t *admit_wish(const struct request *request, size_t device, const struct admission_wish *wish)
{
	struct admission figures;
	int r = admission_check(request->node, device, wish, &figures);

	if (r < 0)
		return refuse("system",
			      "GPU %zu: the claims of users' daemons in %.200s cannot be read or written (%s): "
			      "repair or remove the directory, or run the system's daemon",
			      device, request->node->claims_dir, strerror(-r));
	if (r && figures.others_have_turns)
		return refuse_second_arbiter(device, &figures);
	if (r && wish->fixed < wish->memory)
		return refuse_evictable(device, wish, &figures);
	return r ? refuse_size(request, device, wish->memory, &figures) : NULL;
}

json_t *admit_new(const struct request *request, const struct vgpu *wanted)
{
	return admit_wish(request, wanted->device,
			  &(struct admission_wish){.memory = wanted->memory,
						   .fixed = wanted->evictable ? wanted->fixed : wanted->memory,
						   .terms = &wanted->terms});
}

json_t *admit_again(const struct request *request, const struct vgpu *vgpu, uint64_t memory,
		    const struct turn_terms *terms)
{
	return admit_wish(request, vgpu->device,
			  &(struct admission_wish){.memory = memory,
						   .fixed = vgpu->evictable ? vgpu->fixed : memory,
						   .terms = terms,
						   .instead_of = vgpu});
}

json_t *refuse_too_small(const struct request *request, size_t device, uid_t owner, uint64_t memory)
{
	char text[2][VG_SIZE_TEXT];
	bool measured;
	uint64_t least = overhead_estimate(request->node, device, owner, &measured);

	if (memory >= least)
		return NULL;
	return refuse("invalid",
		      "GPU %zu: asked for %s, but a CUDA context alone takes %s there: ask for more than that", device,
		      vg_size_format(memory, text[0]), vg_size_format(least, text[1]));
}
