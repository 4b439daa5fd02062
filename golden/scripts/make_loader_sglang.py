"""Makes golden/loader-sglang: what SGLang's loader did with the checkpoints of golden/loader.

    tar xf SHARED/oracle/loader-sglang.tar.xz -C SCRATCH
    python3 golden/scripts/make_loader_sglang.py --from SCRATCH/loader-sglang [--check]

Config and checkpoint are those of the case of the same name; an outcome is told against the nearest ancestor that was
recorded too. --check reads the text back and holds it to the archive.
"""
import argparse
import collections
import json
import pathlib
import shutil
import sys

import loader_text
from loader_text import long_name, shape_text, short_name
from make_loader import FAMILIES, load_text, write_block


def tensor_text(tensor):
    text = tensor["outcome"] + "".join(" | " + load_text(load) for load in tensor["loads"])
    return text + (f" | completed-by {short_name(tensor['completed_by'])}" if tensor.get("completed_by") else "")


def param_text(p):
    words = [p["dtype"], shape_text(p["shape"]), f"unwritten={p['unwritten']}", p.get("sha256", "-")]
    return " ".join(words + (["nondeterministic"] if p.get("nondeterministic") else []))


def own_lines(e):
    lines = [f"gpu {e['fake_gpu']}"]
    for key, change in e["config_changes"].items():
        lines.append(f"config {key} = {json.dumps(change['to'])}")
    silent = " engine-silent" if e["sglang_is_silent"] else ""
    lines.append("verdict " + ("defective" if e["defective"] else "clean") + silent)
    if "construction_error" in e:
        return lines + [f"refused {e['construction_error']['type']} {json.dumps(e['construction_error']['message'])}"]
    if e["exception"]:
        x = e["exception"]
        lines.append(f"exception {x['type']} {x['where']} {json.dumps(x['message'])}")
    for name in e["silently_incomplete"]:
        p = e["params"][name]
        lines.append(f"silently-incomplete {name} {p['unwritten']} of {p['elements']}")
    lines += [f"warning {json.dumps(m)}" for m in e["warnings"]]
    lines += [f"kv-scale-at-default {n}" for n in e["kv_scales_at_default"]]
    if "compared_with_vllm" in e:
        c = e["compared_with_vllm"]
        lines.append(f"against-vllm equal={c['equal']} permuted={c['permuted']} skipped={c['skipped']}")
        lines += [f"against-vllm {kind} {n}" for kind in ("differ", "missing_in_vllm") for n in c[kind]]
    return lines


def diff_lines(e, parent):
    before = {}, {}
    if parent:
        before = ({t["name"]: tensor_text(t) for t in parent["tensors"]}, {n: param_text(p) for n, p in parent["params"].items()})
    tensors, params = before
    times = collections.Counter(t["name"] for t in e["tensors"])
    lines = [f"tensor {short_name(t['name'])} {tensor_text(t)}" for t in e["tensors"]
             if tensors.get(t["name"]) != tensor_text(t) or times[t["name"]] > 1]
    lines += [f"no-param {n}" for n in params if n not in e["params"]]
    lines += [f"param {n} {param_text(p)}" for n, p in e["params"].items() if params.get(n) != param_text(p)]
    return lines


def check(cases, out, recorded):
    """Names of the cases whose text does not give back what was recorded."""
    outcomes, bad = loader_text.read_outcomes(out), []

    def told(name):
        relative = next((rest for word, rest in outcomes[name] if word == "as"), None)
        tensors, params = told(relative) if relative else ({}, {})
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

    for name, e in recorded.items():
        if "tensors" not in e:
            continue
        tensors, params = told(name)
        listed = {}
        for t in e["tensors"]:
            listed.setdefault(t["name"], []).append(tensor_text(t))
        if any(tensors.get(n) != texts for n, texts in listed.items()):
            bad.append(name + ": tensors")
        if params != {n: param_text(p) for n, p in e["params"].items()}:
            bad.append(name + ": params")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="archive", type=pathlib.Path, required=True)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    golden = pathlib.Path(__file__).parents[1]
    out = golden / "loader-sglang"
    cases = loader_text.read_cases(golden / "loader")
    recorded = {p.name: json.loads((p / "expected.json").read_text()) for p in sorted(args.archive.iterdir())}
    if args.check:
        bad = check(cases, out, recorded)
        print("\n".join(bad + [f"{len(recorded)} cases, {len(bad)} differences"]))
        sys.exit(bool(bad))
    shutil.rmtree(out / "expected", ignore_errors=True)
    (out / "expected").mkdir(parents=True)
    blocks = {}
    for name, e in recorded.items():
        lines = own_lines(e)
        if "tensors" in e:
            ancestor = loader_text.parent_of(cases, name)
            while ancestor and "tensors" not in recorded.get(ancestor, {}):
                ancestor = loader_text.parent_of(cases, ancestor)
            lines += ([f"as {ancestor}"] if ancestor else []) + diff_lines(e, recorded.get(ancestor))
        blocks[name] = lines
    names = list(recorded)
    for family in FAMILIES:
        own = [n for n in names if n.startswith(family)]
        names = [n for n in names if n not in own]
        if own:
            (out / "expected" / f"{family}.txt").write_text("".join(write_block(n, blocks[n]) for n in own))
    assert not names


if __name__ == "__main__":
    main()
