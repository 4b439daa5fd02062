"""Makes golden/forward and golden/sampling.json: the oracle's forward cases, whole, and the sampling table.

    python3 golden/scripts/make_forward.py --from SHARED        # SHARED holds oracle/forward and oracle/sampling.json
"""
import argparse
import pathlib
import shutil

LEFT_OUT = ["vllm_check.json", "numpy_check.json"]  # the recorder's own cross-checks; no test reads them


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="shared", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parents[1])
    args = parser.parse_args()
    source, out = args.shared / "oracle", args.out
    shutil.rmtree(out / "forward", ignore_errors=True)
    for path in sorted((source / "forward").rglob("*")):
        target = out / "forward" / path.relative_to(source / "forward")
        if path.is_file() and path.name not in LEFT_OUT:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    shutil.copyfile(source / "sampling.json", out / "sampling.json")


if __name__ == "__main__":
    main()
