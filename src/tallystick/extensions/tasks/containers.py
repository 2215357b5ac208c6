"""manage_container: projects, features and tasks are made, changed and deleted here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tallystick.commits import Operation, Verb
from tallystick.errors import Conflict, TallystickError
from tallystick.extensions.tasks.arguments import ManageContainer, differing, missing, unchanging
from tallystick.extensions.tasks.cards import WEIGHTS, Card
from tallystick.extensions.tasks.context import Call, said
from tallystick.extensions.tasks.entities import entity_of
from tallystick.extensions.tasks.view import RELATES_TO, View, invalid, invalid_operation
from tallystick.policy import Action
from tallystick.state.attributes import object_of
from tallystick.state.work import LOOSE
from tallystick.toolsets import Answer, JsonObject
from tallystick.toolsets.drafts import check_unused
from tallystick.toolsets.envelope import check, succeeded
from tallystick.toolsets.knowledge.context import project_deletion
from tallystick.toolsets.truncation import size_of
from tallystick.toolsets.work.arguments import NODE_BYTES_MAX
from tallystick.toolsets.work.errors import check_project_name


async def manage_container(call: Call, asked: ManageContainer) -> Answer:
    check(_problems(asked))
    return await _OPERATIONS[asked.operation](call, asked)


def _problems(asked: ManageContainer) -> Iterator[str]:
    kind = asked.containerType or ""
    if asked.status is not None:
        yield "status cannot be updated via manage_container. Use advance, revert, or terminate tools."
    if asked.operation == "create":
        called = "title" if kind == "task" else "name"
        if not _title(asked):
            yield f"{called} is required for create operation"
        yield from missing(asked, ("summary",), "create operation")
        needed = {"project": (), "feature": ("priority",), "task": ("priority", "complexity")}[kind]
        yield from missing(asked, needed, f"creating a {kind}")
    elif asked.operation == "update":
        yield from missing(asked, ("id", "version"), "update operation")
        if asked.status is None:
            yield from unchanging(asked, "id", "version", nullable=("projectId", "featureId"))
        for field in ("name", "title", "summary"):
            if getattr(asked, field) == "":
                yield f"{field} must not be blank"
    else:
        yield from missing(asked, ("id",), "delete operation")
    if asked.name and asked.title and asked.name != asked.title:
        yield "name and title are the same thing, and differ"
    if asked.complexity is not None and not 1 <= asked.complexity <= 10:
        yield "complexity must be between 1 and 10"


def _title(asked: ManageContainer) -> str | None:
    return asked.title or asked.name if asked.containerType == "task" else asked.name or asked.title


# -- create


async def _create(call: Call, asked: ManageContainer) -> Answer:
    kind = asked.containerType or ""
    entity_id, root_id = call.context.ids(), call.context.ids()

    def draw(view: View) -> JsonObject:
        check_unused(view.state, [entity_id, root_id])
        if kind == "project":
            _found(view, asked, entity_id, root_id)
        else:
            view.put_node(entity_id, _node(view, asked))
            _relate(view, view.get(kind, entity_id), asked.relatedTo or [])
            view.job = entity_id
        return {kind: entity_of(view, view.get(kind, entity_id))}

    data = await call.write(draw)
    return succeeded(data, f"{kind.capitalize()} created", exempt=True)


def _found(view: View, asked: ManageContainer, project_id: str, root_id: str) -> None:
    name = _title(asked) or ""
    check_project_name(view.graph, view.read_filter, name)
    extra = said(description=asked.description, tags=asked.tags)
    view.found(project_id, root_id, name=name, goal=asked.summary or name, task=extra)


def _node(view: View, asked: ManageContainer) -> JsonObject:
    kind = asked.containerType or ""
    project, parent = _place(view, asked)
    task: JsonObject = {"kind": kind, "title": _title(asked), "status": "NEW"}
    task |= said(description=asked.description, tags=asked.tags)
    if kind == "task":
        task["complexity"] = asked.complexity
    attrs: JsonObject = {
        "project": project,
        "parent": parent,
        "summary": asked.summary,
        "resolved": False,
        "rev": 1,
        "properties": {"priority": WEIGHTS[asked.priority or "MEDIUM"]},
        "task": task,
    }
    _check_size(attrs)
    return attrs


def _place(view: View, asked: ManageContainer) -> tuple[str, str | None]:
    """The project and the node above."""
    project = _project(view, asked.projectId)
    if asked.featureId is None:
        return _top(view, project)
    feature = _feature(view, asked, project)
    if feature.terminal:
        raise invalid_operation(
            f"Cannot add a task: feature is in terminal state {feature.status}", featureId=feature.id
        )
    return feature.project or LOOSE, feature.id


def _feature(view: View, asked: ManageContainer, project: Card | None) -> Card:
    feature = view.get("feature", asked.featureId)
    if project is not None and feature.project != project.id:
        raise invalid(f"feature '{feature.id}' belongs to another project", projectId=feature.project)
    return feature


def _top(view: View, project: Card | None) -> tuple[str, str | None]:
    return (project.id, _root(view, project)) if project is not None else (LOOSE, None)


def _project(view: View, reference: str | None) -> Card | None:
    return view.get_project(reference) if reference is not None else None


def _root(view: View, project: Card) -> str | None:
    board = view.graph.boards.get(project.id)
    root = board.root if board is not None else None
    return root if root is not None and view.graph.find(root) is not None else None


def _check_size(attrs: JsonObject) -> None:
    size = size_of({name: value for name, value in attrs.items() if name != "evidence"})
    if size > NODE_BYTES_MAX:
        raise invalid(
            f"this would have {size:,} bytes, the limit is {NODE_BYTES_MAX:,}: keep long texts in sections", bytes=size
        )


# -- update


async def _update(call: Call, asked: ManageContainer) -> Answer:
    kind = asked.containerType or ""

    def draw(view: View) -> JsonObject:
        card = view.get_at(kind, asked.id, asked.version)
        if kind == "project":
            card = _update_project(view, asked, card)
        else:
            view.job = card.id
            card = _update_node(view, asked, card)
        return {kind: entity_of(view, card)}

    data = await call.write(draw, resource=asked.id)
    return succeeded(data, f"{kind.capitalize()} updated", exempt=True)


def _update_project(view: View, asked: ManageContainer, card: Card) -> Card:
    changes = differing(view.attrs(card.id), said(name=_title(asked), summary=asked.summary))
    if "name" in changes:
        check_project_name(view.graph, view.read_filter, changes["name"], card.id)
    root = _root(view, card) if "summary" in changes else None
    if root is not None:
        view.builder.revise(root, summary=changes["summary"])
    task = differing(view.said(card.id), _given(description=asked.description, tags=asked.tags))
    return view.revise(card, task, **changes) if task or changes else card


def _update_node(view: View, asked: ManageContainer, card: Card) -> Card:
    moves = _moves(view, asked, card)
    given = _given(title=_title(asked), description=asked.description, tags=asked.tags, complexity=asked.complexity)
    task = differing(view.said(card.id), given)
    changes = differing(view.attrs(card.id), _changes(view, asked, card)) | moves
    related = asked.relatedTo is not None and _relate(view, card, asked.relatedTo)
    if not (task or changes or related):
        return card
    card = view.revise(card, task, **changes)
    _check_size(view.attrs(card.id))
    if "project" in moves:
        for each in list(view.row(card.id).below()):
            view.builder.revise(each.id, project=moves["project"])
    return card


def _given(**fields: Any) -> JsonObject:
    """What was said; None for what is to be taken away."""
    return {name: value or None for name, value in fields.items() if value is not None}


def _changes(view: View, asked: ManageContainer, card: Card) -> JsonObject:
    changes: JsonObject = {"summary": asked.summary} if asked.summary else {}
    if asked.priority is not None and asked.priority != card.priority:
        changes["properties"] = {**object_of(view.attrs(card.id), "properties"), "priority": WEIGHTS[asked.priority]}
    return changes


def _moves(view: View, asked: ManageContainer, card: Card) -> JsonObject:
    """Null takes it out of its feature or project; what is not named stays as it is."""
    if not {"projectId", "featureId"} & asked.model_fields_set:
        return {}
    place, parent = _destination(view, asked, card)
    above = view.graph.find(parent) if parent is not None else None
    if above is not None and view.row(card.id) in (above, *above.above()):
        raise invalid(f"'{parent}' is below the {card.kind} itself", id=parent)
    here = view.attrs(card.id)
    if (here.get("project"), here.get("parent")) == (place, parent):
        return {}
    return {"parent": parent} | ({"project": place} if here.get("project") != place else {})


def _destination(view: View, asked: ManageContainer, card: Card) -> tuple[str, str | None]:
    here = card.project or LOOSE, view.attrs(card.id).get("parent")
    feature = view.feature_of(card.id)
    names_project = "projectId" in asked.model_fields_set
    project = _project(view, asked.projectId if names_project else card.project)
    stays = (project.id if project is not None else None) == card.project
    if asked.featureId is not None:
        named = _feature(view, asked, project if names_project else None)
        return here if feature is not None and named.id == feature.id else _place(view, asked)
    if feature is None or "featureId" in asked.model_fields_set:
        return here if stays and feature is None else _top(view, project)
    if not stays:
        raise invalid(f"the task belongs to feature '{feature.id}', which is in another project", featureId=feature.id)
    return here


def _relate(view: View, card: Card, references: list[str]) -> bool:
    """Make these, and only these, the related ones; False where they are."""
    wanted: dict[str, None] = {}
    for reference in references:
        other = view.find(reference)
        if other is None or other.kind == "project":
            raise invalid(f"Related entity not found: {reference}", id=reference)
        if other.id == card.id:
            raise invalid(f"a {card.kind} cannot be related to itself", id=card.id)
        wanted[other.id] = None
    before = view.related(card.id)
    for each in before:
        if each not in wanted:
            view.unlink(card.id, RELATES_TO, each)
            view.unlink(each, RELATES_TO, card.id)
    for each in wanted:
        if each not in before:
            view.builder.link({"from": card.id, "rel": RELATES_TO, "to": each})
    return wanted.keys() != set(before)


# -- delete


async def _delete(call: Call, asked: ManageContainer) -> Answer:
    kind = asked.containerType or ""

    def draw(view: View) -> JsonObject:
        card = view.get_at(kind, asked.id, asked.version)
        contained = [*view.below(card, "feature"), *view.below(card, "task")]
        if contained and not asked.cascade:
            raise _has_children(card, view.readable(contained))
        count = len(view.readable(contained))
        _remove(view, card, contained)
        return {"deleted": True, "id": card.id} | said(deletedChildren=count)

    data = await call.write(draw, action=Action.DELETE, resource=asked.id)
    return succeeded(data, f"{kind.capitalize()} deleted")


def _has_children(card: Card, contained: list[Card]) -> TallystickError:
    """`contained` as far as it may be read."""
    counts = {kind: sum(each.kind == kind for each in contained) for kind in ("feature", "task")}
    named = " and ".join(f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in counts.items() if count)
    return Conflict(
        f"Cannot delete {card.kind}: contains {named or 'what you may not read'}. Use cascade: true to delete all.",
        code="HAS_CHILDREN",
        details={f"{kind}s": count for kind, count in counts.items()},
    )


def _remove(view: View, card: Card, contained: list[Card]) -> None:
    """With all it holds: nodes, their edges and sections, and what is known of a project."""
    nodes = [card.id] if card.kind != "project" else []
    if card.kind == "project":
        board = view.graph.boards.get(card.id)
        nodes = [view.graph.by_number[number].id for number in board.members] if board is not None else []
    else:
        nodes += [each.id for each in view.row(card.id).below()]
    gone = list(dict.fromkeys([*nodes, card.id]))
    edges = {tuple(sorted(name.items())): name for each in gone for name in view.state.edge_names(each)}
    for name in edges.values():
        view.builder.unlink(dict(name))
    for each in gone:
        for section_id in view.all_sections(each):
            view.delete_other(section_id)
    if card.kind == "project":
        view.builder.operations.extend(project_deletion(view.state, card.id))
    # From below: a node is never without the one above it.
    for each in sorted(nodes, key=lambda node_id: -view.row(node_id).depth):
        view.forget(each)
        view.builder.delete(each)
    if card.kind == "project":
        view.forget(card.id)
        view.builder.operations.append(Operation(Verb.DELETE_NODE, {"node_id": card.id}))


_OPERATIONS = {"create": _create, "update": _update, "delete": _delete}
