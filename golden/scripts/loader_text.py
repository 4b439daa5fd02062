"""The text of golden/loader/cases: what a case is made of, and the checkpoint that it describes.

The same reading in C++: golden/loader_case.h. The format is explained in golden/loader/README.md.
"""
import functools
import json
import pathlib
import re

import safetensors_file

MTP0 = "model.mtp_layers.0."
BLOCK = "model.layers.3.mtp_block."
# safetensors' own order of a file: wide types first, then by name.
DTYPE_ORDER = ["I64", "U64", "F64", "C64", "F32", "U32", "I32", "BF16", "F16", "U16", "I16", "F8_E8M0", "F8_E4M3", "F8_E5M2",
               "I8", "U8", "BOOL"]


def long_name(name):
    return MTP0 + name[1:] if name.startswith("~") else BLOCK + name[1:] if name.startswith("^") else name


def short_name(name):
    for prefix, mark in ((MTP0, "~"), (BLOCK, "^")):
        if name.startswith(prefix):
            return mark + name[len(prefix):]
    return name


@functools.lru_cache(maxsize=None)
def pattern(text):
    """A name in which each * stands for any characters."""
    return re.compile("".join("(.*)" if c == "*" else re.escape(c) for c in long_name(text)))


def fill(text, groups):
    groups = iter(groups)
    return "".join(next(groups) if c == "*" else c for c in long_name(text))


def shape_text(shape):
    return "[" + ",".join(map(str, shape)) + "]"


def read_cases(folder):
    """{case name: [(keyword, rest of the line), ...]} of all files in folder/cases, file by file."""
    cases = {}
    for path in sorted((folder / "cases").glob("*.txt")):
        lines = None
        for line in path.read_text().splitlines():
            if not line.strip() or line.startswith("#"):
                continue
            word, _, rest = line.strip().partition(" ")
            if word == "case":
                lines = cases.setdefault(rest.strip(), [])
            else:
                lines.append((word, rest.strip()))
    return cases


class Checkpoint:
    """config, {name: (dtype, shape, bytes)}, which files the tensors lie in, what the index says."""

    def __init__(self, config, tensors):
        self.config, self.tensors = config, tensors
        self.shards, self.copies = [], []  # [(file, [patterns])], [(file, name, tensor)]
        self.omitted, self.promised = [], []

    def files(self):
        """{file: {name: tensor}}, in safetensors' order."""
        shards = self.shards or [("model.safetensors", [])]
        files = {name: {} for name, _ in shards}
        for name, tensor in self.tensors.items():
            home = shards[0][0]
            for file, globs in shards[1:]:
                if any(pattern(glob).fullmatch(name) for glob in globs):
                    home = file
            files[home][name] = tensor
        for file, name, tensor in self.copies:
            files[file][name] = tensor
        order = lambda item: (DTYPE_ORDER.index(item[1][0]), item[0])
        return {file: dict(sorted(tensors.items(), key=order)) for file, tensors in files.items()}

    def index(self):
        """The weight map, or None for a single model.safetensors."""
        if not self.shards:
            return None
        weight_map = {}
        for file, tensors in self.files().items():
            for name in tensors:
                if not any(pattern(glob).fullmatch(name) for glob in self.omitted):
                    weight_map.setdefault(name, file)
        return weight_map | dict(self.promised)


def set_key(config, path, value):
    keys = path.split(".")
    for key in keys[:-1]:
        config = config[key]
    if value is None:
        config.pop(keys[-1])
    else:
        config[keys[-1]] = json.loads(value)


def build(folder, cases, name, cache=None):
    """The checkpoint of a case: its parent's, edited line by line."""
    cache = {} if cache is None else cache
    if name in cache:
        return cache[name]
    own_file = folder / "tensors" / f"{name}.safetensors"
    own = safetensors_file.read(own_file)[1] if own_file.exists() else {}
    lines = cases[name]
    parent = next((rest for word, rest in lines if word == "from"), None)
    if parent is None:
        config = json.loads((folder / "tensors" / f"{name}.config.json").read_text())
        result = Checkpoint(config, dict(own))
    else:
        base = build(folder, cases, parent, cache)
        result = Checkpoint(json.loads(json.dumps(base.config)), dict(base.tensors))
    tensors = result.tensors
    for word, rest in lines:
        parts = rest.split()
        if word == "drop":
            for found in [n for n in tensors if pattern(rest).fullmatch(n)]:
                del tensors[found]
        elif word == "rename":
            old, _, new = parts
            matches = [(n, pattern(old).fullmatch(n)) for n in tensors]
            moved = {fill(new, m.groups()): tensors.pop(n) for n, m in matches if m}
            tensors.update(moved)
        elif word == "take":
            new, _, source = parts
            donor, old = source.split(":", 1)
            for n, tensor in build(folder, cases, donor, cache).tensors.items():
                match = pattern(old).fullmatch(n)
                if match:
                    tensors[fill(new, match.groups())] = tensor
        elif word in ("add", "replace"):
            tensors.update({n: t for n, t in own.items() if pattern(parts[0]).fullmatch(n)})
        elif word == "view":
            n = long_name(parts[0])
            tensors[n] = (parts[1], json.loads(parts[2]), tensors[n][2])
        elif word == "config":
            key, _, value = rest.partition(" = ")
            if rest.endswith(" removed"):
                set_key(result.config, rest.removesuffix(" removed"), None)
            else:
                set_key(result.config, key, value)
        elif word == "shard":
            result.shards.append((parts[0], parts[1:]))
        elif word == "copy":
            result.copies.append((parts[0], long_name(parts[1]), own[f"{parts[0]}:{long_name(parts[1])}"]))
        elif word == "index":
            if parts[0] == "omits":
                result.omitted.append(parts[1])
            else:
                result.promised.append((long_name(parts[1]), parts[2]))
    cache[name] = result
    return result


def read_order(checkpoint):
    """(file, name) as the engines read: listed files in natural order, inside a file by name."""
    weight_map = checkpoint.index()
    natural = lambda text: [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", text)]
    listed = set(weight_map.values()) if weight_map is not None else None
    order = []
    for file, tensors in sorted(checkpoint.files().items(), key=lambda item: natural(item[0])):
        if listed is None or file in listed:
            order += [(file, name) for name in sorted(tensors)]
    return order


def read_outcomes(folder):
    """{case name: [(keyword, rest), ...]} of all files in folder/expected."""
    outcomes = {}
    for path in sorted((folder / "expected").glob("*.txt")):
        for line in path.read_text().splitlines():
            word, _, rest = line.strip().partition(" ")
            if word == "case":
                lines = outcomes.setdefault(rest, [])
            elif word:
                lines.append((word, rest))
    return outcomes


def parent_of(cases, name):
    return next((rest for word, rest in cases[name] if word == "from"), None)


def expectation(cases, outcomes, name):
    """({tensor: [outcome text, ...]}, {parameter: text}): the parent's, with the case's own lines over them."""
    parent = parent_of(cases, name)
    tensors, params = expectation(cases, outcomes, parent) if parent else ({}, {})
    own = {}
    for word, rest in outcomes[name]:
        key, _, text = rest.partition(" ")
        if word == "tensor":
            own.setdefault(long_name(key), []).append(text)
        elif word == "param":
            params[long_name(key)] = text
        elif word == "no-param":
            params.pop(long_name(key))
    return tensors | own, params
