"""A byte-level BPE tokenizer: training, encoding, decoding and the Hugging Face `tokenizer.json` form of it.

It does what Hugging Face's ByteLevel pre-tokenizer and BPE model do: split by GPT-2's pattern, map bytes to printable
characters, apply merges by rank inside each piece. Python's `re` lacks \\p{L} and \\p{N}, so their ranges are spelled out.
"""

import json
import re
import sys
import unicodedata
from collections import Counter, defaultdict

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def ranges(initial):
    """A regex class body of all code points whose category starts with `initial`."""
    out, start = [], None
    for code in range(sys.maxunicode + 2):
        inside = code <= sys.maxunicode and unicodedata.category(chr(code))[0] == initial
        if inside and start is None:
            start = code
        elif not inside and start is not None:
            out.append((start, code - 1))
            start = None
    return "".join(f"\\U{a:08x}-\\U{b:08x}" for a, b in out)


SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
LETTER, NUMBER = ranges("L"), ranges("N")
PIECE = re.compile(f"'s|'t|'re|'ve|'m|'ll|'d| ?[{LETTER}]+| ?[{NUMBER}]+| ?[^{SPACE}{LETTER}{NUMBER}]+"
                   f"|[{SPACE}]+(?![^{SPACE}])|[{SPACE}]+")
SPECIAL_PIECE = re.compile("(" + "|".join(map(re.escape, SPECIAL)) + ")")


def byte_characters():
    """GPT-2's map of the 256 bytes to printable characters."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table, extra = {b: chr(b) for b in printable}, 0
    for b in range(256):
        if b not in table:
            table[b] = chr(256 + extra)
            extra += 1
    return table


TO_CHARACTER = byte_characters()
TO_BYTE = {c: b for b, c in TO_CHARACTER.items()}


class Tokenizer:
    def __init__(self, merges):
        self.merges = [tuple(m) for m in merges]
        self.rank = {m: i for i, m in enumerate(self.merges)}
        names = list(SPECIAL) + [TO_CHARACTER[b] for b in range(256)] + [a + b for a, b in self.merges]
        self.vocab = {name: i for i, name in enumerate(names)}
        self.names = names
        self.cache = {}

    def piece(self, text):
        if text not in self.cache:
            parts = [TO_CHARACTER[b] for b in text.encode()]
            while len(parts) > 1:
                best = min(range(len(parts) - 1), key=lambda i: self.rank.get((parts[i], parts[i + 1]), 1 << 30))
                if (parts[best], parts[best + 1]) not in self.rank:
                    break
                parts[best:best + 2] = [parts[best] + parts[best + 1]]
            self.cache[text] = [self.vocab[p] for p in parts]
        return self.cache[text]

    def encode(self, text):
        ids = []
        for part in SPECIAL_PIECE.split(text):
            if part in SPECIAL:
                ids.append(self.vocab[part])
            else:
                for piece in PIECE.findall(part):
                    ids += self.piece(piece)
        return ids

    def decode(self, ids):
        out = b""
        for i in ids:
            out += self.names[i].encode() if i < len(SPECIAL) else bytes(TO_BYTE[c] for c in self.names[i])
        return out.decode("utf-8", "replace")

    def save(self, path):
        added = [{"id": i, "content": s, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                  "special": True} for i, s in enumerate(SPECIAL)]
        level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
        model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                 "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                 "vocab": self.vocab, "merges": [f"{a} {b}" for a, b in self.merges]}
        whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
                 "pre_tokenizer": level, "post_processor": None, "decoder": level, "model": model}
        with open(path, "w", encoding="utf-8") as out:
            json.dump(whole, out, ensure_ascii=False, indent=1)
            out.write("\n")

    @staticmethod
    def load(path):
        with open(path, encoding="utf-8") as source:
            return Tokenizer([m.split(" ") for m in json.load(source)["model"]["merges"]])


def learn(texts, vocabulary):
    """Learns merges until the vocabulary is full; ties go to the smaller pair, so that a run can be repeated."""
    counts = Counter()
    for text in texts:
        counts.update(PIECE.findall(text))
    words = [[TO_CHARACTER[b] for b in piece.encode()] for piece in counts]
    weight = list(counts.values())
    pairs, where = Counter(), defaultdict(set)
    for i, word in enumerate(words):
        for pair in zip(word, word[1:]):
            pairs[pair] += weight[i]
            where[pair].add(i)
    merges = []
    while len(SPECIAL) + 256 + len(merges) < vocabulary:
        best = min(pairs, key=lambda p: (-pairs[p], p))
        merges.append(best)
        for i in sorted(where[best]):
            word, out, j = words[i], [], 0
            while j < len(word):
                if j + 1 < len(word) and (word[j], word[j + 1]) == best:
                    out.append(word[j] + word[j + 1])
                    j += 2
                else:
                    out.append(word[j])
                    j += 1
            for pair in zip(word, word[1:]):
                pairs[pair] -= weight[i]
            for pair in zip(out, out[1:]):
                pairs[pair] += weight[i]
                where[pair].add(i)
            words[i] = out
        del pairs[best], where[best]
    return Tokenizer(merges)
