#!/usr/bin/env python3
"""test_vgpu_manager.py SOURCE LIBRARY HEADER...: checks docs/vgpu-manager.md, which compares this library with the
guide of MSmartCompute. Every name of this library in the page must exist. The page's tables must have a row for every
method, field, value and advice of that guide. They must also name every function of the manager's headers."""

import os
import re
import sys

sys.dont_write_bytecode = True
import headers  # noqa: E402
import mapping  # noqa: E402
from mapping import check  # noqa: E402

SOURCE, LIBRARY, HEADERS = sys.argv[1], sys.argv[2], sys.argv[3:]
OURS = ("balancer.h", "/compute.h", "/manager.h", "memory_space.h", "monitor.h", "operation.h")
METHODS = {
    "CUDAVirtualizationDriver": """getInstance initialize shutdown createVirtualGPU destroyVirtualGPU
        getVirtualGPUStatus getVirtualGPUInfo getAllVirtualGPUInfo allocateMemory freeMemory copyMemory memset
        matrixMultiply
        convolutionForward activationForward batchNormalization selfAttention synchronizeStream queryStream
        waitForStream getGPUUtilization getTotalMemory getUsedMemory getFreeMemory getConfig
        isMemoryVirtualizationEnabled isComputeVirtualizationEnabled""",
    "MemoryVirtualizationManager": """getInstance initialize shutdown createVirtualMemorySpace destroyVirtualMemorySpace
        allocateMemory freeMemory copyMemory memset defragment compact getVirtualMemoryInfo getAllVirtualMemoryInfo
        getConfig isInitialized""",
    "ComputeVirtualizationManager": """getInstance initialize shutdown createVirtualComputeUnit
        destroyVirtualComputeUnit getVirtualComputeUnitInfo getAllVirtualComputeUnitInfo executeKernel synchronize
        cancelKernel setComputeShare enableTensorCores disableTensorCores scaleComputeUnits getGPUUtilization
        getConfig isInitialized""",
}
FIELDS = {
    "VirtualizationConfig": """deviceId maxVirtualGPUs numVirtualStreams monitoringInterval enableMemoryVirtualization
        enableComputeVirtualization enableTensorCores enableMixedPrecision""",
    "VirtualGPUConfig": "virtualGPUId memoryLimit numStreams enableTensorCores enableMixedPrecision computeShare name",
    "VirtualGPUInfo": """virtualGPUId status memoryAllocated memoryLimit memoryUtilization computeUtilization
        activeStreams numStreams name""",
    "MemoryVirtualizationConfig": """deviceId pageSize maxPages numMemoryPools basePoolSize baseBlockSize
        defragmentationThreshold enableAutomaticDefragmentation monitoringInterval""",
    "VirtualMemoryInfo": "virtualGPUId totalSize allocatedSize freeSize fragmentationLevel",
    "PageTableEntry": "virtualAddress physicalAddress size valid dirty accessed lastAccess",
    "MemoryPool": "blockSize totalSize freeSize",
    "ComputeVirtualizationConfig": """deviceId maxVirtualComputeUnits schedulingPolicy loadBalancingStrategy timeSlice
        monitoringInterval enableDynamicScaling enablePreemption""",
    "VirtualComputeUnitConfig": """numComputeUnits numStreams maxConcurrentKernels enableTensorCores
        enableMixedPrecision computeShare name""",
    "VirtualComputeUnitInfo": """virtualGPUId status computeUtilization memoryUtilization activeKernels
        totalKernelsExecuted numStreams numComputeUnits name""",
    "KernelConfig": "kernelName gridDim blockDim sharedMemorySize stream priority kernelType",
    "KernelExecution": "kernelConfig streamId status startTime endTime executionId",
    "ComputeScheduler": "policy",
    "LoadInfo": "virtualGPUId computeUtilization activeKernels memoryUtilization queueLength",
    "LoadBalancer": "strategy rebalanceThreshold",
    "LoadBalancingAction": "type sourceGPUId targetGPUId kernelId computeShare numComputeUnits",
}
VALUES = {
    "VirtualGPUStatus": "NOT_FOUND CREATED RUNNING PAUSED ERROR DESTROYED",
    "VirtualComputeUnitStatus": "NOT_FOUND CREATED RUNNING PAUSED ERROR DESTROYED",
    "KernelExecutionStatus": "QUEUED RUNNING COMPLETED FAILED CANCELLED",
    "LoadBalancingActionType": "MIGRATE_KERNEL ADJUST_COMPUTE_SHARE SCALE_COMPUTE_UNITS PREEMPT_KERNEL",
}
ADVICE = {
    "Resource planning": "memory allocation, compute units, streams",
    "Performance": "memory pools, defragmentation, load balancing",
    "Initialization failures": "CUDA installation and version, GPU compatibility, system resources",
    "Memory allocation failures": "available memory, limits, defragmentation",
    "Performance issues": "resource allocation, fragmentation, workload distribution",
    "Kernel failures": "compute unit allocation, stream availability, compute utilization",
    "Memory": "pool sizes, defragmentation threshold, page size",
    "Compute": "shares, stream count, kernel scheduling",
    "Balancing": "strategy, frequency, threshold",
}
SNIPPETS = """Error handling, Resource management, Monitoring and logging, Debug information, Performance monitoring,
    Monitoring and profiling"""


def listed(table, form, separator=None):
    return {form.format(name, item.strip()) for name, items in table.items() for item in items.split(separator)}


def main():
    text = "\n".join(headers.text_of(HEADERS).values())
    found = mapping.check_document(f"{SOURCE}/docs/vgpu-manager.md", LIBRARY, text)
    code = listed(METHODS, "{}::{}()") | listed(FIELDS, "{}.{}") | listed(VALUES, "{}::{}")
    named = {name for cells in found for name in re.findall(r"`([^`]*)`", cells[0])}
    check("every method, field and value of the guide has a row", sorted(code - named))
    check("no row is of something that the guide lacks", sorted(named - code))
    advice = listed(ADVICE, "{}: {}", ",") | {item.strip() for item in SNIPPETS.split(",")}
    plain = {cells[0] for cells in found if "`" not in cells[0] and not cells[0].startswith("beyond the reference")}
    check("every advice of the guide has a row", sorted(advice - plain))
    check("no row is of advice that the guide lacks", sorted(plain - advice))
    ours = "".join(t for path, t in headers.text_of(HEADERS).items() if path.endswith(OURS))
    check("every function of the manager has a row",
          sorted(headers.functions(ours) - mapping.named(found)) if ours else "no headers")
    examples = re.findall(r"examples/library/\w+\.c", " ".join(" ".join(cells) for cells in found))
    check("the examples that rows name exist",
          [path for path in examples if not os.path.exists(f"{SOURCE}/{path}")])
    return mapping.finish()


if __name__ == "__main__":
    sys.exit(main())
