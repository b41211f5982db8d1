#include "exporter/page.h"

#include <string.h>
#include <time.h>

#include "exporter/text.h"
#include "page_html.h"

void page_write_cell(FILE *out, const char *head, const char *class, const char *text)
{
	if (!*class && strcmp(text, "–") == 0)
		class = "none";
	fprintf(out, head ? "<td data-head=\"%s\"" : "<td", head);
	fprintf(out, *class ? " class=\"%s\">" : ">", class);
	text_write_html(out, text);
	fputs("</td>", out);
}

// Begins a table. A head that begins with "#" is that of a column of numbers.
static void begin_table(FILE *out, const char *caption, const char *const *heads)
{
	fprintf(out, "<table><caption>%s</caption><thead><tr>", caption);
	for (; *heads; heads++)
		fprintf(out,
			**heads == '#' ? "<th scope=\"col\" class=\"number\">%s</th>" : "<th scope=\"col\">%s</th>",
			*heads + (**heads == '#'));
	fputs("</tr></thead><tbody>", out);
}

// Begins a row with the cell that has its name. `beside` is a further text in that cell.
static void begin_row(FILE *out, const char *class, const char *name, const char *beside)
{
	fprintf(out, *class ? "<tr class=\"%s\">" : "<tr>", class);
	fputs("<th scope=\"row\">", out);
	text_write_html(out, name);
	if (*beside) {
		fputs(" <span class=\"beside\">", out);
		text_write_html(out, beside);
		fputs("</span>", out);
	}
	fputs("</th>", out);
}

static void write_size(FILE *out, const char *head, bool is_known, uint64_t bytes)
{
	char text[TEXT_SIZE];

	page_write_cell(out, head, "number", is_known ? text_size(bytes, text) : "–");
}

static void write_count(FILE *out, const char *head, const char *class, bool is_known, uint64_t count)
{
	char text[TEXT_SIZE] = "–";

	if (is_known)
		snprintf(text, sizeof text, "%llu", (unsigned long long)count);
	page_write_cell(out, head, class, text);
}

// Writes a cell with a bar and a text, which both show `value` of `most`.
static void write_bar(FILE *out, const char *head, bool is_known, uint64_t value, uint64_t most)
{
	char of[TEXT_SIZE], text[TEXT_SIZE];

	fprintf(out, "<td data-head=\"%s\" class=\"bar\">", head);
	if (is_known)
		fprintf(out,
			"<meter aria-label=\"%s\" min=\"0\" max=\"%llu\" high=\"%llu\" value=\"%llu\"></meter> "
			"<span>%s "
			"of %s</span></td>",
			head, (unsigned long long)most, (unsigned long long)(most / 10 * 9), (unsigned long long)value,
			text_size(value, text), text_size(most, of));
	else
		fprintf(out, "<span>– of %s</span></td>", text_size(most, of));
}

// ---- GPUs ----------------------------------------------------------------------------------------------

static uint64_t sum_charged(const struct vg_vgpu_list *vgpus, int device)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < vgpus->count; i++)
		sum += vgpus->vgpus[i].device == device && !vgpus->vgpus[i].damaged ? vgpus->vgpus[i].charged : 0;
	return sum;
}

static void write_device(FILE *out, const struct vg_device_info *device, uint64_t charged)
{
	char index[TEXT_SIZE], share[TEXT_SIZE], vgpus[2 * TEXT_SIZE];

	snprintf(index, sizeof index, "GPU %d", device->index);
	snprintf(share, sizeof share, "%u %%", device->share_reserved);
	snprintf(vgpus, sizeof vgpus, "%u, %u in use", device->vgpus, device->in_use);
	begin_row(out, device->drained ? "alert" : "", index, device->name);
	write_bar(out, "Charged", true, charged, device->memory);
	write_bar(out, "Limits", true, device->reserved, device->memory);
	write_bar(out, "Used (driver)", device->memory_used_known, device->memory_used, device->memory);
	page_write_cell(out, "Shares", "number", share);
	page_write_cell(out, "vGPUs", "number", vgpus);
	write_count(out, "Waiting", device->waiting ? "number warn" : "number", true, device->waiting);
	page_write_cell(out, "State", "", device->drained ? "drained" : device->simulated ? "simulated" : "ready");
	fputs("</tr>\n", out);
}

static void write_devices(FILE *out, const struct page *page)
{
	static const char *const heads[] = {"GPU",	"Charged", "Limits", "Used (driver)", "#Shares", "#vGPUs",
					    "#Waiting", "State",   NULL};
	const struct vg_device_list *list = page->gathered->devices;

	begin_table(out, "Memory and vGPUs of each GPU", heads);
	for (size_t i = 0; i < list->count; i++)
		write_device(out, &list->devices[i], sum_charged(page->gathered->vgpus, list->devices[i].index));
	fputs("</tbody></table>", out);
}

// ---- vGPUs ---------------------------------------------------------------------------------------------

static const char *state_of(const struct vg_vgpu_info *vgpu)
{
	if (vgpu->damaged)
		return "damaged";
	if (vgpu->suspended)
		return "suspended";
	return *vgpu->eviction_state ? vgpu->eviction_state : "–";
}

static size_t count_programs(const struct vg_vgpu_info *vgpu)
{
	size_t count = 0;

	for (size_t i = 0; i < vgpu->tenant_count; i++)
		count += !vgpu->tenants[i].guest && !vgpu->tenants[i].ended && !vgpu->tenants[i].outside;
	return count;
}

static void write_tenant(FILE *out, const struct vg_tenant_info *tenant)
{
	const struct vg_eviction_info *eviction = &tenant->eviction;
	char pid[TEXT_SIZE];

	snprintf(pid, sizeof pid, "%lld", (long long)tenant->pid);
	begin_row(out, "tenant", *tenant->command ? tenant->command : "–", pid);
	page_write_cell(out, NULL, "empty", "");
	page_write_cell(out, NULL, "empty", "");
	write_size(out, "Memory", true, tenant->charged);
	write_size(out, "Used (driver)", tenant->physical_known, tenant->physical);
	write_size(out, "In host", eviction->known, eviction->host);
	page_write_cell(out, NULL, "empty", "");
	page_write_cell(out, NULL, "empty", "");
	page_write_cell(out, NULL, "empty", "");
	page_write_cell(out, NULL, "empty", "");
	page_write_cell(out, NULL, "empty", "");
	page_write_cell(out, "State", "",
			tenant->ended	  ? "ended"
			: tenant->outside ? "outside"
			: tenant->guest	  ? "guest"
			: eviction->known ? eviction->state
					  : "–");
	fputs("</tr>\n", out);
}

static void write_turns(FILE *out, const struct vg_vgpu_info *vgpu)
{
	const struct vg_turns_info *turns = &vgpu->turns;
	char share[TEXT_SIZE] = "–", recent[TEXT_SIZE] = "–", waited[TEXT_SIZE] = "–";

	if (vgpu->share)
		snprintf(share, sizeof share, "%u %%", vgpu->share);
	if (turns->known) {
		snprintf(recent, sizeof recent, "%.0f %%", turns->recent);
		text_duration((double)turns->waited_ns / 1e9, waited);
	}
	page_write_cell(out, "Share", "number", share);
	page_write_cell(out, "GPU time", "number", recent);
	page_write_cell(out, "Waited", "number", waited);
}

static void write_vgpu(FILE *out, const struct vg_vgpu_info *vgpu, bool is_public)
{
	bool shows_tenants = !is_public && vgpu->tenants_known;
	char device[TEXT_SIZE];

	snprintf(device, sizeof device, "%d", vgpu->device);
	begin_row(out, vgpu->damaged ? "vgpu alert" : "vgpu", vgpu->name, vgpu->ephemeral ? "ephemeral" : "");
	page_write_cell(out, "Owner", "", vgpu->owner);
	page_write_cell(out, "GPU", "number", device);
	write_bar(out, "Memory", !vgpu->damaged, vgpu->charged, vgpu->memory);
	write_size(out, "Used (driver)", vgpu->physical_known, vgpu->physical);
	write_size(out, "In host", *vgpu->eviction_state, vgpu->in_host);
	write_turns(out, vgpu);
	write_count(out, "Programs", "number", shows_tenants, shows_tenants ? count_programs(vgpu) : 0);
	write_count(out, "Refused", vgpu->refusals ? "number warn" : "number", !vgpu->damaged, vgpu->refusals);
	page_write_cell(out, "State", vgpu->damaged || vgpu->suspended ? "warn" : "", state_of(vgpu));
	fputs("</tr>\n", out);
	for (size_t i = 0; shows_tenants && i < vgpu->tenant_count && i < PAGE_TENANTS_MOST; i++)
		write_tenant(out, &vgpu->tenants[i]);
	if (shows_tenants && vgpu->tenant_count > PAGE_TENANTS_MOST)
		fprintf(out,
			"<tr><td colspan=\"12\">%zu more programs: see virgate "
			"ps</td></tr>\n",
			vgpu->tenant_count - PAGE_TENANTS_MOST);
}

static void write_vgpus(FILE *out, const struct page *page)
{
	static const char *const heads[] = {"vGPU",	"Owner",  "#GPU",      "Memory",  "#Used (driver)",
					    "#In host", "#Share", "#GPU time", "#Waited", "#Programs",
					    "#Refused", "State",  NULL};
	const struct vg_vgpu_list *list = page->gathered->vgpus;
	size_t most = list->count < PAGE_VGPUS_MOST ? list->count : PAGE_VGPUS_MOST;

	if (!list->count) {
		fputs("<p class=\"note\">No vGPUs. <code>virgate create</code> and <code>virgate run</code> create "
		      "them.</p>",
		      out);
		return;
	}
	begin_table(out, "Memory, shares and programs of each vGPU", heads);
	for (size_t i = 0; i < most; i++)
		write_vgpu(out, &list->vgpus[i], page->is_public);
	fputs("</tbody></table>", out);
	if (list->count > most)
		fprintf(out, "<p class=\"note\">%zu more vGPUs: see <code>virgate ps</code>.</p>", list->count - most);
}

// ---- events --------------------------------------------------------------------------------------------

static void write_time(FILE *out, double seconds)
{
	time_t time = (time_t)seconds;
	char machine[40] = "", text[40] = "";
	struct tm parts;

	if (gmtime_r(&time, &parts))
		strftime(machine, sizeof machine, "%Y-%m-%dT%H:%M:%SZ", &parts);
	if (localtime_r(&time, &parts))
		strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
	fprintf(out, "<th scope=\"row\"><time datetime=\"%s\">%s</time></th>", machine, text);
}

static bool is_warning(const char *kind)
{
	static const char *const kinds[] = {"refused", "denied", "died", "damaged", "omitted"};

	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(kind, kinds[i]) == 0)
			return true;
	return false;
}

static void write_event(FILE *out, const struct vg_journal_event *event)
{
	char program[256] = "–", count[TEXT_SIZE] = "", what[600];

	if (*event->command || event->pid > 0)
		snprintf(program, sizeof program, event->pid > 0 ? "%s %lld" : "%s", event->command,
			 (long long)event->pid);
	if (event->count > 1)
		snprintf(count, sizeof count, "%u× ", event->count);
	snprintf(what, sizeof what, "%s%s", count, event->text);
	fputs("<tr data-kind=\"", out);
	text_write_html(out, event->kind);
	fputs("\">", out);
	write_time(out, event->time);
	page_write_cell(out, "Event", is_warning(event->kind) ? "warn" : "", event->kind);
	page_write_cell(out, "vGPU", "", *event->vgpu ? event->vgpu : "–");
	page_write_cell(out, "By", "", *event->user ? event->user : "–");
	page_write_cell(out, "Program", "", program);
	page_write_cell(out, "Details", "wide", *what ? what : "–");
	fputs("</tr>\n", out);
}

static void write_events(FILE *out, const struct page *page)
{
	static const char *const heads[] = {"Time", "Event", "vGPU", "By", "Program", "Details", NULL};
	const struct vg_journal_list *list = page->gathered->events;
	size_t count = list ? list->count : 0;

	if (!count) {
		fputs("<p class=\"note\">No events yet.</p>", out);
		return;
	}
	begin_table(out, "The newest events, the last one first", heads);
	for (size_t i = 0; i < count && i < PAGE_EVENTS_MOST; i++)
		write_event(out, &list->events[count - 1 - i]);
	fputs("</tbody></table>", out);
	if (count > PAGE_EVENTS_MOST)
		fputs("<p class=\"note\">Older ones: <code>virgate events</code>.</p>", out);
}

// ---- page ----------------------------------------------------------------------------------------------

static void write_host(FILE *out, const struct page *page)
{
	text_write_html(out, page->host);
}

static void write_problem(FILE *out, const struct page *page)
{
	if (!*page->gathered->problem)
		return;
	fputs("<p class=\"problem\" role=\"alert\">No figures: ", out);
	text_write_html(out, page->gathered->problem);
	fputs("</p>", out);
}

// Writes the number after which newer events continue. The script requests events only when this number has changed.
static void write_next(FILE *out, const struct page *page)
{
	const struct vg_journal_list *list = page->gathered->events;

	fprintf(out, "%llu", list ? (unsigned long long)list->next : 0);
}

static void write_view(FILE *out, const struct page *page)
{
	if (!page->is_public)
		fputs("Shown: all that the user of the exporter may see.", out);
	else if (page->has_token)
		fputs("Shown: what <code>virgate ps</code> shows to other users. <a href=\"/full\">Show programs</a> "
		      "asks for "
		      "the token, as the password of any user name.",
		      out);
	else
		fputs("Shown: what <code>virgate ps</code> shows to other users. With <code>--token-file</code> the "
		      "exporter "
		      "shows programs, too.",
		      out);
}

static const struct {
	const char *name;
	void (*write)(FILE *out, const struct page *page);
	bool needs_figures;
} parts[] = {
	{"host", write_host, false},	{"problem", write_problem, false}, {"view", write_view, false},
	{"gpus", write_devices, true},	{"vgpus", write_vgpus, true},	   {"hour", page_write_history, true},
	{"events", write_events, true}, {"next", write_next, true},
};

static void write_part(FILE *out, const struct page *page, const char *name, size_t length)
{
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		if (strlen(parts[i].name) != length || strncmp(parts[i].name, name, length) != 0)
			continue;
		if (!parts[i].needs_figures || !*page->gathered->problem)
			parts[i].write(out, page);
	}
}

void page_write(FILE *out, const struct page *page)
{
	const char *at = (const char *)page_html;

	for (;;) {
		const char *mark = strstr(at, "{{"), *end = mark ? strstr(mark, "}}") : NULL;
		if (!end)
			break;
		fwrite(at, 1, (size_t)(mark - at), out);
		write_part(out, page, mark + 2, (size_t)(end - mark - 2));
		at = end + 2;
	}
	fputs(at, out);
}
