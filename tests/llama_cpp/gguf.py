"""Writes GGUF files, and asks llama.cpp's own library how it reads them.

The library is the one that npm's @node-llama-cpp/linux-x64 brings (version in package.json beside this file); it is called
through its C interface (llama.h, ggml.h). Structures that are passed by value are taken as they are given, but for the few
fields at the beginning of llama_context_params that are set.
"""
import ctypes
import glob
import pathlib
import struct

import numpy

ALIGNMENT = 32
TYPES = {
    "F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8, "Q2_K": 10, "Q3_K": 11, "Q4_K": 12, "Q5_K": 13,
    "Q6_K": 14, "IQ4_NL": 20, "IQ4_XS": 23, "BF16": 30, "MXFP4": 39,
}  # fmt: skip
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


def _text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value):
    """A type and a value; integers are U32, floats F32, lists arrays of what their first entry is."""
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    first = value[0] if value else ""
    head = {str: 8, float: 6, int: 5}[type(first)]
    body = b"".join(_text(one) for one in value) if head == 8 else struct.pack(f"<{len(value)}{'f' if head == 6 else 'i'}", *value)
    return struct.pack("<IIQ", 9, head, len(value)) + body


def write(path, metadata, tensors):
    """`tensors`: name -> (type, shape with the slowest dimension first, bytes)."""
    out = bytearray(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)))
    for key, value in metadata.items():
        out += _text(key) + _value(value)
    offset = 0
    for name, (kind, shape, data) in tensors.items():
        out += _text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape))
        out += struct.pack("<IQ", TYPES[kind], offset)
        offset += -(-len(data) // ALIGNMENT) * ALIGNMENT
    with open(path, "wb") as file:
        file.write(out + b"\0" * (-len(out) % ALIGNMENT))
        for _, _, data in tensors.values():
            file.write(data)
            file.write(b"\0" * (-len(data) % ALIGNMENT))


def is_turned(config, name):
    """llama.cpp's `llama` turns neighbours; Hugging Face the two halves of a head."""
    return config["model_type"] in ("llama", "mixtral") and any(part in name for part in ("attn_q.", "attn_k."))


def turned(values, heads):
    """From the order of Hugging Face to that of llama.cpp."""
    shape = values.shape
    return values.reshape(heads, 2, shape[0] // heads // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


def _layer_name(config, name):
    parts = {
        "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
        "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "self_attn.qkv_proj": "attn_qkv",
        "mlp.gate_up_proj": "ffn_up", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
        "block_sparse_moe.gate": "ffn_gate_inp", "mlp.gate": "ffn_gate_inp", "mlp.router": "ffn_gate_inp",
    }  # fmt: skip
    if config["model_type"] == "gemma3_text":  # which norms what is added, too
        parts |= {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm"}
    if config["model_type"] == "gpt_oss":
        parts |= {"post_attention_layernorm": "post_attention_norm"}
    _, _, layer, rest = name.split(".", 3)
    if rest == "self_attn.sinks":
        return f"blk.{layer}.attn_sinks.weight"
    rest, ending = rest.rsplit(".", 1)
    return f"blk.{layer}.{parts[rest]}.{ending}"


def tensors_of(config, weights):
    """Tensors of a Hugging Face model (fp32, those of phi3 fused) by llama.cpp's names, in its order of rows."""
    out, experts = {}, {}
    for name, values in weights.items():
        if ".mlp.experts." in name and config["model_type"] == "gpt_oss":  # all of a layer, gate and up in turn
            layer, part = name.split(".")[2], name.rsplit(".", 1)[1]
            ending = "bias" if part.endswith("_bias") else "weight"
            rows = values if ending == "bias" else values.swapaxes(1, 2)
            split = {"gate": rows[:, 0::2], "up": rows[:, 1::2]} if part.startswith("gate_up") else {"down": rows}
            for which, some in split.items():
                out[f"blk.{layer}.ffn_{which}_exps.{ending}"] = numpy.ascontiguousarray(some)
            continue
        if ".experts." in name:
            base, rest = name.split(".experts.")
            expert, part = rest.split(".")[:2]
            part = {"w1": "gate", "w2": "down", "w3": "up"}.get(part, part.split("_")[0])
            layer = base.split(".")[2]
            experts.setdefault(f"blk.{layer}.ffn_{part}_exps.weight", {})[int(expert)] = values
            continue
        fixed = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}
        new = fixed.get(name) or _layer_name(config, name)
        if is_turned(config, new):
            values = turned(values, config["num_attention_heads" if "attn_q." in new else "num_key_value_heads"])
        out[new] = values
    for name, all_of in experts.items():
        out[name] = numpy.stack([all_of[i] for i in range(len(all_of))])
    return out


def metadata_of(config):
    """What llama.cpp's convert_hf_to_gguf.py writes for such a config.json."""
    name = {"llama": "llama", "mixtral": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "qwen3_moe": "qwen3moe", "phi3": "phi3", "gemma3_text": "gemma3", "gpt_oss": "gpt-oss"}[config["model_type"]]
    size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    out = {
        "general.architecture": name,
        "general.name": "test",
        f"{name}.block_count": config["num_hidden_layers"],
        f"{name}.context_length": config["max_position_embeddings"],
        f"{name}.embedding_length": config["hidden_size"],
        f"{name}.feed_forward_length": config["intermediate_size"],
        f"{name}.attention.head_count": config["num_attention_heads"],
        f"{name}.attention.head_count_kv": config["num_key_value_heads"],
        f"{name}.attention.layer_norm_rms_epsilon": float(config["rms_norm_eps"]),
        f"{name}.rope.freq_base": float(config.get("rope_theta") or config["rope_parameters"]["rope_theta"]),
        f"{name}.rope.dimension_count": size,
        f"{name}.attention.key_length": size,
        f"{name}.attention.value_length": size,
        f"{name}.vocab_size": config["vocab_size"],
    }
    experts = config.get("num_local_experts") or config.get("num_experts")
    if experts:
        out[f"{name}.expert_count"] = experts
        out[f"{name}.expert_used_count"] = config["num_experts_per_tok"]
    if "moe_intermediate_size" in config:
        out[f"{name}.expert_feed_forward_length"] = config["moe_intermediate_size"]
    if name == "gpt-oss":
        out[f"{name}.expert_feed_forward_length"] = config["intermediate_size"]
    if config.get("sliding_window") and name in ("phi3", "gemma3", "gpt-oss"):
        out[f"{name}.attention.sliding_window"] = config["sliding_window"]
    rope = config.get("rope_scaling") or {}
    kind = rope.get("rope_type") or rope.get("type")
    if kind in ("linear", "yarn"):
        out[f"{name}.rope.scaling.type"] = kind
        out[f"{name}.rope.scaling.factor"] = float(rope["factor"])
    if kind == "yarn":
        out[f"{name}.rope.scaling.original_context_length"] = rope["original_max_position_embeddings"]
        for ours, theirs in (("beta_fast", "yarn_beta_fast"), ("beta_slow", "yarn_beta_slow")):
            if ours in rope:
                out[f"{name}.rope.scaling.{theirs}"] = float(rope[ours])
    return out


def byte_level_tokenizer(tokenizer, pre, count, bos=None, eos=None):
    """Of a tokenizer.json with a byte-level BPE, with as many tokens as there are embeddings."""
    model = tokenizer["model"]
    texts = dict(model["vocab"])
    kinds = {}
    for token in tokenizer.get("added_tokens", []):
        texts[token["content"]] = token["id"]
        kinds[token["id"]] = CONTROL if token["special"] else USER_DEFINED
    by_id = {id: text for text, id in texts.items()}
    out = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": [by_id.get(id, f"[PAD{id}]") for id in range(count)],
        "tokenizer.ggml.token_type": [kinds.get(id, NORMAL if id in by_id else UNUSED) for id in range(count)],
        "tokenizer.ggml.merges": [one if isinstance(one, str) else " ".join(one) for one in model["merges"]],
    }
    if bos is not None:
        out["tokenizer.ggml.bos_token_id"] = bos
    if eos is not None:
        out["tokenizer.ggml.eos_token_id"] = eos
    return out


class LlamaBatch(ctypes.Structure):
    _fields_ = [
        ("n_tokens", ctypes.c_int32), ("token", ctypes.POINTER(ctypes.c_int32)), ("embd", ctypes.c_void_p),
        ("pos", ctypes.POINTER(ctypes.c_int32)), ("n_seq_id", ctypes.POINTER(ctypes.c_int32)),
        ("seq_id", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))), ("logits", ctypes.POINTER(ctypes.c_int8)),
    ]  # fmt: skip


class Opaque(ctypes.Structure):
    """Larger than any structure of parameters, and passed on the stack as those are."""

    _fields_ = [("head", ctypes.c_uint32 * 8), ("rest", ctypes.c_uint8 * 992)]


class LlamaCpp:
    """llama.cpp's library; `folder` holds its .so files."""

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        self.base = ctypes.CDLL(str(folder / "libggml-base.so"), mode=ctypes.RTLD_GLOBAL)
        self.ggml = ctypes.CDLL(glob.glob(str(folder / "libggml.*so"))[0], mode=ctypes.RTLD_GLOBAL)
        self.llama = ctypes.CDLL(glob.glob(str(folder / "libllama.*so"))[0], mode=ctypes.RTLD_GLOBAL)
        self._quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
        self.llama.llama_log_set(self._quiet, None)
        self.ggml.ggml_backend_load_all_from_path(str(folder).encode())
        for name, result in (("llama_model_load_from_file", ctypes.c_void_p), ("llama_init_from_model", ctypes.c_void_p),
                             ("llama_model_get_vocab", ctypes.c_void_p), ("llama_get_logits_ith", ctypes.POINTER(ctypes.c_float)),
                             ("llama_get_memory", ctypes.c_void_p)):  # fmt: skip
            getattr(self.llama, name).restype = result
        self.llama.llama_model_default_params.restype = Opaque
        self.llama.llama_context_default_params.restype = Opaque
        self.llama.llama_batch_init.restype = LlamaBatch
        self.base.ggml_quantize_chunk.restype = ctypes.c_size_t
        self.base.ggml_get_type_traits.restype = ctypes.c_void_p

    def quantize(self, kind, values):
        """The bytes of a matrix, row by row."""
        values = numpy.ascontiguousarray(values, dtype=numpy.float32)
        columns, rows = values.shape[-1], values.size // values.shape[-1]
        if kind == "F32":
            return values.tobytes()
        out = ctypes.create_string_buffer(values.nbytes + 1024)
        made = self.base.ggml_quantize_chunk(
            ctypes.c_int(TYPES[kind]), values.ctypes.data_as(ctypes.c_void_p), out, ctypes.c_int64(0), ctypes.c_int64(rows),
            ctypes.c_int64(columns), None)  # fmt: skip
        return out.raw[:made]

    def dequantize(self, kind, data, shape):
        out = numpy.zeros(shape, dtype=numpy.float32)
        if kind == "F32":
            out[...] = numpy.frombuffer(data, dtype="<f4").reshape(shape)
            return out
        # const char* name; int64_t block, interleaved; size_t size; bool quantized; void (*to_float)(const void*, float*, int64_t)
        traits = self.base.ggml_get_type_traits(ctypes.c_int(TYPES[kind]))
        address = ctypes.cast(traits + 40, ctypes.POINTER(ctypes.c_void_p))[0]
        to_float = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64)(address)
        to_float(bytes(data), out.ctypes.data_as(ctypes.c_void_p), out.size)
        return out

    def open(self, path, context, threads=2):
        return LlamaModel(self, path, context, threads)


class LlamaModel:
    def __init__(self, library, path, context, threads):
        self.lib = library.llama
        self.model = ctypes.c_void_p(self.lib.llama_model_load_from_file(str(path).encode(), self.lib.llama_model_default_params()))
        if not self.model:
            raise RuntimeError(f"llama.cpp does not open {path}")
        self.vocab = ctypes.c_void_p(self.lib.llama_model_get_vocab(self.model))
        params = self.lib.llama_context_default_params()
        params.head[0] = context  # n_ctx, n_batch, n_ubatch
        params.head[1] = context
        params.head[2] = min(context, 512)
        self.context = ctypes.c_void_p(self.lib.llama_init_from_model(self.model, params))
        if not self.context:
            raise RuntimeError("llama.cpp makes no context")
        self.lib.llama_set_n_threads(self.context, threads, threads)
        self.vocabulary = self.lib.llama_vocab_n_tokens(self.vocab)

    def clear(self):
        self.lib.llama_memory_clear(ctypes.c_void_p(self.lib.llama_get_memory(self.context)), ctypes.c_bool(True))

    def decode(self, tokens, position=0, all_logits=True):
        """The logits of each token, or of the last."""
        batch = self.lib.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, position + i, 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = 1 if all_logits or i + 1 == len(tokens) else 0
        failed = self.lib.llama_decode(self.context, batch)
        if failed:
            raise RuntimeError(f"llama_decode: {failed}")
        rows = range(len(tokens)) if all_logits else [len(tokens) - 1]
        out = [numpy.ctypeslib.as_array(self.lib.llama_get_logits_ith(self.context, i), (self.vocabulary,)).copy() for i in rows]
        self.lib.llama_batch_free(batch)
        return numpy.stack(out)

    def tokenize(self, text, special=True, parse=False):
        data = text.encode()
        room = (ctypes.c_int32 * (len(data) + 16))()
        count = self.lib.llama_tokenize(
            self.vocab, data, ctypes.c_int32(len(data)), room, ctypes.c_int32(len(room)), ctypes.c_bool(special), ctypes.c_bool(parse))  # fmt: skip
        return list(room[:count])
