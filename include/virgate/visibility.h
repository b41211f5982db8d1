/* VG_PUBLIC marks what libvirgate exports; everything else in it is hidden. */
#ifndef VIRGATE_VISIBILITY_H
#define VIRGATE_VISIBILITY_H

#define VG_PUBLIC __attribute__((visibility("default")))

#endif
