"""query_templates, manage_template and apply_template: sections that are written again and again."""

from __future__ import annotations

from collections.abc import Iterator

from tallystick.errors import Conflict
from tallystick.extensions.tasks.arguments import (
    ApplyTemplate,
    ManageTemplate,
    QueryTemplates,
    Section,
    differing,
    missing,
    unchanging,
)
from tallystick.extensions.tasks.cards import TEMPLATE, TaskCards
from tallystick.extensions.tasks.context import Call
from tallystick.extensions.tasks.entities import sections_of, stamped
from tallystick.extensions.tasks.sections import FORMAT_DEFAULT, get_entity, put_sections
from tallystick.extensions.tasks.view import View, invalid
from tallystick.policy import Action
from tallystick.state.attributes import integer_of, list_of, text_of
from tallystick.state.read_filter import ReadFilter
from tallystick.toolsets import Answer, JsonObject
from tallystick.toolsets.drafts import check_unused
from tallystick.toolsets.envelope import check, find_uuid, not_found, succeeded
from tallystick.toolsets.knowledge.answers import ANSWER_BYTES_MAX
from tallystick.toolsets.truncation import listing, room_for

SECTIONS_MAX = 50
TEMPLATE_BYTES_MAX = 262_144


# -- query


async def query_templates(call: Call, asked: QueryTemplates) -> Answer:
    if asked.operation == "get":
        check(missing(asked, ("id",), "get operation"))

    def look(view: View) -> JsonObject:
        if asked.operation == "get":
            return {"template": template_of(view, _get(view, asked.id)[0], with_sections=True)}
        ids = sorted(view.task_cards.templates, key=view.task_cards.templates.__getitem__)
        fits = [each for each in (template_of(view, each) for each in ids) if _fits(each, asked)]
        found = view.read_filter.readable(fits, lambda template: str(template["id"]))
        hint, room = "targetEntityType, isEnabled and tags narrow it", room_for(call.principal, ANSWER_BYTES_MAX)
        return listing("templates", found, len(found), room, hint=hint) | {"count": len(found)}

    action = Action.READ if asked.operation == "get" else Action.SEARCH
    return succeeded(await call.read(action, look, resource=asked.id), exempt=True)


def _fits(template: JsonObject, asked: QueryTemplates) -> bool:
    wanted = {"targetEntityType": asked.targetEntityType, "isEnabled": asked.isEnabled, "isBuiltIn": asked.isBuiltIn}
    if any(value is not None and template[name] != value for name, value in wanted.items()):
        return False
    tags = {tag.lower() for tag in asked.tags or ()}
    return not tags or bool(tags & set(template["tags"]))


def template_of(view: View, template_id: str, *, with_sections: bool = False) -> JsonObject:
    attrs = view.attrs(template_id)
    names = ("name", "description", "targetEntityType", "isBuiltIn", "isProtected", "isEnabled", "createdBy", "tags")
    answer: JsonObject = {"id": template_id, **{name: attrs.get(name) for name in names}}
    answer["version"] = integer_of(attrs, "version", 1)
    sections = _sections(attrs)
    answer |= {"sections": sections} if with_sections else {"sectionCount": len(sections)}
    return stamped(view, template_id, answer)


def _sections(attrs: JsonObject) -> list[JsonObject]:
    return [each for each in list_of(attrs, "sections") if isinstance(each, dict)]


def _get(view: View, reference: str | None) -> tuple[str, JsonObject]:
    for template_id in (reference, find_uuid(reference or "")):
        if template_id and template_id in view.task_cards.templates and view.read_filter.allows(template_id):
            return template_id, view.attrs(template_id)
    raise not_found("template", reference or "")


# -- manage


async def manage_template(call: Call, asked: ManageTemplate) -> Answer:
    check(_problems(asked))
    draw, message = _OPERATIONS[asked.operation]
    new = call.context.ids()
    action = Action.DELETE if asked.operation == "delete" else Action.WRITE
    data = await call.write(lambda view: draw(view, asked, new), action=action, resource=asked.id)
    return succeeded(data, message, exempt=True)


def _problems(asked: ManageTemplate) -> Iterator[str]:
    yield from missing(asked, _NEEDS.get(asked.operation, ("id",)), f"{asked.operation} operation")
    if asked.operation == "update":
        yield from unchanging(asked, "id")
        if asked.name == "":
            yield "name must not be blank"
    if asked.ordinal is not None and asked.ordinal < 0:
        yield "ordinal must not be negative"


_NEEDS = {
    "create": ("name", "description", "targetEntityType"),
    "addSection": ("id", "title", "usageDescription", "contentSample"),
}


def _create(view: View, asked: ManageTemplate, new: str) -> JsonObject:
    check_unused(view.state, [new])
    check_name(view.task_cards, view.read_filter, asked.name or "")
    attrs: JsonObject = {
        "name": asked.name,
        "description": asked.description,
        "targetEntityType": asked.targetEntityType,
        "isBuiltIn": False,
        "isProtected": asked.isProtected is True,
        "isEnabled": True,
        "createdBy": asked.createdBy or None,
        "tags": asked.tags or [],
        "sections": [],
        "version": 1,
    }
    view.put_other(new, TEMPLATE, attrs)
    return {"template": template_of(view, new, with_sections=True)}


def check_name(cards: TaskCards, read_filter: ReadFilter, name: str, own: str | None = None) -> None:
    """Raise Conflict if another template than `own` has the name."""
    taken = (other for other, known in cards.templates.items() if known.casefold() == name.casefold())
    other = next((each for each in taken if each != own), None)
    if other is not None:
        raise Conflict(
            f"there is a template '{name}' already",
            code="DUPLICATE_NAME",
            details={"id": read_filter.reference(other)},
        )


def _changeable(view: View, asked: ManageTemplate) -> tuple[str, JsonObject]:
    template_id, attrs = _get(view, asked.id)
    if attrs.get("isProtected") is True:
        raise Conflict(
            f"template '{text_of(attrs, 'name')}' is protected", code="PROTECTED_TEMPLATE", details={"id": template_id}
        )
    return template_id, attrs


def _update(view: View, asked: ManageTemplate, new: str) -> JsonObject:
    template_id, attrs = _changeable(view, asked)
    if asked.name:
        check_name(view.task_cards, view.read_filter, asked.name, template_id)
    given = {name: getattr(asked, name) for name in ("name", "description", "targetEntityType", "createdBy", "tags")}
    return _put(view, template_id, attrs, {name: value for name, value in given.items() if value is not None})


def _put(view: View, template_id: str, attrs: JsonObject, changes: JsonObject) -> JsonObject:
    if differing(attrs, changes):
        view.put_other(template_id, TEMPLATE, {**attrs, **changes, "version": integer_of(attrs, "version", 1) + 1})
    return {"template": template_of(view, template_id, with_sections=True)}


def _delete(view: View, asked: ManageTemplate, new: str) -> JsonObject:
    template_id, _ = _changeable(view, asked)
    view.delete_other(template_id)
    return {"deleted": True, "id": template_id}


def _switch(view: View, asked: ManageTemplate, new: str) -> JsonObject:
    return _put(view, *_get(view, asked.id), {"isEnabled": asked.operation == "enable"})


def _add_section(view: View, asked: ManageTemplate, new: str) -> JsonObject:
    template_id, attrs = _changeable(view, asked)
    sections = _sections(attrs)
    ordinals = [each["ordinal"] for each in sections]
    ordinal = asked.ordinal if asked.ordinal is not None else max(ordinals, default=-1) + 1
    if ordinal in ordinals:
        raise Conflict(f"Section with ordinal {ordinal} already exists for this template", details={"ordinal": ordinal})
    added = {
        "title": asked.title,
        "usageDescription": asked.usageDescription,
        "contentSample": asked.contentSample,
        "contentFormat": asked.contentFormat or FORMAT_DEFAULT,
        "ordinal": ordinal,
        "isRequired": asked.isRequired is True,
        "tags": ",".join(asked.tags or ()),
    }
    size = sum(len(text_of(each, "contentSample").encode()) for each in (*sections, added))
    if len(sections) == SECTIONS_MAX or size > TEMPLATE_BYTES_MAX:
        raise invalid(f"a template has at most {SECTIONS_MAX} sections and {TEMPLATE_BYTES_MAX:,} bytes")
    return _put(view, template_id, attrs, {"sections": sorted([*sections, added], key=lambda s: s["ordinal"])})


_OPERATIONS = {
    "create": (_create, "Template created"),
    "update": (_update, "Template updated"),
    "delete": (_delete, "Template deleted"),
    "enable": (_switch, "Template enabled"),
    "disable": (_switch, "Template disabled"),
    "addSection": (_add_section, "Template section added"),
}


# -- apply


async def apply_template(call: Call, asked: ApplyTemplate) -> Answer:
    ids = [call.context.ids() for _ in range(SECTIONS_MAX)]

    def draw(view: View) -> JsonObject:
        template_id, attrs = _get(view, asked.templateId)
        card = get_entity(view, asked.entityType, asked.entityId)
        name = text_of(attrs, "name")
        if attrs.get("isEnabled") is not True:
            raise Conflict(f"template '{name}' is disabled", code="TEMPLATE_DISABLED", details={"id": template_id})
        if attrs.get("targetEntityType") != card.kind.upper():
            raise Conflict(
                f"template '{name}' is for {attrs.get('targetEntityType')}, not for {card.kind.upper()}",
                code="ENTITY_TYPE_MISMATCH",
                details={"targetEntityType": attrs.get("targetEntityType")},
            )
        copies = [_copy(each) for each in _sections(attrs)]
        made = ids[: len(copies)]
        check_unused(view.state, made)
        put_sections(view, card, made, copies)
        return {"templateId": template_id, "sections": sections_of(view, made), "createdCount": len(made)}

    data = await call.write(draw, resource=asked.entityId)
    return succeeded(data, f"Template applied: {data['createdCount']} sections", exempt=True)


def _copy(section: JsonObject) -> Section:
    """Without its ordinal: what is applied comes after what is there."""
    return Section.model_construct(
        title=section.get("title"),
        usageDescription=section.get("usageDescription"),
        content=section.get("contentSample"),
        contentFormat=section.get("contentFormat"),
        tags=[tag for tag in text_of(section, "tags").split(",") if tag],
        ordinal=None,
    )
