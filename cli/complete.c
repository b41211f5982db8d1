// complete vgpu|device|publication|signal|verbs: words for the completion script and the tests. Never starts a
// daemon: a key press in a shell must not.
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "session.h"
#include "virgate/broker.h"
#include "options.h"

static void print_vgpus(struct vg_node *node)
{
	struct vg_vgpu_list *list;

	if (vg_vgpu_list(node, &list))
		return;
	for (size_t i = 0; i < list->count; i++)
		puts(list->vgpus[i].name);
	vg_vgpu_list_free(list);
}

static void print_devices(struct vg_node *node)
{
	struct vg_device_list *list;

	if (vg_device_list(node, &list))
		return;
	for (size_t i = 0; i < list->count; i++)
		printf("%d\n%s\n", list->devices[i].index, list->devices[i].uuid);
	vg_device_list_free(list);
}

static void print_publications(struct vg_node *node)
{
	struct vg_publication_list *list;

	if (vg_publication_list(node, &list))
		return;
	for (size_t i = 0; i < list->count; i++)
		if (i == 0 || strcmp(list->publications[i].name, list->publications[i - 1].name) != 0)
			puts(list->publications[i].name);
	vg_publication_list_free(list);
}

static int run(const struct arguments *arguments)
{
	const char *what = arguments->words[0];
	struct session session;

	if (strcmp(what, "verbs") == 0) {
		for (int i = 0; verbs[i]; i++) {
			if (!verbs[i]->hidden)
				puts(verbs[i]->name);
			if (verbs[i]->alias)
				puts(verbs[i]->alias);
		}
		return EXIT_OK;
	}
	if (strcmp(what, "signal") == 0) {
		for (int i = 1; i < NSIG; i++)
			if (sigabbrev_np(i))
				puts(sigabbrev_np(i));
		return EXIT_OK;
	}
	if (session_open_quietly(&session, arguments))
		return EXIT_FAILED;
	if (strcmp(what, "vgpu") == 0)
		print_vgpus(session.node);
	else if (strcmp(what, "device") == 0)
		print_devices(session.node);
	else if (strcmp(what, "publication") == 0)
		print_publications(session.node);
	session_close(&session);
	return EXIT_OK;
}

static const struct option options[] = {OPTION_SIM, {0}};

const struct verb verb_complete = {
	.name = "complete",
	.synopsis = "vgpu|device|publication|signal|verbs [--sim]",
	.summary = "Print words for the completion script",
	.options = options,
	.least = 1,
	.most = 1,
	.hidden = true,
	.run = run,
};
