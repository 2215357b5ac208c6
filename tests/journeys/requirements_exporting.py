"""The promises of exporting in the forms of other programs, and the tests that show them."""

from __future__ import annotations

_EXPORTING = "tests/extensions/exporters/test_exporting.py::"
_VAULT = "tests/extensions/exporters/test_vault.py::"
_OKF = "tests/extensions/exporters/test_okf.py::"

EXPORTING_REQUIREMENTS: tuple[tuple[str, str, str], ...] = (
    ("export-okf", "in the Open Knowledge Format every concept has a type and every link leads to a file",
     _OKF + "test_every_concept_has_a_type_and_every_link_leads_to_a_file"),
    ("export-okf-words", "sources, authors, verification, status and staleness are said in the words of that format",
     _OKF + "test_where_it_comes_from_and_whether_it_holds_is_said_in_the_words_of_the_form"),
    ("export-vault", "a vault is read back by our own importer with the same entities",
     _VAULT + "test_our_own_importer_reads_back_the_same_entities"),
    ("export-vault-anything", "whatever entities say, their ids, types and edges are read back",
     _VAULT + "test_whatever_entities_say_their_ids_types_and_edges_are_read_back"),
    ("export-vault-texts", "what an agent wrote as text is no edge and no front matter",
     _VAULT + "test_what_an_agent_wrote_as_text_is_no_edge_and_no_front_matter"),
    ("export-server-memory", "server-memory reads what is exported for it",
     "tests/extensions/exporters/test_server_memory.py::test_server_memory_reads_it"),
    ("export-graphml", "GraphML is whole XML, and says the same whatever is written",
     "tests/extensions/exporters/test_graphml.py::test_whatever_is_written_the_xml_is_whole_and_says_the_same"),
    ("export-mermaid", "a plan is a flowchart with states, claims and dependencies",
     "tests/extensions/exporters/test_mermaid.py::test_a_plan_shows_states_claims_and_dependencies"),
    ("export-mermaid-labels", "what a summary says is never syntax of Mermaid",
     "tests/extensions/exporters/test_mermaid.py::test_what_a_summary_says_is_never_syntax"),
    ("export-trust", "the redacted stays so, the recalled says so, the deleted is not there, in every form",
     _EXPORTING + "test_the_redacted_stays_so_the_recalled_says_so_and_the_deleted_is_not_there"),
    ("export-as-of", "a moment of the past is exported as it was",
     _EXPORTING + "test_a_moment_of_the_past_is_exported_as_it_was"),
    ("export-project", "one project alone is exported with what hangs on it",
     _EXPORTING + "test_one_project_alone_with_what_hangs_on_it"),
    ("export-names", "no id leaves its directory or means something to a file system",
     "tests/extensions/exporters/test_file_names.py::test_no_id_leaves_its_directory_or_means_something_to_a_file_system"),
    ("export-whole", "an export that ends early leaves what was there",
     _EXPORTING + "test_one_that_ends_early_leaves_what_was_there"),
    ("export-foreign-directory", "force replaces no directory that is not an export",
     _EXPORTING + "test_force_replaces_no_directory_that_is_not_an_export"),
    ("export-losses", "what a form cannot hold is listed with how often and examples",
     _EXPORTING + "test_one_type_alone_and_edges_to_others_are_told"),
)  # fmt: skip
