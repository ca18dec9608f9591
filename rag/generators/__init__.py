"""Answering models: each takes a prompt and streams an answer."""
