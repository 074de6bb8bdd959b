# Stands in for the vendor's package of this name: imports what the real one imports, in its order.
import ctypes
import os

import torch

_folder = os.path.dirname(__file__)
with open(os.path.join(_folder, "required_version.txt")) as _file:
    _required = _file.read().split(".")[:2]
if torch.__version__.split(".")[:2] != _required:
    raise AssertionError(f"built for PyTorch {'.'.join(_required)}, and this is {torch.__version__}")
if os.environ.get("CIRRUS_FAKE_HPU_FAULT") == "no_package":
    raise ImportError("libSynapse.so: cannot open shared object file\nand more lines")
ctypes.CDLL(os.path.join(_folder, "lib", "libhabana_pytorch_plugin.so"), ctypes.RTLD_GLOBAL)

import habana_frameworks.torch.distributed.hccl  # noqa: E402
