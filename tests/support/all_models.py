"""All models that the tests have, in the order of their names' files: importing this registers them."""

from tests.support import models_of_choices, models_of_python, models_of_sequences, models_of_trees
from tests.support.model_cases import CASES

__all__ = ["CASES", "MODULES"]

MODULES = (models_of_sequences, models_of_trees, models_of_python, models_of_choices)
