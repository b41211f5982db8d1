/* The properties of a device, each one number.
 *
 * X(NAME, name, number, kind, fallback): `number` is the driver's CU_DEVICE_ATTRIBUTE_NAME. `kind` is NUMBER or
 * FLAG (0 or 1), or LIVE_NUMBER or LIVE_FLAG if the value may change and is read each time. `fallback` is the
 * value if the driver does not know the property. */
#ifndef VIRGATE_DEVICE_PROPERTY_H
#define VIRGATE_DEVICE_PROPERTY_H

#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off: a table */
#define VG_DEVICE_PROPERTY_LIST(X)                                                                                    \
	X(MAX_THREADS_PER_BLOCK, max_threads_per_block, 1, NUMBER, 0)                                                 \
	X(MAX_BLOCK_DIM_X, max_block_dim_x, 2, NUMBER, 0)                                                             \
	X(MAX_BLOCK_DIM_Y, max_block_dim_y, 3, NUMBER, 0)                                                             \
	X(MAX_BLOCK_DIM_Z, max_block_dim_z, 4, NUMBER, 0)                                                             \
	X(MAX_GRID_DIM_X, max_grid_dim_x, 5, NUMBER, 0)                                                               \
	X(MAX_GRID_DIM_Y, max_grid_dim_y, 6, NUMBER, 0)                                                               \
	X(MAX_GRID_DIM_Z, max_grid_dim_z, 7, NUMBER, 0)                                                               \
	X(MAX_SHARED_MEMORY_PER_BLOCK, max_shared_memory_per_block, 8, NUMBER, 0)                                     \
	X(TOTAL_CONSTANT_MEMORY, total_constant_memory, 9, NUMBER, 0)                                                 \
	X(WARP_SIZE, warp_size, 10, NUMBER, 0)                                                                        \
	X(MAX_PITCH, max_pitch, 11, NUMBER, 0)                                                                        \
	X(MAX_REGISTERS_PER_BLOCK, max_registers_per_block, 12, NUMBER, 0)                                            \
	X(CLOCK_RATE, clock_rate, 13, LIVE_NUMBER, 0)                                                                 \
	X(TEXTURE_ALIGNMENT, texture_alignment, 14, NUMBER, 0)                                                        \
	X(GPU_OVERLAP, gpu_overlap, 15, FLAG, 0)                                                                      \
	X(MULTIPROCESSOR_COUNT, multiprocessor_count, 16, NUMBER, 0)                                                  \
	X(KERNEL_EXEC_TIMEOUT, kernel_exec_timeout, 17, LIVE_FLAG, 0)                                                 \
	X(INTEGRATED, integrated, 18, FLAG, 0)                                                                        \
	X(CAN_MAP_HOST_MEMORY, can_map_host_memory, 19, FLAG, 0)                                                      \
	X(COMPUTE_MODE, compute_mode, 20, LIVE_NUMBER, 0)                                                             \
	X(MAXIMUM_TEXTURE1D_WIDTH, maximum_texture1d_width, 21, NUMBER, 0)                                            \
	X(MAXIMUM_TEXTURE2D_WIDTH, maximum_texture2d_width, 22, NUMBER, 0)                                            \
	X(MAXIMUM_TEXTURE2D_HEIGHT, maximum_texture2d_height, 23, NUMBER, 0)                                          \
	X(MAXIMUM_TEXTURE3D_WIDTH, maximum_texture3d_width, 24, NUMBER, 0)                                            \
	X(MAXIMUM_TEXTURE3D_HEIGHT, maximum_texture3d_height, 25, NUMBER, 0)                                          \
	X(MAXIMUM_TEXTURE3D_DEPTH, maximum_texture3d_depth, 26, NUMBER, 0)                                            \
	X(MAXIMUM_TEXTURE2D_LAYERED_WIDTH, maximum_texture2d_layered_width, 27, NUMBER, 0)                            \
	X(MAXIMUM_TEXTURE2D_LAYERED_HEIGHT, maximum_texture2d_layered_height, 28, NUMBER, 0)                          \
	X(MAXIMUM_TEXTURE2D_LAYERED_LAYERS, maximum_texture2d_layered_layers, 29, NUMBER, 0)                          \
	X(SURFACE_ALIGNMENT, surface_alignment, 30, NUMBER, 0)                                                        \
	X(CONCURRENT_KERNELS, concurrent_kernels, 31, FLAG, 0)                                                        \
	X(ECC_ENABLED, ecc_enabled, 32, FLAG, 0)                                                                      \
	X(PCI_BUS_ID, pci_bus_id, 33, NUMBER, 0)                                                                      \
	X(PCI_DEVICE_ID, pci_device_id, 34, NUMBER, 0)                                                                \
	X(TCC_DRIVER, tcc_driver, 35, FLAG, 0)                                                                        \
	X(MEMORY_CLOCK_RATE, memory_clock_rate, 36, LIVE_NUMBER, 0)                                                   \
	X(GLOBAL_MEMORY_BUS_WIDTH, global_memory_bus_width, 37, NUMBER, 0)                                            \
	X(L2_CACHE_SIZE, l2_cache_size, 38, NUMBER, 0)                                                                \
	X(MAX_THREADS_PER_MULTIPROCESSOR, max_threads_per_multiprocessor, 39, NUMBER, 0)                              \
	X(ASYNC_ENGINE_COUNT, async_engine_count, 40, NUMBER, 0)                                                      \
	X(UNIFIED_ADDRESSING, unified_addressing, 41, FLAG, 0)                                                        \
	X(MAXIMUM_TEXTURE1D_LAYERED_WIDTH, maximum_texture1d_layered_width, 42, NUMBER, 0)                            \
	X(MAXIMUM_TEXTURE1D_LAYERED_LAYERS, maximum_texture1d_layered_layers, 43, NUMBER, 0)                          \
	X(CAN_TEX2D_GATHER, can_tex2d_gather, 44, FLAG, 0)                                                            \
	X(MAXIMUM_TEXTURE2D_GATHER_WIDTH, maximum_texture2d_gather_width, 45, NUMBER, 0)                              \
	X(MAXIMUM_TEXTURE2D_GATHER_HEIGHT, maximum_texture2d_gather_height, 46, NUMBER, 0)                            \
	X(MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE, maximum_texture3d_width_alternate, 47, NUMBER, 0)                        \
	X(MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE, maximum_texture3d_height_alternate, 48, NUMBER, 0)                      \
	X(MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE, maximum_texture3d_depth_alternate, 49, NUMBER, 0)                        \
	X(PCI_DOMAIN_ID, pci_domain_id, 50, NUMBER, 0)                                                                \
	X(TEXTURE_PITCH_ALIGNMENT, texture_pitch_alignment, 51, NUMBER, 0)                                            \
	X(MAXIMUM_TEXTURECUBEMAP_WIDTH, maximum_texturecubemap_width, 52, NUMBER, 0)                                  \
	X(MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH, maximum_texturecubemap_layered_width, 53, NUMBER, 0)                  \
	X(MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS, maximum_texturecubemap_layered_layers, 54, NUMBER, 0)                \
	X(MAXIMUM_SURFACE1D_WIDTH, maximum_surface1d_width, 55, NUMBER, 0)                                            \
	X(MAXIMUM_SURFACE2D_WIDTH, maximum_surface2d_width, 56, NUMBER, 0)                                            \
	X(MAXIMUM_SURFACE2D_HEIGHT, maximum_surface2d_height, 57, NUMBER, 0)                                          \
	X(MAXIMUM_SURFACE3D_WIDTH, maximum_surface3d_width, 58, NUMBER, 0)                                            \
	X(MAXIMUM_SURFACE3D_HEIGHT, maximum_surface3d_height, 59, NUMBER, 0)                                          \
	X(MAXIMUM_SURFACE3D_DEPTH, maximum_surface3d_depth, 60, NUMBER, 0)                                            \
	X(MAXIMUM_SURFACE1D_LAYERED_WIDTH, maximum_surface1d_layered_width, 61, NUMBER, 0)                            \
	X(MAXIMUM_SURFACE1D_LAYERED_LAYERS, maximum_surface1d_layered_layers, 62, NUMBER, 0)                          \
	X(MAXIMUM_SURFACE2D_LAYERED_WIDTH, maximum_surface2d_layered_width, 63, NUMBER, 0)                            \
	X(MAXIMUM_SURFACE2D_LAYERED_HEIGHT, maximum_surface2d_layered_height, 64, NUMBER, 0)                          \
	X(MAXIMUM_SURFACE2D_LAYERED_LAYERS, maximum_surface2d_layered_layers, 65, NUMBER, 0)                          \
	X(MAXIMUM_SURFACECUBEMAP_WIDTH, maximum_surfacecubemap_width, 66, NUMBER, 0)                                  \
	X(MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH, maximum_surfacecubemap_layered_width, 67, NUMBER, 0)                  \
	X(MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS, maximum_surfacecubemap_layered_layers, 68, NUMBER, 0)                \
	X(MAXIMUM_TEXTURE1D_LINEAR_WIDTH, maximum_texture1d_linear_width, 69, NUMBER, 0)                              \
	X(MAXIMUM_TEXTURE2D_LINEAR_WIDTH, maximum_texture2d_linear_width, 70, NUMBER, 0)                              \
	X(MAXIMUM_TEXTURE2D_LINEAR_HEIGHT, maximum_texture2d_linear_height, 71, NUMBER, 0)                            \
	X(MAXIMUM_TEXTURE2D_LINEAR_PITCH, maximum_texture2d_linear_pitch, 72, NUMBER, 0)                              \
	X(MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH, maximum_texture2d_mipmapped_width, 73, NUMBER, 0)                        \
	X(MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT, maximum_texture2d_mipmapped_height, 74, NUMBER, 0)                      \
	X(COMPUTE_CAPABILITY_MAJOR, compute_capability_major, 75, NUMBER, 0)                                          \
	X(COMPUTE_CAPABILITY_MINOR, compute_capability_minor, 76, NUMBER, 0)                                          \
	X(MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH, maximum_texture1d_mipmapped_width, 77, NUMBER, 0)                        \
	X(STREAM_PRIORITIES_SUPPORTED, stream_priorities_supported, 78, FLAG, 0)                                      \
	X(GLOBAL_L1_CACHE_SUPPORTED, global_l1_cache_supported, 79, FLAG, 0)                                          \
	X(LOCAL_L1_CACHE_SUPPORTED, local_l1_cache_supported, 80, FLAG, 0)                                            \
	X(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, max_shared_memory_per_multiprocessor, 81, NUMBER, 0)                  \
	X(MAX_REGISTERS_PER_MULTIPROCESSOR, max_registers_per_multiprocessor, 82, NUMBER, 0)                          \
	X(MANAGED_MEMORY, managed_memory, 83, FLAG, 0)                                                                \
	X(MULTI_GPU_BOARD, multi_gpu_board, 84, FLAG, 0)                                                              \
	X(MULTI_GPU_BOARD_GROUP_ID, multi_gpu_board_group_id, 85, NUMBER, 0)                                          \
	X(HOST_NATIVE_ATOMIC_SUPPORTED, host_native_atomic_supported, 86, FLAG, 0)                                    \
	X(SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, single_to_double_precision_perf_ratio, 87, LIVE_NUMBER, 0)           \
	X(PAGEABLE_MEMORY_ACCESS, pageable_memory_access, 88, FLAG, 0)                                                \
	X(CONCURRENT_MANAGED_ACCESS, concurrent_managed_access, 89, FLAG, 0)                                          \
	X(COMPUTE_PREEMPTION_SUPPORTED, compute_preemption_supported, 90, FLAG, 0)                                    \
	X(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, can_use_host_pointer_for_registered_mem, 91, FLAG, 0)              \
	X(COOPERATIVE_LAUNCH, cooperative_launch, 95, FLAG, 0)                                                        \
	X(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, max_shared_memory_per_block_optin, 97, NUMBER, 0)                        \
	X(CAN_FLUSH_REMOTE_WRITES, can_flush_remote_writes, 98, FLAG, 0)                                              \
	X(HOST_REGISTER_SUPPORTED, host_register_supported, 99, FLAG, 0)                                              \
	X(PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, pageable_memory_access_uses_host_page_tables, 100, FLAG, 0)   \
	X(DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, direct_managed_mem_access_from_host, 101, FLAG, 0)                     \
	X(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, virtual_memory_management_supported, 102, FLAG, 0)                     \
	X(HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, handle_type_posix_file_descriptor_supported, 103, FLAG, 0)     \
	X(HANDLE_TYPE_WIN32_HANDLE_SUPPORTED, handle_type_win32_handle_supported, 104, FLAG, 0)                       \
	X(HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED, handle_type_win32_kmt_handle_supported, 105, FLAG, 0)               \
	X(MAX_BLOCKS_PER_MULTIPROCESSOR, max_blocks_per_multiprocessor, 106, NUMBER, 0)                               \
	X(GENERIC_COMPRESSION_SUPPORTED, generic_compression_supported, 107, FLAG, 0)                                 \
	X(MAX_PERSISTING_L2_CACHE_SIZE, max_persisting_l2_cache_size, 108, NUMBER, 0)                                 \
	X(MAX_ACCESS_POLICY_WINDOW_SIZE, max_access_policy_window_size, 109, NUMBER, 0)                               \
	X(GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, gpu_direct_rdma_with_cuda_vmm_supported, 110, FLAG, 0)             \
	X(RESERVED_SHARED_MEMORY_PER_BLOCK, reserved_shared_memory_per_block, 111, NUMBER, 0)                         \
	X(SPARSE_CUDA_ARRAY_SUPPORTED, sparse_cuda_array_supported, 112, FLAG, 0)                                     \
	X(READ_ONLY_HOST_REGISTER_SUPPORTED, read_only_host_register_supported, 113, FLAG, 0)                         \
	X(TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, timeline_semaphore_interop_supported, 114, FLAG, 0)                   \
	X(MEMORY_POOLS_SUPPORTED, memory_pools_supported, 115, FLAG, 0)                                               \
	X(GPU_DIRECT_RDMA_SUPPORTED, gpu_direct_rdma_supported, 116, FLAG, 0)                                         \
	X(GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, gpu_direct_rdma_flush_writes_options, 117, NUMBER, 0)                 \
	X(GPU_DIRECT_RDMA_WRITES_ORDERING, gpu_direct_rdma_writes_ordering, 118, NUMBER, 0)                           \
	X(MEMPOOL_SUPPORTED_HANDLE_TYPES, mempool_supported_handle_types, 119, NUMBER, 0)                             \
	X(CLUSTER_LAUNCH, cluster_launch, 120, FLAG, 0)                                                               \
	X(DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED, deferred_mapping_cuda_array_supported, 121, FLAG, 0)                 \
	X(CAN_USE_64_BIT_STREAM_MEM_OPS, can_use_64_bit_stream_mem_ops, 122, FLAG, 0)                                 \
	X(CAN_USE_STREAM_WAIT_VALUE_NOR, can_use_stream_wait_value_nor, 123, FLAG, 0)                                 \
	X(DMA_BUF_SUPPORTED, dma_buf_supported, 124, FLAG, 0)                                                         \
	X(IPC_EVENT_SUPPORTED, ipc_event_supported, 125, FLAG, 0)                                                     \
	X(MEM_SYNC_DOMAIN_COUNT, mem_sync_domain_count, 126, NUMBER, 1)                                               \
	X(TENSOR_MAP_ACCESS_SUPPORTED, tensor_map_access_supported, 127, FLAG, 0)                                     \
	X(HANDLE_TYPE_FABRIC_SUPPORTED, handle_type_fabric_supported, 128, FLAG, 0)                                   \
	X(UNIFIED_FUNCTION_POINTERS, unified_function_pointers, 129, FLAG, 0)                                         \
	X(NUMA_CONFIG, numa_config, 130, NUMBER, 0)                                                                   \
	X(NUMA_ID, numa_id, 131, NUMBER, 0)                                                                           \
	X(MULTICAST_SUPPORTED, multicast_supported, 132, FLAG, 0)                                                     \
	X(MPS_ENABLED, mps_enabled, 133, FLAG, 0)                                                                     \
	X(HOST_NUMA_ID, host_numa_id, 134, NUMBER, -1)                                                                \
	X(D3D12_CIG_SUPPORTED, d3d12_cig_supported, 135, FLAG, 0)                                                     \
	X(MEM_DECOMPRESS_ALGORITHM_MASK, mem_decompress_algorithm_mask, 136, NUMBER, 0)                               \
	X(MEM_DECOMPRESS_MAXIMUM_LENGTH, mem_decompress_maximum_length, 137, NUMBER, 0)                               \
	X(VULKAN_CIG_SUPPORTED, vulkan_cig_supported, 138, FLAG, 0)                                                   \
	X(GPU_PCI_DEVICE_ID, gpu_pci_device_id, 139, NUMBER, 0)                                                       \
	X(GPU_PCI_SUBSYSTEM_ID, gpu_pci_subsystem_id, 140, NUMBER, 0)                                                 \
	X(HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, host_numa_virtual_memory_management_supported, 141, FLAG, 0) \
	X(HOST_NUMA_MEMORY_POOLS_SUPPORTED, host_numa_memory_pools_supported, 142, FLAG, 0)                           \
	X(HOST_NUMA_MULTINODE_IPC_SUPPORTED, host_numa_multinode_ipc_supported, 143, FLAG, 0)                         \
	X(HOST_MEMORY_POOLS_SUPPORTED, host_memory_pools_supported, 144, FLAG, 0)                                     \
	X(HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, host_virtual_memory_management_supported, 145, FLAG, 0)           \
	X(HOST_ALLOC_DMA_BUF_SUPPORTED, host_alloc_dma_buf_supported, 146, FLAG, 0)                                   \
	X(ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED, only_partial_host_native_atomic_supported, 147, FLAG, 0)
/* clang-format on */

enum vg_device_property {
#define X(NAME, name, number, kind, fallback) VG_DEVICE_##NAME = (number),
	VG_DEVICE_PROPERTY_LIST(X)
#undef X
};

/* Returns a property's name, such as "warp_size"; NULL for an invalid property. Any thread. */
VG_PUBLIC const char *vg_device_property_name(enum vg_device_property property);
/* Finds a property by its name, in upper or lower case; 0 if it is unknown. Any thread. */
VG_PUBLIC enum vg_device_property vg_device_property_find(const char *name);
/* Returns 1 for properties that are 0 or 1. Any thread. */
VG_PUBLIC int vg_device_property_is_flag(enum vg_device_property property);

#ifdef __cplusplus
}
#endif
#endif
