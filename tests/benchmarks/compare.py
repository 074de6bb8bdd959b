"""Runs Cirrus' worker and the eager PyTorch twin in turns and prints the ratios of their speeds (started by ./run)."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch

import eager_edm
import weights

REQUIRED = {"train": 1.1, "sample": 1.2}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
PATCH, BATCH, FIELD, FIELDS, SAMPLER_STEPS = 64, 16, 256, 4, 4
WALL, PROCESSOR = 0, 1


class Cirrus:
    def __init__(self, program, model, batch):
        self.process = subprocess.Popen([program, model, batch], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *command):
        print(*command, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"compare.py: the worker ended at '{' '.join(map(str, command))}'")
        return answer.split()

    def timed(self, *command):
        return [float(v) for v in self.ask(*command)]


class Peer:
    """The same commands on the eager network."""

    def __init__(self, model, batch):
        tensors, metadata = weights.read(model)
        self.tensors, self.config = tensors, json.loads(metadata["cirrus"])["network_config"]
        self.batch = {k: v for k, v in batch.items() if not k.startswith("field_")}
        self.fields = [batch["field_" + k] for k in ("noise", "maps", "scalars")]

    def use(self, dtype, threads):
        torch.set_num_threads(threads)
        self.network = eager_edm.Edm(self.config, self.tensors, DTYPES[dtype])
        self.training = eager_edm.Training(self.network)

    @torch.no_grad()
    def forward(self):
        b = self.batch
        self.network.freeze()
        out = self.network.denoise(b["x0"] + b["noise"] * b["sigma"].view(-1, 1, 1, 1), b["sigma"], b["maps"], b["scalars"])
        self.network.force_unit_weights()
        return out

    def timed(self, what, count):
        wall, processor = time.perf_counter(), time.process_time()
        if what == "train":
            value = self.training.steps(count, self.batch)
        else:
            self.network.freeze()
            for _ in range(count):
                value = eager_edm.sample(self.network, *self.fields, steps=SAMPLER_STEPS).square().mean().item()
        return [time.perf_counter() - wall, time.process_time() - processor, value]


def make_batch(config):
    torch.manual_seed(0)
    n, m, s = BATCH, config["condition_maps"], config["condition_scalars"]
    return {
        "x0": 0.5 * torch.randn(n, 1, PATCH, PATCH), "noise": torch.randn(n, 1, PATCH, PATCH),
        "sigma": torch.exp(torch.linspace(-4, 3, n)), "maps": torch.randn(n, m, PATCH, PATCH),
        "scalars": torch.randn(n, s), "field_noise": torch.randn(FIELDS, 1, FIELD, FIELD),
        "field_maps": torch.randn(m, FIELD, FIELD), "field_scalars": torch.randn(s),
    }


def check_equal(cirrus, peer, dtype, threads, folder):
    """The same estimates, training and samples from the same weights. In fp32 to rounding. In bf16 both round at places
    of their own, by 2^-9 in each of twenty layers, so that neither is right: there the peer's estimate must be as near,
    and Cirrus' own as near to what fp32 gives as the peer's is."""
    file = os.path.join(folder, "output.safetensors")

    def estimates(kind):
        cirrus.ask("use", kind, threads)
        peer.use(kind, threads)
        cirrus.ask("forward", file)
        return weights.read(file)[0]["output"], peer.forward()

    def error(a, b):
        return ((a - b).square().mean() / b.square().mean()).sqrt().item()

    exact = estimates("fp32")
    found = [("forward output in fp32 (rms error)", error(*exact), 1e-4)]
    limit = 1e-3
    if dtype == "bf16":
        ours, theirs = estimates("bf16")
        limit = 2e-2
        found += [("forward output in bf16", error(ours, theirs), 1e-2),
                  ("forward output, Cirrus in bf16 to fp32", error(ours, exact[1]), 1.1 * error(theirs, exact[1]))]
    for what, count in (("train", 3), ("sample", 1)):
        x, y = cirrus.timed(what, count)[2], peer.timed(what, count)[2]
        found.append((f"{what} (loss, mean square)", abs(x / y - 1), limit))
    for name, value, limit in found:
        print(f"  same {name}: {value:.1e} (limit {limit:.1e})")
        if not value <= limit:
            sys.exit("compare.py: Cirrus and the peer do not compute the same")


def pace(peer, cirrus, what, rounds, seconds):
    """Turns A B, B A, ...: per round (wall and processor seconds of both for the same work)."""
    wall = max(peer.timed(what, 1)[0], cirrus.timed(what, 1)[0])  # warms up as well
    count = max(1, round(seconds / wall))
    results = []
    for i in range(rounds):
        sides = [peer, cirrus] if i % 2 == 0 else [cirrus, peer]
        times = {id(side): side.timed(what, count)[:2] for side in sides}
        results.append((times[id(peer)], times[id(cirrus)]))
    return count, results


def roof(cirrus, what, seconds, clock):
    """GFLOP/s, the fastest of three."""
    count = max(1, round(seconds / cirrus.timed(what, 2)[0] * 2))
    return max(answer[2] / answer[clock] for answer in (cirrus.timed(what, count) for _ in range(3))) / 1e9


def measure(cirrus, peer, dtype, threads, options, folder):
    print(f"\n{dtype}, {threads} thread{'s' if threads > 1 else ''}")
    flop_per_pixel = float(cirrus.ask("use", dtype, threads)[0])
    check_equal(cirrus, peer, dtype, threads, folder)
    # With one thread processor time is the time without what else the machine does; more threads wait for each other,
    # and waiting counts as work there.
    clock = WALL if threads > 1 else PROCESSOR
    roofs = {what: roof(cirrus, what, options.seconds / 3, clock) for what in ("convolution", "matmul")}
    print("  roofs in GFLOP/s: " + ", ".join(f"{k} {v:.0f}" for k, v in roofs.items()))
    print("  work     images/s: peer  Cirrus   GFLOP/s: peer  Cirrus   of roof   ratio: wall  (from, to)   processor")
    rows = []
    for what, pixels, images, passes in (
        ("train", BATCH * PATCH**2, BATCH, 3),
        ("sample", FIELDS * FIELD**2 * SAMPLER_STEPS, FIELDS * SAMPLER_STEPS, 1),
    ):
        count, results = pace(peer, cirrus, what, options.rounds, options.seconds)
        wall = [a[0] / b[0] for a, b in results]
        row = {"dtype": dtype, "threads": threads, "work": what, "ratio_wall": statistics.median(wall),
               "ratio_wall_low": min(wall), "ratio_wall_high": max(wall),
               "ratio_processor": statistics.median(a[1] / b[1] for a, b in results), **{"roof_" + k: v for k, v in roofs.items()}}
        for side, name in enumerate(("peer", "cirrus")):
            seconds = statistics.median(r[side][clock] for r in results) / count
            row[name + "_images_per_s"] = images / seconds
            row[name + "_gflops"] = passes * flop_per_pixel * pixels / seconds / 1e9
        row["ratio"] = row["ratio_processor"] if clock == PROCESSOR else row["ratio_wall"]
        rows.append(row)
        print(f"  {what:8}{row['peer_images_per_s']:15.1f}{row['cirrus_images_per_s']:8.1f}{row['peer_gflops']:16.0f}"
              f"{row['cirrus_gflops']:8.0f}{row['cirrus_gflops'] / roofs['convolution']:9.0%}"
              f"{row['ratio_wall']:14.2f}  ({min(wall):.2f}, {max(wall):.2f}){row['ratio_processor']:11.2f}", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--model", required=True, metavar="FILE", help="weights (safetensors)")
    parser.add_argument("--dtypes", default="", metavar="LIST", help="bf16,fp32 (default: fp32, and bf16 where the processor has it)")
    parser.add_argument("--threads", default="", metavar="LIST", help="default: 1 and all")
    parser.add_argument("--rounds", type=int, default=9, help="turns a figure is the median of (%(default)s)")
    parser.add_argument("--seconds", type=float, default=1.5, help="of a turn (%(default)s)")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    parser.add_argument("--require", action="store_true",
                        help=f"exit 1 if training is below {REQUIRED['train']} or sampling below {REQUIRED['sample']} times the peer")
    options = parser.parse_args()

    flags = open("/proc/cpuinfo").read() if os.path.exists("/proc/cpuinfo") else ""
    native_bf16 = "avx512_bf16" in flags or "amx_bf16" in flags
    dtypes = options.dtypes.split(",") if options.dtypes else ["bf16", "fp32"] if native_bf16 else ["fp32"]
    cores = len(os.sched_getaffinity(0))
    threads = [int(t) for t in options.threads.split(",")] if options.threads else sorted({1, cores})
    print(f"peer: eager PyTorch {torch.__version__}; {cores} cores, load {os.getloadavg()[0]:.1f}; medians of {options.rounds} turns; "
          f"training: batches of {BATCH} patches of {PATCH} x {PATCH}; sampling: {FIELDS} fields of {FIELD} x {FIELD}, {SAMPLER_STEPS} steps, "
          "an image is one evaluation")
    if max(threads) > 1 and os.getloadavg()[0] > 0.5:
        print("other programs use this machine: threads then wait for each other, and figures of more than one mean little")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        config = json.loads(weights.read(options.model)[1]["cirrus"])["network_config"]
        batch, file = make_batch(config), os.path.join(folder, "batch.safetensors")
        weights.write(file, batch)
        cirrus, peer = Cirrus(options.program, options.model, file), Peer(options.model, batch)
        for dtype in dtypes:
            for t in threads:
                rows += measure(cirrus, peer, dtype, t, options, folder)
    if options.json:
        with open(options.json, "w") as out:
            json.dump(rows, out, indent=1)
    low = [r for r in rows if r["ratio"] < REQUIRED[r["work"]]]
    for r in low:
        print(f"below {REQUIRED[r['work']]}: {r['work']} {r['dtype']} with {r['threads']} threads, {r['ratio']:.2f}")
    sys.exit(1 if options.require and low else 0)


if __name__ == "__main__":
    main()
