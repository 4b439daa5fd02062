"""Makes golden/loader from the recorded loader cases of vLLM: base tensors once, a case as a few edits.

    tar xf SHARED/oracle/loader.tar.xz -C SCRATCH
    python3 golden/scripts/make_loader.py --from SCRATCH/loader
"""
import argparse
import collections
import hashlib
import json
import pathlib
import re
import shutil

import safetensors_file
from loader_text import BLOCK, DTYPE_ORDER, MTP0, fill, long_name, pattern, shape_text, short_name

# Cases that others are told from; the rest follow by name.
FIRST = ["a_bf16_split", "b_bf16_fused", "d_fp8_split", "e_fp8_fused", "f_ue8m0_split", "f_ue8m0_fused", "q_mxfp8_split",
         "q_mxfp8_fused", "q_ct_channel_split", "q_ct_channel_fused", "q_modelopt_fp8_split",
         "q_modelopt_fp8_fused_dot_input_scale", "q_nvfp4_missing_expert_scale", "q_nvfp4_fused", "l_tp2_fp8_rank0",
         "m_nextn0_mtp_layers"]
ROOTS = {"a_bf16_split", "d_fp8_split", "q_mxfp8_split", "q_ct_channel_split", "q_modelopt_fp8_split",
         "q_nvfp4_missing_expert_scale"}
FAMILIES = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q_ct_channel", "q_modelopt",
            "q_mxfp", "q_nvfp4", "q_shape", "x"]


class Recorded:
    """One case as it was recorded."""

    def __init__(self, folder):
        self.name = folder.name
        self.config = json.loads((folder / "config.json").read_text())
        self.expected = json.loads((folder / "expected.json").read_text())
        self.files = {p.name: safetensors_file.read(p)[1] for p in sorted((folder / "checkpoint").glob("*.safetensors"))}
        index = folder / "checkpoint" / "model.safetensors.index.json"
        self.weight_map = json.loads(index.read_text())["weight_map"] if index.exists() else None
        self.sums = {p.name: hashlib.sha256(p.read_bytes()).hexdigest()
                     for p in sorted((folder / "checkpoint").glob("*.safetensors"))}
        self.tensors, self.copies = {}, []
        for file, tensors in self.files.items():
            for name, (dtype, shape, data) in tensors.items():
                if name in self.tensors:
                    self.copies.append((file, name, (dtype, shape, data)))
                else:
                    self.tensors[name] = (dtype, shape, data)
        self.identity = {n: (dtype, tuple(shape), hashlib.sha256(data).digest()) for n, (dtype, shape, data) in self.tensors.items()}
        values = folder / "expected.safetensors"
        self.values = safetensors_file.read(values)[1] if values.exists() else {}


def globs_for(wanted, others):
    """Few patterns that match all of `wanted` and none of `others`."""
    wanted, others, result = set(wanted), set(others), []
    candidates = collections.Counter()
    for name in wanted:
        parts = short_name(name).split(".")
        options = {short_name(name)}
        for i in range(len(parts)):
            starred = parts[:i] + ["*"] + parts[i + 1:]
            options.add(".".join(starred))
            options.add(".".join(parts[:i] + ["*"]))
            options.add("*." + ".".join(parts[i:]))
            options.add("*" + "." + parts[-1])
            if "." in short_name(name) and i:
                options.add(".".join(parts[:i]) + ".*." + parts[-1])
            if "_" in parts[i]:
                options.add(".".join(parts[:i] + [parts[i].rsplit("_", 1)[0] + "_*"]))
        for option in options:
            candidates[option] += 1
    matched = {c: {n for n in wanted if pattern(c).fullmatch(n)} for c in candidates}
    good = {c: m for c, m in matched.items() if "*" not in c or not any(pattern(c).fullmatch(n) for n in others)}
    left = set(wanted)
    while left:
        best = max(good, key=lambda c: (len(good[c] & left), "*" not in c, -len(c), c))
        result.append(best)
        left -= good[best]
    return sorted(result)


def starred(old, new, cut, tail):
    """old and new with a * for what both begin with (up to `cut`, a dot stays) and end in (the last `tail`, its dot stays)."""
    head = "~" if cut == 1 and old[0] == "~" else "*." if cut else ""
    end, last = (".*", tail) if tail else ("", 0)
    return tuple(head + text[cut:len(text) - last] + end for text in (old, new))


def move_rules(pairs, source_names):
    """Few `old -> new` patterns for {old: new}; a rule moves every source name that it matches."""
    left, rules = dict(pairs), []
    while left:
        best = None
        for old, new in sorted(left.items())[:3]:
            so, sn = short_name(old), short_name(new)
            options = [(so, sn)]
            p = 0
            while p < min(len(so), len(sn)) and so[p] == sn[p]:
                p += 1
            s = 0
            while s < min(len(so), len(sn)) - p and so[-1 - s] == sn[-1 - s]:
                s += 1
            for cut in {0, *[i for i in range(1, p + 1) if so[i - 1:i] == "~" or so[i - 1] == "."]}:
                for tail in {0, *[i for i in range(1, s + 1) if so[len(so) - i] == "."]}:
                    options.append(starred(so, sn, cut, tail))
            for a, b in options:
                if a.count("*") != b.count("*"):
                    continue
                matches = [(n, pattern(a).fullmatch(n)) for n in source_names]
                hits = {n: fill(b, match.groups()) for n, match in matches if match}
                if hits and all(pairs.get(n) == t for n, t in hits.items()) and any(n in left for n in hits):
                    score = (sum(n in left for n in hits), -len(a) - len(b), a, b)
                    if best is None or score > best[0]:
                        best = (score, a, b, hits)
        _, a, b, hits = best
        rules.append((a, b))
        for n in hits:
            left.pop(n, None)
    return rules


def config_lines(old, new, path=""):
    lines = []
    for key in old:
        if key not in new:
            lines.append(f"config {path}{key} removed")
    for key, value in new.items():
        if key not in old:
            lines.append(f"config {path}{key} = {json.dumps(value)}")
        elif old[key] != value:
            if isinstance(value, dict) and isinstance(old[key], dict):
                lines += config_lines(old[key], value, f"{path}{key}.")
            else:
                lines.append(f"config {path}{key} = {json.dumps(value)}")
    return lines


def tensor_lines(parent, case, pool):
    """Edits that make parent's tensors into case's, and the tensors whose bytes must be stored."""
    old, new = parent.tensors, case.tensors
    gone = [n for n in old if n not in new]
    come = [n for n in new if n not in old]
    by_value = collections.defaultdict(list)
    for n in gone:
        by_value[(old[n][0], tuple(old[n][1]), old[n][2])].append(n)
    renamed = {}
    for n in come:
        found = by_value.get((new[n][0], tuple(new[n][1]), new[n][2]))
        if found:
            renamed[found.pop(0)] = n
    dropped = [n for n in gone if n not in renamed]
    lines = [f"rename {a} -> {b}" for a, b in move_rules(renamed, [n for n in old if n not in dropped])]
    lines = ([f"drop {g}" for g in globs_for(dropped, set(old) - set(dropped))] if dropped else []) + lines
    stored, taken = {}, collections.defaultdict(dict)
    for n, (dtype, shape, data) in new.items():
        if n in renamed.values() or (n in old and old[n] == new[n]):
            continue
        if n in old and old[n][2] == data:
            lines.append(f"view {short_name(n)} {dtype} {shape_text(shape)}")
            continue
        donors = pool.get((dtype, tuple(shape), data))
        donor = next((d for d in donors or [] if d[1] == n), donors[0] if donors and len(data) > 4096 else None)
        if donor:
            taken[donor[0]].setdefault(donor[1], n)
            if taken[donor[0]][donor[1]] == n:
                continue
        stored[n] = (dtype, shape, data)
    lines += stored_lines(stored, old)
    for donor, pairs in taken.items():
        lines += [f"take {b} <- {donor}:{a}" for a, b in move_rules(pairs, list(RECORDED[donor].tensors))]
    return lines, stored


def stored_lines(stored, old):
    """`add` and `replace`: one line a tensor, or one for many that differ in a number only, or for a whole layer."""
    groups, lines, rest = collections.defaultdict(list), [], dict(stored)
    for prefix in sorted({m.group() for n in stored if (m := re.match(r"model\.(mtp_)?layers\.\d+\.", n))}):
        layer = [n for n in rest if n.startswith(prefix)]
        if len(layer) > 20 and not any(n.startswith(prefix) for n in old):
            lines.append(f"add {prefix}* ({len(layer)} tensors)")
            rest = {n: t for n, t in rest.items() if n not in layer}
    for n, (dtype, shape, _) in rest.items():
        groups[("replace" if n in old else "add", re.sub(r"\.\d+\.", ".*.", short_name(n)), dtype, shape_text(shape))].append(n)
    for (word, glob, dtype, shape), names in groups.items():
        whole = len(names) > 2 and set(names) == {n for n in stored if pattern(glob).fullmatch(n)}
        lines += [f"{word} {text} {dtype} {shape}" for text in ([glob] if whole else map(short_name, names))]
    return lines


def file_lines(case):
    if case.weight_map is None and list(case.files) == ["model.safetensors"]:
        return [], {}
    lines, stored, names = [], {}, list(case.files)
    copied = {(file, name) for file, name, _ in case.copies}
    for i, file in enumerate(names):
        inside = [n for n in case.files[file] if (file, n) not in copied]
        others = [n for n in case.tensors if n not in inside]
        globs = globs_for(inside, others) if i and inside else []
        lines.append(" ".join(["shard", file, *globs]))
    for file, name, tensor in case.copies:
        lines.append(f"copy {file} {short_name(name)} {tensor[0]} {shape_text(tensor[1])}")
        stored[f"{file}:{name}"] = tensor
    omitted = [n for n in case.tensors if n not in case.weight_map]
    lines += [f"index omits {g}" for g in (globs_for(omitted, set(case.tensors) - set(omitted)) if omitted else [])]
    for name, file in case.weight_map.items():
        if name not in case.tensors:
            lines.append(f"index promises {short_name(name)} {file}")
    return lines, stored


def situation_lines(case):
    e, lines = case.expected, []
    if e["tp"]["size"] > 1:
        lines.append(f"topology tp={e['tp']['size']} rank={e['tp']['rank']}" + (" ep" if e["tp"]["expert_parallel"] else ""))
    if e["cache_dtype"] != "auto":
        lines.append(f"kv-cache {e['cache_dtype']}")
    if "_forced_" in case.name:
        lines.append("engine-sets num_nextn_predict_layers = 0")
    return lines


def verdict_lines(case):
    """What a reader wants to know at a glance; the rest is in expected/."""
    e = case.expected
    lines = ["verdict " + ("defective" if e["defective"] else "clean") + (" engine-silent" if e["vllm_is_silent"] else "")]
    if "construction_error" in e:
        lines.append(f"refused {e['construction_error']['type']} {json.dumps(e['construction_error']['message'])}")
        return lines
    if e["exception"]:
        x = e["exception"]
        lines.append(f"exception {x['type']} {x['where']} {json.dumps(x['message'])}")
    lines += [f"unassigned {short_name(n)}" for n in e["unassigned"]]
    silent = [n for n in e["silently_incomplete"]]
    lines += [f"silently-incomplete {short_name(n)} {e['params'][n]['unwritten']} of {e['params'][n]['elements']}" for n in silent]
    return lines


def load_text(load):
    words = [short_name(load["param"])]
    if "shard" in load:
        words.append(f"shard={load['shard']}")
    if "expert" in load:
        words.append(f"expert={load['expert']}")
    if not load["written"]:
        words.append("not-written")
    return " ".join(words)


def tensor_text(tensor):
    return tensor["outcome"] + "".join(" | " + load_text(l) for l in tensor["loads"])


def param_text(name, p, case):
    words = [p["dtype"], shape_text(p["shape"])]
    if "initial" in p:
        words.append(p["initial"])
    words.append(f"unwritten={p['unwritten']}")
    digest = p.get("sha256")
    if digest is None and name in case.values and p["unwritten"] < p["elements"]:
        digest = hashlib.sha256(case.values[name][2]).hexdigest()  # the unwritten rest as it was initially
    words.append(digest or "-")
    return " ".join(words)


def expected_lines(case, parent):
    e = case.expected
    if "tensors" not in e:
        return []
    lines = []
    before = {t["name"]: tensor_text(t) for t in parent.expected.get("tensors", [])} if parent else {}
    times = collections.Counter(t["name"] for t in e["tensors"])
    for t in e["tensors"]:
        text = tensor_text(t)
        if before.get(t["name"]) != text or times[t["name"]] > 1:
            lines.append(f"tensor {short_name(t['name'])} {text}")
    params = {n: param_text(n, p, parent) for n, p in parent.expected.get("params", {}).items()} if parent else {}
    for n in params:
        if n not in e["params"]:
            lines.append(f"no-param {short_name(n)}")
    for n, p in e["params"].items():
        text = param_text(n, p, case)
        if params.get(n) != text:
            lines.append(f"param {short_name(n)} {text}")
    if e.get("loaded", None) is not None:
        written = {l["param"] for t in e["tensors"] for l in t["loads"] if l["written"]}
        lines += [f"loaded-too {short_name(n)}" for n in e["loaded"] if n not in written]
        assert written <= set(e["loaded"])
    for key, word in (("warnings", "warning"), ("construction_warnings", "construction-warning"), ("info", "info")):
        lines += [f"{word} {json.dumps(m)}" for m in e.get(key, [])]
    lines += [f"kv-scale-at-default {short_name(n)}" for n in e["kv_scales_at_default"]]
    return lines


def sum_lines(case):
    return [f"file {name} {digest}" for name, digest in case.sums.items()]


def choose_parent(case, done, pool):
    best = None

    def distance(other):  # tensors that differ in name or value, and config keys
        same = sum(other.identity.get(n) == value for n, value in case.identity.items())
        return len(other.tensors) + len(case.tensors) - 2 * same + len(config_lines(other.config, case.config))

    for other in sorted(done, key=distance)[:2]:
        lines, stored = tensor_lines(other, case, pool)
        lines = lines + config_lines(other.config, case.config)
        size = sum(len(t[2]) for t in stored.values())
        score = (len(lines) + size / 20000, done.index(other))
        if best is None or score < best[0]:
            best = (score, other, lines, stored)
    return best


RECORDED = {}


def write_block(name, lines):
    return f"case {name}\n" + "".join(f"  {line}\n" for line in lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="archive", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parents[1] / "loader")
    args = parser.parse_args()
    for name in ["tensors", "cases", "expected"]:
        shutil.rmtree(args.out / name, ignore_errors=True)
        (args.out / name).mkdir(parents=True)
    names = FIRST + [p.name for p in sorted(args.archive.iterdir()) if p.name not in FIRST]
    texts, outcomes, done, pool = {}, {}, [], {}
    for name in names:
        case = RECORDED[name] = Recorded(args.archive / name)
        parent = None
        if name in ROOTS:
            (args.out / "tensors" / f"{name}.config.json").write_text(json.dumps(case.config, indent=1) + "\n")
            edits, stored = [], dict(case.tensors)
        else:
            _, parent, edits, stored = choose_parent(case, done, pool)
            edits = [f"from {parent.name}"] + edits
        files, copies = file_lines(case)
        if stored or copies:
            order = lambda item: (DTYPE_ORDER.index(item[1][0]), item[0])
            safetensors_file.write(args.out / "tensors" / f"{name}.safetensors", dict(sorted((stored | copies).items(), key=order)))
        for n, (dtype, shape, data) in case.tensors.items():
            pool.setdefault((dtype, tuple(shape), data), []).append((name, n))
        if case.config["num_hidden_layers"] == 3:
            done.append(case)
        texts[name] = [f"about {case.expected['description']}"] + edits + files + situation_lines(case) + verdict_lines(case)
        outcomes[name] = sum_lines(case) + expected_lines(case, parent)
        print(name, parent and parent.name, len(edits), sum(len(t[2]) for t in stored.values()), flush=True)
    for family in FAMILIES:
        own = [n for n in names if n.startswith(family + "_") or (family in ("q_mxfp", "q_modelopt") and n.startswith(family))]
        for folder, blocks in (("cases", texts), ("expected", outcomes)):
            (args.out / folder / f"{family}.txt").write_text("".join(write_block(n, blocks[n]) for n in own))
        names = [n for n in names if n not in own]
    assert not names, names


if __name__ == "__main__":
    main()
