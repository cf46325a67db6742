"""How good a model is: its loss on held-out text, how often its small skills are right, and samples to read.

python3 evaluate.py attacca-small.gguf [--rows DIR] [--checkpoint model.pt] [--samples samples.txt]
"""

import argparse
import pathlib
import random

import torch

import skills
from dialogue import new_story, request
from export import load, read
from model import generate
from tokenizer import USER_END, Tokenizer
from train import load_rows, validate

EXACT = (
    "colour",
    "opposite",
    "sound",
    "animal_fact",
    "ability",
    "compare",
    "arithmetic",
    "word_problem",
    "counting",
    "calendar",
    "word_form",
    "reading",
    "rename",
    "repeat",
    "purpose",
)
CHATS = (
    "Tell me a story about a fox and a lantern.",
    "Tell me a story about a brave mouse and a kite.",
    "Tell me a story.",
    "Write a short story about a robot named Zorp who finds a drum.",
    "Can you tell me a story about sharing?",
    "tell me a bedtime story about an owl",
    "Tell me a story about a dragon and a teapot by the sea.",
    "A story about a wombat and an accordion, please.",
    "Tell me a story about Anna and her bicycle.",
    "Hello!",
    "Who are you?",
    "What can you do?",
    "What colour is snow?",
    "What is the opposite of brave?",
    "Count from 3 to 9.",
    "What is 7 + 8?",
    "How many legs does a spider have?",
    "Write a poem about the moon.",
    "Write a poem about a cat.",
    "Tell me a riddle.",
    "Change the name to Leo: Pip found a key and he was happy.",
    "Tom has a red ball. Anna has a blue hat. What does Anna have?",
    "What is the capital of France?",
    "How do I bake bread?",
    "Explain GPUs.",
    "What comes after Tuesday?",
    "I am sad.",
    "Continue this story: Once upon a time, there was a little bear named Bruno.",
    "Thank you!",
    "Name three birds.",
)
OPENINGS = (
    "Once upon a time",
    "Once upon a time, there was a fox named Pip. He had a golden lantern.",
    "One dark night,",
    "The old clockmaker",
    '"Where is my key?" asked',
)


def chat(*messages):
    roles = ("user", "assistant") * len(messages)
    turns = "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in zip(roles, messages))
    return turns + "<|im_start|>assistant\n"


def complete(model, tokenizer, prompts, most, temperature=0.0):
    end = tokenizer.vocabulary[USER_END]
    outputs = generate(model, [tokenizer.encode(prompt) for prompt in prompts], most, end, temperature)
    return [tokenizer.decode(output).replace(USER_END, "") for output in outputs]


def check_skills(model, tokenizer, each):
    """The share of exactly right answers, by skill."""
    rng = random.Random("evaluate")
    asked = [(name, *getattr(skills, name)(rng)) for name in EXACT for _ in range(each)]
    answers = complete(model, tokenizer, [chat(question) for _, question, _ in asked], 90)
    shares = {}
    for (name, question, wanted), answer in zip(asked, answers):
        # A rhyme has several right answers, so it is not counted.
        shares.setdefault(name, []).append(answer == wanted or "rhyme" in question)
    return {name: sum(right) / len(right) for name, right in shares.items()}


def check_stories(model, tokenizer, count):
    """Of stories asked for by a kind and a thing: the shares that mention both, that end by themselves."""
    rng = random.Random("stories")
    wanted = []
    while len(wanted) < count:
        story = new_story(rng)
        if "o" in story.roles:
            wanted.append((story.roles["h"].kind, story.roles["o"].noun, request(story)))
    prompts = [chat(f"Tell me a story about a {kind} and a {noun}.") for kind, noun, _ in wanted]
    texts = complete(model, tokenizer, prompts, 420, temperature=0.7)
    both = sum(kind in text and noun in text for (kind, noun, _), text in zip(wanted, texts)) / count
    ended = sum(text.rstrip().endswith((".", "!", '"')) for text in texts) / count
    return both, ended


def report(model, tokenizer, samples, each):
    shares = check_skills(model, tokenizer, each)
    print("skills right: " + ", ".join(f"{name} {share:.0%}" for name, share in shares.items()), flush=True)
    both, ended = check_stories(model, tokenizer, 2 * each)
    print(f"stories: {both:.0%} mention what was asked for, {ended:.0%} end with a whole sentence", flush=True)
    prompts = [chat(question) for question in CHATS] + list(OPENINGS)
    lines = []
    for temperature in (0.0, 0.8):
        lines.append(f"==== temperature {temperature}")
        for prompt, text in zip((*CHATS, *OPENINGS), complete(model, tokenizer, prompts, 420, temperature)):
            lines.append(f"> {prompt}\n{text}\n")
    samples.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--rows", type=pathlib.Path)
    parser.add_argument("--checkpoint", type=pathlib.Path)
    parser.add_argument("--samples", type=pathlib.Path, default=pathlib.Path("samples.txt"))
    parser.add_argument("--each", type=int, default=50, help="questions for each skill")
    parser.add_argument("--tokenizer", type=pathlib.Path, default=pathlib.Path(__file__).parent / "tokenizer.json")
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    quantized = read(arguments.model).to(device).eval()
    if arguments.rows:
        held_out = load_rows(arguments.rows, "valid.npy", device)
        if arguments.checkpoint:
            print(f"held-out loss {validate(load(arguments.checkpoint).to(device), held_out, 32):.5f} in float32")
        print(f"held-out loss {validate(quantized, held_out, 32):.5f} of {arguments.model.name}", flush=True)
    report(quantized, Tokenizer(arguments.tokenizer), arguments.samples, arguments.each)
