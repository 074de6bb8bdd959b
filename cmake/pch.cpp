// Compiled once so that its precompiled header (ATen) can be reused by every target that needs torch.
