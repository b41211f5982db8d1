// Each daemon publishes what it has admitted (its claims) in a file of its own, in a sticky directory that all users
// can write. A file counts only if its owner is the user in its name. The system's daemon counts only root's files, so
// users cannot influence it. If the system's daemon cannot write its own file, it works without one. There is no lock.
// A daemon first publishes a claim, then reads the files of the others, and withdraws its claim if the sum of all
// claims is too large for the device. Two daemons that do this at once may both be refused, and try again, but they
// never both get the same memory.
#include "daemon/admission.h"

#include "base/descriptor.h"
#include "base/hash.h"
#include "daemon/path.h"
#include "daemon/say.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
	CLAIMS_FILE_MOST = 64 << 10, // the most bytes of a file that are read
	CLAIMS_MOST = 256,	     // the most files that are read
	CLAIMS_NAMES_MOST = 4096,    // the most entries of the directory that are read
	CLAIMS_LOOKS_MOST = 1024,    // the most processes that are checked for being alive in one sum of all claims
	TRIES = 4
};

// Returns whether other daemons can use the same devices. A simulated device belongs to one user, so only one daemon
// uses it.
static bool has_claims(const struct node *node)
{
	return !node->simulated || getenv("VIRGATE_CLAIMS_DIR");
}

// Returns how many bytes of the vGPU's memory can be in the host while other vGPUs use the device; 0: not evictable.
static uint64_t moving_bytes(const struct vgpu *vgpu)
{
	return vgpu->evictable && vgpu->fixed < vgpu->memory ? vgpu->memory - vgpu->fixed : 0;
}

// The memory that all vGPUs of a device reserve: the sum of their fixed parts, which stay on the device, and the
// largest of the parts that can move to the host. So each vGPU can run while the others are in the host.
struct reserved {
	uint64_t fixed, largest;
	const struct vgpu *largest_of; // the vGPU with the largest moving part; NULL: no vGPU has one
};

// Sums up what this daemon's vGPUs on the device reserve. Leaves out the vGPU `without`.
static struct reserved sum_up(const struct node *node, size_t device, const struct vgpu *without)
{
	struct reserved reserved = {0};

	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next) {
		if (vgpu->device != device || vgpu == without)
			continue;
		reserved.fixed += vgpu->memory - moving_bytes(vgpu);
		if (moving_bytes(vgpu) > reserved.largest) {
			reserved.largest = moving_bytes(vgpu);
			reserved.largest_of = vgpu;
		}
	}
	return reserved;
}

// Returns by how many bytes the vGPU for which `wish` asks would increase the reserved memory.
static uint64_t count_needed(const struct reserved *reserved, const struct admission_wish *wish)
{
	uint64_t fixed = wish->fixed < wish->memory ? wish->fixed : wish->memory, moving = wish->memory - fixed;

	return fixed + (moving > reserved->largest ? moving - reserved->largest : 0);
}

static uint64_t sum_reserved(const struct reserved *reserved)
{
	return reserved->fixed + reserved->largest;
}

static bool has_turns(const struct turn_terms *terms)
{
	return terms->share || terms->is_latency;
}

static json_t *identify_daemon(void)
{
	uint64_t start_time = 0;

	vg_process_start_time(getpid(), &start_time);
	return json_pack("[i, I]", (int)getpid(), (json_int_t)start_time);
}

static json_t *list_users(const struct vgpu *vgpu)
{
	json_t *users = json_array();

	for (const struct launcher *launcher = vgpu->launchers; launcher; launcher = launcher->next)
		json_array_append_new(users, json_pack("[i, I]", (int)launcher->pid, (json_int_t)launcher->start_time));
	for (const struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
		json_array_append_new(users, json_pack("[i, I]", (int)tenant->pid, (json_int_t)tenant->start_time));
	return users;
}

// Makes the claim for a vGPU. The member "turn_users" lists the processes for which this daemon controls compute
// shares; only one daemon can do so on a device. `turns`: this daemon is about to control the compute share of this
// vGPU.
static json_t *make_claim(const struct node *node, const struct vgpu *vgpu, uint64_t bytes, bool turns)
{
	json_t *claim = json_pack("{s:s, s:I}", "uuid", vg_system_device(node->system, vgpu->device)->uuid_text,
				  "bytes", (json_int_t)bytes);

	if (vgpu->ephemeral)
		json_object_set_new(claim, "users", list_users(vgpu));
	if (turns || has_turns(&vgpu->terms)) {
		json_t *users = list_users(vgpu);
		if (turns)
			json_array_append_new(users, identify_daemon());
		json_object_set_new(claim, "turn_users", users);
	}
	return claim;
}

static int make_directory(const struct node *node)
{
	struct stat status;

	if (mkdir(node->claims_dir, 0777) == 0)
		return chmod(node->claims_dir, 01777) < 0 ? -errno : 0;
	if (errno != EEXIST)
		return -errno;
	_cleanup_close_ int fd = open(node->claims_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status) < 0)
		return -errno;
	// Without the sticky bit users could remove the claims of others. Root sets it, so that no user can disable the
	// system's daemon by creating the directory first.
	if (!(status.st_mode & S_ISVTX) && geteuid() == 0 && fchmod(fd, 01777) == 0)
		return 0;
	return status.st_mode & S_ISVTX ? 0 : -EPERM;
}

// Writes the name of this daemon's file. Two daemons of one user, with two runtime directories, have two files.
static void format_own_name(const struct node *node, char name[64])
{
	snprintf(name, 64, "%u-%016llx", (unsigned int)geteuid(), (unsigned long long)vg_hash_text(node->runtime_dir));
}

// Writes this daemon's claims: one for each vGPU in the list. A new vGPU is not in the list yet, and gets a claim of
// `extra` bytes on `device`. If `instead_of` is given, `extra` is the new claim of that vGPU. `turns`: this claim
// includes a compute share. Returns 0 or -errno.
static int publish_claims(struct node *node, size_t device, uint64_t extra, bool turns, const struct vgpu *instead_of)
{
	char path[PATH_MAX], name[64];
	int r = make_directory(node);

	if (r < 0)
		return r;
	json_t *claims = json_array();
	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next) {
		bool is_largest = sum_up(node, vgpu->device, NULL).largest_of == vgpu;
		uint64_t bytes = vgpu->memory - (is_largest ? 0 : moving_bytes(vgpu));
		if (vgpu == instead_of && extra > bytes)
			bytes = extra;
		json_array_append_new(claims, make_claim(node, vgpu, bytes, vgpu == instead_of && turns));
	}
	if (extra && !instead_of) { // a claim without users is valid only while this daemon lives
		const char *uuid = vg_system_device(node->system, device)->uuid_text;
		json_t *claim = json_pack("{s:s, s:I, s:[]}", "uuid", uuid, "bytes", (json_int_t)extra, "users");
		if (turns)
			json_object_set_new(claim, "turn_users", json_pack("[o]", identify_daemon()));
		json_array_append_new(claims, claim);
	}
	json_t *daemon = identify_daemon();
	json_t *file = json_pack("{s:{s:O, s:O}, s:o}", "daemon", "pid", json_array_get(daemon, 0), "start",
				 json_array_get(daemon, 1), "claims", claims);
	json_decref(daemon);
	char *text = json_dumps(file, JSON_COMPACT);
	format_own_name(node, name);
	snprintf(path, sizeof path, "%s/%s", node->claims_dir, name);
	r = text ? path_write(path, text, 0644) : -ENOMEM;
	free(text);
	json_decref(file);
	return r;
}

// On each device, how many bytes other daemons had admitted when this daemon last read their files.
static uint64_t others_last_seen[VG_SYSTEM_DEVICES];

// how many more processes may be checked for being alive in the present sum; further ones count as alive
static int looks_left;

static bool is_alive(json_int_t pid, json_int_t start_time)
{
	if (looks_left-- <= 0)
		return true;
	return pid > 0 && pid <= INT_MAX && !vg_process_is_dead((pid_t)pid, (uint64_t)start_time);
}

static bool any_user_alive(const json_t *users)
{
	size_t i;
	json_t *user;

	json_array_foreach(users, i, user)
		if (is_alive(json_integer_value(json_array_get(user, 0)), json_integer_value(json_array_get(user, 1))))
			return true;
	return false;
}

// What other daemons have admitted on one device.
struct others {
	uint64_t bytes;
	bool have_turns;
	uid_t user; // the user whose daemon controls the compute shares
};

static void add_claims(const char *text, const char *uuid, uid_t user, struct others *others)
{
	json_t *file = json_loads(text, 0, NULL), *claim, *daemon = json_object_get(file, "daemon");
	bool alive = is_alive(json_integer_value(json_object_get(daemon, "pid")),
			      json_integer_value(json_object_get(daemon, "start")));
	size_t i;

	json_array_foreach(json_object_get(file, "claims"), i, claim) {
		const char *of = json_string_value(json_object_get(claim, "uuid"));
		const json_t *users = json_object_get(claim, "users");
		json_int_t bytes = json_integer_value(json_object_get(claim, "bytes"));
		if (!of || strcmp(of, uuid) != 0 || bytes <= 0)
			continue;
		// The claim of a daemon that was killed stays valid while a process uses its ephemeral vGPU.
		if (!alive && users && !any_user_alive(users))
			continue;
		uint64_t sum = others->bytes + (uint64_t)bytes;
		others->bytes = sum < others->bytes ? UINT64_MAX : sum;
		if (alive && any_user_alive(json_object_get(claim, "turn_users"))) {
			others->have_turns = true;
			others->user = user;
		}
	}
	json_decref(file);
}

// Returns whether the claims file `name` counts. The system's daemon counts only root's files, since all users can
// create files. `own` is the name of this daemon's own file, which never counts.
static bool is_counted(const struct node *node, const char *name, const char *own, uid_t *ret_owner)
{
	char *end;
	unsigned long owner = strtoul(name, &end, 10);

	// A name with a dot is that of a temporary file, which is not published yet.
	if (!isdigit((unsigned char)*name) || *end != '-' || strchr(name, '.') || strcmp(name, own) == 0)
		return false;
	*ret_owner = (uid_t)owner;
	return owner < (uid_t)-1 && (!node->system_wide || owner == 0);
}

static void read_claims_file(int directory, const char *name, uid_t owner, const char *uuid, char *buffer,
			     struct others *others)
{
	struct stat status;
	_cleanup_close_ int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || status.st_uid != owner ||
	    status.st_size >= CLAIMS_FILE_MOST)
		return;
	ssize_t length = read(fd, buffer, CLAIMS_FILE_MOST - 1);
	if (length <= 0)
		return;
	buffer[length] = '\0';
	add_claims(buffer, uuid, status.st_uid, others);
}

static struct others read_others(const struct node *node, const char *uuid)
{
	char own[64], *buffer = malloc(CLAIMS_FILE_MOST);
	DIR *directory = opendir(node->claims_dir);
	struct others others = {0};
	struct dirent *entry;

	looks_left = CLAIMS_LOOKS_MOST;
	format_own_name(node, own);
	for (int names = 0, files = 0; directory && buffer && names < CLAIMS_NAMES_MOST && files < CLAIMS_MOST;
	     names++) {
		uid_t owner;
		entry = readdir(directory);
		if (!entry)
			break;
		if (!is_counted(node, entry->d_name, own, &owner))
			continue;
		files++;
		read_claims_file(dirfd(directory), entry->d_name, owner, uuid, buffer, &others);
	}
	if (directory)
		closedir(directory);
	free(buffer);
	return others;
}

uint64_t admission_room(const struct node *node, size_t device, const struct turn_terms *terms, bool evictable)
{
	const struct vg_system_device *gpu = vg_system_device(node->system, device);
	struct others others = has_claims(node) ? read_others(node, gpu->uuid_text) : (struct others){0};
	struct reserved reserved = sum_up(node, device, NULL);
	uint64_t own = evictable ? reserved.fixed : sum_reserved(&reserved),
		 left = own < gpu->memory ? gpu->memory - own : 0;

	if (has_turns(terms) && others.have_turns)
		return 0;
	return others.bytes < left ? left - others.bytes : 0;
}

uint64_t admission_for_evictable(const struct node *node, size_t device)
{
	uint64_t left = vg_system_device(node->system, device)->memory, taken = others_last_seen[device];

	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		taken += vgpu->device == device && !vgpu->evictable ? vgpu->memory : 0;
	return taken < left ? left - taken : 0;
}

static uint64_t add_promised(const struct node *node, size_t device, uint64_t others)
{
	struct reserved reserved = sum_up(node, device, NULL);
	uint64_t own = sum_reserved(&reserved);

	return own > INT64_MAX || others > INT64_MAX - own ? INT64_MAX : own + others;
}

static uint64_t read_others_bytes(const struct node *node, size_t device)
{
	return has_claims(node) ? read_others(node, vg_system_device(node->system, device)->uuid_text).bytes : 0;
}

void admission_summarize(const struct node *node, size_t device, struct admission_summary *ret_summary)
{
	const char *uuid = vg_system_device(node->system, device)->uuid_text;
	const struct others others = has_claims(node) ? read_others(node, uuid) : (struct others){0};
	const struct reserved reserved = sum_up(node, device, NULL);
	struct admission_summary summary = {
		.bytes = add_promised(node, device, others.bytes),
		.moving = reserved.largest,
		.others_have_turns = others.have_turns,
	};

	for (const struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		summary.share += vgpu->device == device ? vgpu->terms.share : 0;
	*ret_summary = summary;
}

// Writes into each ledger the largest limit that the vGPU could have now. If other daemons admit more memory later,
// these figures are too large until this daemon publishes its claims again.
static void set_ceilings(const struct node *node, size_t device)
{
	const struct reserved all = sum_up(node, device, NULL);
	uint64_t total = vg_system_device(node->system, device)->memory, promised = 0;

	for (struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next) {
		if (vgpu->device != device || vgpu->damage == DAMAGE_CONTENTS)
			continue;
		if (!promised) {
			others_last_seen[device] = read_others_bytes(node, device);
			promised = add_promised(node, device, others_last_seen[device]);
		}
		const struct reserved rest = sum_up(node, device, vgpu);
		uint64_t others = promised - sum_reserved(&all) + (vgpu->evictable ? rest.fixed : sum_reserved(&rest));
		uint64_t room = others < total ? total - others : 0;
		vg_ledger_set_ceiling(vgpu->ledger, room > vgpu->memory ? room : vgpu->memory);
	}
}

void admission_publish(struct node *node)
{
	int r = has_claims(node) ? publish_claims(node, 0, 0, false, NULL) : 0;

	node->must_retry |= node->waiting_count > 0; // there may be room now for a request that waits
	if (r < 0)
		say("the claims of this daemon cannot be written in %s: %s", node->claims_dir, strerror(-r));
	for (size_t device = 0; device < vg_system_device_count(node->system); device++)
		set_ceilings(node, device);
}

static bool has_enough(const struct admission *figures, uint64_t bytes)
{
	uint64_t left = figures->total;

	if (figures->own > left || figures->others_have_turns)
		return false;
	left -= figures->own;
	if (figures->others > left)
		return false;
	return bytes <= left - figures->others;
}

int admission_check(struct node *node, size_t device, const struct admission_wish *wish, struct admission *ret_figures)
{
	bool turns = has_turns(wish->terms);
	const struct vg_system_device *gpu = vg_system_device(node->system, device);
	const struct reserved reserved = sum_up(node, device, wish->instead_of);
	struct admission figures = {
		.total = gpu->memory, .own = sum_reserved(&reserved), .needed = count_needed(&reserved, wish)};
	uint64_t bytes = figures.needed;

	bool admitted = has_enough(&figures, bytes);
	for (int try = 0; admitted && has_claims(node) && try < TRIES; try++) {
		int r = publish_claims(node, device, bytes, turns, wish->instead_of);
		if (r < 0 && !node->system_wide) // other users' daemons would not see the claim
			return r;
		struct others others = read_others(node, gpu->uuid_text);
		others_last_seen[device] = others.bytes;
		figures.others = others.bytes;
		figures.others_have_turns = turns && others.have_turns;
		figures.user = others.user;
		if (has_enough(&figures, bytes))
			break;
		publish_claims(node, 0, 0, false, NULL);
		if (try == TRIES - 1)
			admitted = false;
		else // another daemon may be withdrawing its claim at this moment: wait and try again
			poll(NULL, 0, 2 + (int)((unsigned int)getpid() * 7 % 11) * (try + 1));
	}
	*ret_figures = figures;
	return admitted ? 0 : 1;
}
