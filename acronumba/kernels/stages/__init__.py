"""Stages of a kernel: the values that are stored (`choose`), their loops, and the order of these (`order`).

In: a `KernelSpec`. Out: `Stages`, read by `kernels.cpu`. Values are lazy: views (reshape, transpose, slice, take,
...) are index arithmetic, element-wise operations are computed inside the loops of their readers. Stored are results,
reductions, products, concatenations, operands that a product needs in rows, and expensive values that would be computed
twice. Every stored value is a task; tasks go into stages, in the order of their dependencies:

    RowStage      for every node: nests of loops, each over one iteration space, with all stores and reductions that
                  it can hold
    ProductStage  for a block of nodes: products with shared weights in register tiles, and the element-wise tasks that
                  need only the panel of columns just computed (the tail)

Products with shared weights share a stage if they have a common tail (`w @ x + u @ h`) or, unless one feeds the other,
if their left operands are equal (read once) or their weights are (read once). A product whose columns are split in
equal parts is computed as that many gates side by side, so that all parts are in one panel. `Strategy` decides which of
this is done.
"""
