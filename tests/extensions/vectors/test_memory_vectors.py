"""memory.search with the setting `vectors`: found by meaning too, said when it cannot be, and nothing told by it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest

from tallystick import app
from tallystick.config import load
from tallystick.errors import TallystickError
from tallystick.extensions.vectors import model
from tallystick.extensions.vectors.index import VectorIndex
from tallystick.policy import DistantPolicy, Policy, Principal
from tallystick.projections.text import Hit, TextHits, TextIndex
from tallystick.server.dispatch import choose, prepare
from tallystick.toolsets import memory
from tests.multi_tenant import multi_tenant_store
from tests.test_narrowing import ALICE, BOB, BOTH, ids

with_model = pytest.mark.skipif(not model.is_installed(), reason="tallystick[vectors] is not installed")
ANN = Principal(actor="ann")
CAT = "The cat is asleep on the sofa"
CAT_SAID_OTHERWISE = "feline napping, couch"


async def _ask(offer: Any, name: str, **asked: Any) -> dict[str, Any]:
    tool = offer.tools.get(name).tool
    told: dict[str, Any] = (await tool.call(offer.store, ANN, prepare(tool, asked))).data
    return told


async def _write(offer: Any, node_id: str, said: str) -> None:
    await _ask(offer, "memory.write", op="UPSERT_NODE", node={"id": node_id, "type": "note", "attrs": {"said": said}})


@with_model
async def test_a_server_finds_what_means_the_same_until_it_is_redacted(tmp_path: Path) -> None:
    async with app.served(load({"base": tmp_path, "vectors": True}, environ={})) as offer:
        await _write(offer, "tax", "The tax office wants the form by March")
        await _write(offer, "cat", CAT)
        # Vectors come a moment later, and nobody waits for them.
        while "cat" not in ids(found := await _ask(offer, "memory.search", query=CAT_SAID_OTHERWISE)):
            pass
        assert ids(found) == ["cat"]
        assert ids(await _ask(offer, "memory.search", query=CAT_SAID_OTHERWISE, type="task")) == []
        assert ids(await _ask(offer, "memory.search", query=CAT_SAID_OTHERWISE, as_of=2)) == []
        # What words find comes with it, and an id that is named comes first.
        assert set(ids(await _ask(offer, "memory.search", query="is a feline in the office?"))) >= {"tax", "cat"}
        assert ids(await _ask(offer, "memory.search", query="tax"))[0] == "tax"
        await _ask(offer, "memory.write", op="REDACT_NODE", node_id="cat", reason="asked")
        assert ids(await _ask(offer, "memory.search", query=CAT_SAID_OTHERWISE)) == []


async def test_without_the_setting_nothing_of_it_is_made(tmp_path: Path) -> None:
    async with app.served(load({"base": tmp_path}, environ={})) as offer:
        await _write(offer, "cat", CAT)
        told = await _ask(offer, "memory.search", query=CAT_SAID_OTHERWISE)
        assert (ids(told), told["looked_for"]) == ([], ["feline", "napping", "couch"])
    assert not {"vectors.db", "vectors.lock", "embedding.lock"} & set(os.listdir(tmp_path / "_system"))


async def test_a_server_whose_extra_is_missing_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "_LIBRARIES", ("numpy", "surely_not_installed"))
    with pytest.raises(TallystickError, match="not installed") as refused:
        async with app.served(load({"base": tmp_path, "vectors": True}, environ={})):
            pass
    assert refused.value.code == "VECTORS_MISSING"
    assert "pip install 'tallystick[vectors]'" in (refused.value.hint or "")


class _AskedIndex:
    """Finds one entity, and remembers that it was asked."""

    def __init__(self, found: str) -> None:
        self.hits = [Hit(found, "node", 1.0)]
        self.asked = 0

    async def search(self, words: str, **more: Any) -> Any:
        self.asked += 1
        return TextHits(self.hits, False, []) if "spreads" in more else self.hits


@BOTH
async def test_whoever_has_something_withheld_is_answered_by_words_alone(
    tmp_path: Path, policy: Policy | DistantPolicy
) -> None:
    text, vectors = _AskedIndex("plan"), _AskedIndex("goal")
    async with multi_tenant_store(tmp_path, policy) as base:
        for name, kind in (("plan", "note"), ("goal", "note"), ("hidden", "secret")):
            await base.node(ALICE, name, kind, said=f"about {name}")
        toolset = memory.toolset(text=lambda _: cast(TextIndex, text), near=lambda _: cast(VectorIndex, vectors))
        base.tools = choose((toolset,))
        assert ids(await base.call(BOB, "memory.search", query="about plans")) == ["plan"]
        assert vectors.asked == 0
