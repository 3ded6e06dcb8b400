"""A mini-batch at run time: packing, the recorded graph, schedule, layout, execution."""
