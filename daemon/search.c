// Searches /proc in the thread of the vGPU's owner. The kernel reads some of what it shows of a process from that
// process's memory, so a user can make such a read last arbitrarily long. A search finds:
// - processes that inherited the vGPU's environment from a launcher (in names: heirs), that outlive the launcher, and
//   that have not used CUDA yet;
// - processes that have the ledger mapped, which proves that a slot or a signal is meant for them;
// - the pids of tenants in other pid namespaces. These tenants know only their inner pids, which are in their slots.
#include "daemon/search.h"

#include "base/descriptor.h"
#include "daemon/process.h"
#include "daemon/work.h"

#include <ctype.h>
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum {
	MOST_FOUND = 512, // the most processes that one search can find
	MOST_ASKED = 64,
	MOST_ENVIRONMENT = 256 << 10, // the most bytes that are read of one process's environment
	MOST_MAPPINGS = 2 << 20,      // the most bytes that are read of one process's mappings
	BUSY_MS = 250,		      // processor time that a search may use in each second; then the thread sleeps
};

static const struct search_results *results;

void search_set_results(const struct search_results *new_results)
{
	results = new_results;
}

struct found {
	pid_t pid;
	uint64_t start_time;
	bool inherits, has_mapped;
	uint32_t pid_namespace, inner_pid;
};

struct search {
	struct work work;
	struct vgpu *vgpu;	      // only the main thread may use this pointer; NULL: the results are ignored
	char variable[PATH_MAX + 16]; // the variable "VIRGATE_LEDGER=PATH", as it is in the environment of heirs
	char mapped[PATH_MAX];	      // end of the line for the ledger's mapping in /proc/PID/maps
	ino_t inode;
	uid_t owner;
	gid_t group;
	uint32_t pid_namespace;
	bool for_heirs;		 // check the environment of all processes of the owner
	bool all_mappings;	 // check the mappings of all processes of the owner and group, not only of `asked`
	bool namespaces;	 // the search also checks processes in pid namespaces other than the daemon's
	bool is_limited;	 // the search has a limit of processor time
	pid_t asked[MOST_ASKED]; // the processes whose mappings are checked
	size_t asked_count, found_count;
	struct found found[MOST_FOUND];
};

// ---- in the thread --------------------------------------------------------------------------------------------

// Reads the next piece of the file, up to the character `end`, and truncates it to `capacity`. Returns false at the end
// of the file, or after `*left` bytes.
static bool read_piece(FILE *file, int end, size_t *left, char *piece, size_t capacity)
{
	size_t length = 0;
	int byte = EOF;

	while (*left && (byte = getc_unlocked(file)) != EOF && byte != end) {
		--*left;
		if (length < capacity - 1)
			piece[length++] = (char)byte;
	}
	*left -= *left && byte != EOF;
	piece[length] = '\0';
	return byte != EOF || length;
}

// Returns whether a variable is VIRGATE_LEDGERS, which lists the ledgers of a job, and its list has the path in
// `wanted`, a text "VIRGATE_LEDGER=PATH".
static bool lists_ledger(const char *variable, const char *wanted)
{
	static const char name[] = "VIRGATE_LEDGERS=";
	const char *path = strchr(wanted, '=') + 1;
	size_t length = strlen(path);

	if (strncmp(variable, name, sizeof name - 1) != 0)
		return false;
	for (const char *at = variable + sizeof name - 1; at; at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL)
		if (strncmp(at, path, length) == 0 && (at[length] == ':' || !at[length]))
			return true;
	return false;
}

static bool has_variable(pid_t pid, const char *wanted)
{
	char path[32], piece[16 * PATH_MAX];
	size_t left = MOST_ENVIRONMENT;
	bool found = false;

	snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
	FILE *file = fopen(path, "re");
	while (file && !found && left && read_piece(file, '\0', &left, piece, sizeof piece))
		found = strcmp(piece, wanted) == 0 || lists_ledger(piece, wanted);
	if (file)
		fclose(file);
	return found;
}

// Returns whether a line of /proc/PID/maps is for the ledger, also after the file was removed. If the inode is known,
// only the end of the path must match: a process in a container sees the file under another root.
static bool is_mapping(char *line, const char *end_of_path, ino_t inode)
{
	static const char removed[] = " (deleted)", in_container[] = "/ledgers/.container";
	unsigned long long mapped;

	size_t length = strlen(line), tail = sizeof removed - 1, wanted = strlen(end_of_path);
	if (length > tail && strcmp(line + length - tail, removed) == 0)
		line[length -= tail] = '\0';
	if (inode && length >= sizeof in_container - 1 &&
	    strcmp(line + length - (sizeof in_container - 1), in_container) == 0)
		end_of_path = in_container, wanted = sizeof in_container - 1;
	return length >= wanted && strcmp(line + length - wanted, end_of_path) == 0 &&
	       sscanf(line, "%*s %*s %*s %*s %llu", &mapped) == 1 && (!inode || mapped == inode);
}

static bool has_mapped(pid_t pid, const struct search *search)
{
	char path[32], line[PATH_MAX + 128];
	size_t left = MOST_MAPPINGS;
	bool found = false;

	snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
	FILE *file = fopen(path, "re");
	while (file && !found && left && read_piece(file, '\n', &left, line, sizeof line))
		found = is_mapping(line, search->mapped, search->inode);
	if (file)
		fclose(file);
	return found;
}

static bool is_asked(const struct search *search, pid_t pid)
{
	for (size_t i = 0; i < search->asked_count; i++)
		if (search->asked[i] == pid)
			return true;
	return false;
}

static void look_at_process(struct search *search, pid_t pid)
{
	struct found found = {.pid = pid};
	char path[32];
	struct stat status;

	// Read the start time first. If another process gets the pid later, its start time differs, and later checks
	// fail.
	snprintf(path, sizeof path, "/proc/%d", (int)pid);
	if (vg_process_start_time(pid, &found.start_time) < 0 || stat(path, &status) < 0)
		return;
	bool owned = status.st_uid == search->owner;
	found.inherits = owned && has_variable(pid, search->variable);
	if (is_asked(search, pid) || (search->all_mappings && (owned || search->group != (gid_t)-1)))
		found.has_mapped = has_mapped(pid, search);
	bool elsewhere = search->namespaces && process_inner(pid, &found.pid_namespace, &found.inner_pid) &&
			 found.pid_namespace != search->pid_namespace;
	if (found.inherits || found.has_mapped || elsewhere)
		search->found[search->found_count++] = found;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

// Sleeps until the next second if the processor time of this second is used up. So a user with many processes does not
// use up the machine's time.
static void limit_time(void)
{
	static _Thread_local uint64_t second_ns, busy_ns;
	uint64_t now = clock_ns(CLOCK_MONOTONIC), busy = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	if (now - second_ns < 1000000000 && busy - busy_ns < BUSY_MS * 1000000ull)
		return;
	for (; now - second_ns < 1000000000; now = clock_ns(CLOCK_MONOTONIC)) // signals interrupt the sleep (work.c)
		poll(NULL, 0, (int)((second_ns + 1000000000 - now) / 1000000) + 1);
	second_ns = now;
	busy_ns = busy;
}

static void run_search(struct work *work)
{
	struct search *search = (struct search *)work;
	bool everywhere = search->for_heirs || search->namespaces;
	DIR *directory = everywhere ? opendir("/proc") : NULL;
	struct dirent *entry;

	for (size_t i = 0; i < search->asked_count && !everywhere; i++)
		look_at_process(search, search->asked[i]);
	while (directory && search->found_count < MOST_FOUND && (entry = readdir(directory))) {
		pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? (pid_t)atoi(entry->d_name) : 0;
		if (search->is_limited)
			limit_time();
		if (pid > 0 && pid != getpid())
			look_at_process(search, pid);
	}
	if (directory)
		closedir(directory);
}

// ---- in the main thread ---------------------------------------------------------------------------------------

static const struct found *find_process(const struct search *search, const struct tenant *tenant)
{
	const struct vg_ledger_owner *owner = &tenant->seen.owner;
	bool elsewhere = owner->pid_namespace != search->pid_namespace;

	for (size_t i = 0; i < search->found_count; i++) {
		const struct found *found = &search->found[i];
		if (vg_start_time_same(found->start_time, owner->start_time) &&
		    (elsewhere ? found->pid_namespace == owner->pid_namespace && found->inner_pid == owner->pid
			       : found->pid == (pid_t)owner->pid))
			return found;
	}
	return NULL;
}

static void prove_tenants(struct node *node, const struct search *search)
{
	struct tenant *next;

	for (struct tenant *tenant = search->vgpu->tenants; tenant; tenant = next) {
		next = tenant->next;
		if (!tenant->is_searched)
			continue;
		const struct found *found = find_process(search, tenant);
		tenant->is_searched = false;
		results->prove_tenant(node, tenant, found ? found->pid : 0, found ? found->start_time : 0,
				      found && found->has_mapped);
	}
}

static void end_search(struct node *node, struct work *work)
{
	struct search *search = (struct search *)work;
	struct vgpu *vgpu = search->vgpu;

	if (vgpu) {
		vgpu->search = NULL;
		for (size_t i = 0; i < search->found_count && search->for_heirs; i++)
			if (search->found[i].inherits || (search->all_mappings && search->found[i].has_mapped))
				results->add_launcher(node, vgpu, search->found[i].pid, search->found[i].start_time,
						      search->found[i].has_mapped);
		prove_tenants(node, search);
		if (search->for_heirs && vgpu->heirs == HEIRS_SEARCHED)
			vgpu->heirs = HEIRS_KNOWN;
		results->ended(node);
	}
	free(search);
	node->must_retry = true;
}

static void request_tenants(struct search *search)
{
	for (struct tenant *tenant = search->vgpu->tenants; tenant; tenant = tenant->next) {
		if (tenant->is_dead || tenant->proof != PROOF_WANTED || search->asked_count == MOST_ASKED)
			continue;
		tenant->is_searched = true;
		search->namespaces |= tenant->seen.owner.pid_namespace != search->pid_namespace;
		search->asked[search->asked_count++] = tenant->pid;
	}
}

enum purpose { FOR_TENANTS, FOR_HEIRS };

static void start_search(const struct node *node, struct vgpu *vgpu, enum purpose purpose)
{
	if (vgpu->search)
		// the results of the search in progress may suffice; if not, the caller begins another search after it
		return;
	struct search *search = calloc(1, sizeof *search);
	if (!search)
		return;
	search->work = (struct work){.run = run_search, .done = end_search};
	search->vgpu = vgpu;
	search->for_heirs = purpose == FOR_HEIRS;
	search->is_limited = user_is_limited(node, vgpu->owner);
	search->owner = vgpu->owner;
	search->group = vgpu->group;
	search->pid_namespace = node->pid_namespace;
	search->inode = vg_ledger_inode(vgpu->ledger);
	snprintf(search->variable, sizeof search->variable, "VIRGATE_LEDGER=%s", vgpu->path);
	if (search->inode)
		snprintf(search->mapped, sizeof search->mapped, "/ledgers/%s", vgpu->name);
	else
		memcpy(search->mapped, vgpu->path, sizeof search->mapped);
	// Search the mappings of all processes if the slots may be wrong, or if all users of the vGPU shall be killed.
	search->all_mappings = vgpu->damage || vgpu->is_being_removed;
	request_tenants(search);
	if (!work_post(vgpu->owner, &search->work)) {
		search_forget(vgpu);
		free(search);
		return;
	}
	vgpu->search = search;
	if (purpose == FOR_HEIRS)
		vgpu->heirs = HEIRS_SEARCHED;
}

void search_begin(struct node *node, struct vgpu *vgpu)
{
	start_search(node, vgpu, FOR_TENANTS);
}

bool search_knows_heirs(struct node *node, struct vgpu *vgpu)
{
	if (vgpu->heirs == HEIRS_UNKNOWN)
		start_search(node, vgpu, FOR_HEIRS);
	return vgpu->heirs == HEIRS_KNOWN;
}

void search_restart(struct vgpu *vgpu)
{
	search_forget(vgpu);
	vgpu->heirs = HEIRS_UNKNOWN;
}

void search_forget(struct vgpu *vgpu)
{
	if (vgpu->search)
		vgpu->search->vgpu = NULL;
	vgpu->search = NULL;
	for (struct tenant *tenant = vgpu->tenants; tenant; tenant = tenant->next)
		tenant->is_searched = false;
}
