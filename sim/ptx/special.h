// Declares the special registers, such as %tid. Any thread.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "sim/ptx/source.h"

// clang-format off
#define PTX_SPECIALS(X)                                                                                          \
	X(TID_X, "%tid.x", 32) X(TID_Y, "%tid.y", 32) X(TID_Z, "%tid.z", 32) X(ZERO_TID, "%tid.w", 32)           \
	X(NTID_X, "%ntid.x", 32) X(NTID_Y, "%ntid.y", 32) X(NTID_Z, "%ntid.z", 32) X(CTAID_X, "%ctaid.x", 32)    \
	X(CTAID_Y, "%ctaid.y", 32) X(CTAID_Z, "%ctaid.z", 32) X(NCTAID_X, "%nctaid.x", 32)                       \
	X(NCTAID_Y, "%nctaid.y", 32) X(NCTAID_Z, "%nctaid.z", 32) X(LANEID, "%laneid", 32)                       \
	X(WARPID, "%warpid", 32) X(NWARPID, "%nwarpid", 32) X(SMID, "%smid", 32) X(NSMID, "%nsmid", 32)          \
	X(GRIDID, "%gridid", 64) X(CLOCK, "%clock", 32) X(CLOCK_HI, "%clock_hi", 32) X(CLOCK64, "%clock64", 64)  \
	X(GLOBALTIMER, "%globaltimer", 64) X(GLOBALTIMER_LO, "%globaltimer_lo", 32)                              \
	X(GLOBALTIMER_HI, "%globaltimer_hi", 32) X(LANEMASK_EQ, "%lanemask_eq", 32)                              \
	X(LANEMASK_LE, "%lanemask_le", 32) X(LANEMASK_LT, "%lanemask_lt", 32)                                    \
	X(LANEMASK_GE, "%lanemask_ge", 32) X(LANEMASK_GT, "%lanemask_gt", 32) X(ENVREG1, "%envreg1", 32)         \
	X(ENVREG2, "%envreg2", 32) X(DYNAMIC_SMEM_SIZE, "%dynamic_smem_size", 32)                                \
	X(TOTAL_SMEM_SIZE, "%total_smem_size", 32) X(AGGR_SMEM_SIZE, "%aggr_smem_size", 32)                      \
	X(RESERVED_SMEM_BEGIN, "%reserved_smem_offset_begin", 32)                                                \
	X(RESERVED_SMEM_END, "%reserved_smem_offset_end", 32)                                                    \
	X(RESERVED_SMEM_CAP, "%reserved_smem_offset_cap", 32) X(RESERVED_SMEM_0, "%reserved_smem_offset_0", 32)  \
	X(RESERVED_SMEM_1, "%reserved_smem_offset_1", 32) X(IS_EXPLICIT_CLUSTER, "%is_explicit_cluster", 1)      \
	X(CLUSTERID_X, "%clusterid.x", 32) X(CLUSTERID_Y, "%clusterid.y", 32)                                    \
	X(CLUSTERID_Z, "%clusterid.z", 32) X(NCLUSTERID_X, "%nclusterid.x", 32)                                  \
	X(NCLUSTERID_Y, "%nclusterid.y", 32) X(NCLUSTERID_Z, "%nclusterid.z", 32)                                \
	X(CLUSTER_CTAID_X, "%cluster_ctaid.x", 32) X(CLUSTER_CTAID_Y, "%cluster_ctaid.y", 32)                    \
	X(CLUSTER_CTAID_Z, "%cluster_ctaid.z", 32) X(CLUSTER_NCTAID_X, "%cluster_nctaid.x", 32)                  \
	X(CLUSTER_NCTAID_Y, "%cluster_nctaid.y", 32) X(CLUSTER_NCTAID_Z, "%cluster_nctaid.z", 32)                \
	X(CLUSTER_CTARANK, "%cluster_ctarank", 32) X(CLUSTER_NCTARANK, "%cluster_nctarank", 32)                  \
	/* the following registers read as zero */                                                               \
	X(ENVREG0, "%envreg0", 32) X(ENVREG3, "%envreg3", 32) X(ENVREG4, "%envreg4", 32)                         \
	X(ENVREG5, "%envreg5", 32) X(ENVREG6, "%envreg6", 32) X(ENVREG7, "%envreg7", 32)                         \
	X(ENVREG8, "%envreg8", 32) X(ENVREG9, "%envreg9", 32) X(ENVREG10, "%envreg10", 32)                       \
	X(ENVREG11, "%envreg11", 32) X(ENVREG12, "%envreg12", 32) X(ENVREG13, "%envreg13", 32)                   \
	X(ENVREG14, "%envreg14", 32) X(ENVREG15, "%envreg15", 32) X(ENVREG16, "%envreg16", 32)                   \
	X(ENVREG17, "%envreg17", 32) X(ENVREG18, "%envreg18", 32) X(ENVREG19, "%envreg19", 32)                   \
	X(ENVREG20, "%envreg20", 32) X(ENVREG21, "%envreg21", 32) X(ENVREG22, "%envreg22", 32)                   \
	X(ENVREG23, "%envreg23", 32) X(ENVREG24, "%envreg24", 32) X(ENVREG25, "%envreg25", 32)                   \
	X(ENVREG26, "%envreg26", 32) X(ENVREG27, "%envreg27", 32) X(ENVREG28, "%envreg28", 32)                   \
	X(ENVREG29, "%envreg29", 32) X(ENVREG30, "%envreg30", 32) X(ENVREG31, "%envreg31", 32)                   \
	X(PM0, "%pm0", 32) X(PM1, "%pm1", 32) X(PM2, "%pm2", 32) X(PM3, "%pm3", 32) X(PM4, "%pm4", 32)           \
	X(PM5, "%pm5", 32) X(PM6, "%pm6", 32) X(PM7, "%pm7", 32) X(PM0_64, "%pm0_64", 64)                        \
	X(PM1_64, "%pm1_64", 64) X(PM2_64, "%pm2_64", 64) X(PM3_64, "%pm3_64", 64) X(PM4_64, "%pm4_64", 64)      \
	X(PM5_64, "%pm5_64", 64) X(PM6_64, "%pm6_64", 64) X(PM7_64, "%pm7_64", 64)                               \
	X(CURRENT_GRAPH_EXEC, "%current_graph_exec", 64) X(NTID_W, "%ntid.w", 32) X(CTAID_W, "%ctaid.w", 32)     \
	X(NCTAID_W, "%nctaid.w", 32) X(CLUSTERID_W, "%clusterid.w", 32) X(NCLUSTERID_W, "%nclusterid.w", 32)     \
	X(CLUSTER_CTAID_W, "%cluster_ctaid.w", 32) X(CLUSTER_NCTAID_W, "%cluster_nctaid.w", 32)
// clang-format on

enum ptx_special {
#define X(id, name, bits) PTX_SPECIAL_##id,
	PTX_SPECIALS(X)
#undef X
		PTX_SPECIAL_COUNT
};

// Finds a special register by its name. Returns false if the name is unknown.
bool ptx_special_find(const char *name, size_t length, enum ptx_special *ret_special, struct ptx_type *ret_type);
// Finds the four elements of a special register that is a vector, such as %tid. Returns false if the name is unknown.
bool ptx_special_vector(const char *name, size_t length, enum ptx_special ret_elements[4]);
