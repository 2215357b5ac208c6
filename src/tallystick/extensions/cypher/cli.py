"""The command that asks an engine: cypher."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tallystick.cli.options import Base, Json, Tenant, existing
from tallystick.cli.output import emit, note, table
from tallystick.extensions.cypher.operation import ROWS_MAX, SECONDS
from tallystick.operations import counted


def cypher(
    question: Annotated[str, typer.Argument(help="In Cypher; - reads it from standard input.")],
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, max=3600, help="How long it may take.")] = SECONDS,
    limit: Annotated[int, typer.Option("--limit", min=1, help="More rows than these are refused.")] = ROWS_MAX,
    as_it_is: Annotated[
        bool, typer.Option("--as-it-is", help="Ask the engine as it is, without bringing it to the head first.")
    ] = False,
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Ask the engine at `cypher_url` a question of your own, in Cypher.

    The engine has a graph for each tenant, follows the log, and lets a question only read. Every entity is a node
    (:Entity {id, type, updated_at, updated_by, lamport, attrs}), every edge [:EDGE {id, rel, …}]. `attrs` is JSON;
    attributes with plain names and values are properties as well: n.title, n.status.

    \b
    Examples:
      tallystick cypher "MATCH (n:Entity {type: 'note'}) RETURN n.id, n.title LIMIT 10"
      tallystick cypher "MATCH (a {id: 'api'})<-[:EDGE*1..6]-(b) RETURN DISTINCT b.id"
      tallystick cypher "MATCH (a)-[e:EDGE {rel: 'cites'}]->(b) RETURN b.id, count(a) AS n ORDER BY n DESC LIMIT 5"
      tallystick cypher --json - < question.cypher
    """
    from tallystick import app
    from tallystick.extensions.cypher.operation import ask

    context = app.operation_context(existing(base=base, tenant=tenant))
    text = sys.stdin.read() if question == "-" else question
    found = ask(context, text, seconds=seconds, rows_max=limit, catches_up=not as_it_is)
    if json:
        emit(found)
        return
    table(found.columns, found.rows)
    note(f"{counted(len(found.rows), 'row')} from {found.engine}, at position {found.position}")
