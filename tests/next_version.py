"""The program as a later version of it may be: everything that can be built again has another format.

`python -m tests.next_version serve …` is `tallystick serve …` of that version.
"""

from __future__ import annotations

from tallystick.cli import main
from tallystick.extensions.ontology.views import views_db
from tallystick.extensions.vectors import projection as vectors
from tallystick.projections.text import projection as text
from tallystick.state import snapshot

if __name__ == "__main__":
    text._VERSION += 1
    vectors._VERSION += 1
    views_db.VERSION += 1
    snapshot.FORMAT += 1
    main()
