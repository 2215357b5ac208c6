"""query_sections and manage_sections: the texts that belong to a project, feature or task, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import ValidationError

from tallystick.errors import Conflict
from tallystick.extensions.tasks.arguments import ManageSections, QuerySections, Section, differing, missing, unchanging
from tallystick.extensions.tasks.cards import Card
from tallystick.extensions.tasks.context import Call
from tallystick.extensions.tasks.entities import section_of, sections_of
from tallystick.extensions.tasks.view import View, invalid
from tallystick.policy import Action
from tallystick.state.attributes import integer_of, text_of
from tallystick.state.work.sections import SECTION
from tallystick.toolsets import Answer, JsonObject
from tallystick.toolsets.drafts import check_unused
from tallystick.toolsets.envelope import check, check_version, find_uuid, not_found, succeeded

FORMAT_DEFAULT = "MARKDOWN"
_WRITTEN = ("title", "usageDescription", "content", "contentFormat")


# -- query


async def query_sections(call: Call, asked: QuerySections) -> Answer:
    def look(view: View) -> JsonObject:
        card = get_entity(view, asked.entityType, asked.entityId)
        wanted = {find_uuid(each) or each for each in asked.sectionIds or ()}
        tags = {tag.lower() for tag in asked.tags or ()}
        ids = [
            each
            for each in view.sections(card.id)
            if (not wanted or each in wanted) and (not tags or tags & set(_tags(view, each)))
        ]
        found = sections_of(view, ids, with_content=asked.includeContent is not False)
        return {"sections": found, "count": len(found)}

    return succeeded(await call.read(Action.READ, look, resource=asked.entityId), exempt=True)


def get_entity(view: View, entity_type: str | None, reference: str | None) -> Card:
    return view.get((entity_type or "").lower(), reference)


def _tags(view: View, section_id: str) -> list[str]:
    return [tag for tag in text_of(view.attrs(section_id), "tags").split(",") if tag]


# -- manage


async def manage_sections(call: Call, asked: ManageSections) -> Answer:
    check(_problems(asked))
    draw, message, action = _OPERATIONS[asked.operation]
    ids = [call.context.ids() for _ in (asked.sections if asked.operation == "bulkCreate" else None) or (1,)]
    data = await call.write(
        lambda view: draw(view, asked, ids), action=action, resource=asked.sectionId or asked.entityId
    )
    return succeeded(data, message, exempt=True)


def _problems(asked: ManageSections) -> Iterator[str]:
    yield from missing(asked, _NEEDS[asked.operation], f"{asked.operation} operation")
    if asked.operation == "update":
        yield from unchanging(asked, "sectionId", "version")
    if asked.operation == "bulkCreate" and asked.sections == []:
        yield "sections must not be empty"
    if asked.ordinal is not None and asked.ordinal < 0:
        yield "ordinal must not be negative"


_NEEDS = {
    "add": ("entityType", "entityId", "title", "usageDescription", "content"),
    "update": ("sectionId", "version"),
    "updateText": ("sectionId", "version", "content"),
    "delete": ("sectionId",),
    "reorder": ("entityType", "entityId", "orderedIds"),
    "bulkCreate": ("entityType", "entityId", "sections"),
    "bulkDelete": ("sectionIds",),
}


def _add(view: View, asked: ManageSections, ids: list[str]) -> JsonObject:
    check_unused(view.state, ids)
    card = get_entity(view, asked.entityType, asked.entityId)
    put_sections(view, card, ids, [asked])
    return {"section": section_of(view, ids[0])}


def _bulk_create(view: View, asked: ManageSections, ids: list[str]) -> JsonObject:
    check_unused(view.state, ids)
    card = get_entity(view, asked.entityType, asked.entityId)
    put_sections(view, card, ids, list(_read(asked)))
    return {"sections": sections_of(view, ids), "createdCount": len(ids)}


def _read(asked: ManageSections) -> Iterator[Section]:
    for number, each in enumerate(asked.sections or ()):
        try:
            section = Section.model_validate(each)
        except ValidationError as error:
            problems = [f"sections[{number}].{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
            check(problems)
            raise
        check(_elsewhere(asked, section, number))
        needed = ("title", "usageDescription", "content")
        check(f"sections[{number}].{problem}" for problem in missing(section, needed, "bulkCreate operation"))
        yield section


def _elsewhere(asked: ManageSections, section: Section, number: int) -> Iterator[str]:
    """Each may say again where it goes, and nothing else."""
    for name in ("entityType", "entityId"):
        here, there = (getattr(each, name) or "" for each in (asked, section))
        if there and (find_uuid(there) or there) != (find_uuid(here) or here):
            yield f"sections[{number}].{name} must be the {name} of the call"


def put_sections(view: View, card: Card, ids: list[str], sections: Sequence[ManageSections | Section]) -> None:
    taken = {_ordinal(view, each) for each in view.sections(card.id)}
    asked: ManageSections | Section
    for section_id, asked in zip(ids, sections, strict=True):
        ordinal = asked.ordinal if asked.ordinal is not None else max(taken, default=-1) + 1
        check_free(ordinal, taken)
        taken.add(ordinal)
        attrs: JsonObject = {
            "entityType": card.kind.upper(),
            "entityId": card.id,
            "title": asked.title,
            "usageDescription": asked.usageDescription,
            "content": asked.content,
            "contentFormat": asked.contentFormat or FORMAT_DEFAULT,
            "ordinal": ordinal,
            "tags": ",".join(asked.tags or ()),
            "version": 1,
        }
        view.put_other(section_id, SECTION, attrs)


def check_free(ordinal: int, taken: set[int]) -> None:
    if ordinal < 0:
        raise invalid("ordinal must not be negative")
    if ordinal in taken:
        raise Conflict(f"Section with ordinal {ordinal} already exists for this entity", details={"ordinal": ordinal})


def _ordinal(view: View, section_id: str) -> int:
    return integer_of(view.attrs(section_id), "ordinal", 0)


def _update(view: View, asked: ManageSections, ids: list[str]) -> JsonObject:
    section_id, attrs = _get(view, asked.sectionId)
    check_version(asked.version or 0, integer_of(attrs, "version", 1))
    changes = {name: getattr(asked, name) for name in _WRITTEN if getattr(asked, name) is not None}
    check(f"{name} must not be blank" for name in ("title", "usageDescription") if changes.get(name) == "")
    if asked.tags is not None:
        changes["tags"] = ",".join(asked.tags)
    if asked.ordinal is not None:
        others = [each for each in view.sections(text_of(attrs, "entityId")) if each != section_id]
        check_free(asked.ordinal, {_ordinal(view, each) for each in others})
        changes["ordinal"] = asked.ordinal
    _put(view, section_id, attrs, changes)
    return {"section": section_of(view, section_id)}


def _put(view: View, section_id: str, attrs: JsonObject, changes: JsonObject) -> None:
    if differing(attrs, changes):
        view.put_other(section_id, SECTION, {**attrs, **changes, "version": integer_of(attrs, "version", 1) + 1})


def _get(view: View, reference: str | None) -> tuple[str, JsonObject]:
    found = _find(view, reference or "")
    if found is None:
        raise not_found("section", reference or "")
    return found


def _find(view: View, reference: str) -> tuple[str, JsonObject] | None:
    for section_id in (reference, find_uuid(reference)):
        known = view.state.owner(section_id) if section_id else None
        if section_id and known is not None and known[0] == SECTION and view.read_filter.allows(section_id):
            return section_id, view.attrs(section_id)
    return None


def _delete(view: View, asked: ManageSections, ids: list[str]) -> JsonObject:
    section_id, attrs = _get(view, asked.sectionId)
    if asked.version is not None:
        check_version(asked.version, integer_of(attrs, "version", 1))
    view.delete_other(section_id)
    return {"deleted": True, "id": section_id}


def _bulk_delete(view: View, asked: ManageSections, ids: list[str]) -> JsonObject:
    found = {each[0] for each in (_find(view, reference) for reference in asked.sectionIds or ()) if each}
    for section_id in sorted(found):
        view.delete_other(section_id)
    return {"deletedCount": len(found)}


def _reorder(view: View, asked: ManageSections, ids: list[str]) -> JsonObject:
    card = get_entity(view, asked.entityType, asked.entityId)
    there = view.sections(card.id)
    wanted = [find_uuid(each) or each for each in asked.orderedIds or ()]
    foreign = [each for each in wanted if each not in there]
    if foreign:
        raise invalid(f"Section not found for this entity: {', '.join(foreign)}", sectionIds=foreign)
    left_out = [each for each in there if each not in wanted]
    if left_out or len(set(wanted)) < len(wanted):
        raise invalid(
            "orderedIds must name every section of the entity once", missing=view.read_filter.readable(left_out)
        )
    for ordinal, section_id in enumerate(wanted):
        if _ordinal(view, section_id) != ordinal:
            _put(view, section_id, view.attrs(section_id), {"ordinal": ordinal})
    return {"sections": sections_of(view, wanted, with_content=False)}


_OPERATIONS = {
    "add": (_add, "Section added", Action.WRITE),
    "update": (_update, "Section updated", Action.WRITE),
    "updateText": (_update, "Section text updated", Action.WRITE),
    "delete": (_delete, "Section deleted", Action.DELETE),
    "reorder": (_reorder, "Sections reordered", Action.WRITE),
    "bulkCreate": (_bulk_create, "Sections created", Action.WRITE),
    "bulkDelete": (_bulk_delete, "Sections deleted", Action.DELETE),
}
