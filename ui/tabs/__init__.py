"""One module per tab: components and their wiring."""
