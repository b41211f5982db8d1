// What the CDI specification, which `virgate cdi generate` writes, and the hooks in it have in common. One thread.
#pragma once

#define CDI_KIND "virgate.dev/vgpu"
// The name of the device of a profile is this text and the name of the profile. A vGPU's name cannot contain a colon.
#define CDI_PROFILE "profile:"

// A file system of the container's own, with the ledger, the daemon's socket and Virgate's libraries.
#define CDI_DIRECTORY "/run/virgate-vgpu"
// The name of the ledger in the container, in CDI_DIRECTORY. The daemon finds mappings of the ledger by this path.
#define CDI_LEDGER "ledgers/.container"
#define CDI_SOCKET "virgated.sock"
