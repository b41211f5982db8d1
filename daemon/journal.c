#include "daemon/journal.h"

#include "base/clock.h"
#include "base/parts.h"
#include "daemon/journal_file.h"
#include "daemon/json_text.h"
#include "daemon/user.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// The journal is bounded, and programs of one user must not fill it. So each user may add BURST events at once, and
// then one each REFILL_NS. Further events are only counted, and one event reports their number.
enum { BURST = 256, BUDGETS = 64 };
static const uint64_t REFILL_NS = 1000000000;

struct budget {
	uid_t uid;
	unsigned int left, omitted;
	uint64_t at_ns; // when `left` was last refilled; 0: this budget is not used
};

static struct journal_event events[JOURNAL_EVENTS]; // a ring buffer; `count` events were ever added
static uint64_t count;
static struct budget budgets[BUDGETS];
static struct journal_counts totals;

static const struct {
	const char *text;
	enum journal_visibility visibility;
} kinds[] = {
#define X(kind, text, visibility) {text, JOURNAL_##visibility},
	JOURNAL_KINDS(X)
#undef X
};

const char *journal_kind_text(enum journal_kind kind)
{
	return kinds[kind].text;
}

enum journal_kind journal_find_kind(const char *text)
{
	int kind = 0;

	while (kind < JOURNAL_KINDS_COUNT && strcmp(kinds[kind].text, text) != 0)
		kind++;
	return (enum journal_kind)kind;
}

static uint64_t first_kept(void)
{
	return count > JOURNAL_EVENTS ? count - JOURNAL_EVENTS : 0;
}

static struct journal_event *event_at(uint64_t index)
{
	return &events[index % JOURNAL_EVENTS];
}

static uint64_t last_number(void)
{
	return count ? event_at(count - 1)->number : 0;
}

// Returns the index of the first event with a larger number than `number`.
static uint64_t find_after(uint64_t number)
{
	uint64_t low = first_kept(), high = count;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		if (event_at(middle)->number > number)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

const struct journal_event *journal_next(uint64_t number)
{
	uint64_t index = number ? find_after(number - 1) : first_kept();

	return index < count ? event_at(index) : NULL;
}

// Makes the text valid as a JSON string: it may contain names that users chose, or end within a character.
static void clean_text(char *text)
{
	json_t *string;

	for (char *at = text; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 127)
			*at = '?';
	string = json_string(text);
	for (char *at = text; *at && !string; at++)
		if ((unsigned char)*at > 127)
			*at = '?';
	json_decref(string);
}

bool journal_restore(const struct journal_event *event)
{
	if (event->number <= last_number())
		return false;
	*event_at(count) = *event;
	clean_text(event_at(count)->vgpu);
	clean_text(event_at(count++)->text);
	return true;
}

// ---- adding ----------------------------------------------------------------------------------------------

// Returns the number for a new event. The first number of this daemon is the time in microseconds. So numbers increase
// even if the journal's files were lost.
static uint64_t next_number(void)
{
	uint64_t now = vg_clock_realtime_ns() / 1000, last = last_number();

	return now > last && !count ? now : last + 1;
}

static void append(struct node *node, struct journal_event *event)
{
	event->number = next_number();
	event->time_ns = vg_clock_realtime_ns();
	if (count >= JOURNAL_EVENTS && event_at(count)->number > journal_file_last())
		totals.lost++;
	*event_at(count++) = *event;
	totals.events++;
	journal_file_write(node);
}

static struct budget *find_budget(uid_t uid)
{
	struct budget *oldest = &budgets[0];

	for (size_t i = 0; i < BUDGETS; i++) {
		if (budgets[i].at_ns && budgets[i].uid == uid)
			return &budgets[i];
		if (budgets[i].at_ns < oldest->at_ns)
			oldest = &budgets[i];
	}
	*oldest = (struct budget){.uid = uid, .left = BURST, .at_ns = vg_clock_monotonic_ns()};
	return oldest;
}

// Takes one event from the budget of the user, whose subordinate ids share it. If events were omitted before, adds an
// event with their number. Returns false if the budget is empty.
static bool take_budget(struct node *node, uid_t owner)
{
	struct budget *budget = find_budget(owner);
	uint64_t refills = (vg_clock_monotonic_ns() - budget->at_ns) / REFILL_NS;

	if (refills) {
		budget->at_ns += refills * REFILL_NS;
		budget->left = budget->left + refills > BURST ? BURST : budget->left + (unsigned int)refills;
	}
	if (!budget->left) {
		budget->omitted++;
		totals.omitted++;
		return false;
	}
	budget->left--;
	if (!budget->omitted)
		return true;
	struct journal_event event = {.kind = JOURNAL_OMITTED,
				      .owner = owner,
				      .group = (gid_t)-1,
				      .actor = (uid_t)-1,
				      .count = budget->omitted,
				      .text = "too many events of this user in a short time"};
	budget->omitted = 0;
	append(node, &event);
	return true;
}

void journal_add(struct node *node, enum journal_kind kind, const struct journal_note *note, const char *format, ...)
{
	const struct vgpu *vgpu = note->vgpu;
	struct journal_event event = {.kind = kind,
				      .owner = vgpu	     ? vgpu->owner
					       : note->actor ? note->actor->uid
							     : geteuid(),
				      .group = vgpu ? vgpu->group : (gid_t)-1,
				      .actor = note->actor ? note->actor->uid : (uid_t)-1,
				      .pid = note->pid > 0 ? note->pid : 0,
				      .count = note->count ? note->count : 1,
				      // JSON has signed integers, and a tenant can write any number into its ledger
				      .bytes = note->bytes < INT64_MAX ? note->bytes : INT64_MAX};
	va_list arguments;

	if (!event.pid && note->actor && note->actor->pid > 0)
		event.pid = note->actor->pid;
	snprintf(event.vgpu, sizeof event.vgpu, "%s", vgpu ? vgpu->name : note->name ? note->name : "");
	snprintf(event.command, sizeof event.command, "%.*s", (int)sizeof event.command - 1,
		 note->command ? note->command : "");
	va_start(arguments, format);
	vsnprintf(event.text, sizeof event.text, format, arguments);
	va_end(arguments);
	clean_text(event.text);
	bool is_daemons = kind == JOURNAL_STARTED || kind == JOURNAL_ENDED;
	// the user who caused the event pays for it, so that a user cannot use up another user's budget
	uid_t payer = note->actor ? note->actor->uid : event.owner;
	if (is_daemons || take_budget(node, user_owner(payer)))
		append(node, &event);
}

void journal_load(struct node *node)
{
	totals.damaged_lines = journal_file_load(node);
}

struct journal_counts journal_counts(void)
{
	totals.write_errors = journal_file_errors();
	return totals;
}

// ---- listing ---------------------------------------------------------------------------------------------

static bool sees_all(const struct authority_peer *peer, const struct journal_event *event)
{
	return peer && authority_allows(AUTHORITY_TENANTS, authority_classify(peer, event->owner, event->group));
}

static bool is_wanted(const struct journal_query *query, const struct authority_peer *peer,
		      const struct journal_event *event)
{
	if ((double)event->time_ns / 1e9 < query->since || (query->vgpu && strcmp(query->vgpu, event->vgpu) != 0))
		return false;
	return kinds[event->kind].visibility != JOURNAL_PRIVATE || sees_all(peer, event);
}

static json_t *list_event(const struct authority_peer *peer, const struct journal_event *event)
{
	bool is_full = kinds[event->kind].visibility == JOURNAL_PUBLIC || sees_all(peer, event);
	bool has_actor = is_full && event->actor != (uid_t)-1;

	return json_pack("{s:I, s:f, s:s, s:s, s:o, s:I, s:o, s:o, s:I, s:I, s:o}", "number", (json_int_t)event->number,
			 "time", (double)event->time_ns / 1e9, "kind", kinds[event->kind].text, "vgpu", event->vgpu,
			 "owner", *event->vgpu ? json_user(event->owner) : json_null(), "pid",
			 (json_int_t)(is_full ? event->pid : 0), "command",
			 is_full && *event->command ? json_command(event->command) : json_null(), "user",
			 has_actor ? json_user(event->actor) : json_null(), "count", (json_int_t)event->count, "bytes",
			 (json_int_t)(is_full && event->bytes < INT64_MAX ? event->bytes : 0), "text",
			 is_full ? json_string(event->text) : json_null());
}

json_t *journal_list(const struct authority_peer *peer, const struct journal_query *query)
{
	uint64_t start = query->after > last_number() ? first_kept() : find_after(query->after), next = query->after;
	json_t *array = json_array();
	unsigned int found = 0, skip = 0;

	for (uint64_t i = start; i < count && query->newest; i++)
		found += is_wanted(query, peer, event_at(i));
	if (query->newest && found > query->most)
		skip = found - query->most;
	for (uint64_t i = start; i < count && json_array_size(array) < query->most; i++) {
		next = event_at(i)->number;
		if (!is_wanted(query, peer, event_at(i)))
			continue;
		if (skip)
			skip--;
		else
			json_array_append_new(array, list_event(peer, event_at(i)));
	}
	bool has_lost = query->after && first_kept() > 0 && query->after + 1 < event_at(first_kept())->number;
	return json_pack("{s:b, s:o, s:I, s:b, s:b}", "ok", 1, "events", array, "next", (json_int_t)next, "more",
			 (int)(next < last_number()), "lost", (int)has_lost);
}
