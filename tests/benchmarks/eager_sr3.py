"""The published SR3 network in plain eager PyTorch, as a competent user writes it: channels-last, torch.nn.functional,
fused Adam. Written from the published description and the layer names of the weight file, not from Cirrus' code."""
import math

import torch
import torch.nn.functional as F


def layout(config):
    """Names and shapes of the parameters, in order; scales of norms are those whose names end in norm.weight."""
    inner, multipliers, blocks = config["inner"], config["multipliers"], config["blocks"]
    shapes = {}

    def linear(name, i, o):
        shapes[name + ".weight"], shapes[name + ".bias"] = (o, i), (o,)

    def norm(name, c):
        shapes[name + ".weight"], shapes[name + ".bias"] = (c,), (c,)

    def conv(name, i, o, k, bias=True):
        shapes[name + ".weight"] = (o, i, k, k)
        if bias:
            shapes[name + ".bias"] = (o,)

    def block(name, i, o, attention):
        linear(name + ".embed", inner, o)
        norm(name + ".first.norm", i)
        conv(name + ".first", i, o, 3)
        norm(name + ".second.norm", o)
        conv(name + ".second", o, o, 3)
        if i != o:
            conv(name + ".skip", i, o, 1)
        if attention:
            norm(name + ".attention.norm", o)
            conv(name + ".attention.qkv", o, 3 * o, 1, False)
            conv(name + ".attention.out", o, o, 1)

    linear("embed.first", inner, 4 * inner)
    linear("embed.second", 4 * inner, inner)
    conv("head", 2, inner, 3)
    features, width = [inner], inner
    for level, m in enumerate(multipliers):
        for b in range(blocks):
            block(f"down.{level}.{b}", width, inner * m, level == config["attention_level"])
            width = inner * m
            features.append(width)
        if level + 1 < len(multipliers):
            conv(f"down.{level}.shrink", width, width, 3)
            features.append(width)
    block("middle.0", width, width, True)
    block("middle.1", width, width, False)
    for level in reversed(range(len(multipliers))):
        for b in range(blocks + 1):
            block(f"up.{level}.{b}", width + features.pop(), inner * multipliers[level], level == config["attention_level"])
            width = inner * multipliers[level]
        if level > 0:
            conv(f"up.{level}.grow", width, width, 3)
    norm("tail.norm", width)
    conv("tail", width, 1, 3)
    return shapes


def initial(config):
    """Random weights for a comparison of speed."""
    torch.manual_seed(1)
    weights = {}
    for name, shape in layout(config).items():
        if len(shape) > 1:
            weights[name] = torch.randn(shape) / math.sqrt(math.prod(shape[1:]))
        else:
            weights[name] = torch.full(shape, 1.0 if name.endswith("norm.weight") else 0.0)
    return weights


class Sr3(torch.nn.Module):
    def __init__(self, config, weights, dtype, dropout=0.0):
        super().__init__()
        self.config, self.dtype, self.dropout, self.frozen = config, dtype, dropout, None
        self.names = list(weights)
        for name, w in weights.items():
            w = w.clone(memory_format=torch.channels_last if w.dim() == 4 else torch.contiguous_format)
            self.register_parameter(name.replace(".", "_"), torch.nn.Parameter(w))

    def get(self, name):
        if self.frozen:
            return self.frozen.get(name)
        if name not in self.names:
            return None
        w = getattr(self, name.replace(".", "_"))
        return w if "norm" in name or "embed" in name else w.to(self.dtype)

    @torch.no_grad()
    def freeze(self):
        self.frozen = None
        self.frozen = {n: self.get(n).detach() for n in self.names}

    @torch.no_grad()
    def force_unit_weights(self):
        self.frozen = None

    def conv(self, x, name, stride=1):
        w = self.get(name + ".weight")
        return F.conv2d(x, w, self.get(name + ".bias"), stride, w.shape[-1] // 2)

    def norm(self, x, name):
        weight, bias = self.get(name + ".weight").to(x.dtype), self.get(name + ".bias").to(x.dtype)
        return F.group_norm(x, self.config["groups"], weight, bias)

    def block(self, x, name, e, train):
        h = self.conv(F.silu(self.norm(x, name + ".first.norm")), name + ".first")
        h = h + F.linear(e, self.get(name + ".embed.weight"), self.get(name + ".embed.bias")).to(h.dtype)[:, :, None, None]
        h = F.silu(self.norm(h, name + ".second.norm"))
        if train and self.dropout > 0:
            h = F.dropout(h, self.dropout)
        h = self.conv(h, name + ".second") + (self.conv(x, name + ".skip") if name + ".skip.weight" in self.names else x)
        if name + ".attention.qkv.weight" not in self.names:
            return h
        n, c, height, width = h.shape
        qkv = self.conv(self.norm(h, name + ".attention.norm"), name + ".attention.qkv")
        q, k, v = qkv.permute(0, 2, 3, 1).reshape(n, 1, height * width, 3 * c).chunk(3, -1)
        mixed = F.scaled_dot_product_attention(q, k, v).reshape(n, height, width, c).permute(0, 3, 1, 2)
        return h + self.conv(mixed, name + ".attention.out")

    def predict(self, noisy, g, maps, train):
        config, levels = self.config, len(self.config["multipliers"])
        half = config["inner"] // 2
        turns = g[:, None] * torch.exp(-math.log(1e4) * torch.arange(half) / half)
        linear = lambda x, name: F.linear(x, self.get(name + ".weight"), self.get(name + ".bias"))
        e = linear(F.silu(linear(torch.cat([turns.sin(), turns.cos()], 1), "embed.first")), "embed.second")
        h = self.conv(torch.cat([maps, noisy], 1).to(self.dtype, memory_format=torch.channels_last), "head")
        skips = [h]
        for level in range(levels):
            for b in range(config["blocks"]):
                h = self.block(h, f"down.{level}.{b}", e, train)
                skips.append(h)
            if level + 1 < levels:
                h = self.conv(h, f"down.{level}.shrink", 2)
                skips.append(h)
        h = self.block(self.block(h, "middle.0", e, train), "middle.1", e, train)
        for level in reversed(range(levels)):
            for b in range(config["blocks"] + 1):
                h = self.block(torch.cat([h, skips.pop()], 1), f"up.{level}.{b}", e, train)
            if level > 0:
                h = self.conv(F.interpolate(h, scale_factor=2, mode="nearest"), f"up.{level}.grow")
        return self.conv(F.silu(self.norm(h, "tail.norm")), "tail").float()

    def denoise(self, x, sigma, maps, scalars):
        g = (1 + sigma**2).rsqrt()
        return x - sigma.view(-1, 1, 1, 1) * self.predict(g.view(-1, 1, 1, 1) * x, g, maps, False)

    def loss(self, x0, noise, sigma, maps, scalars):
        g = (1 + sigma**2).rsqrt()
        noisy = (x0 + noise * sigma.view(-1, 1, 1, 1)) * g.view(-1, 1, 1, 1)
        return (noise - self.predict(noisy, g, maps, True)).abs().mean()


class Training:
    """Forward, backward, Adam at a fixed rate: the published loop, without its reading of the loss after each step."""

    def __init__(self, network):
        self.network = network
        network.force_unit_weights()
        self.parameters = list(network.parameters())
        self.adam = torch.optim.Adam(self.parameters, lr=1e-4, fused=True)

    def steps(self, count, batch):
        for _ in range(count):
            loss = self.network.loss(**batch)
            loss.backward()
            self.adam.step()
            self.adam.zero_grad(set_to_none=True)
        return loss.item()
