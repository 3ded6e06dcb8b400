"""Models to read, to run and to measure: one module each.

Every module has the model as a plain Python function for one instance, the dataclasses of its data and weights,
`params(size, seed)`, `instances(n, seed)` and, where the paper used the Sentiment Treebank, `read_sst(path)`.

    tree_lstm        binary Tree-LSTM with a classifier at the root
    child_sum_lstm   Tree-LSTM over nodes with any number of children
    mv_rnn           a vector and a matrix for every word and phrase
    birnn            a class for each word from both directions
    bilstm_tagger    the same with LSTMs; rare words are spelled
    nested_rnn       a GRU over sentences, each read by an RNN
    listops          Tree-LSTM over expressions with any number of arguments
    expressions      plain tuples from a parser, matched by their forms
    encoder          a Transformer encoder over sentences of any length
    moe              one of eight experts for each word

In these, computed values decide what comes next. Each has a second form, NAME_emulated, in which the data decides.

    drnn             a tree, grown from the top
    berxit           a Transformer that stops as soon as it is sure
    stack_rnn        a shift-reduce parser
    graph_rnn        a graph, node by node and edge by edge
    beam_decoder     beam search
    decoder          a Transformer decoder that writes until it ends a sentence
"""
