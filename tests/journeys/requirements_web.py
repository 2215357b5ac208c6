"""The promises of the pages for people."""

from __future__ import annotations

_ENTITY = "tests/server/web/test_entity.py::"
_SEARCH = "tests/server/web/test_search.py::"
_OVERVIEW = "tests/server/web/test_overview.py::"
_HOSTILE = "tests/server/web/test_hostile.py::"
_ALL = "tests/server/web/test_responses.py::"

WEB_REQUIREMENTS: tuple[tuple[str, str, str], ...] = (
    ("web, first visit", "an empty memory says how to connect a client",
     _OVERVIEW + "test_the_first_visit_says_how_to_begin"),
    ("web, overview", "what there is by vocabulary and type, and what was written last",
     _OVERVIEW + "test_it_shows_what_there_is_and_what_was_written"),
    ("web, stale knowledge", "the overview lists the knowledge whose files changed",
     _OVERVIEW + "test_it_shows_the_knowledge_whose_files_changed"),
    ("web, search", "one search over every vocabulary",
     _SEARCH + "test_words_find_all_vocabularies"),
    ("web, facets", "hits are narrowed by type, author, time and flag",
     _SEARCH + "test_hits_are_narrowed_by_type_author_time_and_flag"),
    ("web, entity", "what an entity says, and who set each attribute",
     _ENTITY + "test_it_says_what_is_so_and_who_set_it"),
    ("web, moments", "an entity at any moment, later commits greyed",
     _ENTITY + "test_a_moment_shows_what_was_so_and_greys_what_came_later"),
    ("web, slider", "the slider works without a script",
     _ENTITY + "test_the_slider_is_a_form_whose_places_have_addresses"),
    ("web, lineage", "every commit with what it changed",
     _ENTITY + "test_its_history_has_the_change_of_each_commit"),
    ("web, exports", "lineage as JSON, CSV and OpenLineage",
     _ENTITY + "test_its_lineage_is_exported"),
    ("web, JSON", "every page is had as JSON",
     _ALL + "test_every_page_is_had_as_json"),
    ("web, escaping", "what agents write is text in every field",
     _HOSTILE + "test_no_field_is_more_than_text"),
    ("web, markdown", "markdown is rendered and nothing else",
     _HOSTILE + "test_markdown_is_rendered_and_nothing_else"),
    ("web, policy", "what policy withholds is not there",
     _HOSTILE + "test_what_policy_withholds_is_not_there"),
    ("web, denials", "what may not be read is as what does not exist",
     _HOSTILE + "test_what_may_not_be_read_is_as_what_does_not_exist"),
    ("web, tenants", "another tenant sees nothing",
     _HOSTILE + "test_another_tenant_sees_nothing_of_it"),
    ("web, changes", "nothing changes without the token of a page",
     _ALL + "test_nothing_changes_without_the_token_of_a_page"),
    ("web, origins", "other pages read nothing of ours",
     _ALL + "test_other_pages_read_nothing_of_ours"),
)  # fmt: skip
