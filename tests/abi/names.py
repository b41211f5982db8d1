#!/usr/bin/env python3
"""Prints the text of src/abi/toolkit/cuda/names.h (from ENTRIES.DEF) or cudart/names.h (from RUNTIME.DEF).

usage: names.py ENTRIES.DEF|RUNTIME.DEF [NAMES.H]

With NAMES.H, prints no text, but checks that the file NAMES.H has it.

In a program, cuMemAlloc stands for the newest version of the function, cuMemAlloc_v2, and with
CUDA_API_PER_THREAD_DEFAULT_STREAM for its variant for the per-thread default stream. The functions of the runtime have
one version.
"""
import re
import sys

# CUDA 13.0 has these newer versions of functions, but the short names still stand for the older ones.
NOT_DEFAULT = {'cuCtxGetDevice_v2', 'cuCtxSynchronize_v2', 'cuStreamGetCtx_v2', 'cuStreamGetCtx_v2_ptsz'}
# These short names stand for functions whose names differ by more than a version.
REPLACED = {'cuGraphInstantiate': 'cuGraphInstantiateWithFlags'}

HEAD = '''\
// Maps the names that programs write to the functions that the driver exports. tests/abi/names.py writes this file from
// entries.def. cuda_abi.h does not include it.
#pragma once
#include "device.h"

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define CU_NAME_PTDS(name) name##_ptds
#define CU_NAME_PTSZ(name) name##_ptsz

// The driver exports no variant of this function for the per-thread default stream, so this variant sets a flag.
static inline CUresult cuGetProcAddress_v2_ptsz(const char *symbol, void **function, int version, cuuint64_t flags,
						CUdriverProcAddressQueryResult *status)
{
	if (!(flags & (CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)))
		flags |= CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
	return cuGetProcAddress_v2(symbol, function, version, flags, status);
}
#else
#define CU_NAME_PTDS(name) name
#define CU_NAME_PTSZ(name) name
#endif

'''

RUNTIME_HEAD = '''\
// Maps the names of runtime functions to their variants for the per-thread default stream. tests/abi/names.py writes
// this file from runtime.def.
#pragma once

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
'''

# The driver exports no variants of these functions for the per-thread default stream. names.h defines the variants.
WRAPPED = {'cuGetProcAddress': 'cuGetProcAddress_v2_ptsz'}


def names(path):
    newest = {}
    for row in re.finditer(r'^ENTRY\((\w+), (\w+), (\d+), (\w+),', open(path).read(), re.M):
        abi, api, version, stream = row.group(1), row.group(2), int(row.group(3)), row.group(4)
        if abi not in NOT_DEFAULT:
            versions = newest.setdefault(api, {})
            if api in WRAPPED:
                versions['ptsz'] = (version, WRAPPED[api])
            versions[stream] = max(versions.get(stream, (0, '')), (version, abi))
    text = HEAD
    for api, versions in sorted(newest.items()):
        plain = REPLACED.get(api, versions['plain'][1])
        stream = next((stream for stream in ('ptds', 'ptsz') if stream in versions), None)
        if stream:
            text += f'#define {api} CU_NAME_{stream.upper()}({versions[stream][1][:-5]})\n'
        elif plain != api:
            text += f'#define {api} {plain}\n'
    return text


def runtime_names(path):
    functions = re.findall(r'^IMPLEMENTED\((cuda\w+)_(ptds|ptsz),', open(path).read(), re.M)
    defines = ''.join(f'#define {name} {name}_{stream}\n' for name, stream in sorted(functions))
    return RUNTIME_HEAD + defines + '#endif\n'


def main():
    text = (runtime_names if sys.argv[1].endswith('runtime.def') else names)(sys.argv[1])
    if len(sys.argv) == 2:
        sys.stdout.write(text)
    elif open(sys.argv[2]).read() != text:
        sys.exit(f'{sys.argv[2]} differs from {sys.argv[1]}: write it again with tests/abi/names.py')


main()
