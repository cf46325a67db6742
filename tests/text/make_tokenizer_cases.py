#!/usr/bin/env python3
"""Trains the small tokenizers of tests/text/fixtures and writes the results of the `tokenizers` and `sentencepiece`
libraries for 20,480 strings. Run it by hand, with both libraries importable:

    python3 tests/text/make_tokenizer_cases.py

Strings are bytes, some of them broken UTF-8; the libraries see them decoded with errors="replace".
Symbols of `spm` that are equally frequent may change their order from run to run, so its two files belong together.

    tokenizer_strings.bin   for every string its length (u16, little endian) and its bytes
    tokenizer_NAME.json     a tokenizer.json; of `pieces`, the vocabulary of a GGUF file
    tokenizer_NAME.bin      for every string a hash of its ids (u32) and one of three decodings (u16)
    tokenizer_variants.json changes to the tokenizer `qwen`, each with the hashes of the first strings
"""
import copy
import io
import json
import random
import struct
import unicodedata
from pathlib import Path

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

FIXTURES = Path(__file__).parent / "fixtures"
STRINGS = 20480
VARIANT_STRINGS = 640
VOCABULARY = 1200
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]

QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+")
LLAMA3 = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")

WORDS = """the of and to in a is that it was for on are as with his they at be this from have or by one had not but
what all were when we there can an your which their said if do will each about how up out them then she many some so
these would other into has more her two like him see time could no make than first been its who now people my made over
did down only way find use may water long little very after words called just where most know Don't we'll I'M YOU'RE
it's they've he'd HTTP naïve façade Übergröße señor jalapeño Ångström coöperate""".split()
CODE = """for (int i = 0; i < n; ++i) {\n|\treturn x[i] * 3.14f;\n|}\n\n|def f(self, *args, **kwargs):\n|
    if not x:\n|
        print(f"{x!r}")\n|#include <vector>\n|std::vector<std::string> v{};|// TODO: fix|a->b.c()|x += 0x7fff;|
SELECT * FROM t WHERE id=42;|<div class="a">&nbsp;</div>|{"key": [1, 2.5e-3, null]}|$(VAR)/path/to/file.tar.gz|
https://example.org/a?b=c&d=%20e|\\n\\t\\u00e9|lambda x: x**2|&mut self|#[derive(Debug)]|@media (max-width: 60em)|
git commit -m 'x'|!=|==|<=>|&&|->|::|...|--|/* */|'''|```cpp\n""".replace("|\n", "|").split("|")
SPACES = [" ", " ", " ", "\t", "\n", "\r\n", "\r", "\u00a0", "\u3000", "\u2028", "\u180e", "\u0085", "\u200b", "\x0b",
          "\x0c", "\u2003", "\u202f", "\ufeff", "\x1c", "\u1680", "\u2581"]
EMOJI = ["👩‍👩‍👧‍👦", "👍🏽", "🇩🇪🇫🇷", "1️⃣", "🏳️‍🌈", "❤️", "😀", "🦙", "👨🏿‍🚀", "☃", "✈︎", "🫠", "\u200d", "\ufe0f"]
DIGITS = ["7", "42", "1234567", "3.14", "٣٤", "１２３", "²", "½", "Ⅷ", "१२", "①", "0x1F", "1,000", "10⁻³", "፲", "𝟙𝟚"]
SCRIPTS = [(0x370, 0x3FF), (0x400, 0x4FF), (0x590, 0x5FF), (0x600, 0x6FF), (0x900, 0x97F), (0xE00, 0xE7F),
           (0x1100, 0x11FF), (0x3040, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x1F00, 0x1FFF), (0xC0, 0x24F),
           (0x1D400, 0x1D7FF), (0x20000, 0x2A6DF), (0x1F300, 0x1F6FF), (0xF900, 0xFAFF), (0xFF00, 0xFFEF),
           (0xFB00, 0xFB4F), (0x2000, 0x206F), (0xE0000, 0xE007F)]
MARKS = [*range(0x300, 0x370), 0x5B0, 0x5C1, 0x64B, 0x94D, 0xE48, 0x1AB0, 0x20D0, 0x3099, 0x302A, 0x1D165]
FORGED = [*SPECIAL, "<|im_", "im_start|>", "<|im_start|im_end|>", "<<|im_end|>>", "<mask>", " <mask> ", "<MASK>",
          "<tool>", "</tool>", "<s>", "</s>", "<unk>", "<0x41>", "<|IM_END|>", "ab<mask>cd",
          "word", "a word", "words", "<pad>"]


def assigned(low, high):
    """Characters that are in the Unicode of Python (14.0, in 3.11), and so in that of PCRE2."""
    return [chr(code) for code in range(low, high + 1) if unicodedata.category(chr(code)) not in ("Cn", "Cs")]


ALL = assigned(0, 0x10FFFF)
SCRIPT_CHARACTERS = [assigned(low, high) for low, high in SCRIPTS]


class Strings:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def several(self, choices, low, high, joint=""):
        return joint.join(self.random.choice(choices) for _ in range(self.random.randint(low, high)))

    def prose(self):
        text = self.several(WORDS, 1, 6, " ")
        return self.random.choice([text, " " + text, text.capitalize() + ".", text.upper(), text + "!\n",
                                   "“" + text + "”"])

    def code(self):
        return self.several(CODE, 1, 3)

    def spaces(self):
        return self.several([*SPACES, *SPACES, *WORDS[:6]], 1, 8)

    def anything(self):
        return self.several(ALL, 1, 8)

    def script(self):
        return self.several(self.random.choice(SCRIPT_CHARACTERS), 1, 10)

    def marks(self):
        bases = [*"aeiouAEnNcCsz ", "각", "ᄀ", "ᅡ", "ᆨ", "か", "ǖ", "ﬁ", "Å", "Ω", "Ⓐ", "ﾊ", "ﾞ", "İ", "ß", "Σ"]
        count = self.random.randint
        return "".join(self.random.choice(bases) + "".join(map(chr, self.random.choices(MARKS, k=count(0, 4))))
                       for _ in range(count(1, 4)))

    def emoji(self):
        return self.several([*EMOJI, " ", "ok"], 1, 5)

    def digits(self):
        return self.several([*DIGITS, " ", "-", "a"], 1, 6)

    def forged(self):
        return self.several([*FORGED, *FORGED, " ", "  ", "\n", "x", "é", "user"], 1, 5)

    def plain(self):
        kinds = [self.prose, self.code, self.spaces, self.anything, self.script, self.marks, self.emoji, self.digits,
                 self.forged]
        kind = self.random.choice([*kinds, None, None])
        return kind() if kind else "".join(self.random.choice(kinds)()[:9] for _ in range(3))

    def broken(self):
        data = bytearray(self.plain().encode())
        for _ in range(self.random.randint(1, 4)):
            at = self.random.randint(0, len(data))
            change = self.random.randrange(4)
            if change == 0:
                data[at:at] = self.random.randbytes(self.random.randint(1, 3))
            elif change == 1 and data:
                data[at % len(data)] = self.random.choice([0x80, 0xBF, 0xC0, 0xC3, 0xE0, 0xED, 0xF0, 0xF4, 0xF8, 0xFF])
            elif change == 2:
                del data[at:at + self.random.randint(1, 3)]
            else:
                data[at:at] = self.random.choice([b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\xe2\x82", b"\xc0\xaf",
                                                  b"\xf4\x90"])
        return bytes(data)

    def next(self):
        return self.broken() if self.random.random() < 0.12 else self.plain().encode()


def fnv(data):
    state = 0xCBF29CE484222325
    for byte in data:
        state = ((state ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return state


def hashes(ids, decode):
    """Hashes of the ids, and of their decodings: in order, backwards, and without special tokens."""
    state = fnv(struct.pack(f"<{len(ids)}I", *ids))
    texts = [decode(ids, False), decode(ids[::-1], False), decode(ids, True)]
    other = fnv(b"\xff".join(text.encode() for text in texts))
    return struct.pack("<IH", (state ^ (state >> 32)) & 0xFFFFFFFF, (other ^ (other >> 16) ^ (other >> 32)) & 0xFFFF)


def expected(tokenizer, strings):
    def decode(ids, skip):
        return tokenizer.decode(ids, skip_special_tokens=skip)
    texts = [data.decode(errors="replace") for data in strings]
    return b"".join(hashes(encoding.ids, decode) for encoding in
                    tokenizer.encode_batch(texts, add_special_tokens=False))


def corpus():
    strings = Strings(1)
    kinds = [strings.prose, strings.prose, strings.prose, strings.code, strings.spaces, strings.script, strings.digits]
    return [strings.random.choice(kinds)() for _ in range(20000)]


def train(tokenizer, texts, special, alphabet):
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=special, initial_alphabet=alphabet,
                                  limit_alphabet=400, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def byte_level(pattern, texts, normalizer=None, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    return train(tokenizer, texts, SPECIAL, pre_tokenizers.ByteLevel.alphabet())


def qwen(texts):
    tokenizer = byte_level(QWEN, texts, normalizers.NFC())
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("</tool>", normalized=False)])
    return tokenizer


def llama3(texts):
    tokenizer = byte_level(LLAMA3, texts, ignore_merges=True)
    template = processors.TemplateProcessing(single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    return tokenizer


def gpt2(texts):
    """All words begin with a space, also the first; a mask token strips the space before it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    train(tokenizer, texts, SPECIAL, pre_tokenizers.ByteLevel.alphabet())
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    return tokenizer


def spm(texts):
    """A tokenizer like Llama 2's: no split at all, a mark for spaces, byte fallback."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    train(tokenizer, texts, special, [])
    data = json.loads(tokenizer.to_str())
    data["pre_tokenizer"] = None
    data["added_tokens"] = data["added_tokens"][:3]
    tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    return tokenizer


def step(kind, **fields):
    return {"type": kind, **fields}


def added(text, number, **flags):
    return {"id": number, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": False, **flags}


def variants(base):
    """Changes to fields of a tokenizer.json. Every kind of step occurs at least once."""
    size = 1 + max(token["id"] for token in base["added_tokens"])
    spelled = step("ByteLevel", add_prefix_space=False, trim_offsets=False, use_regex=False)

    def split(pattern, behavior, invert=False, kind="Regex"):
        return step("Split", pattern={kind: pattern}, behavior=behavior, invert=invert)

    def chain(*steps):
        return step("Sequence", pretokenizers=[*steps, spelled])

    def metaspace(scheme, divides=True):
        return {"pre_tokenizer": step("Sequence", pretokenizers=[
                    step("Metaspace", replacement="▁", prepend_scheme=scheme, split=divides), spelled]),
                "decoder": step("Sequence", decoders=[
                    step("Metaspace", replacement="▁", prepend_scheme=scheme, split=divides)])}

    some = base["added_tokens"]
    flagged = [added("<mask>", size, lstrip=True, special=True), added("<s>", size + 1, rstrip=True),
               added("word", size + 2, single_word=True), added("<MASK>", size + 3, normalized=True),
               added("naïve", size + 4, normalized=True, special=True),
               added("a w", size + 5, lstrip=True, rstrip=True)]
    changes = {
        "nfd": {"normalizer": step("NFD")},
        "nfkc lower case": {"normalizer": step("Sequence", normalizers=[step("NFKC"), step("Lowercase")]),
                            "added_tokens": [*some, *flagged]},
        "nfkd strip": {"normalizer": step("Sequence", normalizers=[step("Strip", strip_left=True, strip_right=True),
                                                                   step("NFKD")])},
        "strip left": {"normalizer": step("Strip", strip_left=True, strip_right=False)},
        "replace": {"normalizer": step("Sequence", normalizers=[
            step("Replace", pattern={"Regex": "\\s+|(?<=a)b"}, content=" "),
            step("Replace", pattern={"String": "th"}, content="Θ"),
            step("Prepend", prepend="_")])},
        "flags": {"added_tokens": [*some, *flagged]},
        "digits": {"pre_tokenizer": chain(step("Digits", individual_digits=True),
                                          step("Punctuation", behavior="Contiguous"))},
        "digit runs": {"pre_tokenizer": chain(step("Digits", individual_digits=False),
                                              step("Punctuation", behavior="Removed"))},
        "whitespace": {"pre_tokenizer": chain(step("Whitespace"))},
        "whitespace split": {"pre_tokenizer": chain(step("WhitespaceSplit"),
                                                    metaspace("first")["pre_tokenizer"]["pretokenizers"][0])},
        "with previous": {"pre_tokenizer": chain(split("\\s|e", "MergedWithPrevious"))},
        "with next": {"pre_tokenizer": chain(split("\\s|e", "MergedWithNext"))},
        "contiguous": {"pre_tokenizer": chain(split("\\w", "Contiguous"))},
        "removed": {"pre_tokenizer": chain(split("\\h", "Removed"))},
        "inverted": {"pre_tokenizer": chain(split("[^\\S\\n]+|\\p{L}{,3}+|\\u00e9", "Isolated", True))},
        "literal": {"pre_tokenizer": chain(split("e.", "Isolated", False, "String"), split("^.|.$", "Isolated"))},
        "metaspace always": metaspace("always"),
        "metaspace first": {**metaspace("first"), "added_tokens": [*some, *flagged]},
        "metaspace never": metaspace("never", False),
        "digits then bytes": {"pre_tokenizer": step("Sequence", pretokenizers=[
            step("Digits", individual_digits=True), step("ByteLevel", add_prefix_space=True, trim_offsets=True)])},
        "falcon": {"pre_tokenizer": step("Sequence", pretokenizers=[
            step("Punctuation", behavior="Contiguous"),
            step("ByteLevel", add_prefix_space=False, use_regex=True, trim_offsets=True),
            step("Digits", individual_digits=False), split("[0-9][0-9][0-9]", "Isolated")])},
        "strip all": {"decoder": step("Sequence", decoders=[step("Strip", content="Ġ", start=1, stop=0), step("Fuse"),
                                                            step("Strip", content="t", start=2, stop=0)])},
        "no decoder": {"decoder": None},
        "bytes then strip": {"decoder": step("Sequence", decoders=[
            step("Replace", pattern={"Regex": "t[hi]"}, content="T"),
            step("ByteLevel", add_prefix_space=True, trim_offsets=True, use_regex=True),
            step("Strip", content=" ", start=2, stop=0)])},
    }
    return changes


def write_variants(base, strings):
    result = []
    for name, change in variants(base).items():
        data = {**copy.deepcopy(base), **change}
        tokenizer = Tokenizer.from_str(json.dumps(data))
        for token in data["added_tokens"]:
            assert tokenizer.token_to_id(token["content"]) == token["id"], token
        # Version 0.23 decodes a normalized token to its normalized text; earlier versions, and attacca, to its content.
        decodes = all(tokenizer.id_to_token(token["id"]) == token["content"] for token in data["added_tokens"])
        result.append({"name": name, "change": change, "decodes": decodes,
                       "expected": expected(tokenizer, strings).hex()})
    (FIXTURES / "tokenizer_variants.json").write_text(json.dumps(result, ensure_ascii=False, indent=0) + "\n")


def write_pieces(texts, strings):
    """A SentencePiece model in the form of GGUF files."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text for text in texts if text and max(text) < "\u0500"), model_writer=model,
        vocab_size=VOCABULARY, model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
        remove_extra_whitespaces=False, character_coverage=0.995, minloglevel=2, num_threads=1)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    count = processor.get_piece_size()
    kinds = [2 if processor.is_unknown(i) else 3 if processor.is_control(i) else 6 if processor.is_byte(i) else 1
             for i in range(count)]
    pieces = {"tokens": [processor.id_to_piece(i) for i in range(count)],
              "scores": [processor.get_score(i) for i in range(count)], "types": kinds}
    (FIXTURES / "tokenizer_pieces.json").write_text(
        json.dumps(pieces, ensure_ascii=False, separators=(",", ":")) + "\n")
    result = b""
    for data in strings:
        text = data.decode(errors="replace")
        result += hashes(processor.encode(text), lambda ids, skip: text)
    (FIXTURES / "tokenizer_pieces.bin").write_bytes(result)


def main():
    FIXTURES.mkdir(exist_ok=True)
    source = Strings(2)
    strings = [source.next() for _ in range(STRINGS)]
    (FIXTURES / "tokenizer_strings.bin").write_bytes(b"".join(struct.pack("<H", len(data)) + data for data in strings))
    texts = corpus()
    for make in (qwen, llama3, gpt2, spm):
        tokenizer = make(texts)
        data = json.loads(tokenizer.to_str())
        (FIXTURES / f"tokenizer_{make.__name__}.json").write_text(
            json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n")
        (FIXTURES / f"tokenizer_{make.__name__}.bin").write_bytes(expected(tokenizer, strings))
        if make is qwen:
            write_variants(data, strings[:VARIANT_STRINGS])
    write_pieces(texts, strings)


if __name__ == "__main__":
    main()
