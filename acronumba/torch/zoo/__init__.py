"""Modules of PyTorch for one instance, as people write them: to read, to run as models and to measure.

Every file has a module, `module(size, seed)` and `instances(n, seed)`; `acronumba.torch.model(module(...))` batches it.

    child_sum_lstm    Tree-LSTM over nodes with any number of children
    parser            a shift-reduce parser that decides by the scores that it computes
    module_network    a module for each kind of node, composed as the tree says
    moe               one of eight experts for each word
    graph             messages along the edges of a graph
"""
