"""The user's objects: models, packs, results, traces, explanations, and the verdicts of `check`."""
