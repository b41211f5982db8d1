#include "daemon/allowance.h"

#include "base/size.h"
#include "daemon/names.h"
#include "daemon/say.h"
#include "daemon/user.h"
#include "settings/config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// The limits as last read from the configuration file. The file is read again if it was replaced or changed.
static struct {
	bool is_read, is_broken;
	struct stat file;
	struct config config;
	struct config_error error;
	struct identity {
		bool is_known;
		uint32_t number; // uid or gid
	} * identities;		 // for each limit
} limits;

// ---- the file --------------------------------------------------------------------------------------------

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static void read_file(void)
{
	struct stat now = {0};

	if (stat(config_system_path(), &now) < 0)
		now = (struct stat){0};
	if (limits.is_read && is_same_file(&now, &limits.file))
		return;
	config_finish(&limits.config);
	free(limits.identities);
	limits.identities = NULL;
	limits.file = now;
	limits.is_read = true;
	limits.is_broken = config_load_system(&limits.config, &limits.error) != 0;
	if (!limits.is_broken && limits.config.limit_count)
		limits.identities = calloc(limits.config.limit_count, sizeof *limits.identities);
	if (!limits.is_broken && limits.config.limit_count && !limits.identities) {
		strcpy(limits.error.text, "no memory for the limits");
		limits.is_broken = true;
	}
	if (limits.is_broken)
		say("the limits of users cannot be read: %s", limits.error.text);
	else if (limits.config.limit_count)
		say("%zu limits of users and groups were read from %s", limits.config.limit_count,
		    config_system_path());
}

static bool is_for_all(const struct config_limit *limit)
{
	return !limit->is_group && strcmp(limit->name, "*") == 0;
}

// Finds the id of the user or group. Returns false if a lookup is in progress. If the name does not exist, `identity`
// stays unknown, and the limit has no effect.
static bool identify(const struct config_limit *limit, struct identity *identity)
{
	uid_t asker = geteuid(), uid = 0;
	gid_t gid = 0;
	char *end;

	if (identity->is_known || is_for_all(limit))
		return true;
	if (!names_are_ready(asker, limit->is_group ? NULL : limit->name, limit->is_group ? limit->name : NULL))
		return false;
	int r = limit->is_group ? names_find_group(asker, limit->name, &gid)
				: names_find_user(asker, limit->name, &uid);
	unsigned long number = strtoul(limit->name, &end, 10);
	if (r == 0)
		*identity = (struct identity){true, limit->is_group ? gid : uid};
	else if (*limit->name >= '0' && *limit->name <= '9' && !*end && number < UINT32_MAX)
		*identity = (struct identity){true, (uint32_t)number};
	return true;
}

bool allowance_is_ready(const struct request *request)
{
	bool are_ready = true;

	read_file();
	for (size_t i = 0; !limits.is_broken && i < limits.config.limit_count; i++)
		are_ready &= identify(&limits.config.limits[i], &limits.identities[i]);
	return are_ready;
}

// ---- whom a limit concerns -------------------------------------------------------------------------------

static bool is_in_group(const struct vgpu *vgpu, gid_t gid)
{
	for (unsigned int i = 0; i < vgpu->owner_group_count; i++)
		if (vgpu->owner_groups[i] == gid)
			return true;
	return false;
}

static bool has_own_section(uid_t uid)
{
	for (size_t i = 0; i < limits.config.limit_count; i++)
		if (!limits.config.limits[i].is_group && limits.identities[i].is_known &&
		    user_owner(limits.identities[i].number) == user_owner(uid))
			return true;
	return false;
}

static bool concerns(size_t index, const struct vgpu *vgpu)
{
	const struct config_limit *limit = &limits.config.limits[index];
	const struct identity *identity = &limits.identities[index];

	if (is_for_all(limit))
		return vgpu->owner != 0 && !has_own_section(vgpu->owner);
	if (!identity->is_known)
		return false;
	return limit->is_group ? is_in_group(vgpu, identity->number)
			       : user_owner(vgpu->owner) == user_owner(identity->number);
}

// ---- the check -------------------------------------------------------------------------------------------

struct used {
	uint64_t memory;
	unsigned int share, vgpus;
};

// Sums up the memory, the compute shares and the number of the existing vGPUs that count against this limit. For a
// user's limit, these are the vGPUs of that user; for a group's limit, those of all members of the group. Leaves out
// the vGPU whose figures the request will replace.
static struct used sum_up(const struct request *request, size_t index, const struct allowance_wish *wish)
{
	const struct config_limit *limit = &limits.config.limits[index];
	struct used used = {0};

	for (const struct vgpu *vgpu = request->node->vgpus; vgpu; vgpu = vgpu->next) {
		bool is_of_user = user_owner(vgpu->owner) == user_owner(wish->vgpu->owner);
		if (vgpu == wish->instead_of || !concerns(index, vgpu) || (!limit->is_group && !is_of_user))
			continue;
		used.memory += vgpu->memory;
		used.share += vgpu->terms.share;
		used.vgpus++;
	}
	return used;
}

// Returns the subject of a refusal, such as "user alice may have".
static const char *describe_subject(const struct config_limit *limit, const struct vgpu *vgpu)
{
	static char text[NAME_TEXT + 40];

	if (limit->is_group)
		snprintf(text, sizeof text, "the members of group %.200s together", limit->name);
	else
		snprintf(text, sizeof text, "user %.200s", names_user(vgpu->owner));
	return text;
}

static json_t *check_memory(const struct config_limit *limit, const struct allowance_wish *wish,
			    const struct used *used)
{
	uint64_t left = used->memory < limit->memory ? limit->memory - used->memory : 0;
	char text[4][VG_SIZE_TEXT];

	if (!limit->memory || wish->memory <= left)
		return NULL;
	return refuse(
		"limit",
		"vGPU %s: asked for %s, but %s may have %s of GPU memory (%s) and have %s, so %s is left: ask for "
		"less, or shrink or remove a vGPU",
		wish->vgpu->name, vg_size_format(wish->memory, text[0]), describe_subject(limit, wish->vgpu),
		vg_size_format(limit->memory, text[1]), limit->origin, vg_size_format(used->memory, text[2]),
		vg_size_format(left, text[3]));
}

static json_t *check_share(const struct config_limit *limit, const struct allowance_wish *wish, const struct used *used)
{
	unsigned int left = used->share < limit->share ? limit->share - used->share : 0;

	if (!limit->share || wish->terms->share <= left)
		return NULL;
	return refuse(
		"limit",
		"vGPU %s: asked for a share of %u %%, but %s may have shares of %u %% in sum (%s) and have %u %%, "
		"so %u %% is left: ask for less, or lower another share",
		wish->vgpu->name, wish->terms->share, describe_subject(limit, wish->vgpu), limit->share, limit->origin,
		used->share, left);
}

static json_t *check_count(const struct config_limit *limit, const struct allowance_wish *wish, const struct used *used)
{
	if (limit->vgpus < 0 || wish->instead_of || used->vgpus < (unsigned int)limit->vgpus)
		return NULL;
	return refuse("limit", "vGPU %s: %s may have %d vGPUs (%s) and have %u: remove one, or wait until one ends",
		      wish->vgpu->name, describe_subject(limit, wish->vgpu), limit->vgpus, limit->origin, used->vgpus);
}

static json_t *check_class(const struct config_limit *limit, const struct allowance_wish *wish)
{
	if (!limit->only_batch || !wish->terms->is_latency || wish->instead_of)
		return NULL;
	return refuse("limit",
		      "vGPU %s: asked for the class latency, but %s may have vGPUs of the class batch only (%s): leave "
		      "out --class",
		      wish->vgpu->name, describe_subject(limit, wish->vgpu), limit->origin);
}

static json_t *check_figures(const struct config_limit *limit, const struct allowance_wish *wish,
			     const struct used *used)
{
	json_t *refusal = check_count(limit, wish, used);

	if (!refusal)
		refusal = check_memory(limit, wish, used);
	return refusal ? refusal : check_share(limit, wish, used);
}

static json_t *check_limit(const struct request *request, size_t index, const struct allowance_wish *wish,
			   bool *ret_final)
{
	const struct config_limit *limit = &limits.config.limits[index];
	const struct used nothing = {0}, used = sum_up(request, index, wish);
	json_t *refusal = check_class(limit, wish);

	if (!refusal)
		refusal = check_figures(limit, wish, &nothing);
	*ret_final = refusal != NULL;
	if (!refusal)
		return check_figures(limit, wish, &used);
	json_t *with_figures = check_figures(limit, wish, &used);
	if (!with_figures)
		return refusal;
	json_decref(refusal);
	return with_figures;
}

json_t *allowance_check(const struct request *request, const struct allowance_wish *wish, bool *ret_final)
{
	json_t *refusal = NULL;

	*ret_final = limits.is_broken;
	if (limits.is_broken && wish->vgpu->owner != 0)
		return refuse(
			"system",
			"vGPU %s: the limits of users cannot be read, so only root may have vGPUs: %s: repair the "
			"file",
			wish->vgpu->name, limits.error.text);
	for (size_t i = 0; !limits.is_broken && i < limits.config.limit_count && !refusal; i++)
		if (concerns(i, wish->vgpu))
			refusal = check_limit(request, i, wish, ret_final);
	return refusal;
}
