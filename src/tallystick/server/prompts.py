"""Prompts: what a person begins by a slash command. Each is a page of instructions that names the tools which are on.

They say the same as the skills of the plugin, for clients that show prompts and know no skills.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tallystick.errors import InvalidArgument
from tallystick.server import Offer
from tallystick.server.dispatch import underscored
from tallystick.server.names import listed_name
from tallystick.toolsets.browse import Choice

ARGUMENT_CHARACTERS_MAX = 4_000
JsonObject = dict[str, Any]


class PromptArgument(msgspec.Struct, frozen=True):
    name: str
    description: str
    words: str
    """How the prompt begins to speak of it."""
    is_required: bool = False
    choice: Choice | None = None
    """What it can be completed to."""


class Prompt(msgspec.Struct, frozen=True):
    name: str
    title: str
    description: str
    arguments: tuple[PromptArgument, ...]
    opening: str
    needs: tuple[str, ...]
    """One of these tools must be on: without, the rest would be about nothing."""
    steps: tuple[str, ...]
    """A tool is named in braces. A step whose tools are not all on is left out."""
    closing: str


_PROJECT = PromptArgument("project", "A project by its name; without it, the one at hand.", "Project", choice="project")

PROMPTS: tuple[Prompt, ...] = (
    Prompt(
        "discover",
        "Discover what is known",
        "Find out where the work stands and what is known of it, before anything is changed.",
        (
            _PROJECT,
            PromptArgument("topic", "What it is about, in words.", "Topic"),
            PromptArgument("type", "Only facts of this type.", "Type of facts", choice="type"),
        ),
        "Find out what this memory knows before you change anything. Read only; write nothing.",
        ("memory.search", "graph_onboard", "query_graph"),
        (
            "Call {graph_onboard} with the project for its goal, what is claimed, what is next and the newest evidence."
            " Without a name it answers when there is only one project, and otherwise lists them.",
            "Call {memory.search} with `query` in plain words for the topic (and `type`, if one is given). Read the"
            " best hits whole with {memory.read}. What is marked `stale` or `untrusted` is to be doubted, and said so.",
            "Call {graph_next} with the project, without `claim`, to see which node could be done next; take"
            " {graph_context} of that node for its ancestors, dependencies and evidence.",
            "For the files that the next node is about, call {query_graph} with `operation: context`, the project as"
            " `projectId`, and `paths`. Read the knowledge of each file before the file itself.",
            "Where it matters who decided something and why, call {memory.lineage} with the entity's id.",
        ),
        "Then report in a few lines: the goal, where it stands, the one node you would take next and why, what is"
        " known of its files, and what is missing, stale or contradictory. Name the ids. Do not begin to work.",
    ),
    Prompt(
        "plan",
        "Plan the work",
        "Turn a goal into a graph of small, checkable pieces of work, on the ground of what is known.",
        (
            PromptArgument("goal", "What is to be reached.", "Goal", is_required=True),
            _PROJECT,
        ),
        "Plan the work for this goal, and write the plan into the memory. Do not carry it out.",
        ("graph_plan",),
        (
            "Look before you plan: {memory.search} with the goal's words for decisions and constraints that hold.",
            "Open the project with {graph_open} (`project`, and `goal` if it is new), and see with {graph_query} what"
            " is planned already: extend that, and plan nothing twice.",
            "For each area that the goal touches, call {query_graph} with `operation: search` or, for known files,"
            " `operation: context`, and use the knowledge you find in the summaries.",
            "Write the plan with one call of {graph_plan}: each node with `ref`, `parent_ref`, a `summary` that says"
            " how one sees that it is done, `depends_on` where the order matters, and `context_links` to its files."
            " Keep leaves small enough for one sitting.",
            "Files of the plan that no atom covers come back as `unmatchedPaths`: make molecules and atoms for those"
            " areas with {manage_graph}, with globs in `paths`, as far as you know anything of them.",
            "Record decisions that you took on the way with {memory.write}, each with a `reason`.",
        ),
        "Then show the person the plan as a short tree with ids, the open questions, and the nodes that can start now.",
    ),
    Prompt(
        "wrap-up",
        "Wrap up",
        "Leave what was learnt and done in the memory, so that the next session can go on.",
        (
            _PROJECT,
            PromptArgument("paths", "Files that were changed, separated by commas.", "Changed files", choice="path"),
        ),
        "Wrap up this session: what was done and learnt goes into the memory, nothing is left half claimed.",
        ("memory.write", "graph_update", "manage_graph"),
        (
            "List the files that this session changed, and what was learnt that the code does not say.",
            "For each node that you claimed: if it is done and checked, resolve it with {graph_update} (`resolved:"
            " true`, with `add_evidence` naming the commit or the test); if it is not, write in its `state` how far it"
            " came, and give the claim back by setting its properties `_claimed_by` and `_claimed_at` to null.",
            "Add what was found to be missing as new nodes with {graph_plan}.",
            "Ask {query_graph} with `operation: context` which atoms cover the changed files. Update the knowledge of"
            " those that are no longer right, and their globs where files moved, with {manage_graph}; make an atom for"
            " a new area; set `pin` on what you checked against the files.",
            "Say what changed in an area, and why, with {manage_changelog} (`operation: append`).",
            "Write decisions, constraints and surprises with {memory.write}, one fact a node, each with a `reason`;"
            " {memory.search} first, and correct what is there rather than writing it again.",
        ),
        "Then tell the person in a few lines what was recorded (ids), what is still open, and what comes next. Record"
        " nothing that is not true, and no secrets.",
    ),
)


class Prompts:
    """Those that make sense with the tools that are on."""

    def __init__(self, offer: Offer) -> None:
        self._offer = offer
        self._by_name = {each.name: each for each in PROMPTS if any(map(offer.tools.find, each.needs))}

    def __bool__(self) -> bool:
        return bool(self._by_name)

    @property
    def listed(self) -> list[JsonObject]:
        return [
            {
                "name": each.name,
                "title": each.title,
                "description": each.description,
                "arguments": [
                    {"name": taken.name, "description": taken.description, "required": taken.is_required}
                    for taken in each.arguments
                ],
            }
            for each in self._by_name.values()
        ]

    def get(self, name: str, given: Mapping[str, str], client: str | None) -> JsonObject:
        """{description, messages}. Raises InvalidArgument with every fault."""
        prompt = self._find(name)
        _check(prompt, given)
        text = self._text(prompt, given, client)
        return {
            "description": prompt.description,
            "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
        }

    def argument(self, name: str, argument: str) -> PromptArgument:
        """Raises InvalidArgument."""
        prompt = self._find(name)
        found = next((each for each in prompt.arguments if each.name == argument), None)
        if found is None:
            raise _invalid(f"prompt '{prompt.name}' has no argument of this name")
        return found

    def _find(self, name: str) -> Prompt:
        prompt = self._by_name.get(name)
        if prompt is None:
            raise _invalid(f"there is no prompt of this name; the prompts are {', '.join(self._by_name)}")
        return prompt

    def _text(self, prompt: Prompt, given: Mapping[str, str], client: str | None) -> str:
        said = [f"- {each.words}: {given[each.name].strip()}" for each in prompt.arguments if given.get(each.name)]
        steps = [self._named(step, client) for step in prompt.steps if self._is_on(step)]
        numbered = [f"{number}. {step}" for number, step in enumerate(steps, 1)]
        return "\n\n".join(filter(None, [prompt.opening, "\n".join(said), "\n".join(numbered), prompt.closing]))

    def _is_on(self, step: str) -> bool:
        return all(self._offer.tools.find(name) is not None for name in tools_of(step))

    def _named(self, step: str, client: str | None) -> str:
        for name in tools_of(step):
            entry = self._offer.tools.find(name)
            shown = underscored(name) if entry is None else listed_name(entry, self._offer.tool_names, client)
            step = step.replace(f"{{{name}}}", f"`{shown}`")
        return step


def tools_of(step: str) -> list[str]:
    """Those that it names in braces; what else stands in braces has quotes or blanks in it."""
    inside = [part.partition("}")[0] for part in step.split("{")[1:]]
    return [each for each in inside if each.replace(".", "_").isidentifier()]


def _check(prompt: Prompt, given: Mapping[str, str]) -> None:
    known = {each.name for each in prompt.arguments}
    problems = [
        *(f"field 'arguments.{name[:100]}' is not allowed" for name in given if name not in known),
        *(
            f"field 'arguments.{each.name}' is required"
            for each in prompt.arguments
            if each.is_required and not given.get(each.name, "").strip()
        ),
        *(
            f"field 'arguments.{name}' must have at most {ARGUMENT_CHARACTERS_MAX} characters"
            for name, value in given.items()
            if name in known and len(value) > ARGUMENT_CHARACTERS_MAX
        ),
    ]
    if problems:
        raise InvalidArgument("; ".join(problems[:50]), problems=problems[:50])


def _invalid(problem: str) -> InvalidArgument:
    return InvalidArgument(problem, problems=[problem])
