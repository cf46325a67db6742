"""The model's tokenizer: byte-level BPE over GPT-2's split of the text.

    python3 tokenizer.py --text DIR --out tokenizer.json     trains it (needs the `tokenizers` package)
    python3 tokenizer.py --text DIR --encode DIR             packs generated text into rows of token ids (numpy only)

The training text has few distinct words, so encoding is one dictionary lookup per word after the first time.
"""

import argparse
import functools
import json
import multiprocessing
import pathlib
import re

END, USER_START, USER_END = SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
VOCABULARY = 4096
# GPT-2's split for ASCII text, where \p{L} is [A-Za-z] and \p{N} is [0-9].
_SPLIT = re.compile(r"'(?:[sdmt]|ll|ve|re)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")
_SPECIAL = re.compile("(" + "|".join(re.escape(token) for token in SPECIAL) + ")")


@functools.cache
def byte_characters():
    """The printable character that stands for each byte in the vocabulary, as GPT-2 defined it."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {byte: chr(byte) for byte in printable}
    table.update({byte: chr(256 + at) for at, byte in enumerate(byte for byte in range(256) if byte not in table)})
    return table


class Tokenizer:
    def __init__(self, path):
        model = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["model"]
        self.vocabulary = model["vocab"]
        self.merges = [tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in model["merges"]]
        self.pieces = sorted(self.vocabulary, key=self.vocabulary.get)
        self.ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        self.words = {}

    def encode(self, text):
        if not text.isascii():
            raise ValueError("this encoder is for the ASCII training text; use the `tokenizers` package for more")
        ids = []
        for part in _SPECIAL.split(text):
            if part in SPECIAL:
                ids.append(self.vocabulary[part])
            else:
                for word in _SPLIT.findall(part):
                    ids += self.words.get(word) or self._encode_word(word)
        return ids

    def _encode_word(self, word):
        pieces = [byte_characters()[byte] for byte in word.encode()]
        while len(pieces) > 1:
            rank, at = min(
                (self.ranks.get(pair, len(self.ranks)), at) for at, pair in enumerate(zip(pieces, pieces[1:]))
            )
            if rank == len(self.ranks):
                break
            pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
        self.words[word] = [self.vocabulary[piece] for piece in pieces]
        return self.words[word]

    def decode(self, ids):
        bytes_of = {character: byte for byte, character in byte_characters().items()}
        parts = (self.pieces[token] for token in ids)
        return b"".join(
            part.encode() if part in SPECIAL else bytes(bytes_of[c] for c in part) for part in parts
        ).decode(errors="replace")


def pack(tokenizer, text, length):
    """Rows of `length` ids. Each starts with a document; more follow after <|endoftext|> until the row is full."""
    import numpy

    end = tokenizer.vocabulary[END]
    rows, row = [], []
    for document in text.split(END):
        row += tokenizer.encode(document)
        if len(row) >= length:
            rows.append(row[:length])
            row = []
        else:
            row.append(end)
    return numpy.array(rows, dtype=numpy.uint16).reshape(-1, length)


def _pack_file(job):
    import numpy

    tokenizer_path, source, target, length = job
    rows = pack(Tokenizer(tokenizer_path), source.read_text(encoding="ascii"), length)
    numpy.save(target, rows)
    return rows.size


def encode_folder(tokenizer_path, texts, out, length):
    """Packs every .txt file of `texts` into an .npy file of `out`; returns the number of tokens."""
    out.mkdir(parents=True, exist_ok=True)
    jobs = [(tokenizer_path, path, out / (path.stem + ".npy"), length) for path in sorted(texts.glob("*.txt"))]
    with multiprocessing.Pool() as pool:
        return sum(pool.imap_unordered(_pack_file, jobs))


def train(texts, out):
    from tokenizers import Tokenizer as Trainee
    from tokenizers import decoders, models, pre_tokenizers, trainers

    trainee = Trainee(models.BPE())
    trainee.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainee.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    documents = (
        part
        for path in sorted(texts.glob("train-*.txt"))
        for part in _SPECIAL.split(path.read_text(encoding="ascii"))
        if part not in SPECIAL
    )
    trainee.train_from_iterator(documents, trainer)
    trainee.save(str(out), pretty=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    here = pathlib.Path(__file__).parent
    parser.add_argument("--text", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--encode", type=pathlib.Path)
    parser.add_argument("--length", type=int, default=1025)
    arguments = parser.parse_args()
    if arguments.out:
        train(arguments.text, arguments.out)
    if arguments.encode:
        total = encode_folder(
            arguments.out or here / "tokenizer.json", arguments.text, arguments.encode, arguments.length
        )
        print(f"{total / 1e6:.1f} M tokens")
