// Fuzzes the code that makes the page of virgate-exporter and its JSON, from names that users chose and the query of a
// request. The input has six texts, each ending with a zero byte: a program's name, an event's text, a reason that the
// daemon gives, and the values of vgpu=, figures= and after=.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exporter/api.h"
#include "exporter/page.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TEXTS = 6, MOST = 4096 };

static char *answer;
static size_t answer_size;

static void require(bool holds)
{
	if (!holds)
		abort();
}

static FILE *begin(void)
{
	free(answer);
	answer = NULL;
	return open_memstream(&answer, &answer_size);
}

static size_t count(char character)
{
	size_t found = 0;

	for (size_t i = 0; i < answer_size; i++)
		found += answer[i] == character;
	return found;
}

// Counts the quotes in the answer, except those in class="none". Cells without a text have that class, and their number
// varies.
static size_t count_quotes(void)
{
	static const char class[] = "class=\"none\"";
	size_t found = count('"');

	for (const char *at = answer; (at = strstr(at, class)); at += sizeof class)
		found -= 2;
	return found;
}

static void make_lists(char *const texts[TEXTS], struct gathered *ret_gathered)
{
	static struct vg_tenant_info tenant;
	static struct vg_vgpu_info vgpu;
	static struct vg_device_info device;
	static struct vg_journal_event event;
	static struct vg_vgpu_list vgpus = {.count = 1, .vgpus = &vgpu};
	static struct vg_device_list devices = {.count = 1, .devices = &device};
	static struct vg_journal_list events = {.count = 1, .events = &event, .next = 1};

	tenant = (struct vg_tenant_info){.pid = 1, .command = texts[0], .eviction = {.known = 1, .state = "running"}};
	vgpu = (struct vg_vgpu_info){.name = "train",
				     .owner = texts[1],
				     .group = texts[2],
				     .memory = 1 << 20,
				     .eviction_state = "running",
				     .turns = {.known = 1, .reason = texts[2], .holder = texts[0]},
				     .tenants_known = 1,
				     .tenant_count = 1,
				     .tenants = &tenant};
	device = (struct vg_device_info){
		.uuid = texts[2], .name = "GPU", .driver = texts[2], .compute_capability = "", .memory = 1 << 20};
	event = (struct vg_journal_event){.number = 1,
					  .kind = "refused",
					  .vgpu = texts[0],
					  .owner = texts[1],
					  .user = texts[2],
					  .pid = 1,
					  .command = texts[0],
					  .text = texts[1]};
	*ret_gathered = (struct gathered){.vgpus = &vgpus, .devices = &devices, .events = &events};
}

// Makes the page. The texts must not begin or end an element or an attribute, so the numbers of such characters must
// not depend on them.
static void try_page(const struct gathered *gathered, const char *host)
{
	static size_t begins, ends, quotes;
	const struct page page = {.gathered = gathered, .host = host};
	FILE *out = begin();

	page_write(out, &page);
	fclose(out);
	if (!begins) {
		begins = count('<');
		ends = count('>');
		quotes = count_quotes();
	}
	require(count('<') == begins && count('>') == ends && count_quotes() == quotes);
}

// Requires that the strings and brackets of the JSON are balanced, and that it has no control characters.
static void check_json(void)
{
	long depth = 0;
	bool is_string = false;

	for (size_t i = 0; i < answer_size; i++) {
		unsigned char at = (unsigned char)answer[i];
		require(at >= ' ' || (at == '\n' && i == answer_size - 1));
		if (is_string && at == '\\')
			i++;
		else if (at == '"')
			is_string = !is_string;
		else if (!is_string)
			depth += (at == '{' || at == '[') - (at == '}' || at == ']');
		require(depth >= 0);
	}
	require(depth == 0 && !is_string && answer_size > 2);
}

static void add_samples(struct samples *samples)
{
	static const struct vg_history_sample values[] = {{.time = 1, .charged = 1}, {.time = 6, .charged = 2}};
	static const struct vg_history_series series[] = {{"train", 0, 1, 2, values}, {"", 0, 1, 2, values}};
	static const struct vg_history_list list = {.count = 2, .series = series, .last = 2, .every = 5};

	if (!samples->count)
		require(samples_add(samples, &list, 1) == 0);
}

static void try_json(const struct gathered *gathered, char *const texts[TEXTS])
{
	unsigned figures;
	FILE *out = begin();

	api_write_overview(out, gathered, false);
	fclose(out);
	check_json();
	out = begin();
	api_write_events(out, gathered->events, strtoull(texts[5], NULL, 10), strlen(texts[4]));
	fclose(out);
	check_json();
	if (!api_read_figures(*texts[4] ? texts[4] : NULL, &figures))
		return;
	out = begin();
	bool is_found = api_write_history(out, gathered->samples, *texts[3] ? texts[3] : NULL, figures);
	fclose(out);
	require(is_found == (!*texts[3] || strcmp(texts[3], "train") == 0));
	if (is_found)
		check_json();
}

// Writes the JSON of turns. The lengths of the texts determine how many phases there are, the number of the last one,
// and where some are missing.
static void try_turns(char *const texts[TEXTS])
{
	static struct turns turns;
	uint64_t after = strtoull(texts[5], NULL, 10), count = strlen(texts[0]);

	turns.last = 4 * strlen(texts[1]);
	count = count < turns.last ? count : turns.last;
	turns.first = turns.last + 1 - count;
	turns.gap = strlen(texts[2]);
	for (uint64_t number = turns.first; number <= turns.last; number++) {
		struct turns_part *part = &turns.at[number % TURNS_MOST];
		snprintf(part->vgpu, sizeof part->vgpu, "%s", texts[0]);
		snprintf(part->phase, sizeof part->phase, "%s", texts[2]);
	}
	FILE *out = begin();
	api_write_turns(out, &turns, after, count % 2);
	fclose(out);
	check_json();
	require(after || !strstr(answer, "\"lost\":true"));
	require(answer_size < (size_t)API_PARTS_MOST << 10);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char copy[MOST + TEXTS];
	static struct samples samples;
	struct gathered gathered;
	char *texts[TEXTS], *at = copy;

	if (size > MOST)
		return 0;
	memcpy(copy, data, size);
	memset(copy + size, 0, TEXTS);
	for (int i = 0; i < TEXTS; i++) {
		texts[i] = at;
		at += strlen(at) + 1;
	}
	add_samples(&samples);
	make_lists(texts, &gathered);
	gathered.samples = &samples;
	try_page(&gathered, texts[0]);
	try_json(&gathered, texts);
	try_turns(texts);
	return 0;
}
