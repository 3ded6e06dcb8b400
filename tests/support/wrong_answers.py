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
            ("edges = ['02', '12']", r"'02' is no edge: write a pair of two integers"),
            ("edges = [('0', '2')]", r"\('0', '2'\) is no edge: write a pair of two integers"),
        ],
        [
            (
                "def count_nodes(t):\n"
                "    return 1 if t.left is None else count_nodes(t.left) + count_nodes(t.right) + 1\n",
                r"of random_trees\[0\] \(leaves: 1\) you say 1, the recorded graph says 2",
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
    "08_computed_decisions": [
        [
            (
                "def rounds_of(texts):\n    return max(map(len, texts))\n",
                r"texts of lengths \[0\] took 1 rounds, not 0",
            ),
            (
                "def rounds_of(texts):\n    return 1 + max(map(len, texts))\n\n\n"
                "def waits_of(texts):\n    return sum(len(text) + 1 for text in texts)\n",
                r"there were \d+ waits, not \d+",
            ),
        ],
        [
            (
                "def rounds_without_fibers(trees):\n    return CHILDREN * max(map(count, trees))\n",
                r"the trees waited \[27\] times and took 27 rounds, not 42 \(sizes \[14\]\)",
            )
        ],
        [
            (
                "def grow_side_by_side(h, level, p):\n"
                "    if level == 2:\n        return Node(h, [])\n"
                "    return Node(h, [grow_side_by_side(np.tanh(w @ h), level + 1, p) for w in p.grow])\n",
                r"the tree of start 0 is another one: 13 nodes, not 14",
            )
        ],
    ],
    "01_why_batch": [
        [
            (
                "def estimate(size, n):\n    return 4 * size * size / n\n",
                r"for size 64 and n = 64, .* your estimate is 0.25 times that: what else is read or written",
            ),
            (
                "def estimate(size, n):\n    return size * size / n + 2 * size\n",
                r"for size 64 and n = 1, .* is 0.25 times",
            ),
        ],
        [
            (
                "@model\ndef mine(x: np.ndarray, *, w: np.ndarray):\n    return w.T @ x\n",
                r"one instance alone moves [\d,]+ bytes, one of 64 moves [\d,]+: what is read once",
            ),
            ("@model\ndef mine(x: np.ndarray, *, w: np.ndarray):\n    return x\n", r"nothing is computed from x"),
        ],
    ],
    "05_fusion": [
        [
            ("kernels = dict.fromkeys(kernels, 1)", r"`gates =` and `c = p.keep` are not in one kernel"),
            (
                "kernels = dict(zip(kernels, (1, 2, 2, 2, 3, 4), strict=True))",
                r"`gates =` and `i, f, o, g =` are in one kernel",
            ),
            ("kernels = {'gates =': 1}", "six lines are asked for; you gave 1"),
        ],
        [
            (
                "def nodes_without_blocks(sentences):\n    return 17 * sum(map(len, sentences))\n",
                r"the graph of \[\[0\]\] has 18 nodes, you say 17",
            )
        ],
        [
            (
                "def lstm_in_two(x, h, c, p):\n"
                "    i, f, o, g = np.split(x + p.u @ h, 4)\n    return nn.sigmoid(o) * c, c\n",
                "the results are not those of the cell above",
            ),
            (
                "def lstm_in_two(x, h, c, p):\n    if True:\n        return lstm(x, h, c, p)\n",
                "still one kernel, lstm_.* and what does it do then",
            ),
        ],
    ],
    "07_hoisting": [
        [
            (
                "where['cell.w @ p.embed[word]'] = 'once per sentence'",
                r"`cell.w @ p.embed\[word\]` is not computed in 'once per",
            ),
            (
                "where = dict.fromkeys(where, 'all words at once')",
                r"`cell.u @ h` is not computed in 'all words at once': which of its operands",
            ),
        ],
        [
            (
                "def batches(lengths, hoist, duplicate):\n    return 2 * max(lengths) + 4 * hoist + 1\n",
                r"duplicate=False: you say 11, but the kernels ran in batches of \[",
            )
        ],
        [
            ("least_first = ['both on']", r"name each of \['both on'"),
            ("least_first = ['duplicate=False', 'hoist=False', 'both on']", r"'duplicate=False' moves more bytes than"),
        ],
        [
            (
                "@model\ndef split_read(words: list[int], *, p: Params, w: np.ndarray):\n    h = p.start\n"
                "    for word in words:\n        h = np.tanh(w[:, H:] @ p.embed[word] + w[:, :H] @ h)\n    return h\n",
                "the results are not those of joined_read",
            )
        ],
    ],
    "06_memory": [
        [
            ("most_first = ['reuse', 'fuse']", "name each of reuse, fuse, gather_fusion once"),
            ("most_first = ['reuse', 'gather_fusion', 'fuse']", "`gather_fusion` saves less than `fuse`"),
        ],
        [
            ("def bytes_without_reuse(inner):\n    return inner * H * 2 * H\n", r"your estimate is 0\.\d+ times that"),
        ],
        [("saves_least = 'fuse'", "not 'fuse': what does a node read")],
        [
            ("tree = balanced(10)", "it has 1,024 leaves"),
            (
                "tree = Tree(word=0)\nfor k in range(2000):\n    tree = Tree(left=tree, right=Tree(word=k))\n",
                "the model fails for this tree: index 1000 is out of bounds",
            ),
            ("tree = balanced(12)", r"[\d,]+ bytes with recycling, [\d,]+ without: how many results"),
        ],
    ],
    "09_is_it_right": [
        [
            (
                "def close(batched, plain):\n    return np.abs(batched - plain).max() <= 1e-5\n",
                "a small number beside a large one, .* these should be close",
            ),
            (
                "def close(batched, plain):\n"
                "    return not (np.abs(batched - plain) > 1e-5 * np.abs(plain).max()).any()\n",
                "not a number in one of them: these should not be close",
            ),
        ],
        [
            ("x = np.array([1e8, 1, -1e8, 0])", "four finite numbers of float32 is wanted"),
            ("x = [1e8, 1, -1e8, 0]", r"wanted, not \[100000000.0, 1, "),
            (
                "x = np.array([1e8, -1, -1e8, 0], np.float32)",
                "the exact sum is -1, and .* not positive, too: they agree",
            ),
        ],
        [
            (
                "def alone_as_together(batch, xs):\n"
                "    return all(np.allclose(batch(xs[k : k + 1])[0], batch(xs)[k]) for k in range(len(xs)))\n",
                "`last_bit` depends on company, but your test says otherwise",
            ),
            ("def alone_as_together(batch, xs):\n    return False\n", "`ours` does not depend on company"),
        ],
    ],
    "10_service": [
        [
            (
                "def counts(lengths):\n    return max(lengths) + 2, 2 * sum(lengths)\n",
                r"for lengths \[4\] you say \(6, 8\) .* batches of \[\[4\], \[1, 1, 1, 1\], \[4\]\]",
            )
        ],
        [
            (
                "def highest_rate(max_batch):\n    return max_batch / cost([10])\n",
                "with max_batch=8, 160 requests were done after",
            )
        ],
        [
            ("max_batch = 64", "64 is enough, but so is 32"),
            ("max_batch = 6", "6 is no power of two"),
            ("max_batch = 1", r"rejected: what does highest_rate\(1\) say"),
        ],
        [
            ("p50_of_rare_requests = cost([10]) * 1e3", "that would be so with max_wait=0"),
            ("p50_of_rare_requests = 5.0", "5.0 ms is not it"),
        ],
    ],
    "11_pytorch": [
        [
            (
                "def batches(height, width):\n    return 3 + 3 * height\n",
                r"for height 2 and width 1 you say 9; the batches of three such trees have sizes \[",
            ),
            (
                "def batches(height, width):\n    return 2 + height * (width + 1)\n",
                "for height 1 and width 2 you say 5",
            ),
        ],
        [
            (
                "def loss_of(trees, labels):\n"
                "    return F.cross_entropy(fast.batch(trees).stack(), labels, reduction='sum')\n",
                r"the loss of three trees is 0\.\d+, yours is [12]\.\d+",
            ),
            (
                "def loss_of(trees, labels):\n    return F.cross_entropy(fast.batch(trees).stack().detach(), labels)\n",
                "it has no gradient",
            ),
        ],
    ],
    "12_any_number_of_children": [
        [
            ("def chain(node):\n    return 2 + sum(map(chain, node.children))", r"you say \d+"),
            (
                "def chain(node):\n    return 2 + max([0, *map(chain, node.children)])",
                r"the longest chain of \(\.\) has 4 nodes|of \(\. \. \. \.\) has 7 nodes, you say 4",
            ),
        ],
        [
            (
                "@model\ndef mine(node: Node, *, p: Params):\n    hs = [mine(child, p=p) for child in node.children]\n"
                "    return np.tanh(p.w @ (p.embed[node.word] + sum(hs)))\n",
                r"the plain call of \(.*\) differs",
            ),
            (
                "@model\ndef mine(node: Node, *, p: Params):\n    x = p.embed[node.word]\n"
                "    hs = [mine(child, p=p) for child in node.children]\n    total = x\n"
                "    for h in hs:\n        total = total + nn.sigmoid(x + p.u @ h) * h\n"
                "    return np.tanh(p.w @ total)\n",
                r"a star of 3 leaves needs \d batches, one of 30 leaves 3\d",
            ),
        ],
    ],
    "13_training": [
        [
            (
                "def by_hand(xs, labels, p):\n    hs = [read(x, p) for x in xs]\n"
                "    ds = [nn.softmax(p['out'] @ h) - np.eye(2)[k] for h, k in zip(hs, labels)]\n"
                "    return sum(np.outer(d, h) for d, h in zip(ds, hs))\n",
                r"with n = 2 it differs: its magnitudes are 2 times those of the gradient",
            ),
            ("def by_hand(xs, labels, p):\n    return np.zeros(16)\n", r"has the shape \(2, 16\) of the matrix"),
        ],
        [
            ("def train(p, xs, ys):\n    return 0\n", r"% of new sentences are right after 0 steps"),
            ("def train(p, xs, ys):\n    return 1000\n", r"at most 400 steps are wanted, not 1000"),
        ],
    ],
    "14_reading_explain": [
        [
            ("when = dict.fromkeys(when, 'once')", r"`h = np.tanh` is not computed 'once'"),
            ("when = dict.fromkeys(when, 'always')", r"'always' is none of once, step and together"),
            ("when = {'scale =': 'once'}", r"five lines are asked for; you gave 1"),
        ],
        [
            (
                "@model\ndef mine(words: list[int], *, p: dict):\n    return np.float32(sum(words))\n",
                r"the first score is .*, it was",
            ),
        ],
    ],
    "15_find_a_nan": [
        [
            ("def cosine_of_all(a, b):\n    return (a @ b) * 0\n", r"yours is -?0\.0"),
            (
                "def cosine_of_all(a, b):\n    lengths = np.sqrt((a @ a) * (b @ b))\n"
                "    return (a @ b) / lengths if float(lengths) > 0 else np.float32(0)\n",
                r"it waits for a computed number",
            ),
        ],
        [
            ("def softmax(x):\n    e = np.exp(np.minimum(x, 80))\n    return e / e.sum()\n", r"NaN|is \[.*, not "),
        ],
        [
            (
                "@model\ndef safe(counts: np.ndarray, *, w: np.ndarray):\n"
                "    return np.sum(np.log(w * counts + 1e-6))\n",
                r"the result has changed",
            ),
            (
                "@model\ndef safe(counts: np.ndarray, *, w: np.ndarray):\n    weighted = w * counts\n"
                "    return np.sum(np.where(weighted > 0, np.log(np.maximum(weighted, 1)), 0))\n",
                r"the gradient is",
            ),
        ],
    ],
}
