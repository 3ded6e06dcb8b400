"""What takes time, on all cores: lessons and models of the gallery run in other processes, until Sphinx reads.

The processes begin while Sphinx starts and makes pages that need no results. What has run is kept in the folder
`build/docs`, and runs again only if the package, or the script itself, has changed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

from jupyter_cache import get_cache
from sphinx.util import logging

from builder import gallery, kernel
from builder.files import BUILD, ROOT, version

LESSONS = BUILD / "extra" / "lessons"  # pages of the explorer that lessons write, beside them in the site
logger = logging.getLogger(__name__)


def prepare() -> None:
    """Let the process begin that all others are forks of; it imports what they need while Sphinx starts."""
    os.environ["ACRONUMBA_QUIET"] = "1"  # no line on standard error while something is compiled
    kernel.prepare([str(ROOT / "docs"), str(ROOT)])


class Work:
    """Lessons and models that run.

    Parameters
    ----------
    lessons : paths
        Pages that may be notebooks.
    kept : path
        Where myst-nb keeps notebooks that have run.
    timeout : int
        Seconds that a cell may take.
    """

    def __init__(self, lessons: Iterable[Path], kept: Path, timeout: int) -> None:
        for folder in (gallery.MADE, gallery.EXPLORER, LESSONS):
            folder.mkdir(parents=True, exist_ok=True)
        # what takes longest goes first, so that no core waits for it at the end
        self._wanted = sorted(filter(_is_new, gallery.entries()), key=lambda entry: entry.name not in gallery.TRAINING)
        get_cache(str(kept)).list_cache_records()  # its tables are there before several threads ask
        cores = os.cpu_count()
        processes = ProcessPoolExecutor(cores, mp_context=kernel.CONTEXT)
        threads = ThreadPoolExecutor(cores)
        self._pools = threads, processes
        make: Callable[[gallery.Entry], None] = lambda entry: processes.submit(gallery.make, entry).result()
        self._waiting = {f"lesson {path.name}": threads.submit(execute, path, kept, timeout) for path in lessons}
        self._waiting |= {f"gallery {entry.name}": threads.submit(make, entry) for entry in self._wanted}

    def finish(self) -> None:
        """Wait for all, say what failed, and note what need not run again."""
        for name, future in self._waiting.items():
            logger.info("running %s", name)
            if error := future.exception():
                logger.warning("%s failed: %r", name, error)
        for pool in self._pools:
            pool.shutdown()
        for entry in self._wanted:
            _stamp(entry.name).write_text(_version(entry), encoding="utf-8")


def execute(path: Path, kept: Path, timeout: int) -> None:
    """Run a lesson, unless it is kept; keep what it shows, where myst-nb will find it, and the pages that it writes."""
    from jupyter_cache.base import CacheBundleIn
    from jupyter_cache.executors.utils import single_nb_execution
    from myst_nb.core.config import NbParserConfig
    from myst_nb.core.read import create_nb_reader
    from myst_parser.config.main import MdParserConfig

    text = path.read_text(encoding="utf-8")
    reader = create_nb_reader(str(path), MdParserConfig(), NbParserConfig(), text)
    if reader is None:  # a page without code
        return
    notebook, cache = reader.read(text), get_cache(str(kept))
    with contextlib.suppress(KeyError):
        cache.match_cache_notebook(notebook)
        return
    result = single_nb_execution(
        notebook, cwd=str(LESSONS), allow_errors=False, timeout=timeout, kernel_manager_class=kernel.Manager
    )
    if result.err:
        raise RuntimeError(result.exc_string)
    bundle = CacheBundleIn(notebook, str(path), data={"execution_seconds": result.time})
    cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)


def _is_new(entry: gallery.Entry) -> bool:
    stamp = _stamp(entry.name)
    return not stamp.exists() or stamp.read_text(encoding="utf-8") != _version(entry)


def _stamp(name: str) -> Path:
    return gallery.MADE / f"{name}.version"


def _version(entry: gallery.Entry) -> str:
    """Return what stands for everything that a model's trace depends on."""
    own = [gallery.ROOT / entry.source] if entry.is_example else []
    return version([Path(gallery.__file__), *own])
