#!/usr/bin/env python3
"""tenant.py DIRECTORY: a program that allocates 100 MiB on the simulated GPU. When the file DIRECTORY/more appears, it
allocates 50 MiB and then 200 MiB, and writes the driver's results to files. It ends when DIRECTORY/end appears."""
import ctypes
import os
import sys
import time

directory = sys.argv[1]
driver = ctypes.CDLL("libcuda.so.1")


def write(name, text):
    with open(f"{directory}/{name}.new", "w", encoding="ascii") as file:
        file.write(text + "\n")
    os.rename(f"{directory}/{name}.new", f"{directory}/{name}")


def wait(name):
    while not os.path.exists(f"{directory}/{name}"):
        time.sleep(0.05)


def allocate(mebibytes):
    address = ctypes.c_uint64()
    return driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(mebibytes << 20))


context = ctypes.c_void_p()
started = [driver.cuInit(0), driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
           driver.cuCtxSetCurrent(context)]
write("first", f"{started} {allocate(100)}")
wait("more")
write("second", f"{allocate(50)} {allocate(200)}")
wait("end")
