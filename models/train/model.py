"""Llama in PyTorch as Hugging Face computes it: RMS norm, rotation over halves, grouped queries, SwiGLU, tied head."""

import dataclasses

import torch
from torch import nn
from torch.nn import functional


@dataclasses.dataclass
class Shape:
    vocabulary: int = 4096
    context: int = 1024
    hidden: int = 384
    layers: int = 8
    heads: int = 6
    kv_heads: int = 2
    feed_forward: int = 640
    head_size: int = 64
    epsilon: float = 1e-5
    theta: float = 10000.0


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        wide, narrow = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
        self.attention_norm = nn.RMSNorm(shape.hidden, shape.epsilon)
        self.q = nn.Linear(shape.hidden, wide, bias=False)
        self.k = nn.Linear(shape.hidden, narrow, bias=False)
        self.v = nn.Linear(shape.hidden, narrow, bias=False)
        self.output = nn.Linear(wide, shape.hidden, bias=False)
        self.feed_forward_norm = nn.RMSNorm(shape.hidden, shape.epsilon)
        self.gate = nn.Linear(shape.hidden, shape.feed_forward, bias=False)
        self.up = nn.Linear(shape.hidden, shape.feed_forward, bias=False)
        self.down = nn.Linear(shape.feed_forward, shape.hidden, bias=False)

    def forward(self, x, cosine, sine):
        batch, length, _ = x.shape
        normed = self.attention_norm(x)
        q, k, v = (
            projection(normed).view(batch, length, -1, self.shape.head_size).transpose(1, 2)
            for projection in (self.q, self.k, self.v)
        )
        q, k = rotate(q, cosine, sine), rotate(k, cosine, sine)
        group = self.shape.heads // self.shape.kv_heads
        mixed = functional.scaled_dot_product_attention(
            q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), is_causal=True
        )
        x = x + self.output(mixed.transpose(1, 2).reshape(batch, length, -1))
        normed = self.feed_forward_norm(x)
        return x + self.down(functional.silu(self.gate(normed)) * self.up(normed))


def rotate(x, cosine, sine):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1).type_as(x)


class Llama(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.hidden)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.hidden, shape.epsilon)
        frequency = shape.theta ** (-torch.arange(0, shape.head_size, 2).float() / shape.head_size)
        angle = torch.outer(torch.arange(shape.context).float(), frequency)
        self.register_buffer("cosine", angle.cos(), persistent=False)
        self.register_buffer("sine", angle.sin(), persistent=False)
        residual = 0.02 / (2 * shape.layers) ** 0.5
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=residual if name.endswith(("output.weight", "down.weight")) else 0.02)

    def states(self, ids):
        """ids [batch, length] to the normed states that the head reads [batch, length, hidden]."""
        length = ids.shape[1]
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, self.cosine[:length], self.sine[:length])
        return self.norm(x)

    def head(self, states):
        return functional.linear(states, self.embedding.weight)

    def forward(self, ids):
        """ids [batch, length] to logits [batch, length, vocabulary]."""
        return self.head(self.states(ids))

    def loss(self, rows):
        """Mean cross-entropy of predicting each token of the rows [batch, length + 1] from those before it."""
        logits = self(rows[:, :-1])
        return functional.cross_entropy(logits.flatten(0, 1).float(), rows[:, 1:].flatten())


@torch.no_grad()
def generate(model, prompts, most, end, temperature=0.0, seed=0):
    """Continues all prompts (lists of ids) at once; greedy at temperature 0. Returns only what was added."""
    device = model.embedding.weight.device
    random = torch.Generator(device).manual_seed(seed)
    lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
    width = min(int(lengths.max()) + most, model.shape.context)
    ids = torch.full((len(prompts), width), end, device=device)
    for row, prompt in enumerate(prompts):
        ids[row, : len(prompt)] = torch.tensor(prompt, device=device)
    everyone = torch.arange(len(prompts), device=device)
    at, done = lengths.clone(), lengths >= width
    for _ in range(most):
        if done.all():
            break
        # Positions after a row's end hold padding, which causal attention never shows to the rows before it.
        logits = model.head(model.states(ids[:, : int(at.max())])[everyone, at - 1]).float()
        if temperature > 0:
            token = torch.multinomial(torch.softmax(logits / temperature, -1), 1, generator=random)[:, 0]
        else:
            token = logits.argmax(-1)
        ids[everyone[~done], at[~done]] = token[~done]
        at = torch.where(done, at, at + 1)
        done = done | (token == end) | (at >= width)
    return [ids[row, lengths[row] : at[row]].tolist() for row in range(len(prompts))]
