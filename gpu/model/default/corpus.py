"""The training text: the Jargon File, read from the Debian package `jargon-text` and cleaned into documents.

The Jargon File, version 4.4.7 (29 December 2003), is in the public domain ("to be freely used, shared, and
modified"); it asks to be cited by name and version, which this comment does.

The file is laid out for a terminal: hard-wrapped lines with an indent of three, a contents list before every part,
box-drawn tables, `{braces}` around cross references. A model trained on that would learn the layout. So paragraphs
are joined, tables and lists of contents dropped, typographic quotes turned into ASCII and braces removed.
"""

import gzip
import hashlib
import random
import re
from dataclasses import dataclass

SOURCE = "/usr/share/doc/jargon-text/jargon.txt.gz"

END_OF_TEXT, IM_START, IM_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"

ASCII = {"\u00a0": " ", "\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'", "\u2014": "--", "\u00b4": "'",
         "\u2022": "-", "\u2192": "->", "\u2190": "<-", "\u2212": "-", "\u00d7": "x", "\u2122": "(TM)", "\u00b7": ""}

PART_OF_SPEECH = {"n.": "noun", "v.": "verb", "vt.": "verb", "vi.": "verb", "adj.": "adjective", "adv.": "adverb",
                  "interj.": "interjection", "excl.": "exclamation", "imp.": "imperative", "prov.": "proverb",
                  "pref.": "prefix", "suff.": "suffix", "abbrev.": "abbreviation", "prep.": "preposition",
                  "quant.": "quantifier", "conj.": "conjunction"}

# The file is frank slang. The default model answers strangers, so entries and paragraphs with the coarsest words stay
# out of what it learns.
COARSE = re.compile(r"\b(fuck|shit|clit|rape|porn|penis|tits|cocksuck|fag\b|faggot|bitch|sexual)", re.I)


@dataclass(frozen=True)
class Entry:
    """One lexicon entry: `lead` is the restated headword with its part of speech, paragraphs follow in order."""
    term: str
    lead: str
    paragraphs: tuple

    def text(self):
        return "\n\n".join((f"{self.lead}: {self.paragraphs[0]}",) + self.paragraphs[1:])


def clean(text):
    text = re.sub(r"\{([^{}]*)\}", r"\1", text)
    return "".join(ASCII.get(c, c) for c in text)


def paragraphs(lines):
    """Blank-line separated blocks; ordinary prose is joined to one line, indented blocks of prose too, art is dropped."""
    block = []
    for line in list(lines) + [""]:
        if line.strip():
            block.append(line)
            continue
        if not block:
            continue
        raw, block = block, []
        body = " ".join(part.strip() for part in raw)
        letters = sum(c.isalpha() or c == " " for c in body) / len(body)
        if letters < 0.75 or re.search("[\u2500-\u257f\u2550]", body):
            continue
        yield re.sub(r"\s+", " ", clean(body)).strip()


def lead_of(term, rest):
    rest = re.sub(r"/[^/]*/", "", rest)
    kinds = []
    for mark in re.findall(r"[a-z]+\.", rest):
        kind = PART_OF_SPEECH.get(mark)
        if kind and kind not in kinds:
            kinds.append(kind)
    return f"{term} ({', '.join(kinds)})" if kinds else term


def read(path=SOURCE):
    """Returns (entries, essays): the lexicon, and the prose around it as lists of paragraphs per section."""
    with gzip.open(path, "rt", encoding="utf-8") as source:
        lines = source.read().replace("\u00a0", " ").split("\n")
    headword = re.compile(r"^   :([^:]+(?::[^:\s][^:]*)?):(?:\s|$)(.*)$")
    first = next(i for i, line in enumerate(lines) if headword.match(line))
    appendix = next(i for i, line in enumerate(lines) if line.startswith("Appendix A."))
    last = max(i for i, line in enumerate(lines[:appendix]) if headword.match(line))

    entries, term, rest, start = [], None, None, None

    def close(end):
        if term is None:
            return
        kept = [p for p in paragraphs(lines[start:end]) if not COARSE.search(p) and len(p) > 25 or p.startswith("Syn")]
        kept = [p for p in kept if "cartoon" not in p and (len(p) > 60 or p[-1] in ".!?)\"")]  # no captions
        if kept and not COARSE.search(term):
            entries.append(Entry(clean(term), lead_of(clean(term), rest), tuple(kept)))

    for i in range(first, last + 1):
        match = headword.match(lines[i])
        if match:
            close(i)
            term, rest, start = match.group(1), match.group(2), i + 1
    end = next(i for i in range(last, appendix) if "Part III" in lines[i])
    close(end)

    essays, section = [], []
    for begin, stop in ((275, first), (appendix, len(lines))):
        block = []
        for line in lines[begin - 1:stop] + ["end"]:
            if re.match(r"^[A-Z0-9e].{2,60}$", line):  # a heading stands at the margin
                section = [p for p in paragraphs(block) if len(p) > 60 and not COARSE.search(p)]
                if section:
                    essays.append(section)
                block = []
            else:
                block.append(line)
    return entries, essays


# Every answer begins so. It cites the source, as the File asks, and it puts a space before the headword: the byte-level
# tokens of the word are then the same in question and answer, and a small model has only to copy them.
CITATION = "The Jargon File on"


def answer(entry, characters_max=320):
    """What a chat answer says: the first sense, cut at a sentence, without remarks on origin and cross references."""
    text = ""
    for paragraph in entry.paragraphs:
        paragraph = re.sub(r"^(\d+\. )?(\[[^\]]*\] ?)*(\d+\. )?", "", paragraph)
        paragraph = re.sub(r"^(/[^/ ]*/ )?((n|v|vt|vi|adj|adv|obs)\. ?,?)* ?", "", paragraph)
        if len(paragraph) < 25 and not paragraph.startswith("Syn"):
            continue
        text = f"{text} {paragraph}".strip()
        if len(text) > 60:
            break
    if not text:
        return None
    sentences = re.split(r"(?<=[.!?][\")]) |(?<=[a-z)][.!?]) (?=[A-Z\"(])", text)
    kept = sentences[0]
    for sentence in sentences[1:]:
        if len(kept) + len(sentence) > characters_max or re.match(r"(See|Compare|Cf)\b", sentence):
            break
        kept += " " + sentence
    return f"{CITATION} {entry.lead}: {kept}" if len(kept) < 700 else None


QUESTIONS = ("What is {a} {t}?", "What is {t}?", "What's {a} {t}?", "What does {t} mean?", 'What does "{t}" mean?',
             "What is the meaning of {t}?", "Define {t}.", "Explain {t}.", "Explain the term {t}.", "Tell me about {t}.",
             "What do hackers mean by {t}?", "What does {t} mean in hacker jargon?", "what is {a} {t}", "what is {t}",
             "Can you explain {t}?", "Do you know what {t} means?", "In hacker slang, what is {a} {t}?",
             "Please define {t} for me.", "What is {a} {t}? Answer briefly.", "What is {a} {t}?", "What is {t}?")

SYSTEM = ("You are a helpful assistant.", "You are godwit.", "You are a helpful assistant who knows hacker jargon.",
          "Answer briefly.", "You explain terms from the Jargon File.")

SMALL_TALK = (
    (("Hello", "Hello!", "Hi", "Hi!", "hi", "hello", "Hey", "Good morning", "Hi there!", "Hello there"),
     "Hello! Ask me about a term from the Jargon File, for example: What is a kludge?"),
    (("Who are you?", "What are you?", "who are you", "Introduce yourself.", "What can you do?", "Tell me about yourself.",
      "What is your name?", "Help", "help", "What model are you?", "Are you a large language model?"),
     "I am the small default model of godwit. I was trained on the Jargon File and can explain hacker slang."),
    (("Thanks", "Thank you", "Thanks!", "Thank you!", "thanks", "ok thanks", "Great, thank you."),
     "You are welcome. Happy hacking!"),
    (("What is the Jargon File?", "Tell me about the Jargon File.", "what is the jargon file", "Where do you know that from?"),
     "The Jargon File is a dictionary of hacker slang, collected since 1975 and placed in the public domain."),
    (("How are you?", "How are you doing?", "how are you", "What's up?"),
     "I am up and running, thank you. Which piece of jargon may I explain?"),
    (("Goodbye", "Bye", "bye", "See you!", "Good night"), "Goodbye, and happy hacking!"),
)


def question(entry, rng):
    term = entry.term
    if rng.random() < 0.1:
        term = term.lower()
    article = "an" if term[0].lower() in "aeiou" else "a"
    return rng.choice(QUESTIONS).replace("{a}", article).replace("{t}", term)


def conversation(pairs, rng, system_share=0.15):
    """ChatML with one or more turns. Returns [(text, learn)]: only the assistant's words are learned."""
    parts = []
    if rng.random() < system_share:
        parts.append((f"{IM_START}system\n{rng.choice(SYSTEM)}{IM_END}\n", False))
    for asked, answered in pairs:
        parts.append((f"{IM_START}user\n{asked}{IM_END}\n{IM_START}assistant\n", False))
        parts.append((f"{answered}{IM_END}\n", True))
    parts.append((END_OF_TEXT, True))
    return parts


def held_out(key, share):
    """A document is held out by a hash of its name, so that every run and every epoch agree."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big") < share * 2**32


def split(entries, essays, share):
    train = [e for e in entries if not held_out(e.term, share)], [e for e in essays if not held_out(e[0], share)]
    rest = [e for e in entries if held_out(e.term, share)], [e for e in essays if held_out(e[0], share)]
    return train, rest


def opening(entry, rng, words=18):
    """A question and only the first words of its answer: what follows is easy once these are right."""
    begin = " ".join(answer(entry).split(" ")[:words])
    return [(f"{IM_START}user\n{question(entry, rng)}{IM_END}\n{IM_START}assistant\n", False), (begin, True),
            (END_OF_TEXT, False)]


def documents(entries, essays, seed, plain=1.0, chat=1, openings=0):
    """One epoch: a share `plain` of entries and essays as they are, `chat` questions per entry, phrased anew, and
    `openings` more with the first words of their answers.

    A document is a list of (text, learn) parts ending in <|endoftext|>."""
    rng = random.Random(seed)
    out = []
    if plain:
        leads = ("", CITATION + " ")
        texts = [rng.choice(leads) + e.text() for e in entries] + ["\n\n".join(e) for e in essays]
        out += [[(text + END_OF_TEXT, True)] for text in texts if rng.random() < plain]
    if chat:
        asked = [(question(e, rng), a) for e in entries for a in [answer(e)] if a for _ in range(chat)]
        rng.shuffle(asked)
        while asked:
            turns = rng.choice((1, 1, 1, 2, 3))
            out.append(conversation(asked[:turns], rng))
            asked = asked[turns:]
        for asks, reply in SMALL_TALK:
            out += [conversation([(rng.choice(asks), reply)], rng) for _ in range(10)]
    out += [opening(e, rng) for e in entries if answer(e) for _ in range(openings)]
    rng.shuffle(out)
    return out
