"""Question sets, scores, runs: everything that is about more than one question."""
