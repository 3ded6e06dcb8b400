"""The compiler end to end: from a function to the executables of one specialisation."""
