// create: creates a vGPU that exists until it is removed.
#include "base/size.h"
#include "eviction.h"
#include "list.h"
#include "session.h"
#include "options.h"
#include "profiles.h"
#include "say.h"
#include "terms.h"

#include <stdio.h>

static int create_vgpu(struct session *session, const struct arguments *arguments,
		       const struct vg_vgpu_options *options, const struct vg_profile *profile)
{
	char size[VG_SIZE_TEXT], text[TERMS_TEXT], terms[TERMS_TEXT + 8] = "";
	struct vg_vgpu_list *list = NULL;

	if (vg_vgpu_create(session->node, options))
		return fail_with_profile(arguments, session->node, profile);
	bool is_chosen = !options->memory || options->device_mode_count; // the daemon chose the memory or the mode
	if (is_chosen && vg_vgpu_inspect(session->node, options->name, &list))
		return fail_with_last_error(arguments);
	uint64_t memory = list ? list->vgpus[0].memory : options->memory;
	enum vg_sharing_mode mode = list ? list->vgpus[0].mode : options->mode;
	if (options->share || options->scheduling_class)
		snprintf(terms, sizeof terms, ", share %s",
			 terms_text(options->share, options->share_limit, options->scheduling_class, text));
	print_line("%s: %s%s%s", options->name, vg_size_format(memory, size), terms,
		   options->evictable ? ", evictable" : "");
	if (mode == VG_MODE_MPS)
		print_line("mode mps: %s", MPS_COST);
	vg_vgpu_list_free(list);
	return EXIT_OK;
}

static int read_options(const struct arguments *arguments, struct vg_vgpu_options *options)
{
	int r = read_memory(arguments, &options->memory);

	if (r == 0)
		r = read_terms(arguments, NULL, options);
	if (r == 0)
		r = read_eviction(arguments, NULL, options);
	if (r == 0 && !options->memory && !options->share && !option_value(arguments, "profile"))
		r = say_usage(arguments->verb,
			      "how much memory? give --memory SIZE, such as --memory 8G, --share PERCENT for a part of "
			      "the GPU, or --profile NAME");
	options->device = option_value(arguments, "device");
	options->group = option_value(arguments, "group");
	return r;
}

static int run_create(const struct arguments *arguments)
{
	struct vg_vgpu_options options = {.size = sizeof options, .name = arguments->words[0]};
	const struct vg_profile *profile = NULL;
	struct session session;

	int r = read_options(arguments, &options);
	if (r)
		return r;
	r = session_open(&session, arguments);
	if (r)
		return r;
	r = read_profile(arguments, &session, &options, &profile);
	if (r == 0 && !(profile && profile->mode_given))
		r = use_configured_modes(arguments, &session, &options);
	if (r == 0)
		r = create_vgpu(&session, arguments, &options, profile);
	session_close(&session);
	return r;
}

static const struct option options[] = {
	OPTIONS_NEW_VGPU,
	{"group", 'g', "GROUP", "a group whose members may run programs in it", 0},
	OPTION_SIM,
	{0},
};

const struct verb verb_create = {
	.name = "create",
	.synopsis = "NAME [--profile NAME | [--memory SIZE] [--share PERCENT [--limit]] [--class CLASS] [--mode MODE] "
		    "[--evictable [--swap SIZE] [--fixed SIZE] [--idle-suspend SECONDS]]] [--device GPU] "
		    "[--group GROUP] [--sim]",
	.summary = "Create a vGPU that stays until it is removed",
	.details = "Give --profile, --memory, --share or the latter two. Without --memory the vGPU gets the same part "
		   "of the GPU's\n"
		   "memory as of its time.",
	.options = options,
	.least = 1,
	.most = 1,
	.run = run_create,
};
