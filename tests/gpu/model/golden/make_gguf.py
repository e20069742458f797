#!/usr/bin/env python3
"""Writes tiny random models as GGUF files, and what llama.cpp and PyTorch make of them.

    (cd tests/llama_cpp && npm ci)
    /usr/bin/python3 tests/gpu/model/golden/make_gguf.py

Needs python3-torch and python3-numpy, and llama.cpp's own library (tests/llama_cpp). ggml quantizes the matrices and says what
they mean; the logits that a model must give follow from that by the forward pass of make_goldens.py, in double precision, and
llama.cpp's own logits for the same file must be near them. Written are, in golden/gguf:

    NAME/model.gguf, prompt.txt, logits.f32   as the other goldens
    blocks/TYPE.bin                           for each type BLOCKS rows of 256 values: ggml's bytes, then what they mean (f32)
    texts/NAME.gguf, NAME.txt                 tokenizers (a model of nothing), and the ids that llama.cpp gives to texts: a line
                                              for each text, "1" where special tokens count, then its bytes in hexadecimal
                                              digits behind an x, then the ids
"""
import json
import pathlib
import sys

import numpy
import torch

import make_goldens

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "llama_cpp"))
import gguf  # noqa: E402

OUTPUT = make_goldens.HERE / "gguf"
LIBRARY = pathlib.Path(gguf.__file__).parent / "node_modules/@node-llama-cpp/linux-x64/bins/linux-x64"
BLOCKS = 6
COMMON = {**make_goldens.COMMON, "hidden_size": 64, "intermediate_size": 96, "head_dim": 16, "max_position_embeddings": 512}
K = {"hidden_size": 256, "intermediate_size": 256, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 64, "num_hidden_layers": 1}
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "rope_theta": 10000.0}

GPT_OSS_ROPE = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False}

# Fields of config.json, what each tensor is kept in (by a part of llama.cpp's name; the first that fits), and the others.
MODELS = {
    "llama3-k": (
        {**LLAMA, **K, "tie_word_embeddings": True, "rope_parameters": {**make_goldens.MODELS["llama3"]["rope_parameters"]}, "rope_theta": 500.0},
        {"attn_q.": "Q4_K", "attn_k": "Q5_K", "attn_v": "Q6_K", "attn_output": "Q3_K", "ffn_gate": "Q2_K", "ffn_up": "IQ4_XS", "ffn_down": "Q4_K", "token_embd": "Q6_K"},
    ),
    "llama-legacy": (
        LLAMA,
        {"attn_q": "Q5_0", "attn_k": "Q4_1", "attn_v": "Q8_0", "attn_output": "IQ4_NL", "ffn_gate": "Q4_0", "ffn_up": "Q5_1", "ffn_down": "Q4_1", "token_embd": "Q4_0", "output.": "Q8_0"},
    ),
    "qwen2-q8_0": ({**make_goldens.MODELS["qwen2"], "tie_word_embeddings": False}, {".": "Q8_0"}),
    "qwen3-yarn-f16": (
        {**make_goldens.MODELS["qwen3-yarn"], "rope_theta": 10000.0, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}},
        {".": "F16"},
    ),
    "qwen3moe-mxfp4": ({**make_goldens.MODELS["qwen3-moe"], "norm_topk_prob": True, "moe_intermediate_size": 32}, {"gate_inp": "F32", "_exps": "MXFP4", ".": "Q8_0"}),
    "mixtral-q4_0": ({**make_goldens.MODELS["mixtral"], "intermediate_size": 32}, {"gate_inp": "F32", "token_embd": "F16", ".": "Q4_0"}),
    "mixtral-f16": (make_goldens.MODELS["mixtral"], {"gate_inp": "F32", ".": "F16"}),
    "phi3-q5_1": ({**make_goldens.MODELS["phi3"], "sliding_window": None}, {".": "Q5_1"}),
    "llama-linear-bf16": ({**make_goldens.MODELS["llama-linear-biased"], "mlp_bias": False}, {".": "BF16"}),
    # As llama.cpp has it whatever the file says: every sixth layer sees everything, scores are divided by the root of a head's size.
    "gemma3-f16": (
        {**make_goldens.MODELS["gemma3"], "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 7, "sliding_window_pattern": 6, "query_pre_attn_scalar": 16},
        {".": "F16"},
    ),
    # The limit is llama.cpp's own, as is every other layer's window.
    "gpt-oss-mxfp4": (
        {**make_goldens.MODELS["gpt-oss"], "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"],
         "num_local_experts": 4, "num_experts_per_tok": 2, "swiglu_limit": 7.0, "rope_theta": 10000.0, "rope_scaling": GPT_OSS_ROPE},
        {".bias": "F32", "gate_inp": "F32", "_exps": "MXFP4", ".": "Q8_0"},
    ),
    "gpt-oss-f16": (
        {**make_goldens.MODELS["gpt-oss"], "hidden_size": 32, "intermediate_size": 48, "num_local_experts": 4, "swiglu_limit": 7.0, "rope_theta": 10000.0, "rope_scaling": GPT_OSS_ROPE},
        {".bias": "F32", "gate_inp": "F32", ".": "F16"},
    ),
}


def kind_of(name, shape, kinds):
    if len(shape) == 1:
        return "F32"
    return next(kind for part, kind in kinds.items() if part in name)


def inverse_frequencies(config, layer):
    """YaRN's with the usual borders, which may lie outside of a head."""
    rope = config.get("rope_scaling") or {}
    if rope.get("rope_type") != "yarn":
        return plain_frequencies(config, layer)
    size, theta = make_goldens.head_size(config), config["rope_theta"]
    frequencies = theta ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    pair = lambda turns: size / 2 * numpy.log(rope["original_max_position_embeddings"] / turns / (2 * numpy.pi)) / numpy.log(theta)
    first, last = pair(32.0), pair(1.0)
    if rope.get("truncate", True):
        first, last = numpy.floor(first), numpy.ceil(last)
    first, last = max(0, first), min(size - 1, last)
    stretched = ((torch.arange(size // 2, dtype=torch.float64) - first) / max(0.001, last - first)).clamp(0, 1)
    return (1 - stretched) * frequencies + stretched * frequencies / rope["factor"]


plain_frequencies = make_goldens.inverse_frequencies
make_goldens.inverse_frequencies = inverse_frequencies


def weights_as_meant(config, tensors, meant):
    """Back to the names and rows of Hugging Face, by the same way with what the tensors mean."""
    out, shapes = {}, make_goldens.tensor_shapes(config)
    places = gguf.tensors_of(config, make_goldens.fused(config, {name: numpy.zeros(shape, "f4") for name, shape in shapes.items()}))
    assert set(places) == set(meant) - {"rope_freqs.weight"}
    # Each value's number goes there, and comes back with its place.
    numbers, begin = {}, 0
    for name, shape in shapes.items():
        count = int(numpy.prod(shape))
        numbers[name] = numpy.arange(begin, begin + count, dtype="f8").reshape(shape)
        begin += count
    values = numpy.zeros(begin, dtype="f4")
    for name, where in gguf.tensors_of(config, make_goldens.fused(config, numbers)).items():
        values[where.astype("i8").ravel()] = meant[name].ravel()
    for name, where in numbers.items():
        out[name] = values[where.astype("i8")]
    return out


def make_model(library, name, seed):
    fields, kinds = MODELS[name]
    config = {**COMMON, **fields}
    random = numpy.random.RandomState(seed)
    weights = make_goldens.random_weights(config, random)
    tokens = random.randint(0, make_goldens.VOCABULARY, make_goldens.PROMPT_TOKENS).tolist()
    tensors, meant = {}, {}
    for tensor, values in gguf.tensors_of(config, make_goldens.fused(config, weights)).items():
        kind = kind_of(tensor, values.shape, kinds)
        # The files have the whole of what Gemma's norms weigh.
        more = numpy.float32(1 if make_goldens.is_gemma(config) and "norm" in tensor else 0)
        data = library.quantize(kind, values + more)
        tensors[tensor] = (kind, values.shape, data)
        meant[tensor] = library.dequantize(kind, data, values.shape) - more
    if "rope_parameters" in config:  # as convert_hf_to_gguf.py has it for Llama 3
        size = make_goldens.head_size(config)
        slower = (500.0 ** (-numpy.arange(0, size, 2) / size) / plain_frequencies(config, 0).numpy()).astype("f4")
        tensors["rope_freqs.weight"] = ("F32", slower.shape, slower.tobytes())
        meant["rope_freqs.weight"] = slower
    metadata = gguf.metadata_of(config) | gguf.byte_level_tokenizer(make_goldens.tokenizer(), "gpt-2", make_goldens.VOCABULARY, 0, 2)
    directory = OUTPUT / name
    directory.mkdir(parents=True, exist_ok=True)
    gguf.write(directory / "model.gguf", metadata, tensors)
    logits = make_goldens.forward(config, weights_as_meant(config, tensors, meant), tokens).numpy().astype("<f4")
    (directory / "prompt.txt").write_text(" ".join(map(str, tokens)) + "\n")
    (directory / "logits.f32").write_bytes(logits.tobytes())
    theirs = library.open(directory / "model.gguf", 128).decode(tokens)
    as_theirs = logits
    if not (config.get("rope_scaling") or {}).get("truncate", True):  # llama.cpp counts YaRN's borders in whole pairs always
        whole = {**config, "rope_scaling": {**config["rope_scaling"], "truncate": True}}
        as_theirs = make_goldens.forward(whole, weights_as_meant(config, tensors, meant), tokens).numpy().astype("<f4")
    off = float(numpy.sqrt(((theirs - as_theirs) ** 2).mean()))
    print(f"{name}: {(directory / 'model.gguf').stat().st_size} bytes, logits deviate by {logits.std():.2f}, llama.cpp's from them by {off:.4f}")
    # Experts that are as good as each other are chosen by what activations are rounded to.
    assert off < (0.5 if "expert" in str(metadata.keys()) else 0.1) * logits.std(), name


def make_blocks(library):
    directory = OUTPUT / "blocks"
    directory.mkdir(parents=True, exist_ok=True)
    for seed, kind in enumerate(gguf.TYPES):
        random = numpy.random.RandomState(100 + seed)
        values = random.standard_normal((BLOCKS, 256)).astype("f4") * (10.0 ** numpy.arange(-3, BLOCKS - 3))[:, None].astype("f4")
        values += numpy.array([0.0, 0.5, -2.0, 0.0, 3.0, 0.0], dtype="f4")[:, None]
        data = library.quantize(kind, values)
        (directory / f"{kind}.bin").write_bytes(data + library.dequantize(kind, data, values.shape).tobytes())


TEXTS = [
    "", " ", "Hello world", " Hello  world ", "Once upon a time, there was a little girl named Lily.", "don't stop\n\n  now\t!",
    "12345 6789 3.14", "na\u00efve caf\u00e9 \u2014 \u201cquoted\u201d", "\u4f60\u597d\uff0c\u4e16\u754c", "\U0001f600 emoji \u0928\u092e\u0938\u094d\u0924\u0947", "a\u0301 e\u0301", "x = [i**2 for i in range(10)]\n    return x",
    "ABCdef GHI's we'LL",
]  # fmt: skip


BY_BYTES = ("gpt-2", "llama-bpe", "qwen2", "smollm", "gpt-4o", "tekken")


def nothing(tokens, family):
    """A model of one small layer with so many tokens: a tokenizer alone is no file that llama.cpp opens."""
    config = {**COMMON, **LLAMA, "model_type": family, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 1,
              "num_key_value_heads": 1, "head_dim": 32, "vocab_size": tokens, "tie_word_embeddings": True}  # fmt: skip
    matrices = [(part, 32) for part in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")]
    if family == "phi3":
        matrices = [("attn_qkv", 96), ("attn_output", 32), ("ffn_up", 64), ("ffn_down", 32)]
    tensors = {
        name: ("Q4_0", shape, b"\0" * (int(numpy.prod(shape)) // 32 * 18)) if len(shape) == 2 else ("F32", shape, b"\0" * (4 * shape[0]))
        for name, shape in [
            ("token_embd.weight", (tokens, 32)), ("output_norm.weight", (32,)), ("blk.0.attn_norm.weight", (32,)), ("blk.0.ffn_norm.weight", (32,)),
            *((f"blk.0.{part}.weight", (rows, 32)) for part, rows in matrices),
        ]
    }  # fmt: skip
    return gguf.metadata_of(config), tensors


def pieces(*more):
    """A vocabulary of sentencepiece's kind: bytes, characters and what is often said, each with a score of its own."""
    mark = "\u2581"
    words = ("the once upon a time there was little girl named hello world stop now quoted emoji for in range return don "
             "naive caf and of to is it he she ing ed er on at an or re th ou ll ve").split()  # fmt: skip
    texts = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    kinds = [gguf.UNKNOWN, gguf.CONTROL, gguf.CONTROL] + [gguf.BYTE] * 256
    made = []
    for word in words:
        for whole in (mark + word, word, mark + word.capitalize()):
            made += [whole[:end] for end in range(2, len(whole) + 1)]
    made += [mark * 2, mark * 4, "12", "34", "\u4e16\u754c", "..", "\n\n"]
    characters = [mark, *(chr(code) for code in range(0x21, 0x7F)), "\n", "\u4f60", "\u4e16", "\u754c", "\u00e9", "\u2014"]
    for text in [*made, *characters]:
        if text not in texts:
            texts.append(text)
            kinds.append(gguf.NORMAL)
    texts.append("<|turn|>")
    kinds.append(gguf.CONTROL)
    texts.append("<tool>")
    kinds.append(gguf.USER_DEFINED)
    texts += more
    kinds += [gguf.CONTROL] * len(more)
    return {
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.pre": "default", "tokenizer.ggml.tokens": texts,
        "tokenizer.ggml.scores": [0.0 if kind != gguf.NORMAL else -float(id) for id, kind in enumerate(kinds)],
        "tokenizer.ggml.token_type": kinds, "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0, "tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.add_eos_token": False,
        "tokenizer.chat_template": "{% for m in messages %}<|turn|>{{ m.content }}{% endfor %}",
    }  # fmt: skip


def make_texts(library):
    directory = OUTPUT / "texts"
    directory.mkdir(parents=True, exist_ok=True)
    default = json.loads((make_goldens.HERE.parents[3] / "gpu/model/default/tokenizer.json").read_text())
    count = len(default["model"]["vocab"]) + sum(token["content"] not in default["model"]["vocab"] for token in default["added_tokens"])
    every = {pre: gguf.byte_level_tokenizer(default, pre, count, 0, 2) for pre in BY_BYTES}
    every["sentencepiece"] = pieces()
    every["sentencepiece-bare"] = {**pieces(), "tokenizer.ggml.add_space_prefix": False, "tokenizer.ggml.add_bos_token": False}
    every["sentencepiece-phi3"] = {**pieces("<|endoftext|>"), "general.name": "Phi-3-mini"}  # by which llama.cpp knows it
    for left_out in ("bos_token_id", "eos_token_id", "unknown_token_id", "add_bos_token", "add_eos_token"):
        every.setdefault("sentencepiece-usual", pieces()).pop(f"tokenizer.ggml.{left_out}")
    for name, words in every.items():
        metadata, tensors = nothing(len(words["tokenizer.ggml.tokens"]), "phi3" if "phi3" in name else "llama")
        gguf.write(directory / f"{name}.gguf", metadata | words, tensors)
        model = library.open(directory / f"{name}.gguf", 128)
        lines = [(0, text, model.tokenize(text)) for text in TEXTS]
        special = "<|turn|>\n a<tool> \nb </s> c" if "piece" in name else "<|im_start|>a <|im_end|>b"
        lines.append((1, special, model.tokenize(special, parse=True)))
        (directory / f"{name}.txt").write_text("".join(f"{flag} x{text.encode().hex()} {' '.join(map(str, ids))}\n" for flag, text, ids in lines))
        if name in BY_BYTES[1:]:
            (directory / f"{name}.gguf").unlink()  # of which all but one word is in the first


def main():
    library = gguf.LlamaCpp(LIBRARY)
    if len(sys.argv) < 2:  # else only these models
        make_blocks(library)
        make_texts(library)
    for seed, name in enumerate(MODELS):
        if len(sys.argv) < 2 or name in sys.argv[1:]:
            make_model(library, name, 1000 + seed)


if __name__ == "__main__":
    main()
