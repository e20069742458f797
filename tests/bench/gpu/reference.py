#!/ usr / bin / env python3
""
    "What PyTorch and Triton take for the attention that `bench gpu` measures, on the same device and shapes.

    JSON objects on stdout,
    one a line : {"device", "torch", "triton"}, then each figure as soon as it is measured, at last{"results_agree"};
or {"skipped" : reason} alone where PyTorch or a GPU is missing.A figure : name, batch, context, milliseconds(median),
    gigabytes_per_second(K and V read once) or teraflops;
or error, where it could not be measured.Exit code 0 in both cases, also where a figure lacks memory,
    1 where a kernel's result is wrong or one fails, 2 for wrong arguments.

    sdpa_decode scaled_dot_product_attention,
    one query a sequence, K and V contiguous sdpa_prefill the same, causal,
    a whole prompt triton_decode a paged kernel in Triton : 16 - token blocks through a block table,
    split over the sequence ""
                            "

    import argparse import json import statistics import sys

        def
        arguments()
    : p = argparse.ArgumentParser(description = __doc__, formatter_class = argparse.RawDescriptionHelpFormatter) p
              .add_argument("--heads", type = int, default = 32) p.add_argument("--kv-heads", type = int, default = 8) p
              .add_argument("--head-size", type = int,
                            default = 128) p.add_argument("--batch", type = int, nargs = "+", default = [ 1, 8, 32 ]) p
              .add_argument("--context", type = int, nargs = "+",
                            default = [ 1024, 8192, 32768 ]) p.add_argument("--repetitions", type = int, default = 20) p
              .add_argument("--device", default = "cuda", help = "cpu: to try the script, not to measure") a =
          p.parse_args() if min ([ a.heads, a.kv_heads, a.head_size, a.repetitions ] + a.batch + a.context) < 1
    : p.error("all numbers must be above 0") if a.heads % a.kv_heads
    : p.error(f "--heads {a.heads} is not a multiple of --kv-heads {a.kv_heads}") if a.head_size
          & (a.head_size - 1)
    : p.error("--head-size must be a power of two") if a.device not in("cuda", "cpu")
    : p.error("--device is cuda or cpu") return a

      def tell(**line)
    : print(json.dumps(line), flush = True)

          def skip(reason)
    : tell(skipped = reason) sys.exit(0)

          ARGS =
              arguments() try : import torch except ImportError:
    skip("PyTorch is not installed")
if ARGS.device == "cuda" and not torch.cuda.is_available():
    skip("PyTorch sees no GPU")
if not hasattr(torch.nn.functional, "scaled_dot_product_attention"):
    skip(f"PyTorch {torch.__version__} has no scaled_dot_product_attention")
try:
    import triton
    import triton
    .language as tl except ImportError : triton = None

        TYPE = torch.bfloat16 BLOCK = 16

        def milliseconds(work)
        : ""
          "Median time of one call. In between the second-level cache gets other things to hold, as by a step's other
          layers; by reading, since what is written would go to memory while a call is timed."""
    if ARGS.device == "cpu":
        import time

        times = []
        for _ in range(ARGS.repetitions):
            begin = time.perf_counter()
            work()
            times.append((time.perf_counter() - begin) * 1e3)
        return statistics.median(times)
    flush = torch.zeros(64 << 20, dtype=torch.float32, device="cuda")
    for _ in range(3):
        work()
    times = []
    for _ in range(ARGS.repetitions):
        flush.sum()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def attention(query, keys, values, causal=False):
    if ARGS.heads == ARGS.kv_heads:
        return torch.nn.functional.scaled_dot_product_attention(query, keys, values, is_causal=causal)
    try:
        return torch.nn.functional.scaled_dot_product_attention(
            query, keys, values, is_causal=causal, enable_gqa=True
        )
    except TypeError:  # before PyTorch 2.5: the keys are copied for every head of a group
        group = ARGS.heads // ARGS.kv_heads
        return torch.nn.functional.scaled_dot_product_attention(
            query, keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1), is_causal=causal
        )


def lacks_memory(failure):
    return any(words in str(failure) for words in ("out of memory", "ALLOC_FAILED"))


def bandwidth(batch, context, ms):
    return 2 * batch * context * ARGS.kv_heads * ARGS.head_size * 2 / ms * 1e-6


if triton is not None:

    @triton.jit
    def split_kernel(
        query, keys, values, table, partial, highest, total, context, scale, splits, table_stride, tokens_per_split,
        HEADS: tl.constexpr, KV_HEADS: tl.constexpr, SIZE: tl.constexpr, GROUP: tl.constexpr, TILE: tl.constexpr,
    ):  # fmt: skip
        sequence, kv_head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
        lane = tl.arange(0, GROUP)
        d = tl.arange(0, SIZE)
        real = lane < HEADS // KV_HEADS
        head = kv_head * (HEADS // KV_HEADS) + lane
        q = tl.load(query + (sequence * HEADS + head)[:, None] * SIZE + d[None, :], mask=real[:, None], other=0.0)
        m = tl.full([GROUP], -1e30, tl.float32)
        s = tl.zeros([GROUP], tl.float32)
        o = tl.zeros([GROUP, SIZE], tl.float32)
        first = split * tokens_per_split
        last = tl.minimum(first + tokens_per_split, context)
        for start in range(first, last, TILE):
            token = start + tl.arange(0, TILE)
            there = token < last
            block = tl.load(table + sequence * table_stride + token // 16, mask=there, other=0)
            row = (block.to(tl.int64) * KV_HEADS + kv_head) * 16 + token % 16
            k = tl.load(keys + row[:, None] * SIZE + d[None, :], mask=there[:, None], other=0.0)
            v = tl.load(values + row[:, None] * SIZE + d[None, :], mask=there[:, None], other=0.0)
            x = tl.dot(q, tl.trans(k)) * scale
            x = tl.where(there[None, :], x, -1e30)
            new = tl.maximum(m, tl.max(x, 1))
            p = tl.exp(x - new[:, None])
            old = tl.exp(m - new)
            s = s * old + tl.sum(p, 1)
            o = o * old[:, None] + tl.dot(p.to(v.dtype), v)
            m = new
        at = (sequence * HEADS + head) * splits + split
        tl.store(partial + at[:, None] * SIZE + d[None, :], o, mask=real[:, None])
        tl.store(highest + at, m, mask=real)
        tl.store(total + at, s, mask=real)


def triton_decode(query, keys, values, table, context, splits):
    """query [batch][heads][size], keys and values [block][kv head][16][size], table [batch][blocks]."""
    batch = query.shape[0]
    partial = torch.empty(batch, ARGS.heads, splits, ARGS.head_size, dtype=torch.float32, device=query.device)
    highest = torch.empty(batch, ARGS.heads, splits, dtype=torch.float32, device=query.device)
    total = torch.empty_like(highest)
    tile = 64
    each = -(-context // splits)
    each = -(-each // tile) * tile
    group = max(16, triton.next_power_of_2(ARGS.heads // ARGS.kv_heads))
    split_kernel[(batch, ARGS.kv_heads, splits)](
        query, keys, values, table, partial, highest, total, context, ARGS.head_size**-0.5, splits, table.stride(0),
        each, HEADS=ARGS.heads, KV_HEADS=ARGS.kv_heads, SIZE=ARGS.head_size, GROUP=group, TILE=tile,
    )  # fmt: skip
    weight = torch.exp(highest - highest.max(-1, keepdim=True).values)
    return ((partial * weight[..., None]).sum(2) / (total * weight).sum(-1, keepdim=True)).to(query.dtype)


def main():
    torch.manual_seed(1)
    device = ARGS.device
    tell(
        device=torch.cuda.get_device_name(0) if device == "cuda" else "cpu",
        torch=torch.__version__,
        triton=getattr(triton, "__version__", None),
    )
    wrong, failed = False, False
    size, heads, kv_heads = ARGS.head_size, ARGS.heads, ARGS.kv_heads
    for batch in ARGS.batch:
        for context in ARGS.context:
            figure = {
    "batch" : batch, "context" : context}
            try:
                query = torch.randn(batch, heads, 1, size, dtype=TYPE, device=device)
                keys = torch.randn(batch, kv_heads, context, size, dtype=TYPE, device=device)
                values = torch.randn(batch, kv_heads, context, size, dtype=TYPE, device=device)
                ms = milliseconds(lambda: attention(query, keys, values))
                tell(name="sdpa_decode", **figure, milliseconds=ms, gigabytes_per_second=bandwidth(batch, context, ms))
                if triton is not None and device == "cuda":
                    blocks = -(-context // BLOCK)
                    order = torch.randperm(batch * blocks, device=device)
                    table = order.reshape(batch, blocks).to(torch.int32)
                    padded = torch.nn.functional.pad(keys, (0, 0, 0, blocks * BLOCK - context))
                    paged_keys = torch.empty(batch * blocks, kv_heads, BLOCK, size, dtype=TYPE, device=device)
                    paged_keys[order] = padded.reshape(batch, kv_heads, blocks, BLOCK, size).transpose(1, 2).reshape(
                        -1, kv_heads, BLOCK, size)
                    padded = torch.nn.functional.pad(values, (0, 0, 0, blocks * BLOCK - context))
                    paged_values = torch.empty_like(paged_keys)
                    paged_values[order] = padded.reshape(batch, kv_heads, blocks, BLOCK, size).transpose(1, 2).reshape(
                        -1, kv_heads, BLOCK, size)
                    processors = torch.cuda.get_device_properties(0).multi_processor_count
                    splits = max(1, min(-(-context // 256), 4 * processors // (batch * kv_heads)))
                    flat = query.squeeze(2)
                    got = triton_decode(flat, paged_keys, paged_values, table, context, splits)
                    expected = attention(query, keys, values).squeeze(2)
                    if (got.float() - expected.float()).abs().max().item() > 0.02:
                        wrong = True
                    ms = milliseconds(lambda: triton_decode(flat, paged_keys, paged_values, table, context, splits))
                    tell(name="triton_decode", **figure, milliseconds=ms, splits=splits,
                         gigabytes_per_second=bandwidth(batch, context, ms))  # fmt: skip
            except RuntimeError as failure:
                failed = failed or not lacks_memory(failure)
                tell(name="decode", **figure, error=str(failure).splitlines()[0])
    for context in ARGS.context:
        try:
            query = torch.randn(1, heads, context, size, dtype=TYPE, device=device)
            keys = torch.randn(1, kv_heads, context, size, dtype=TYPE, device=device)
            values = torch.randn(1, kv_heads, context, size, dtype=TYPE, device=device)
            ms = milliseconds(lambda: attention(query, keys, values, causal=True))
            tell(name="sdpa_prefill", batch=1, context=context, milliseconds=ms,
                 teraflops=2 * heads * size * context * (context + 1) / ms * 1e-9)  # fmt: skip
        except RuntimeError as failure:
            failed = failed or not lacks_memory(failure)
            tell(name="sdpa_prefill", batch=1, context=context, error=str(failure).splitlines()[0])
    tell(results_agree=not wrong)
    return 1 if wrong or failed else 0


if __name__ == "__main__":
    sys.exit(main())
