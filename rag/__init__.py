"""Retrieval, prompting and generation for Fusebox; works without a browser and never imports gradio or ``ui``."""

__version__ = "0.1.0"
