# Registers the process group with torch.distributed, as the vendor's package does when it is imported.
import os

import torch.distributed

from habana_frameworks.torch.lib.upstream_pybind._hccl_C import *  # noqa: F403


def _create_process_group_hccl(backend_opts, pg_opts):
    return ProcessGroupHCCL(  # noqa: F405
        backend_opts.store, backend_opts.group_rank, backend_opts.group_size, backend_opts.group_id
    )


for _name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "ID"):
    int(os.environ[_name])  # the real one's logging and communication want them
if os.environ.get("CIRRUS_FAKE_HPU_FAULT") != "no_hccl":
    torch.distributed.Backend.register_backend(
        "hccl", _create_process_group_hccl, devices=["hpu"], extended_api=True
    )
