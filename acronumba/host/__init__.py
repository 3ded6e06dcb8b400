"""From a plan to its host program, which records the dataflow graph of each instance."""
