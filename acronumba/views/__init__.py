"""Reports, explanations and pictures for people; the only package that imports rich and networkx."""
