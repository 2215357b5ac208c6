"""The promises about agents as people run them: what reaches the model of Claude Code and of Codex."""

from __future__ import annotations

_CONNECTED = "tests/agents/connected.py::"
_INSTALLED = "tests/agents/installed.py::"
_HOOKED = "tests/agents/hooked.py::"
_SKILLS = "tests/plugins/test_skills.py::"
_MANIFESTS = "tests/plugins/test_manifests.py::"

AGENTS_REQUIREMENTS: tuple[tuple[str, str, str], ...] = (
    ("agents, Claude Code, connected", "Claude Code lists the server as connected",
     _CONNECTED + "test_claude_lists_the_server_as_connected"),
    ("agents, Claude Code, offered", "its model is offered search, and told the other tools' names and how to use them",
     _CONNECTED + "test_claude_offers_search_and_names_the_other_tools_with_the_instructions"),
    ("agents, Claude Code, mistake", "its model is shown what is wrong with a call, and then writes",
     _CONNECTED + "test_claude_shows_the_model_its_mistake_and_writes"),
    ("agents, Codex, connected", "Codex lists the server that its own command put in",
     _CONNECTED + "test_codex_lists_the_server"),
    ("agents, Codex, mistake", "its model finds the tools by words, is shown its mistake, and then writes",
     _CONNECTED + "test_codex_finds_the_tools_shows_the_model_its_mistake_and_writes"),
    ("agents, Codex, code", "a model that writes code instead calls the tools by their names",
     _CONNECTED + "test_codex_lets_a_model_that_writes_code_call_the_tools"),
    ("agents, init", "what init wrote connects both agents and instructs their models until init takes it out",
     _CONNECTED + "test_what_init_wrote_connects_and_instructs_until_init_takes_it_out"),
    ("agents, loopback", "while agents are tested nothing leaves the machine",
     _CONNECTED + "test_nothing_leaves_the_machine"),
    ("plugin, valid", "Claude Code's own check of plugins and marketplaces finds nothing wrong",
     _INSTALLED + "test_claude_finds_nothing_wrong"),
    ("plugin, lint", "skillsaw finds nothing wrong with plugin, marketplace, skills and the portable form",
     _INSTALLED + "test_skillsaw_finds_nothing_wrong"),
    ("plugin, Claude Code, out", "the plugin's server is connected until Claude Code's own command takes it out",
     _INSTALLED + "test_claude_connects_to_the_server_of_the_plugin_until_it_is_taken_out"),
    ("plugin, Claude Code, skills", "its model reads of the skills, opens one, and writes into the repository's memory",
     _INSTALLED + "test_claude_is_told_of_the_skills_reads_one_and_writes_into_the_memory_of_the_repository"),
    ("plugin, Codex, skills", "Codex's model is told of the skills and writes into the repository's memory",
     _INSTALLED + "test_codex_is_told_of_the_skills_and_writes_into_the_memory_of_the_repository"),
    ("plugin, Codex, out", "the plugin's server is listed until Codex's own command takes it out",
     _INSTALLED + "test_codex_lists_the_server_of_the_plugin_until_it_is_taken_out"),
    ("hooks, once", "digest, recall and the knowledge of a file reach the models, within budget, once a session",
     _HOOKED + "test_the_digest_the_recall_and_the_knowledge_of_a_file_reach_the_model_once"),
    ("hooks, code", "what code does to a file brings its knowledge, too",
     _HOOKED + "test_what_code_does_to_a_file_is_seen_too"),
    ("hooks, quiet", "a prompt that the memory knows nothing of is left alone",
     _HOOKED + "test_a_prompt_that_the_memory_knows_nothing_of_is_left_alone"),
    ("hooks, stop", "an agent that stops with work that it claimed is told so once, and not again",
     _HOOKED + "test_an_agent_that_stops_with_work_that_it_claimed_is_told_so_once"),
    ("hooks, compaction", "what Claude Code summarizes keeps the ids, and the digest comes again",
     _HOOKED + "test_what_claude_summarizes_keeps_the_ids_and_the_digest_comes_again"),
    ("hooks, under fire", "the memory locked, away, damaged, slow or not installed, the agents go on as without it",
     _HOOKED + "test_the_agent_goes_on_as_without_a_memory"),
    ("plugin, hooks", "each host starts the hook for itself at every event that it listens to",
     _MANIFESTS + "test_each_host_starts_the_hook_for_itself_at_every_event_that_it_listens_to"),
    ("plugin, one", "every host is told the same name, version and description",
     _MANIFESTS + "test_every_host_is_told_the_same_name_version_and_description"),
    ("skills, real", "a skill names only tools, arguments and answers that there are",
     _SKILLS + "test_a_skill_names_only_tools_arguments_and_answers_that_there_are"),
    ("skills, work", "what the skills tell an agent to call succeeds as it stands there",
     _SKILLS + "test_what_the_skills_tell_an_agent_to_call_succeeds_as_it_stands_there"),
    ("skills, short", "a skill costs at most a thousand tokens, and all their descriptions 350",
     _SKILLS + "test_a_skill_is_read_in_no_time"),
)  # fmt: skip
