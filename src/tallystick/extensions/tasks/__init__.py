"""The task orchestrator: features, tasks, sections, pipelines and templates."""
