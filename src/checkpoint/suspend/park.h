// Parks tenants of evictable vGPUs before a dump: their pagers move device memory to the host, into files that they
// then do not map (pager/page.h). So neither the driver nor CRIU saves it. For a deep suspension the host memory stays
// mapped and pinned. One thread.
#pragma once
#include "checkpoint/device/out.h"
#include "checkpoint/process/phase.h"
#include "checkpoint/tenant/tenant.h"
#include "pager/host_file.h"

// The file of one process.
struct parked {
	pid_t pid;
	uint64_t start_time;
	int directory; // the directory of the file, as the process sees it
	char name[PAGER_FILE_NAME];
	uint64_t bytes;
};

struct parking {
	struct parked *list; // of those that have a file
	size_t count;
	uint64_t bytes; // of all
};

// Returns whether a process of the tree is in an evictable vGPU.
bool parking_concerns(const struct tenants *tenants);
struct parking_wish {
	unsigned drain_ms;
	const char *limit; // the option that sets it, for messages
	// for `suspend --deep`: the wish stays set, also in processes of vGPUs that are not evictable
	bool is_deep;
};
// Asks the processes to park, and waits until they have. A process for which there is too little host memory stays on
// the GPU, and moves nothing until parking_release(), which is needed after every outcome. NOT_READY (its work does not
// end within `drain_ms`), SUSPENDED, HOST_FILE, DRIVER, STATE (the phase wants to stop), SYSTEM, NO_MEMORY.
enum vg_status parking_begin(const struct tenants *tenants, const struct parking_wish *how, struct phase *phase,
			     struct parking *ret_parking);
// Records that the driver has taken processes with a deep wish off the GPU.
void parking_mark_deep(const struct tenants *tenants);
// Opens the files for reading. SYSTEM; INTEGRITY (a file does not belong to its process).
enum vg_status parking_open(const struct parking *parking, struct device_source **ret_sources);
// Ends the parking: the processes use their memory again, and move it to the GPU unless they are suspended. Returns the
// number of processes that were parked or asked to park. Also for processes that a killed dump has left parked.
size_t parking_release(const struct tenants *tenants);
// The same, but not for processes with a deep wish. If the driver could not restore them, they must keep it, so that
// their pagers stay idle and the next attempt finds them.
void parking_release_dumped(const struct tenants *tenants);
// Removes the files of processes that have ended, and frees the list.
void parking_finish(struct parking *parking);

// ---- a restore -----------------------------------------------------------------------------------------

// Sweeps the file system for such files, and checks that it has room. HOST_MEMORY.
enum vg_status parking_check_room(uint64_t bytes);
// Creates an empty file for a stopped process that CRIU has restored. Adds it to the list, and returns its descriptor
// in *ret_fd. SYSTEM, NO_MEMORY.
enum vg_status parking_make(struct parking *parking, pid_t pid, int *ret_fd, struct pager_file *ret_file);
// Gives an unnamed file a name in the process's /dev/shm. Returns false and changes nothing on failure.
bool parking_adopt(struct parking *parking, pid_t pid, int fd, struct pager_file *ret_file);
// Removes the files of the list, and frees it.
void parking_remove(struct parking *parking);
