// Constants for the CDI specification that `virgate cdi generate` writes, and for the hooks in it. One thread.
#pragma once

#define CDI_KIND "virgate.dev/vgpu"
// The beginning of the CDI device names of profiles; the profile's name follows. A vGPU cannot have such a name,
// because its name contains no colon.
#define CDI_PROFILE "profile:"
// The names of vGPUs that virgate-device-plugin has allocated begin with this text, the name of the profile, and a dot.
#define CDI_ALLOCATED "k8s."
// The directory below the daemon's runtime directory in which virgate-device-plugin notes valid allocations. It has a
// file with the name of each vGPU, and each line of that file is a token. While the kubelet is about to start a
// container with the vGPU, a second file exists, whose name ends with CDI_START. It has the time (CLOCK_MONOTONIC, in
// milliseconds) at which the permission to start the container expires.
#define CDI_ALLOCATIONS "allocations"
#define CDI_START ".start"

// The directory in a container at which the runtime mounts a new file system (tmpfs). It contains the ledger, the
// daemon's socket and Virgate's libraries.
#define CDI_DIRECTORY "/run/virgate-vgpu"
// The ledger's path below CDI_DIRECTORY. The daemon recognizes a container's mapping of the ledger by this path.
#define CDI_LEDGER "ledgers/.container"
#define CDI_SOCKET "virgated.sock"
