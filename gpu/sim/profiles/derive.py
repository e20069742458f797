#!/usr/bin/env python3
"""Writes the device profiles that are derived from Vidur's measurements: derive.py vidur_linear_ops.csv DIRECTORY

The CSV has the median ms per layer of linear and element-wise operations, by number of tokens and tensor-parallel degree
(device,model,tensor_parallel,num_tokens,linear_ms_per_layer,elementwise_ms_per_layer,embedding_ms). How a profile
follows from it, and what it is checked against: docs/formats/profile.md. The same input gives the same bytes.
"""

import csv
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path

BYTES_PER_VALUE = 2  # bf16 or fp16
TOKENS_PER_BLOCK = 16
VIDUR = (
    "Linear and element-wise layers: medians of Vidur's profiling data (Agrawal et al., MLSys 2024; "
    "github.com/microsoft/vidur, MIT), {rows}. Attention, logits, capacity, link: models, docs/formats/profile.md."
)


@dataclass(frozen=True)
class Gpu:
    title: str
    memory_mib: int  # as nvidia-smi shows it
    bytes_per_second: float  # data sheet
    flops_per_second: float  # data sheet, dense 16 bit
    host_bytes_per_second: float  # data sheet: PCIe 4.0 or 5.0, 16 lanes, each way


A10 = Gpu("NVIDIA A10 24 GB", 23028, 600e9, 125e12, 31.5e9)
A40 = Gpu("NVIDIA A40 48 GB", 46068, 696e9, 149.7e12, 31.5e9)
A100 = Gpu("NVIDIA A100 SXM 80 GB", 81920, 2039e9, 312e12, 31.5e9)
H100 = Gpu("NVIDIA H100 SXM 80 GB", 81559, 3352e9, 989.4e12, 63e9)


@dataclass(frozen=True)
class Model:
    title: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    positions_max: int
    vocabulary: int = 32000

    @property
    def head_size(self):
        return self.hidden // self.heads

    @property
    def kv_width(self):
        return self.kv_heads * self.head_size

    @property
    def layer_parameters(self):  # of the matrices
        return self.hidden * (2 * self.hidden + 2 * self.kv_width + 3 * self.intermediate)

    @property
    def parameters(self):
        outside = 2 * self.vocabulary * self.hidden + self.hidden
        return outside + self.layers * (self.layer_parameters + 2 * self.hidden)

    @property
    def kv_bytes_per_token(self):
        return 2 * self.layers * self.kv_width * BYTES_PER_VALUE


# Llumnix's workloads reach 12,288 tokens, which its engine ran over the models' own limit of 2,048.
LLAMA_7B = Model("LLaMA-7B", 32, 4096, 11008, 32, 32, 16384)
LLAMA_30B = Model("LLaMA-30B", 60, 6656, 17920, 52, 52, 16384)
LLAMA_2_7B = Model("Llama-2-7B", 32, 4096, 11008, 32, 32, 4096)
LLAMA_2_70B = Model("Llama-2-70B", 80, 8192, 28672, 64, 8, 4096)
# For traces of today's lengths: Mooncake's was taken from such a model, of the same shape and with 128k positions.
LLAMA_2_70B_128K = replace(LLAMA_2_70B, title="Llama-2-70B for 131,072 positions", positions_max=131_072)

# Assumptions, named in the profiles.
MEMORY_SHARE = 0.9  # vLLM's gpu_memory_utilization
HOST_SHARE = 0.8
ATTENTION_SHARE = 0.5  # attention's FLOP/s over those of the linear layers
LOAD_BYTES_PER_SECOND = 2e9  # of weights, for each GPU
LOAD_FIXED_MS = 10_000

# What Llumnix (OSDI '24) states of its testbed.
PAPER_KV_TOKENS_7B = 13_616
PAPER_STEP_30B_MS = 65  # 8k sequence: recomputing takes 3.5 s, which is 54 steps
PAPER_RECOMPUTE_30B_MS = 3500
PAPER_INTERFERENCE_7B = 2.6  # figure 4: slowest over fastest decode step at equal sequence length
PAPER_FIGURE_3 = {"rate": 0.42, "mean": 256, "alpha": 1.5, "load": 0.62}
PAPER_DOWNTIME_MS = (20, 30)


def monotone(points):
    """The non-decreasing sequence next to the measured one (pool adjacent violators): noise must not reward tokens."""
    pools = []
    for _, us in points:
        pools.append([us, 1])
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            last, before = pools.pop(), pools.pop()
            count = last[1] + before[1]
            pools.append([(last[0] * last[1] + before[0] * before[1]) / count, count])
    values = [pool[0] for pool in pools for _ in range(pool[1])]
    return [(count, value) for (count, _), value in zip(points, values)]


def at(points, count):
    """As step_table::at."""
    for i, (n, us) in enumerate(points):
        if count <= n:
            if i == 0 or count == n:
                return us
            m, below = points[i - 1]
            return below + (us - below) * (count - m) / (n - m)
    return points[-1][1] * count / points[-1][0]


class Vidur:
    def __init__(self, path):
        self.rows = {}
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                key = (row["device"], row["model"], int(row["tensor_parallel"]))
                self.rows.setdefault(key, []).append(row)

    def column(self, key, name):
        """[(tokens, us)]"""
        return sorted((int(row["num_tokens"]), float(row[name]) * 1000) for row in self.rows[key])


@dataclass
class Replica:
    """A model on its GPUs: times of one layer and what follows from them."""

    model: Model
    gpu: Gpu
    gpus: int
    linear: list  # us per layer by tokens
    elementwise: list
    embedding: list
    allreduce_bytes_per_second: float = 0  # bus bandwidth; 0: one GPU
    allreduce_latency_us: float = 0
    batched_tokens_max: int = 8192
    overhead_us: float = 2000
    per_decode_us: float = 20

    @property
    def weight_rate(self):
        """Bytes/s at which one GPU reads weights for one token."""
        return self.model.layer_parameters / self.gpus * BYTES_PER_VALUE / self.linear[0][1] * 1e6

    @property
    def flop_rate(self):
        tokens, us = self.linear[-1]
        return 2 * self.model.layer_parameters / self.gpus * tokens / us * 1e6

    def allreduce_us(self, tokens):
        if self.gpus == 1:
            return 0
        moved = 2 * (self.gpus - 1) / self.gpus * tokens * self.model.hidden * BYTES_PER_VALUE
        return self.allreduce_latency_us + moved / self.allreduce_bytes_per_second * 1e6

    def table(self):
        counts = [count for count, _ in self.linear]
        raw = []
        for i, count in enumerate(counts):
            layer = self.linear[i][1] + self.elementwise[i][1] + 2 * self.allreduce_us(count)
            raw.append((count, self.model.layers * layer + self.embedding[i][1]))
        return [(count, round(us, 1)) for count, us in monotone(raw)]

    def logits(self):
        """Bound by reading the matrix up to the knee, by computing from there on."""
        values = self.model.vocabulary * self.model.hidden / self.gpus
        us = round(values * BYTES_PER_VALUE / self.weight_rate * 1e6, 1)
        knee = round(us * 1e-6 * self.flop_rate / (2 * values))
        return [(1, us), (knee, us)]

    @property
    def kv_rate(self):
        return self.weight_rate * self.gpus

    @property
    def attention_flop_rate(self):
        return ATTENTION_SHARE * self.flop_rate * self.gpus

    @property
    def flops_per_pair(self):
        return 4 * self.model.hidden * self.model.layers

    def reserve_bytes(self):
        """Activations of the largest step on one GPU: gate, up and their product (sharded), three hidden states."""
        width = 3 * self.model.intermediate / self.gpus + 3 * self.model.hidden
        return width * BYTES_PER_VALUE * self.batched_tokens_max

    def kv_blocks(self):
        room = self.gpu.memory_mib * 2**20 * MEMORY_SHARE - self.reserve_bytes()
        room -= self.model.parameters * BYTES_PER_VALUE / self.gpus
        return int(room * self.gpus // (self.model.kv_bytes_per_token * TOKENS_PER_BLOCK))

    def attention_us(self, first, tokens):
        pairs = tokens * first + tokens * (tokens + 1) / 2
        read = (first + tokens) * self.model.kv_bytes_per_token / self.kv_rate * 1e6
        return max(read, pairs * self.flops_per_pair / self.attention_flop_rate * 1e6)

    def step_us(self, slices, drawn):
        """Of slices (first position, tokens); as latency_model::step_time."""
        tokens = sum(count for _, count in slices)
        decodes = sum(1 for _, count in slices if count == 1)
        us = self.overhead_us + self.per_decode_us * decodes + at(self.table(), tokens)
        us += sum(self.attention_us(first, count) for first, count in slices)
        return us + (at(self.logits(), drawn) if drawn else 0)


def measured(vidur, device, model, rows, gpu, gpus, **more):
    key = (device, rows, gpus)
    columns = [vidur.column(key, f"{name}_ms_per_layer") for name in ("linear", "elementwise")]
    return Replica(model, gpu, gpus, *columns, vidur.column(key, "embedding_ms"), **more)


def on_a10(source, model, gpus, **more):
    """From one A40: what a single token takes is reading weights and goes by bandwidth, what further tokens add is
    computing and goes by FLOP/s; by the matrices' size where the model is another."""
    by_bandwidth = A40.bytes_per_second / A10.bytes_per_second
    by_flops = A40.flops_per_second / A10.flops_per_second
    size = model.layer_parameters / gpus / source.model.layer_parameters
    width = model.hidden / source.model.hidden
    floor = min(us for _, us in source.linear)
    linear = [(n, size * (floor * by_bandwidth + (us - floor) * by_flops)) for n, us in source.linear]
    elementwise = [(n, us * width * by_bandwidth) for n, us in source.elementwise]
    embedding = [(n, us * width * by_bandwidth) for n, us in source.embedding]
    return Replica(model, A10, gpus, linear, elementwise, embedding, batched_tokens_max=12_800, **more)


def power_law_moments(mean, alpha, cap=6144):
    """(E[x], E[x^2]) of the lengths that Llumnix's artifact draws: rank r in 1..2m-1 with weight r^-alpha, scaled."""
    ranks = range(1, 2 * mean)
    weights = [rank**-alpha for rank in ranks]
    total = sum(weights)
    scale = mean / (sum(rank * weight for rank, weight in zip(ranks, weights)) / total)
    values = [min(cap, rank * scale) for rank in ranks]
    return tuple(sum(v**power * w for v, w in zip(values, weights)) / total for power in (1, 2))


def calibrate_7b(replica):
    """Step and per-sequence overhead of the paper's engine, from two statements: two linear equations."""
    stated = PAPER_FIGURE_3
    mean, square = power_law_moments(stated["mean"], stated["alpha"])
    kv_tokens = stated["load"] * PAPER_KV_TOKENS_7B
    # Little's law: tokens held = rate x sum over an answer's steps of (prompt + tokens so far) x time per token.
    per_token_us = kv_tokens / (stated["rate"] * (mean * mean + square / 2)) * 1e6
    batch = stated["rate"] * mean * per_token_us * 1e-6
    table, logits, kv_us = replica.table(), replica.logits(), replica.model.kv_bytes_per_token / replica.kv_rate * 1e6
    prefill_share = stated["rate"] * at(table, mean) * 1e-6  # while which nobody decodes
    step_us = per_token_us * (1 - prefill_share)
    # overhead + batch * each = a
    a = step_us - at(table, round(batch)) - kv_tokens * kv_us - at(logits, round(batch))
    # overhead + n * each + busy = ratio * (overhead + each + idle), n sequences of 64 tokens against one
    n, ratio = 8192 // 64, PAPER_INTERFERENCE_7B
    busy = at(table, n) + 8192 * kv_us + at(logits, n)
    idle = at(table, 1) + 64 * kv_us + at(logits, 1)
    each = (ratio * idle - busy + (ratio - 1) * a) / (n - ratio + (ratio - 1) * batch)
    return round(a - batch * each, -2), round(each, -1), per_token_us, batch


def calibrate_30b(replica):
    """All-reduce bandwidth and step overhead, from the recompute and the decode step of an 8k sequence."""
    for _ in range(50):  # each depends a little on the other
        replica.overhead_us += PAPER_STEP_30B_MS * 1000 - replica.step_us([(8191, 1)], 1)
        moved = 2 * replica.model.layers * (replica.allreduce_us(8192) - replica.allreduce_latency_us)
        others = replica.step_us([(0, 8192)], 1) - moved
        replica.allreduce_bytes_per_second *= moved / (PAPER_RECOMPUTE_30B_MS * 1000 - others)
    replica.allreduce_bytes_per_second = round(replica.allreduce_bytes_per_second, -8)
    replica.overhead_us = round(replica.overhead_us, -2)


def document(name, replica, rows, link, calibration=(), assumptions=(), kv_blocks=None):
    model, gpus = replica.model, replica.gpus
    start_ms = LOAD_FIXED_MS + model.parameters * BYTES_PER_VALUE / gpus / LOAD_BYTES_PER_SECOND * 1000
    block_bytes = model.kv_bytes_per_token * TOKENS_PER_BLOCK
    return {
        "format": "godwit-profile/1",
        "name": name,
        "device": f"{gpus} x {replica.gpu.title}",
        "source": VIDUR.format(rows=rows),
        "model": {
            "name": model.title,
            "layers": model.layers,
            "vocabulary": model.vocabulary,
            "positions_max": model.positions_max,
            "weight_bytes": model.parameters * BYTES_PER_VALUE,
            "kv_bytes_per_token": model.kv_bytes_per_token,
        },
        "kv_blocks": kv_blocks or replica.kv_blocks(),
        "start_ms": round(start_ms),
        "step": {
            "overhead_us": replica.overhead_us,
            "per_decode_us": replica.per_decode_us,
            "per_copy_us": round(2 * block_bytes / replica.kv_rate * 1e6, 2),
            "linear": replica.table(),
            "logits": replica.logits(),
        },
        "attention": {
            "kv_bytes_per_second": round(replica.kv_rate, -7),
            "flops_per_pair": replica.flops_per_pair,
            "flops_per_second": round(replica.attention_flop_rate, -10),
        },
        "link": {**link, "host_bytes_per_second": HOST_SHARE * replica.gpu.host_bytes_per_second * gpus},
        "calibration": list(calibration),
        "assumptions": list(assumptions)
        + [
            f"attention computes at {ATTENTION_SHARE} of the FLOP/s of the linear layers at 4096 tokens, and reads KV at "
            "the bytes/s at which they read weights for one token",
            f"KV goes to the host's memory, and back, at {HOST_SHARE} of the {replica.gpu.host_bytes_per_second / 1e9:g} GB/s "
            "of each GPU's PCIe",
            f"weights load at {LOAD_BYTES_PER_SECOND / 1e9:g} GB/s for each GPU, and starting takes "
            f"{LOAD_FIXED_MS / 1000:g} s besides",
        ],
    }


def link(gigabits, latency_us, overhead_us=0):
    return {"bytes_per_second": gigabits * 1e9 / 8, "latency_us": latency_us, "overhead_us": overhead_us}


def calibrated(field, value, without, reason):
    return {"field": field, "value": value, "without": without, "reason": reason}


def paper_profiles(vidur):
    a40 = measured(vidur, "a40", LLAMA_2_7B, "Llama-2-7b-hf", A40, 1)
    low, high = PAPER_DOWNTIME_MS
    paper_link = link(64, 50, 20_000)
    downtime = calibrated(
        "link.overhead_us", 20_000, 0,
        f"Llumnix, 6.2: downtime of a migration {low}-{high} ms whatever the length; a block or two take 1-6 ms of 64 Gb/s. "
        "The rest is its handshake over Ray, Gloo's rendezvous and the copies to and from the host")
    rows = "A40, Llama-2-7B, 1 GPU, brought to A10 by bandwidth (600 / 696 GB/s) and FLOP/s (125 / 149.7)"
    step = "assumed 2 ms and 20 us where nothing is known of the engine"
    seven = on_a10(a40, LLAMA_7B, 1)
    seven.overhead_us, seven.per_decode_us, per_token_us, batch = calibrate_7b(seven)
    of_figure_3 = (
        "Llumnix, figure 3: at 0.42 requests/s of power-law lengths of mean 256 the mean memory load is 62 %, which by "
        f"Little's law is {per_token_us / 1000:.1f} ms a token at a mean batch of {batch:.1f}")
    of_figure_4 = (
        "Llumnix, section 3: decode steps of equal sequence length differ by up to 2.6x; taken as 128 sequences of 64 "
        "tokens against one")
    seven_calibration = [
        calibrated("kv_blocks", PAPER_KV_TOKENS_7B // TOKENS_PER_BLOCK, seven.kv_blocks(),
                   "Llumnix, 6.1: 13,616 tokens on an A10"),
        calibrated("step.overhead_us", seven.overhead_us, 2000, f"{of_figure_3}; {step}"),
        calibrated("step.per_decode_us", seven.per_decode_us, 20, of_figure_4),
        downtime,
    ]
    thirty = on_a10(a40, LLAMA_30B, 4, allreduce_bytes_per_second=15.8e9, allreduce_latency_us=30)
    thirty.per_decode_us = seven.per_decode_us
    nominal = thirty.allreduce_bytes_per_second
    calibrate_30b(thirty)
    recompute = "Llumnix, 6.2: recomputing 8k tokens takes 3.5 s"
    thirty_calibration = [
        calibrated("step.linear (bytes/s of all-reduce)", thirty.allreduce_bytes_per_second, nominal,
                   f"{recompute}; without: half of PCIe 4.0 x16"),
        calibrated("step.overhead_us", thirty.overhead_us, 2000, f"{recompute}, as 54 decode steps of that batch do"),
        calibrated("step.per_decode_us", thirty.per_decode_us, 20, "as for llama-7b-a10, the same engine"),
        downtime,
    ]
    capacity = "capacity: 90 % of the memory less weights and the activations of a step of 12,800 tokens"
    ring = "two all-reduces a layer over PCIe, ring, 30 us each besides the bytes"
    yield "llama-7b-a10", document("llama-7b-a10", seven, rows, paper_link, seven_calibration, [],
                                   PAPER_KV_TOKENS_7B // TOKENS_PER_BLOCK)
    yield "llama-30b-4xa10", document("llama-30b-4xa10", thirty, rows + ", and to the larger layers by their size",
                                      paper_link, thirty_calibration, [capacity, ring])


def measured_profiles(vidur):
    engine = "the engine adds 2 ms to a step and 20 us for each sequence that decodes"
    capacity = "capacity: 90 % of the memory less weights and the activations of a step of 8,192 tokens"
    network = "instances are joined by 100 Gb/s with 20 us of latency"
    for device, gpu in (("a40", A40), ("a100", A100), ("h100", H100)):
        name = f"llama-2-7b-{device}"
        replica = measured(vidur, device, LLAMA_2_7B, "Llama-2-7b-hf", gpu, 1)
        rows = f"{device.upper()}, Llama-2-7B, 1 GPU"
        yield name, document(name, replica, rows, link(100, 20), [], [engine, capacity, network])
    # A40: half of PCIe 4.0 x16, as for A10. NVLink 3 and 4: 300 and 450 GB/s each way, of which rings reach about 3/4.
    between = {"a40": ("PCIe", 15.8e9, 30), "a100": ("NVLink", 225e9, 10), "h100": ("NVLink", 340e9, 10)}
    long = "positions beyond 4,096 cost what the model of attention says; nothing of that length was measured"
    for device, gpu, model, suffix in (("a40", A40, LLAMA_2_70B, ""), ("a100", A100, LLAMA_2_70B, ""),
                                       ("h100", H100, LLAMA_2_70B, ""), ("h100", H100, LLAMA_2_70B_128K, "-128k")):
        name = f"llama-2-70b{suffix}-{device}"
        bus, rate, latency_us = between[device]
        replica = measured(vidur, device, model, "Llama-2-70b-hf", gpu, 4,
                           allreduce_bytes_per_second=rate, allreduce_latency_us=latency_us)
        rows = f"{device.upper()}, Llama-2-70B, 4 GPUs"
        ring = f"two all-reduces a layer over {bus} at {rate / 1e9:g} GB/s, ring, {latency_us} us each besides the bytes"
        yield name, document(name, replica, rows, link(100, 20), [],
                             [engine, capacity, network, ring] + ([long] if suffix else []))


def plain(value):
    return int(value) if isinstance(value, float) and value == int(value) else value


def written(value, indent=0):
    """JSON with points on a line each, short enough to read and to compare."""
    pad = "  " * (indent + 1)
    if isinstance(value, dict):
        rows = [f"{pad}{json.dumps(key)}: {written(part, indent + 1)}" for key, part in value.items()]
        return "{\n" + ",\n".join(rows) + "\n" + "  " * indent + "}"
    if isinstance(value, list):
        if not value:
            return "[]"
        rows = [pad + written(part, indent + 1) for part in value]
        return "[\n" + ",\n".join(rows) + "\n" + "  " * indent + "]"
    if isinstance(value, tuple):
        return "[" + ", ".join(json.dumps(plain(part)) for part in value) + "]"
    return json.dumps(plain(value))


def main(arguments):
    if len(arguments) != 2:
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 2
    vidur = Vidur(arguments[0])
    for make in (paper_profiles, measured_profiles):
        for name, content in make(vidur):
            Path(arguments[1], f"{name}.json").write_text(written(content) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
