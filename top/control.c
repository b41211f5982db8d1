#include "top/control.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "base/size.h"
#include "top/keys.h"

enum { SHARE_STEP = 5 };

__attribute__((format(printf, 3, 4))) static enum control_result say(struct control *control, bool is_error,
								     const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(control->status, sizeof control->status, format, arguments);
	va_end(arguments);
	control->is_error = is_error;
	return CONTROL_NONE;
}

void control_report(struct control *control, bool succeeded, const char *text)
{
	say(control, !succeeded, "%s", text);
	*control->asked_vgpu = '\0';
}

// ---- what is changed -------------------------------------------------------------------------------------

// Makes the selected row the target of a request. If `is_whole` and the row is a program, the target is its vGPU.
// Returns the row, or NULL after a message.
static const struct row *choose_target(struct control *control, const struct model *model, bool is_whole)
{
	const struct row *row = model_selected(model);

	if (!row) {
		say(control, true, "no vGPU is selected");
		return NULL;
	}
	const struct vg_tenant_info *tenant = is_whole ? NULL : row->tenant;
	struct request *target = &control->target;
	*target = (struct request){.pid = tenant ? tenant->pid : 0, .started = tenant ? tenant->started : 0};
	snprintf(target->vgpu, sizeof target->vgpu, "%s", row->vgpu->name);
	if (tenant)
		snprintf(control->target_text, sizeof control->target_text, "process %lld (%.40s) of %s",
			 (long long)tenant->pid, tenant->command, row->vgpu->name);
	else
		snprintf(control->target_text, sizeof control->target_text, "%s", row->vgpu->name);
	vg_make_printable(control->target_text);
	return row;
}

static enum control_result begin_input(struct control *control, const struct model *model, enum mode mode)
{
	if (mode != MODE_FILTER && !choose_target(control, model, true))
		return CONTROL_NONE;
	control->mode = mode;
	snprintf(control->input, sizeof control->input, "%s", mode == MODE_FILTER ? model->filter : "");
	*control->status = '\0';
	return CONTROL_NONE;
}

static enum control_result request_share(struct control *control, unsigned share, struct request *ret_request)
{
	control->target.kind = REQUEST_SHARE;
	control->target.share = share;
	snprintf(control->asked_vgpu, sizeof control->asked_vgpu, "%s", control->target.vgpu);
	control->asked_share = share;
	*ret_request = control->target;
	return CONTROL_REQUEST;
}

// Raises or lowers the share by one step. While the last request has no answer, counts from the share that it asked
// for, so that quick keys add up.
static enum control_result step_share(struct control *control, const struct model *model, int step,
				      struct request *ret_request)
{
	const struct row *row = choose_target(control, model, true);

	if (!row)
		return CONTROL_NONE;
	bool is_asked = strcmp(control->asked_vgpu, row->vgpu->name) == 0;
	unsigned asked = control->asked_share == VG_SHARE_NONE ? 0 : control->asked_share;
	int share = (int)(is_asked ? asked : row->vgpu->share), next = share + step;
	if (step < 0 && !share)
		return say(control, true, "%s has no share", row->vgpu->name);
	if (step < 0 && next < 1)
		return say(control, true, "%s: its share is %d %%; s sets another one, or none", row->vgpu->name,
			   share);
	if (next > 100)
		next = 100;
	return next == share ? say(control, true, "%s: its share is 100 %%", row->vgpu->name)
			     : request_share(control, (unsigned)next, ret_request);
}

static enum control_result suspend(struct control *control, const struct model *model, struct request *ret_request)
{
	const struct row *row = choose_target(control, model, false);

	if (!row)
		return CONTROL_NONE;
	bool is_out = row->tenant ? row->tenant->eviction.suspended || row->tenant->deep != VG_DEEP_NONE
				  : row->vgpu->suspended || strstr(row->vgpu->eviction_state, "suspended") != NULL;
	if (!is_out && !row->vgpu->evictable)
		return say(control, true, "%s is not evictable: `virgate suspend --deep %s` suspends it by the driver",
			   row->vgpu->name, row->vgpu->name);
	if (row->tenant && (row->tenant->guest || row->tenant->ended || row->tenant->outside))
		return say(control, true, "%s cannot be suspended: it is a guest, has ended or is outside",
			   control->target_text);
	control->target.kind = is_out ? REQUEST_RESUME : REQUEST_SUSPEND;
	*ret_request = control->target;
	say(control, false, "%s %s", is_out ? "resuming" : "suspending", control->target_text);
	return CONTROL_REQUEST;
}

static enum control_result ask_kill(struct control *control, const struct model *model)
{
	const struct row *row = choose_target(control, model, false);

	if (!row)
		return CONTROL_NONE;
	if (row->tenant && row->tenant->ended)
		return say(control, true, "%s has ended", control->target_text);
	if (!row->tenant && row->vgpu->tenants_known && count_programs(row->vgpu) == 0)
		return say(control, true, "no program runs in %s", row->vgpu->name);
	if (!row->tenant && row->vgpu->tenants_known)
		snprintf(control->target_text, sizeof control->target_text, "%zu program%s of %s",
			 count_programs(row->vgpu), count_programs(row->vgpu) == 1 ? "" : "s", row->vgpu->name);
	control->mode = MODE_KILL;
	*control->status = '\0';
	return CONTROL_NONE;
}

// ---- what is shown ---------------------------------------------------------------------------------------

static enum control_result sort_by(struct control *control, struct model *model, enum sort_key key)
{
	model->sort = key;
	model->is_reversed = false;
	model_arrange(model);
	model_select_first(model);
	return say(control, false, "sorted by %s", sort_name(key));
}

static enum control_result reverse(struct control *control, struct model *model)
{
	model->is_reversed = !model->is_reversed;
	model_arrange(model);
	return say(control, false, "sorted by %s%s", sort_name(model->sort), model->is_reversed ? ", reversed" : "");
}

static enum control_result show_next_view(struct control *control, struct model *model)
{
	static const char *const names[VIEW_COUNT] = {"vGPUs and their programs", "vGPUs alone",
						      "programs of all vGPUs"};

	model->view = (model->view + 1) % VIEW_COUNT;
	model_arrange(model);
	return say(control, false, "shows %s", names[model->view]);
}

static enum control_result follow(struct control *control, struct model *model)
{
	const struct row *row = model_selected(model);

	*control->status = '\0';
	if (*model->followed)
		*model->followed = '\0';
	else if (row)
		snprintf(model->followed, sizeof model->followed, "%s", row->vgpu->name);
	else
		return say(control, true, "no vGPU is selected");
	model_arrange(model);
	return CONTROL_NONE;
}

static enum control_result go_back(struct control *control, struct model *model)
{
	*control->status = '\0';
	if (*model->followed)
		*model->followed = '\0';
	else
		*model->filter = '\0';
	model_arrange(model);
	return CONTROL_NONE;
}

static enum control_result change_mode(struct control *control, enum mode mode)
{
	control->mode = mode;
	*control->status = '\0';
	return CONTROL_NONE;
}

static enum control_result move(const struct control *control, struct model *model, enum action action)
{
	long all = (long)model->row_count, page = control->page;
	const long rows[] = {[ACTION_UP] = -1,		[ACTION_DOWN] = 1,     [ACTION_PAGE_UP] = -page,
			     [ACTION_PAGE_DOWN] = page, [ACTION_FIRST] = -all, [ACTION_LAST] = all};

	model_move(model, rows[action]);
	return CONTROL_NONE;
}

static enum control_result act(struct control *control, struct model *model, const struct binding *row,
			       struct request *ret_request)
{
	switch (row->action) {
	case ACTION_UP ... ACTION_LAST:
		return move(control, model, row->action);
	case ACTION_SORT:
		return sort_by(control, model, (enum sort_key)row->number);
	case ACTION_SORT_NEXT:
		return sort_by(control, model, (model->sort + 1) % SORT_COUNT);
	case ACTION_SORT_PREVIOUS:
		return sort_by(control, model, (model->sort + SORT_COUNT - 1) % SORT_COUNT);
	case ACTION_REVERSE:
		return reverse(control, model);
	case ACTION_VIEW:
		return show_next_view(control, model);
	case ACTION_FILTER:
		return begin_input(control, model, MODE_FILTER);
	case ACTION_FOLLOW:
		return follow(control, model);
	case ACTION_WAITS:
		return change_mode(control, MODE_WAITS);
	case ACTION_LIMIT:
		return begin_input(control, model, MODE_LIMIT);
	case ACTION_SHARE:
		return begin_input(control, model, MODE_SHARE);
	case ACTION_SHARE_MORE:
		return step_share(control, model, SHARE_STEP, ret_request);
	case ACTION_SHARE_LESS:
		return step_share(control, model, -SHARE_STEP, ret_request);
	case ACTION_SUSPEND:
		return suspend(control, model, ret_request);
	case ACTION_KILL:
		return ask_kill(control, model);
	case ACTION_HELP:
		return change_mode(control, MODE_HELP);
	case ACTION_BACK:
		return go_back(control, model);
	case ACTION_QUIT:
		return CONTROL_QUIT;
	default:
		return CONTROL_NONE;
	}
}

// ---- input and questions ---------------------------------------------------------------------------------

static enum control_result finish_limit(struct control *control, struct request *ret_request)
{
	int error = vg_size_parse(control->input, &control->target.memory);

	if (error || !control->target.memory)
		return say(control, true, "\"%s\" %s", control->input,
			   error ? vg_size_error_text(error) : "is no limit: give a size above 0");
	control->target.kind = REQUEST_LIMIT;
	*ret_request = control->target;
	return CONTROL_REQUEST;
}

static enum control_result finish_share(struct control *control, struct request *ret_request)
{
	char *end;
	long percent = strtol(control->input, &end, 10);

	if (strcmp(control->input, "none") == 0 || strcmp(control->input, "0") == 0)
		return request_share(control, VG_SHARE_NONE, ret_request);
	if (*end || percent < 1 || percent > 100)
		return say(control, true, "\"%s\" is not a share: give 1 to 100, or none", control->input);
	return request_share(control, (unsigned)percent, ret_request);
}

static enum control_result finish_input(struct control *control, struct request *ret_request)
{
	enum mode mode = control->mode;

	control->mode = MODE_TABLE;
	if (mode == MODE_FILTER || !*control->input)
		return CONTROL_NONE;
	return mode == MODE_LIMIT ? finish_limit(control, ret_request) : finish_share(control, ret_request);
}

// Applies the filter to the table at each key that the user types into it.
static void apply_filter(struct control *control, struct model *model)
{
	if (control->mode != MODE_FILTER)
		return;
	snprintf(model->filter, sizeof model->filter, "%s", control->input);
	model_arrange(model);
}

static enum control_result type_key(struct control *control, struct model *model, uint32_t key,
				    struct request *ret_request)
{
	size_t length = strlen(control->input);

	if (key == KEYS_ENTER)
		return finish_input(control, ret_request);
	if (key == KEYS_ESCAPE) {
		*control->input = '\0';
		apply_filter(control, model);
		control->mode = MODE_TABLE;
		return CONTROL_NONE;
	}
	if (key == KEYS_BACKSPACE && length)
		control->input[length - 1] = '\0';
	else if (key >= 0x20 && key < 0x7f && length + 1 < sizeof control->input)
		memcpy(control->input + length, (const char[2]){(char)key}, 2);
	apply_filter(control, model);
	return CONTROL_NONE;
}

static enum control_result answer_kill(struct control *control, uint32_t key, struct request *ret_request)
{
	control->mode = MODE_TABLE;
	if (key != 'y' && key != 'K')
		return say(control, false, "no signal was sent");
	control->target.kind = REQUEST_SIGNAL;
	control->target.signal = key == 'y' ? SIGTERM : SIGKILL;
	*ret_request = control->target;
	return CONTROL_REQUEST;
}

// Any key closes a page. The key then also does what it does in the table, unless it is the key that opened the page,
// or one that only goes back.
static enum control_result leave_page(struct control *control, struct model *model, const struct binding *row,
				      struct request *ret_request)
{
	enum mode mode = control->mode;

	control->mode = MODE_TABLE;
	if (!row || row->action == ACTION_BACK || row->action == ACTION_FOLLOW ||
	    (row->action == ACTION_HELP && mode == MODE_HELP) || (row->action == ACTION_WAITS && mode == MODE_WAITS))
		return CONTROL_NONE;
	return act(control, model, row, ret_request);
}

enum control_result control_key(struct control *control, struct model *model, uint32_t key, struct request *ret_request)
{
	const struct binding *row = binding_find(key);

	switch (control->mode) {
	case MODE_FILTER:
	case MODE_LIMIT:
	case MODE_SHARE:
		return type_key(control, model, key, ret_request);
	case MODE_KILL:
		return answer_kill(control, key, ret_request);
	case MODE_HELP:
	case MODE_WAITS:
		return leave_page(control, model, row, ret_request);
	default:
		return row ? act(control, model, row, ret_request) : CONTROL_NONE;
	}
}

const char *control_prompt(const struct control *control, char *buffer, size_t capacity)
{
	switch (control->mode) {
	case MODE_FILTER:
		snprintf(buffer, capacity, "Filter: %s_   (Enter: keep, Esc: clear)", control->input);
		return buffer;
	case MODE_LIMIT:
		snprintf(buffer, capacity, "Limit of %s: %s_   (such as 8G; Enter: set, Esc: leave)",
			 control->target_text, control->input);
		return buffer;
	case MODE_SHARE:
		snprintf(buffer, capacity, "Share of %s: %s_   (1 to 100, or none; Enter: set, Esc: leave)",
			 control->target_text, control->input);
		return buffer;
	case MODE_KILL:
		snprintf(buffer, capacity, "Send TERM to %s?  y: yes   K: KILL   other keys: no", control->target_text);
		return buffer;
	default:
		return NULL;
	}
}
