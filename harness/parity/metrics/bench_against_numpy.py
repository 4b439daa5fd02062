"""The comparison's speed, numpy's, and the memory's, in one run.

    python harness/parity/metrics/bench_against_numpy.py build/bin/parity_metrics_bench

Needs numpy, which has no bfloat16: there it is widened by a shift, as one would. Both compute max, mean and RMS of the
absolute error, relative L2 and cosine of 4096 x 6144 elements, on one thread; the best of several runs counts. Bytes are
those of both sides, each once.
"""

import json
import os
import subprocess
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np  # noqa: E402

SHAPE = (4096, 6144)


def metrics(candidate, reference):
    c = candidate.astype(np.float32, copy=False).ravel()
    r = reference.astype(np.float32, copy=False).ravel()
    error = c - r
    size = np.abs(error)
    norm_c, norm_r = np.sqrt(np.dot(c, c)), np.sqrt(np.dot(r, r))
    squares = np.dot(error, error)
    return size.max(), size.mean(), np.sqrt(squares / error.size), np.sqrt(squares) / norm_r, np.dot(c, r) / (norm_c * norm_r)


def widened(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def best_seconds(function, repetitions=5):
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def main():
    run = subprocess.run(
        [sys.argv[1], "--benchmark_filter=^read$|^errors/|^dearer", "--benchmark_format=json",
         "--benchmark_repetitions=5", "--benchmark_min_time=0.2"],
        check=True, capture_output=True, text=True)
    seconds = {}
    speed = {}
    for entry in json.loads(run.stdout)["benchmarks"]:
        if entry.get("run_type") != "iteration":
            continue
        name = entry["name"]
        seconds[name] = min(seconds.get(name, 1e9), entry["real_time"] * 1e-9)
        speed[name] = max(speed.get(name, 0), entry["bytes_per_second"] * entry["cpu_time"] / entry["real_time"])
    random = np.random.default_rng(0)
    f32 = [random.standard_normal(SHAPE, dtype=np.float32) for _ in range(2)]
    bf16 = [(side.view(np.uint32) >> 16).astype(np.uint16) for side in f32]
    numpy_seconds = {
        "errors/f32": best_seconds(lambda: metrics(*f32)),
        "errors/bf16": best_seconds(lambda: metrics(widened(bf16[0]), widened(bf16[1]))),
    }
    print(f"memory read, one thread: {speed['read'] / 1e9:.1f} GB/s")
    for name, numpy_time in numpy_seconds.items():
        print(f"{name:12} mtpcheck {seconds[name] * 1e3:7.1f} ms, {speed[name] / 1e9:5.1f} GB/s "
              f"({speed[name] / speed['read']:.0%} of read); numpy {numpy_time * 1e3:7.1f} ms: "
              f"{numpy_time / seconds[name]:.1f} times faster")
    for name in sorted(seconds):
        if name.startswith("dearer"):
            print(f"{name:20} {speed[name] / 1e9:5.2f} GB/s")


if __name__ == "__main__":
    main()
