"""Whether the torch layers are on: the environment's switch, and what this torch has."""

from __future__ import annotations

import functools
import os
import warnings

from . import internals


def enabled() -> bool:
    """Whether graphs are to be specialised at all.

    `BCSPEC_DISABLE=1` turns everything off; so does a torch that lacks an internal, with one warning.
    """
    return os.environ.get("BCSPEC_DISABLE", "") not in ("1", "true") and _complete()


def trusts_guards() -> bool:
    """Whether what the guards have established is not asked again; `BCSPEC_SIZE_ASSERTS=1` has it asked."""
    return os.environ.get("BCSPEC_SIZE_ASSERTS", "") not in ("1", "true")


@functools.cache
def _complete() -> bool:
    lacking = internals.missing()
    if lacking:
        warnings.warn(
            "bcspec leaves compiled graphs generic; this torch lacks " + "; ".join(lacking),
            RuntimeWarning,
            stacklevel=2,
        )
    return not lacking
