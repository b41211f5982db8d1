#!/usr/bin/env python3
"""Compares our declarations of NVIDIA's interfaces (src/abi/toolkit) with the headers of a CUDA toolkit.

usage: compare.py C++-COMPILER OUR-DIRECTORY TOOLKIT-INCLUDE-DIRECTORY HEADER...

For each header, a C++ program prints a table of everything that our header declares: the size of each type, the offset,
size and type of each member, the value of each enumerator and macro, the type of each function. The program is compiled
twice, with our header and with the toolkit's. The two tables must be equal. The default arguments of functions are
compared as text. The exit status is 77 if the toolkit has none of the headers.
"""
import os
import re
import subprocess
import sys
import tempfile

# this makes the driver API's header leave out the macros that rename functions
INTERNAL = ['-D__CUDA_API_VERSION_INTERNAL']
# The names of enumerators that count other enumerators or elements of an array. A newer toolkit may have higher counts.
GROWS = re.compile(r'_(MAX|NUM_OPTIONS|NUM_INPUT_TYPES|COUNT)$|(AttrMax|AttributeMax|NodeTypeCount)$')
# These macros describe the header itself, such as its version or how it declares functions. They are not compared.
OWN = re.compile(r'CU_API|CU(DART)?_LINKAGE|CUDA(RT)?_VERSION$|CUDAAPI$|CUDA_CB$|NVRTC_API|__')


def preprocess(compiler, flags, directory, header, only_below):
    """Returns the declarations and macros that the header brings in from files below the directory `only_below`."""
    text = subprocess.run([compiler, '-x', 'c++', '-E', '-dD', *flags, '-I', directory, '-'], check=True, text=True,
                          input=f'#include <{header}>\n', stdout=subprocess.PIPE).stdout
    kept, macros, inside = [], {}, False
    for line in text.splitlines():
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            inside = marker.group(1).startswith(only_below)
        elif inside and line.startswith('#define '):
            macro = re.match(r'#define (\w+) (\S.*)', line)
            if macro:
                macros[macro.group(1)] = macro.group(2)
        elif inside and not line.startswith('#'):
            kept.append(line)
    return ' '.join(kept), macros


def find_close(text, start):
    """Returns the index of the bracket that closes the one at `start`."""
    depth = 0
    for i in range(start, len(text)):
        depth += {'{': 1, '(': 1, '}': -1, ')': -1}.get(text[i], 0)
        if not depth:
            return i
    sys.exit('braces do not match')


def split_declarations(text):
    """Yields the declarations: the text between semicolons outside of braces."""
    start = depth = 0
    for i, character in enumerate(text):
        depth += {'{': 1, '}': -1}.get(character, 0)
        if character == ';' and not depth:
            yield text[start:i].strip()
            start = i + 1


def members(body):
    """Yields (path, whether its type has a name) for each member of a structure's body. Also yields the members of
    inner structures and unions, with a path such as outer.inner."""
    for declaration in split_declarations(body):
        opening = declaration.find('{')
        if opening >= 0:
            closing = find_close(declaration, opening)
            name = re.match(r'\s*(\w*)', declaration[closing + 1:]).group(1)
            if name:
                yield name, False
            for inner, typed in members(declaration[opening + 1:closing]):
                yield (name + '.' if name else '') + inner, typed
        else:
            for declarator in declaration.split(','):
                yield re.search(r'(\w+)\s*(\[[^]]*\]\s*)*$', declarator).group(1), True


def rows_of(text, macros):
    """Yields (label, C++ expression) for each fact that is compared, such as the size of a type."""
    types = set()
    for declaration in split_declarations(text.replace('extern "C" {', '')):
        body, closing = None, declaration.find('{')
        if closing >= 0:
            opening, closing = closing, find_close(declaration, closing)
            body = declaration[opening + 1:closing]
        tag = re.match(r'(?:typedef\s+)?(enum|struct|union)\s*(\w*)', declaration)
        if declaration.startswith('typedef') or body is not None:
            pointer = re.search(r'\(\s*\*\s*(\w+)\s*\)', declaration) if body is None else None
            name = pointer or re.search(r'(\w+)$', declaration)
            name = name.group(1) if name else tag.group(2)
            types.add(name)
            yield f'type {name}', f'typeid({name}).name()'
            yield f'size {name}', f'(long long)sizeof({name})'
            yield f'alignment {name}', f'(long long)alignof({name})'
            if body is not None and tag.group(1) == 'enum':
                for enumerator in body.split(','):
                    if enumerator.strip():
                        enumerator = re.match(r'\s*(\w+)', enumerator).group(1)
                        yield f'enumerator {enumerator}', f'(long long){enumerator}'
            elif body is not None:
                for path, typed in members(body):
                    yield f'offset {name}.{path}', f'(long long)offsetof({name}, {path})'
                    yield f'size {name}.{path}', f'(long long)sizeof((({name} *)0)->{path})'
                    if typed:
                        yield f'type {name}.{path}', f'typeid(decltype((({name} *)0)->{path})).name()'
        elif '(' in declaration and body is None:
            name = re.search(r'(\w+)\s*\(', declaration).group(1)
            yield f'function {name}', f'typeid(decltype(&{name})).name()'
    for name, value in sorted(macros.items()):
        if value in types:
            yield f'macro {name}', f'typeid({name}).name()'
        elif not OWN.match(name):
            yield f'macro {name}', f'(long long)({name})'


def default_arguments(text, functions):
    """Yields the default arguments of each function, which may be in any of its declarations."""
    for function in functions:
        values = []
        for found in re.finditer(rf'\b{function}\s*\(', text):
            parameters = text[found.end() - 1:find_close(text, found.end() - 1)]
            values += [''.join(value.split()) for value in re.findall('=([^,]*)', parameters)]
        yield f'default arguments {function}', ' '.join(values)


def alias_rows(macros):
    """Yields a row for each macro that gives a function another name. The row has the name that the library exports."""
    for name, value in sorted(macros.items()):
        if re.match(r'cu(da)?[A-Z]', name) and re.match(r'[A-Za-z]', value):
            yield f'name {name}', f'STRING({name})'


def table(compiler, flags, directory, header, rows, place):
    source = os.path.join(place, 'table.cc')
    with open(source, 'w') as file:
        file.write(f'#include <{header}>\n#include <cstddef>\n#include <cstdio>\n#include <typeinfo>\n'
                   'static void row(const char *label, const char *text) { printf("%s\\t%s\\n", label, text); }\n'
                   'static void row(const char *label, long long value) { printf("%s\\t%lld\\n", label, value); }\n'
                   '#define STRING_(name) #name\n#define STRING(name) STRING_(name)\nint main()\n{\n')
        for label, expression in rows:
            file.write(f'\trow("{label}", {expression});\n')
        file.write('}\n')
    built = subprocess.run([compiler, '-std=gnu++17', '-O0', '-w', '-Wno-invalid-offsetof', *flags, '-I', directory,
                            source, '-o', source + '.out'], text=True, stderr=subprocess.PIPE)
    if built.returncode:
        print('\n'.join(line for line in built.stderr.splitlines() if 'error' in line))
        sys.exit(f'{header} in {directory} lacks a declaration of ours')
    out = subprocess.run([source + '.out'], check=True, text=True, stdout=subprocess.PIPE).stdout
    return dict(line.split('\t') for line in out.splitlines())


def version(compiler, directory, header):
    """Returns the CUDA version to which a directory of headers belongs."""
    text = subprocess.run([compiler, '-x', 'c++', '-E', '-dM', '-I', directory, '-'], check=True, text=True,
                          input='#include <cuda.h>\n', stdout=subprocess.PIPE).stdout
    return int(re.search(r'#define CUDA_VERSION (\d+)', text).group(1))


def compare(compiler, ours, toolkit, header, flags, rows_from, newer):
    text, macros = preprocess(compiler, flags, ours, header, ours)
    rows = list(rows_from(text, macros))
    if not rows:
        sys.exit(f'{header}: nothing of ours to compare')
    with tempfile.TemporaryDirectory() as place:
        us = table(compiler, flags, ours, header, rows, place)
        them = table(compiler, flags, toolkit, header, rows, place)
    functions = [label.split()[1] for label in us if label.startswith('function ')]
    us.update(default_arguments(text, functions))
    them.update(default_arguments(preprocess(compiler, flags, toolkit, header, toolkit)[0], functions))
    wrong = 0
    for label, value in us.items():
        if them[label] == value:
            continue
        if newer and GROWS.search(label) and label.startswith('enumerator ') and int(them[label]) > int(value):
            continue
        # in a newer toolkit, new members may use bytes that were reserved
        if newer and re.search(r'\.reserved\d*$', label):
            continue
        print(f'{header}: {label}: ours {value}, the toolkit\'s {them[label]}')
        wrong += 1
    print(f'{header} {" ".join(flags)}: {len(us)} facts compared, {wrong} differ')
    return wrong


def main():
    compiler, ours, toolkit, *headers = sys.argv[1:]
    present = [header for header in headers if os.path.exists(os.path.join(toolkit, header))]
    for header in sorted(set(headers) - set(present)):
        print(f'{header}: not in {toolkit}')
    if not present:
        sys.exit(77)
    newer = version(compiler, toolkit, 'cuda.h') > version(compiler, ours, 'cuda.h')
    wrong = 0
    for header in present:
        flags = [] if header.startswith('cuda_') else INTERNAL
        wrong += compare(compiler, ours, toolkit, header, flags, rows_of, newer)
        # Compare the macros that rename functions. In a newer toolkit, they may choose newer versions of functions, so
        # skip this for a newer toolkit.
        if header in ('cuda.h', 'cuda_runtime_api.h') and not newer:
            for flags in [], ['-DCUDA_API_PER_THREAD_DEFAULT_STREAM']:
                wrong += compare(compiler, ours, toolkit, header, flags, lambda text, macros: alias_rows(macros), newer)
    sys.exit(wrong > 0)


main()
