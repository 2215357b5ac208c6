"""The policy on the command line: check one, test it, explain a decision, replay the audit log through another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tallystick.cli.options import Base, Json, Tenant, command_group, settled
from tallystick.cli.output import Styled, emit, note, say, table, write
from tallystick.operations import counted

if TYPE_CHECKING:
    from tallystick.policy.policy_tests import Tested

commands = command_group("Check, test, explain and try out policies.")

File = Annotated[str, typer.Argument(metavar="FILE", help="A .rego file, a directory of them, or a shipped policy.")]
Since = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="Only what was decided from this time on.")
]  # fmt: skip
Chosen = Annotated[
    str,
    typer.Option("--policy", metavar="FILE", help="A .rego file, a directory of them, or single-user, rbac, closed."),
]


@commands.command("check")
def check(file: File, json: Json = False) -> None:
    """Load a policy, ask it about every action, and run its tests.

    Leaves with 1 when it cannot be used or a test fails. Notes are what its author may not have meant.

    \b
    Examples:
      tallystick policy check rbac
      tallystick policy check ./policies
    """
    import msgspec

    from tallystick.operations import policy

    examined = policy.check(file)
    if json:
        emit({"passed": examined.passed, **msgspec.to_builtins(examined)})
    elif examined.problem is not None:
        say(Styled("refused:", fg="red", bold=True), f" {examined.problem}", err=True)
    else:
        _show_tests(examined.tests)
        for remark in examined.notes:
            say(Styled("note:", fg="yellow"), f" {remark}")
        say(f"{'good' if examined.passed else 'tests fail'}: {examined.policy_version}")
    if not examined.passed:
        raise typer.Exit(1)


@commands.command("test")
def run(
    files: Annotated[list[str] | None, typer.Argument(metavar="[FILE]...", show_default=False)] = None,
    json: Json = False,
) -> None:
    """Run the tests of policies: every rule test_… in *_test.rego. Without a FILE, those of the shipped ones.

    Leaves with 1 when one fails or there is none.

    \b
    Examples:
      tallystick policy test
      tallystick policy test ./policies
    """
    from tallystick.operations import policy

    tested = policy.run(files or [])
    passed = bool(tested) and all(test.passed for test in tested)
    if json:
        emit({"passed": passed, "tests": tested})
    else:
        _show_tests(tested)
    if not passed:
        raise typer.Exit(1)


@commands.command("explain")
def explain(
    actor: Annotated[str | None, typer.Option("--actor", help="Who asks.")] = None,
    action: Annotated[str, typer.Option("--action", help="READ, WRITE, DELETE or SEARCH.")] = "READ",
    role: Annotated[list[str] | None, typer.Option("--role", help="A role of theirs; may be repeated.")] = None,
    resource: Annotated[str | None, typer.Option("--resource", metavar="ID", help="What it is about.")] = None,
    resource_type: Annotated[str | None, typer.Option("--type", help="Its type.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Who made it.")] = None,
    owner_tenant: Annotated[str | None, typer.Option("--owner-tenant", help="Whose memory it is in.")] = None,
    tool: Annotated[str | None, typer.Option("--tool", help="The tool that is called.")] = None,
    written_type: Annotated[str | None, typer.Option("--written-type", help="The type that a WRITE gives it.")] = None,
    seq: Annotated[
        int | None, typer.Option("--seq", help="Instead: the question of this line of the audit log.")
    ] = None,
    policy: Chosen = "rbac",
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Why would this be allowed or denied: the rules that held, and the lines that made them.

    The question is put together from options, or is the one of a line in the audit log.
    Leaves with 0 if it is allowed, with 5 if it is denied.

    \b
    Examples:
      tallystick policy explain --actor bob --role writer --action DELETE --resource plan --owner alice
      tallystick policy explain --seq 42 --policy ./policies
    """
    from tallystick.operations import policy as operations

    settings = settled(base=base, tenant=tenant)
    if seq is not None:
        explained = operations.explain_line(policy, settings.system / "audit", seq)
    else:
        question = operations.Question(
            settings.tenant, actor or settings.agent_identity, action, role or [], resource, resource_type,
            owner, owner_tenant, tool, written_type,
        )  # fmt: skip
        explained = operations.explain(policy, question)
    decision = explained.decision
    if json:
        emit(explained)
    else:
        verdict = ("allowed", "green") if decision.allowed else ("denied", "red")
        say(Styled(verdict[0], fg=verdict[1], bold=True), f": {decision.reason} [{decision.policy_version}]")
        table(
            ("rule", "value", "because of"),
            ((held.rule, "(undefined)" if held.value is None else held.value, ", ".join(held.fired))
             for held in explained.rules),
        )  # fmt: skip
    if not decision.allowed:
        raise typer.Exit(5)


@commands.command("replay")
def replay(file: File, since: Since = None, json: Json = False, base: Base = None, tenant: Tenant = None) -> None:
    """Put every question of the audit log to another policy, and tell what it would have decided otherwise.

    A dry run: nothing is changed. Leaves with 0 if all would have been decided alike, with 1 if not.

    \b
    Examples:
      tallystick policy replay ./policies
      tallystick policy replay rbac --since 2025-01-01 --json
    """
    import msgspec

    from tallystick.operations import policy

    found = policy.replay(file, settled(base=base, tenant=tenant).system / "audit", since)
    if json:
        emit({"same": found.same, **msgspec.to_builtins(found), "changed_omitted": found.changed_omitted})
    else:
        if found.changed:
            columns = ("seq", "time", "actor", "action", "resource", "was", "would be", "because")
            table(columns, (
                (each.seq, each.timestamp, each.actor, each.action, each.resource, _WORDS[each.decision],
                 _WORDS[each.decision_now], each.reason_now)
                for each in found.changed
            ))  # fmt: skip
        if found.changed_omitted:
            note(f"the first {len(found.changed)} are listed; {found.changed_omitted} more are only counted")
        skipped = f", {found.skipped} skipped that no policy decided" if found.skipped else ""
        say(
            f"{counted(found.asked, 'decision')} asked again{skipped}: "
            f"{found.denied_now} would be denied, {found.allowed_now} would be allowed"
        )
    if not found.same:
        raise typer.Exit(1)


@commands.command("show")
def show(file: File) -> None:
    """Print a policy, to begin one's own from it.

    \b
    Examples:
      tallystick policy show rbac > policy.rego
    """
    from tallystick.policy.bundle import find_bundle

    for module in find_bundle(file).modules:
        write(module.text)


_WORDS = {True: "allowed", False: "denied"}


def _show_tests(tested: list[Tested]) -> None:
    for test in tested:
        if not test.passed:
            say(Styled("FAIL", fg="red", bold=True), f" {test.name}: {test.problem}", err=True)
    failed = sum(not test.passed for test in tested)
    say(f"{counted(len(tested), 'test')}, {failed} failed")
