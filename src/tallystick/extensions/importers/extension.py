"""The contributions of this extension."""

from __future__ import annotations

from tallystick.extension import Extension, Source

_HERE = "tallystick.extensions.importers"
EXTENSION = Extension(
    name="importers",
    handlers={"import --from": f"{_HERE}.cli:import_from"},
    sources=(
        Source("server-memory", "memory.jsonl of the MCP reference server", f"{_HERE}.server_memory"),
        Source("beads", "issues.jsonl of 'bd export', or the directory with .beads", f"{_HERE}.beads"),
        Source("task-master", "tasks.json, or the directory with .taskmaster", f"{_HERE}.task_master"),
        Source("backlog-md", "the directory of a project of Backlog.md", f"{_HERE}.backlog_md"),
        Source("swimlanes", "graph.db", f"{_HERE}.swimlanes"),
        Source("claude-mem", "claude-mem.db or its JSON export, or ~/.claude-mem", f"{_HERE}.claude_mem"),
        Source("claude-code", "a memory directory, or ~/.claude for those of all projects", f"{_HERE}.claude_code"),
        Source("basic-memory", "the directory of a project", f"{_HERE}.basic_memory"),
        Source("markdown", "a directory of notes with [[links]], such as a vault", f"{_HERE}.markdown_vault"),
    ),
)
