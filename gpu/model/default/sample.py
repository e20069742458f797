#!/usr/bin/python3
"""Continues a prompt with the exported files, by a forward pass in NumPy that shares no code with train.py.

It reads config.json, tokenizer.json and model.safetensors as any engine would, computes in fp32 with a key/value cache,
one position at a time, and so doubles as a small reference for the C++ devices.

    ./sample.py "The hacker"                      greedy, then sampled
    ./sample.py --chat "What is a kludge?"        the same through the ChatML form
    ./sample.py --ids --logits 5 "The hacker"     prompt ids, and the five largest logits after the prompt
"""

import argparse
import json
import os
import struct

import numpy as np

import bpe

HERE = os.path.dirname(os.path.abspath(__file__))


def read_safetensors(path):
    with open(path, "rb") as source:
        size, = struct.unpack("<Q", source.read(8))
        header = json.loads(source.read(size))
        data = source.read()
    header.pop("__metadata__", None)
    out = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        assert entry["dtype"] == "BF16"
        bits = np.frombuffer(data[begin:end], np.uint16).astype(np.uint32) << 16
        out[name] = bits.view(np.float32).reshape(entry["shape"])
    return out


class Model:
    def __init__(self, folder):
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as source:
            self.config = json.load(source)
        self.weights = read_safetensors(os.path.join(folder, "model.safetensors"))
        self.cache = [([], []) for _ in range(self.config["num_hidden_layers"])]
        self.position = 0

    def norm(self, x, name):
        return x / np.sqrt(np.mean(x * x) + self.config["rms_norm_eps"]) * self.weights[name]

    def rotate(self, heads):
        half = heads.shape[1] // 2
        angle = self.position * self.config["rope_theta"] ** (-np.arange(half) / half)
        cos, sin = np.cos(angle), np.sin(angle)
        a, b = heads[:, :half], heads[:, half:]
        return np.concatenate((a * cos - b * sin, b * cos + a * sin), 1).astype(np.float32)

    def step(self, token):
        """Appends one token; returns the logits of the next."""
        c, w = self.config, self.weights
        size, group = c["head_dim"], c["num_attention_heads"] // c["num_key_value_heads"]
        x = w["model.embed_tokens.weight"][token]
        for i, (keys, values) in enumerate(self.cache):
            at = f"model.layers.{i}."
            h = self.norm(x, at + "input_layernorm.weight")
            q = self.rotate((w[at + "self_attn.q_proj.weight"] @ h).reshape(-1, size))
            keys.append(self.rotate((w[at + "self_attn.k_proj.weight"] @ h).reshape(-1, size)))
            values.append((w[at + "self_attn.v_proj.weight"] @ h).reshape(-1, size))
            k, v = np.stack(keys, 1), np.stack(values, 1)  # [kv heads, positions, size]
            mixed = []
            for head in range(len(q)):
                score = k[head // group] @ q[head] / np.sqrt(size)
                p = np.exp(score - score.max())
                mixed.append((p / p.sum()) @ v[head // group])
            x = x + w[at + "self_attn.o_proj.weight"] @ np.concatenate(mixed).astype(np.float32)
            h = self.norm(x, at + "post_attention_layernorm.weight")
            gate = w[at + "mlp.gate_proj.weight"] @ h
            x = x + w[at + "mlp.down_proj.weight"] @ (gate / (1 + np.exp(-gate)) * (w[at + "mlp.up_proj.weight"] @ h))
        self.position += 1
        return w["model.embed_tokens.weight"] @ self.norm(x, "model.norm.weight")


def choose(logits, temperature, top_p, rng):
    if temperature == 0:
        return int(np.argmax(logits))
    p = np.exp((logits - logits.max()) / temperature)
    p /= p.sum()
    order = np.argsort(-p)
    keep = order[:int(np.searchsorted(np.cumsum(p[order]), top_p)) + 1]
    return int(rng.choice(keep, p=p[keep] / p[keep].sum()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompt")
    parser.add_argument("--model", default=HERE)
    parser.add_argument("--chat", action="store_true")
    parser.add_argument("--tokens", type=int, default=80)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--top-p", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--greedy-only", action="store_true")
    parser.add_argument("--ids", action="store_true", help="print token ids too")
    parser.add_argument("--logits", type=int, default=0, help="print so many of the largest logits after the prompt")
    options = parser.parse_args()
    tokenizer = bpe.Tokenizer.load(os.path.join(options.model, "tokenizer.json"))
    prompt = options.prompt
    if options.chat:
        prompt = f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
    ids = tokenizer.encode(prompt)
    if options.ids:
        print("prompt ids", ids)
    for temperature in (0,) if options.greedy_only else (0, options.temperature):
        model, rng, out = Model(options.model), np.random.default_rng(options.seed), []
        stops = model.config["eos_token_id"]
        for token in ids:
            logits = model.step(token)
        if temperature == 0 and options.logits:
            top = np.argsort(-logits)[:options.logits]
            print("logits", [(int(i), round(float(logits[i]), 4)) for i in top])
        while len(out) < options.tokens:
            token = choose(logits, temperature, options.top_p, rng)
            if token in stops:
                break
            out.append(token)
            logits = model.step(token)
        print(f"--- {'greedy' if temperature == 0 else f'temperature {temperature}'}")
        print(("" if options.chat else options.prompt) + tokenizer.decode(out))
        if options.ids:
            print("ids", out)


if __name__ == "__main__":
    main()
