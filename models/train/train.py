"""Trains the model on packed rows of tokens for a given time.

    python3 train.py --rows DIR --out DIR --minutes 6

The learning rate follows the clock: warm-up, then a cosine that ends when the time does. Leaves model.pt in the output
folder (and half.pt at half time, should the run be cut short) with the shape and float32 weights.
"""

import argparse
import dataclasses
import math
import pathlib
import time

import numpy
import torch

from model import Llama, Shape


def load_rows(folder, pattern, device):
    rows = numpy.concatenate([numpy.load(path) for path in sorted(folder.glob(pattern))])
    return torch.from_numpy(rows.astype(numpy.int16)).to(device)  # ids stay below 32768


def batches(rows, size, seed):
    random = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(len(rows), generator=random).to(rows.device)
        for at in range(0, len(rows) - size + 1, size):
            yield rows[order[at : at + size]].long()


@torch.no_grad()
def validate(model, rows, size):
    losses = [model.loss(rows[at : at + size].long()) for at in range(0, len(rows), size)]
    return torch.stack(losses).mean().item()


def save(model, path):
    weights = {name: weight.detach().float().cpu() for name, weight in model.state_dict().items()}
    torch.save({"shape": dataclasses.asdict(model.shape), "weights": weights}, path)


def optimizer_for(model, rate):
    matrices = [weight for weight in model.parameters() if weight.dim() == 2]
    vectors = [weight for weight in model.parameters() if weight.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95), fused=model.embedding.weight.is_cuda)


def compiled(model, rows, autocast):
    """model.loss compiled, or as it is where the compiler does not work."""
    loss = torch.compile(model.loss)
    try:
        with autocast:
            loss(rows).backward()
    except Exception as error:  # whatever the compiler's tool chain raises; eager still trains
        print(f"not compiled, going on without: {type(error).__name__}: {str(error)[:300]}", flush=True)
        loss = model.loss
    model.zero_grad(set_to_none=True)
    return loss


def train(arguments):
    torch.manual_seed(arguments.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows = load_rows(arguments.rows, "train-*.npy", device)
    held_out = load_rows(arguments.rows, "valid.npy", device)
    shape = Shape(
        **{
            field.name: getattr(arguments, field.name)
            for field in dataclasses.fields(Shape)
            if hasattr(arguments, field.name)
        },
        context=rows.shape[1] - 1,
    )
    model = Llama(shape).to(device)
    count = sum(weight.numel() for weight in model.parameters())
    print(f"{count / 1e6:.2f} M parameters, {rows.numel() / 1e6:.1f} M tokens, {shape}", flush=True)

    optimizer = optimizer_for(model, arguments.rate)
    autocast = torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")
    begin = time.time()
    source = batches(rows, arguments.batch, arguments.seed)
    loss_of = compiled(model, next(source), autocast) if device.type == "cuda" else model.loss
    print(f"ready to train after {time.time() - begin:.0f} s", flush=True)

    begin, step, is_half_saved = time.time(), 0, False
    limit = arguments.minutes * 60
    reported = begin
    while True:
        progress = (time.time() - begin) / limit if not arguments.steps else step / arguments.steps
        if progress >= 1:
            break
        rate = arguments.rate * min((step + 1) / arguments.warmup, 0.02 + 0.49 * (1 + math.cos(math.pi * progress)))
        for group in optimizer.param_groups:
            group["lr"] = rate
        with autocast:
            loss = loss_of(next(source))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
        if step % 50 == 0:
            value = loss.item()  # waits for the GPU, which keeps the clock honest
            tokens = 50 * arguments.batch * shape.context / (time.time() - reported)
            reported = time.time()
            if step % 200 == 0 or arguments.steps:
                print(
                    f"step {step:6}  {reported - begin:5.0f} s  loss {value:.4f}  rate {rate:.2e}  "
                    f"{tokens / 1e6:.2f} M tokens/s",
                    flush=True,
                )
        if progress >= 0.5 and not is_half_saved:
            save(model, arguments.out / "half.pt")
            is_half_saved = True
    save(model, arguments.out / "model.pt")
    with autocast:
        print(
            f"{step} steps, {step * arguments.batch * shape.context / 1e6:.0f} M tokens, "
            f"{step * arguments.batch / len(rows):.1f} epochs, held-out loss {validate(model, held_out, 64):.4f}",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--minutes", type=float, default=6)
    parser.add_argument("--steps", type=int, default=0, help="train for that many steps instead of a time")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--warmup", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    for name in ("hidden", "layers", "heads", "kv_heads", "feed_forward"):
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=getattr(Shape, name))
    train(parser.parse_args())
