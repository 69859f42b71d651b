#!/usr/bin/env python3
"""Pack SPIR-V modules into one C header.

    pack_spirv.py --output rhumb_spirv.h [--spirv-val PROGRAM] [--target-env ENV] NAME.spv ...

Each module becomes `static const uint32_t rhumb_spirv_NAME[]`, its size in bytes is
`sizeof rhumb_spirv_NAME`. The modules are validated first, so that nothing
invalid can reach the library. The header is the same for the same modules, in any order.
"""

import argparse
import pathlib
import re
import struct
import subprocess
import sys

MAGIC = 0x07230203
WORDS_PER_LINE = 8


def fail(message):
    sys.exit(f"pack_spirv: {message}")


def read_words(path):
    data = path.read_bytes()
    if len(data) < 20 or len(data) % 4 != 0:
        fail(f"{path}: {len(data)} bytes are no SPIR-V module (whole words, at least five)")
    words = struct.unpack(f"<{len(data) // 4}I", data)
    if words[0] != MAGIC:
        fail(f"{path}: first word is {words[0]:#010x}, wanted {MAGIC:#010x}")
    return words


def validate(program, target_env, path):
    command = [program] + (["--target-env", target_env] if target_env else []) + [str(path)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        fail(f"{path} is not valid SPIR-V:\n{result.stdout}{result.stderr}")


def array(name, words):
    lines = [f"static const uint32_t rhumb_spirv_{name}[{len(words)}] = {{"]
    for start in range(0, len(words), WORDS_PER_LINE):
        row = words[start:start + WORDS_PER_LINE]
        lines.append("    " + " ".join(f"{word:#010x}," for word in row))
    lines.append("};")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description="Pack SPIR-V modules into one C header.")
    parser.add_argument("--output", required=True, type=pathlib.Path)
    parser.add_argument("--spirv-val", help="validate each module with this program first")
    parser.add_argument("--target-env", help="environment to validate for")
    parser.add_argument("modules", nargs="+", type=pathlib.Path, metavar="NAME.spv")
    args = parser.parse_args()

    modules = {}
    for path in args.modules:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", path.stem):
            fail(f"{path}: '{path.stem}' cannot be part of a C name")
        if path.stem in modules:
            fail(f"{path}: there are two modules named {path.stem}")
        if args.spirv_val:
            validate(args.spirv_val, args.target_env, path)
        modules[path.stem] = read_words(path)

    guard = args.output.name.upper().replace(".", "_")
    parts = [
        "/* Written by tools/pack_spirv.py from SPIR-V modules. Do not edit. */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        "#include <stdint.h>",
        "",
    ]
    for name in sorted(modules):
        parts += [array(name, modules[name]), ""]
    parts.append("#endif")
    args.output.write_text("\n".join(parts) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
