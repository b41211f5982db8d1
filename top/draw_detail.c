#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/size.h"
#include "top/draw_parts.h"
#include "top/text.h"
#include "top/waits.h"

enum { LABEL = 8, FACTS = 44, LEAST_CHART = 10 };

struct chart {
	const char *label;
	enum series series;
	enum style style;
	char facts[300];
};

static void describe_memory(const struct vg_vgpu_info *vgpu, char facts[300])
{
	char used[SHORT_TEXT], limit[SHORT_TEXT], overhead[SHORT_TEXT], physical[SHORT_TEXT], host[SHORT_TEXT];

	if (vgpu->damaged) {
		strcpy(facts, "damaged: remove the vGPU");
		return;
	}
	snprintf(facts, 300, "%s of %s, overhead %s, phys %s%s%s%s", short_size(vgpu->charged, used),
		 short_size(vgpu->memory, limit), short_size(vgpu->overhead, overhead),
		 vgpu->physical_known ? short_size(vgpu->physical, physical) : "?", vgpu->in_host ? ", " : "",
		 vgpu->in_host ? short_size(vgpu->in_host, host) : "", vgpu->in_host ? " in host" : "");
}

static void describe_time(const struct vg_vgpu_info *vgpu, char facts[300])
{
	char used[SHORT_TEXT], share[48];

	if (vgpu->share)
		snprintf(share, sizeof share, "share %u %%%s", vgpu->share, vgpu->share_limit ? " at most" : "");
	else
		strcpy(share, "no share");
	if (vgpu->turns.known)
		snprintf(facts, 300, "%.0f %%, %s, %s used, %llu turns", vgpu->turns.recent, share,
			 short_duration(vgpu->turns.gpu_ns, used), (unsigned long long)vgpu->turns.turns);
	else
		snprintf(facts, 300, "%s", share);
}

static void describe_waiting(const struct model *model, const struct vg_vgpu_info *vgpu, char facts[300])
{
	float wait = history_last(model_history(model, vgpu), SERIES_WAIT);
	char waits[WAITS_TEXT];

	waits_text(model, vgpu, true, waits);
	if (waits_for_room(vgpu))
		snprintf(facts, 300, "for room: %s", waits);
	else if (*waits)
		snprintf(facts, 300, "%.0f %% for %s", (double)wait * 100, waits);
	else if (vgpu->turns.known)
		snprintf(facts, 300, "%.0f %%: %s", (double)wait * 100, vgpu->turns.reason);
	else
		strcpy(facts, "-");
}

static void draw_chart(struct canvas *canvas, const struct model *model, const struct vg_vgpu_info *vgpu,
		       const struct chart *chart, int row, int height)
{
	float levels[HISTORY_SAMPLES];
	int facts =
		canvas->columns - LABEL - 2 >= FACTS + LEAST_CHART ? FACTS : canvas->columns - LABEL - LEAST_CHART - 2;
	int width = canvas->columns - LABEL - (facts > 0 ? facts + 2 : 0);

	if (facts > 0 && canvas->columns > 110)
		facts = 56, width = canvas->columns - LABEL - facts - 2;
	width = width < HISTORY_SAMPLES ? width : HISTORY_SAMPLES;
	canvas_text(canvas, row, 0, LABEL, STYLE_DIM, chart->label);
	if (width < 1)
		return;
	double each = 180 / model->interval / width; // the chart shows three minutes if it has enough columns
	history_levels(model_history(model, vgpu), chart->series, width, each > 1 ? (unsigned)each : 1, levels);
	canvas_chart(canvas, row, height, LABEL, width, chart->style, levels);
	if (facts > 0)
		canvas_text(canvas, row, LABEL + width + 2, facts, STYLE_PLAIN, chart->facts);
}

static void draw_detail_title(struct canvas *canvas, const struct vg_vgpu_info *vgpu, int row)
{
	for (int i = 0; i < canvas->columns; i++)
		canvas_text(canvas, row, i, 1, STYLE_DIM, canvas->is_unicode ? "─" : "-");
	int column = 1 + canvas_print(canvas, row, 1, canvas->columns - 1, STYLE_BOLD, " %s ", vgpu->name);
	canvas_print(canvas, row, column, canvas->columns - column, STYLE_DIM, "of %s, GPU %d, %s%s%s%s ", vgpu->owner,
		     vgpu->device, vgpu->scheduling_class == VG_CLASS_LATENCY ? "latency" : "batch",
		     vgpu->mode == VG_MODE_MPS ? ", MPS" : "", vgpu->evictable ? ", evictable" : "",
		     vgpu->ephemeral ? ", ephemeral" : "");
}

static const char *find_command(const struct vg_vgpu_info *vgpu, int64_t pid)
{
	for (size_t i = 0; i < vgpu->tenant_count; i++)
		if (vgpu->tenants[i].pid == pid)
			return vgpu->tenants[i].command;
	return "";
}

static void draw_last_refusal(struct canvas *canvas, const struct model *model, const struct vg_vgpu_info *vgpu,
			      int row)
{
	const struct vg_refusal_list *list = strcmp(model->refusals_of, vgpu->name) == 0 ? model->refusals : NULL;
	char asked[VG_SIZE_TEXT], charged[VG_SIZE_TEXT], limit[VG_SIZE_TEXT], clock[16] = "";

	canvas_text(canvas, row, 0, LABEL, STYLE_DIM, "refused");
	if (!list || !list->count) {
		canvas_print(canvas, row, LABEL, canvas->columns - LABEL, vgpu->refusals ? STYLE_HIGH : STYLE_DIM,
			     vgpu->refusals ? "%llu" : "nothing", (unsigned long long)vgpu->refusals);
		return;
	}
	const struct vg_refusal_info *last = &list->refusals[list->count - 1];
	const char *command = find_command(vgpu, last->pid);
	time_t second = (time_t)last->time;
	struct tm parts;
	if (localtime_r(&second, &parts))
		strftime(clock, sizeof clock, "%H:%M:%S", &parts);
	canvas_print(canvas, row, LABEL, canvas->columns - LABEL, STYLE_HIGH,
		     "%llu, last %s: %lld%s%s asked %s, %s of %s used (%s)", (unsigned long long)vgpu->refusals, clock,
		     (long long)last->pid, *command ? " " : "", command, vg_size_format(last->asked, asked),
		     vg_size_format(last->charged, charged), vg_size_format(last->limit, limit), last->entry);
}

void draw_detail(struct canvas *canvas, const struct model *model, int row, int height)
{
	const struct row *selected = model_selected(model);
	struct chart charts[] = {{"memory", SERIES_MEMORY, STYLE_OTHER, ""},
				 {"GPU", SERIES_TIME, STYLE_USED, ""},
				 {"waiting", SERIES_WAIT, STYLE_HIGH, ""}};
	int each = (height - 2) / 3;

	if (!selected)
		return;
	describe_memory(selected->vgpu, charts[0].facts);
	describe_time(selected->vgpu, charts[1].facts);
	describe_waiting(model, selected->vgpu, charts[2].facts);
	draw_detail_title(canvas, selected->vgpu, row);
	for (int i = 0; i < 3; i++)
		draw_chart(canvas, model, selected->vgpu, &charts[i], row + (i + 1) * each, each);
	draw_last_refusal(canvas, model, selected->vgpu, row + 3 * each + 1);
}
