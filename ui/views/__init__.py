"""Views: pure functions from a trace and the corpus to HTML. No gradio inside, and nothing is recomputed."""
