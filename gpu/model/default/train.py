#!/usr/bin/python3
"""Trains godwit's embedded default model: a Llama of 3.9 M parameters that talks like the Jargon File.

Provenance: text, tokenizer and weights come from one source, the Jargon File 4.4.7, which is in the public domain
(Debian package `jargon-text`). Nothing else was downloaded or distilled; the question phrasings in corpus.py were
written for this project. The weights carry the licence of the project.

Needs Debian 12's python3-torch (1.13) and python3-numpy, and a CPU with AVX-512 BF16 or AMX: Debian's torch is built
on the reference BLAS, so its fp32 matrix products run at a few GFLOP/s, while bf16 products go to oneDNN and run some
hundred times faster. Hence every product here is bf16, weights and optimizer state are fp32, and the element-wise
parts are written as few, large operations with backward passes of their own.

    ./train.py --work RUN                             train (or go on), export into this folder after each checkpoint
    ./train.py --work RUN --decay-at S --steps N  the learning rate falls linearly from step S to zero at N
    ./train.py --work RUN --evaluate             losses of the newest checkpoint
    ./train.py --sample "The hacker"                  greedy and sampled text from the exported files (see sample.py)
"""

import argparse
import json
import math
import os
import random
import struct
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

import bpe
import corpus

HERE = os.path.dirname(os.path.abspath(__file__))
VOCAB, DIM, LAYERS, HEADS, KV_HEADS, HEAD_DIM, HIDDEN = 1536, 256, 6, 4, 2, 64, 512
POSITIONS_MAX, THETA, EPSILON = 2048, 10000.0, 1e-5
HELD_OUT = 0.03
IGNORE = -100


class RmsNorm(torch.autograd.Function):
    """fp32 in, bf16 out."""

    @staticmethod
    def forward(ctx, x, weight):
        scale = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_().div_(x.shape[-1]).add_(EPSILON).rsqrt_()
        ctx.save_for_backward(x, weight, scale)
        return (x * scale).mul_(weight).bfloat16()

    @staticmethod
    def backward(ctx, grad):
        x, weight, scale = ctx.saved_tensors
        grad = grad.float()
        unit = x * scale
        weight_grad = (grad * unit).sum(0)
        grad.mul_(weight)
        along = (grad * unit).mean(-1, keepdim=True)
        return unit.mul_(along).neg_().add_(grad).mul_(scale), weight_grad


class SwiGlu(torch.autograd.Function):
    """silu(gate) * up, of [N, 2 * HIDDEN] in bf16."""

    @staticmethod
    def forward(ctx, both):
        ctx.save_for_backward(both)
        gate, up = both[:, :HIDDEN].float(), both[:, HIDDEN:].float()
        return F.silu(gate).mul_(up).bfloat16()

    @staticmethod
    def backward(ctx, grad):
        both, = ctx.saved_tensors
        gate, up = both[:, :HIDDEN].float(), both[:, HIDDEN:].float()
        grad = grad.float()
        out = torch.empty_like(both)
        out[:, HIDDEN:] = F.silu(gate).mul_(grad)
        out[:, :HIDDEN] = torch.ops.aten.silu_backward(grad.mul_(up), gate)
        return out


def rotate(x, cos, sin):
    """RoPE in Hugging Face's half-split layout; x is [B, T, heads, HEAD_DIM]."""
    half = HEAD_DIM // 2
    first, second = x[..., :half].float(), x[..., half:].float()
    out = torch.empty_like(x)
    out[..., :half] = first * cos - second * sin
    out[..., half:] = second * cos + first * sin
    return out


class Rope(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cos, sin):
        ctx.save_for_backward(cos, sin)
        return rotate(x, cos, sin)

    @staticmethod
    def backward(ctx, grad):
        cos, sin = ctx.saved_tensors
        return rotate(grad, cos, -sin), None, None


class Attention(torch.autograd.Function):
    """Causal attention in query blocks, so that keys of the future cost little.

    q is [B, KV, G, T, D], k and v are [B, KV, T, D]; the G query heads of a key head are stacked as rows. The scale
    D ** -0.5 is applied to the queries, where it is cheap: for D = 64 it is a power of two, so no bit is lost."""
    BLOCK = 256

    @staticmethod
    def forward(ctx, q, k, v):
        b, kv, g, t, d = q.shape
        q, keys, values = q * d ** -0.5, k.reshape(b * kv, t, d), v.reshape(b * kv, t, d)
        out, saved = torch.empty_like(q), []
        for start in range(0, t, Attention.BLOCK):
            end = min(start + Attention.BLOCK, t)
            rows = q[:, :, :, start:end].reshape(b * kv, g * (end - start), d)
            score = torch.bmm(rows, keys[:, :end].transpose(1, 2)).view(b * kv, g, end - start, end)
            future = torch.ones(end - start, end - start, dtype=torch.bool).triu(1)
            score[..., start:].masked_fill_(future, -math.inf)
            p = score.softmax(-1).view(b * kv, g * (end - start), end)
            out[:, :, :, start:end] = torch.bmm(p, values[:, :end]).view(b, kv, g, end - start, d)
            saved.append(p)
        ctx.save_for_backward(q, keys, values, *saved)
        return out

    @staticmethod
    def backward(ctx, grad):
        q, keys, values, *saved = ctx.saved_tensors
        b, kv, g, t, d = q.shape
        q_grad = torch.empty_like(q)
        k_grad, v_grad = torch.zeros(keys.shape), torch.zeros(keys.shape)
        for index, p in enumerate(saved):
            start = index * Attention.BLOCK
            end = p.shape[2]
            rows = q[:, :, :, start:end].reshape(b * kv, g * (end - start), d)
            row_grad = grad[:, :, :, start:end].reshape(b * kv, g * (end - start), d)
            v_grad[:, :end] += torch.bmm(p.transpose(1, 2), row_grad)
            p_grad = torch.bmm(row_grad, values[:, :end].transpose(1, 2))
            s_grad = torch._softmax_backward_data(p_grad, p, -1, torch.bfloat16)
            q_grad[:, :, :, start:end] = torch.bmm(s_grad, keys[:, :end]).view(b, kv, g, end - start, d)
            k_grad[:, :end] += torch.bmm(s_grad.transpose(1, 2), rows)
        shape = (b, kv, t, d)
        return q_grad.mul_(d ** -0.5), k_grad.bfloat16().view(shape), v_grad.bfloat16().view(shape)


class Llama(torch.nn.Module):
    """Query/key/value and gate/up are kept as one matrix each; the export splits them."""

    def __init__(self):
        super().__init__()
        def matrix(rows, columns, scale=1.0):
            return torch.nn.Parameter(torch.randn(rows, columns) * 0.02 * scale)
        def norm():
            return torch.nn.Parameter(torch.ones(DIM))
        self.embed = matrix(VOCAB, DIM)
        self.final_norm = norm()
        self.layers = torch.nn.ModuleList()
        for _ in range(LAYERS):
            layer = torch.nn.Module()
            layer.attention_norm, layer.mlp_norm = norm(), norm()
            layer.qkv = matrix((HEADS + 2 * KV_HEADS) * HEAD_DIM, DIM)
            layer.o = matrix(DIM, HEADS * HEAD_DIM, (2 * LAYERS) ** -0.5)
            layer.gate_up = matrix(2 * HIDDEN, DIM)
            layer.down = matrix(DIM, HIDDEN, (2 * LAYERS) ** -0.5)
            self.layers.append(layer)
        angle = torch.outer(torch.arange(POSITIONS_MAX).float(),
                            THETA ** (-torch.arange(0, HEAD_DIM, 2).float() / HEAD_DIM))
        self.cos, self.sin = angle.cos()[None, :, None], angle.sin()[None, :, None]

    def forward(self, ids):
        b, t = ids.shape
        cos, sin = self.cos[:, :t], self.sin[:, :t]
        x = F.embedding(ids.view(-1), self.embed)
        for layer in self.layers:
            h = RmsNorm.apply(x, layer.attention_norm)
            qkv = (h @ layer.qkv.bfloat16().t()).view(b, t, HEADS + 2 * KV_HEADS, HEAD_DIM)
            qk, v = qkv.split((HEADS + KV_HEADS, KV_HEADS), 2)
            q, k = Rope.apply(qk, cos, sin).split((HEADS, KV_HEADS), 2)
            q = q.view(b, t, KV_HEADS, HEADS // KV_HEADS, HEAD_DIM).permute(0, 2, 3, 1, 4).contiguous()
            a = Attention.apply(q, k.transpose(1, 2), v.transpose(1, 2))
            a = a.permute(0, 3, 1, 2, 4).reshape(b * t, HEADS * HEAD_DIM)
            x = x + a @ layer.o.bfloat16().t()
            h = RmsNorm.apply(x, layer.mlp_norm)
            x = x + SwiGlu.apply(h @ layer.gate_up.bfloat16().t()) @ layer.down.bfloat16().t()
        return RmsNorm.apply(x, self.final_norm) @ self.embed.bfloat16().t()


def encode(document, tokenizer):
    ids, learn = [], []
    for text, wanted in document:
        part = tokenizer.encode(text)
        ids += part
        learn += [wanted] * len(part)
    return ids, learn


def pack(documents, tokenizer, length, seed):
    """Rows of `length` + 1 tokens that start with a document and hold whole documents where those fit.

    Returns ids and targets, both [rows, length]."""
    chunks = []
    for document in documents:
        ids, learn = encode(document, tokenizer)
        chunks += [(ids[i:i + length + 1], learn[i:i + length + 1]) for i in range(0, max(len(ids) - 1, 1), length)]
    open_rows, full = [], []
    for ids, learn in chunks:
        fits = [row for row in open_rows if len(row[0]) + len(ids) <= length + 1]
        row = max(fits, key=lambda r: len(r[0])) if fits else ([], [])
        if not fits:
            open_rows.append(row)
            if len(open_rows) > 48:
                fullest = max(open_rows, key=lambda r: len(r[0]))
                open_rows.remove(fullest)
                full.append(fullest)
                if fullest is row:
                    row[0].extend(ids)
                    row[1].extend(learn)
                    continue
        row[0].extend(ids)
        row[1].extend(learn)
    full += open_rows
    random.Random(seed).shuffle(full)
    ids = torch.zeros(len(full), length + 1, dtype=torch.long)
    learn = torch.zeros(len(full), length + 1, dtype=torch.bool)
    for i, (row, wanted) in enumerate(full):
        ids[i, :len(row)] = torch.tensor(row)
        learn[i, :len(row)] = torch.tensor(wanted)
    return ids[:, :-1].contiguous(), ids[:, 1:].masked_fill(~learn[:, 1:], IGNORE)


def loss_of(model, ids, targets, reduction="mean"):
    return F.cross_entropy(model(ids).float(), targets.reshape(-1), ignore_index=IGNORE, reduction=reduction)


@torch.no_grad()
def mean_loss(model, documents, tokenizer, length=512, rows_max=48):
    """Nats per learned token."""
    ids, targets = pack(documents, tokenizer, length, 0)
    total, count = 0.0, 0
    for i in range(0, min(len(ids), rows_max), 8):
        total += loss_of(model, ids[i:i + 8], targets[i:i + 8], "sum").item()
        count += (targets[i:i + 8] != IGNORE).sum().item()
    return total / max(count, 1)


def losses(model, parts, tokenizer, rows_max=48):
    train, rest = parts
    return {f"{name} {kind}": round(mean_loss(model, corpus.documents(*which, seed=7, plain=kind == "plain",
                                                                      chat=int(kind == "chat")), tokenizer, 512, rows_max), 3)
            for name, which in (("train", train), ("held-out", rest)) for kind in ("plain", "chat")}


@torch.no_grad()
def loss_by_position(model, parts, tokenizer):
    """Mean training-text loss by position in rows of the full length: shows whether far positions work."""
    ids, targets = pack(corpus.documents(*parts[0], seed=7), tokenizer, POSITIONS_MAX, 0)
    each = torch.stack([loss_of(model, ids[i:i + 1], targets[i:i + 1], "none") for i in range(24)])
    known = (targets[:24] != IGNORE).float()
    edges = [0, 256, 512, 1024, 1536, 2048]
    return {f"{a}-{b}": round((each[:, a:b].sum() / known[:, a:b].sum()).item(), 3) for a, b in zip(edges, edges[1:])}


def names_of(model):
    """The Hugging Face name of every tensor, with the tensor."""
    yield "model.embed_tokens.weight", model.embed
    for i, layer in enumerate(model.layers):
        at = f"model.layers.{i}."
        yield at + "input_layernorm.weight", layer.attention_norm
        sizes = (HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM)
        for name, part in zip("qkv", layer.qkv.split(sizes)):
            yield at + f"self_attn.{name}_proj.weight", part
        yield at + "self_attn.o_proj.weight", layer.o
        yield at + "post_attention_layernorm.weight", layer.mlp_norm
        for name, part in zip(("gate", "up"), layer.gate_up.split(HIDDEN)):
            yield at + f"mlp.{name}_proj.weight", part
        yield at + "mlp.down_proj.weight", layer.down
    yield "model.norm.weight", model.final_norm


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as out:
        json.dump(value, out, indent=2)
        out.write("\n")


CHAT_TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + "
                 "'<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
                 "{% endif %}")


def export(model, folder):
    """Writes config and weights; the weights are rounded to bf16, which is what the products were trained with."""
    header, blobs, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name, tensor in names_of(model):
        blob = tensor.detach().bfloat16().contiguous().view(torch.int16).numpy().tobytes()
        header[name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [offset, offset + len(blob)]}
        offset += len(blob)
        blobs.append(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    partial = os.path.join(folder, "model.safetensors.partial")
    with open(partial, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))
    os.replace(partial, os.path.join(folder, "model.safetensors"))
    write_json(os.path.join(folder, "config.json"), {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCAB, "hidden_size": DIM,
        "intermediate_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "hidden_act": "silu",
        "max_position_embeddings": POSITIONS_MAX, "rms_norm_eps": EPSILON, "rope_theta": THETA, "rope_scaling": None,
        "attention_bias": False, "attention_dropout": 0.0, "mlp_bias": False, "initializer_range": 0.02,
        "tie_word_embeddings": True, "torch_dtype": "bfloat16", "use_cache": True, "pretraining_tp": 1,
        "bos_token_id": 0, "eos_token_id": [2, 0], "pad_token_id": 0})
    write_json(os.path.join(folder, "generation_config.json"), {
        "bos_token_id": 0, "eos_token_id": [2, 0], "pad_token_id": 0, "do_sample": True, "temperature": 0.7,
        "top_p": 0.9})


def write_tokenizer(tokenizer, folder):
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    special = {str(i): {"content": s, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
                        "special": True} for i, s in enumerate(bpe.SPECIAL)}
    write_json(os.path.join(folder, "tokenizer_config.json"), {
        "tokenizer_class": "PreTrainedTokenizerFast", "add_prefix_space": False, "added_tokens_decoder": special,
        "additional_special_tokens": ["<|im_start|>", "<|im_end|>"], "bos_token": "<|endoftext|>",
        "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "unk_token": None, "add_bos_token": False,
        "add_eos_token": False, "clean_up_tokenization_spaces": False, "model_max_length": POSITIONS_MAX,
        "chat_template": CHAT_TEMPLATE})


def learning_rate(step, options):
    """Warm-up, constant, then linear to zero: so that the end of a run may be chosen while it runs."""
    rise = min(1.0, (step + 1) / options.warmup)
    fall = 1.0 if step < options.decay_at else max(0.0, (options.steps - step) / (options.steps - options.decay_at))
    return options.rate * rise * fall


def row_length(step, options):
    """Rows of 512, then of 256 (cheaper); during the decay some of 1024 and 2048, for the far positions."""
    if step < options.decay_at:
        return 512 if step < options.short_at else 256
    if step >= options.openings_at:
        return 256
    return (256, 512, 256, 1024, 256, 512, 256, 2048)[step % 8]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", default=corpus.SOURCE)
    parser.add_argument("--work", help="folder for checkpoints and the log")
    parser.add_argument("--out", default=HERE)
    parser.add_argument("--steps", type=int, default=3700)
    parser.add_argument("--decay-at", type=int, default=2250)
    parser.add_argument("--short-at", type=int, default=1513, help="step from which rows are of 256 tokens")
    parser.add_argument("--chat-at", type=int, default=2850, help="step from which an epoch is half plain, twice chat")
    parser.add_argument("--openings-at", type=int, default=3516, help="step from which openings of answers are added")
    parser.add_argument("--tokens", type=int, default=4096, help="tokens per step")
    parser.add_argument("--micro", type=int, default=4096, help="tokens per pass; passes are summed up to --tokens")
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--warmup", type=int, default=150)
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--save-seconds", type=float, default=240)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--evaluate", action="store_true")
    parser.add_argument("--sample", metavar="PROMPT")
    options = parser.parse_args()
    if options.sample is not None:
        sys.exit(subprocess.call([sys.executable, os.path.join(HERE, "sample.py"), "--model", options.out, options.sample]))
    if not options.work:
        parser.error("--work is needed")
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    os.makedirs(options.work, exist_ok=True)

    entries, essays = corpus.read(options.text)
    parts = corpus.split(entries, essays, HELD_OUT)
    tokenizer_path = os.path.join(options.out, "tokenizer.json")
    if os.path.exists(tokenizer_path):
        tokenizer = bpe.Tokenizer.load(tokenizer_path)
    else:
        learned_from, _ = parts
        tokenizer = bpe.learn([e.text() for e in learned_from[0]] + ["\n\n".join(e) for e in learned_from[1]], VOCAB)
        write_tokenizer(tokenizer, options.out)

    model = Llama()
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": options.weight_decay},
                                   {"params": vectors, "weight_decay": 0.0}], lr=options.rate, betas=(0.9, 0.95),
                                  eps=1e-9, foreach=True)
    checkpoint = os.path.join(options.work, "checkpoint.pt")
    state = {"step": 0, "tokens": 0, "seconds": 0.0}
    if os.path.exists(checkpoint):
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        state = saved["state"]

    def say(**what):
        line = json.dumps(what)
        print(line, flush=True)
        with open(os.path.join(options.work, "log.jsonl"), "a") as log:
            log.write(line + "\n")

    if options.evaluate:
        say(**state, **losses(model, parts, tokenizer, 10**6), by_position=loss_by_position(model, parts, tokenizer))
        return

    def save():
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "state": state}, checkpoint + ".partial")
        os.replace(checkpoint + ".partial", checkpoint)
        export(model, options.out)
        say(**state, **losses(model, parts, tokenizer, 16))

    if state["step"] == 0:
        say(parameters=sum(p.numel() for p in model.parameters()), entries=len(entries), essays=len(essays),
            train_entries=len(parts[0][0]), train_essays=len(parts[0][1]),
            tokens_per_epoch=sum(len(tokenizer.encode(t)) for d in corpus.documents(*parts[0], seed=0) for t, _ in d))

    # Rows of each length come from epochs of their own phrasing and order, seeded by how often they were refilled.
    stores = {}

    def batch(length):
        rows = max(1, options.micro // length)
        if length not in stores or len(stores[length][0]) < rows:
            seed = options.seed * 1000003 + state["step"] * 7 + length
            mix = (1.0, 1, 0) if state["step"] < options.chat_at else (0.5, 2, 0)
            if state["step"] >= options.openings_at:
                mix = 0.2, 1, 4
            stores[length] = pack(corpus.documents(*parts[0], seed, *mix), tokenizer, length, seed)
        ids, targets = stores[length]
        stores[length] = ids[rows:], targets[rows:]
        return ids[:rows], targets[:rows]

    last_save = last_say = time.time()
    said_tokens, mean = state["tokens"], None
    while state["step"] < options.steps:
        began = time.time()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(state["step"], options)
        length = row_length(state["step"], options)
        passes = max(1, options.tokens // options.micro)
        total = 0.0
        for _ in range(passes):
            ids, targets = batch(length)
            loss = loss_of(model, ids, targets) / passes
            loss.backward()
            total += loss.item()
            state["tokens"] += ids.numel()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        mean = total if mean is None else 0.95 * mean + 0.05 * total
        state["step"] += 1
        state["seconds"] += time.time() - began
        now = time.time()
        if now - last_say > 20:
            say(step=state["step"], loss=round(mean, 3), rate=optimizer.param_groups[0]["lr"],
                tokens_per_second=round((state["tokens"] - said_tokens) / (now - last_say)), seconds=round(state["seconds"]))
            last_say, said_tokens = now, state["tokens"]
        if now - last_save > options.save_seconds:
            save()
            last_save = time.time()
    save()


if __name__ == "__main__":
    main()
