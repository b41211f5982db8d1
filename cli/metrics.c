// metrics: prints the figures of the machine's GPUs and vGPUs once, in the text format of Prometheus.
#include <stdio.h>
#include <stdlib.h>

#include "exporter/metrics.h"
#include "options.h"
#include "say.h"
#include "session.h"

static int print_metrics(struct vg_node *node, const struct arguments *arguments)
{
	const struct metrics_options options = {.is_public = option_value(arguments, "public") != NULL,
						.lists_ephemeral = option_value(arguments, "ephemeral") != NULL};
	char *text;

	if (metrics_collect(node, &options, &text))
		return fail_with_last_error(arguments);
	fputs(text, stdout);
	free(text);
	return EXIT_OK;
}

static int run_metrics(const struct arguments *arguments)
{
	return run_in_session(arguments, print_metrics);
}

static const struct option options[] = {
	{"ephemeral", 0, NULL, "print a row for each ephemeral vGPU, not one for each GPU and owner", 0},
	{"public", 0, NULL, "print only what other users may see", 0},
	OPTION_SIM,
	{0}};

const struct verb verb_metrics = {
	.name = "metrics",
	.synopsis = "[--ephemeral] [--public] [--sim]",
	.summary = "Print the node's figures in the text format of Prometheus",
	.details = "virgate-exporter(8) serves the same text over HTTP.",
	.options = options,
	.run = run_metrics,
};
