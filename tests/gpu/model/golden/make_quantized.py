#!/usr/bin/env python3
"""Writes tiny random quantized models, one directory for each format, and the logits that they must give.

    /usr/bin/python3 tests/gpu/model/golden/make_quantized.py

Needs python3-torch and python3-numpy. Codes, zero points and scales are random. The weights follow from them by the definition
of the format, in double precision, and go through the forward pass of make_goldens.py; activations are never quantized. Codes
and scales are packed apart from that, into the tensors that the real tools write. Whatever has been written is read back and
unpacked the way the format's own library does it, and must give the same weights.

Every directory is a complete Hugging Face model directory whose unquantized tensors are fp32, with prompt.txt (token ids) and
logits.f32 (one row of logits for each of them). The layouts were checked against these sources:

    AutoGPTQ, auto_gptq/nn_modules/qlinear/qlinear_cuda.py (GPTQ: packing, the zero point stored less one)
    AutoGPTQ, auto_gptq/quantization/config.py (its quantization_config)
    GPTQModel, gptqmodel/utils/model.py (checkpoint_format gptq_v2: the stored zero point is the zero point)
    AutoAWQ, awq/modules/linear/gemm.py and awq/utils/packing_utils.py (the order of nibbles, fp16 scales and biases)
    transformers, src/transformers/integrations/finegrained_fp8.py (weight_scale_inv of blocks, the last of which may be short)
    vLLM, vllm/model_executor/layers/quantization/fp8.py (the same)
    compressed-tensors, src/compressed_tensors/compressors/quantized_compressors/{base,naive_quantized,pack_quantized}.py
    compressed-tensors, src/compressed_tensors/quantization/lifecycle/{initialize,forward}.py (shapes of scales, g_idx)
    compressed-tensors, src/compressed_tensors/quantization/{quant_args,quant_config}.py (its quantization_config)
    vLLM, vllm/model_executor/layers/quantization/compressed_tensors/schemes/compressed_tensors_wNa16.py
    transformers, src/transformers/integrations/mxfp4.py (gpt-oss's experts: nibbles, exponents, gate and up in turn)
"""
import json
import math

import numpy

import make_goldens

OUTPUT = make_goldens.HERE / "quantized"
GROUP = 32
LARGEST_DIRECTORY = 250_000

COMMON = {
    **make_goldens.COMMON,
    "hidden_size": 64,
    "intermediate_size": 96,
    "head_dim": 16,
}
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "rope_theta": 10000.0}
QWEN2 = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "rope_theta": 1000000.0, "use_sliding_window": False}
QWEN3 = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "rope_theta": 1000000.0}
MIXTRAL = {
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    "rope_theta": 1000000.0,
    "sliding_window": None,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "intermediate_size": 64,
}
TIED = {"tie_word_embeddings": True}


# Numbers of less than 32 bits. A tensor of a file is (dtype, array); one of BF16 or F8_E4M3 has an array of the bits.


def bfloat16(values):
    """The bits of the nearest BF16 numbers; of two equally near the one with an even last bit."""
    bits = numpy.asarray(values, dtype=numpy.float32).view(numpy.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16)


def from_bfloat16(bits):
    return (bits.astype(numpy.uint32) << 16).view(numpy.float32)


def e4m3_value(code):
    """Sign, four bits of exponent with a bias of 7, three of mantissa. There are no infinities."""
    sign, exponent, mantissa = code >> 7, code >> 3 & 15, code & 7
    if exponent == 15 and mantissa == 7:
        return math.nan
    size = mantissa * 2.0**-9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)
    return -size if sign else size


E4M3 = numpy.array([e4m3_value(code) for code in range(256)])


def e4m3_codes(values):
    """The nearest codes; of two equally near the even one. What is beyond the largest, 448, becomes that."""
    sizes = numpy.abs(values).reshape(-1)
    above = numpy.searchsorted(E4M3[:127], sizes).clip(1, 126)
    below = above - 1
    to_above, to_below = E4M3[above] - sizes, sizes - E4M3[below]
    nearest = numpy.where((to_below < to_above) | ((to_below == to_above) & (below % 2 == 0)), below, above)
    return (nearest.reshape(values.shape) | numpy.where(numpy.signbit(values), 0x80, 0)).astype(numpy.uint8)


def random_e4m3(random, shape, small):
    """Codes as a quantizer gives them, or such as are all subnormal or nearly: a scale can make them count as much."""
    if small:
        return (random.randint(0, 16, shape) | random.randint(0, 2, shape) << 7).astype(numpy.uint8)
    codes = e4m3_codes(112.0 * random.standard_normal(shape))
    special = [0x7E, 0xFE, 0x00, 0x80, 0x01, 0x81, 0x07, 0x87, 0x08]  # 448, -448, 0, -0, subnormals, the smallest normal
    places = random.choice(codes.size, len(special), replace=False)
    codes.reshape(-1)[places] = special
    return codes


def pack(codes, bits, axis, order=None):
    """Puts 32 / bits successive codes of an axis into each int32; order[i] is the one that the i-th lowest bits take."""
    codes = numpy.moveaxis(codes, axis, 0)
    count = 32 // bits
    order = order or range(count)
    words = numpy.zeros((codes.shape[0] // count, *codes.shape[1:]), dtype=numpy.uint32)
    for i, which in enumerate(order):
        assert codes.min() >= 0 and codes.max() < 1 << bits
        words |= codes[which::count].astype(numpy.uint32) << (bits * i)
    return numpy.ascontiguousarray(numpy.moveaxis(words, 0, axis)).view(numpy.int32)


def scales_for(random, differences, into):
    """A scale for each row of differences (code less zero point), for weights of about the deviation of make_goldens.py."""
    size = numpy.sqrt((differences.astype(numpy.float64) ** 2).mean(axis=-1))
    return 1.5 / math.sqrt(into) / size * random.uniform(0.6, 1.4, size.shape)


def codes_near(random, zeros, low, high):
    """Codes of all sizes from low to high with most near the zero points."""
    return numpy.rint(zeros + (high - low) / 4.5 * random.standard_normal(zeros.shape)).clip(low, high).astype(numpy.int64)


def group_indices(random, name, into, shuffled, known):
    """The group of each input. Layers with the same input have the same order, as their activations are the same."""
    indices = numpy.arange(into) // GROUP
    if not shuffled:
        return indices
    source = name
    for layer, first in (("k_proj", "q_proj"), ("v_proj", "q_proj"), ("up_proj", "gate_proj")):
        source = source.replace(layer, first)
    if source not in known:
        known[source] = random.permutation(indices)
    return known[source]


# One function for each format: makes a linear layer (out, into), returns its tensors and its weights.


def gptq(random, name, out, into, known, bits, symmetric, less, shuffled, biased):
    """q and g_idx over inputs, zero points and scales [groups, out]; low bits first, along the inputs and along the outputs."""
    g_idx, groups, high = group_indices(random, name, into, shuffled, known), into // GROUP, 2**bits - 1
    # AutoGPTQ can't store a zero point of 0 less one, and what it stores must be below 15 to be read alike by all readers.
    zeros = numpy.full((groups, out), 1 << (bits - 1)) if symmetric else random.randint(1, 1 << bits, (groups, out))
    codes = codes_near(random, zeros[g_idx], 0, high)
    differences = codes - zeros[g_idx]
    rows = numpy.stack([differences[g_idx == group].T for group in range(groups)])
    scales = scales_for(random, rows, into).astype(numpy.float16)
    tensors = {
        "qweight": ("I32", pack(codes, bits, 0)),
        "qzeros": ("I32", pack(zeros - less, bits, 1)),
        "scales": ("F16", scales),
        "g_idx": ("I32", g_idx.astype(numpy.int32)),
    }
    if biased and name.endswith("o_proj"):
        tensors["bias"] = ("F16", numpy.zeros(out, dtype=numpy.float16))
    return tensors, (differences * scales.astype(numpy.float64)[g_idx]).T


def unpack_gptq(tensors, bits, less):
    shifts, mask = numpy.arange(0, 32, bits), (1 << bits) - 1
    scales = tensors["scales"].astype(numpy.float64)
    zeros = ((tensors["qzeros"][:, :, None] >> shifts[None, None, :]) & mask) + less
    codes = (tensors["qweight"][:, None, :] >> shifts[None, :, None]) & mask
    codes = codes.reshape(-1, codes.shape[-1])
    g_idx = tensors["g_idx"]
    return (scales[g_idx] * (codes - zeros.reshape(scales.shape)[g_idx])).T


def awq(random, name, out, into, known):
    """As GPTQ without g_idx, but all packed along the outputs, in AWQ's order, and zero points are stored as they are."""
    groups = into // GROUP
    zeros = random.randint(0, 16, (groups, out))
    codes = codes_near(random, zeros.repeat(GROUP, axis=0), 0, 15)
    differences = codes - zeros.repeat(GROUP, axis=0)
    rows = differences.reshape(groups, GROUP, out).transpose(0, 2, 1)
    scales = scales_for(random, rows, into).astype(numpy.float16)
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    tensors = {
        "qweight": ("I32", pack(codes, 4, 1, order)),
        "qzeros": ("I32", pack(zeros, 4, 1, order)),
        "scales": ("F16", scales),
    }
    return tensors, (differences * scales.astype(numpy.float64).repeat(GROUP, axis=0)).T


def unpack_awq(tensors):
    def columns(words):
        in_order_of_bits = (words[:, :, None] >> numpy.arange(0, 32, 4)) & 15
        return in_order_of_bits[:, :, [0, 4, 1, 5, 2, 6, 3, 7]].reshape(words.shape[0], -1)

    scales, zeros, codes = tensors["scales"].astype(numpy.float64), columns(tensors["qzeros"]), columns(tensors["qweight"])
    group = codes.shape[0] // scales.shape[0]
    return ((codes - zeros.repeat(group, axis=0)) * scales.repeat(group, axis=0)).T


def fp8_block(random, name, out, into, known):
    """weight_scale_inv is what the codes are multiplied with, in spite of its name. Blocks at the border are short."""
    scales = numpy.empty((math.ceil(out / GROUP), math.ceil(into / GROUP)), dtype=numpy.float32)
    codes, weights = numpy.empty((out, into), dtype=numpy.uint8), numpy.empty((out, into))
    for i in range(scales.shape[0]):
        for j in range(scales.shape[1]):
            block = numpy.s_[GROUP * i : GROUP * (i + 1), GROUP * j : GROUP * (j + 1)]
            codes[block] = random_e4m3(random, codes[block].shape, (i + j) % 3 == 1)
            scales[i, j] = scales_for(random, E4M3[codes[block]].reshape(-1), into)
            weights[block] = E4M3[codes[block]] * numpy.float64(scales[i, j])
    return {"weight": ("F8_E4M3", codes), "weight_scale_inv": ("F32", scales)}, weights


def unpack_e4m3(codes):
    """Through the bits of an fp32 of the same sign and mantissa, whose exponent has a bias that is 120 more."""
    codes = codes.astype(numpy.uint32)
    bits = (codes & 0x80) << 24 | (codes & 0x7F) << 20
    return bits.view(numpy.float32).astype(numpy.float64) * 2.0**120


def unpack_fp8_block(tensors):
    codes, scales = unpack_e4m3(tensors["weight"]), tensors["weight_scale_inv"].astype(numpy.float64)
    out, into = codes.shape
    return codes * scales.repeat(GROUP, axis=0).repeat(GROUP, axis=1)[:out, :into]


def fp8_tensor(random, name, out, into, known):
    codes = random_e4m3(random, (out, into), name.endswith("v_proj"))
    scale = scales_for(random, E4M3[codes].reshape(1, -1), into).astype(numpy.float32)
    tensors = {
        "weight": ("F8_E4M3", codes),
        "weight_scale": ("F32", scale),
        "input_scale": ("F32", random.uniform(0.01, 0.03, 1).astype(numpy.float32)),
    }
    return tensors, E4M3[codes] * scale.astype(numpy.float64)


def fp8_channel(random, name, out, into, known):
    codes = numpy.stack([random_e4m3(random, (into,), row % 4 == 1) for row in range(out)])
    scales = bfloat16(scales_for(random, E4M3[codes], into)[:, None])
    tensors = {"weight": ("F8_E4M3", codes), "weight_scale": ("BF16", scales)}
    return tensors, E4M3[codes] * from_bfloat16(scales).astype(numpy.float64)


def unpack_scaled(tensors):
    codes = tensors["weight"]
    codes = unpack_e4m3(codes) if codes.dtype == numpy.uint8 else codes.astype(numpy.float64)
    return codes * tensors["weight_scale"].astype(numpy.float64)


def int8_channel(random, name, out, into, known):
    codes = codes_near(random, numpy.zeros((out, into)), -128, 127)
    scales = bfloat16(scales_for(random, codes, into)[:, None])
    tensors = {"weight": ("I8", codes.astype(numpy.int8)), "weight_scale": ("BF16", scales)}
    return tensors, codes * from_bfloat16(scales).astype(numpy.float64)


def packed(random, name, out, into, known, symmetric=True, shuffled=False):
    """Signed codes and zero points, stored with 8 added; codes are packed along the inputs, zero points along the outputs."""
    g_idx, groups = group_indices(random, name, into, shuffled, known), into // GROUP
    zeros = numpy.zeros((out, groups), dtype=numpy.int64) if symmetric else random.randint(-8, 8, (out, groups))
    codes = codes_near(random, zeros[:, g_idx], -8, 7)
    differences = codes - zeros[:, g_idx]
    rows = numpy.stack([differences[:, g_idx == group] for group in range(groups)], axis=1)
    scales = bfloat16(scales_for(random, rows, into))
    tensors = {
        "weight_packed": ("I32", pack(codes + 8, 4, 1)),
        "weight_scale": ("BF16", scales),
        "weight_shape": ("I64", numpy.array([out, into], dtype=numpy.int64)),
    }
    if not symmetric:
        tensors["weight_zero_point"] = ("I32", pack(zeros + 8, 4, 0))
    if shuffled:
        tensors["weight_g_idx"] = ("I32", g_idx.astype(numpy.int32))
    return tensors, differences * from_bfloat16(scales).astype(numpy.float64)[:, g_idx]


def unpack_packed(tensors):
    out, into = tensors["weight_shape"]
    scales = tensors["weight_scale"].astype(numpy.float64)
    codes, zeros = numpy.empty((out, into), dtype=numpy.int64), numpy.zeros((out, scales.shape[1]), dtype=numpy.int64)
    for i in range(8):
        codes[:, i::8] = ((tensors["weight_packed"] >> (4 * i)) & 15) - 8
        if "weight_zero_point" in tensors:
            zeros[i::8, :] = ((tensors["weight_zero_point"] >> (4 * i)) & 15) - 8
    # Columns sorted by group, each group dequantized, columns put back.
    sorted_columns = numpy.argsort(tensors.get("weight_g_idx", numpy.arange(into)), kind="stable")
    grouped = codes[:, sorted_columns].reshape(out, scales.shape[1], -1)
    weights = ((grouped - zeros[:, :, None]) * scales[:, :, None]).reshape(out, into)
    return weights[:, numpy.argsort(sorted_columns)]


# gpt-oss's experts, all of a layer in one tensor.

E2M1 = numpy.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def mxfp4(random, experts, out, into):
    """Random codes and exponents [experts, out, into / 32 (, 16)], and what they mean."""
    codes = random.randint(0, 16, (experts, out, into // 32, 32))
    exponents = numpy.rint(math.log2(1.5 / math.sqrt(into) / 2.7) + 127 + random.uniform(-1, 1, codes.shape[:3])).astype(numpy.uint8)
    blocks = (codes[..., 0::2] | codes[..., 1::2] << 4).astype(numpy.uint8)
    weights = E2M1[codes] * 2.0 ** (exponents[..., None].astype(numpy.float64) - 127)
    return blocks, exponents, weights.reshape(experts, out, into)


def unpack_mxfp4(blocks, scales):
    """By a sign, two bits of exponent and one of mantissa, in twos of a byte."""
    codes = numpy.stack([blocks & 15, blocks >> 4], axis=-1).reshape(*blocks.shape[:-1], 32).astype(numpy.int64)
    exponent, mantissa = codes >> 1 & 3, codes & 1
    size = numpy.where(exponent == 0, 0.5 * mantissa, (1 + 0.5 * mantissa) * 2.0 ** (exponent - 1))
    values = numpy.ldexp(numpy.where(codes >> 3, -size, size), scales[..., None].astype(numpy.int64) - 127)
    return values.reshape(*blocks.shape[:2], -1)


# What the tools write into config.json.


def auto_gptq_config(desc_act):
    return {
        "bits": 4,
        "group_size": GROUP,
        "damp_percent": 0.01,
        "desc_act": desc_act,
        "static_groups": False,
        "sym": False,
        "true_sequential": True,
        "model_name_or_path": None,
        "model_file_base_name": None,
        "quant_method": "gptq",
        "checkpoint_format": "gptq",
    }


GPTQ_MODEL_CONFIG = {
    "bits": 8,
    "group_size": GROUP,
    "desc_act": False,
    "sym": True,
    "lm_head": False,
    "quant_method": "gptq",
    "checkpoint_format": "gptq_v2",
    "pack_dtype": "int32",
    "meta": {
        "quantizer": ["gptqmodel:2.2.0"],
        "uri": "https://github.com/modelcloud/gptqmodel",
        "damp_percent": 0.01,
        "damp_auto_increment": 0.0025,
        "static_groups": False,
        "true_sequential": True,
        "mse": 0.0,
    },
}

AWQ_CONFIG = {
    "bits": 4,
    "group_size": GROUP,
    "modules_to_not_convert": None,
    "quant_method": "awq",
    "version": "gemm",
    "zero_point": True,
}

FP8_BLOCK_CONFIG = {
    "activation_scheme": "dynamic",
    "fmt": "e4m3",
    "modules_to_not_convert": ["lm_head"],
    "quant_method": "fp8",
    "weight_block_size": [GROUP, GROUP],
}


def arguments(bits, kind, strategy, **others):
    return {
        "actorder": None,
        "block_structure": None,
        "dynamic": False,
        "group_size": None,
        "num_bits": bits,
        "observer": "minmax",
        "observer_kwargs": {},
        "strategy": strategy,
        "symmetric": True,
        "type": kind,
        **others,
    }


def compressed_config(form, weights, inputs, ignore, newer):
    """Older versions have no fields that say of what version they are; newer ones have more of all sorts."""
    group = {"input_activations": inputs, "output_activations": None, "targets": ["Linear"], "weights": weights}
    config = {
        "config_groups": {"group_0": group},
        "format": form,
        "global_compression_ratio": None if newer else 1.4579267886,
        "ignore": ignore,
        "kv_cache_scheme": None,
        "quant_method": "compressed-tensors",
        "quantization_status": "compressed",
    }
    if newer:
        group["format"] = form
        for each in (weights, inputs):
            if each:
                each["scale_dtype"] = None
                each["zp_dtype"] = None if each["symmetric"] else "torch.int8"
        config |= {"sparsity_config": {}, "transform_config": {}, "version": "0.12.2"}
    return config


def by_token(kind):
    return arguments(8, kind, "token", dynamic=True, observer=None)


def four_bits(**others):
    return arguments(4, "int", "group", group_size=GROUP, **others)


MIXTRAL_IGNORED = [f"model.layers.{layer}.block_sparse_moe.gate" for layer in range(2)] + ["lm_head"]

FORMATS = {
    "gptq4": (
        LLAMA,
        auto_gptq_config(False),
        lambda *layer: gptq(*layer, bits=4, symmetric=False, less=1, shuffled=False, biased=True),
        lambda tensors: unpack_gptq(tensors, 4, 1),
    ),
    "gptq4-act-order": (
        LLAMA,
        auto_gptq_config(True),
        lambda *layer: gptq(*layer, bits=4, symmetric=False, less=1, shuffled=True, biased=True),
        lambda tensors: unpack_gptq(tensors, 4, 1),
    ),
    "gptq8": (
        {**LLAMA, **TIED},
        GPTQ_MODEL_CONFIG,
        lambda *layer: gptq(*layer, bits=8, symmetric=True, less=0, shuffled=False, biased=False),
        lambda tensors: unpack_gptq(tensors, 8, 0),
    ),
    "awq4": (QWEN2, AWQ_CONFIG, awq, unpack_awq),
    "fp8-block": ({**QWEN3, **TIED, "intermediate_size": 112}, FP8_BLOCK_CONFIG, fp8_block, unpack_fp8_block),
    "fp8-tensor": (
        {**LLAMA, **TIED},
        compressed_config(
            "float-quantized", arguments(8, "float", "tensor"), arguments(8, "float", "tensor"), ["lm_head"], newer=False
        ),
        fp8_tensor,
        unpack_scaled,
    ),
    "fp8-channel": (
        {**LLAMA, **TIED},
        compressed_config("float-quantized", arguments(8, "float", "channel"), by_token("float"), ["lm_head"], newer=True),
        fp8_channel,
        unpack_scaled,
    ),
    "int8-channel": (
        {**LLAMA, **TIED},
        compressed_config("int-quantized", arguments(8, "int", "channel"), by_token("int"), ["lm_head"], newer=False),
        int8_channel,
        unpack_scaled,
    ),
    "packed4": (
        LLAMA,
        compressed_config("pack-quantized", four_bits(), None, ["lm_head"], newer=False),
        packed,
        unpack_packed,
    ),
    "packed4-asym": (
        LLAMA,
        compressed_config("pack-quantized", four_bits(symmetric=False), None, ["re:.*lm_head"], newer=True),
        lambda *layer: packed(*layer, symmetric=False),
        unpack_packed,
    ),
    "packed4-act-order": (
        LLAMA,
        compressed_config("pack-quantized", four_bits(symmetric=False, actorder="group"), None, ["lm_head"], newer=True),
        lambda *layer: packed(*layer, symmetric=False, shuffled=True),
        unpack_packed,
    ),
    "packed4-mixtral": (
        {**MIXTRAL, **TIED},
        compressed_config("pack-quantized", four_bits(), None, MIXTRAL_IGNORED, newer=True),
        packed,
        unpack_packed,
    ),
}

# In the order of a file: safetensors puts what needs most alignment first, so that everything is aligned.
DTYPES = {
    "I64": numpy.int64,
    "F32": numpy.float32,
    "I32": numpy.int32,
    "BF16": numpy.uint16,
    "F16": numpy.float16,
    "F8_E4M3": numpy.uint8,
    "I8": numpy.int8,
    "U8": numpy.uint8,
}


def write_safetensors(path, tensors):
    names = sorted(tensors, key=lambda name: (list(DTYPES).index(tensors[name][0]), name))
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name in names:
        dtype, values = tensors[name]
        assert values.dtype == DTYPES[dtype], name
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [offset, offset + values.nbytes]}
        offset += values.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            out.write(numpy.ascontiguousarray(tensors[name][1]).tobytes())


def read_safetensors(path):
    """BF16 as fp32, F8_E4M3 as its bits."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    del header["__metadata__"]
    tensors = {}
    for name, about in header.items():
        first, last = about["data_offsets"]
        values = numpy.frombuffer(data[8 + size + first : 8 + size + last], dtype=DTYPES[about["dtype"]])
        values = values.reshape(about["shape"])
        tensors[name] = from_bfloat16(values) if about["dtype"] == "BF16" else values
    return tensors


def is_quantized(name, shape):
    return len(shape) == 2 and not any(part in name for part in ("embed_tokens", "lm_head", "block_sparse_moe.gate."))


def make(name, seed):
    fields, quantization, quantize, unpack = FORMATS[name]
    config = {**COMMON, **fields}
    random = numpy.random.RandomState(seed)
    weights = make_goldens.random_weights(config, random)
    tensors, known = {}, {}
    for weight, shape in make_goldens.tensor_shapes(config).items():
        if is_quantized(weight, shape):
            layer = weight[: -len(".weight")]
            made, weights[weight] = quantize(random, layer, *shape, known)
            tensors.update({f"{layer}.{part}": tensor for part, tensor in made.items()})
        elif weight.endswith(".bias"):
            # AWQ is the only one here of a family with biases.
            half = weights[weight].astype(numpy.float16)
            tensors[weight], weights[weight] = ("F16", half), half.astype(numpy.float64)
        else:
            tensors[weight] = ("F32", weights[weight])
    tokens = random.randint(0, make_goldens.VOCABULARY, make_goldens.PROMPT_TOKENS).tolist()
    logits = make_goldens.forward(config, weights, tokens).numpy().astype("<f4")

    directory = OUTPUT / name
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps({**config, "quantization_config": quantization}, indent=2) + "\n")
    (directory / "tokenizer.json").write_text(json.dumps(make_goldens.tokenizer(), separators=(",", ":")) + "\n")
    write_safetensors(directory / "model.safetensors", tensors)
    (directory / "prompt.txt").write_text(" ".join(map(str, tokens)) + "\n")
    (directory / "logits.f32").write_bytes(logits.tobytes())

    stored = read_safetensors(directory / "model.safetensors")
    for weight, shape in make_goldens.tensor_shapes(config).items():
        if is_quantized(weight, shape):
            start = weight[: -len("weight")]
            parts = {part[len(start) :]: values for part, values in stored.items() if part.startswith(start)}
            assert numpy.array_equal(unpack(parts), weights[weight]), f"{name}: {weight} is not what was stored"
        else:
            assert numpy.array_equal(stored[weight], weights[weight]), f"{name}: {weight} is not what was stored"
    size = sum(path.stat().st_size for path in directory.iterdir())
    assert size < LARGEST_DIRECTORY, f"{name} has {size} bytes"
    print(f"{name}: {size} bytes, logits from {logits.min():.2f} to {logits.max():.2f}, deviation {logits.std():.2f}")


def make_mxfp4(name, seed):
    """As OpenAI's files have it, but for what is not in codes, which is fp32 here."""
    config = {**COMMON, **make_goldens.MODELS["gpt-oss"], "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2,
              "layer_types": ["sliding_attention", "full_attention"], "num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 8,
              "tie_word_embeddings": True}  # fmt: skip
    random = numpy.random.RandomState(seed)
    weights = make_goldens.random_weights(config, random)
    count, inner, hidden = config["num_local_experts"], config["intermediate_size"], config["hidden_size"]
    codes = {}
    for layer in range(config["num_hidden_layers"]):
        base = f"model.layers.{layer}.mlp.experts."
        for part, out, into in (("gate_up_proj", 2 * inner, hidden), ("down_proj", hidden, inner)):
            blocks, scales, means = mxfp4(random, count, out, into)
            assert numpy.array_equal(unpack_mxfp4(blocks, scales), means)
            codes[base + part + "_blocks"], codes[base + part + "_scales"] = blocks, scales
            for i in range(count):
                if part == "down_proj":
                    weights[f"{base}{i}.down_proj.weight"] = means[i]
                else:
                    weights[f"{base}{i}.gate_proj.weight"], weights[f"{base}{i}.up_proj.weight"] = means[i][0::2], means[i][1::2]
    tensors = {part: ("F32", values.astype(numpy.float32)) for part, values in make_goldens.joined(config, weights).items()
               if not part.endswith(("gate_up_proj", "down_proj"))}  # fmt: skip
    tensors |= {part: ("U8", values) for part, values in codes.items()}
    tokens = random.randint(0, make_goldens.VOCABULARY, make_goldens.PROMPT_TOKENS).tolist()
    logits = make_goldens.forward(config, weights, tokens).numpy().astype("<f4")
    quantization = {"modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"],
                    "quant_method": "mxfp4"}  # fmt: skip
    directory = OUTPUT / name
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps({**config, "quantization_config": quantization}, indent=2) + "\n")
    (directory / "tokenizer.json").write_text(json.dumps(make_goldens.tokenizer(), separators=(",", ":")) + "\n")
    write_safetensors(directory / "model.safetensors", tensors)
    (directory / "prompt.txt").write_text(" ".join(map(str, tokens)) + "\n")
    (directory / "logits.f32").write_bytes(logits.tobytes())
    size = sum(path.stat().st_size for path in directory.iterdir())
    assert size < LARGEST_DIRECTORY, f"{name} has {size} bytes"
    print(f"{name}: {size} bytes, logits from {logits.min():.2f} to {logits.max():.2f}, deviation {logits.std():.2f}")


def main():
    make_mxfp4("mxfp4", 201)
    for seed, name in enumerate(FORMATS):
        make(name, seed + 101)


if __name__ == "__main__":
    main()
