"""The files toolset: plain files of the base and content files."""
