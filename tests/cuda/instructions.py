#!/usr/bin/env python3
"""Part of `make cuda-gate`: which instructions the kernels were compiled to, by a disassembler.

    instructions.py CUOBJDUMP OBJECT...    exit status 1 if one is missing or should not be there

What is meant to run on tensor cores has their instructions, what is meant to be read or written 16
bytes at a time is; no kernel keeps anything in local memory but those with a stack (gate.py), and
none computes in double precision but those of DOUBLES.
"""

import re
import sys

from gate import STACK, run, short_name

MATRICES, BYTES, TRANSPOSED = r"HMMA\b", r"IMMA\b", r"LDSM\.\S*MT"
FRAGMENTS, COPY, LOAD, STORE = r"LDSM\b", r"LDGSTS\.\S*128", r"LDG\.\S*128", r"STG\.\S*128"
# Of kernels whose names begin so.
MEANT = {
    "multiply_slices<f16": (MATRICES, FRAGMENTS, COPY, STORE),
    "multiply_slices<bf16": (MATRICES, FRAGMENTS, COPY, STORE),
    "multiply_slices<signedchar": (BYTES, FRAGMENTS, COPY, STORE),
    "multiply_tiles<f16": (MATRICES, FRAGMENTS, COPY, STORE),
    "multiply_tiles<bf16": (MATRICES, FRAGMENTS, COPY, STORE),
    "multiply_tiles<signedchar": (BYTES, FRAGMENTS, COPY, STORE),
    "multiply_f32": (LOAD, STORE),
    "attend_tiles": (MATRICES, FRAGMENTS, TRANSPOSED, COPY),
    "attend_rows": (LOAD,),
    "close_sublayer<4": (LOAD, STORE),
}
NUMBER_BY_NUMBER = re.compile(r"attend_rows<\S*,true>")  # heads of any width
LOCAL, DOUBLE = r"(LDL|STL)\b", r"(DADD|DMUL|DFMA|DSETP|DMMA)\b|\S*\.F64|MUFU\.\S*64H"
DOUBLES = {"advance_slots"}  # the scores of hypotheses, see search/rules.h
FUNCTION = re.compile(r"Function : (\S+)")
ARCHITECTURE = re.compile(r"\barch = (sm_\d+)")
INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)")


def read_listing(listing):
    """{(kernel, architecture): its instructions} of what cuobjdump -sass prints."""
    found, arch, name = {}, "", ""
    for line in listing.splitlines():
        if match := ARCHITECTURE.search(line):
            arch = match[1]
        elif match := FUNCTION.search(line):
            name = match[1]
            found[name, arch] = set()
        elif (match := INSTRUCTION.search(line)) and name:
            found[name, arch].add(match[1])
    names = run("c++filt", text="\n".join(name for name, _ in found)).splitlines()
    return {(short_name(name), arch): instructions
            for name, ((_, arch), instructions) in zip(names, found.items())}


def meant(name, arch):
    """Patterns of what a kernel is meant to have."""
    if NUMBER_BY_NUMBER.match(name) or (arch == "sm_75" and "bf16" in name):  # which has no bf16
        return ()
    patterns = next((MEANT[begin] for begin in MEANT if name.startswith(begin)), ())
    return tuple(LOAD if arch == "sm_75" and pattern == COPY else pattern for pattern in patterns)


def faults(name, arch, instructions):
    def has(pattern):
        return any(re.match(pattern, each) for each in instructions)

    for pattern in meant(name, arch):
        if not has(pattern):
            yield f"{name} {arch}: expected {pattern}, found none"
    if has(LOCAL) and name not in STACK:
        yield f"{name} {arch}: uses local memory"
    if has(DOUBLE) and name not in DOUBLES:
        yield f"{name} {arch}: computes in double precision"


def main():
    program, *objects = sys.argv[1:]
    found, wrong = {}, []
    for path in objects:
        found |= read_listing(run(program, "-sass", path))
    for begin in MEANT:
        if not any(name.startswith(begin) for name, _ in found):
            wrong.append(f"{begin}: expected such a kernel, found none")
    for (name, arch), instructions in sorted(found.items()):
        wrong += faults(name, arch, instructions)
    for fault in wrong:
        print(fault)
    print(f"cuda-gate: instructions of {len(found)} kernels, "
          + (f"{len(wrong)} faults" if wrong else "nothing found"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
