"""Of each exercise of each lesson: wrong answers, with what the check says of them."""

from __future__ import annotations

WRONG: dict[str, list[list[tuple[str, str]]]] = {
    "02_dataflow_graph": [
        [
            (
                "edges = [(0, 2), (1, 2), (2, 4), (3, 4), (0, 5)]",
                r"\(0, 5\) is no edge: 0 is encode_\d+, 5 is classify_",
            ),
            ("edges = [(0, 2), (1, 2), (2, 4), (3, 4), (4, 6)]", r"\(4, 6\) is no edge: there are 6 nodes"),
            ("edges = [(0, 2), (1, 2), (2, 4), (3, 4)]", r"4 of 5 edges are there"),
        ],
        [
            (
                "def count_nodes(t):\n"
                "    return 1 if t.left is None else count_nodes(t.left) + count_nodes(t.right) + 1\n",
                r"with 1 leaves you say 1, the recorded graph says 2",
            ),
        ],
        [("longest_chain = count_nodes", r"you say 2, the recorded graph says 1")],
    ],
    "03_depth": [
        [
            (
                "of_classify_wide, of_classify_all_deep, of_read_lists = 6, 11, 8",
                r"read, lists: 8 are too many. There are 2 phases",
            ),
            ("of_classify_wide, of_classify_all_deep, of_read_lists = 6, 4, 7", r"classify_all, deep: 4 are too few"),
        ],
        [
            (
                "five = [comb(3), balanced(3), leaf()]",
                r"three trees of different heights are wanted; yours are \[0, 3, 3\] high",
            ),
            ("five = [comb(5), comb(2), leaf()]", r"this mini-batch needs 7; its highest tree is 5 high"),
        ],
        [
            (
                "def batches_without_phases(trees):\n    return 2 + max(map(height, trees))\n",
                r"you say \d+, the trace has \d+",
            )
        ],
    ],
    "04_scheduling": [
        [
            ("order = 'aabab'", r"these words do not come to their end: baab"),
            ("order = 'ababab'", r"6 batches are valid, but it can be done in 5"),
        ],
        [
            (
                "def choose(ready, follows):\n    return min(ready, key=lambda key: len(ready[key]))\n",
                r"in total agenda needs \d+ batches, yours",
            ),
            ("def choose(ready, follows):\n    return max(ready)\n", r"agenda needs \d+ and yours \d+"),
        ],
        [
            ("mine = ['abab', 'aabb']", r"not optimal: yours \d batches"),
            ("mine = ['aab', 'abb']", r"depth is too good here: yours 4"),
        ],
    ],
}
