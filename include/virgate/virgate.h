/* All of libvirgate's public headers. */
#ifndef VIRGATE_VIRGATE_H
#define VIRGATE_VIRGATE_H

#include <virgate/log.h>
#include <virgate/status.h>
#include <virgate/version.h>
#include <virgate/vgpu.h>

#endif
