// Tenants of evictable vGPUs leave the GPU before a dump: their pagers move their device memory to the host and put it
// away in files that they do not map (pager/page.h), so that neither the driver nor CRIU has to save it. Before a deep
// suspension the host memory stays mapped and pinned. One thread.
#pragma once
#include "checkpoint/device/out.h"
#include "checkpoint/process/phase.h"
#include "checkpoint/tenant/tenant.h"
#include "pager/host_file.h"

// The file of one process.
struct parked {
	pid_t pid;
	uint64_t start_time;
	int directory; // in which it is, as the process sees it
	char name[PAGER_FILE_NAME];
	uint64_t bytes;
};

struct parking {
	struct parked *list; // of those that have a file
	size_t count;
	uint64_t bytes; // of all
};

// Whether a process of the tree is in an evictable vGPU.
bool parking_concerns(const struct tenants *tenants);
struct parking_wish {
	unsigned drain_ms;
	const char *limit; // the option that sets it, for messages
	bool is_deep;	   // for `suspend --deep`: stays set afterwards. Also set for processes of non-evictable vGPUs.
};
// Asks the processes to park and waits until they have. A process that cannot for want of host memory stays on the GPU,
// and moves nothing until parking_release(), which is needed after every outcome. NOT_READY (its work does not end
// within `drain_ms`), SUSPENDED, HOST_FILE, DRIVER, STATE (the phase wants to stop), SYSTEM, NO_MEMORY.
enum vg_status parking_take(const struct tenants *tenants, const struct parking_wish *how, struct phase *phase,
			    struct parking *ret_parking);
// Records that the driver has taken processes with a deep wish off the GPU.
void parking_mark_deep(const struct tenants *tenants);
// Opens the files for reading. SYSTEM; INTEGRITY (a file is none of its process).
enum vg_status parking_open(const struct parking *parking, struct device_source **ret_sources);
// The processes take their memory back, and bring it to the GPU unless they are suspended. Returns how many were parked
// or were asked to. Without a dump before it, for processes that a killed dump has left so.
size_t parking_release(const struct tenants *tenants);
// The same, but not for processes with a deep wish. If the driver could not bring them back, they must keep it, so that
// their pagers stay idle and the next attempt finds them.
void parking_release_dumped(const struct tenants *tenants);
// Removes the files of processes that have ended, and frees the list.
void parking_finish(struct parking *parking);

// ---- a restore -----------------------------------------------------------------------------------------

// Whether the file system for such files has room, after it was swept. HOST_MEMORY.
enum vg_status parking_check_room(uint64_t bytes);
// Makes an empty file for a process that CRIU has made again and that stands still. Returns its descriptor in *ret_fd,
// and adds it to the list. SYSTEM, NO_MEMORY.
enum vg_status parking_make(struct parking *parking, pid_t pid, int *ret_fd, struct pager_file *ret_file);
// Gives an unnamed file a name in the process's /dev/shm. Returns false and changes nothing on failure.
bool parking_adopt(struct parking *parking, pid_t pid, int fd, struct pager_file *ret_file);
// Removes the files of the list, and frees it.
void parking_remove(struct parking *parking);
