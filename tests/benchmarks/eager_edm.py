"""The `edm` network in plain eager PyTorch, as a competent user writes it: channels-last, torch.nn.functional, fused
Adam, no compilation. Written from the method (Karras et al. 2024, arXiv 2312.02696, configuration G without attention;
Karras et al. 2022, arXiv 2206.00364, preconditioning) and the layer names of the weight file, not from Cirrus' code."""
import math

import torch
import torch.nn.functional as F

HARDSWISH_RMS = 0.5758188735513412
BAND_SIGMAS = (0.85, 1.7, 3.4)
SIGMA_DATA = 0.5
BALANCE = 0.3


# ---- the Fourier features of the noise level: constants drawn from Philox4x32-10 at fixed addresses


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def uniforms(item, count, purpose=6):
    key = (0, (purpose * 0x9E3779B9) & 0xFFFFFFFF)
    words = [w for block in range((count + 3) // 4) for w in philox((block, 0, item, 0), key)]
    return [(w + 0.5) / 2**32 for w in words[:count]]


def fourier_features(count):
    u = uniforms(1_000_001, 2 * count)
    normal = [math.sqrt(-2 * math.log(u[2 * i])) * math.cos(2 * math.pi * u[2 * i + 1]) for i in range(count)]
    return 2 * math.pi * torch.tensor(normal), 2 * math.pi * torch.tensor(uniforms(1_000_002, count))


# ---- operators


def act(x):
    return F.hardswish(x) / HARDSWISH_RMS


def mp_sum(a, b, t):
    return a.lerp(b, t) / math.sqrt((1 - t) ** 2 + t**2)


def mp_cat(a, b):
    c = math.sqrt((a.shape[1] + b.shape[1]) / 0.5) * 0.5
    return torch.cat([a * (c / math.sqrt(a.shape[1])), b * (c / math.sqrt(b.shape[1]))], 1)


def pixel_norm(x):
    norm = torch.linalg.vector_norm(x, dim=1, keepdim=True, dtype=torch.float32)
    return x * (norm.square() / x.shape[1] + 1e-8).rsqrt().to(x.dtype)


def normalize(w):
    return w / torch.linalg.vector_norm(w, dim=tuple(range(1, w.dim())), keepdim=True).add(1e-8)


def gaussian(sigma):
    r = math.ceil(3.5 * sigma)
    k = torch.exp(-0.5 * (torch.arange(-r, r + 1, dtype=torch.float64) / sigma) ** 2)
    return (k / k.sum()).float()


def band_pass(x):
    """[N, 1, H, W] -> [N, 4, H, W]: differences of successive Gaussian blurs, zero outside."""
    low = []
    for sigma in BAND_SIGMAS:
        k = gaussian(sigma)
        y = F.conv2d(x, k.view(1, 1, -1, 1), padding=(len(k) // 2, 0))
        low.append(F.conv2d(y, k.view(1, 1, 1, -1), padding=(0, len(k) // 2)))
    return torch.cat([x - low[0], low[0] - low[1], low[1] - low[2], low[2]], 1)


def band_noise_gains():
    impulse = torch.zeros(1, 1, 65, 65)
    impulse[0, 0, 32, 32] = 1
    return band_pass(impulse).double().square().sum((0, 2, 3)).sqrt()


# ---- network


class Edm(torch.nn.Module):
    def __init__(self, config, weights, dtype):
        super().__init__()
        self.config, self.dtype, self.frozen = config, dtype, None
        self.names = list(weights)
        for name, w in weights.items():
            w = w.clone(memory_format=torch.channels_last if w.dim() == 4 else torch.contiguous_format)
            self.register_parameter(name.replace(".", "_"), torch.nn.Parameter(w))
        self.frequencies, self.phases = fourier_features(64)
        self.rms2 = torch.tensor(config["band_rms"]).square()
        self.noise2 = band_noise_gains().square().float()

    def raw(self, name):
        return getattr(self, name.replace(".", "_"))

    def weight(self, name):
        return self.frozen[name] if self.frozen else normalize(self.raw(name)).to(self.dtype)

    def layers(self):
        return [n for n in self.names if not n.startswith("gain.")]

    @torch.no_grad()
    def freeze(self):
        self.frozen = {n: normalize(self.raw(n)).to(self.dtype) for n in self.layers()}

    @torch.no_grad()
    def force_unit_weights(self):
        self.frozen = None
        for name in self.layers():
            w = self.raw(name)
            w.copy_(normalize(w) * math.sqrt(w[0].numel()))

    def conv(self, x, name):
        w = self.weight(name)
        return F.conv2d(x, w, padding=w.shape[-1] // 2)

    def linear(self, x, name):
        return F.linear(x, self.weight(name).float())

    def block(self, x, name, scales, encoder):
        if name + ".skip" in self.names:
            if encoder:
                x = self.conv(x, name + ".skip")
        if encoder:
            x = pixel_norm(x)
        y = self.conv(act(x), name + ".first")
        y = act(y * next(scales).to(y.dtype)[:, :, None, None])
        y = self.conv(y, name + ".second")
        if not encoder and name + ".skip" in self.names:
            x = self.conv(x, name + ".skip")
        return mp_sum(x, y, BALANCE)

    def raw_output(self, x, sigma, maps, scalars):
        config, levels = self.config, len(self.config["widths"])
        fourier = math.sqrt(2) * torch.cos((sigma.log() / 4)[:, None] * self.frequencies + self.phases)
        known = torch.cat([scalars, torch.ones_like(scalars[:, :1])], 1)
        e = act(mp_sum(self.linear(fourier, "embed.noise"), self.linear(known, "embed.scalars"), 0.5))
        widths = config["widths"]
        sizes = [w for w in widths for _ in range(config["blocks"])] + [widths[-1]] * config["middle_blocks"]
        sizes += [w for w in reversed(widths[:-1]) for _ in range(config["blocks"])]
        scales = iter((1 + self.linear(e, "embed.scales") * self.gain_scales).split(sizes, 1))
        band_gains = self.linear(e, "embed.bands") * self.gain_bands

        bands = band_pass(x) * (self.rms2 + sigma[:, None] ** 2 * self.noise2).rsqrt()[:, :, None, None]
        h = F.pixel_unshuffle(torch.cat([bands, maps, torch.ones_like(x)], 1), 2)
        h = self.conv(h.to(self.dtype, memory_format=torch.channels_last), "stem")
        skips = []
        for level in range(levels):
            if level > 0:
                h = F.avg_pool2d(h, 2)
            for b in range(config["blocks"]):
                h = self.block(h, f"encoder.{level}.{b}", scales, True)
                if level + 1 < levels:
                    skips.append(h)
        for b in range(config["middle_blocks"]):
            h = self.block(h, f"middle.{b}", scales, True)
        for level in reversed(range(levels - 1)):
            h = F.interpolate(h, scale_factor=2, mode="nearest")
            for b in reversed(range(config["blocks"])):
                h = self.block(mp_cat(h, skips.pop()), f"decoder.{level}.{b}", scales, False)
        head = F.pixel_shuffle(self.conv(h, "head").float(), 2)
        return head * self.gain_head + (bands * band_gains[:, :, None, None]).sum(1, keepdim=True)

    @staticmethod
    def preconditioning(sigma):
        s = sigma.view(-1, 1, 1, 1)
        total = s**2 + SIGMA_DATA**2
        return SIGMA_DATA**2 / total, s * SIGMA_DATA * total.rsqrt()

    def denoise(self, x, sigma, maps, scalars):
        skip, out = self.preconditioning(sigma)
        return skip * x + out * self.raw_output(x, sigma, maps, scalars)

    def loss(self, x0, noise, sigma, maps, scalars):
        skip, out = self.preconditioning(sigma)
        x = x0 + noise * sigma.view(-1, 1, 1, 1)
        return F.mse_loss(self.raw_output(x, sigma, maps, scalars), (x0 - skip * x) / out)


class Training:
    """Forward, backward, clipping, Adam, forced weight normalisation, moving average."""

    def __init__(self, network, rate=1e-3, gamma=6.94):
        self.network, self.gamma, self.updates = network, gamma, 0
        network.force_unit_weights()
        self.parameters = list(network.parameters())
        self.averaged = [p.detach().clone() for p in self.parameters]
        self.adam = torch.optim.Adam(self.parameters, lr=rate, betas=(0.9, 0.99), eps=1e-8, fused=True)

    def steps(self, count, batch):
        for _ in range(count):
            loss = self.network.loss(**batch)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.parameters, 1.0, foreach=True)
            self.adam.step()
            self.adam.zero_grad(set_to_none=True)
            self.network.force_unit_weights()
            self.updates += 1
            with torch.no_grad():
                beta = (1 - 1 / self.updates) ** (self.gamma + 1)
                torch._foreach_lerp_(self.averaged, self.parameters, 1 - beta)
            value = loss.item()
        return value


@torch.no_grad()
def sample(network, noise, maps, scalars, steps=4, sigma_min=0.01, sigma_max=40.0, rho=7):
    """DPM-Solver++(2M) (Lu et al. 2022) on the noise levels of EDM, Eq. 5. maps: [M, H, W], scalars: [S]."""
    n = noise.shape[0]
    maps, scalars = maps.expand(n, -1, -1, -1), scalars.expand(n, -1)
    ends = [s ** (1 / rho) for s in (sigma_max, sigma_min)]
    sigma = [(ends[0] + i / (steps - 1) * (ends[1] - ends[0])) ** rho for i in range(steps)] + [0.0]
    x, previous, last = noise * sigma_max, None, 0.0
    for now, following in zip(sigma, sigma[1:]):
        d = network.denoise(x, torch.full((n,), now), maps, scalars)
        if following == 0:
            return d
        h = math.log(now / following)
        direction = d if previous is None else d + (d - previous) * (h / (2 * last))
        x = x * (following / now) - direction * math.expm1(-h)
        previous, last = d, h
