#!/usr/bin/env python3
"""Runs virgated with the restrictions of its unit, for tests on machines without systemd: the capabilities, the system
calls, the socket families, and a file system that is read-only except for the paths in the unit. CONFINED_UNIT is the
unit, CONFINED_PROGRAM the program, CONFINED_SETS a file with the output of `systemd-analyze syscall-filter`. The
arguments are passed to the program."""
import ctypes
import os
import re
import struct
import sys

INCLUDE = '/usr/include'
PR_CAPBSET_DROP, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 24, 22, 38
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000
SYS_MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = 442, -100, 0x8000, 1
ALLOW, ERRNO, EPERM, EAFNOSUPPORT, AF_UNIX, ARCH_X86_64 = 0x7fff0000, 0x50000, 1, 97, 1, 0xc000003e
libc = ctypes.CDLL(None, use_errno=True)


def check(result, what):
    if result != 0:
        sys.exit(f'confined.py: {what}: {os.strerror(ctypes.get_errno())}')


def read_unit(path):
    values = {}
    for line in open(path, encoding='utf-8'):
        key, equals, value = line.strip().partition('=')
        if equals and not key.startswith('#'):
            values.setdefault(key, []).append(value)
    return values


def read_defines(path, pattern):
    return {name.lower(): int(number)
            for name, number in re.findall(pattern, open(f'{INCLUDE}/{path}', encoding='utf-8').read(), re.M)}


def read_sets(path):
    """Reads the output of `systemd-analyze syscall-filter`. It has the name of each set of system calls, and below it
    the members of the set."""
    sets = {}
    for line in open(path, encoding='utf-8'):
        if line.startswith('@'):
            members = sets.setdefault(line.strip(), [])
        elif line.startswith(' ') and not line.strip().startswith('#'):
            members += line.split()
    return sets


def expand_names(item, sets):
    return {name for member in sets[item] for name in expand_names(member, sets)} if item.startswith('@') else {item}


def list_allowed_calls(filters):
    allowed, sets = set(), read_sets(os.environ['CONFINED_SETS'])
    for value in filters:
        names = {name for item in value.lstrip('~').split() for name in expand_names(item, sets)}
        allowed = allowed - names if value.startswith('~') else allowed | names
    numbers = read_defines('x86_64-linux-gnu/asm/unistd_64.h', r'^#define __NR_(\w+) (\d+)$')
    return {numbers[name] for name in allowed if name in numbers}, numbers['socket']


def make_filter(calls, socket):
    def instruction(code, true, false, value):
        return struct.pack('=HBBI', code, true, false, value)
    load, equal, give = 0x20, 0x15, 0x06
    code = [instruction(load, 0, 0, 4), instruction(equal, 1, 0, ARCH_X86_64), instruction(give, 0, 0, ERRNO | EPERM),
            instruction(load, 0, 0, 0), instruction(equal, 0, 4, socket), instruction(load, 0, 0, 16),
            instruction(equal, 0, 1, AF_UNIX), instruction(give, 0, 0, ALLOW),
            instruction(give, 0, 0, ERRNO | EAFNOSUPPORT)]
    for call in sorted(calls - {socket}):
        code += [instruction(equal, 0, 1, call), instruction(give, 0, 0, ALLOW)]
    code.append(instruction(give, 0, 0, ERRNO | EPERM))
    return b''.join(code), len(code)


def set_mounts(writable):
    check(libc.unshare(CLONE_NEWNS), 'no mount namespace')
    check(libc.mount(b'none', b'/', None, MS_REC | MS_PRIVATE, None), 'mount namespace')
    for path in writable:
        check(libc.mount(path.encode(), path.encode(), None, MS_BIND | MS_REC, None), path)
    for path, attributes in [('/', (MOUNT_ATTR_RDONLY, 0))] + [(path, (0, MOUNT_ATTR_RDONLY)) for path in writable]:
        change = struct.pack('=QQQQ', *attributes, 0, 0)
        check(libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, path.encode(), AT_RECURSIVE, change, len(change)), path)


def main():
    unit = read_unit(os.environ['CONFINED_UNIT'])
    keep = {name.lower() for value in unit['CapabilityBoundingSet'] for name in value.split()}
    capabilities = read_defines('linux/capability.h', r'^#define (CAP_\w+)\s+(\d+)$')
    code, length = make_filter(*list_allowed_calls(unit['SystemCallFilter']))
    # The unit's RuntimeDirectory= and StateDirectory= are not made writable, because the tests put these directories
    # below /tmp.
    set_mounts(['/dev', '/proc', '/sys'] + [path for value in unit['ReadWritePaths'] for path in value.split()])
    for name, number in capabilities.items():
        if name not in keep and name != 'cap_last_cap':
            libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)  # fails if the kernel does not know the capability
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 'no new privileges')
    buffer = ctypes.create_string_buffer(code, len(code))
    rules = struct.pack('=H6xQ', length, ctypes.addressof(buffer))
    check(libc.prctl(PR_SET_SECCOMP, 2, rules, 0, 0), 'system call filter')
    os.execv(os.environ['CONFINED_PROGRAM'], sys.argv)


main()
