"""How the documentation site is made: `make docs`. `builder` writes the pages that are made of the package."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from builder.files import BUILD  # noqa: E402
from builder.files import version as version_of_package  # noqa: E402

from acronumba import __version__  # noqa: E402

(BUILD / "extra").mkdir(parents=True, exist_ok=True)
project = "acronumba"
author = "the authors of acronumba"
copyright = "2026, the authors of acronumba"
version = release = __version__

extensions = [
    "builder.extension",  # first: what it starts runs while the others are imported
    "myst_nb", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx_copybutton", "sphinx_design",
]  # fmt: skip
exclude_patterns = ["builder"]
templates_path = ["_templates"]
root_doc = "index"
default_role = "py:obj"  # `Options` in a docstring is a link

# Pages
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
copybutton_exclude = ".linenos, .gp, .go"

# Lessons are notebooks kept as text. They run when the site is built; what they show is kept until the package changes.
nb_execution_mode = "cache"
nb_execution_cache_path = str(BUILD / "notebooks" / version_of_package())
nb_execution_raise_on_error = True
nb_execution_excludepatterns = [] if find_spec("torch") else ["lessons/11_*"]
nb_execution_timeout = 120
nb_ipywidgets_js = {}  # these would be loaded from the network
nb_code_prompt_show, nb_code_prompt_hide = "Show a solution", "Hide the solution"  # nothing else is folded

# Reference: a page for each public name
autosummary_generate = True
autosummary_imported_members = True
autosummary_ignore_module_all = False
autodoc_mock_imports = ["cloudpickle", "prometheus_client", "ray", "torch"]
autodoc_typehints = "none"  # docstrings say the types
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the template of classes lists them
numpydoc_validation_checks = {"GL06", "GL07", "GL08", "GL09", "GL10", "PR02", "PR03", "SS01"}
numpydoc_validation_exclude = {r"\.register$"}  # `cls` is a parameter there, not the class of a method

# Layout
html_theme = "pydata_sphinx_theme"
html_title = "acronumba"
html_baseurl = os.environ.get("READTHEDOCS_CANONICAL_URL", "")
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = [str(BUILD / "extra")]  # the explorer's pages
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "acronumba"},
    "header_links_before_dropdown": 7,
    "show_toc_level": 2,
    "collapse_navigation": True,
    "navigation_depth": 3,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "pygments_light_style": "tango",
    "pygments_dark_style": "github-dark",
}
