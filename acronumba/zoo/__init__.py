"""Models to read, to run and to measure: one module each.

Every module has the model as a plain Python function for one instance, the dataclasses of its data and weights,
`params(size, seed)`, `instances(n, seed)` and, where the paper used the Sentiment Treebank, `read_sst(path)`.

    tree_lstm        binary Tree-LSTM with a classifier at the root
    child_sum_lstm   Tree-LSTM over nodes with any number of children
    mv_rnn           a vector and a matrix for every word and phrase
    birnn            a class for each word from both directions
"""
