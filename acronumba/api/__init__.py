"""What a user holds: models, packs, results, traces, explanations, and the verdicts of `check`."""
