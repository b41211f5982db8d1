#include <stddef.h>
#include <string.h>
#include <time.h>

#include "exporter/page.h"
#include "exporter/text.h"

enum { SLOTS = 12, SLOT_SAMPLES = SAMPLES_MOST / SLOTS }; // a table has a column for every five minutes

// The figures of a series in one column of a table, which stands for five minutes.
struct slot {
	bool is_known;
	uint64_t most;	// memory
	double percent; // GPU time
};

enum figure { FIGURE_MEMORY, FIGURE_TIME };

static uint64_t first_number(const struct samples *samples, size_t slot)
{
	uint64_t back = (SLOTS - slot) * SLOT_SAMPLES;

	return samples->last > back ? samples->last - back + 1 : 1;
}

static uint64_t last_number(const struct samples *samples, size_t slot)
{
	uint64_t back = (SLOTS - 1 - slot) * SLOT_SAMPLES;

	return samples->last > back ? samples->last - back : 0;
}

static void add_memory(struct slot *slot, uint64_t charged)
{
	if (charged == VG_HISTORY_UNKNOWN)
		return;
	slot->is_known = true;
	slot->most = charged > slot->most ? charged : slot->most;
}

static struct slot read_slot(const struct samples *samples, const struct samples_series *series, size_t index)
{
	uint64_t number = first_number(samples, index), oldest = samples_first(samples, series);
	const struct vg_history_sample *before = NULL;
	struct slot slot = {0};
	double seconds = 0, used = 0;

	for (number = number > oldest ? number : oldest; number <= last_number(samples, index); number++) {
		const struct vg_history_sample *sample = &series->at[number % SAMPLES_MOST];
		add_memory(&slot, sample->charged);
		if (before && before->gpu_ns != VG_HISTORY_UNKNOWN && sample->gpu_ns != VG_HISTORY_UNKNOWN &&
		    sample->gpu_ns >= before->gpu_ns && sample->time > before->time) {
			seconds += sample->time - before->time;
			used += (double)(sample->gpu_ns - before->gpu_ns) / 1e9;
		}
		before = sample;
	}
	slot.percent = seconds > 0 ? 100 * used / seconds : -1;
	return slot;
}

static const char *title_of(enum figure figure)
{
	return figure == FIGURE_MEMORY ? "Memory charged" : "GPU time";
}

static void write_slot(FILE *out, const struct slot *slot, enum figure figure)
{
	char text[TEXT_SIZE] = "–";

	if (figure == FIGURE_MEMORY && slot->is_known)
		text_size(slot->most, text);
	if (figure == FIGURE_TIME && slot->percent >= 0)
		snprintf(text, sizeof text, "%.0f %%", slot->percent);
	page_write_cell(out, NULL, "number", text);
}

static void format_end(const struct samples *samples, double now, size_t slot, char text[TEXT_SIZE])
{
	time_t time = (time_t)(now - (double)((SLOTS - 1 - slot) * SLOT_SAMPLES * samples->every));
	struct tm parts;

	*text = '\0';
	if (localtime_r(&time, &parts))
		strftime(text, TEXT_SIZE, "%H:%M", &parts);
}

static void write_row(FILE *out, const struct page *page, const struct samples_series *series, enum figure figure)
{
	const struct samples *samples = page->gathered->samples;

	fputs("<tr><th scope=\"row\">", out);
	text_write_html(out, *series->vgpu ? series->vgpu : "all vGPUs");
	fputs("</th>", out);
	for (size_t i = 0; i < SLOTS; i++) {
		if (!last_number(samples, i))
			continue;
		struct slot slot = read_slot(samples, series, i);
		write_slot(out, &slot, figure);
	}
	fputs("</tr>\n", out);
}

static void write_table(FILE *out, const struct page *page, int device, enum figure figure)
{
	const struct samples *samples = page->gathered->samples;
	size_t written = 0;
	char head[TEXT_SIZE];

	fprintf(out, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"%s on GPU %d as a table\">\n",
		title_of(figure), device);
	fprintf(out, "<table><caption>%s</caption>\n",
		figure == FIGURE_MEMORY ? "The highest charge in each five minutes" : "Mean part of the GPU's time");
	fputs("<thead><tr><th scope=\"col\">until</th>", out);
	for (size_t i = 0; i < SLOTS; i++) {
		if (!last_number(samples, i))
			continue;
		format_end(samples, page->gathered->time, i, head);
		fprintf(out, "<th scope=\"col\">%s</th>", head);
	}
	fputs("</tr></thead><tbody>", out);
	for (size_t i = 0; i < samples->count && written < PAGE_VGPUS_MOST; i++) {
		const struct samples_series *series = samples->series[i];
		if (series->device != device || (figure == FIGURE_TIME && !*series->vgpu))
			continue;
		write_row(out, page, series, figure);
		written++;
	}
	fputs("</tbody></table></div>", out);
}

// Writes an empty element, in which the script draws a chart, and the chart's figures as a table.
static void write_figure(FILE *out, const struct page *page, int device, enum figure figure)
{
	fprintf(out, "<figure><figcaption>%s on GPU %d</figcaption>\n", title_of(figure), device);
	fprintf(out, "<div class=\"chart\" data-device=\"%d\" data-figure=\"%s\" hidden></div>\n", device,
		figure == FIGURE_MEMORY ? "memory" : "time");
	fputs("<p class=\"legend\" hidden></p>\n<details open><summary>Figures as a table</summary>\n", out);
	write_table(out, page, device, figure);
	fputs("</details></figure>\n", out);
}

void page_write_history(FILE *out, const struct page *page)
{
	const struct vg_device_list *devices = page->gathered->devices;

	if (!page->gathered->samples->last) {
		fputs("<p class=\"note\">No samples yet: the daemon takes one every 5 seconds while there are "
		      "vGPUs.</p>",
		      out);
		return;
	}
	for (size_t i = 0; i < devices->count; i++) {
		write_figure(out, page, devices->devices[i].index, FIGURE_MEMORY);
		write_figure(out, page, devices->devices[i].index, FIGURE_TIME);
	}
	if (page->gathered->samples->left_out)
		fprintf(out, "<p class=\"note\">%zu more vGPUs: see <code>virgate stats</code>.</p>",
			page->gathered->samples->left_out);
}
