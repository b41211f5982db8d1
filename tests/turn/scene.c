#include "scene.h"

#include <math.h>
#include <stdio.h>

const struct program program_train = {.launches = 20, .host_ns = 8 * US, .kernel_ns = 204400};
const struct program program_small = {.launches = 200, .host_ns = 12 * US, .kernel_ns = 4500, .width = .4};
const struct program program_long = {.launches = 4, .host_ns = 8 * US, .kernel_ns = 6480 * US};
const struct program program_graph = {.launches = 4, .host_ns = 20 * US, .kernel_ns = 10 * MS};
const struct program program_graph_long = {.launches = 4, .host_ns = 20 * US, .kernel_ns = 100 * MS};
const struct program program_loop = {.launches = 300,
				     .host_ns = 7 * US,
				     .kernel_ns = 150 * US,
				     .other_ns = 40 * US,
				     .think_ns = 700 * US,
				     .copy_ns = 80 * US,
				     .jitter = .1};
const struct program program_pausing = {.launches = 300,
					.host_ns = 7 * US,
					.kernel_ns = 150 * US,
					.other_ns = 40 * US,
					.think_ns = 700 * US,
					.pause_every = 100,
					.pause_ns = 4 * MS,
					.jitter = .1};
const struct program program_forty = {.launches = 10, .host_ns = 8 * US, .kernel_ns = 200 * US, .think_ns = 3 * MS};
const struct program program_late_train = {
	.launches = 64, .host_ns = 8 * US, .kernel_ns = 204400, .think_ns = 200 * US};
const struct program program_late_long = {
	.launches = 2, .host_ns = 8 * US, .kernel_ns = 7500 * US, .think_ns = 200 * US};
const struct program program_late_graph = {
	.launches = 4, .host_ns = 20 * US, .kernel_ns = 5200 * US, .think_ns = 200 * US};
const struct program program_infer = {.launches = 32,
				      .host_ns = 21500,
				      .kernel_ns = 4 * US,
				      .other_ns = 2 * US,
				      .think_ns = 5 * MS,
				      .jitter = .12,
				      .width = .2};
const struct program program_closed = {
	.launches = 32, .host_ns = 21500, .kernel_ns = 4 * US, .other_ns = 2 * US, .jitter = .12, .width = .2};

static void fill_options(const struct scene *scene, struct model_options *options)
{
	model_options(scene->mode, options);
	if (scene->wake_ns)
		options->wake_ns = options->late_ns = scene->wake_ns;
	if (scene->window_ns)
		options->rules.urgent_window_ns = scene->window_ns;
	if (scene->estimate > 0)
		options->estimate = scene->estimate;
	if (scene->charges_switch)
		options->rules.switch_ns = 0;
	options->ungated = scene->ungated;
	options->linger_ns = scene->linger_ns;
}

// Runs the program alone on the device; it need not wait for turns.
static double run_alone(const struct scene *scene, const struct program *program, double seconds, double *ret_p99)
{
	struct model_options options;
	struct model *model;
	double rate;

	fill_options(scene, &options);
	options.ungated = true;
	model = model_create(&options);
	model_start_process(model, model_add_vgpu(model, 0, false, false), program);
	model_run(model, SEC / 2);
	model_reset_figures(model);
	model_run(model, (uint64_t)(seconds * 1e9));
	rate = (double)model_process(model, 0)->kernels / seconds;
	*ret_p99 = model_percentile(model, 0, .99);
	model_destroy(model);
	return rate;
}

void scene_run(const struct scene *scene, struct result *ret_result)
{
	double seconds = scene->seconds > 0 ? scene->seconds : 10, solo[SCENE_TENANTS];
	double window[SCENE_TENANTS][64], sums[64];
	int windows = (int)(seconds / 2);
	struct result result = {0};
	struct model_options options;
	struct turn_total before = {0}, after = {0};

	fill_options(scene, &options);
	struct model *model = model_create(&options);
	while (result.count < SCENE_TENANTS && scene->tenants[result.count].program) {
		const struct tenant *tenant = &scene->tenants[result.count];
		solo[result.count] = run_alone(scene, tenant->program, 4, &result.solo_p99[result.count]);
		model_start_process(model, model_add_vgpu(model, tenant->share, tenant->is_latency, tenant->is_limit),
				    tenant->program);
		result.count++;
	}
	if (scene->sleeper)
		model_add_vgpu(model, 0, false, false);
	model_run(model, SEC / 2);
	model_reset_figures(model);
	if (!scene->ungated)
		model_total(model, &before);
	for (int w = 0; w < windows; w++) {
		uint64_t old[SCENE_TENANTS];
		for (unsigned int i = 0; i < result.count; i++)
			old[i] = model_process(model, i)->kernels;
		model_run(model, 2 * SEC);
		sums[w] = 0;
		for (unsigned int i = 0; i < result.count; i++) {
			window[i][w] = (double)(model_process(model, i)->kernels - old[i]) / 2 / solo[i] * 100;
			sums[w] += window[i][w];
		}
	}
	for (unsigned int i = 0; i < result.count; i++) {
		const struct model_process *process = model_process(model, i);
		result.solo[i] = (double)process->kernels / windows / 2 / solo[i] * 100;
		result.device[i] = (double)process->gpu_ns / windows / 2e7;
		result.sum += result.solo[i];
		result.p50[i] = model_percentile(model, i, .5);
		result.p99[i] = model_percentile(model, i, .99);
	}
	for (unsigned int i = 0; i < result.count; i++) {
		result.part[i] = result.solo[i] / result.sum * 100;
		for (int w = 0; w < windows; w++)
			result.window[i] = fmax(result.window[i], fabs(window[i][w] / sums[w] * 100 - result.part[i]));
	}
	if (!scene->ungated)
		model_total(model, &after);
	result.handovers = (double)(after.handovers - before.handovers) / windows / 2;
	result.decisions = (double)model_decisions(model) / windows / 2;
	model_destroy(model);
	*ret_result = result;
}

void scene_print(const struct scene *scene, const struct result *result)
{
	printf("%-46s", scene->name);
	for (unsigned int i = 0; i < result->count; i++) {
		printf(" | %5.1f %% of solo, %5.2f of the sum (2 s: %.2f)", result->solo[i], result->part[i],
		       result->window[i]);
		if (scene->tenants[i].program->think_ns || scene->tenants[i].is_latency)
			printf(", device %.1f %%, p50 %.0f p99 %.0f us (%.2f x)", result->device[i], result->p50[i],
			       result->p99[i], result->p99[i] / result->solo_p99[i]);
	}
	printf(" | sum %.1f %%, %.0f handovers, %.0f decisions a second\n", result->sum, result->handovers,
	       result->decisions);
}
