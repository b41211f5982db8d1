/* All of libvirgate's public headers. */
#ifndef VIRGATE_VIRGATE_H
#define VIRGATE_VIRGATE_H

#include <virgate/audit.h>
#include <virgate/broker.h>
#include <virgate/compile_cache.h>
#include <virgate/context.h>
#include <virgate/device.h>
#include <virgate/device_resource.h>
#include <virgate/event.h>
#include <virgate/gpu.h>
#include <virgate/gpu_event.h>
#include <virgate/gpu_place.h>
#include <virgate/gpu_state.h>
#include <virgate/graph.h>
#include <virgate/graph_builder.h>
#include <virgate/graph_definition.h>
#include <virgate/graph_node.h>
#include <virgate/graphics.h>
#include <virgate/kernel.h>
#include <virgate/launch.h>
#include <virgate/layout.h>
#include <virgate/linker.h>
#include <virgate/log.h>
#include <virgate/managed_memory.h>
#include <virgate/memory.h>
#include <virgate/memory_adaptor.h>
#include <virgate/memory_pool.h>
#include <virgate/memory_resource.h>
#include <virgate/object_code.h>
#include <virgate/operation.h>
#include <virgate/process.h>
#include <virgate/program.h>
#include <virgate/share.h>
#include <virgate/seal.h>
#include <virgate/status.h>
#include <virgate/stream.h>
#include <virgate/system.h>
#include <virgate/tensor_map.h>
#include <virgate/toolchain.h>
#include <virgate/version.h>
#include <virgate/vgpu.h>
#include <virgate/view.h>
#include <virgate/virtual_memory.h>
#include <virgate/vram.h>

#endif
