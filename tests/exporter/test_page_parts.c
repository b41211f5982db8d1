// Tests the code that makes the page and its JSON, with lists that the test provides: the samples that are kept, their
// limit, the points into which samples are merged, texts that users chose, and the size of the first view.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exporter/api.h"
#include "exporter/page.h"
#include "exporter/text.h"
#include "charts_js.h"
#include "icon_svg.h"
#include "page_css.h"
#include "page_js.h"
#include "plot_js.h"
#include "test.h"
#include "timeline_js.h"

enum { MOST_SERIES = 300, FIRST_VIEW_MOST = 300 << 10, MiB = 1 << 20 };
static const double STARTED = 1000;

// ---- samples -------------------------------------------------------------------------------------------

static struct vg_history_series series[MOST_SERIES];
static struct vg_history_list list = {.series = series, .every = 5};
static char names[MOST_SERIES][16];

static struct vg_history_sample make_sample(uint64_t number)
{
	return (struct vg_history_sample){.time = 1e9 + 5 * (double)number,
					  .charged = number * MiB,
					  .physical = VG_HISTORY_UNKNOWN,
					  .in_host = VG_HISTORY_UNKNOWN,
					  .gpu_ns = number * 1000000000,
					  .waited_ns = number,
					  .refusals = number / 100};
}

// Adds a series with the samples from `first` to `last` to the list. If `vgpu` is "", it is the series of a GPU.
static void add_to_list(const char *vgpu, int device, uint64_t first, uint64_t last)
{
	struct vg_history_sample *samples = calloc(last - first + 1, sizeof *samples);

	CHECK(samples != NULL && list.count < MOST_SERIES);
	for (uint64_t number = first; number <= last; number++)
		samples[number - first] = make_sample(number);
	series[list.count++] = (struct vg_history_series){vgpu, device, first, (size_t)(last - first + 1), samples};
	list.last = last > list.last ? last : list.last;
}

static void clear_list(void)
{
	for (size_t i = 0; i < list.count; i++)
		free((void *)series[i].samples);
	list.count = 0;
	list.last = 0;
}

static const struct samples_series *find(const struct samples *samples, const char *vgpu)
{
	for (size_t i = 0; i < samples->count; i++)
		if (strcmp(samples->series[i]->vgpu, vgpu) == 0)
			return samples->series[i];
	return NULL;
}

// Checks that the kept series has exactly the samples from `first` to the newest one.
static void check_samples(const struct samples *samples, const char *vgpu, uint64_t first)
{
	const struct samples_series *found = find(samples, vgpu);

	CHECK(found != NULL);
	CHECK_INT(samples_first(samples, found), first);
	for (uint64_t number = first; number <= samples->last; number++)
		CHECK_INT(found->at[number % SAMPLES_MOST].charged, number * MiB);
}

TEST(samples_are_continued_and_the_oldest_forgotten)
{
	struct samples samples = {0};

	for (uint64_t last = 100; last <= 2000; last += 100) {
		add_to_list("train", 0, last - 99, last);
		add_to_list("", 0, last - 99, last);
		CHECK_INT(samples_add(&samples, &list, STARTED), 0);
		clear_list();
		check_samples(&samples, "train", last > SAMPLES_MOST ? last - SAMPLES_MOST + 1 : 1);
	}
	CHECK(!samples_find_partial(&samples));
	CHECK_INT(samples.count, 2);
	samples_finish(&samples);
}

TEST(older_samples_are_completed)
{
	struct samples samples = {0};

	add_to_list("train", 0, 801, 1000); // the daemon has 1000 samples, but its first answer has only the newest 200
	add_to_list("", 0, 801, 1000);
	CHECK_INT(samples_add(&samples, &list, STARTED), 0);
	clear_list();
	struct samples_series *partial = samples_find_partial(&samples);
	CHECK(partial && strcmp(partial->vgpu, "train") == 0);
	add_to_list("train", 0, 282, 1001); // the daemon took another sample before this answer
	samples_complete(partial, &list);
	clear_list();
	check_samples(&samples, "train", 282);
	// the series of the GPU is partial, too, but only a vGPU's older samples can be requested
	CHECK(!samples_find_partial(&samples));
	samples_finish(&samples);
}

TEST(a_series_that_cannot_be_completed_is_not_asked_for_again)
{
	struct samples samples = {0};

	add_to_list("train", 0, 801, 1000);
	CHECK_INT(samples_add(&samples, &list, STARTED), 0);
	samples_complete(samples_find_partial(&samples), NULL);
	CHECK(!samples_find_partial(&samples));
	check_samples(&samples, "train", 801);
	clear_list();
	// This list ends at sample 500, and the first kept sample is 801. The list is not used, since the samples
	// between them would be missing.
	samples.series[0]->is_whole = false;
	add_to_list("train", 0, 1, 500);
	samples_complete(samples_find_partial(&samples), &list);
	clear_list();
	check_samples(&samples, "train", 801);
	samples_finish(&samples);
}

TEST(a_gap_is_completed_too)
{
	struct samples samples = {0};

	add_to_list("train", 0, 1, 100);
	CHECK_INT(samples_add(&samples, &list, STARTED), 0);
	CHECK(!samples_find_partial(&samples));
	clear_list();
	// the exporter did not ask the daemon for 300 samples, because no page was open
	add_to_list("train", 0, 401, 600);
	CHECK_INT(samples_add(&samples, &list, STARTED), 0);
	clear_list();
	check_samples(&samples, "train", 401);
	struct samples_series *partial = samples_find_partial(&samples);
	CHECK(partial != NULL);
	add_to_list("train", 0, 1, 600);
	samples_complete(partial, &list);
	clear_list();
	check_samples(&samples, "train", 1);
	samples_finish(&samples);
}

TEST(another_daemon_or_a_removed_vgpu_is_forgotten)
{
	struct samples samples = {0};

	add_to_list("train", 0, 1, 50);
	add_to_list("infer", 0, 1, 50);
	CHECK_INT(samples_add(&samples, &list, STARTED), 0);
	clear_list();
	add_to_list("infer", 0, 51, 60);
	CHECK_INT(samples_add(&samples, &list, STARTED), 0);
	CHECK(!find(&samples, "train"));
	check_samples(&samples, "infer", 1);
	clear_list();
	add_to_list("infer", 0, 3, 4);
	CHECK_INT(samples_add(&samples, &list, STARTED + 1), 0);
	check_samples(&samples, "infer", 3);
	CHECK_INT(samples.count, 1);
	clear_list();
	samples_finish(&samples);
}

TEST(memory_is_bounded_however_many_vgpus_there_are)
{
	struct samples samples = {0};

	for (int i = 0; i < 200; i++) {
		snprintf(names[i], sizeof names[i], "vgpu%d", i);
		add_to_list(names[i], 0, 1, 3);
	}
	for (int i = 0; i < 4; i++)
		add_to_list("", i, 1, 3);
	CHECK_INT(samples_add(&samples, &list, STARTED), 0);
	CHECK_INT(samples.count, SAMPLES_SERIES_MOST + 4);
	CHECK_INT(samples.left_out, 200 - SAMPLES_SERIES_MOST);
	CHECK(find(&samples, "vgpu0") && find(&samples, "") && !find(&samples, "vgpu199"));
	CHECK(samples.count * sizeof *samples.series[0] < 4 * MiB);
	clear_list();
	samples_finish(&samples);
}

TEST(a_vgpu_that_was_left_out_is_completed)
{
	struct samples samples = {0};

	for (int i = 0; i <= SAMPLES_SERIES_MOST; i++) {
		snprintf(names[i], sizeof names[i], "vgpu%d", i);
		add_to_list(names[i], 0, 1, 100);
	}
	CHECK_INT(samples_add(&samples, &list, STARTED), 0);
	CHECK_INT(samples.left_out, 1);
	CHECK(!samples_find_partial(&samples));
	clear_list();
	const char *late = names[SAMPLES_SERIES_MOST];
	for (uint64_t number = 101; number <= 102;
	     // the first vGPU was removed, so there is now room for the last one
	     number++) {
		for (int i = 1; i <= SAMPLES_SERIES_MOST; i++)
			add_to_list(names[i], 0, number, number);
		CHECK_INT(samples_add(&samples, &list, STARTED), 0);
		clear_list();
	}
	CHECK_INT(samples.left_out, 0);
	struct samples_series *partial = samples_find_partial(&samples);
	CHECK(partial && strcmp(partial->vgpu, late) == 0);
	add_to_list(late, 0, 1, 102);
	samples_complete(partial, &list);
	clear_list();
	check_samples(&samples, late, 1);
	CHECK(!samples_find_partial(&samples));
	add_to_list(late, 0, 103, 103);
	add_to_list("new", 0, 103, 103);
	CHECK_INT(samples_add(&samples, &list, STARTED), 0);
	CHECK(!samples_find_partial(&samples)); // nothing was left out, so the new vGPU has no older samples
	clear_list();
	samples_finish(&samples);
}

// ---- JSON ----------------------------------------------------------------------------------------------

static char *text;
static size_t size;

static FILE *begin(void)
{
	free(text);
	text = NULL;
	return open_memstream(&text, &size);
}

static const char *history_text(const struct samples *samples, const char *vgpu, const char *names_of_figures)
{
	unsigned figures;
	FILE *out = begin();

	CHECK(api_read_figures(names_of_figures, &figures));
	CHECK(api_write_history(out, samples, vgpu, figures));
	fclose(out);
	return text;
}

TEST(names_of_figures_are_checked)
{
	static const char *const wrong[] = {
		"", ",", "charge", "charged,", ",charged", "charged,,gpu_ns", "charged gpu_ns", "Charged"};
	unsigned figures, all;

	CHECK(api_read_figures(NULL, &all) &&
	      api_read_figures("charged,physical,in_host,gpu_ns,waited_ns,refusals", &figures));
	CHECK_INT(figures, all);
	CHECK(api_read_figures("gpu_ns", &figures));
	CHECK(figures != all && figures);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		CHECK(!api_read_figures(wrong[i], &figures));
}

TEST(one_vgpu_has_all_samples_and_all_vgpus_have_merged_points)
{
	struct samples samples = {0};

	add_to_list("train", 0, 1, 720);
	add_to_list("late", 0, 716, 720);
	CHECK_INT(samples_add(&samples, &list, STARTED), 0);
	clear_list();
	CHECK_CONTAINS(history_text(&samples, "late", "refusals"), "\"refusals\":[7,7,7,7,7]");
	CHECK(!strstr(text, "charged") && !strstr(text, "train"));
	// Six samples are merged into a point. It has the highest charge of these samples, and the last value of each
	// counter.
	CHECK_CONTAINS(history_text(&samples, NULL, "charged,gpu_ns"), "\"every\":30,");
	CHECK_CONTAINS(text, ",753926144,754974720],\"gpu_ns\"");
	CHECK_CONTAINS(text, ",719000000000,720000000000]}");
	CHECK_CONTAINS(text, "\"charged\":[null,null,");
	FILE *out = begin();
	CHECK(!api_write_history(out, &samples, "absent", 1));
	fclose(out);
	CHECK_STR(text, "");
	samples_finish(&samples);
	CHECK_CONTAINS(history_text(&samples, NULL, NULL), "\"times\":[],\"series\":[]");
}

// Makes `count` events, which are numbered from 1000 on.
static struct vg_journal_event *make_events(size_t count, const char *command)
{
	struct vg_journal_event *events = calloc(count, sizeof *events);

	CHECK(events != NULL);
	for (size_t i = 0; i < count; i++)
		events[i] = (struct vg_journal_event){
			.number = 1000 + i,
			.time = 1e9 + (double)i,
			.kind = "refused",
			.vgpu = "training-15",
			.owner = "somebody",
			.user = "somebody",
			.pid = 4000000,
			.command = command,
			.text = "cuMemAlloc_v2 asked for 128.0 MiB: 1.9 GiB of 2.0 GiB charged",
			.bytes = 128 * MiB,
			.count = 1};
	return events;
}

static const char *events_text(const struct vg_journal_list *events, uint64_t after, uint64_t most)
{
	FILE *out = begin();

	api_write_events(out, events, after, most);
	fclose(out);
	return text;
}

TEST(events_are_continued_and_a_gap_is_told)
{
	struct vg_journal_list events = {.count = 512, .events = make_events(512, "x"), .next = 1511};

	CHECK_CONTAINS(events_text(&events, 1510, 10), "\"lost\":false,\"events\":[{\"number\":1511,");
	CHECK_CONTAINS(events_text(&events, 1511, 10), "\"lost\":false,\"events\":[]");
	CHECK_CONTAINS(events_text(&events, 1400, 10), "\"lost\":true,\"events\":[{\"number\":1502,");
	CHECK_CONTAINS(events_text(&events, 1501, 10), "\"lost\":false,\"events\":[{\"number\":1502,");
	CHECK_CONTAINS(events_text(&events, 500, 1000), "\"lost\":true,\"events\":[{\"number\":1000,");
	CHECK_CONTAINS(events_text(&events, 999, 1000), "\"lost\":false,\"events\":[{\"number\":1000,");
	CHECK_CONTAINS(events_text(&events, 0, 0), "\"next\":1511,\"lost\":false,\"events\":[]");
	free((void *)events.events);
}

// ---- text of users -------------------------------------------------------------------------------------

static const char *written(void (*write)(FILE *out, const char *text), const char *what)
{
	FILE *out = begin();

	write(out, what);
	fclose(out);
	return text;
}

TEST(text_of_users_stays_text)
{
	CHECK_STR(written(text_write_html, "<b a='x\">&\n\x7f\xff"), "&lt;b a=&#39;x&quot;&gt;&amp;???");
	CHECK_STR(written(text_write_html, "größe 🎉"), "größe 🎉");
	CHECK_STR(written(text_write_html, NULL), "");
	CHECK_STR(written(text_write_json, "</script>\"\\\n\xc3"), "\"\\u003c/script\\u003e\\\"\\\\\\u000a?\"");
	// invalid UTF-8: an overlong form, a surrogate, a code beyond Unicode, a truncated character, and a byte that
	// never begins a character
	static const char *const invalid[] = {"\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
					      "\xe2\x82", "\x80",	  "\xf8\x88\x80\x80\x80"};
	for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++)
		CHECK_INT(text_character(invalid[i]), 0);
}

TEST(sizes_and_durations_are_rounded)
{
	char buffer[TEXT_SIZE];

	CHECK_STR(text_size(0, buffer), "0 B");
	CHECK_STR(text_size(1536, buffer), "1.5 KiB");
	CHECK_STR(text_size((1ull << 30) - 1, buffer), "1.0 GiB");
	CHECK_STR(text_size(UINT64_MAX, buffer), "16 EiB");
	CHECK_STR(text_duration(-1, buffer), "0.0 s");
	CHECK_STR(text_duration(3.25, buffer), "3.2 s");
	CHECK_STR(text_duration(3725, buffer), "1 h 2 min");
	CHECK_STR(text_duration(1e300, buffer), "0.0 s");
}

// ---- page ----------------------------------------------------------------------------------------------

enum { VGPUS = 16, TENANTS = 4 };

static struct vg_device_info devices[2];
static struct vg_vgpu_info vgpus[VGPUS];
static struct vg_tenant_info tenants[TENANTS];
static struct vg_device_list device_list = {.count = 2, .devices = devices};
static struct vg_vgpu_list vgpu_list = {.count = VGPUS, .vgpus = vgpus};
static struct vg_journal_list event_list;
static struct samples kept;
static struct gathered gathered = {
	.vgpus = &vgpu_list, .devices = &device_list, .samples = &kept, .events = &event_list, .time = 1e9};

// Makes a node with 16 vGPUs, 64 programs with the name `command`, an hour of samples, and a full list of events.
static void make_node(const char *command)
{
	for (int i = 0; i < 2; i++)
		devices[i] = (struct vg_device_info){.index = i,
						     .uuid = "GPU-01234567-0123-0123-0123-0123456789ab",
						     .name = "NVIDIA H200",
						     .driver = "580.159",
						     .compute_capability = "9.0",
						     .memory = 144ull << 30,
						     .memory_used = 100ull << 30,
						     .memory_used_known = 1,
						     .reserved = 120ull << 30,
						     .vgpus = 8};
	for (int i = 0; i < TENANTS; i++)
		tenants[i] = (struct vg_tenant_info){.pid = 4000000 + i,
						     .command = command,
						     .charged = 1536 * MiB,
						     .physical = 1600 * MiB,
						     .physical_known = 1,
						     .eviction.state = "running",
						     .eviction.known = 1,
						     .container = "",
						     .image = ""};
	clear_list();
	for (int i = 0; i < VGPUS; i++) {
		snprintf(names[i], sizeof names[i], "training-%d", i);
		vgpus[i] = (struct vg_vgpu_info){.name = names[i],
						 .uuid = devices[0].uuid,
						 .device = i % 2,
						 .memory = 8ull << 30,
						 .charged = 6ull << 30,
						 .physical = 6ull << 30,
						 .physical_known = 1,
						 .share = 5,
						 .owner = "somebody",
						 .group = "",
						 .eviction_state = "running",
						 .tenants_known = 1,
						 .tenant_count = TENANTS,
						 .tenants = tenants,
						 .turns = {.known = 1,
							   .mode = "time",
							   .reason = "",
							   .holder = "training-1",
							   .recent = 5,
							   .waited_ns = 1ull << 42}};
		add_to_list(names[i], i % 2, 20001, 20720);
	}
	add_to_list("", 0, 20001, 20720);
	add_to_list("", 1, 20001, 20720);
	samples_finish(&kept);
	CHECK_INT(samples_add(&kept, &list, STARTED), 0);
	clear_list();
	free((void *)event_list.events);
	event_list = (struct vg_journal_list){.count = 512, .events = make_events(512, command), .next = 1511};
}

static const char *page_text(bool is_public)
{
	const struct page page = {
		.gathered = &gathered, .host = "gpu1.example", .is_public = is_public, .has_token = true};
	FILE *out = begin();

	page_write(out, &page);
	fclose(out);
	return text;
}

static size_t count(const char *whole, const char *part)
{
	size_t found = 0;

	for (const char *at = whole; (at = strstr(at, part)); at += strlen(part))
		found++;
	return found;
}

TEST(the_page_has_all_figures_without_a_script)
{
	make_node("python3");
	page_text(false);
	CHECK_INT(count(text, "class=\"vgpu\""), VGPUS);
	CHECK_INT(count(text, "class=\"tenant\""), VGPUS * TENANTS);
	CHECK_INT(count(text, "data-kind=\"refused\""), PAGE_EVENTS_MOST);
	CHECK_CONTAINS(text, "6 GiB of 8 GiB");
	CHECK_CONTAINS(text, "GPU time on GPU 1");
	CHECK_CONTAINS(text, "data-next=\"1511\"");
	CHECK(!strstr(text, "{{") && !strstr(text, "<script>") && !strstr(text, " style="));
	CHECK(!strstr(text, "virgate stats"));
	page_text(true);
	CHECK_INT(count(text, "class=\"tenant\""), 0);
}

TEST(long_lists_are_cut_with_a_note)
{
	static struct vg_tenant_info many[100];

	make_node("x");
	for (size_t i = 0; i < sizeof many / sizeof *many; i++)
		many[i] = tenants[0];
	vgpus[3].tenants = many;
	vgpus[3].tenant_count = sizeof many / sizeof *many;
	kept.left_out = 7;
	page_text(false);
	CHECK_INT(count(text, "class=\"tenant\""), (VGPUS - 1) * TENANTS + PAGE_TENANTS_MOST);
	CHECK_CONTAINS(text, "84 more programs: see virgate ps");
	CHECK_CONTAINS(text, "7 more vGPUs: see <code>virgate stats</code>");
}

TEST(programs_in_the_overview_are_bounded)
{
	static struct vg_tenant_info many[100];

	make_node("x");
	for (size_t i = 0; i < sizeof many / sizeof *many; i++)
		many[i] = tenants[0];
	vgpus[3].tenants = many;
	vgpus[3].tenant_count = sizeof many / sizeof *many;
	FILE *out = begin();
	api_write_overview(out, &gathered, false);
	fclose(out);
	CHECK_INT(count(text, "\"command\":\"x\""), (VGPUS - 1) * TENANTS + PAGE_TENANTS_MOST);
	CHECK_INT(count(text, "],\"tenants_left_out\":84}"), 1);
	CHECK_INT(count(text, "],\"tenants_left_out\":0}"), VGPUS - 1);
	out = begin();
	api_write_overview(out, &gathered, true);
	fclose(out);
	CHECK_INT(count(text, "\"tenants\":null,\"tenants_left_out\":null}"), VGPUS);
}

// The page must have an end tag for every start tag, whatever the names of programs are.
TEST(names_of_programs_do_not_change_the_page)
{
	make_node("x");
	size_t begins = count(page_text(false), "<"), quotes = count(text, "\"");
	make_node("</td><script>\"'&<b");
	CHECK_INT(count(page_text(false), "<"), begins);
	CHECK_INT(count(text, "\""), quotes);
	CHECK_INT(count(text, "<tr"), count(text, "</tr>"));
	CHECK_INT(count(text, "<table"), count(text, "</table>"));
	CHECK_INT(count(text, "<td"), count(text, "</td>"));
}

TEST(a_problem_takes_the_place_of_the_figures)
{
	make_node("x");
	snprintf(gathered.problem, sizeof gathered.problem, "no daemon <listens>");
	page_text(false);
	*gathered.problem = '\0';
	CHECK_CONTAINS(text, "No figures: no daemon &lt;listens&gt;");
	CHECK(!strstr(text, "training-1") && !strstr(text, "scope=\"row\""));
}

// The files of the page are compressed in the exporter; the page itself, the history and the events are not.
TEST(the_first_view_of_a_full_node_is_small)
{
	static const size_t files = sizeof page_css + sizeof page_js + sizeof charts_js + sizeof timeline_js +
				    sizeof plot_js + sizeof icon_svg;
	size_t total = files;

	make_node("python3.11-train");
	page_text(false);
	size_t page = size;
	history_text(&kept, NULL, "charged,gpu_ns");
	size_t history = size;
	events_text(&event_list, 0, 200);
	total += page + history + size;
	printf("files %zu, page %zu, history %zu, events %zu, in all %zu\n", files, page, history, size, total);
	CHECK(total < FIRST_VIEW_MOST);
}
