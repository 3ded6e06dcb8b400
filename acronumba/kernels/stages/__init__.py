"""What a kernel computes when: which values are stored (`choose`), in which loops, in which order (`order`).

In: a `KernelSpec`. Out: `Stages`, read by `kernels.cpu`. Values are lazy: views (reshape, transpose, slice, take,
...) are index arithmetic, element-wise operations are computed inside the loops of whoever reads them. Stored are
results, reductions, products, concatenations, what a product needs in rows, and what is dear and would be computed
twice. Everything stored is a task; tasks go into stages, in the order of their dependencies:

    RowStage      for every node: nests of loops, each over one iteration space, with all stores and reductions that
                  it can hold
    ProductStage  for a block of nodes: products with shared weights in register tiles, and the element-wise tasks that
                  need only the panel of columns just computed (the tail)

Products with shared weights share a stage where their tails meet (`w @ x + u @ h`) and, as long as neither feeds the
other, where their left operands are equal (read once) or their weights are (read once). A product whose columns are
split in equal parts is computed as that many gates side by side, so that all parts meet in one panel. `Strategy` says
which of this is done.
"""
