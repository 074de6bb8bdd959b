"""Runs Cirrus' worker and its PyTorch twins, eager and compiled, in turns and prints the ratios of their speeds (started by
./run)."""
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
import eager_sr3
import weights

# What is promised: at least so many times the faster of the peers.
REQUIRED = {("edm", "fp32"): 1.3, ("edm", "bf16"): 1.5, ("sr3", "fp32"): 1.5, ("sr3", "bf16"): 1.5}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
SAMPLER_STEPS = 4
# Training: batches of patches; sampling: fields in one batch.
SIZES = {"edm": dict(patch=64, batch=16, field=256, fields=4), "sr3": dict(patch=64, batch=4, field=128, fields=2)}
# The published network at a quarter of its width.
SR3 = {"inner": 32, "multipliers": [1, 2, 4, 4, 8, 8], "blocks": 3, "attention_level": 3, "groups": 8, "dropout": 0.2}
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
    """The same commands on the network in PyTorch: eager, or compiled by torch.compile."""

    def __init__(self, kind, model, batch, compiled):
        tensors, metadata = weights.read(model)
        self.kind, self.compiled, self.name = kind, compiled, "compiled" if compiled else "eager"
        self.tensors, self.config = tensors, json.loads(metadata["cirrus"])["network_config"]
        self.batch = {k: v for k, v in batch.items() if not k.startswith("field_")}
        self.fields = [batch["field_" + k] for k in ("noise", "maps", "scalars")]

    def use(self, dtype, threads, dropout):
        torch.set_num_threads(threads)
        torch.compiler.reset()
        module = eager_edm if self.kind == "edm" else eager_sr3
        if self.kind == "edm":
            self.network = eager_edm.Edm(self.config, self.tensors, DTYPES[dtype])
        else:
            self.network = eager_sr3.Sr3(self.config, self.tensors, DTYPES[dtype], dropout)
        if self.compiled:
            self.network.loss, self.network.denoise = torch.compile(self.network.loss), torch.compile(self.network.denoise)
        self.training = module.Training(self.network)

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
            self.network.frozen = None
            value = self.training.steps(count, self.batch)
        else:
            self.network.freeze()
            for _ in range(count):
                value = eager_edm.sample(self.network, *self.fields, steps=SAMPLER_STEPS).square().mean().item()
        return [time.perf_counter() - wall, time.process_time() - processor, value]


def make_batch(kind, config):
    torch.manual_seed(0)
    size = SIZES[kind]
    n, p, f = size["batch"], size["patch"], size["field"]
    m, s = (config["condition_maps"], config["condition_scalars"]) if kind == "edm" else (1, 0)
    return {
        "x0": 0.5 * torch.randn(n, 1, p, p), "noise": torch.randn(n, 1, p, p),
        "sigma": torch.exp(torch.linspace(-4, 3, n)), "maps": torch.randn(n, m, p, p),
        "scalars": torch.randn(n, s), "field_noise": torch.randn(size["fields"], 1, f, f),
        "field_maps": torch.randn(m, f, f), "field_scalars": torch.randn(s),
    }


def check_equal(cirrus, peer, dtype, threads, folder):
    """The same estimates, training and samples from the same weights. In fp32 to rounding. In bf16 both round at places
    of their own, by 2^-9 in each of twenty layers, so that neither is right: there the peer's estimate must be as near,
    and Cirrus' own as near to what fp32 gives as the peer's is."""
    file = os.path.join(folder, "output.safetensors")

    def estimates(kind):
        cirrus.ask("use", kind, threads, 0)
        peer.use(kind, threads, 0)
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


def pace(sides, what, rounds, seconds):
    """Turns A B C, C B A, ...: per round the (wall, processor) seconds of each side for the same work."""
    wall = max(side.timed(what, 1)[0] for side in sides)  # warms up and compiles as well
    wall = max(side.timed(what, 1)[0] for side in sides)
    count = max(1, round(seconds / wall))
    results = []
    for i in range(rounds):
        order = range(len(sides)) if i % 2 == 0 else range(len(sides) - 1, -1, -1)
        times = {k: sides[k].timed(what, count)[:2] for k in order}
        results.append([times[k] for k in range(len(sides))])
    return count, results


def roof(cirrus, what, seconds, clock):
    """GFLOP/s, the fastest of three."""
    count = max(1, round(seconds / cirrus.timed(what, 2)[0] * 2))
    return max(answer[2] / answer[clock] for answer in (cirrus.timed(what, count) for _ in range(3))) / 1e9


def measure(kind, cirrus, peers, dtype, threads, options, folder):
    print(f"\n{kind}, {dtype}, {threads} thread{'s' if threads > 1 else ''}")
    check_equal(cirrus, peers[0], dtype, threads, folder)
    flop = [float(v) for v in cirrus.ask("use", dtype, threads, SR3["dropout"])]
    for peer in peers:
        peer.use(dtype, threads, SR3["dropout"])
    # With one thread processor time is the time without what else the machine does; more threads wait for each other,
    # and waiting counts as work there.
    clock = WALL if threads > 1 else PROCESSOR
    roofs = {what: roof(cirrus, what, options.seconds / 3, clock) for what in ("convolution", "matmul")}
    print("  roofs in GFLOP/s: " + ", ".join(f"{k} {v:.0f}" for k, v in roofs.items()))
    print("  work    side       images/s   GFLOP/s   of roof   Cirrus is faster by: wall  (from, to)   processor")
    rows, size = [], SIZES[kind]
    for what, images, work in (("train", size["batch"], 3 * flop[0] * size["batch"]),
                               ("sample", size["fields"] * SAMPLER_STEPS, flop[1] * size["fields"] * SAMPLER_STEPS)):
        if options.work and what != options.work:
            continue
        count, results = pace([*peers, cirrus], what, options.rounds, options.seconds)
        row = {"network": kind, "dtype": dtype, "threads": threads, "work": what, **{"roof_" + k: v for k, v in roofs.items()}}
        for side, name in enumerate([*(peer.name for peer in peers), "cirrus"]):
            seconds = statistics.median(r[side][clock] for r in results) / count
            row[name + "_images_per_s"], row[name + "_gflops"] = images / seconds, work / seconds / 1e9
            text = f"  {what:8}{name:9}{images / seconds:10.1f}{work / seconds / 1e9:10.0f}{work / seconds / 1e9 / roofs['convolution']:10.0%}"
            if name != "cirrus":
                wall = [r[side][WALL] / r[-1][WALL] for r in results]
                processor = statistics.median(r[side][PROCESSOR] / r[-1][PROCESSOR] for r in results)
                row["ratio_" + name] = processor if clock == PROCESSOR else statistics.median(wall)
                text += f"{statistics.median(wall):26.2f}  ({min(wall):.2f}, {max(wall):.2f}){processor:11.2f}"
            print(text, flush=True)
        row["ratio"] = min(row["ratio_" + peer.name] for peer in peers)
        rows.append(row)
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
    parser.add_argument("--networks", default="edm,sr3", metavar="LIST", help="edm, sr3 (%(default)s)")
    parser.add_argument("--work", default="", help="train or sample (default: both)")
    parser.add_argument("--eager-only", action="store_true", help="leave torch.compile out")
    parser.add_argument("--require", action="store_true", help="exit 1 where Cirrus falls short of what is promised")
    options = parser.parse_args()

    flags = open("/proc/cpuinfo").read() if os.path.exists("/proc/cpuinfo") else ""
    native_bf16 = "avx512_bf16" in flags or "amx_bf16" in flags
    dtypes = options.dtypes.split(",") if options.dtypes else ["bf16", "fp32"] if native_bf16 else ["fp32"]
    cores = len(os.sched_getaffinity(0))
    threads = [int(t) for t in options.threads.split(",")] if options.threads else sorted({1, cores})
    print(f"peers: PyTorch {torch.__version__}, eager and compiled, channels-last; {cores} cores, load {os.getloadavg()[0]:.1f}; medians "
          f"of {options.rounds} turns; sampling: {SAMPLER_STEPS} steps, an image is one evaluation")
    for kind, size in SIZES.items():
        print("{}: training on {batch} patches of {patch} x {patch}, sampling {fields} fields of {field} x {field}".format(kind, **size))
    if max(threads) > 1 and os.getloadavg()[0] > 0.5:
        print("other programs use this machine: threads then wait for each other, and figures of more than one mean little")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for kind in options.networks.split(","):
            model, file = options.model, os.path.join(folder, kind + "-batch.safetensors")
            if kind == "sr3":
                model = os.path.join(folder, "sr3.safetensors")
                weights.write(model, eager_sr3.initial(SR3), {"cirrus": json.dumps({"network": "sr3", "network_config": SR3})})
            batch = make_batch(kind, json.loads(weights.read(model)[1]["cirrus"])["network_config"])
            weights.write(file, {k: v for k, v in batch.items() if v.numel()})
            cirrus = Cirrus(options.program, model, file)
            peers = [Peer(kind, model, batch, compiled) for compiled in ([False] if options.eager_only else [False, True])]
            for dtype in dtypes:
                for t in threads:
                    rows += measure(kind, cirrus, peers, dtype, t, options, folder)
    if options.json:
        with open(options.json, "w") as out:
            json.dump(rows, out, indent=1)
    low = [r for r in rows if r["ratio"] < REQUIRED[r["network"], r["dtype"]]]
    for r in low:
        promised = REQUIRED[r["network"], r["dtype"]]
        print(f"below {promised}: {r['network']} {r['work']} {r['dtype']} with {r['threads']} threads, {r['ratio']:.2f}")
    sys.exit(1 if options.require and low else 0)


if __name__ == "__main__":
    main()
