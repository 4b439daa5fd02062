"""The comparison's speed, numpy's, and the memory's, in one run.

    python harness/parity/metrics/bench_against_numpy.py build/bin/parity_metrics_bench [ROUNDS]

Needs numpy, which has no bfloat16: there it is widened by a shift, as one would. Both compute max, mean and RMS of the
absolute error, relative L2 and cosine of 4096 x 6144 elements: mtpcheck with sums in float64, on one thread and on all;
numpy in float32, on the one thread that it uses for whatever is no matrix product. In each round all of them run, one
after the other, so that whatever else the machine does hits them alike; what counts is the best of the rounds. On one
thread the processor's time counts, which other work lengthens less; on all, the clock's. Bytes are those of both sides,
each once.
"""

import json
import os
import subprocess
import sys
import time

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
import numpy as np  # noqa: E402

SHAPE = (4096, 6144)


def metrics(candidate, reference):
    c = candidate.ravel()
    r = reference.ravel()
    error = c - r
    size = np.abs(error)
    norm_c, norm_r = np.sqrt(np.dot(c, c)), np.sqrt(np.dot(r, r))
    squares = np.dot(error, error)
    return size.max(), size.mean(), np.sqrt(squares / error.size), np.sqrt(squares) / norm_r, np.dot(c, r) / (norm_c * norm_r)


def widened(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def seconds_of(function):
    """Of the processor, and of the clock."""
    start = time.process_time(), time.perf_counter()
    function()
    return time.process_time() - start[0], time.perf_counter() - start[1]


def run_mtpcheck(program, threads):
    """Seconds and bytes a second of each benchmark."""
    run = subprocess.run(
        [program, "--benchmark_filter=^read|^errors/|^dearer", "--benchmark_format=json", "--benchmark_min_time=0.1"],
        check=True, capture_output=True, text=True, env={**os.environ, "MTPCHECK_THREADS": str(threads)})
    results = {}
    for entry in json.loads(run.stdout)["benchmarks"]:
        name = entry["name"].removesuffix("/real_time")
        seconds = entry["cpu_time" if threads == 1 else "real_time"] * 1e-9
        results[name] = (seconds, entry["bytes_per_second"] * entry["real_time"] * 1e-9 / seconds)
    return results


def main():
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    processors = len(os.sched_getaffinity(0))
    random = np.random.default_rng(0)
    f32 = [random.standard_normal(SHAPE, dtype=np.float32) for _ in range(2)]
    bf16 = [(side.view(np.uint32) >> 16).astype(np.uint16) for side in f32]
    numpy_seconds = {"errors/f32": [], "errors/bf16": []}
    best = {}
    for _ in range(rounds):
        for threads in sorted({1, processors}):
            for name, (seconds, speed) in run_mtpcheck(sys.argv[1], threads).items():
                known = best.get((threads, name), (1e9, 0))
                best[threads, name] = (min(known[0], seconds), max(known[1], speed))
        numpy_seconds["errors/f32"].append(seconds_of(lambda: metrics(*f32)))
        numpy_seconds["errors/bf16"].append(seconds_of(lambda: metrics(widened(bf16[0]), widened(bf16[1]))))
    for threads in sorted({1, processors}):
        read = best[threads, "read"][1]
        print(f"{threads} thread{'s' * (threads > 1)}: memory read {read / 1e9:.1f} GB/s")
        for name, times in numpy_seconds.items():
            seconds, speed = best[threads, name]
            numpy_time = min(processor if threads == 1 else clock for processor, clock in times)
            print(f"  {name:12} {seconds * 1e3:6.1f} ms, {speed / 1e9:5.1f} GB/s ({speed / read:.0%} of read); "
                  f"numpy {numpy_time * 1e3:6.1f} ms: {numpy_time / seconds:.1f} times as fast")
        for (of, name), (_, speed) in sorted(best.items()):
            if of == threads and name.startswith("dearer"):
                print(f"  {name:20} {speed / 1e9:5.2f} GB/s")


if __name__ == "__main__":
    main()
