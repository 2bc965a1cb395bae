#!/usr/bin/env python3
"""`make cuda-gate`: what the compiler says of every kernel, held to the committed table limits.txt.

    gate.py PROGRAM TABLE REPORT...          compare; exit status 1 if a kernel is worse
    gate.py --write PROGRAM TABLE REPORT...  write the table anew, as the kernels are

A REPORT is ptxas' for one file and one architecture, NAME.sm_90.ptxas. PROGRAM, the plain build of
the tests, tells how many threads and bytes of shared memory kernels are launched with
(launches.cc). No kernel may spill registers, or have a stack but for what STACK says. In the table
stand, for each kernel and architecture, registers and blocks on a multiprocessor, `45/8`: it may
take GROWTH registers more, but no block less; beyond that it is either a mistake or a reason to
write the table anew. `-`: its blocks do not fit, and are not launched there.
"""

import re
import subprocess
import sys
from pathlib import Path

GROWTH = 8
STACK = {"advance_slots": 64}  # one thread's states of the constraint, see search/rules.h
REGISTERS = 65536  # of a multiprocessor, in all these architectures
RESERVED_BYTES = 1024  # of shared memory, for each block
# Shared memory of a multiprocessor, the most of a block, threads of a multiprocessor.
ARCHITECTURES = {
    "sm_75": (65536, 65536, 1024),
    "sm_80": (167936, 166912, 2048),
    "sm_90": (233472, 232448, 2048),
    "sm_100": (233472, 232448, 2048),
    "sm_120": (102400, 101376, 1536),
}
KERNEL = re.compile(
    r"entry function '(\S+)' for '(sm_\d+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, "
    r"(\d+) bytes spill loads.*?Used (\d+) registers",
    re.S,
)


def run(*command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def short_name(demangled):
    return re.sub(r"^void |\(.*", "", demangled).replace(" ", "")


def read_reports(paths):
    """{kernel: {architecture: registers}}, and what no kernel may have."""
    found, faults = {}, []
    for path in paths:
        kernels = KERNEL.findall(Path(path).read_text())
        names = run("c++filt", text="\n".join(k[0] for k in kernels)).splitlines()
        if not kernels:
            faults.append(f"{path}: no kernels")
        for name, (_, arch, *rest) in zip(map(short_name, names), kernels):
            stack, stores, loads, registers = map(int, rest)
            found.setdefault(name, {})[arch] = registers
            if stack > STACK.get(name, 0) or stores or loads:
                faults.append(f"{name} {arch}: {stack} bytes of stack, {stores + loads} spilled")
    return found, faults


def read_launches(program, most_bytes):
    """{kernel: (threads, most shared bytes)} on a device whose blocks may have most_bytes."""
    symbols = {}
    for line in run("nm", "--demangle", program).splitlines():
        address, _, name = line.partition(" ")
        if address.strip():
            symbols[int(address, 16)] = short_name(name[2:])
    launches = {}
    for line in run(program, "launches", str(most_bytes)).splitlines():
        address, threads, shared = (int(word, 0) for word in line.split())
        name = symbols[address]
        launches[name] = (threads, max(shared, launches.get(name, (0, 0))[1]))
    return launches


def blocks_of(arch, registers, threads, shared):
    """Blocks of a kernel on a multiprocessor; 0: not even one fits."""
    all_shared, most_shared, all_threads = ARCHITECTURES[arch]
    if shared > most_shared:
        return 0
    per_warp = -(-registers * 32 // 256) * 256
    by_shared = max(1, all_shared // (shared + RESERVED_BYTES))
    return min(REGISTERS // (per_warp * threads // 32), by_shared, all_threads // threads)


def measure(found, program):
    """{kernel: {architecture: (registers, blocks)}}, and what is launched nowhere, or in vain."""
    launches = {arch: read_launches(program, sizes[1]) for arch, sizes in ARCHITECTURES.items()}
    everywhere = set().union(*launches.values())
    measured, faults = {}, []
    for name, archs in found.items():
        if name not in everywhere:
            faults.append(f"{name}: launches.cc does not launch it")
        for arch, registers in archs.items():
            launch = launches[arch].get(name)
            blocks = blocks_of(arch, registers, *launch) if launch else 0
            measured.setdefault(name, {})[arch] = (registers, blocks)
            if launch and blocks == 0:
                faults.append(f"{name} {arch}: is launched, but its blocks do not fit")
    return measured, faults


def read_table(path):
    table, header = {}, []
    for line in Path(path).read_text().splitlines():
        words = line.split()
        if line.startswith("kernel "):
            header = words[1:]
        elif words and not line.startswith("#"):
            pairs = (word.split("/") for word in words[1:])
            table[words[0]] = {arch: (int(registers), 0 if blocks == "-" else int(blocks))
                               for arch, (registers, blocks) in zip(header, pairs)}
    return table


def write_table(path, measured):
    width = max(map(len, measured)) + 1
    lines = ["# Registers of a thread, and blocks on a multiprocessor; written by gate.py --write.",
             "kernel".ljust(width) + "".join(arch.rjust(8) for arch in ARCHITECTURES)]
    for name in sorted(measured):
        pairs = (measured[name][arch] for arch in ARCHITECTURES)
        lines.append(name.ljust(width) + "".join(f"{r}/{b or '-'}".rjust(8) for r, b in pairs))
    Path(path).write_text("\n".join(lines) + "\n")


def compare(table, measured):
    faults = [f"{name}: not in the table" for name in measured if name not in table]
    faults += [f"{name}: in the table only" for name in table if name not in measured]
    for name, archs in measured.items():
        for arch, (registers, blocks) in archs.items():
            most, least = table.get(name, {}).get(arch, (registers, blocks))
            if registers > most + GROWTH:
                faults.append(f"{name} {arch}: {registers} registers, more than {most} + {GROWTH}")
            if blocks < least:
                faults.append(f"{name} {arch}: {blocks} blocks, fewer than {least}")
    return faults


def main():
    arguments = sys.argv[1:]
    is_write = arguments[0] == "--write"
    program, table, *reports = arguments[is_write:]
    found, faults = read_reports(reports)
    measured, unknown = measure(found, program)
    faults += unknown
    if is_write:
        write_table(table, measured)
    else:
        faults += compare(read_table(table), measured)
    for fault in faults:
        print(fault)
    print(f"cuda-gate: {len(measured)} kernels, {len(reports)} reports, "
          + (f"{len(faults)} faults" if faults else "nothing found"))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
