"""query_graph: one atom or molecule, those that hold a text, or what is known of some files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tallystick.policy import Action
from tallystick.state import Breathing, Node
from tallystick.state.attributes import list_of, text_of
from tallystick.state.knowledge import ATOM, MOLECULE
from tallystick.state.knowledge.catalogue import Atom, Molecule, Parent, in_order
from tallystick.toolsets import Answer, JsonObject
from tallystick.toolsets.envelope import clamped, page, succeeded
from tallystick.toolsets.knowledge.answers import ANSWER_BYTES_MAX, changelog_of, cut_list, entity_of, shorten
from tallystick.toolsets.knowledge.arguments import INLINE_DEFAULT, PAGE_DEFAULT, QueryArguments, check_query
from tallystick.toolsets.knowledge.context import Call, Pins, compact_freshness
from tallystick.toolsets.knowledge.freshness import read_pin
from tallystick.toolsets.knowledge.lookup import get_entity, get_project
from tallystick.toolsets.knowledge.path_context import Context, add_freshness, context
from tallystick.toolsets.knowledge.reverify import add_work
from tallystick.toolsets.knowledge.view import View
from tallystick.toolsets.truncation import room_for, size_of, within_budget

OFFSET_MAX = 1 << 53
_BREATH = 50
_TYPES = (ATOM, MOLECULE)


async def query_graph(call: Call, asked: QueryArguments) -> Answer:
    check_query(asked, call.context.which_project)
    return await _OPERATIONS[asked.operation](call, asked)


def _inline(asked: QueryArguments) -> int:
    """How many changelog entries go with each entity."""
    return 0 if asked.includeChangelog is False else clamped(asked.changelogLimit, INLINE_DEFAULT, least=0)


async def _freshness(call: Call, pins: Pins) -> Mapping[str, JsonObject]:
    found = await call.context.compare(pins)
    if call.context.stale_makes_work:
        stale = [{"id": atom_id, **said} for atom_id, said in found.items() if said["fresh"] is False]
        await add_work(call.context, call.store, call.principal, stale, tool="query_graph")
    return compact_freshness(found)


# -- get


async def _get(call: Call, asked: QueryArguments) -> Answer:
    entity_id = asked.id or ""

    def look(view: View) -> Context:
        node = get_entity(view, asked.entityType or "", entity_id)
        describe = _molecule if asked.entityType == "molecule" else _atom
        return describe(view, node, asked)

    found: Context = await call.read(Action.READ, look, resource=entity_id)
    fresh = await _freshness(call, found.pins)
    for atom in [found.data["atom"]] if "atom" in found.data else found.data["atoms"]:
        atom |= fresh.get(atom["id"], {})
    return succeeded(found.data, exempt=True)


def _atom(view: View, node: Node, asked: QueryArguments) -> Context:
    data: JsonObject = {"atom": entity_of(view, "atom", node.id, node.attrs)}
    if asked.includeChangelog is not False:
        data["changelog"] = changelog_of(view, "atom", node.id, _inline(asked))
    pins: Pins = {}
    _note_pin(node, pins)
    return Context(data, pins)


def _molecule(view: View, node: Node, asked: QueryArguments) -> Context:
    data: JsonObject = {"molecule": entity_of(view, "molecule", node.id, node.attrs), "atoms": []}
    if asked.includeChangelog is not False:
        data["changelog"] = changelog_of(view, "molecule", node.id, _inline(asked))
    members = view.readable(view.knowledge.members(node.id), lambda member: member.id)
    left = ANSWER_BYTES_MAX - size_of(data)
    pins: Pins = {}
    for member in members:
        atom = _whole(view, member, asked, pins)
        left -= size_of(atom) + 1
        if left < 0 and data["atoms"]:
            pins.pop(member.id, None)
            break
        data["atoms"].append(atom)
    if len(data["atoms"]) < len(members):
        data["atomsOmitted"] = len(members) - len(data["atoms"])
        data["hint"] = "search with this moleculeId pages through all of them"
    return Context(data, pins)


def _whole(view: View, entry: Atom | Molecule, asked: QueryArguments, pins: Pins, at: int | None = None) -> JsonObject:
    """As it is listed: with its changelog, if that was asked for."""
    kind: Parent = "atom" if isinstance(entry, Atom) else "molecule"
    node = view.state.node(entry.id, at)
    assert node is not None, "what is in the catalogue is in the graph"
    if kind == "atom":
        _note_pin(node, pins)
    said = entity_of(view, kind, node.id, node.attrs)
    if asked.includeChangelog is not False:
        said["changelog"] = changelog_of(view, kind, node.id, _inline(asked), at)
    return said


def _note_pin(node: Node, pins: Pins) -> None:
    pin = read_pin(node.attrs)
    if pin is not None:
        pins[node.id] = (list_of(node.attrs, "paths"), pin)


# -- search


async def _search(call: Call, asked: QueryArguments) -> Answer:
    sought = (asked.query or "").strip()
    among = await call.context.text(call.principal.tenant).holding(sought, _TYPES) if call.context.text else None

    def look(view: View) -> Breathing[JsonObject]:
        project = get_project(call.context, view, asked.projectId or "")
        return _found(view, asked, project, room_for(call.principal, ANSWER_BYTES_MAX), among)

    found: JsonObject = await call.read(Action.SEARCH, look)
    return succeeded(found)


def _found(
    view: View, asked: QueryArguments, project: str, bytes_max: int, among: Collection[str] | None = None
) -> Breathing[JsonObject]:
    """`among`: the ids of those that may hold the text; None for any."""
    # While many are looked through others may write: all of it is as it was when it was asked for.
    at = view.state.count
    limit = clamped(asked.limit, PAGE_DEFAULT)
    offset = clamped(asked.offset, 0, least=0, most=OFFSET_MAX)
    candidates = _candidates(view, asked, project)
    if among is not None:
        candidates = [entry for entry in candidates if entry.id in among]
    hits = yield from _holding(view, at, candidates, (asked.query or "").strip())
    if view.narrows:
        hits = [entry for entry in hits if view.allows(entry.id)]
    shown = (_listed(view, asked, entry, at, bytes_max) for entry in hits[offset : offset + limit])
    items = within_budget(shown, bytes_max)
    return page("items", items, total=len(hits), limit=limit, offset=offset)


def _candidates(view: View, asked: QueryArguments, project: str) -> Sequence[Atom | Molecule]:
    of_project = view.knowledge.of_project(project)
    if asked.entityType == "molecule":
        return in_order(of_project.molecules.values())
    if asked.moleculeId is not None:
        return [atom for atom in view.knowledge.members(asked.moleculeId) if atom.id in of_project.atoms]
    if not asked.orphansOnly:
        return in_order(of_project.atoms.values())
    # A molecule that may not be read is none.
    return in_order(
        atom
        for atom in of_project.atoms.values()
        if view.knowledge.is_orphan(atom) or not view.allows(atom.molecule or "")
    )


def _holding(
    view: View, at: int, candidates: Sequence[Atom | Molecule], sought: str
) -> Breathing[Sequence[Atom | Molecule]]:
    """Those whose name or knowledge holds the text, in any case."""
    if not sought:
        return candidates
    sought = sought.casefold()
    found = []
    for number, entry in enumerate(candidates):
        if sought in entry.order[0] or sought in _knowledge(view, at, entry).casefold():
            found.append(entry)
        if number % _BREATH == 0:
            yield
    return found


def _knowledge(view: View, at: int, entry: Atom | Molecule) -> str:
    node = view.state.node(entry.id, at)
    return text_of(node.attrs, "knowledge") if node is not None else ""


def _listed(view: View, asked: QueryArguments, entry: Atom | Molecule, at: int, bytes_max: int) -> JsonObject:
    said = _whole(view, entry, asked, {}, at)
    if size_of(said) > bytes_max:
        # By itself more than a page holds: whoever wants all of it gets it by its id.
        cut_list(said, "changelog", 0)
        for name in ("relatedAtoms", "relatedMolecules"):
            cut_list(said, name)
        shorten(said, ANSWER_BYTES_MAX // 4)
    return said


# -- context


async def _context(call: Call, asked: QueryArguments) -> Answer:
    def look(view: View) -> Breathing[Context]:
        project = get_project(call.context, view, asked.projectId or "")
        relative = call.context.repository.relative
        return context(
            view.state, project, asked.paths or [], view.read_filter, relative=relative, changelog=_inline(asked)
        )

    found: Context = await call.read(Action.READ, look)
    fresh = await _freshness(call, found.pins)
    add_freshness(found, fresh)
    return succeeded(found.data)


_OPERATIONS = {"get": _get, "search": _search, "context": _context}
