#!/usr/bin/env python3
"""Builds the programs of list.txt from checkouts of NVIDIA's cuda-samples and CCCL, unchanged, and runs them.

By default each program runs on the simulated GPU inside `virgate run --sim` with Virgate's CUDA runtime library. With
--gpu it runs on this machine's GPU with NVIDIA's library, first natively and then inside a vGPU, and passes if it
passes both times. With --contended it runs only inside a vGPU, which has a compute share, beside another vGPU that
keeps the GPU busy with a share of 50 %. With --evictable the vGPU is one whose memory can move to the host.

A program passes if it exits with 0 within the limit, prints no failure, and its output contains what CCCL's reference
of the example expects (checked by LLVM's FileCheck). A program that exits with 2 cannot run on this machine, and is
skipped. Its output is in WORK/logs."""
import argparse
import collections
import concurrent.futures
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SETS = ('samples', 'thrust', 'cub')
WAIVED = 2  # the exit code EXIT_WAIVED in the samples' helper header: the program cannot run here
FAILURE = re.compile(r'\bFAIL(ED|URE)?\b|\b[Tt]est failed\b')
Program = collections.namedtuple('Program', 'set path name devices arguments')


def read_list():
    """Returns the programs of list.txt. Each line of the file is SET PATH [devices=N] [ARGUMENT…]."""
    programs = []
    for line in (HERE / 'list.txt').read_text(encoding='utf-8').splitlines():
        words = line.split()
        if not words or words[0] not in SETS:
            continue
        path, words = words[1], words[2:] + ['']
        devices = int(words.pop(0).partition('=')[2]) if words[0].startswith('devices=') else 1
        name = pathlib.PurePath(path).stem
        programs.append(Program(line.split()[0], path, name, devices, [word for word in words if word]))
    return programs


def target(program):
    return program.name if program.set == 'samples' else f'{program.set}-{program.name}'


def executable(program, work):
    if program.set == 'samples':
        return work / 'build' / program.path / target(program)
    return work / 'build' / program.set / target(program)


def build(programs, options):
    """Builds the programs with CMake. If a program fails to compile, its executable is missing afterwards."""
    tree = options.work / 'build'
    tree.mkdir(parents=True, exist_ok=True)
    command = ['cmake', '-S', HERE, '-B', tree, '-G', 'Ninja', f'-DCMAKE_CUDA_COMPILER={HERE}/nvcc.sh',
               '-DCMAKE_CUDA_RUNTIME_LIBRARY=Shared', '-DCMAKE_SKIP_RPATH=ON', f'-DCUDAToolkit_ROOT={options.cuda}']
    command += [f'-DSAMPLES={options.samples or ""}', f'-DCCCL={options.cccl or ""}',
                f'-DCATCH2={options.catch2 or ""}']
    environment = os.environ | {'VIRGATE_NVCC': str(options.cuda / 'bin' / 'nvcc')}
    with open(options.work / 'build.log', 'w', encoding='utf-8') as log:
        if subprocess.run(command, env=environment, stdout=log, stderr=log, check=False).returncode:
            sys.exit(f'run.py: CMake failed: see {options.work}/build.log')
        subprocess.run(['ninja', '-C', tree, '-k', '0', '-j', str(options.jobs), *map(target, programs)],
                       env=environment, stdout=log, stderr=log, check=False)


class Places:
    """Finds the directories of a build or of a bundle. Makes environment variables with which programs use a daemon
    that only this script uses."""

    def __init__(self, root, cuda, gpu, parallel):
        self.gpu = gpu
        self.children = set()
        bundle = root / 'lib' / 'virgate'
        libraries = bundle if bundle.is_dir() else root
        self.virgate = root / 'bin' / 'virgate' if bundle.is_dir() else root / 'cli' / 'virgate'
        self.load = (root / 'libexec' / 'virgate' if bundle.is_dir() else root) / 'bench' / 'turn_load'
        self.rival = None
        self.simulated = f'{libraries}/sim:{libraries}/runtime'
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix='virgate-samples-', dir='/var/tmp'))
        self.environment = {key: value for key, value in os.environ.items()
                            if key not in ('LD_PRELOAD', 'CUDA_VISIBLE_DEVICES')
                            and not key.startswith('VIRGATE_')}
        path = self.environment.get('LD_LIBRARY_PATH')
        if gpu:
            self.environment['LD_LIBRARY_PATH'] = f'{cuda}/lib64' + (f':{path}' if path else '')
        else:
            self.environment['VIRGATE_SIM'] = f'memory={8 * parallel}G'
        for name, place in (('RUNTIME', 'run'), ('STATE', 'state'), ('SIM', 'sim')):
            (self.directory / place).mkdir(mode=0o700)
            self.environment[f'VIRGATE_{name}_DIR'] = str(self.directory / place)

    def call(self, *verb):
        command = [self.virgate, *verb] + ([] if self.gpu else ['--sim'])
        return subprocess.run(command, env=self.environment, check=False, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL).stdout

    def wait_for_no_vgpu(self, name):
        """Waits until the daemon has removed the vGPU of a killed program. The vGPU reserves memory that the next
        program needs."""
        for _ in range(200):
            if name.encode() not in self.call('ps', '--quiet').split():
                return
            time.sleep(0.05)

    def start_rival(self):
        """Starts a program that keeps the GPU busy in a vGPU with a share of 50 %."""
        inside = [self.virgate, 'run', '--name', 'rival', '--memory', '1G', '--share', '50', '--']
        rounds = subprocess.run([*inside, self.load, 'calibrate'], env=self.environment, check=True,
                                stdout=subprocess.PIPE, text=True).stdout.strip()
        self.wait_for_no_vgpu('rival')
        self.rival = subprocess.Popen([*inside, self.load, 'train', '100000', rounds], env=self.environment,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
        self.children.add(self.rival)

    def rival_turns(self):
        """Returns the number of turns that the rival has had."""
        if self.rival.poll() is not None:
            sys.exit('run.py: the program that keeps the GPU busy has ended')
        listed = json.loads(self.call('ps', '--json'))
        return next(vgpu['turns']['turns'] for vgpu in listed['vgpus'] if vgpu['name'] == 'rival')

    def finish(self):
        for child in self.children: # after an interrupt, programs may run, not only the rival
            os.killpg(child.pid, signal.SIGKILL)
        self.call('shutdown')
        shutil.rmtree(self.directory)


def command_of(way, program, work, places, options):
    """Returns the command, and the environment variables that it needs. A vGPU has one device, so a program for more
    devices does not run inside a vGPU."""
    command = [executable(program, work), *program.arguments]
    if way == 'native' or (way == 'vgpu' and program.devices > 1):
        return command, {}
    if way == 'simulated' and program.devices > 1:
        node = places.directory / target(program)
        node.mkdir(mode=0o700)
        return command, {'VIRGATE_SIM': f'devices={program.devices}', 'VIRGATE_SIM_DIR': str(node),
                         'LD_LIBRARY_PATH': places.simulated}
    more = ['--sim'] if way == 'simulated' else []
    more += ['--share', str(50 // options.parallel)] if options.contended else []
    more += ['--evictable'] if options.evictable else []
    return [places.virgate, 'run', *more, '--name', target(program), '--memory', options.memory, '--', *command], {}


def run(way, program, places, options):
    """Runs a program. Returns the verdict (passed, failed or skipped), the reason, and the seconds that it took."""
    path = executable(program, options.work)
    if not path.exists():
        return 'failed', 'not built', 0.0
    command, environment = command_of(way, program, options.work, places, options)
    output = options.work / 'logs' / f'{program.set}-{program.name}.{way}.txt'
    start = time.monotonic()
    with open(output, 'wb') as log:
        child = subprocess.Popen(command, cwd=path.parent, env=places.environment | environment,
                                 stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        places.children.add(child)
        try:
            status = child.wait(options.limit)
        except subprocess.TimeoutExpired:
            status = None
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            places.wait_for_no_vgpu(target(program))
        places.children.discard(child)
    seconds = time.monotonic() - start
    if status is None:
        return 'failed', f'no end within {options.limit} s', seconds
    verdict, reason = judge(status, output.read_text(encoding='utf-8', errors='replace'))
    if verdict == 'passed':
        reason = compare(program, output, options)
        verdict = 'failed' if reason else 'passed'
    return verdict, reason, seconds


def find_reference(program, cccl):
    """Returns the file from which FileCheck knows the expected output of one of Thrust's examples; None: there is no
    such file."""
    if program.set != 'thrust':
        return None
    path = cccl / 'thrust' / 'internal' / 'test' / f'thrust.example.{program.path[:-3].replace("/", ".")}.filecheck'
    return path if path.exists() and path.stat().st_size else None


def compare(program, output, options):
    """Returns how the output differs from the reference; '': it does not differ."""
    reference = find_reference(program, options.cccl)
    if not reference or not options.filecheck:
        return ''
    check = subprocess.run([options.filecheck, f'--input-file={output}', reference], check=False,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return f'not as {reference.name}: {check.stdout.splitlines()[0]}' if check.returncode else ''


def judge(status, text):
    lines = [line.strip() for line in text.splitlines()]
    complaint = next((line for line in lines if FAILURE.search(line)), '')
    if status == WAIVED:
        return 'skipped', lines[-1][:100] if lines else ''
    if status:
        return 'failed', f'exit {status}: {complaint or (lines[-1] if lines else "")}'[:160]
    return ('failed', complaint[:160]) if complaint else ('passed', '')


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('root', type=pathlib.Path, metavar='BUILD', help="Virgate's build directory, or a bundle")
    parser.add_argument('names', nargs='*', metavar='NAME', help='programs to run; default: all of list.txt')
    parser.add_argument('--samples', type=pathlib.Path, help='checkout of cuda-samples')
    parser.add_argument('--cccl', type=pathlib.Path, help='checkout of CCCL')
    parser.add_argument('--catch2', type=pathlib.Path, help='checkout of Catch2, which some examples of CUB include')
    parser.add_argument('--cuda', type=pathlib.Path, default='/usr/local/cuda',
                        help='the toolkit (default: %(default)s)')
    parser.add_argument('--filecheck', default=next(iter(sorted(glob.glob('/usr/bin/FileCheck*'))), None),
                        help="LLVM's FileCheck (default: %(default)s)")
    parser.add_argument('--work', type=pathlib.Path, required=True, help='directory for programs and output')
    parser.add_argument('--gpu', action='store_true', help='natively and inside a vGPU on a GPU')
    parser.add_argument('--contended', action='store_true', help='on a GPU, with a share, beside a busy vGPU')
    parser.add_argument('--evictable', action='store_true', help='in an evictable vGPU')
    parser.add_argument('--built', action='store_true', help='do not build; run what is in WORK')
    parser.add_argument('--limit', type=float, default=600, help='seconds for each run (default: %(default)s)')
    parser.add_argument('--memory', default='7G', help='memory of the vGPU (default: %(default)s)')
    parser.add_argument('--parallel', type=int, default=1, help='programs that run at the same time (default: 1)')
    parser.add_argument('--jobs', type=int, default=os.cpu_count(), help='compilers at the same time')
    options = parser.parse_intermixed_args()
    options.gpu |= options.contended
    for name in ('root', 'samples', 'cccl', 'catch2', 'work'):
        if getattr(options, name):
            setattr(options, name, getattr(options, name).resolve())
    return options


def main():
    options = read_options()
    # exit on SIGTERM, so that the program's children are ended, too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sets = [name for name in SETS if (options.samples if name == 'samples' else options.cccl)]
    programs = [p for p in read_list() if p.set in sets and (not options.names or p.name in options.names)]
    if not programs:
        sys.exit('run.py: no program to run: give --samples or --cccl, and names of list.txt')
    if not options.built:
        build(programs, options)
    (options.work / 'logs').mkdir(parents=True, exist_ok=True)
    places = Places(options.root, options.cuda, options.gpu, options.parallel)
    counts = collections.Counter()
    ways = ('vgpu',) if options.contended else ('native', 'vgpu') if options.gpu else ('simulated',)
    pool = concurrent.futures.ThreadPoolExecutor(options.parallel)
    try:
        if options.contended:
            places.start_rival()
        for program, results in zip(programs, pool.map(
                lambda program: [run(way, program, places, options) for way in ways], programs)):
            verdict = next((v for v in ('failed', 'skipped') if v in [r[0] for r in results]), 'passed')
            counts[verdict] += 1
            times = ' '.join(f'{seconds:7.1f}' for _, _, seconds in results)
            reasons = '; '.join(f'{way}: {reason}' for way, (_, reason, _) in zip(ways, results) if reason)
            print(f'{verdict:8}{program.set:8} {program.name:34} {times} s  {reasons}'.rstrip(), flush=True)
        if options.contended:
            print(f'{places.rival_turns()} turns of the vGPU that keeps the GPU busy')
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        pool.shutdown(wait=False, cancel_futures=True)
        places.finish()
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts['failed'] or not counts['passed'] else 0


if __name__ == '__main__':
    sys.exit(main())
