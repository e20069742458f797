#!/usr/bin/env python3
"""Writes tiny random models of each family and the logits that they must give.

    python3 tests/gpu/model/golden/make_goldens.py

Needs python3-torch and python3-numpy. The forward pass below is a plain one of its own, in double precision, written from the
papers and from what Hugging Face transformers documents; it shares nothing with godwit's kernels. Every directory is a complete
Hugging Face model directory (fp32), with prompt.txt (token ids) and logits.f32 (one row of logits for each of them).
"""
import json
import math
import pathlib

import numpy
import torch

HERE = pathlib.Path(__file__).resolve().parent
PROMPT_TOKENS = 40
VOCABULARY = 264

COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_act": "silu",
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "bos_token_id": 0,
    "eos_token_id": 2,
}

MODELS = {
    "llama": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "rope_theta": 10000.0},
    "llama3": {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "tie_word_embeddings": True,
        # The newer spelling; the original context is so short that the prompt feels all three bands.
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 500.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
    },
    "llama-linear-biased": {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "tie_word_embeddings": True,
        "attention_bias": True,
        "mlp_bias": True,
        "rope_theta": 10000.0,
        "rope_scaling": {"type": "linear", "factor": 4.0},
    },
    "mistral": {
        "architectures": ["MistralForCausalLM"],
        "model_type": "mistral",
        "tie_word_embeddings": True,
        "head_dim": 16,  # not hidden_size / heads
        "rope_theta": 10000.0,
        "sliding_window": 11,
    },
    "qwen2": {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "tie_word_embeddings": True,
        "rope_theta": 1000000.0,
        "use_sliding_window": False,
        "sliding_window": 8,
        "max_window_layers": 2,
    },
    "qwen3-yarn": {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "tie_word_embeddings": True,
        "head_dim": 16,
        "rope_theta": 100.0,
        # So short an original context that the prompt is beyond it, and pairs are kept, blended and stretched.
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 32,
            "beta_fast": 2.0,
            "beta_slow": 0.5,
        },
    },
    "mixtral": {
        "architectures": ["MixtralForCausalLM"],
        "model_type": "mixtral",
        "rope_theta": 1000000.0,
        "sliding_window": None,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "intermediate_size": 24,
    },
    "qwen3-moe": {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "tie_word_embeddings": True,
        "head_dim": 16,
        "rope_theta": 10000.0,
        "num_experts": 8,
        "num_experts_per_tok": 3,
        "norm_topk_prob": False,
        "moe_intermediate_size": 16,  # intermediate_size is of layers without experts, of which there are none
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    },
    # Its files have queries, keys and values in one matrix, gate and up in another.
    "phi3": {
        "architectures": ["Phi3ForCausalLM"],
        "model_type": "phi3",
        "rope_theta": 10000.0,
        "rope_scaling": None,
        "hidden_size": 64,
        "sliding_window": 11,
        "original_max_position_embeddings": 128,
    },
}


# Of Gemma 3, as its files have them: one model of text alone, and one whose files have a part that sees beside it.
GEMMA3 = {
    "model_type": "gemma3_text",
    "num_hidden_layers": 3,
    "tie_word_embeddings": True,
    "head_dim": 16,  # not hidden_size / heads
    "hidden_activation": "gelu_pytorch_tanh",
    "query_pre_attn_scalar": 12,  # nor head_dim
    "attention_bias": False,
    "final_logit_softcapping": None,
    "attn_logit_softcapping": None,
    "sliding_window": 11,
    "rms_norm_eps": 1e-6,
}
MODELS["gemma3"] = {
    **GEMMA3,
    "architectures": ["Gemma3ForCausalLM"],
    "sliding_window_pattern": 3,
    "rope_theta": 1000000.0,
    "rope_local_base_freq": 10000.0,
    "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
}
MODELS["gemma3-with-images"] = {
    **GEMMA3,
    "architectures": ["Gemma3ForConditionalGeneration"],
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
    },
}


# All that gpt-oss has: a window in every other layer, a rope that is stretched without whole pairs, sinks, experts with biases,
# and a limit that some of their numbers are beyond.
MODELS["gpt-oss"] = {
    "architectures": ["GptOssForCausalLM"],
    "model_type": "gpt_oss",
    "num_hidden_layers": 3,
    "head_dim": 16,
    "attention_bias": True,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "sliding_window": 11,
    "intermediate_size": 24,
    "num_local_experts": 5,
    "num_experts_per_tok": 3,
    "swiglu_limit": 2.5,
    "rope_theta": 100.0,
    "rope_scaling": {**MODELS["qwen3-yarn"]["rope_scaling"], "truncate": False},
}


def is_gpt_oss(config):
    return config["model_type"] == "gpt_oss"


def is_gemma(config):
    return config["model_type"] == "gemma3_text"


def head_size(config):
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def experts(config):
    return config.get("num_local_experts") or config.get("num_experts") or 0


def router(config, base):
    if is_gpt_oss(config):
        return base + "mlp.router"
    return base + ("block_sparse_moe.gate" if config["model_type"] == "mixtral" else "mlp.gate")


def mlps(config, base):
    """Names of gate, up and down: of the layer's MLP, or of each expert."""
    if not experts(config):
        return [[base + "mlp." + part for part in ("gate_proj", "up_proj", "down_proj")]]
    if config["model_type"] == "mixtral":
        return [[f"{base}block_sparse_moe.experts.{i}.{part}" for part in ("w1", "w3", "w2")] for i in range(experts(config))]
    parts = ("gate_proj", "up_proj", "down_proj")
    return [[f"{base}mlp.experts.{i}.{part}" for part in parts] for i in range(experts(config))]


def tensor_shapes(config):
    hidden, inner = config["hidden_size"], config.get("moe_intermediate_size", config["intermediate_size"])
    queries = config["num_attention_heads"] * head_size(config)
    keys = config["num_key_value_heads"] * head_size(config)
    attention_bias = config.get("attention_bias", False)
    qkv_bias = attention_bias or config["model_type"] == "qwen2"
    expert_bias = config.get("mlp_bias", False) or is_gpt_oss(config)
    shapes = {"model.embed_tokens.weight": (VOCABULARY, hidden), "model.norm.weight": (hidden,)}
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (VOCABULARY, hidden)

    def linear(name, out, into, bias):
        shapes[name + ".weight"] = (out, into)
        if bias:
            shapes[name + ".bias"] = (out,)

    for layer in range(config["num_hidden_layers"]):
        base = f"model.layers.{layer}."
        shapes[base + "input_layernorm.weight"] = (hidden,)
        shapes[base + "post_attention_layernorm.weight"] = (hidden,)
        if is_gemma(config):
            shapes[base + "pre_feedforward_layernorm.weight"] = (hidden,)
            shapes[base + "post_feedforward_layernorm.weight"] = (hidden,)
        if is_gemma(config) or config["model_type"].startswith("qwen3"):
            shapes[base + "self_attn.q_norm.weight"] = (head_size(config),)
            shapes[base + "self_attn.k_norm.weight"] = (head_size(config),)
        linear(base + "self_attn.q_proj", queries, hidden, qkv_bias)
        linear(base + "self_attn.k_proj", keys, hidden, qkv_bias)
        linear(base + "self_attn.v_proj", keys, hidden, qkv_bias)
        linear(base + "self_attn.o_proj", hidden, queries, attention_bias)
        if experts(config):
            linear(router(config, base), experts(config), hidden, is_gpt_oss(config))
        if is_gpt_oss(config):
            shapes[base + "self_attn.sinks"] = (config["num_attention_heads"],)
        for names in mlps(config, base):
            linear(names[0], inner, hidden, expert_bias)
            linear(names[1], inner, hidden, expert_bias)
            linear(names[2], hidden, inner, expert_bias)
    return shapes


def random_weights(config, random):
    weights = {}
    for name, shape in tensor_shapes(config).items():
        values = random.standard_normal(shape)
        if name.endswith("norm.weight"):
            values = (0.0 if is_gemma(config) else 1.0) + 0.2 * values
        elif name.endswith("_proj.bias") and ".experts." in name:
            values = (0.3 if "down" in name else 2.0) * values
        elif name.endswith(".bias"):
            values = 0.3 * values
        elif name.endswith(".sinks"):
            values = 1.5 * values
        elif "embed_tokens" in name or "lm_head" in name:
            values = 0.5 * values
        else:
            values = 1.5 / math.sqrt(shape[1]) * values
        weights[name] = values.astype(numpy.float32)
    return weights


def write_safetensors(path, weights):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name in sorted(weights):
        size = weights[name].nbytes
        header[name] = {"dtype": "F32", "shape": list(weights[name].shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for name in sorted(weights):
            out.write(weights[name].tobytes())


def tokenizer():
    """Three special tokens and 256 bytes; the rest of the vocabulary has no text."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    spelling = [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
             "special": True} for i, text in enumerate(special)
        ],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": {text: i for i, text in enumerate(special + spelling)}, "merges": []},
    }


def windowed(config, layer):
    """Whether a layer has the window."""
    if not is_gemma(config) and not is_gpt_oss(config):
        return config["model_type"] in ("mistral", "phi3") and bool(config.get("sliding_window"))
    if "layer_types" in config:
        return config["layer_types"][layer] == "sliding_attention"
    return (layer + 1) % config["sliding_window_pattern"] != 0


def rope_of(config, layer):
    """What is said of a layer's rotation, beside rope_theta."""
    if not is_gemma(config):
        return config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = "sliding_attention" if windowed(config, layer) else "full_attention"
    if "rope_parameters" in config:
        return config["rope_parameters"][kind]
    return {"rope_theta": config["rope_local_base_freq"]} if windowed(config, layer) else config["rope_scaling"]


def inverse_frequencies(config, layer):
    """Angles per position of each pair of a head."""
    rope = rope_of(config, layer)
    theta = rope.get("rope_theta", config.get("rope_theta"))
    size = head_size(config)
    frequencies = theta ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "linear":
        return frequencies / rope["factor"]
    if kind == "llama3":
        scaled = []
        for frequency in frequencies.tolist():
            rotations = rope["original_max_position_embeddings"] * frequency / (2 * math.pi)
            low, high = rope["low_freq_factor"], rope["high_freq_factor"]
            # 1: turns often within the original context and stays; 0: turns less than once and is stretched.
            keep = min(1.0, max(0.0, (rotations - low) / (high - low)))
            scaled.append(keep * frequency + (1 - keep) * frequency / rope["factor"])
        return torch.tensor(scaled, dtype=torch.float64)
    if kind == "yarn":
        # "YaRN: Efficient Context Window Extension", section 3.2, with the borders in whole pairs as its authors' code has them.
        def pair(rotations):
            wave = rope["original_max_position_embeddings"] / rotations
            return size / 2 * math.log(wave / (2 * math.pi)) / math.log(theta)

        first, last = pair(rope["beta_fast"]), pair(rope["beta_slow"])
        if rope.get("truncate", True):
            first, last = math.floor(first), math.ceil(last)
        assert 0 < first < last < size / 2
        keep = 1 - ((torch.arange(size // 2, dtype=torch.float64) - first) / (last - first)).clamp(0, 1)
        return keep * frequencies + (1 - keep) * frequencies / rope["factor"]
    return frequencies


def attention_factor(config):
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    return 0.1 * math.log(rope["factor"]) + 1 if rope.get("rope_type") == "yarn" else 1.0


def rotate(vectors, angles, factor):
    """vectors: [tokens, heads, size]; the pairs are (i, i + size / 2)."""
    half = vectors.shape[-1] // 2
    first, second = vectors[..., :half], vectors[..., half:]
    cos, sin = factor * torch.cos(angles)[:, None, :], factor * torch.sin(angles)[:, None, :]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def forward(config, weights, tokens):
    w = {name: torch.from_numpy(values).double() for name, values in weights.items()}
    count, size = len(tokens), head_size(config)
    heads, groups = config["num_attention_heads"], config["num_attention_heads"] // config["num_key_value_heads"]

    def norm(x, name):
        weight = 1.0 + w[name] if is_gemma(config) else w[name]
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + config["rms_norm_eps"]) * weight

    def linear(x, name):
        y = x @ w[name + ".weight"].T
        return y + w[name + ".bias"] if name + ".bias" in w else y

    positions = torch.arange(count, dtype=torch.float64)
    factor, scale = attention_factor(config), config.get("query_pre_attn_scalar", size) ** -0.5
    # A token sees itself and those before it; with a window, itself and the window - 1 before it.
    distance = torch.arange(count)[:, None] - torch.arange(count)[None, :]

    def gate(x):
        return torch.nn.functional.gelu(x, approximate="tanh") if is_gemma(config) else torch.nn.functional.silu(x)

    x = w["model.embed_tokens.weight"][torch.tensor(tokens)]
    if is_gemma(config):  # by a number of the weights' type
        x = x * float(numpy.float32(config["hidden_size"] ** 0.5))
    for layer in range(config["num_hidden_layers"]):
        base = f"model.layers.{layer}."
        angles = positions[:, None] * inverse_frequencies(config, layer)[None, :]
        seen = (distance >= 0) & (distance < config["sliding_window"]) if windowed(config, layer) else distance >= 0
        h = norm(x, base + "input_layernorm.weight")
        q = linear(h, base + "self_attn.q_proj").view(count, heads, size)
        k = linear(h, base + "self_attn.k_proj").view(count, -1, size)
        if is_gemma(config) or config["model_type"].startswith("qwen3"):
            q, k = norm(q, base + "self_attn.q_norm.weight"), norm(k, base + "self_attn.k_norm.weight")
        q, k = rotate(q, angles, factor), rotate(k, angles, factor)
        v = linear(h, base + "self_attn.v_proj").view(count, -1, size)
        mixed = []
        for head in range(heads):
            scores = (q[:, head] @ k[:, head // groups].T * scale).masked_fill(~seen, -math.inf)
            if is_gpt_oss(config):  # one more, of nothing
                scores = torch.cat([scores, w[base + "self_attn.sinks"][head].expand(count, 1)], dim=-1)
            mixed.append(torch.softmax(scores, dim=-1)[:, :count] @ v[:, head // groups])
        more = linear(torch.cat(mixed, dim=-1), base + "self_attn.o_proj")
        if is_gemma(config):
            x = x + norm(more, base + "post_attention_layernorm.weight")
            h = norm(x, base + "pre_feedforward_layernorm.weight")
        else:
            x = x + more
            h = norm(x, base + "post_attention_layernorm.weight")

        def mlp(names):
            if is_gpt_oss(config):
                limit = config.get("swiglu_limit", 7.0)
                g, u = linear(h, names[0]).clamp(max=limit), linear(h, names[1]).clamp(-limit, limit)
                return linear((u + 1) * g * torch.sigmoid(1.702 * g), names[2])
            return linear(gate(linear(h, names[0])) * linear(h, names[1]), names[2])

        if is_gemma(config):
            x = x + norm(mlp(mlps(config, base)[0]), base + "post_feedforward_layernorm.weight")
            continue
        if not experts(config):
            x = x + mlp(mlps(config, base)[0])
            continue
        chances = torch.softmax(linear(h, router(config, base)), dim=-1)
        best, which = torch.topk(chances, config["num_experts_per_tok"], dim=-1)
        if config.get("norm_topk_prob", True):  # Mixtral and gpt-oss have no such field and always norm
            best = best / best.sum(dim=-1, keepdim=True)
        # Every expert for every token, of which most weigh nothing.
        weights_of_all = torch.zeros_like(chances).scatter(-1, which, best)
        x = x + sum(weights_of_all[:, i : i + 1] * mlp(names) for i, names in enumerate(mlps(config, base)))
    x = norm(x, "model.norm.weight")
    return x @ w.get("lm_head.weight", w["model.embed_tokens.weight"]).T


def file_config(config):
    """As the files have it: of a model that sees, what is said of its text by itself, and what is usual left out."""
    if is_gemma(config):
        config = {name: value for name, value in config.items() if name != "hidden_act"}
    if config["architectures"] != ["Gemma3ForConditionalGeneration"]:
        return config
    whole = ("architectures", "torch_dtype", "bos_token_id", "eos_token_id")
    usual = {"hidden_activation", "rms_norm_eps", "tie_word_embeddings", *whole}
    text = {name: value for name, value in config.items() if name not in usual}
    return {**{name: config[name] for name in whole}, "model_type": "gemma3", "text_config": text,
            "vision_config": {"hidden_size": 8, "model_type": "siglip_vision_model"}}


def joined(config, weights):
    """gpt-oss: all experts of a layer in one tensor, gate and up in turn, matrices column by column."""
    out = {name: values for name, values in weights.items() if ".experts." not in name}
    for layer in range(config["num_hidden_layers"]):
        base = f"model.layers.{layer}.mlp.experts."
        stack = lambda part: numpy.stack([weights[f"{base}{i}.{part}"] for i in range(experts(config))])
        turns = lambda part: numpy.stack([stack("gate_proj" + part), stack("up_proj" + part)], axis=2)
        gate_up, bias = turns(".weight"), turns(".bias")  # [expert][row][gate or up](column)
        out[base + "gate_up_proj"] = numpy.ascontiguousarray(gate_up.reshape(gate_up.shape[0], -1, gate_up.shape[3]).swapaxes(1, 2))
        out[base + "gate_up_proj_bias"] = bias.reshape(bias.shape[0], -1)
        out[base + "down_proj"] = numpy.ascontiguousarray(stack("down_proj.weight").swapaxes(1, 2))
        out[base + "down_proj_bias"] = stack("down_proj.bias")
    return out


def fused(config, weights):
    """As the files have them."""
    if config["architectures"] == ["Gemma3ForConditionalGeneration"]:
        eye = numpy.zeros((8, 8), dtype=numpy.float32)
        return {**{"language_model." + name: values for name, values in weights.items()},
                "vision_tower.vision_model.encoder.layers.0.mlp.fc1.weight": eye,
                "multi_modal_projector.mm_input_projection_weight": eye}
    if is_gpt_oss(config):
        return joined(config, weights)
    if config["model_type"] != "phi3":
        return weights
    out = dict(weights)
    for layer in range(config["num_hidden_layers"]):
        base = f"model.layers.{layer}."
        for name, parts in (("self_attn.qkv_proj", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
                            ("mlp.gate_up_proj", ("mlp.gate_proj", "mlp.up_proj"))):
            out[base + name + ".weight"] = numpy.concatenate([out.pop(base + part + ".weight") for part in parts])
    return out


def main():
    for seed, (name, fields) in enumerate(MODELS.items()):
        config = {**COMMON, **fields}
        random = numpy.random.RandomState(seed + 1)
        weights = random_weights(config, random)
        tokens = random.randint(0, VOCABULARY, PROMPT_TOKENS).tolist()
        logits = forward(config, weights, tokens).numpy().astype("<f4")
        directory = HERE / name
        directory.mkdir(exist_ok=True)
        (directory / "config.json").write_text(json.dumps(file_config(config), indent=2) + "\n")
        (directory / "tokenizer.json").write_text(json.dumps(tokenizer(), separators=(",", ":")) + "\n")
        write_safetensors(directory / "model.safetensors", fused(config, weights))
        (directory / "prompt.txt").write_text(" ".join(map(str, tokens)) + "\n")
        (directory / "logits.f32").write_bytes(logits.tobytes())
        print(f"{name}: logits from {logits.min():.2f} to {logits.max():.2f}, deviation {logits.std():.2f}")


if __name__ == "__main__":
    main()
