"""Retrieval, prompting and generation for Fusebox; works without a browser and never imports gradio or ``ui``."""

import os

__version__ = "0.2.0"

# onnxruntime reports its use to its maker unless this is set before it is loaded, here or in a process that reads pages.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
