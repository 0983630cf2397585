import os

os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # tests run side by side; spinning threads would slow all of them
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["JSONARGPARSE_DEPRECATION_WARNINGS"] = "off"

import torch

torch.set_num_threads(1)
