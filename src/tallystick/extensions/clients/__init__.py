"""The clients: which programs there are that agents run in, where they keep their configuration, and how one entry is
put into such a file and taken out again.

Knows the clients' formats and nothing of ours but the names of our commands. Files are read and written by
`init.py`; what is here are tables and pure functions of text.
"""
