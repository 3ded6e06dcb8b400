"""The explorer: a traced mini-batch as one self-contained page, its data as JSON, and a static summary."""
