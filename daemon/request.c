// The verbs. Every refusal is a whole sentence with the figures and what to do about it.
#include "base/clock.h"
#include "base/hint.h"
#include "base/parts.h"
#include "base/size.h"
#include "daemon/mps.h"
#include "daemon/terms.h"
#include "daemon/request.h"
#include "daemon/user.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

json_t *refuse(const char *code, const char *format, ...)
{
	char text[2048];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	return json_pack("{s:b, s:s, s:s}", "ok", 0, "code", code, "message", text);
}

static json_t *agree(void)
{
	return json_pack("{s:b}", "ok", 1);
}

json_t *answer_later(const struct request *request)
{
	request->node->later = true;
	return NULL;
}

json_t *agree_with(const char *key, json_t *value)
{
	return json_pack("{s:b, s:o}", "ok", 1, key, value);
}

const char *text_of(const struct request *request, const char *key)
{
	return json_string_value(json_object_get(request->object, key));
}

static json_t *not_allowed(const struct request *request, const struct vgpu *vgpu)
{
	static const char *const actions[AUTHORITY_VERBS] = {
		[AUTHORITY_ENTER] = "run programs in it",
		[AUTHORITY_SET] = "change it",
		[AUTHORITY_RM] = "remove it",
		[AUTHORITY_KILL] = "send signals to its programs",
		[AUTHORITY_TENANTS] = "see its programs",
		[AUTHORITY_INSPECT] = "see its programs",
		[AUTHORITY_LOGS] = "see what it refused",
	};
	const char *action = actions[request->verb] ? actions[request->verb] : authority_verb_text(request->verb);
	const struct passwd *owner = getpwuid(vgpu->owner);
	const struct group *group = vgpu->group == (gid_t)-1 ? NULL : getgrgid(vgpu->group);
	bool for_group = vgpu->group != (gid_t)-1 && authority_allows(request->verb, AUTHORITY_GROUP);
	char user_number[16], group_number[16], members[96] = "";

	snprintf(user_number, sizeof user_number, "%u", (unsigned int)vgpu->owner);
	snprintf(group_number, sizeof group_number, "%u", (unsigned int)vgpu->group);
	if (for_group)
		snprintf(members, sizeof members, ", members of the group %.60s",
			 group ? group->gr_name : group_number);
	return refuse("denied", "vGPU %s: only its owner (%s)%s and root may %s", vgpu->name,
		      owner ? owner->pw_name : user_number, members, action);
}

struct vgpu *request_vgpu(const struct request *request, const char *key, json_t **ret_refusal)
{
	const char *name = text_of(request, key);

	if (!name || !registry_name_is_valid(name)) {
		*ret_refusal = refuse("invalid", "\"%s\" has no proper name of a vGPU in \"%s\"",
				      authority_verb_text(request->verb), key);
		return NULL;
	}
	struct vgpu *vgpu = registry_find(request->node, name);
	if (!vgpu) {
		*ret_refusal = refuse("not_found", "there is no vGPU %s: `virgate ps%s` lists them", name, sim_flag());
		return NULL;
	}
	if (!authority_allows(request->verb, authority_classify(request->peer, vgpu->owner, vgpu->group))) {
		*ret_refusal = not_allowed(request, vgpu);
		return NULL;
	}
	return vgpu;
}

const char *sim_flag(void)
{
	static char text[VG_HINT_SIM];

	return vg_hint_sim(vg_simulation_wanted(), text);
}

// Somebody who wants other GPUs than this daemon's must not get these unnoticed. "1" is content
// with any simulated one; who says nothing asks for none in particular.
json_t *other_gpus(const struct request *request)
{
	const char *wanted = text_of(request, "simulate"), *served = vg_simulation_wanted();
	const struct node *node = request->node;
	char instead[240] = "a real one", way[300] = "";

	if (!wanted || strcmp(wanted, served) == 0 || (strcmp(wanted, "1") == 0 && *served))
		return NULL;
	if (*wanted)
		snprintf(instead, sizeof instead, "\"%.200s\"", wanted);
	if (!*served)
		return refuse("invalid",
			      "the daemon in %.200s serves this machine's GPUs, not the simulated %s: name another "
			      "directory in VIRGATE_RUNTIME_DIR for that",
			      node->runtime_dir, instead);
	if (!node->system_wide) // --sim alone leads to a daemon of its own
		snprintf(way, sizeof way, " and VIRGATE_RUNTIME_DIR=%.200s", node->runtime_dir);
	return refuse("invalid",
		      "the daemon in %.200s serves the simulated GPU \"%.200s\", not %s: reach it with --sim=%.200s%s (its "
		      "node is in %.200s), or end it with `virgate shutdown`",
		      node->runtime_dir, served, instead, served, way, vg_system_simulated_directory(node->system));
}

static json_t *take_memory(const struct request *request, uint64_t *ret_memory)
{
	const json_t *value = json_object_get(request->object, "memory");

	if (!json_is_integer(value) || json_integer_value(value) <= 0)
		return refuse("invalid", "\"memory\" must be a number of bytes above 0");
	*ret_memory = (uint64_t)json_integer_value(value);
	return NULL;
}

// Without a size, a share of the GPU's time brings the same part of its memory, in whole blocks of the device.
static json_t *take_memory_or_part(const struct request *request, struct vgpu *wanted)
{
	uint64_t memory = vg_system_device(request->node->system, wanted->device)->memory;

	if (json_object_get(request->object, "memory") || !wanted->terms.share)
		return take_memory(request, &wanted->memory);
	wanted->memory = memory / 100 * wanted->terms.share >> 21 << 21;
	return NULL;
}

// Returns the device with the most memory left among those where the share fits; if it fits nowhere, among all.
static size_t roomiest_device(const struct node *node, unsigned int share)
{
	size_t best = 0;
	uint64_t most = 0;
	bool fits = false;

	for (size_t i = 0; i < vg_system_device_count(node->system); i++) {
		uint64_t reserved = admission_promised(node, i), memory = vg_system_device(node->system, i)->memory;
		uint64_t room = memory > reserved ? memory - reserved : 0;
		bool fits_here = terms_fit(node, i, share);
		if (fits_here != fits ? fits_here : room > most) {
			most = room;
			best = i;
			fits = fits_here;
		}
	}
	return best;
}

static json_t *take_device(const struct request *request, unsigned int share, size_t *ret_device)
{
	const json_t *value = json_object_get(request->object, "device");
	const char *text = json_string_value(value);
	const struct node *node = request->node;
	size_t count = vg_system_device_count(node->system);
	uint8_t uuid[16];
	char number[24];

	if (!value || json_is_null(value)) {
		*ret_device = roomiest_device(node, share);
		return NULL;
	}
	if (json_is_integer(value)) {
		snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
		text = number;
	}
	if (!text || !*text)
		return refuse("invalid", "\"device\" must be a GPU's index or UUID");
	char *end;
	errno = 0;
	unsigned long index = strtoul(text, &end, 10);
	if (*text >= '0' && *text <= '9' && !*end && errno == 0 && index < count) {
		*ret_device = index;
		return NULL;
	}
	for (size_t i = 0; vg_system_uuid_parse(text, uuid) && i < count; i++) {
		if (memcmp(vg_system_device(node->system, i)->uuid, uuid, sizeof uuid) == 0) {
			*ret_device = i;
			return NULL;
		}
	}
	return refuse("not_found", "there is no GPU %.60s: this node has %zu, see `virgate devices%s`", text, count,
		      sim_flag());
}

// Root makes vGPUs for other users, as a restore of their programs does.
static json_t *take_owner(const struct request *request, uid_t *ret_owner)
{
	const json_t *value = json_object_get(request->object, "owner");
	const char *name = json_string_value(value);
	char *end;

	if (!value || json_is_null(value))
		return NULL;
	if (!name || !*name)
		return refuse("invalid", "\"owner\" must be a user's name or number");
	const struct passwd *entry = getpwnam(name);
	unsigned long number = strtoul(name, &end, 10);
	if (!entry && (*name < '0' || *name > '9' || *end || number >= (uid_t)-1))
		return refuse("not_found", "there is no user %.60s", name);
	uid_t owner = entry ? entry->pw_uid : (uid_t)number;
	if (request->peer->uid != 0 && request->peer->uid != owner)
		return refuse("denied", "a vGPU for user %.60s is for that user and root to make", name);
	if (!request->node->system_wide && owner != request->peer->uid && owner != geteuid())
		return refuse("invalid",
			      "a vGPU for user %.60s needs the system's daemon: this one serves user %u only", name,
			      (unsigned int)geteuid());
	*ret_owner = owner;
	return NULL;
}

json_t *take_group(const struct request *request, gid_t *ret_group)
{
	const json_t *value = json_object_get(request->object, "group");
	const char *name = json_string_value(value);
	bool member = request->peer->uid == 0;

	if (!value || json_is_null(value))
		return NULL;
	if (!name)
		return refuse("invalid", "\"group\" must be a group's name");
	if (!request->node->system_wide)
		return refuse("invalid", "a group needs the system's daemon: this one serves its own user only");
	struct group *entry = getgrnam(name);
	if (!entry)
		return refuse("not_found", "there is no group %.60s", name);
	for (size_t i = 0; i < request->peer->group_count; i++)
		member |= request->peer->groups[i] == entry->gr_gid;
	if (!member)
		return refuse("denied", "you are not in the group %.60s", name);
	*ret_group = entry->gr_gid;
	return NULL;
}

enum { FIGURE = VG_SIZE_TEXT + 32 };

// "8.0 GiB", and its bytes too where the figure that it is compared with would read the same.
static const char *figure(uint64_t bytes, uint64_t beside, char text[FIGURE])
{
	char other[VG_SIZE_TEXT];
	size_t length = strlen(vg_size_format(bytes, text));

	if (bytes != beside && strcmp(text, vg_size_format(beside, other)) == 0)
		snprintf(text + length, FIGURE - length, " (%llu bytes)", (unsigned long long)bytes);
	return text;
}

static json_t *refuse_second_arbiter(size_t device, const struct admission *figures)
{
	return refuse("limit",
		      "GPU %zu: another daemon, of user %u, holds compute shares there, and two daemons cannot: ask for "
		      "memory without a share and class, wait until its programs have ended, or have root start the "
		      "system's daemon for all users (virgated --system)",
		      device, (unsigned int)figures->user);
}

static json_t *no_room(const struct request *request, size_t device, uint64_t asked, const struct admission *figures)
{
	char text[4][FIGURE];
	uint64_t reserved = figures->own + figures->others < figures->own ? UINT64_MAX : figures->own + figures->others;
	uint64_t left = reserved < figures->total ? figures->total - reserved : 0;

	if (asked > figures->total)
		return refuse("limit", "asked for %s, larger than GPU %zu (%s)%s%s%s",
			      figure(asked, figures->total, text[0]), device, figure(figures->total, asked, text[1]),
			      reserved ? ", of which " : "",
			      !reserved ? "" : left ? vg_size_format(left, text[2]) : "nothing",
			      reserved ? " is left" : "");
	if (!left)
		return refuse("limit",
			      "GPU %zu: asked for %s, but nothing is left: other vGPUs reserve all of its %s; shrink "
			      "or remove one of them%s",
			      device, vg_size_format(asked, text[0]), vg_size_format(figures->total, text[1]),
			      vg_system_device_count(request->node->system) > 1 ? ", or choose another GPU" : "");
	return refuse("limit",
		      "GPU %zu: asked for %s, but %s is left: other vGPUs reserve %s of its %s; ask for less, or shrink "
		      "or remove one of them",
		      device, figure(asked, left, text[0]), figure(left, asked, text[1]),
		      vg_size_format(reserved, text[2]), vg_size_format(figures->total, text[3]));
}

// Room for `memory` and `terms` on the device, for a new vGPU or in place of what `instead_of` has: NULL, or why not.
static json_t *admit(const struct request *request, size_t device, uint64_t memory, const struct turn_terms *terms,
		     const struct vgpu *instead_of)
{
	struct admission figures;
	int r = admission_check(request->node, device, memory, terms, instead_of, &figures);

	if (r < 0)
		return refuse(
			"system",
			"GPU %zu: what users' daemons promise each other in %.200s cannot be read and written (%s): "
			"mend or remove it, or run the system's daemon",
			device, request->node->claims_dir, strerror(-r));
	if (r && figures.others_have_turns)
		return refuse_second_arbiter(device, &figures);
	return r ? no_room(request, device, memory, &figures) : NULL;
}

// A vGPU that no context fits in would serve nobody.
static json_t *too_small(const struct request *request, size_t device, uid_t owner, uint64_t memory)
{
	char text[2][VG_SIZE_TEXT];
	bool measured;
	uint64_t least = overhead_estimate(request->node, device, owner, &measured);

	if (memory >= least)
		return NULL;
	return refuse("invalid",
		      "GPU %zu: asked for %s, but a CUDA context alone takes %s there: ask for more than that", device,
		      vg_size_format(memory, text[0]), vg_size_format(least, text[1]));
}

static void name_after_process(const struct request *request, char name[VG_LEDGER_NAME])
{
	snprintf(name, VG_LEDGER_NAME, "v-%d", (int)request->peer->pid);
	for (int more = 2; registry_find(request->node, name); more++)
		snprintf(name, VG_LEDGER_NAME, "v-%d-%d", (int)request->peer->pid, more);
}

// Reads, admits and makes a vGPU as `create` or an `enter` without a name has it. NULL and no vGPU: the answer comes
// later.
static json_t *make_vgpu(const struct request *request, bool ephemeral, struct vgpu **ret_vgpu)
{
	struct vgpu wanted = {.ephemeral = ephemeral, .owner = request->peer->uid, .group = (gid_t)-1};
	const char *name = text_of(request, "name");
	bool named = json_object_get(request->object, "name") != NULL;
	json_t *refusal;

	if (named || !ephemeral)
		snprintf(wanted.name, sizeof wanted.name, "%s", name ? name : "");
	else
		name_after_process(request, wanted.name);
	if ((name && strlen(name) >= sizeof wanted.name) || !registry_name_is_valid(wanted.name))
		return refuse(
			"invalid",
			"a vGPU's name has 1 to 63 letters, digits, '.', '_' and '-', and begins with a letter or "
			"a digit");
	if (registry_find(request->node, wanted.name))
		return refuse("exists", "there is a vGPU %s already: enter it with `--vgpu %s`, or choose another name",
			      wanted.name, wanted.name);
	if ((refusal = terms_take(request, &wanted.terms)) ||
	    (refusal = take_device(request, wanted.terms.share, &wanted.device)) ||
	    (refusal = take_memory_or_part(request, &wanted)) || (refusal = take_group(request, &wanted.group)) ||
	    (refusal = take_owner(request, &wanted.owner)))
		return refusal;
	if ((refusal = too_small(request, wanted.device, wanted.owner, wanted.memory)))
		return refusal;
	if (user_is_limited(request->node, wanted.owner) && user_of(wanted.owner)->vgpus >= USER_VGPUS)
		return refuse("limit", "vGPU %s: its owner has %u vGPUs, and %d are the most: remove some", wanted.name,
			      user_of(wanted.owner)->vgpus, USER_VGPUS);
	bool ready = true;
	refusal = ephemeral ? mps_enter(request, &wanted, &ready) : mps_admit(request, &wanted);
	if (refusal || !ready)
		return refusal;
	wanted.created = (double)vg_clock_realtime_ns() / 1e9;
	if ((refusal = terms_admit(request, wanted.device, &wanted.terms, NULL)) ||
	    (refusal = admit(request, wanted.device, wanted.memory, &wanted.terms, NULL)))
		return refusal;
	int r = registry_add(request->node, &wanted, ret_vgpu);
	if (r < 0) {
		admission_publish(request->node);
		return refuse("system", "the ledger of vGPU %s cannot be made: %s", wanted.name, strerror(-r));
	}
	return NULL;
}

// Whoever entered keeps the vGPU, so it must be watched: NULL, or why it cannot be. One made for it goes again.
static json_t *add_launcher(const struct request *request, struct vgpu *vgpu)
{
	pid_t pid = request->peer->pid;
	int r = pid > 0 ? launcher_add(request->node, vgpu, request->peer) : 0;
	struct rlimit files = {0};

	if (r != -EMFILE && r != -ENFILE && r != -ENOMEM)
		return NULL;
	getrlimit(RLIMIT_NOFILE, &files);
	json_t *refusal = refuse("system",
				 "vGPU %s: the daemon cannot watch process %d (%s; it may open %llu files): end some "
				 "programs, or raise its limit (LimitNOFILE, ulimit -Hn where it was started)",
				 vgpu->name, (int)pid, strerror(-r), (unsigned long long)files.rlim_cur);
	if (vgpu->ephemeral && !vgpu->launchers && !vgpu->tenants)
		registry_drop(request->node, vgpu);
	admission_publish(request->node);
	return refusal;
}

static json_t *answer_create(const struct request *request)
{
	bool ephemeral = json_is_true(json_object_get(request->object, "ephemeral"));
	struct vgpu *vgpu = NULL;
	json_t *refusal = make_vgpu(request, ephemeral, &vgpu);

	if (refusal || !vgpu)
		return refusal;
	if (ephemeral && (refusal = add_launcher(request, vgpu)))
		return refusal;
	int r = ephemeral ? 0 : state_save(request->node);
	if (r < 0) { // promised is what survives
		refusal = refuse("system", "vGPU %s cannot be remembered: %s: %s", vgpu->name,
				 request->node->state_path, strerror(-r));
		registry_drop(request->node, vgpu);
		admission_publish(request->node);
		return refusal;
	}
	admission_publish(request->node);
	state_save_runtime(request->node);
	return agree_with("vgpu", listing_vgpu(request->node, vgpu, true));
}

// NULL, or why nobody can enter it, or change it, now.
static json_t *refuse_use(const struct vgpu *vgpu)
{
	if (vgpu->removing)
		return refuse("busy", "vGPU %s is being removed: its programs are ending", vgpu->name);
	return vgpu->damage ? damage_refuse(vgpu) : NULL;
}

static json_t *answer_enter(const struct request *request)
{
	struct node *node = request->node;
	bool named = json_object_get(request->object, "vgpu") != NULL;
	struct vgpu *vgpu = NULL;
	json_t *refusal = NULL;

	if (!named && request->peer->pid <= 0) // its vGPU would go at once, as its launcher's end cannot be seen
		return refuse("invalid",
			      "the daemon cannot see your process (it is in another container): create a vGPU and "
			      "enter that");
	if (named)
		vgpu = request_vgpu(request, "vgpu", &refusal);
	else
		refusal = make_vgpu(request, true, &vgpu);
	if (refusal || !vgpu)
		return refusal;
	tenant_scan(node, vgpu);
	if (damage_is_undecided(node, vgpu))
		return answer_later(request);
	if ((refusal = refuse_use(vgpu)))
		return refusal;
	// The claims of others may have grown while no daemon of ours was there to say ours.
	if (named && (refusal = admit(request, vgpu->device, vgpu->memory, &vgpu->terms, vgpu)))
		return refusal;
	bool ready = true;
	if (named && ((refusal = mps_enter(request, vgpu, &ready)) || !ready))
		return refusal;
	if ((refusal = add_launcher(request, vgpu)))
		return refusal;
	admission_publish(node);
	state_save_runtime(node);
	json_t *answer = json_pack("{s:b, s:s, s:s, s:s, s:I}", "ok", 1, "name", vgpu->name, "ledger", vgpu->path,
				   "uuid", vg_system_device(node->system, vgpu->device)->uuid_text, "memory",
				   (json_int_t)vgpu->memory);
	terms_write(answer, &vgpu->terms);
	if (vgpu->terms.is_mps)
		json_object_set_new(answer, "mps_pipe", json_string(mps_pipe_directory(node, vgpu)));
	if (*vg_simulation_wanted()) { // the tenant must find the very GPU that we serve
		json_object_set_new(answer, "simulate", json_string(vg_simulation_wanted()));
		json_object_set_new(answer, "simulate_dir", json_string(vg_system_simulated_directory(node->system)));
	}
	return answer;
}

static int remember(struct node *node, const struct vgpu *vgpu)
{
	int r = vgpu->ephemeral ? 0 : state_save(node);

	state_save_runtime(node);
	return r;
}

static json_t *not_remembered(const struct request *request, const struct vgpu *vgpu, int r)
{
	return refuse("system", "vGPU %s is not changed, because that cannot be remembered: %s: %s", vgpu->name,
		      request->node->state_path, strerror(-r));
}

static json_t *limit_stays(const struct request *request, const struct vgpu *vgpu, int r, uint64_t memory,
			   uint64_t charged)
{
	char text[3][FIGURE];

	admission_publish(request->node);
	if (r != VG_LEDGER_REFUSED)
		return refuse("busy", "vGPU %s: its ledger changes too fast, try again", vgpu->name);
	return refuse("limit",
		      "vGPU %s: asked for a limit of %s, but %s is in use (%s of it overhead): end or shrink a program "
		      "first",
		      vgpu->name, figure(memory, charged, text[0]), figure(charged, memory, text[1]),
		      vg_size_format(vg_ledger_overhead(vgpu->ledger), text[2]));
}

// A limit is remembered before it is raised, and after it was lowered: the next daemon believes what is remembered, and
// no ledger may allow more.
static json_t *set_memory(const struct request *request, struct vgpu *vgpu, uint64_t memory)
{
	uint64_t charged = 0, before = vgpu->memory;
	bool raised = memory > before;
	json_t *refusal;
	int r = 0;

	if (raised && (refusal = admit(request, vgpu->device, memory, &(struct turn_terms){0}, vgpu)))
		return refusal;
	if (raised) {
		vgpu->memory = memory;
		r = remember(request->node, vgpu);
	}
	if (r < 0) {
		vgpu->memory = before;
		admission_publish(request->node);
		return not_remembered(request, vgpu, r);
	}
	r = vg_ledger_set_limit(vgpu->ledger, memory, &charged);
	vgpu->memory = r ? before : memory;
	if (r && raised)
		remember(request->node, vgpu);
	return r ? limit_stays(request, vgpu, r, memory, charged) : NULL;
}

static json_t *answer_set(const struct request *request)
{
	json_t *refusal = NULL;
	struct vgpu *vgpu = request_vgpu(request, "name", &refusal);
	bool has_memory = json_object_get(request->object, "memory") != NULL;
	uint64_t memory = 0;
	struct turn_terms terms = vgpu ? vgpu->terms : (struct turn_terms){0};

	if (!vgpu)
		return refusal;
	tenant_scan(request->node, vgpu);
	if (damage_is_undecided(request->node, vgpu))
		return answer_later(request);
	if ((refusal = refuse_use(vgpu)))
		return refusal;
	if (has_memory &&
	    ((refusal = take_memory(request, &memory)) || (refusal = too_small(request, vgpu->device, vgpu->owner, memory))))
		return refusal;
	if ((refusal = terms_take_share(request, &terms.share)) ||
	    (refusal = terms_admit(request, vgpu->device, &terms, vgpu)))
		return refusal;
	terms.is_limit &= terms.share > 0;
	bool joins = terms.share && !vgpu->terms.share && !vgpu->terms.is_latency;
	if (joins && (refusal = admit(request, vgpu->device, vgpu->memory, &terms, vgpu)))
		return refusal;
	if (has_memory && (refusal = set_memory(request, vgpu, memory)))
		return refusal;
	vgpu->terms = terms;
	vg_ledger_set_share(vgpu->ledger, terms.share);
	admission_publish(request->node);
	int r = remember(request->node, vgpu);
	if (r < 0)
		return refuse("system", "vGPU %s is changed, but that cannot be remembered: %s: %s", vgpu->name,
			      request->node->state_path, strerror(-r));
	return agree_with("vgpu", listing_vgpu(request->node, vgpu, true));
}

static json_t *answer_kill(const struct request *request)
{
	json_t *refusal = NULL;
	struct vgpu *vgpu = request_vgpu(request, "name", &refusal);
	json_int_t signal = json_integer_value(json_object_get(request->object, "signal"));

	if (!vgpu)
		return refusal;
	if (signal < 1 || signal > SIGRTMAX)
		return refuse("invalid", "\"signal\" must be a number from 1 to %d", SIGRTMAX);
	tenant_scan(request->node, vgpu);
	if (!tenant_are_proven(request->node, vgpu))
		return answer_later(request);
	struct signalled signalled = tenant_signal_all(request->node, vgpu, (int)signal);
	say("vGPU %s: process %d of user %u had signal %d sent to %u process%s", vgpu->name, (int)request->peer->pid,
	    (unsigned int)request->peer->uid, (int)signal, signalled.count, signalled.count == 1 ? "" : "es");
	if (signalled.failed)
		return refuse("system", "vGPU %s: signal %d cannot be sent to process %d: %s (%u got it, %u did not)",
			      vgpu->name, (int)signal, (int)signalled.pid, strerror(signalled.error), signalled.count,
			      signalled.failed);
	return agree_with("signalled", json_integer(signalled.count));
}

static json_t *answer_list(const struct request *request)
{
	return agree_with("vgpus", listing_vgpus(request->node, request->peer));
}

static json_t *answer_inspect(const struct request *request)
{
	json_t *refusal = NULL;
	struct vgpu *vgpu = request_vgpu(request, "name", &refusal);

	return vgpu ? agree_with("vgpu", listing_vgpu(request->node, vgpu, true)) : refusal;
}

static json_t *answer_logs(const struct request *request)
{
	json_t *refusal = NULL;
	struct vgpu *vgpu = request_vgpu(request, "name", &refusal);

	return vgpu ? agree_with("refusals", listing_refusals(vgpu)) : refusal;
}

static json_t *answer_devices(const struct request *request)
{
	return agree_with("devices", listing_devices(request->node));
}

static json_t *answer_ping(const struct request *request)
{
	return json_pack("{s:b, s:i, s:s, s:s, s:s}", "ok", 1, "pid", (int)getpid(), "version", VIRGATE_VERSION,
			 "simulate", vg_simulation_wanted(), "simulate_dir",
			 vg_system_simulated_directory(request->node->system));
}

static json_t *answer_publications(const struct request *request)
{
	return agree_with("publications", listing_publications(request->node, request->peer));
}

static json_t *answer_shutdown(const struct request *request)
{
	enum authority_class class = authority_classify(request->peer, geteuid(), (gid_t)-1);

	if (!authority_allows(AUTHORITY_SHUTDOWN, class))
		return refuse("denied", "only root and the daemon's own user may end it");
	say("told to end by process %d", (int)request->peer->pid);
	request->node->leaving = true;
	request->node->told_to_end = true;
	return agree();
}

static const struct {
	enum authority_verb verb;
	json_t *(*answer)(const struct request *request);
} verbs[] = {
	{AUTHORITY_CREATE, answer_create}, {AUTHORITY_ENTER, answer_enter},	{AUTHORITY_SET, answer_set},
	{AUTHORITY_RM, removal_answer},	   {AUTHORITY_KILL, answer_kill},
	{AUTHORITY_EXEMPT, terms_exempt},
	{AUTHORITY_LIST, answer_list},	   {AUTHORITY_INSPECT, answer_inspect},
	{AUTHORITY_LOGS, answer_logs},	   {AUTHORITY_DEVICES, answer_devices}, {AUTHORITY_PING, answer_ping},
	{AUTHORITY_SHUTDOWN, answer_shutdown}, {AUTHORITY_PUBLICATIONS, answer_publications},
};

json_t *request_answer(struct node *node, const struct authority_peer *peer, const char *text)
{
	json_error_t error;
	json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, &error), *answer = NULL;
	const char *op = json_string_value(json_object_get(object, "op"));
	struct request request = {.node = node, .peer = peer, .object = object};

	listing_begin();
	node->later = false;
	if (!json_is_object(object))
		answer = refuse("invalid", "the request is not a JSON object: %s",
				object ? "another kind of value" : error.text);
	else if (!op)
		answer = refuse("invalid", "the request has no \"op\"");
	for (size_t i = 0; !answer && i < sizeof verbs / sizeof *verbs; i++) {
		if (strcmp(op, authority_verb_text(verbs[i].verb)) != 0)
			continue;
		request.verb = verbs[i].verb;
		// Whichever daemon it is may be asked whether it is there, and told to end.
		if (request.verb != AUTHORITY_PING && request.verb != AUTHORITY_SHUTDOWN)
			answer = other_gpus(&request);
		if (!answer)
			answer = verbs[i].answer(&request);
		if (!answer && !node->later)
			answer = refuse("system", "no memory for the answer");
		json_decref(object);
		return answer;
	}
	if (!answer)
		answer = refuse("invalid", "no such op: \"%.40s\"", op);
	json_decref(object);
	return answer;
}
